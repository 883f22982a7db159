"""Rivals that learn a transform of the target, and predict in its own units."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from salsa._utils.arrays import Floats
from salsa.data.transforms import TRANSFORMS, smearing, transformed


class TransformedTarget(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of g(y) that predicts the mean of y by smearing over the residuals of the training rows.

    ``SalsaRegressor(target_transform=...)`` does the same with held-out residuals.
    """

    def __init__(self, estimator: Any, transform: str) -> None:
        self.estimator = estimator
        self.transform = transform

    def fit(self, X: Any, y: Any) -> Self:
        z = checked_transform(y, self.transform)
        self.estimator_ = clone(self.estimator).fit(X, z)
        self.way_back_ = smearing(self.transform, z[:, None] - self._predict(X))
        return self

    def predict(self, X: Any) -> Floats:
        assert self.way_back_ is not None
        return self.way_back_.mean(self._predict(X))[:, 0]

    def _predict(self, X: Any) -> Floats:
        """Return predictions (n, 1) of the transformed target."""
        return np.asarray(self.estimator_.predict(X), dtype=np.float64).reshape(-1, 1)


def checked_transform(y: Any, name: str) -> Floats:
    """Return g(y) (n,); ValueError for an unknown transform, or with the first target outside its domain."""
    if name not in TRANSFORMS:
        raise ValueError(f"target_transform={name!r} must be one of {', '.join(TRANSFORMS)}, or None")
    return transformed(name, np.asarray(y, dtype=np.float64)[:, None])[:, 0]
