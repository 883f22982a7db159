"""The restricted marginal likelihood of a kernel matrix K, a noise variance s2 and noise R (``salsa.data.noise``).

With C = K + s2 R and an unpenalised offset, the standardised target y has

    -log p = 1/2 y'My + 1/2 log det C + 1/2 log(1'C^-1 1),   M = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1).

The derivative by C is 1/2 (M - My y'M). The residuals of held-out rows B are (M_BB)^-1 (My)_B: for a single row,
(My)_i / M_ii.

Rows B given rows N have -log p(y_B | y_N) = -log p(y_N, y_B) + log p(y_N). The factor of C of both holds the factor of
the leading rows N.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import UNLOCKED, cholesky, inverse_of_factor
from salsa._utils.linalg import solve_positive
from salsa._utils.weighted import target_variance
from salsa.data.noise import Noise
from salsa.data.splits import Fold
from salsa.learning import Block, Problem

JITTER = 1e-10  # relative to the kernel's diagonal, so that every matrix of the search can be factorised
_EPS = float(np.finfo(np.float64).eps)


class Factorised(NamedTuple):
    """The factor L of C = L L', c = M y (n, q), and ones = C^-1 1 / sqrt(1'C^-1 1) (n,)."""

    L: Floats
    c: Floats
    ones: Floats
    s2: float
    noise: Noise


class Slope(NamedTuple):
    """The derivatives of -log p by K (n, n), all in one triangle, by s2, and by rho."""

    K: Floats
    s2: float
    rho: float


class Evidence:
    """The likelihood of the targets Y (n, q), standardised, with the given noise."""

    def __init__(self, Y: Floats, noise: Noise) -> None:
        w = noise.weight
        self.noise = noise
        self.Y = (Y - w @ Y / w.sum()) / np.sqrt(target_variance(Y, w))

    def some(self, rows: Places) -> Evidence:
        """Return the likelihood of some of the rows, with targets in the same units."""
        part = copy(self)
        part.Y, part.noise = self.Y[rows], self.noise.some(rows)
        return part

    def factorise(self, K: Floats, s2: float, rho: float = 0.0) -> Factorised:
        """Factorise C; K is overwritten."""
        n, noise = len(K), self.noise if rho == self.noise.rho else self.noise.with_rho(rho)
        A = K.T  # K is symmetric: its transpose is K in Fortran order
        A.flat[:: n + 1] += JITTER * A[0, 0]
        noise.add_to(A, s2)
        return self._solved(_factor(A), s2, noise)

    def leading(self, found: Factorised) -> Factorised:
        """Return the factor of these rows, which are the first of more rows whose factor is known."""
        n = len(self.Y)
        return self._solved(np.array(found.L[:n, :n], order="F"), found.s2, self.noise.with_rho(found.noise.rho))

    def _solved(self, L: Floats, s2: float, noise: Noise) -> Factorised:
        Z, _ = dpotrs(L, np.column_stack([self.Y, np.ones(len(L))]), lower=1)
        ones = Z[:, -1] / np.sqrt(Z[:, -1].sum())
        return Factorised(L, Z[:, :-1] - np.outer(ones, ones @ self.Y), ones, s2, noise)

    def value(self, found: Factorised) -> float:
        """Return -log p, up to a constant."""
        q = self.Y.shape[1]
        determinants = np.log(found.L.diagonal()).sum() + np.log(found.ones.sum())  # sum of ones: sqrt(1'C^-1 1)
        return float(0.5 * np.sum(self.Y * found.c) + q * determinants)

    def slope(self, found: Factorised) -> Slope:
        """Return the derivatives of -log p. The factor is overwritten."""
        q, noise = self.Y.shape[1], found.noise
        inverse = _inverse_of(found.L)
        vectors = np.column_stack([np.sqrt(q) * found.ones, found.c])
        M = dsyrk(-1.0, vectors, beta=float(q), c=inverse, lower=1, overwrite_c=1)
        M.flat[:: len(M) + 1] *= 0.5  # off the diagonal an element stands for two: only the diagonal is halved
        by_weights = float(np.sum(M.diagonal() / noise.weight))
        if noise.group is None:
            return Slope(M.T, by_weights, 0.0)
        shared = float(M.diagonal().sum() + M[noise.pairs].sum())
        return Slope(M.T, by_weights + noise.rho * shared, found.s2 * shared)

    def leave_one_out(self, K: Floats, s2: float, rho: float = 0.0) -> Floats:
        """Return the leave-one-out residuals (n, q) of the standardised targets; K is overwritten."""
        _, c, diagonal, _ = self._inverse(K, s2, rho)
        residual: Floats = c / diagonal[:, None]
        return residual

    def held_out(self, K: Floats, s2: float, rho: float, folds: Sequence[Fold]) -> list[Floats]:
        """Return the residuals (scored rows, q) of every fold, of the standardised targets; K is overwritten."""
        inverse, c, diagonal, ones = self._inverse(K, s2, rho)
        found = []
        for B, test in folds:
            if len(B) == 1:
                found.append(c[B] / diagonal[B, None])
                continue
            block = inverse[np.ix_(B, B)]  # rows ascend: the lower triangle stays the lower one
            residual, _ = solve_positive(block - np.outer(ones[B], ones[B]), c[B])
            found.append(residual[test])
        return found

    def _inverse(self, K: Floats, s2: float, rho: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the lower triangle of C^-1, c, the diagonal of M, and the vector `ones`."""
        L, c, ones, *_ = self.factorise(K, s2, rho)
        inverse = _inverse_of(L)
        diagonal = inverse.diagonal()
        # the maximum is for a row that outweighs all others up to rounding
        return inverse, c, np.maximum(diagonal - ones**2, _EPS * diagonal), ones


class Part:
    """The likelihood of a block given earlier rows, whose rows X (m + b, D) come first."""

    def __init__(self, problem: Problem, evidence: Evidence, block: Block | None = None) -> None:
        """Take a block of the problem's rows, or all of them, which are conditional on nothing."""
        if block is None:
            self.X, self.evidence, self.given = problem.X, evidence, 0
            return
        rows, self.given = np.concatenate(block), len(block.given)
        self.X, self.evidence = np.ascontiguousarray(problem.X[rows]), evidence.some(rows)
        self.earlier = evidence.some(block.given)

    def value(self, K: Floats, s2: float, rho: float) -> float:
        """Return -log p(y_B | y_N), up to a constant; K is overwritten."""
        found = self.evidence.factorise(K, s2, rho)
        value = self.evidence.value(found)
        return value - self.earlier.value(self.earlier.leading(found)) if self.given else value

    def value_and_slope(self, K: Floats, s2: float, rho: float) -> tuple[float, Slope]:
        """Return -log p(y_B | y_N), up to a constant, and its derivatives; K is overwritten."""
        m, found = self.given, self.evidence.factorise(K, s2, rho)
        value = self.evidence.value(found)
        if not m:
            return value, self.evidence.slope(found)
        leading = self.earlier.leading(found)
        value -= self.earlier.value(leading)
        earlier, slope = self.earlier.slope(leading), self.evidence.slope(found)
        slope.K[:m, :m] -= earlier.K
        return value, Slope(slope.K, slope.s2 - earlier.s2, slope.rho - earlier.rho)


def _factor(A: Floats) -> Floats:
    """Return the lower factor of A (n, n), which is overwritten if it is in Fortran order."""
    if len(A) < UNLOCKED:
        return dpotrf(A, lower=1, overwrite_a=1)[0]  # type: ignore[no-any-return]
    L = np.asfortranarray(A)
    cholesky(L)
    return L


def _inverse_of(L: Floats) -> Floats:
    """Return the lower triangle of (L L')^-1; L is overwritten."""
    if len(L) < UNLOCKED:
        return dpotri(L, lower=1, overwrite_c=1)[0]  # type: ignore[no-any-return]
    inverse_of_factor(L)
    return L
