"""Validation of targets and weights; errors name the value, the limit and a way out."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.validation import _check_sample_weight

from salsa._utils.arrays import Floats
from salsa._utils.user_warning import warn_user
from salsa.data.columns import ESTIMATOR

#: Within these limits, coefficients y / alpha are finite even for alpha = 1e-14 of the kernel's diagonal
TARGET_LIMIT, WEIGHT_LIMITS = 1e150, (1e-50, 1e50)


def checked_rows(X: Floats, y: Any) -> tuple[Floats, Floats]:
    """Return encoded features (n, D), NaN where missing, and targets (n,) or (n, q), as checked float64 arrays."""
    _check_integers(y)
    with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
        checked: tuple[Floats, Floats] = check_X_y(
            X,
            y,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            multi_output=True,
            y_numeric=True,
            estimator=ESTIMATOR,
        )
    X, y = checked
    if (largest := np.abs(y).max()) > TARGET_LIMIT:
        raise ValueError(f"y has a value of size {largest:.3g}; the largest allowed is {TARGET_LIMIT:.0e}: rescale it")
    return X, np.asarray(y, dtype=np.float64)


def checked_weights(sample_weight: Any, X: Floats) -> Floats:
    """Return the weights (n,) of the rows, 0 for rows that do not count; ones if no weights are given."""
    if sample_weight is None:
        return np.ones(len(X))
    if not np.any(np.asarray(sample_weight)):  # scikit-learn refuses zero weights alone, but a block may have them
        return np.zeros(len(X))
    weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    low, high = WEIGHT_LIMITS
    used = weight > 0
    if used.any() and (weight.max() > high or weight[used].min() < low):
        limits = f"between {low:.0e} and {high:.0e}"
        raise ValueError(
            f"sample_weight: weights that are not zero must be {limits}; a weight counts rows: rescale them"
        )
    return weight


def check_total_weight(total: float, rows: int) -> None:
    """Raise ValueError if no row has a positive weight; warn if the weights sum to less than half the rows."""
    if rows == 0:
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    if total < 0.5 * rows:
        advice = "a weight counts rows (2: the row twice); rescale the weights to mean 1 if they are only relative"
        warn_user(f"sample_weight sums to {total:.3g} for {rows} rows: {advice}")


def _check_integers(y: Any) -> None:
    """Raise ValueError for Python integers beyond float64, which NumPy would answer by a bare OverflowError."""
    values = np.asarray(y)
    if values.dtype == object and any(isinstance(v, int) and abs(v) > sys.float_info.max for v in values.ravel()):
        raise ValueError(
            f"y has an integer beyond float64; the largest value allowed is {TARGET_LIMIT:.0e}: rescale it"
        )


class TargetValues(NamedTuple):
    """The distinct values of every output, the least three of each; + merges the values of two blocks."""

    rows: int
    distinct: tuple[frozenset[float], ...]

    def __add__(self, other: TargetValues) -> TargetValues:  # type: ignore[override]
        pairs = zip(self.distinct, other.distinct, strict=True)
        return TargetValues(self.rows + other.rows, tuple(frozenset(sorted(a | b)[:3]) for a, b in pairs))

    @property
    def notes(self) -> list[str]:
        """Notes on targets that are constant or have two values."""
        if all(len(values) < 2 for values in self.distinct):
            return ["the target is constant"]
        if self.rows > 2 and all(len(values) < 3 for values in self.distinct):
            return ["the target has two values: predictions lie between and beyond them, and are no probabilities"]
        return []


def target_values(Y: Floats) -> TargetValues:
    """Return the least three distinct values of every output of Y (n, q)."""
    return TargetValues(len(Y), tuple(frozenset(np.unique(y)[:3].tolist()) for y in Y.T))
