"""Model files: the archive and what it holds of a model."""
