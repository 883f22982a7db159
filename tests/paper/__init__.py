"""Tests of salsa.paper."""
