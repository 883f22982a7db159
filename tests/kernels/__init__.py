"""Tests of salsa.kernels."""
