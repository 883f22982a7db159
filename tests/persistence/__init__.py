"""Tests of salsa.persistence."""
