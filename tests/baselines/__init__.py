"""The rivals of the paper."""
