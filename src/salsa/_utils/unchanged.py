"""Models that a failed or interrupted fit leaves as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unchanged_by_failure(model: Any) -> Iterator[None]:
    """Restore the model, fitted before or not, if a fit fails or is interrupted."""
    before = model.__dict__.copy()
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise
