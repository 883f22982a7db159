"""Variances of effects over the background: per feature, per pair, per order, and in total per feature."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dgemm

from salsa._utils.arrays import Floats
from salsa._utils.memory import BLOCK_NUMBERS, row_blocks
from salsa._utils.user_warning import warn_user
from salsa.explain.closed_forms import covariances, cross_covariances
from salsa.explain.kernel_term import KernelTerm
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
    mains, pairs = np.zeros(D), np.zeros((D, D))
    for j in subject.active:
        points, weights = subject.background[j]
        mains[j] = weights @ subject.main_effect(j, points, coef) ** 2
    if subject.order > 1:
        pairs = _pair_variances(subject, coef, roots)
    by_order, higher = _higher_variances(subject, coef, roots)
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


def _pair_variances(subject: Subject, coef: Floats, roots: dict[int, Floats]) -> Floats:
    """Return the variances (D, D) of the effects of all pairs of features; the diagonal is zero."""
    D = len(subject.columns.names)
    pairs = np.zeros((D, D))
    for j in roots:
        u, users = _coefficients_beside(subject, coef, j), subject.users[j]
        for k in range(j + 1, D):
            common = [t for t in users if t in subject.users.get(k, ())]
            if common:
                own = u[k, [users.index(t) for t in common]].reshape(-1)
                left, right = (_columns_of(subject, roots, feature, common) for feature in (j, k))
                pairs[j, k] = pairs[k, j] = np.sum(dgemm(1.0, left * own, right, trans_b=1) ** 2)
    return pairs


def _coefficients_beside(subject: Subject, coef: Floats, j: int) -> Floats:
    """Return coef_i r_S(i) (D, U, r) of S = {j, k} for every feature k and the U terms with j; 0 if there is no f_S."""
    u = np.zeros((len(subject.columns.names), len(subject.users[j]), len(coef)))
    for place, t in enumerate(subject.users[j]):
        term = subject.terms[t]
        others = [k for k in term.active if k != j]
        u[others, place] = coef * each_outside(term.means[:, others].T, term.weights[1:])
    return u


def variance_of_set(subject: Subject, coef: Floats, roots: dict[int, Floats], S: list[int]) -> float:
    """Return the variance of the effect of the features S; zero if the function has no such effect."""
    terms = [t for t, term in enumerate(subject.terms) if term.has_effect(S)]
    if not terms:
        return 0.0
    R = [_columns_of(subject, roots, j, terms) for j in S]
    u, variance = np.concatenate([coef * subject.terms[t].outside(S) for t in terms]), 0.0
    for rows in row_blocks(len(u), len(u)):
        variance += float(u[rows] @ reduce(np.multiply, [root[:, rows].T @ root for root in R]) @ u)
    return max(variance, 0.0)


def variance_roots(subject: Subject) -> dict[int, Floats]:
    """Return R_j (rank, U r) for every active feature j, with r columns for each of the U terms that use it.

    R_j(t)' R_j(u) is a_j(t) a_j(u) times the mean over the background of c_j(X; i) of term t times c_j(X; l) of term u.
    R_j comes from a pivoted QR of the weighted c_j of all terms, which squares nothing. Rows of R_j below rounding are
    dropped.
    """
    return {j: _root(subject, j) for j in subject.active}


def _root(subject: Subject, j: int) -> Floats:
    users = subject.users[j]
    kernels, r = [subject.terms[t].kernel for t in users], len(subject.expansion.anchors)
    points, weights = subject.background[j]
    if not subject.columns.categorical[j]:
        points, weights = _merged(subject.background[j], min(float(kernel.bandwidth[j]) for kernel in kernels))
    relevance = np.array([kernel.relevance[j] for kernel in kernels])
    scale = relevance.max() / relevance  # rounding is relative to each term
    centred = [factor * subject.terms[t].centred(j, points) for t, factor in zip(users, scale, strict=True)]
    C = np.sqrt(weights)[:, None] * np.hstack(centred)
    R, order = qr(C, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    rank = max(1, int(np.sum(np.abs(R.diagonal()) > 8 * _EPS * relevance.max())))
    root: Floats = np.zeros((rank, len(users) * r))
    root[:, order] = R[:rank] / np.repeat(scale, r)[order]
    return root


def _columns_of(subject: Subject, roots: dict[int, Floats], j: int, terms: list[int]) -> Floats:
    """Return the columns (rank, len(terms) r) of R_j that belong to some of the terms that use feature j."""
    users, root = subject.users[j], roots[j]
    if terms == users:
        return root
    r = root.shape[1] // len(users)
    return np.hstack([root[:, place * r : (place + 1) * r] for place in map(users.index, terms)])


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
    """Return the variances of the orders 3..d (d-2,), and per feature (D,) of all such effects with it."""
    by_order, by_feature = np.zeros(max(subject.order - 2, 0)), np.zeros(len(subject.columns.names))
    for (t, x), (u, z) in combinations_with_replacement(enumerate(subject.terms), 2):
        shared = [j for j in x.active if j in z.active]
        if (d := min(x.order, z.order, len(shared))) < 3:
            continue
        x_roots, z_roots = ([_columns_of(subject, roots, j, [place]) for j in shared] for place in (t, u))
        if t == u:
            total = _variances_of_term(x, coef, x_roots)
        else:
            total = 2.0 * _covariances_of_terms((x, z), shared, coef, x_roots, z_roots)
        by_order[: d - 2] += total[: d - 2]
        by_feature[shared] += total[d - 2 :]
    return by_order, by_feature


def _variances_of_term(term: KernelTerm, coef: Floats, roots: list[Floats]) -> Floats:
    """Return the variances (d-2 + A) of the orders 3..d, then per feature, of one term of A features by itself."""
    D, n = len(roots), len(coef)
    means, total = np.ascontiguousarray(term.means[:, term.active].T), np.zeros(term.order - 2 + D)
    for rows in _blocks_of_products(D, n):
        products = np.stack([R[:, rows].T @ R[:, : rows.stop] for R in roots])
        total += coef[rows] @ covariances(products, means, coef, term.weights)
    return total


def _covariances_of_terms(
    terms: tuple[KernelTerm, KernelTerm], shared: list[int], coef: Floats, x_roots: list[Floats], z_roots: list[Floats]
) -> Floats:
    """Return the covariances (d-2 + A) of the orders 3..d, then per feature, of two terms that share A features.

    An effect with another feature is not in both terms. Each term is averaged over its other features first.
    """
    x_means, z_means = (np.ascontiguousarray(term.means[:, shared].T) for term in terms)
    x_weights, z_weights = (term.weights_within(shared) for term in terms)
    total = np.zeros(min(len(x_weights), len(z_weights)) - 3 + len(shared))
    for rows in _blocks_of_products(len(shared), len(coef)):
        products = np.stack([X[:, rows].T @ Z for X, Z in zip(x_roots, z_roots, strict=True)])
        means, weights = np.ascontiguousarray(x_means[:, rows]), np.ascontiguousarray(x_weights[:, rows])
        total += coef[rows] @ cross_covariances(products, means, z_means, coef, weights, z_weights)
    return total


def _blocks_of_products(D: int, n: int) -> Iterator[slice]:
    """Return slices of n anchors, whose products of D features with n anchors take about BLOCK_NUMBERS numbers."""
    step = max(64, BLOCK_NUMBERS // (D * n))
    return (slice(first, min(first + step, n)) for first in range(0, n, step))
