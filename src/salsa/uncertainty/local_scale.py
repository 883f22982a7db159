"""The local scale of noise: a smooth, additive function g(x) with |residual| ~ exp(g(x)), learned from held-out rows.

g is a ridge fit of the logarithms of held-out residuals over their posterior scale, on the main effects of all
features. Its penalty is chosen by cross-validation with the folds of the fit; a large one makes g constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.linalg import solve_triangular

from salsa._utils.arrays import Floats, Places
from salsa._utils.linalg import positive_factor
from salsa._utils.sums import HeldOutSums, RidgePath, Sums
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth

LOCAL_ROWS = 5000  # about so many held-out residuals of a large table teach the local scale
ANCHORS = 200  # rows that g is a function of
SMOOTHNESS = 5.0  # c of the bandwidths c sd_j n^(-1/5)
PENALTIES = 10.0 ** np.arange(-2.0, 4.1, 0.5)  # relative to the kernel's diagonal
RANGE = 1e6  # the most by which the local scale may differ from the typical one
LEAST = 0.05  # residuals below this share of their median count as this share: the logarithm of 0 means nothing


@dataclass(frozen=True, eq=False)
class LocalScale:
    """The function g (m, q), and the functions that were learned without each fold."""

    g: KernelExpansion
    without: tuple[KernelExpansion, ...] = ()

    def __call__(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """Return exp(g(x)) (m, q)."""
        return _exp(self.g.predict(X, n_threads=n_threads))

    def held_out(self, X: Floats, fold: Places, *, n_threads: int | None = None) -> Floats:
        """Return exp(g(x)) (m, q) as learned without the fold (m,) of each row."""
        scale = np.empty((len(X), len(self.g.offset)))
        for k, g in enumerate(self.without):
            rows = np.flatnonzero(fold == k)
            if len(rows):
                scale[rows] = _exp(g.predict(X[rows], n_threads=n_threads))
        return scale


def learn_local_scale(kernel: Kernel, X: Floats, size: Floats, fold: Places, count: Floats | None = None) -> LocalScale:
    """Learn g from sizes (n, q) of held-out residuals with folds (n,), each of which counts (n,) times, or once."""
    count = np.ones(len(X)) if count is None else count
    main = main_effects(kernel, rule_of_thumb_bandwidth(X, SMOOTHNESS))
    anchors = X[np.linspace(0, len(X) - 1, min(len(X), ANCHORS)).astype(np.intp)]
    L = positive_factor(main(anchors, n_threads=1))
    F = solve_triangular(L, main(anchors, X, n_threads=1), lower=True, check_finite=False).T
    floor = LEAST * np.median(size, axis=0)
    Z = np.log(np.maximum(size, np.maximum(floor, np.finfo(np.float64).tiny)))
    level = Z.mean(axis=0)
    Z = Z - level
    parts = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    sums = [Sums.of(F[rows], Z[rows], count[rows]) for rows in parts]
    total = reduce(Sums.__add__, sums)
    # counts may be of any size: a difference total - part could leave rounding errors alone
    held = [HeldOutSums(reduce(Sums.__add__, [*sums[:k], *sums[k + 1 :]]), part) for k, part in enumerate(sums)]
    diagonal = float(main.diagonal(anchors[:1])[0]) or 1.0
    errors = [sum(part.squared_error(diagonal * t).sum() for part in held) for t in PENALTIES]
    alpha = diagonal * float(PENALTIES[len(errors) - 1 - int(np.argmin(errors[::-1]))])
    whole, *without = (
        KernelExpansion(main, anchors, solve_triangular(L, theta, lower=True, trans=1, check_finite=False), offset)
        for theta, offset in (path.solution(alpha) for path in (RidgePath(total), *(part.path for part in held)))
    )
    return LocalScale(whole, tuple(without))


def _exp(g: Floats) -> Floats:
    """Return exp(g), within RANGE of one."""
    return np.exp(np.clip(g, -np.log(RANGE), np.log(RANGE)))


def main_effects(kernel: Kernel, bandwidth: Floats) -> AdditiveKernel:
    """Return the kernel of order 1 with equal relevances, and base kernels and distributions of the first term."""
    bases, weights = kernel.terms[0].bases, np.array([0.0, 1.0])
    return AdditiveKernel(bandwidth, np.ones(len(bandwidth)), weights, bases, kernel.distributions)
