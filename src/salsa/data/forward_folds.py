"""Splits forward in time: every split trains on all rows before its test rows, also inside the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from salsa._utils.arrays import Floats, Places
from salsa.data.splits import parse_cv

Split = tuple[Places, Places]  # rows to train on, rows to test


class ForwardFolds:
    """TimeSeriesSplit for rows with time stamps (n,), which ascend: rows of one stamp are never cut.

    With distinct stamps the splits equal ``TimeSeriesSplit(count)``: the last `count` of `count` + 1 parts of about
    equal size are tested, each by all rows before it. Where stamps repeat, a cut moves to the nearest change of stamp.
    """

    def __init__(self, stamps: Any, count: int) -> None:
        self.stamps, self.count = np.asarray(stamps), int(parse_cv(count))
        self._starts = np.flatnonzero(self.stamps[1:] != self.stamps[:-1]) + 1  # first rows of all stamps but one
        if (distinct := len(self._starts) + 1) <= self.count:
            advice = f"at most {distinct - 1} folds" if distinct > 2 else "a finer time; at least 3 times are needed"
            raise ValueError(f"{self.count} folds in time need {self.count + 1} times, not {distinct}: give {advice}")

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.count

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """Yield training and test rows."""
        ends = [*self._cuts(), len(self.stamps)]
        for start, stop in pairwise(ends):
            yield np.arange(start), np.arange(start, stop)

    def at(self, rows: Places) -> ForwardFolds | None:
        """Return the folds of the first rows, fewer where they have few stamps; None if there is no room for two."""
        stamps = self.stamps[rows]
        count = min(self.count, len(np.unique(stamps)) - 1)
        return ForwardFolds(stamps, count) if count > 1 else None

    def _cuts(self) -> list[int]:
        """Return the first test row of every split: ascending starts of stamps, each as near as the others allow."""
        n, cuts, free = len(self.stamps), list[int](), 0
        for left in range(self.count, 0, -1):
            wanted = n - left * (n // (self.count + 1))
            choices = self._starts[free : len(self._starts) - left + 1]
            nearest = int(np.argmin(np.abs(choices - wanted)))
            cuts.append(int(choices[nearest]))
            free += nearest + 1
        return cuts


def forward_inside(cv: Any, splits: Sequence[Split], X: Any, y: Floats) -> list[list[Split] | None]:
    """Return the splits of cv inside the training rows of every split, if all of these are forward in time.

    None for a split: cv is no splitter, or not forward, or has no room for its splits in the training rows.
    """
    if not hasattr(cv, "split") or not all(map(_is_forward, splits)):
        return [None] * len(splits)
    return [_inside(cv, train, X, y) for train, _ in splits]


def _inside(cv: Any, train: Places, X: Any, y: Floats) -> list[Split] | None:
    if isinstance(cv, ForwardFolds):
        folds = cv.at(train)
        return None if folds is None else list(folds.split())
    try:
        found = list(cv.split(_safe_indexing(X, train), y[train]))
    except ValueError:  # e.g. more splits than rows
        return None
    return found if all(_is_forward(split) and split[1].max() < len(train) for split in found) else None


def _is_forward(split: Split) -> bool:
    """Return whether the training rows ascend, and precede all test rows."""
    train, test = split
    return bool((np.diff(train) > 0).all() and train[-1] < test.min())
