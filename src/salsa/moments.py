"""Weighted means that several layers share; a weight counts rows, so that 2 means the row twice."""

from __future__ import annotations

import numpy as np

from salsa.kernels import Floats

MANY_TIMES, MANY_ROWS = 5, 5000  # rows, times those given and at all, up to which weights are written out


def weights_or_ones(weight: Floats | None, n: int) -> Floats:
    return np.ones(n) if weight is None else weight


def written_out(X: Floats, Y: Floats, weight: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    """Rows in ascending order, whole weights as repeated rows unless that would be many.

    A fit to these cannot depend on the order of rows, nor on whether a row is repeated or weighted.
    """
    if weight is not None and (weight % 1 == 0).all() and weight.sum() <= min(MANY_TIMES * len(X), MANY_ROWS):
        rows = np.repeat(np.arange(len(X)), weight.astype(np.intp))
        X, Y, weight = X[rows], Y[rows], None
    keys = [np.where(np.isnan(X), np.inf, X), Y, np.empty((len(X), 0)) if weight is None else weight[:, None]]
    order = np.lexsort(np.column_stack(keys).T[::-1])
    return X[order], Y[order], None if weight is None else weight[order]


def row_keys(X: Floats) -> list[bytes]:
    """Equal where rows of X (n, D) are."""
    return [row.tobytes() for row in np.where(np.isnan(X), np.nan, X + 0.0)]  # one NaN, one zero


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
