"""Variances of effects over the background: of single features, of pairs, of every order, and in total per feature."""

from __future__ import annotations

import warnings
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dgemm

from salsa.explain.background import Subject, thinned
from salsa.kernels import Floats, covariances
from salsa.memory import BLOCK_NUMBERS

#: Values of a number, besides missing, that stand for its background in variances; means are over all of them
VARIANCE_POINTS = 256
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
    def totals(self) -> Floats:
        """(D,): of all effects that a feature takes part in."""
        totals: Floats = self.mains + self.pairs.sum(axis=1) + self.higher
        return totals

    def check_rounding(self) -> None:
        """Warn where rounding is what the higher orders hold."""
        if self.rounding > LOST_SHARE * self.by_order.sum():
            advice = "the model's coefficients are too large: a larger alpha makes them smaller"
            warnings.warn(f"shares of the orders 3 and more are lost to rounding; {advice}", stacklevel=6)


def effect_variances(subject: Subject, coef: Floats, roots: dict[int, Floats]) -> Variances:
    """Of the function sum_i coef_i k(x, anchor_i)."""
    D = len(subject.columns.names)
    mains, pairs, higher = np.zeros(D), np.zeros((D, D)), np.zeros(D)
    for j in subject.active:
        points, weights = subject.background[j]
        mains[j] = weights @ subject.main_effect(j, points, coef) ** 2
    for j, k in combinations(subject.active, 2) if subject.order > 1 else ():
        surface = dgemm(1.0, roots[j] * (coef * subject.outside([j, k])), roots[k], trans_b=1)
        pairs[j, k] = pairs[k, j] = np.sum(surface**2)
    by_order, higher[subject.active] = _higher_variances(subject, coef, roots)
    # an effect of order s concerns s features: how far the two sums over these effects differ shows what rounding took
    gap = abs(higher.sum() - np.arange(3, subject.order + 1) @ by_order) + np.maximum(-higher, 0.0).sum()
    orders = np.r_[mains.sum(), pairs.sum() / 2, np.maximum(by_order, 0.0)][: subject.order]
    return Variances(mains, pairs, np.maximum(higher, 0.0), orders, float(gap))


def variance_of_set(subject: Subject, coef: Floats, roots: dict[int, Floats], S: list[int]) -> float:
    """Of the effect of these features."""
    if not set(S) <= set(subject.active):
        return 0.0
    products = reduce(np.multiply, [roots[j].T @ roots[j] for j in S])
    u = coef * subject.outside(S)
    return max(float(u @ products @ u), 0.0)


def variance_roots(subject: Subject) -> dict[int, Floats]:
    """R_j (rank, r) with R_j' R_j = a_j^2 M_j, of every active feature.

    By a pivoted QR of the weighted c_j: rows of the size of the rounding of k_j are left out; nothing is squared.
    """
    return {j: _root(subject, j) for j in subject.active}


def _root(subject: Subject, j: int) -> Floats:
    limit = None if subject.columns.categorical[j] else VARIANCE_POINTS
    points, weights = thinned(subject.background[j], limit)
    C = np.sqrt(weights)[:, None] * subject.centred(j, points)
    R, order = qr(C, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    rank = max(1, int(np.sum(np.abs(R.diagonal()) > 8 * _EPS * subject.kernel.relevance[j])))
    root: Floats = np.empty((rank, R.shape[1]))
    root[:, order] = R[:rank]
    return root


def _higher_variances(subject: Subject, coef: Floats, roots: dict[int, Floats]) -> tuple[Floats, Floats]:
    """Of the orders 3..d (d-2,), and of all effects of these orders that each active feature takes part in (D,)."""
    d, D, n = subject.order, len(subject.active), len(coef)
    if d < 3:
        return np.zeros(0), np.zeros(D)
    means, weights = np.ascontiguousarray(subject.means[:, subject.active].T), subject.weights[: D + 1]
    total, step = np.zeros(d - 2 + D), max(1, BLOCK_NUMBERS // (D * n))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        products = np.stack([R[:, rows].T @ R[:, : rows.stop] for R in roots.values()])
        total += coef[rows] @ covariances(products, means, coef, weights)
    return total[: d - 2], total[d - 2 :]
