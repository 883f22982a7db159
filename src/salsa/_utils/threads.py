"""The number of threads that a compiled loop gets."""

from __future__ import annotations

import numbers
import os
from typing import Any

from salsa import _core

_forked = False  # a child of fork would wait for the parent's OpenMP threads, which it does not have


def thread_count(requested: int | None, n: int, m: int, D: int) -> int:
    """Return the requested number of threads (default: all), at most one per million values; 1 after a fork."""
    available = 1 if _forked else _core.max_threads() if requested is None else requested
    return max(1, min(available, n * m * D // 1_000_000))


def parse_threads(n_jobs: Any) -> int | None:
    """Parse n_jobs as scikit-learn does: -1 is all threads, -2 all but one; None leaves it to ``thread_count``."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} must be None or an integer other than 0; -1 means all threads")
    count = int(n_jobs)
    return count if count > 0 else max(1, _core.max_threads() + 1 + count)


def _remember_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember_fork)
