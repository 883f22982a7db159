"""Bandwidths in proportion to the spread of each feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from salsa._utils.arrays import Floats


def rule_of_thumb_bandwidth(
    X: Any, c: float = 20.0, *, sample_weight: Any = None, total: float | None = None
) -> Floats:
    """Return the paper's bandwidths h_j = c sd_j n^(-1/5); infinity (a constant base kernel) for a constant column.

    With `sample_weight`, n is the sum of the weights and sd_j the weighted standard deviation, so that integer weights
    mean repeated rows. If X is a sample, `total` is the n of the whole table.
    """
    with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    X, w = X[w > 0], w[w > 0]
    if len(X) == 0:
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    n, norm, constant = observed_spread(X, w)
    # n - 1 as for repeated rows; continued below n = 2 so that small fractional weights stay positive
    sd = norm / np.sqrt(np.maximum(n - 1, n / 2))
    return np.where(constant, np.inf, c * sd * (w.sum() if total is None else total) ** -0.2)


def observed_spread(X: Floats, w: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return per column the observed weight, the norm about the mean, and whether it is constant. NaN is ignored.

    A column without values is constant, of weight 1. A column of one value and NaN, as in "yes" or nothing, is not
    constant: its norm is 1.
    """
    observed = ~np.isnan(X)
    single = ~(np.where(observed, X, -np.inf).max(axis=0) > np.where(observed, X, np.inf).min(axis=0))
    constant = single & (observed.all(axis=0) | ~observed.any(axis=0))
    X = np.where(observed, X, 0.0)
    unit = np.where(X.any(axis=0), np.abs(X).max(axis=0), 1.0)  # keeps squares within float64
    X = X / unit
    n = np.where(observed.any(axis=0), w @ observed, 1.0)
    squares: Floats = w @ np.where(observed, X - w @ X / n, 0.0) ** 2
    return n, np.where(single & ~constant, 1.0, unit * np.sqrt(squares)), constant
