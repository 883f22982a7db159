"""Shepard interpolation: means of all rows, weighted by powers of the inverse distance."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from salsa._utils.arrays import Floats
from salsa._utils.memory import row_blocks
from salsa._utils.weighted import power_of_two, target_variance
from salsa.data.splits import Fold, Splits, parse_cv

POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
SMALLEST_DISTANCE = 1e-150  # relative to the data's size: rows that are nearer to x count as equal to x
FARTHEST = 1e100  # limit of queries, relative to the data's size; all rows are equally far from there


class Rows(NamedTuple):
    """Rows with features in units of the data's size, targets and weights."""

    Z: Floats  # (n, D)
    Y: Floats  # (n, q)
    weight: Floats  # (n,)

    def of(self, which: NDArray[Any]) -> Rows:
        return Rows(self.Z[which], self.Y[which], self.weight[which])

    def distinct(self) -> Rows:
        """Merge equal rows into one row with their mean target and the sum of their weights."""
        Z, place = np.unique(self.Z, axis=0, return_inverse=True)
        weight: Floats = np.bincount(place.ravel(), weights=self.weight).astype(np.float64)
        sums = [np.bincount(place.ravel(), weights=self.weight * y) for y in self.Y.T]
        return Rows(Z, np.column_stack(sums) / weight[:, None], weight)

    def predict(self, x: Floats, powers: list[float]) -> Floats:
        """Return predictions (powers, m, q) at x (m, D); these rows must be distinct, but x may equal one of them."""
        out = np.empty((len(powers), len(x), self.Y.shape[1]))
        for block in row_blocks(len(x), len(self.Z)):
            log_distance = np.log(np.maximum(cdist(x[block], self.Z), SMALLEST_DISTANCE))
            for values, power in zip(out, powers, strict=True):
                log_w = np.log(self.weight) - power * log_distance
                W = np.exp(log_w - log_w.max(axis=1, keepdims=True))
                values[block] = W @ self.Y / W.sum(axis=1, keepdims=True)
        return out


class ShepardRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """Inverse distance weighting (Shepard, 1968): f(x) = sum_i w_i y_i d_i^-power / sum_i w_i d_i^-power.

    d_i is the Euclidean distance of x to row i in the given units of the features: scale the features first. The
    prediction at a training row is its target, or the mean target of all equal rows. Elsewhere it lies between the
    smallest and the largest target; far away from all rows it tends to the mean.

    Parameters
    ----------
    power : "auto", float or sequence of float, default="auto"
        Exponent of the distance. A power near 0 predicts the mean; a large power predicts the nearest row's target.
        "auto" (1 to 64) and a sequence are candidates for cross-validation.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds of the distinct rows.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds where cv is a number.

    Attributes
    ----------
    power_ : float, the power that was given or chosen.
    cv_errors_ : dict, power -> cross-validated squared error over the variance of y; empty for a single power.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(self, power: Any = "auto", *, cv: Any = 5, random_state: int | RandomState | None = None) -> None:
        self.power = power
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep the distinct rows of X (n, D) with their mean targets y (n,) or (n, q), and choose the power."""
        powers = _candidates(self.power)
        cv = parse_cv(self.cv)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        if not used.any():
            raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
        self._flat, self._size = y.ndim == 1, float(power_of_two(X.reshape(-1, 1))[0])
        rows = Rows(X / self._size, y.reshape(len(y), -1).astype(np.float64), weight)
        self._rows = rows.of(used).distinct()
        if self.cv is None or isinstance(self.cv, numbers.Integral):  # given splits refer to the unchanged rows
            rows, used = self._rows, np.ones(len(self._rows.Z), dtype=bool)
        self.cv_errors_: dict[float, float] = {}
        if len(powers) > 1 and used.sum() > 1:
            folds = Splits(cv, check_random_state(self.random_state), used, rows.Z, rows.Y).folds()
            self.cv_errors_ = _held_out_errors(rows.of(used), folds, powers)
        self.power_ = min(self.cv_errors_, key=self.cv_errors_.__getitem__) if self.cv_errors_ else powers[0]
        return self

    def predict(self, X: Any) -> Floats:
        """Return predictions of shape (n,) or (n, q), as y had in ``fit``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        with np.errstate(over="ignore"):
            x = np.clip(X / self._size, -FARTHEST, FARTHEST)
        values: Floats = self._rows.predict(x, [self.power_])[0]
        return values[:, 0] if self._flat else values


def _candidates(power: Any) -> list[float]:
    given = (
        POWERS if isinstance(power, str) and power == "auto" else [power] if isinstance(power, numbers.Real) else power
    )
    powers = np.array([] if isinstance(given, str) else given, dtype=np.float64)
    if powers.ndim != 1 or len(powers) == 0 or not ((powers > 0) & (powers < np.inf)).all():
        raise ValueError(f"power={power!r} must be 'auto', or one or several positive finite numbers")
    return [float(value) for value in powers]


def _held_out_errors(rows: Rows, folds: list[Fold], powers: list[float]) -> dict[float, float]:
    """Return per power the mean squared held-out error over the variance of each output, summed over the outputs."""
    variance, squares, total = target_variance(rows.Y, rows.weight), np.zeros(len(powers)), 0.0
    for held_out, test in folds:
        out, train = rows.of(held_out[test]), np.setdiff1d(np.arange(len(rows.Z)), held_out)
        error = rows.of(train).distinct().predict(out.Z, powers) - out.Y
        squares += (error**2 / variance).sum(axis=2) @ out.weight
        total += float(out.weight.sum())
    return dict(zip(powers, (squares / total).tolist(), strict=True))
