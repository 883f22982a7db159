"""Helpers that know nothing of the method: every layer may import them."""
