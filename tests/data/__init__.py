"""Tests of salsa.data."""
