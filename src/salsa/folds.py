"""Cross-validation splits as the closed forms want them: rows held out, and which of these are scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.model_selection import KFold, check_cv

from salsa.kernels import Floats
from salsa.solvers import Fold


def make_folds(
    cv: Any, X: Floats, Y: Floats | None, used: NDArray[np.bool_], random_state: int | RandomState | None
) -> list[Fold]:
    """Folds over the rows in use (weight > 0), numbered among themselves.

    cv is a number of shuffled folds (at most one per row), a splitter or an iterable of (train, test) rows.
    A split need not train on all that it does not test: what it leaves out is held out too, and not scored.
    """
    n, cv = int(used.sum()), 5 if cv is None else cv
    number = np.cumsum(used) - 1  # of a row among those in use
    if isinstance(cv, (int, np.integer)):
        splits = KFold(min(int(cv), n), shuffle=True, random_state=random_state).split(np.empty(n))
        return [Fold(test, np.arange(len(test))) for _, test in splits]
    pairs = [(_rows(train, used), _rows(test, used)) for train, test in check_cv(cv).split(X, Y)]
    folds = [_fold(number[train], number[test], n) for train, test in pairs if len(test)]
    if not folds:
        raise ValueError("cv: no split tests a row of positive weight")
    return folds


def check_number_of_folds(cv: Any) -> None:
    if isinstance(cv, bool) or (isinstance(cv, (int, np.integer)) and cv < 2):
        raise ValueError(f"cv={cv!r}: at least 2 folds are needed; give a number, a splitter or an iterable of splits")


def _rows(indices: Any, used: NDArray[np.bool_]) -> NDArray[np.intp]:
    rows: NDArray[np.intp] = np.arange(len(used))[indices]
    return rows[used[rows]]


def _fold(train: NDArray[np.intp], test: NDArray[np.intp], n: int) -> Fold:
    if len(train) == 0:
        raise ValueError("cv: a split has no training row of positive weight")
    if len(np.unique(train)) < len(train):
        raise ValueError("cv: a split trains on a row more than once; use sample_weight for repeated rows")
    if len(np.intersect1d(train, test)):
        raise ValueError("cv: a split tests rows that it trains on")
    held_out = np.setdiff1d(np.arange(n), train)
    return Fold(held_out, np.searchsorted(held_out, test))
