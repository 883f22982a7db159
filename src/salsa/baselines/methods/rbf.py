"""Interpolation by SciPy's radial basis functions, as an estimator that accepts repeated rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator

from salsa._utils.arrays import Floats
from salsa.baselines.methods.estimator import Method

CONDITIONED = ("linear", "multiquadric")  # kernels that need only a constant term, for any number of features


@dataclass(eq=False, repr=False)
class RBFInterpolationRegressor(Method):
    """Radial basis functions f(x) = c + sum_i a_i phi(|x - x_i|), through the data or, with smoothing, near them.

    Equal rows are merged into one row with their mean target, as no function interpolates different targets.

    Parameters
    ----------
    kernel : {"linear", "multiquadric"}, default="linear"
        phi(r) = -r or -sqrt(1 + r^2).
    smoothing : float, default=1e-8
        The number that is added to the diagonal; 0 interpolates, as far as rounding allows.
    """

    kernel: Any = "linear"
    smoothing: float = 1e-8

    def _learn(self, X: Floats, y: Floats) -> None:
        if self.kernel not in CONDITIONED:
            raise ValueError(f"kernel={self.kernel!r} must be one of {', '.join(CONDITIONED)}")
        points, group = np.unique(X, axis=0, return_inverse=True)
        means = np.bincount(group.ravel(), weights=y) / np.bincount(group.ravel())
        shape = {"kernel": self.kernel, "smoothing": self.smoothing, "epsilon": 1.0, "degree": 0}
        self.function_ = RBFInterpolator(points, means, **shape)

    def _predict(self, X: Floats) -> Any:
        return self.function_(X)
