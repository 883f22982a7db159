"""Names in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def some_of(names: Sequence[Any], most: int = 8) -> str:
    """Return the first names, and dots if there are more."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
