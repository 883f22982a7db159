"""Triangular solves and products for the rows of a matrix, each row by itself.

The bits of a row depend neither on the rows beside it nor on the number of threads, and so no prediction depends on how
a table is cut into chunks. BLAS and ``einsum`` promise no such thing: they have other code for other shapes.
"""

from __future__ import annotations

import numpy as np

from salsa import _core
from salsa._utils.arrays import Floats, for_the_core
from salsa._utils.threads import thread_count

_WORK = 16  # multiplications in the time of one feature of one kernel value
_ROWS = 64  # whose products are in memory at a time


def solve_rows(
    L: Floats, B: Floats, *, transposed: bool = False, overwrite: bool = False, n_threads: int | None = None
) -> Floats:
    """Solve L x = b, or L'x = b, for every row b of B (m, n).

    L (n, n) is lower triangular, and best in LAPACK's order. overwrite: the result may take the place of B.
    """
    X = for_the_core(B) if overwrite else np.array(B, dtype=np.float64, order="C")
    _core.solve(for_the_core(L.T), X, transposed, thread_count(n_threads, len(X), len(L), len(L) // _WORK))
    return X


def times_rows(B: Floats, A: Floats, *, upper: bool = False, n_threads: int | None = None) -> Floats:
    """Return B A' (m, c) for B (m, n) and A (c, n); upper: A is upper triangular, which halves the work."""
    threads = thread_count(n_threads, len(B), B.shape[1], len(A) // _WORK)
    return _core.times(for_the_core(B), for_the_core(A), upper, threads)


def dot_rows(B: Floats, A: Floats) -> Floats:
    """Return the product b'a (m,) of every row of B (m, n) with the row of A (m, n), or with the vector A (n,)."""
    B, A, dots = for_the_core(B), np.broadcast_to(A, B.shape), np.empty(len(B))
    for start in range(0, len(B), _ROWS):
        rows = slice(start, start + _ROWS)
        np.multiply(B[rows], A[rows], order="C").sum(axis=1, out=dots[rows])  # contiguous: NumPy adds up row by row
    return dots
