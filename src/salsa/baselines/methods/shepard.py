"""Shepard interpolation: means of all rows, weighted by powers of the inverse distance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from salsa._utils.arrays import Floats
from salsa._utils.memory import row_blocks
from salsa._utils.weighted import power_of_two
from salsa.baselines.methods.estimator import Seed, WeightedMethod, is_folds, weighted_errors
from salsa.data.rows import Observations
from salsa.data.splits import Given, folds_of, parse_cv
from salsa.options import is_text

POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
SMALLEST_DISTANCE = 1e-150  # relative to the data's size: rows that are nearer to x count as equal to x
FARTHEST = 1e100  # limit of queries, relative to the data's size; all rows are equally far from there


@dataclass(eq=False, repr=False)
class ShepardRegressor(WeightedMethod):
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

    power: Any = "auto"
    _: KW_ONLY
    cv: Any = 5
    random_state: Seed = None

    def _learn(self, rows: Observations) -> None:
        """Keep the distinct rows, with features in units of the data's size, and choose the power."""
        powers, cv = _candidates(self.power), parse_cv(self.cv)
        self._size = float(power_of_two(rows.X.reshape(-1, 1))[0])
        rows, used = rows._replace(X=rows.X / self._size), rows.weight > 0
        self._rows = distinct(rows.some(used))
        if is_folds(self.cv):
            rows, used = self._rows, np.ones(len(self._rows.X), dtype=bool)
        self.cv_errors_: dict[float, float] = {}
        if len(powers) > 1 and used.sum() > 1:
            folds = folds_of(cv, Given(used, rows.X, rows.Y), check_random_state(self.random_state))
            kept = rows.some(used)
            self.cv_errors_ = weighted_errors(
                kept, folds, powers, lambda train, x: weighted_means(distinct(kept.some(train)), x, powers)
            )
        self.power_ = min(self.cv_errors_, key=self.cv_errors_.__getitem__) if self.cv_errors_ else powers[0]

    def _predict(self, X: Floats) -> Any:
        with np.errstate(over="ignore"):
            x = np.clip(X / self._size, -FARTHEST, FARTHEST)
        return weighted_means(self._rows, x, [self.power_])[0]


def distinct(rows: Observations) -> Observations:
    """Merge equal rows into one row with their mean target and the sum of their weights."""
    X, place = np.unique(rows.X, axis=0, return_inverse=True)
    weight: Floats = np.bincount(place.ravel(), weights=rows.weight).astype(np.float64)
    sums = [np.bincount(place.ravel(), weights=rows.weight * y) for y in rows.Y.T]
    return Observations(X, np.column_stack(sums) / weight[:, None], weight)


def weighted_means(rows: Observations, x: Floats, powers: list[float]) -> Floats:
    """Return predictions (powers, m, q) at x (m, D) from distinct rows, of which x may equal one."""
    out = np.empty((len(powers), len(x), rows.Y.shape[1]))
    for block in row_blocks(len(x), len(rows.X)):
        log_distance = np.log(np.maximum(cdist(x[block], rows.X), SMALLEST_DISTANCE))
        for values, power in zip(out, powers, strict=True):
            log_w = np.log(rows.weight) - power * log_distance
            W = np.exp(log_w - log_w.max(axis=1, keepdims=True))
            values[block] = W @ rows.Y / W.sum(axis=1, keepdims=True)
    return out


def _candidates(power: Any) -> list[float]:
    given = POWERS if is_text(power, "auto") else [power] if isinstance(power, Real) else power
    powers = np.array([] if isinstance(given, str) else given, dtype=np.float64)
    if powers.ndim != 1 or len(powers) == 0 or not ((powers > 0) & (powers < np.inf)).all():
        raise ValueError(f"power={power!r} must be 'auto', or one or several positive finite numbers")
    return [float(value) for value in powers]
