"""Variances of effects over the background: of single features, of pairs, of every order, and in total per feature."""

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

#: In variances of two and more features, values of a number within this share of the bandwidth count as their mean,
#: farther ones too where they would be more than so many; effects, means and Shapley values know no such thing
CLOSE, MOST_POINTS = 1 / 64, 1024
#: Of the variance that rounding may take before it is mentioned
LOST_SHARE = 1e-3
_EPS = float(np.finfo(np.float64).eps)


class Variances(NamedTuple):
    """Of effects over the background."""

    mains: Floats  # (D,)
    pairs: Floats  # (D, D), symmetric
    higher: Floats  # (D,): of all effects of order 3 and more that a feature takes part in
    by_order: Floats  # (d,)
    rounding: float = 0.0  # what the higher orders have lost to it, about

    @property
    def total(self) -> float:
        """Of the function."""
        return float(self.by_order.sum())

    @property
    def totals(self) -> Floats:
        """(D,): of all effects that a feature takes part in."""
        totals: Floats = self.mains + self.pairs.sum(axis=1) + self.higher
        return totals

    def check_rounding(self) -> None:
        """Warn where rounding is what the higher orders hold."""
        if self.rounding > LOST_SHARE * self.by_order.sum():
            advice = "the model's coefficients are too large: a larger alpha makes them smaller"
            warn_user(f"shares of the orders 3 and more are lost to rounding; {advice}")


def effect_variances(subject: Subject, coef: Floats, offset: float, roots: dict[int, Floats]) -> Variances:
    """Of the function offset + sum_i coef_i k(x, anchor_i); what is of the size of rounding is zero."""
    D = len(subject.columns.names)
    mains, pairs, higher = np.zeros(D), np.zeros((D, D)), np.zeros(D)
    for j in subject.active:
        points, weights = subject.background[j]
        mains[j] = weights @ subject.main_effect(j, points, coef) ** 2
    if subject.order > 1:
        pairs[np.ix_(subject.active, subject.active)] = _pair_variances(subject, coef, list(roots.values()))
    by_order, higher[subject.active] = _higher_variances(subject, coef, roots)
    # an effect of order s concerns s features: how far the two sums over these effects differ shows what rounding took
    gap = abs(higher.sum() - np.arange(3, subject.order + 1) @ by_order) + np.maximum(-higher, 0.0).sum()
    largest = abs(offset) + np.abs(coef).sum() * subject.kernel.diagonal(subject.expansion.anchors[:1])[0]
    rounding = (8 * _EPS * largest) ** 2
    mains, pairs, higher, by_order = (np.where(part > rounding, part, 0.0) for part in (mains, pairs, higher, by_order))
    orders = np.r_[mains.sum(), pairs.sum() / 2, by_order][: subject.order]
    return Variances(mains, pairs, higher, orders, float(gap) if gap > rounding else 0.0)


def _pair_variances(subject: Subject, coef: Floats, roots: list[Floats]) -> Floats:
    """(D, D) of the active features."""
    means, weights = subject.means[:, subject.active].T, subject.weights[: len(roots) + 1]
    pairs = np.zeros((len(roots), len(roots)))
    for j, root in enumerate(roots):
        others = each_outside(np.delete(means, j, axis=0), weights[1:])  # r_S of S = {j, k}
        for k in range(j + 1, len(roots)):
            surface = dgemm(1.0, root * (coef * others[k - 1]), roots[k], trans_b=1)
            pairs[j, k] = pairs[k, j] = np.sum(surface**2)
    return pairs


def variance_of_set(subject: Subject, coef: Floats, roots: dict[int, Floats], S: list[int]) -> float:
    """Of the effect of these features."""
    if not set(S) <= set(subject.active):
        return 0.0
    u, variance = coef * subject.outside(S), 0.0
    for rows in row_blocks(len(u), len(u)):
        variance += float(u[rows] @ reduce(np.multiply, [roots[j][:, rows].T @ roots[j] for j in S]) @ u)
    return max(variance, 0.0)


def variance_roots(subject: Subject) -> dict[int, Floats]:
    """R_j (rank, r) with R_j' R_j = a_j^2 M_j, of every active feature.

    By a pivoted QR of the weighted c_j: rows of the size of the rounding of k_j are left out; nothing is squared.
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
    """The same with the mean of all values in each of equal cells, which unlike classes of equal mass keep the tails.

    The cells are a small share of the bandwidth, and of the standard deviation, or twice, four times, ... as wide until
    few are left.
    """
    points, weights = marginal
    missing = np.isnan(points)
    (spread,) = observed_spread(points[:, None], weights)[1]  # the weights of all values sum to one
    width = CLOSE * min(bandwidth, float(spread))
    cell = np.floor((points - np.fmin.reduce(points)) / width) if width > 0 else np.where(missing, np.nan, 0.0)
    while len(np.unique(cell[~missing])) > MOST_POINTS:
        cell = np.floor(cell / 2)
    _, place = np.unique(cell, return_inverse=True)  # a missing value is a cell of its own
    mass: Floats = np.bincount(place, weights).astype(np.float64)
    return Distribution(np.bincount(place, weights * points) / mass, mass)


def _higher_variances(subject: Subject, coef: Floats, roots: dict[int, Floats]) -> tuple[Floats, Floats]:
    """Of the orders 3..d (d-2,), and of all effects of these orders that each active feature takes part in (D,)."""
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
