"""Tests of salsa.uncertainty."""
