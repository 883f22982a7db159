"""Weighted means and scales of targets."""

from __future__ import annotations

import numpy as np

from salsa._utils.arrays import Floats


def weights_or_ones(weight: Floats | None, n: int) -> Floats:
    return np.ones(n) if weight is None else weight


def power_of_two(Y: Floats) -> Floats:
    """(q,) of the size of every output of Y (n, q), 1 for one that is zero: divided by it, squares are float64 too.

    Dividing by a power of two is exact, so that the units of the target do not change a bit of what is found.
    """
    _, exponent = np.frexp(np.abs(Y).max(axis=0))
    return np.where(Y.any(axis=0), np.ldexp(1.0, exponent - 1), 1.0)


def target_variance(Y: Floats, w: Floats) -> Floats:
    """Variance of every output of Y (n, q), and 1 for a constant one: what rounding leaves of it is no variance."""
    variance = w @ (Y - w @ Y / w.sum()) ** 2 / w.sum()
    return np.where(Y.max(axis=0) > Y.min(axis=0), variance, 1.0)


def mean_and_standard_error(losses: Floats, w: Floats) -> tuple[float, float]:
    """Of the rows' losses (n,), as a sample."""
    total = w.sum()
    mean = float(w @ losses / total)
    return mean, float(np.sqrt(w @ (losses - mean) ** 2) / total)
