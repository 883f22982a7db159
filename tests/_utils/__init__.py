"""Tests of salsa._utils."""
