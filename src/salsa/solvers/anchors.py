"""Anchors by randomly pivoted Cholesky, and the features that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import triangular_product, triangular_solve
from salsa._utils.linalg import positive_factor
from salsa._utils.progress import SILENT, Steps
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel

BLOCK = 64  # pivots drawn at a time
PHASE = "choosing anchors"
ROUNDING = 1e-13  # residuals below this share of the diagonal count as zero


@dataclass(frozen=True, eq=False)
class Anchors:
    """Anchors Z and their features phi: phi(x)'phi(z) = k(x, z) wherever x or z is an anchor."""

    kernel: Kernel
    points: Floats  # (r, D)
    L: Floats  # (r, r), lower triangular
    left: float  # unexplained share of the kernel's trace over the rows they were chosen from

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """Return the features phi (m, r) of the rows of X (m, D)."""
        k = self.kernel(X, self.points, n_threads=n_threads)
        return triangular_solve(self.L, k.T).T

    @property
    def single(self) -> SingleAnchors:
        """The same features in float32, less their means over the anchors."""
        inverse, _ = dtrtri(self.L, lower=1)
        level = np.float32(np.mean(self.L.sum(axis=0) ** 2) / len(self.L))  # of K = L L'
        mean = self.L.mean(axis=0)  # the features of the anchors are the rows of L
        constant = float(level) * inverse.sum(axis=1) - mean
        rounded = np.asfortranarray(inverse, np.float32)
        return SingleAnchors(self.kernel, self.points, rounded, level, constant.astype(np.float32), mean)

    def expansion(self, theta: Floats, offset: Floats) -> KernelExpansion:
        """Return the function offset + phi(x)'theta, whose coefficients are L^-T theta."""
        coef = solve_triangular(self.L, theta, lower=True, trans=1, check_finite=False)
        return KernelExpansion(self.kernel, self.points, coef, offset)


@dataclass(frozen=True, eq=False)
class SingleAnchors:
    """Features phi - mean of anchors in float32, in half the time; rounding errors grow with the inverse of L.

    phi = L^-1 (k - c 1) + c L^-1 1 for any number c. With the mean of the kernel as c, the large part that all values
    of a very smooth kernel have in common does not go through products in float32. Products of the features lose as few
    digits because the features are less their means: ``Sums.moved`` adds these again.
    """

    kernel: Kernel
    points: Floats  # (r, D)
    inverse: NDArray[np.float32]  # (r, r), of L
    level: np.float32  # c, the mean of the kernel over pairs of anchors
    constant: NDArray[np.float32]  # (r,), c L^-1 1 - mean
    mean: Floats  # (r,), of phi over the anchors

    def features(self, X: Floats, *, n_threads: int | None = None) -> NDArray[np.float32]:
        """Return the features phi - mean (m, r) of the rows of X (m, D)."""
        k = self.kernel.single(X, self.points, n_threads=n_threads)
        k -= self.level
        phi = triangular_product(self.inverse, k.T).T
        phi += self.constant
        return phi


class Pivoted(NamedTuple):
    """Anchors among rows: their places (r,), features F (n, r) of all rows, and the unexplained share of the trace."""

    places: Places
    F: Floats
    left: float


def choose_anchors(
    kernel: Kernel,
    X: Floats,
    rank: int,
    tolerance: float,
    random_state: RandomState,
    *,
    n_threads: int | None = None,
    steps: Steps = SILENT,
) -> Anchors:
    """Choose rows of X as anchors until the unexplained share of the trace is below `tolerance`, at most `rank`."""
    places, _, left = pivoted_cholesky(kernel, X, rank, tolerance, random_state, n_threads=n_threads, steps=steps)
    return Anchors(kernel, X[places], positive_factor(kernel(X[places])), left)


def pivoted_cholesky(
    kernel: Kernel,
    X: Floats,
    rank: int,
    tolerance: float,
    random_state: RandomState,
    *,
    n_threads: int | None = None,
    steps: Steps = SILENT,
) -> Pivoted:
    """Choose anchors as ``choose_anchors``, and return their features of all rows: K (n, n) ~ F F'."""
    n = len(X)
    F, diagonal = np.empty((n, min(rank, n)), order="F"), kernel.diagonal(X)
    left, total, pivots = diagonal.copy(), diagonal.sum(), np.empty(0, dtype=np.intp)
    while len(pivots) < F.shape[1] and left.sum() > min(tolerance, 0.5) * total:
        k = len(pivots)
        steps.step(PHASE, k / F.shape[1], f"{k} anchors leave {left.sum() / total:.1e} of the trace")
        drawn = random_state.choice(n, size=min(BLOCK, F.shape[1] - k), p=left / left.sum())
        new = _accepted(np.unique(drawn), kernel, X, F[:, :k], random_state)
        G = kernel(X, X[new], n_threads=n_threads) - F[:, :k] @ F[new, :k].T
        L = positive_factor(G[new])
        F[:, k : k + len(new)] = solve_triangular(L, G.T, lower=True, check_finite=False).T
        left -= np.sum(F[:, k : k + len(new)] ** 2, axis=1)
        left[left < ROUNDING * diagonal] = 0.0
        pivots = np.append(pivots, new)
    if len(pivots) == 0:  # any row does for a kernel of zeros
        return Pivoted(np.zeros(1, dtype=np.intp), np.zeros((n, 1)), 0.0)
    steps.done(PHASE, f"100 %, {len(pivots)} anchors leave {left.sum() / total:.1e} of the trace")
    return Pivoted(pivots, F[:, : len(pivots)], float(left.sum() / total))


def _accepted(drawn: Places, kernel: Kernel, X: Floats, F: Floats, random_state: RandomState) -> Places:
    """Return the drawn rows that would also have been drawn one after the other, but at least one row."""
    S = kernel(X[drawn]) - F[drawn] @ F[drawn].T
    threshold = random_state.random_sample(len(drawn)) * S.diagonal()
    accepted = []
    for i, row in enumerate(drawn):
        if S[i, i] > threshold[i]:
            accepted.append(row)
            S -= np.outer(S[:, i], S[i] / S[i, i])
    return np.array(accepted if accepted else drawn[:1], dtype=np.intp)


def few_anchors_note(count: int, left: float, alpha: float) -> list[str]:
    """Return a note on the standard deviations of an exact fit if its anchors leave more than alpha of the trace."""
    if left <= alpha:
        return []
    few = f"standard deviations are approximate: {count} anchors do not represent the kernel"
    return [f"{few} at this alpha; a larger rank comes closer"]
