"""Shared parts of the estimators of this package: validation of tables, and the shape of predictions."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.weighted import target_variance
from salsa.data.rows import Observations
from salsa.data.splits import Fold

Seed = int | RandomState | None


class Method(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of one target: a subclass learns from arrays by ``_learn``, and predicts by ``_predict``."""

    _dtype: Any = np.float64
    _fewest_rows = 1

    def fit(self, X: Any, y: Any) -> Self:
        """Choose all parameters that are not given, and learn from all rows of X (n, D) with the targets y (n,)."""
        X, y = validate_data(self, X, y, dtype=self._dtype, y_numeric=True, ensure_min_samples=self._fewest_rows)
        with one_blas_thread():  # the matrices are small
            self._learn(X, y.astype(np.float64))
        return self

    def predict(self, X: Any) -> Floats:
        """Return predictions (n,) for the rows of X."""
        check_is_fitted(self)
        values: Floats = self._predict(validate_data(self, X, dtype=self._dtype, reset=False))
        return values


class WeightedMethod(RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of several targets from weighted rows, which learns by ``_learn`` and predicts by ``_predict``."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep the rows of X (n, D) and y (n,) or (n, q), and choose all parameters that are not given."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
        self._flat = y.ndim == 1
        self._learn(Observations(X, y.reshape(len(y), -1).astype(np.float64), weight))
        return self

    def predict(self, X: Any) -> Floats:
        """Return predictions of shape (n,) or (n, q), as y had in ``fit``."""
        check_is_fitted(self)
        values: Floats = self._predict(validate_data(self, X, dtype=np.float64, order="C", reset=False))
        return values[:, 0] if self._flat else values


def is_folds(cv: Any) -> bool:
    """Whether `cv` is a number of folds: given splits refer to the unchanged rows, folds may divide other rows."""
    return cv is None or isinstance(cv, numbers.Integral)


def weighted_errors(
    rows: Observations,
    folds: Sequence[Fold],
    candidates: Sequence[float],
    predict: Callable[[Places, Floats], Floats],
) -> dict[float, float]:
    """Return per candidate the mean squared held-out error over the variance of each output, summed over the outputs.

    predict : function of the training rows' numbers and m queries, with predictions (candidates, m, q).
    """
    variance, squares, total = target_variance(rows.Y, rows.weight), np.zeros(len(candidates)), 0.0
    for held_out, test in folds:
        scored, train = rows.some(held_out[test]), np.setdiff1d(np.arange(len(rows.X)), held_out)
        squares += ((predict(train, scored.X) - scored.Y) ** 2 / variance).sum(axis=2) @ scored.weight
        total += float(scored.weight.sum())
    return dict(zip(candidates, (squares / total).tolist(), strict=True))
