"""Tests of salsa.solvers."""
