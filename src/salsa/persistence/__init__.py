"""Model files: the archive format, and models as its header and arrays."""
