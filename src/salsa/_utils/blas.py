"""One thread for BLAS and LAPACK, whose last bits depend on the number of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """The limit of one BLAS thread in the whole process: the first of concurrent fits sets it, the last one lifts it.

    ``threadpool_limits`` is not enough: before threadpoolctl 3.8 the first fit that ends lifts the limit for all fits.
    Later versions obey a single Python thread and silently ignore all others.
    """

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.before: list[tuple[Any, int]] = []

    def take(self) -> None:
        with self.lock:
            if self.users == 0:
                self.before = [(library, library.num_threads) for library in _libraries()]
            for library in _libraries():  # every time: a BLAS built on OpenMP has one limit per thread
                _set_threads(library, 1)
            self.users += 1

    def give_back(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                for library, threads in self.before:
                    _set_threads(library, threads)

    def in_forked_child(self) -> None:
        """Replace the lock, which another thread of the parent may hold. Fits stay counted, so the limit stays."""
        self.lock = threading.Lock()


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of NumPy and SciPy, which are loaded before a fit. The search takes milliseconds."""
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads, also from Python threads that threadpoolctl ignores."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.in_forked_child)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread; several Python threads may enter at the same time and leave in any order."""
    _limit.take()
    try:
        yield
    finally:
        _limit.give_back()


def one_blas_thread_until(over: threading.Event) -> None:
    """Limit BLAS to one thread until an event, without waiting for it."""

    def limited() -> None:
        with one_blas_thread():
            taken.set()
            over.wait()

    taken = threading.Event()
    threading.Thread(target=limited, daemon=True).start()
    taken.wait()
