"""Weighted means and scales of targets."""

from __future__ import annotations

import numpy as np

from salsa._utils.arrays import Floats, Places


def weights_or_ones(weight: Floats | None, n: int) -> Floats:
    return np.ones(n) if weight is None else weight


def power_of_two(Y: Floats) -> Floats:
    """Return the largest power of two (q,) up to max |y| of every output of Y (n, q); 1 for an output of zeros.

    Dividing by it is exact, so the fit does not depend on the units of the target, and squares stay within float64.
    """
    _, exponent = np.frexp(np.abs(Y).max(axis=0))
    return np.where(Y.any(axis=0), np.ldexp(1.0, exponent - 1), 1.0)


def target_variance(Y: Floats, w: Floats) -> Floats:
    """Return the variance (q,) of every output of Y (n, q); 1 for constant outputs, where it is rounding error."""
    variance = w @ (Y - w @ Y / w.sum()) ** 2 / w.sum()
    return np.where(Y.max(axis=0) > Y.min(axis=0), variance, 1.0)


def mean_and_standard_error(losses: Floats, w: Floats, unit: Places | None = None) -> tuple[float, float]:
    """Return the weighted mean of the losses (n,) of rows, and its standard error; rows of a unit (n,) may depend."""
    total = w.sum()
    mean = float(w @ losses / total)
    away = w * (losses - mean)
    return mean, float(np.sqrt(np.sum((away if unit is None else np.bincount(unit, away)) ** 2)) / total)
