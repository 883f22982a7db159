"""Weighted means that several layers share; a weight counts rows, so that 2 means the row twice."""

from __future__ import annotations

import numpy as np

from salsa.kernels import Floats


def weights_or_ones(weight: Floats | None, n: int) -> Floats:
    return np.ones(n) if weight is None else weight


def target_variance(Y: Floats, w: Floats) -> Floats:
    """Variance of every output of Y (n, q), and 1 for a constant one: what rounding leaves of it is no variance."""
    variance = w @ (Y - w @ Y / w.sum()) ** 2 / w.sum()
    return np.where(Y.max(axis=0) > Y.min(axis=0), variance, 1.0)


def mean_and_standard_error(losses: Floats, w: Floats) -> tuple[float, float]:
    """Of the rows' losses (n,), as a sample."""
    total = w.sum()
    mean = float(w @ losses / total)
    return mean, float(np.sqrt(w @ (losses - mean) ** 2) / total)
