"""Variances of effects over the background: per feature, per pair, per order, and in total per feature."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dgemm

from salsa._utils.arrays import Floats
from salsa._utils.memory import BLOCK_NUMBERS, row_blocks
from salsa._utils.user_warning import warn_user
from salsa.explain.closed_forms import covariances
from salsa.explain.subject import Subject
from salsa.kernels.bandwidths import observed_spread
from salsa.kernels.marginals import Distribution
from salsa.kernels.symmetric import each_outside

#: Variances of two or more features merge values of a numeric feature in cells this share of a bandwidth wide; cells
#: are widened until at most MOST_POINTS are left. Effects, means and Shapley values use the values unmerged.
CLOSE, MOST_POINTS = 1 / 64, 1024
#: Share of the variance that may be lost to rounding before a warning
LOST_SHARE = 1e-3
_EPS = float(np.finfo(np.float64).eps)


class Variances(NamedTuple):
    """Variances of effects over the background."""

    mains: Floats  # (D,)
    pairs: Floats  # (D, D), symmetric
    higher: Floats  # (D,): sum over all effects of order 3 and more that include the feature
    by_order: Floats  # (d,)
    rounding: float = 0.0  # estimated rounding error of the orders 3 and more

    @property
    def total(self) -> float:
        """Variance of the function."""
        return float(self.by_order.sum())

    @property
    def totals(self) -> Floats:
        """Variance (D,) of all effects that include each feature."""
        totals: Floats = self.mains + self.pairs.sum(axis=1) + self.higher
        return totals

    def check_rounding(self) -> None:
        """Warn if the rounding error of the orders 3 and more exceeds LOST_SHARE of the variance."""
        if self.rounding > LOST_SHARE * self.by_order.sum():
            advice = "the model's coefficients are too large: a larger alpha makes them smaller"
            warn_user(f"shares of the orders 3 and more are lost to rounding; {advice}")


def effect_variances(subject: Subject, coef: Floats, offset: float, roots: dict[int, Floats]) -> Variances:
    """Return the variances of the effects of offset + sum_i coef_i k(x, anchor_i); rounding errors become zero."""
    D = len(subject.columns.names)
    mains, pairs, higher = np.zeros(D), np.zeros((D, D)), np.zeros(D)
    for j in subject.active:
        points, weights = subject.background[j]
        mains[j] = weights @ subject.main_effect(j, points, coef) ** 2
    if subject.order > 1:
        pairs[np.ix_(subject.active, subject.active)] = _pair_variances(subject, coef, list(roots.values()))
    by_order, higher[subject.active] = _higher_variances(subject, coef, roots)
    # summed over features an effect of order s counts s times: the gap of the two sums estimates the rounding error
    gap = abs(higher.sum() - np.arange(3, subject.order + 1) @ by_order) + np.maximum(-higher, 0.0).sum()
    rounding = rounding_variance(subject, coef, offset)
    mains, pairs, higher, by_order = (np.where(part > rounding, part, 0.0) for part in (mains, pairs, higher, by_order))
    orders = np.r_[mains.sum(), pairs.sum() / 2, by_order][: subject.order]
    return Variances(mains, pairs, higher, orders, float(gap) if gap > rounding else 0.0)


def rounding_variance(subject: Subject, coef: Floats, offset: float) -> float:
    """Return a bound on the variance that rounding errors give to a constant function."""
    largest = abs(offset) + np.abs(coef).sum() * subject.kernel.diagonal(subject.expansion.anchors[:1])[0]
    return float(8 * _EPS * largest) ** 2


def _pair_variances(subject: Subject, coef: Floats, roots: list[Floats]) -> Floats:
    """Return the variances (A, A) of the effects of all pairs of the A active features; the diagonal is zero."""
    means, weights = subject.means[:, subject.active].T, subject.weights[: len(roots) + 1]
    pairs = np.zeros((len(roots), len(roots)))
    for j, root in enumerate(roots):
        others = each_outside(np.delete(means, j, axis=0), weights[1:])  # r_S for S = {j, k}
        for k in range(j + 1, len(roots)):
            surface = dgemm(1.0, root * (coef * others[k - 1]), roots[k], trans_b=1)
            pairs[j, k] = pairs[k, j] = np.sum(surface**2)
    return pairs


def variance_of_set(subject: Subject, coef: Floats, roots: dict[int, Floats], S: list[int]) -> float:
    """Return the variance of the effect of the features S; zero if the function has no such effect."""
    if len(S) > subject.order or not set(S) <= set(subject.active):
        return 0.0
    u, variance = coef * subject.outside(S), 0.0
    for rows in row_blocks(len(u), len(u)):
        variance += float(u[rows] @ reduce(np.multiply, [roots[j][:, rows].T @ roots[j] for j in S]) @ u)
    return max(variance, 0.0)


def variance_roots(subject: Subject) -> dict[int, Floats]:
    """Return R_j (rank, r) with R_j' R_j = a_j^2 M_j for every active feature j.

    R_j comes from a pivoted QR of the weighted c_j, which squares nothing. Rows of R_j below rounding are dropped.
    """
    return {j: _root(subject, j) for j in subject.active}


def _root(subject: Subject, j: int) -> Floats:
    points, weights = subject.background[j]
    if not subject.columns.categorical[j]:
        points, weights = _merged(subject.background[j], float(subject.kernel.bandwidth[j]))
    C = np.sqrt(weights)[:, None] * subject.centred(j, points)
    R, order = qr(C, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    rank = max(1, int(np.sum(np.abs(R.diagonal()) > 8 * _EPS * subject.kernel.relevance[j])))
    root: Floats = np.empty((rank, R.shape[1]))
    root[:, order] = R[:rank]
    return root


def _merged(marginal: Distribution, bandwidth: float) -> Distribution:
    """Merge all values within a cell into their mean; cells of equal width, unlike cells of equal mass, keep the tails.

    The width is CLOSE times the smaller of bandwidth and standard deviation, doubled until MOST_POINTS cells suffice.
    """
    points, weights = marginal
    missing = np.isnan(points)
    (spread,) = observed_spread(points[:, None], weights)[1]  # the weights of all values sum to one
    width = CLOSE * min(bandwidth, float(spread))
    cell = np.floor((points - np.fmin.reduce(points)) / width) if width > 0 else np.where(missing, np.nan, 0.0)
    while len(np.unique(cell[~missing])) > MOST_POINTS:
        cell = np.floor(cell / 2)
    _, place = np.unique(cell, return_inverse=True)  # missing values form a cell of their own
    mass: Floats = np.bincount(place, weights).astype(np.float64)
    return Distribution(np.bincount(place, weights * points) / mass, mass)


def _higher_variances(subject: Subject, coef: Floats, roots: dict[int, Floats]) -> tuple[Floats, Floats]:
    """Return the variances of the orders 3..d (d-2,), and per active feature (D,) of all such effects with it."""
    d, D, n = subject.order, len(subject.active), len(coef)
    if d < 3:
        return np.zeros(0), np.zeros(D)
    means, weights = np.ascontiguousarray(subject.means[:, subject.active].T), subject.weights[: D + 1]
    total, step = np.zeros(d - 2 + D), max(64, BLOCK_NUMBERS // (D * n))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        products = np.stack([R[:, rows].T @ R[:, : rows.stop] for R in roots.values()])
        total += coef[rows] @ covariances(products, means, coef, weights)
    return total[: d - 2], total[d - 2 :]
