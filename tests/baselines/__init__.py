"""Tests of the rivals."""
