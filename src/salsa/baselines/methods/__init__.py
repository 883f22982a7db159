"""Rivals that are written here because no maintained package has them."""
