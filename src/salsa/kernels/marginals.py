"""Distributions of the values of a feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats


class Distribution(NamedTuple):
    """A distribution of a feature's values: points, and weights that sum to one (or are zero, see below)."""

    points: Floats
    weights: Floats


def distribution_of(x: Floats, w: Floats, limit: int | None = 128) -> Distribution:
    """Return the distribution of the observed values of x (n,): distinct values, or the means of `limit` parts if more.

    If cells hold one value or are missing, a missing value is unlike the value: the weight is 0.
    """
    observed = ~np.isnan(x)
    if not observed.any():
        return Distribution(np.zeros(1), np.ones(1))
    points, inverse = np.unique(x[observed], return_inverse=True)
    if len(points) == 1 and not observed.all():
        return Distribution(points, np.zeros(1))
    weights = np.bincount(inverse, weights=w[observed])
    if limit is not None and len(points) > limit:
        middle = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
        part = np.minimum((limit * middle).astype(np.intp), limit - 1)
        mass = np.bincount(part, weights=weights, minlength=limit)
        scale = np.abs(points).max()
        sums = np.bincount(part, weights=weights * (points / scale), minlength=limit)
        points, weights = scale * (sums[mass > 0] / mass[mass > 0]), mass[mass > 0]
    return Distribution(points, weights / weights.sum())


def marginal_of(x: Floats, w: Floats) -> Distribution:
    """Return the distinct values of x (n,) and their shares of the weight; NaN, if any, is the last."""
    points, inverse = np.unique(x, return_inverse=True)
    weights = np.bincount(inverse, weights=w)
    return Distribution(points, weights / weights.sum())


def thinned(marginal: Distribution, limit: int | None) -> Distribution:
    """Reduce a distribution to at most `limit` points besides NaN; None keeps all points."""
    points, weights = marginal
    observed = ~np.isnan(points)
    if limit is None or observed.sum() <= limit:
        return marginal
    fewer = distribution_of(points[observed], weights[observed], limit)
    shares = np.append(weights[observed].sum() * fewer.weights, weights[~observed])
    return Distribution(np.append(fewer.points, points[~observed]), shares)
