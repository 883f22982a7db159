"""Rivals that learn a transform of the target, and predict in its own units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from salsa._utils.arrays import Floats


class Transform(NamedTuple):
    """A transform of the target, and its inverse."""

    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]


TRANSFORMS = {
    "log": Transform(np.log, np.exp),
    "log1p": Transform(np.log1p, np.expm1),
    "sqrt": Transform(np.sqrt, lambda z: np.maximum(z, 0.0) ** 2),
}


class TransformedTarget(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of g(y) that predicts the mean of y by smearing (Duan, 1983).

    The prediction is the mean of g^-1(f(x) + r) over the residuals r of the training rows, as g^-1(f(x)) alone would be
    a median. ``SalsaRegressor(target_transform=...)`` does the same with held-out residuals.
    """

    def __init__(self, estimator: Any, transform: str) -> None:
        self.estimator = estimator
        self.transform = transform

    def fit(self, X: Any, y: Any) -> Self:
        z = transformed(y, self.transform)
        self.estimator_ = clone(self.estimator).fit(X, z)
        self.residual_ = z - self._predict(X)
        return self

    def predict(self, X: Any) -> Floats:
        inverse, f = TRANSFORMS[self.transform].inverse, self._predict(X)
        total = np.zeros(len(f))
        for residual in self.residual_:
            total += inverse(f + residual)
        return total / len(self.residual_)

    def _predict(self, X: Any) -> Floats:
        return np.asarray(self.estimator_.predict(X), dtype=np.float64).ravel()


def transformed(y: Floats, name: str) -> Floats:
    """Return g(y); ValueError with the first target outside the domain, and its row."""
    if name not in TRANSFORMS:
        raise ValueError(f"target_transform={name!r} must be one of {', '.join(TRANSFORMS)}, or None")
    with np.errstate(divide="ignore", invalid="ignore"):
        z = TRANSFORMS[name].forward(np.asarray(y, dtype=np.float64))
    outside = np.flatnonzero(~np.isfinite(z))
    if len(outside):
        advice = "choose another transform, shift the target, or leave such rows out"
        raise ValueError(f"target_transform={name!r}: row {outside[0]} has the target {y[outside[0]]:g}: {advice}")
    return z
