"""Predictions of a saved function by itself, for plain values: without SciPy, pandas and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.cached import cached_property
from salsa.data.records import PlainTable, are_records, encode_plain, values_of_records
from salsa.data.training_range import limits_of
from salsa.persistence.function_state import SavedFunction


class QuickPredictions:
    """Predictions with the bits of the estimator.

    Methods return None for everything that needs the estimator: a table that is not plain, or an error or a warning to
    give.
    """

    def __init__(self, function: SavedFunction, n_threads: int | None) -> None:
        self._function, self._threads = function, n_threads

    @cached_property
    def _limits(self) -> tuple[Floats, Floats]:
        return limits_of(self._function.expansion, self._function.columns)

    def response(self, X: Any) -> Floats | None:
        """Return the predicted target (n,) or (n, q)."""
        if (f := self.values(X)) is None:
            return None
        transform = self._function.transform
        values = f if transform is None else transform.mean(f)
        return values[:, 0] if self._function.flat else values

    def probabilities(self, X: Any) -> Floats | None:
        """Return the probabilities (n, n_classes) of classes."""
        if (f := self.values(X)) is None:
            return None
        assert self._function.transform is not None
        p = self._function.transform.mean(f)
        return np.column_stack([1.0 - p, p]) if p.shape[1] == 1 else p

    def labels(self, X: Any) -> NDArray[Any] | None:
        """Return the most probable class (n,)."""
        if (p := self.probabilities(X)) is None:
            return None
        assert self._function.classes is not None
        labels: NDArray[Any] = self._function.classes[np.argmax(p, axis=1)]
        return labels

    def values(self, X: Any) -> Floats | None:
        """Return f(X) (n, q)."""
        rows = self._rows(X)
        return None if rows is None else self._function.expansion.predict(rows, n_threads=self._threads)

    def _rows(self, X: Any) -> Floats | None:
        """Return plain rows as floats (n, D) that are not far outside the training range."""
        columns, expansion = self._function.columns, self._function.expansion
        if columns.parts:  # dates and durations
            return None
        if are_records(X):
            X = PlainTable(values_of_records(X, columns.names))
        elif not self._has_the_names(X):
            return None
        rows = encode_plain(X, columns.codes)
        if rows is None or (expansion.kernel.distributions is None and np.isnan(rows).any()):
            return None
        low, high = self._limits
        return None if ((rows < low) | (rows > high)).any() else rows

    def _has_the_names(self, X: Any) -> bool:
        """Whether a table has names exactly if the training table had, and the same."""
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else []
        return names == self._function.feature_names
