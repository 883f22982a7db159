"""BLAS and LAPACK on one thread, because their last bits depend on how many there are."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """Of the whole process: the first fit sets it, and the last of those that run at the same time lifts it.

    ``threadpool_limits`` would not do. Before threadpoolctl 3.8 the first fit to end lifts the limit for all; from then
    on only one thread is listened to, and what the others ask for is ignored without a word.
    """

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.before: list[tuple[Any, int]] = []

    def take(self) -> None:
        with self.lock:
            if self.users == 0:
                self.before = [(library, library.num_threads) for library in _libraries()]
            for library in _libraries():  # every time: a BLAS on OpenMP has a limit for each thread
                _set_threads(library, 1)
            self.users += 1

    def give_back(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                for library, threads in self.before:
                    _set_threads(library, threads)

    def in_forked_child(self) -> None:
        """Another thread of the parent may have held the lock. Its fits stay counted: the limit stays, no bit moves."""
        self.lock = threading.Lock()


@cache
def _libraries() -> list[Any]:
    """Those of NumPy and SciPy, which are there when a fit begins. Found once: looking takes milliseconds."""
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _set_threads(library: Any, threads: int) -> None:
    """Whichever thread asks."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.in_forked_child)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Also where several Python threads are in here at the same time, and leave in any order."""
    _limit.take()
    try:
        yield
    finally:
        _limit.give_back()
