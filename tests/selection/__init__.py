"""Tests of salsa.selection."""
