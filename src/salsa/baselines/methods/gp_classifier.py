"""Gaussian process classification of few rows."""

from __future__ import annotations

from typing import Any, Self

from sklearn.gaussian_process import GaussianProcessClassifier

MOST_ROWS = 1000


class SmallGPClassifier(GaussianProcessClassifier):  # type: ignore[misc]
    """Gaussian process classifier of scikit-learn that refuses more than MOST_ROWS rows.

    Every step of its optimisation takes about n^3 operations for each class.
    """

    def fit(self, X: Any, y: Any) -> Self:
        if len(X) > MOST_ROWS:
            raise ValueError(f"gp would take too long on {len(X)} rows: give at most {MOST_ROWS}, or take svm")
        super().fit(X, y)
        return self
