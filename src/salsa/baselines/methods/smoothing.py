"""Cubic splines of single features in coordinates in which smoothing is shrinkage, and their cross-validation.

The functions of a feature are ordered from the straight line to the roughest. On the training rows they have mean 0,
variance 1 and no correlation, and f = sum_k b_k phi_k has roughness int f''^2 = sum_k b_k^2 / mu_k. So the smoothing
spline of y is b_k = mu_k / (mu_k + penalty) <phi_k, y>: after one decomposition, every penalty is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PPoly
from scipy.linalg import cholesky_banded, solve_triangular
from scipy.optimize import brentq
from sklearn.model_selection import KFold, check_cv

from salsa._utils.arrays import Floats
from salsa.baselines.methods.estimator import Seed
from salsa.data.splits import parse_cv

KNOT_DIGITS = 9  # decimals of a feature on [0, 1]: values that agree in these share a knot
NEGLIGIBLE = 1e-7  # functions of a smaller size, relative to the largest of equal roughness, are left out

Path = Callable[[Floats, Floats, Floats], Floats]  # X, y, new X -> predictions (m, candidates)


class Standardised(NamedTuple):
    """A standardised target z, with y = mean + scale z; the scale of a constant y is 1."""

    z: Floats  # (n,)
    mean: float
    scale: float


def standardise(y: Floats) -> Standardised:
    """Scale y (n,) to mean 0 and variance 1; numbers are scaled to size 1 before they are squared."""
    mean = float(np.mean(y))
    away = y - mean
    size = float(np.abs(away).max())
    if y.max() == y.min() or size == 0:
        return Standardised(np.zeros_like(y), float(y[0]), 1.0)
    scale = size * float(np.sqrt(np.mean((away / size) ** 2)))
    return Standardised(away / scale, mean, scale)


def to_unit(x: Floats, low: Any, high: Any) -> Floats:
    """Map low to 0 and high to 1; everything to 0 if they are equal. Halves avoid an overflow of the range."""
    half = high / 2 - low / 2
    return np.where(half > 0, (x / 2 - low / 2) / np.where(half > 0, half, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class SplineBasis:
    """Natural cubic splines of one feature u, scaled to [0, 1]: the line z = (u - mean) / sd and functions phi(u).

    phi(u) = (E(u) - level - z slope) T, where E'' are the hat functions of the inner knots. Outside the range of the
    training rows, all functions continue as straight lines. A constant feature has no function.
    """

    low: float
    high: float
    mean: float
    sd: float
    E: PPoly | None  # None: only the line
    level: Floats  # (inner knots,)
    slope: Floats  # (inner knots,)
    T: Floats  # (inner knots, functions)
    mu: Floats  # (1 + functions,): 1 / roughness, infinite for the line, then falling; empty for a constant

    @classmethod
    def of(cls, x: Floats, n_knots: int) -> SplineBasis:
        low, high, empty = float(x.min()), float(x.max()), np.empty(0)
        u = to_unit(x, low, high)
        mean, sd = float(u.mean()), float(u.std())
        if high == low:
            return cls(low, high, mean, 1.0, None, empty, empty, np.empty((0, 0)), empty)
        E = _double_integrals_of_hats(_knots(u, n_knots))
        if E is None:
            return cls(low, high, mean, sd, None, empty, empty, np.empty((0, 0)), np.array([np.inf]))
        values, z = E(u), (u - mean) / sd
        level, slope = values.mean(axis=0), z @ values / len(z)
        T, mu = _smooth_to_rough(values - level - np.outer(z, slope), E.x)
        return cls(low, high, mean, sd, E, level, slope, T, np.append(np.inf, mu))

    def __call__(self, x: Floats) -> Floats:
        """Return the line and the functions (n, 1 + functions) at x (n,)."""
        u = to_unit(x, self.low, self.high)
        z = (u - self.mean) / self.sd
        if self.E is None:
            return z[:, None][:, : len(self.mu)]
        inside = np.clip(u, 0.0, 1.0)
        values = self.E(inside) + self.E(inside, 1) * (u - inside)[:, None]
        return np.column_stack([z, (values - self.level - np.outer(z, self.slope)) @ self.T])

    def shrinkage(self, df: float) -> Floats:
        """Return mu / (mu + penalty) (1 + functions,) for the penalty at which these sum to `df`, or to 1 if df < 1."""
        if df <= 1 or df >= len(self.mu):
            return (np.arange(len(self.mu)) < max(df, 1)).astype(np.float64)
        mu = self.mu[1:]

        def excess(log_penalty: float) -> float:
            return float(np.sum(mu / (mu + np.exp(log_penalty)))) - (df - 1)

        low, high = np.log(mu[-1] * 1e-12), np.log(mu[0] * len(mu) * 1e12)
        return np.append(1.0, mu / (mu + np.exp(brentq(excess, low, high, xtol=1e-12))))


def _knots(u: Floats, n_knots: int) -> Floats:
    """Return knots spread evenly over the distinct values in [0, 1]: all of these if they are at most n_knots."""
    distinct = np.unique(np.round(u, KNOT_DIGITS))
    return np.unique(np.quantile(distinct, np.linspace(0, 1, min(n_knots, len(distinct)))))


def _double_integrals_of_hats(knots: Floats) -> PPoly | None:
    """Return E whose E_k'' is the hat function of inner knot k (1 there, 0 at other knots); None if there is no k."""
    if len(knots) < 3:
        return None
    hats = np.eye(len(knots))[:, 1:-1]
    return PPoly(np.stack([np.diff(hats, axis=0) / np.diff(knots)[:, None], hats[:-1]]), knots).antiderivative(2)


def _smooth_to_rough(N: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Return T and falling mu with (N T)'(N T) / n = I, T'W T = diag(1 / mu); W holds integrals of products of hats."""
    h = np.diff(knots)
    band = np.array([np.append(h[1:-1], 0.0) / 6, (h[:-1] + h[1:]) / 3])[::-1]
    factor = cholesky_banded(band, lower=True)
    L = np.diag(factor[0]) + np.diag(factor[1, :-1], -1)
    scaled = solve_triangular(L, N.T, lower=True).T / np.sqrt(len(N))
    _, size, Vt = np.linalg.svd(scaled, full_matrices=False)
    keep = size > NEGLIGIBLE * size[0]
    T = solve_triangular(L, Vt[keep].T, lower=True, trans=1) / size[keep]
    return T, size[keep] ** 2


@dataclass(frozen=True, eq=False)
class AdditiveBasis:
    """The spline functions of all features side by side; ``blocks[j]`` are the columns of feature j."""

    features: list[SplineBasis]
    blocks: list[slice]

    @classmethod
    def of(cls, X: Floats, n_knots: int) -> AdditiveBasis:
        features = [SplineBasis.of(x, n_knots) for x in X.T]
        ends = np.cumsum([0, *(len(feature.mu) for feature in features)])
        return cls(features, [slice(int(a), int(b)) for a, b in pairwise(ends)])

    def __call__(self, X: Floats) -> Floats:
        """Return the functions (n, p) of all features at the rows of X (n, D)."""
        return np.column_stack([feature(x) for feature, x in zip(self.features, X.T, strict=True)])


def candidates(name: str, given: Any, automatic: Sequence[float], least: float) -> list[float]:
    """Return the candidates for a parameter that is "auto", a number or a sequence of numbers."""
    if isinstance(given, str) and given == "auto":
        return list(automatic)
    values: Any = [given] if isinstance(given, Real) else given
    if isinstance(values, str) or len(values) == 0 or not all(least <= value < np.inf for value in values):
        raise ValueError(f"{name}={given!r}: give 'auto', or one or more numbers of at least {least}")
    return [float(value) for value in values]


def choose(path: Path, count: int, X: Floats, y: Floats, cv: Any, seed: Seed) -> tuple[int, Floats | None]:
    """Return the number of the best of `count` candidates, and their mean squared held-out errors; None for only one.

    A number `cv` means shuffled folds, at most one per row.
    """
    if count == 1:
        return 0, None
    parse_cv(cv)
    folds = KFold(min(int(cv), len(X)), shuffle=True, random_state=seed) if isinstance(cv, Integral) else check_cv(cv)
    losses = [(y[test, None] - path(X[train], y[train], X[test])) ** 2 for train, test in folds.split(X, y)]
    errors: Floats = np.concatenate(losses).mean(axis=0)
    return int(np.argmin(errors)), errors
