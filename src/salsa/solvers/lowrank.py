"""Ridge regression on a few anchors: k(x, x') ~ phi(x)'phi(x'), phi(x) = L^-1 k(Z, x), L L' = k(Z, Z).

1. Anchors Z (r, D) by randomly pivoted Cholesky: a row is drawn with a probability in proportion to what is left of its
   diagonal, in blocks, of which the rows that others make unnecessary are rejected (Epperly, Tropp and Webber, 2024).
2. One pass over the rows, in blocks of any size and on any number of machines, adds up ``Sums`` for every fold.
3. From these, the ridge fit for every alpha, and the exact cross-validation error of this model, cost r^3 and no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk

from salsa.expansion import KernelExpansion
from salsa.kernels import AdditiveKernel, Floats, Places
from salsa.solvers.linalg import positive_factor, symmetric_eigen

BLOCK = 64  # pivots drawn at a time
ROUNDING = 1e-13  # share of the diagonal below which nothing is left of it


@dataclass(frozen=True, eq=False)
class Anchors:
    """Points Z and the features that they give: phi(x)'phi(z) = k(x, z) wherever x or z is one of them."""

    kernel: AdditiveKernel
    points: Floats  # (r, D)
    L: Floats  # (r, r), lower triangular
    left: float  # share of the trace of k that they leave, over the rows they were chosen from

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """phi (m, r), in the order of LAPACK."""
        k = self.kernel(X, self.points, n_threads=n_threads)
        return solve_triangular(self.L, k.T, lower=True, overwrite_b=True, check_finite=False).T

    def expansion(self, theta: Floats, offset: Floats) -> KernelExpansion:
        """The function offset + phi(x)'theta: its coefficients are L^-T theta."""
        coef = solve_triangular(self.L, theta, lower=True, trans=1, check_finite=False)
        return KernelExpansion(self.kernel, self.points, coef, offset)


def anchors_of(expansion: KernelExpansion) -> Anchors:
    """The anchors that a low-rank fit stands on."""
    kernel, points, *_ = expansion.parts
    return Anchors(kernel, points, positive_factor(kernel(points)), np.nan)


def choose_anchors(
    kernel: AdditiveKernel,
    X: Floats,
    rank: int,
    tolerance: float,
    random_state: RandomState,
    *,
    n_threads: int | None = None,
) -> Anchors:
    """At most `rank` of the rows of X, fewer where what is left of the trace falls below `tolerance` of it."""
    n = len(X)
    F, diagonal = np.empty((n, min(rank, n)), order="F"), kernel.diagonal(X)
    left, total, pivots = diagonal.copy(), diagonal.sum(), np.empty(0, dtype=np.intp)
    while len(pivots) < F.shape[1] and left.sum() > min(tolerance, 0.5) * total:
        k = len(pivots)
        drawn = random_state.choice(n, size=min(BLOCK, F.shape[1] - k), p=left / left.sum())
        new = _accepted(np.unique(drawn), kernel, X, F[:, :k], random_state)
        G = kernel(X, X[new], n_threads=n_threads) - F[:, :k] @ F[new, :k].T
        L = positive_factor(G[new])
        F[:, k : k + len(new)] = solve_triangular(L, G.T, lower=True, check_finite=False).T
        left -= np.sum(F[:, k : k + len(new)] ** 2, axis=1)
        left[left < ROUNDING * diagonal] = 0.0
        pivots = np.append(pivots, new)
    pivots = pivots if len(pivots) else np.zeros(1, dtype=np.intp)  # of a kernel that vanishes
    return Anchors(kernel, X[pivots], positive_factor(kernel(X[pivots])), float(left.sum() / total) if total else 0.0)


def _accepted(drawn: Places, kernel: AdditiveKernel, X: Floats, F: Floats, random_state: RandomState) -> Places:
    """Those of the drawn rows that would also have been drawn one after the other: never none."""
    S = kernel(X[drawn]) - F[drawn] @ F[drawn].T
    threshold = random_state.random_sample(len(drawn)) * S.diagonal()
    accepted = []
    for i, row in enumerate(drawn):
        if S[i, i] > threshold[i]:
            accepted.append(row)
            S -= np.outer(S[:, i], S[i] / S[i, i])
    return np.array(accepted if accepted else drawn[:1], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Sums:
    """Of rows with features phi (r,), targets y (q,) and weights: all that ridge regression wants to know of them."""

    weight: float
    x: Floats  # (r,) sum of w phi
    y: Floats  # (q,) of w y
    xx: Floats  # (r, r) of w phi phi'
    xy: Floats  # (r, q) of w phi y'
    yy: Floats  # (q,) of w y^2

    @classmethod
    def of(cls, F: Floats, Y: Floats, w: Floats) -> Sums:
        """Of the rows of F (m, r), Y (m, q), w (m,)."""
        root = np.sqrt(w)[:, None]
        F, Y = root * F, root * Y
        xx = dsyrk(1.0, F, trans=1, lower=1) if F.flags.f_contiguous else dsyrk(1.0, F.T, lower=1)
        xx += np.tril(xx, -1).T
        return cls(float(w.sum()), F.T @ root[:, 0], Y.T @ root[:, 0], xx, F.T @ Y, np.sum(Y**2, axis=0))

    def __add__(self, other: Sums) -> Sums:
        return Sums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def __sub__(self, other: Sums) -> Sums:
        return Sums(**{name: value - getattr(other, name) for name, value in vars(self).items()})


class RidgePath:
    """theta(alpha) = (C + alpha I)^-1 c, C and c the centred sums of some rows, from one eigen-decomposition."""

    def __init__(self, rows: Sums) -> None:
        self.x_mean, self.y_mean = rows.x / rows.weight, rows.y / rows.weight
        C = rows.xx - np.outer(rows.x, self.x_mean)
        values, self.V = symmetric_eigen(C, overwrite=True)
        self.values = np.maximum(values, 0.0)
        self.target = self.V.T @ (rows.xy - np.outer(rows.x, self.y_mean))

    def rotated(self, alpha: float) -> Floats:
        """V' theta (r, q)."""
        return self.target / (self.values + alpha)[:, None]

    def solution(self, alpha: float) -> tuple[Floats, Floats]:
        """theta (r, q) and offset (q,)."""
        theta = self.V @ self.rotated(alpha)
        return theta, self.y_mean - self.x_mean @ theta

    def degrees_of_freedom(self, alpha: float) -> float:
        return 1.0 + float(np.sum(self.values / (self.values + alpha)))


class HeldOutSums:
    """Squared error (q,) on some rows of the ridge fit to others, for any alpha, from the sums of both."""

    def __init__(self, fitted: Sums, held_out: Sums) -> None:
        self.path, rows = RidgePath(fitted), held_out
        x_mean, y_mean = self.path.x_mean, self.path.y_mean
        # sums of the held-out rows about the means of the fitted ones
        xx = rows.xx - np.outer(rows.x, x_mean) - np.outer(x_mean, rows.x) + rows.weight * np.outer(x_mean, x_mean)
        xy = rows.xy - np.outer(rows.x, y_mean) - np.outer(x_mean, rows.y) + rows.weight * np.outer(x_mean, y_mean)
        self.yy = rows.yy - 2 * rows.y * y_mean + rows.weight * y_mean**2
        self.xx, self.xy, self.weight = self.path.V.T @ xx @ self.path.V, self.path.V.T @ xy, rows.weight

    def squared_error(self, alpha: float) -> Floats:
        theta = self.path.rotated(alpha)
        error: Floats = self.yy - 2 * np.sum(theta * self.xy, axis=0) + np.sum(theta * (self.xx @ theta), axis=0)
        return np.maximum(error, 0.0)
