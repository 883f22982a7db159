"""Tests of salsa.explain."""
