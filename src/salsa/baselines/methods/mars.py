"""Multivariate adaptive regression splines: the ``pyearth`` package with a limited number of terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.baselines.methods.estimator import Method

# Limits of the terms of the forward pass, two per feature. R's package earth allows 200 instead of 60, and pyearth adds
# n / 10: with 1000 rows of 90 features, a fit of degree 2 then takes 330 CPU seconds instead of 15.
FEWEST_TERMS, MOST_TERMS = 20, 60


@dataclass(eq=False, repr=False)
class MARSRegressor(Method):
    """A sum of products of hinges max(0, x_j - t) and max(0, t - x_j), found one after another, then pruned.

    Parameters
    ----------
    max_degree : int, default=1
        The largest number of hinges in a product.
    """

    _fewest_rows = 2

    max_degree: int = 1

    def _learn(self, X: Floats, y: Floats) -> None:
        from pyearth import Earth

        most = 1 + min(MOST_TERMS, max(FEWEST_TERMS, 2 * X.shape[1]))
        with np.errstate(all="ignore"):  # pyearth multiplies memory before filling it, and discards the product
            self.earth_ = Earth(max_degree=self.max_degree, max_terms=most).fit(*map(_writable, (X, y)))

    def _predict(self, X: Floats) -> Any:
        return np.asarray(self.earth_.predict(_writable(X)), dtype=np.float64).ravel()


def _writable(values: Floats) -> Floats:
    """Return a writable float64 array in C order, which pyearth requires."""
    return np.require(values, dtype=np.float64, requirements=["C", "W"])
