"""Rows far outside the range of the training data, where a prediction is a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.user_warning import OutsideRangeWarning, warn_user
from salsa.data.columns import Columns
from salsa.data.records import are_records

SLACK = 1.0  # share of the range that rows may lie beyond its ends without a warning
MOST_NAMED = 3  # columns in a message


def encoded(model: Any, X: Any) -> Floats:
    """Encode a table, a dict or a list of dicts for a fitted model (n, D); warn about rows far outside the range."""
    from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

    if "columns_" not in vars(model):
        check_is_fitted(model)
    if not are_records(X):  # records are read by name
        if type(X).__name__ == "Series":  # pandas is not imported for plain predictions
            advice = "give a row as a dict or as a table of one row, such as X.iloc[[0]]"
            raise ValueError(f"X is a Series, which may be a row or a column: {advice}")
        _check_feature_names(model, X, reset=False)
        if getattr(X, "ndim", 2) == 2:  # other shapes get their error from the columns
            _check_n_features(model, X, reset=False)
    rows: Floats = model.columns_.encode(X)
    if model.expansion_.kernel.distributions is None:
        _check_no_missing(rows, model.columns_.names)
    beyond = Beyond(model)
    beyond.add(rows)
    if told := str(beyond):
        warn_user(told, OutsideRangeWarning)
    return rows


def limits_of(expansion: Any, columns: Columns) -> tuple[Floats, Floats]:
    """Return the limits (D,) of values that are not far outside the training range of a function.

    Features that are not used, and places on a circle, have no limits.
    """
    low, high = expansion.ends
    width = high - low
    counts = (expansion.kernel.relevance > 0) & (width > 0) & ~columns.cyclic
    slack = np.where(counts, SLACK * width, np.inf)
    return low - slack, high + slack


def _check_no_missing(X: Floats, names: Sequence[str]) -> None:
    missing = np.isnan(X).any(axis=0)
    if missing.any():
        problem = f"column {names[int(missing.argmax())]!r} has a missing value or an unknown level"
        raise ValueError(f"{problem}, but this model was made without distributions of missing values: give a value")


class Beyond:
    """A count of rows far outside the training range, over all parts of a table, in the features a model uses."""

    def __init__(self, model: Any) -> None:
        self._low, self._high = model.expansion_.ends
        self._limits = limits_of(model.expansion_, model.columns_)
        self._names: Sequence[str] = model.columns_.names
        self._parts = model.columns_.all_parts
        self._rows = self._all = 0
        self._below, self._above = np.zeros((2, len(self._names)), dtype=np.int64)

    def add(self, X: Floats) -> None:
        """Count encoded rows (n, D); missing values are inside any range."""
        below, above = self._limits[0] > X, self._limits[1] < X
        self._below += below.sum(axis=0)
        self._above += above.sum(axis=0)
        self._rows += int((below | above).any(axis=1).sum())
        self._all += len(X)

    def __str__(self) -> str:
        """Return how many rows lie outside, and in which columns; empty if no row does."""
        if not self._rows:
            return ""
        counts = self._below + self._above
        places = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
        named = [where for j in places[:MOST_NAMED] for where in self._where(int(j))]
        more = ", ..." if len(places) > MOST_NAMED else ""
        verb = "lies" if self._rows == 1 else "lie"
        count = f"{self._rows} of {self._all} rows {verb} far outside the range of the training data"
        return f"{count} ({', '.join(named)}{more}), where a prediction is a guess"

    def _where(self, j: int) -> list[str]:
        sides = ((self._below[j], "below", self._low[j]), (self._above[j], "above", self._high[j]))
        ends = [f"{end:.4g}" if self._parts[j] is None else self._parts[j].written(end) for _, _, end in sides]
        told = zip(sides, ends, strict=True)
        return [f"{self._names[j]!r} {side} {end} in {count}" for (count, side, _), end in told if count]
