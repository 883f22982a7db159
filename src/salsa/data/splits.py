"""The splits of a fit: how rows are held out and drawn, by everything that chooses and everything that judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.random import sample_without_replacement

from salsa._utils.arrays import Floats, Places
from salsa.data.rows import SLICE, FoldOf

DEFAULT_FOLDS = 5
INNER_FOLDS = 5  # folds of searches on a sample of the rows


class Fold(NamedTuple):
    """One split: `held_out` are all rows that were not trained on, `test` are the scored rows among them."""

    held_out: Places
    test: Places  # positions within held_out


@dataclass(frozen=True, eq=False)
class Splits:
    """All random splits and samples of one fit, from one random state: the order of the calls matters.

    cv is a number of shuffled folds, or anything that scikit-learn's ``check_cv`` takes. Given splits refer to the
    rows X, Y as they were given, of which only those in use (positive weight) are numbered.
    """

    cv: Any
    random_state: RandomState
    used: NDArray[np.bool_]
    X: Floats | None = None
    Y: Floats | None = None

    def folds(self) -> list[Fold]:
        """Return the folds of the cross-validation over the rows in use.

        A split need not use all rows: a row that is neither trained on nor tested is held out and not scored.
        """
        n = int(self.used.sum())
        if _is_number(self.cv):
            return shuffled_folds(n, int(self.cv), self.random_state)
        X = np.empty((len(self.used), 1)) if self.X is None else self.X
        number = np.cumsum(self.used) - 1  # index of each row among the rows in use
        splits = check_cv(self.cv).split(X, self.Y)
        pairs = [(_rows(train, self.used), _rows(test, self.used)) for train, test in splits]
        folds = [_fold(number[train], number[test], n) for train, test in pairs if len(test)]
        if not folds:
            raise ValueError("cv: no split tests a row of positive weight")
        return folds

    def fold_of(self) -> tuple[FoldOf, int]:
        """Return which fold each row in use is held out in, for any range of rows, and the number of folds."""
        n = int(self.used.sum())
        if _is_number(self.cv):
            count = min(int(self.cv), n)
            return ShuffledFolds(count, int(self.random_state.randint(2**31))), count
        number = fold_numbers(self.folds(), n)
        return lambda start, stop: number[start:stop], int(number.max()) + 1

    def places(self, limit: int) -> Places:
        """Draw at most `limit` of the rows in use, in ascending order; all rows are equally likely."""
        n = int(self.used.sum())
        drawn = sample_without_replacement(n, min(n, limit), random_state=self.random_state)
        return np.sort(drawn).astype(np.intp)

    def sample(self, Y: Floats, limit: int) -> Places:
        """Draw at most `limit` rows, evenly spaced in the order of the target; all rows are equally likely."""
        n = len(Y)
        if n <= limit:
            return np.arange(n)
        order = self._by_target(Y)
        places = (np.arange(limit) + self.random_state.uniform()) * n / limit
        return np.sort(order[places.astype(np.intp)])

    def halves(self, Y: Floats) -> Places:
        """Assign every row to half 0 or 1 (n,) at random; pairs of neighbours in the order of the target are split."""
        order = self._by_target(Y)
        half = np.empty(len(order), dtype=np.intp)
        first = self.random_state.randint(2, size=(len(order) + 1) // 2)
        half[order] = np.column_stack([first, 1 - first]).ravel()[: len(order)]
        return half

    def _by_target(self, Y: Floats) -> Places:
        """Return the rows in the order of the first output, ties in random order."""
        shuffle = self.random_state.permutation(len(Y))
        return shuffle[np.argsort(Y[shuffle, 0], kind="stable")]


@dataclass(frozen=True)
class ShuffledFolds:
    """Folds of equal size. The fold of a row follows from its number and the seed: nothing is stored or sent."""

    count: int
    seed: int

    def __call__(self, start: int, stop: int) -> Places:
        rounds = max(1, SLICE // self.count)
        size = rounds * self.count
        first = start // size
        groups = [self._group(number, rounds) for number in range(first, max(first, (stop - 1) // size) + 1)]
        return np.concatenate(groups)[start - first * size : stop - first * size]

    def _group(self, number: int, rounds: int) -> Places:
        """Assign runs of `count` neighbours, `rounds` of them, to all folds in random order."""
        random = np.random.default_rng((self.seed, number)).random((rounds, self.count))
        return np.argsort(random, axis=1).ravel()


def parse_cv(cv: Any) -> Any:
    """Return the user's cv, 5 for None; ValueError for fewer than two folds."""
    if isinstance(cv, bool) or (_is_number(cv) and cv < 2):
        raise ValueError(f"cv={cv!r}: at least 2 folds are needed; give a number, a splitter or an iterable of splits")
    return DEFAULT_FOLDS if cv is None else cv


def shuffled_folds(n: int, count: int, random_state: int | RandomState | None) -> list[Fold]:
    """Return shuffled folds of n rows, at most one per row."""
    splits = KFold(min(count, n), shuffle=True, random_state=random_state).split(np.empty(n))
    return [Fold(test, np.arange(len(test))) for _, test in splits]


def inner_folds(n: int) -> list[Fold]:
    """Return the folds of a search on n sampled rows; they do not depend on the seed of the fit."""
    return shuffled_folds(n, INNER_FOLDS, 0)


def fold_numbers(folds: Sequence[Fold], n: int) -> Places:
    """Return the fold that each of n rows is held out in (n,); ValueError unless each is tested exactly once."""
    number, times = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    for place, fold in enumerate(folds):
        number[fold.held_out] = place
        times[fold.held_out[fold.test]] += 1
    if (times != 1).any() or sum(len(fold.held_out) for fold in folds) != n:
        advice = "give a number of folds, or splits such as those of GroupKFold; or solver='exact', which takes any"
        raise ValueError(f"cv: the low-rank solver needs splits that test every row exactly once: {advice}")
    return number


def _is_number(cv: Any) -> bool:
    return isinstance(cv, (int, np.integer))


def _rows(indices: Any, used: NDArray[np.bool_]) -> Places:
    rows: Places = np.arange(len(used))[indices]
    return rows[used[rows]]


def _fold(train: Places, test: Places, n: int) -> Fold:
    if len(train) == 0:
        raise ValueError("cv: a split has no training row of positive weight")
    if len(np.unique(train)) < len(train):
        raise ValueError("cv: a split trains on a row more than once; use sample_weight for repeated rows")
    if len(np.intersect1d(train, test)):
        raise ValueError("cv: a split tests rows that it trains on")
    held_out = np.setdiff1d(np.arange(n), train)
    return Fold(held_out, np.searchsorted(held_out, test))
