"""Symmetric linear algebra that never fails: an ill-conditioned matrix gets the smallest jitter that works."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpotrf

from salsa import _core
from salsa._utils.arrays import Floats
from salsa._utils.lapack import LARGE, cholesky, eigen

Tile = NDArray[np.floating[Any]]  # float32 or float64
_JITTERS = (0.0, 1e-15, 1e-13, 1e-11, 1e-9)


def solve_positive(A: Floats, B: Floats) -> tuple[Floats, str | None]:
    """Return A^-1 B for symmetric A that is positive definite up to rounding, and a note if A had to be changed.

    1. Try Cholesky. 2. Add the smallest jitter of a ladder, relative to the mean diagonal. 3. Use a pseudo-inverse.
    """
    mean = float(np.trace(A)) / len(A)
    for jitter in _JITTERS:
        try:
            factor = cho_factor(A + jitter * mean * np.eye(len(A)) if jitter else A, lower=True, check_finite=False)
        except LinAlgError:
            continue
        note = f"added {jitter:.0e} of the mean diagonal to factorise an ill-conditioned matrix" if jitter else None
        return cho_solve(factor, B, check_finite=False), note
    values, Q = symmetric_eigen(A)
    keep = values > np.finfo(float).eps * len(A) * values[-1]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=keep)
    return (Q * inverse) @ (Q.T @ B), "used a pseudo-inverse for a singular matrix"


def positive_factor(A: Floats) -> Floats:
    """Return lower L, in Fortran order, with L L' = A (n, n) plus the smallest jitter that works. A is overwritten."""
    diagonal = A.diagonal().copy()
    mean = float(diagonal.mean()) or 1.0
    for jitter in (*_JITTERS, 1e-6, 1e-3):
        np.fill_diagonal(A, diagonal + jitter * mean)
        L, failed = _cholesky(A)
        if not failed:
            return L
    np.fill_diagonal(A, diagonal + np.abs(A).sum(axis=1))  # positive definite by Gershgorin's theorem
    return _cholesky(A)[0]


def _cholesky(A: Floats) -> tuple[Floats, int]:
    if len(A) < LARGE:
        L, failed = dpotrf(A.T, lower=1)
        return L, failed
    L = np.array(A.T, order="F")
    return L, cholesky(L)


def symmetric_eigen(A: Floats, *, overwrite: bool = False) -> tuple[Floats, Floats]:
    """Return eigenvalues (ascending) and eigenvectors by divide and conquer, or by QR iterations if that fails.

    A 1 x 1 matrix is solved here: divide and conquer refuses it before SciPy 1.14.
    """
    if len(A) == 1:
        return A[0].copy(), np.ones((1, 1))
    try:
        if len(A) >= LARGE:
            Q = A if overwrite and A.flags.f_contiguous else np.array(A, order="F")
            return eigen(Q), Q
        return eigh(A, driver="evd", overwrite_a=overwrite, check_finite=False)
    except LinAlgError:
        return eigh(A, driver="ev", check_finite=False)


def tile_products(tile: Tile, V: Tile, U: Tile | None) -> tuple[Tile, Tile]:
    """Return V T' (c, rows) and, with U (c, rows), U T (c, columns), by one reading of the tile T (rows, columns)."""
    return _core.tile_product(tile, V, U)
