"""The number of threads that a compiled loop gets."""

from __future__ import annotations

import numbers
import os
import re
from typing import Any

MOST_THREADS = 4096  # as in the core


def thread_count(requested: int | None, n: int, m: int, D: int) -> int:
    """Return the requested number of threads (default: all), at most one per million values."""
    available = max_threads() if requested is None else requested
    return max(1, min(available, n * m * D // 1_000_000))


def max_threads() -> int:
    """Return the number that the environment variable OMP_NUM_THREADS says, else the cores that this process may use.

    The variable is the one by which users, loky and Dask limit the threads of most numerical libraries. It may be a
    list "4,2" for nested loops, whose first number counts; anything else is ignored.
    """
    first = re.match(r"\s*(\d+)\s*(,|$)", os.environ.get("OMP_NUM_THREADS", ""))
    if first is not None and int(first[1]) > 0:
        return min(int(first[1]), MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parse_threads(n_jobs: Any) -> int | None:
    """Parse n_jobs as scikit-learn does: -1 is all threads, -2 all but one; None leaves it to ``thread_count``."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} must be None or an integer other than 0; -1 means all threads")
    count = int(n_jobs)
    return count if count > 0 else max(1, max_threads() + 1 + count)
