"""Tests of salsa.learning."""
