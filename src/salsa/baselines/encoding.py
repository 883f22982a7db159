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
    """Whether a table has categories or missing values."""
    columns, rows = learn_columns(X)
    return bool(columns.categorical.any() or np.isnan(rows).any())


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as numbers: a column of 0 and 1 for every level of a category, medians for missing numbers.

    Unknown levels count as missing. A missing category has its own column if training rows have any, otherwise all 0.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        self.columns_, rows = learn_columns(X)
        levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        numbers = SimpleImputer(strategy="median", keep_empty_features=True)
        categorical = np.flatnonzero(self.columns_.categorical)
        others = np.flatnonzero(~self.columns_.categorical)
        self.encoder_ = make_column_transformer((numbers, others), (levels, categorical)).fit(rows)
        return self

    def transform(self, X: Any) -> Floats:
        encoded: Floats = self.encoder_.transform(self.columns_.encode(X))
        return encoded
