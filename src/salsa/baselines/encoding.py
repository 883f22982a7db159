"""Encode tables with text and missing values for methods that accept only numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from salsa._utils.arrays import Floats
from salsa.data.table_columns import learn_columns


def needs_encoding(X: Any) -> bool:
    """Whether a table has categories, dates, durations or missing values."""
    columns, rows = learn_columns(X)
    return bool(columns.categorical.any() or columns.parts or np.isnan(rows).any())


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as numbers: a column of 0 and 1 for every level of a category, medians for missing numbers.

    Unknown levels count as missing. A missing category has its own column if training rows have any, otherwise all 0.
    Parts of dates that repeat are given as numbers from 0 to 1, with their cosine and sine.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        self.columns_, rows = learn_columns(X)
        levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        numbers = SimpleImputer(strategy="median", keep_empty_features=True)
        rows = self._with_circles(rows)
        categorical = np.flatnonzero(self.columns_.categorical)
        others = np.setdiff1d(np.arange(rows.shape[1]), categorical)
        self.encoder_ = make_column_transformer((numbers, others), (levels, categorical)).fit(rows)
        return self

    def transform(self, X: Any) -> Floats:
        encoded: Floats = self.encoder_.transform(self._with_circles(self.columns_.encode(X)))
        return encoded

    def _with_circles(self, rows: Floats) -> Floats:
        """Append the cosine and the sine of places on a circle, for methods that do not know circles."""
        angle = 2.0 * np.pi * rows[:, self.columns_.cyclic]
        return np.hstack([rows, np.cos(angle), np.sin(angle)]) if angle.shape[1] else rows
