"""The splits of a fit: which rows are held out and drawn, by everything that chooses and everything that judges.

Splits are made once per fit. A sample of the rows keeps the splits of the table (``Splits.at``): no other place draws
folds or rows. A unit is what is held out as a whole: a row, a group, or a cell of aggregated counts.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from salsa._utils.arrays import Floats, Places
from salsa.data.rows import SLICE, FoldOf

DEFAULT_FOLDS = 5


class Fold(NamedTuple):
    """One split: `held_out` are all rows that were not trained on, `test` are the scored rows among them."""

    held_out: Places
    test: Places  # positions within held_out

    @property
    def tested(self) -> Places:
        """The scored rows."""
        return self.held_out[self.test]


@dataclass(frozen=True, eq=False)
class Splits:
    """All splits and samples of one fit; samples are drawn from one random state, in the order of calls."""

    n: int
    folds: tuple[Fold, ...]
    random_state: RandomState
    unit: Places | None = None  # (n,) equal for rows that are held out together; None: every row by itself
    given: bool = False  # the user gave splits: they judge in the place of leaving one unit out
    target: Floats | None = None  # (n, 1) whose order systematic folds follow; None: folds are drawn or given

    @property
    def ordered(self) -> bool:
        """Whether all training rows of every split precede its test rows: later rows judge."""
        return self.given and all(_precede(fold, self.n) for fold in self.folds)

    @property
    def judges(self) -> tuple[Fold, ...] | None:
        """The folds that judge a kernel: the given ones, or one per unit; None: one per row."""
        if self.given:
            return self.folds
        if self.unit is None:
            return None
        return tuple(folds_by(self.unit))

    def at(self, places: Places | NDArray[np.bool_]) -> Splits:
        """Return the splits of some of the rows; folds without a test row or a training row are left out.

        A sample at equal distances in the order of the target can fall into step with systematic folds, and miss some
        of them. Its folds then follow from its own targets.
        """
        rows = np.arange(self.n)[places]
        folds = [_restricted(fold, rows, self.n) for fold in self.folds]
        folds = [fold for fold in folds if len(fold.test) and len(fold.held_out) < len(rows)]
        unit = None if self.unit is None else np.unique(self.unit[rows], return_inverse=True)[1]
        target = None if self.target is None else self.target[rows]
        if target is not None and len(folds) < len(self.folds):
            return systematic_splits(target, len(self.folds), unit, self.random_state)
        return replace(self, n=len(rows), folds=tuple(folds), unit=unit, target=target)

    def sample(self, Y: Floats, limit: int) -> Places:
        """Draw at most `limit` rows, evenly spaced in the order of the target; all rows are equally likely."""
        n = len(Y)
        if n <= limit:
            return np.arange(n)
        order = self._by_target(Y[:, 0])
        places = (np.arange(limit) + self.random_state.uniform()) * n / limit
        return np.sort(order[places.astype(np.intp)])

    def halves(self, Y: Floats) -> Places:
        """Assign every row to half 0 or 1 (n,); units are never cut.

        Ordered rows: the earlier and the later half. Given folds that hold every row out once: every other fold.
        Otherwise units in the order of the target, by turns: 0, 1, 1, 0. Nothing is drawn, so that the choice between
        kernels does not depend on a seed.
        """
        if self.ordered:
            return (np.arange(self.n) >= self.n // 2).astype(np.intp)
        if self.given and (number := self.partition()) is not None:
            return number % 2
        half = _by_turns(_target_of_units(Y, self.unit), 2)
        return half if self.unit is None else half[self.unit]

    def with_units(self, unit: Places | None, *, grouped: bool) -> Splits:
        """Return given splits that do not train on units that they hold out; ValueError if they cut a group."""
        if unit is None:
            return self
        folds = tuple(_whole(fold, place, unit, grouped) for place, fold in enumerate(self.folds))
        return replace(self, folds=folds, unit=unit)

    def patterns(self) -> NDArray[np.bool_]:
        """Return for every row which splits hold it out, and which test it (n, 2 splits)."""
        patterns = np.zeros((self.n, 2 * len(self.folds)), dtype=bool)
        for place, fold in enumerate(self.folds):
            patterns[fold.held_out, 2 * place] = True
            patterns[fold.tested, 2 * place + 1] = True
        return patterns

    def partition(self) -> Places | None:
        """Return the fold that holds every row out (n,); None unless every row is held out and tested exactly once."""
        number, times = np.zeros(self.n, dtype=np.intp), np.zeros(self.n, dtype=np.intp)
        for place, fold in enumerate(self.folds):
            number[fold.held_out] = place
            times[fold.tested] += 1
        whole = (times == 1).all() and sum(len(fold.held_out) for fold in self.folds) == self.n
        return number if whole and len(self.folds) > 1 else None

    def _by_target(self, target: Floats) -> Places:
        """Return the places in the order of the target, ties in random order."""
        shuffle = self.random_state.permutation(len(target))
        return shuffle[np.argsort(target[shuffle], kind="stable")]


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


@dataclass(frozen=True, eq=False)
class StoredFolds:
    """The fold of every row, from an array (n,)."""

    number: Places

    def __call__(self, start: int, stop: int) -> Places:
        return self.number[start:stop]


class TableSplits(NamedTuple):
    """The splits of a table of many rows: the fold of every row, and how folds follow from each other."""

    n: int
    fold: FoldOf
    n_folds: int
    random_state: RandomState
    unit: Places | None = None
    given: bool = False
    forward: bool = False  # the fold of a row is judged by the fit to all rows of earlier folds

    @property
    def units(self) -> int:
        """The number of units that are held out whole; 0 if these are the rows."""
        return 0 if self.unit is None else int(self.unit.max()) + 1

    def places(self, limit: int) -> Places:
        """Draw at most `limit` rows, in ascending order; all rows are equally likely."""
        drawn = sample_without_replacement(self.n, min(self.n, limit), random_state=self.random_state)
        return np.sort(drawn).astype(np.intp)

    def at(self, places: Places) -> Splits:
        """Return the splits of a sample of the rows."""
        number = _at(self.fold, places)
        if self.forward:
            tested = range(1, self.n_folds)
            pairs = [(np.flatnonzero(number >= k), number[number >= k] == k) for k in tested]
            folds = [Fold(rows, np.flatnonzero(test)) for rows, test in pairs]
        else:
            folds = folds_by(number)
        folds = [fold for fold in folds if len(fold.test) and len(fold.held_out) < len(places)]
        unit = None if self.unit is None else np.unique(self.unit[places], return_inverse=True)[1]
        return Splits(len(places), tuple(folds), self.random_state, unit, self.given)


class Given(NamedTuple):
    """The rows as the user gave them, for splitters: rows in use, features, targets and groups."""

    used: NDArray[np.bool_]
    X: Floats | None = None
    Y: Floats | None = None
    groups: Any = None


def given_splits(cv: Any, given: Given, random_state: RandomState) -> Splits | None:
    """Return the splits that the user gives; None if cv is a number of folds."""
    if is_number(cv):
        return None
    return Splits(int(given.used.sum()), tuple(_given_folds(cv, given)), random_state, given=True)


def folds_of(cv: Any, given: Given, random_state: RandomState) -> list[Fold]:
    """Return the given folds, or shuffled ones of the rows in use."""
    splits = given_splits(cv, given, random_state)
    return shuffled_folds(int(given.used.sum()), int(cv), random_state) if splits is None else list(splits.folds)


def drawn_splits(n: int, count: int, unit: Places | None, random_state: RandomState) -> Splits:
    """Return shuffled folds of n rows; units are never cut."""
    return Splits(n, tuple(shuffled_folds(n, count, random_state, unit)), random_state, unit)


def systematic_splits(Y: Floats, count: int, unit: Places | None, random_state: RandomState) -> Splits:
    """Return folds of about equal size that follow from the targets Y (n, q); units are never cut.

    In the order of the target, units go to the folds by turns: all folds have about the same targets, and no choice
    depends on a seed. Units of different sizes go into the smallest fold, the largest first.
    """
    target = _target_of_units(Y, unit)
    count = min(count, len(target))
    if count < 2:
        return Splits(len(Y), (), random_state, unit)
    if unit is None:
        number = _by_turns(target, count)
    else:
        number = _balanced(unit, count, np.argsort(target, kind="stable"), _by_turns(target, count))
    return Splits(len(Y), tuple(folds_by(number)), random_state, unit, target=Y[:, :1])


def table_splits(
    given: Splits | None, cv: Any, n: int, unit: Places | None, random_state: RandomState, *, grouped: bool
) -> TableSplits:
    """Return the splits of a table of many rows: the given ones, or cv shuffled folds; grouped: units are groups."""
    return drawn_table_splits(n, cv, unit, random_state) if given is None else given_table_splits(given, unit, grouped)


def drawn_table_splits(n: int, count: int, unit: Places | None, random_state: RandomState) -> TableSplits:
    """Return shuffled folds of a table of many rows."""
    count, seed = min(count, n if unit is None else int(unit.max()) + 1), int(random_state.randint(2**31))
    if unit is None:
        return TableSplits(n, ShuffledFolds(count, seed), count, random_state)
    return TableSplits(n, StoredFolds(balanced_folds(unit, count, seed)), count, random_state, unit)


def given_table_splits(splits: Splits, unit: Places | None, grouped: bool) -> TableSplits:
    """Return given splits of a table of many rows; ValueError unless each row is tested once, or later rows are.

    Sums over folds leave whole folds out: copies are moved to the fold of their first row. Where later rows judge,
    every row stays at its time.
    """
    splits = splits.with_units(unit, grouped=True) if grouped else _with_whole_copies(splits, unit)
    number, forward = fold_numbers(splits)
    folds = StoredFolds(number), int(number.max()) + 1
    return TableSplits(splits.n, *folds, splits.random_state, splits.unit, True, forward)


def parse_cv(cv: Any) -> Any:
    """Return the user's cv, 5 for None; ValueError for fewer than two folds."""
    if isinstance(cv, bool) or (is_number(cv) and cv < 2):
        raise ValueError(f"cv={cv!r}: at least 2 folds are needed; give a number, a splitter or an iterable of splits")
    return DEFAULT_FOLDS if cv is None else cv


def shuffled_folds(
    n: int, count: int, random_state: int | RandomState | None, unit: Places | None = None
) -> list[Fold]:
    """Return shuffled folds of n rows, at most one per row; units are never cut, and folds are of about equal size."""
    units = n if unit is None else int(unit.max()) + 1
    if units < 2:
        return []
    if unit is not None:
        return folds_by(balanced_folds(unit, min(count, units), random_state))
    splits = KFold(min(count, n), shuffle=True, random_state=random_state).split(np.empty(n))
    return [Fold(test, np.arange(len(test))) for _, test in splits]


def balanced_folds(unit: Places, count: int, random_state: Any) -> Places:
    """Return the fold (n,) of every row: units in random order, the largest first, each into the smallest fold."""
    shuffle = check_random_state(random_state).permutation(int(unit.max()) + 1)
    by_turns = np.empty(len(shuffle), dtype=np.intp)
    by_turns[shuffle] = np.arange(len(shuffle)) % count
    return _balanced(unit, count, shuffle, by_turns)


def fold_numbers(splits: Splits) -> tuple[Places, bool]:
    """Return the fold of every row (n,), and whether a fold is judged by the fit to all rows of earlier folds.

    ValueError unless every row is tested exactly once, or every split trains on all rows before its test rows.
    """
    if (number := splits.partition()) is not None:
        return number, False
    number = np.zeros(splits.n, dtype=np.intp)
    for place, fold in enumerate(splits.folds, start=1):
        number[fold.tested] = place
    expanding = splits.ordered and all(
        np.array_equal(np.setdiff1d(np.arange(splits.n), fold.held_out), np.flatnonzero(number < place))
        for place, fold in enumerate(splits.folds, start=1)
    )
    if not expanding:
        advice = "give a number of folds, or splits such as those of GroupKFold or TimeSeriesSplit"
        rule = "splits that test every row exactly once, or that train on all rows before the tested ones"
        raise ValueError(f"cv: the solvers of many rows need {rule}: {advice}; or solver='exact', which takes any")
    return number, True


def members(unit: Places) -> list[Places]:
    """Return the rows of every unit."""
    order = np.argsort(unit, kind="stable")
    return np.split(order, np.cumsum(np.bincount(unit))[:-1])


def folds_by(number: Places) -> list[Fold]:
    """Return a fold for every number, of the rows that have it; all of them are scored."""
    return [Fold(rows, np.arange(len(rows))) for rows in members(number) if len(rows)]


def is_number(cv: Any) -> bool:
    return isinstance(cv, (int, np.integer))


def split_rows(cv: Any, X: Any, y: Any, groups: Any, n: int) -> list[tuple[Places, Places]]:
    """Return training and test rows of every split of n rows, by number; splitters need not use the groups."""
    with warnings.catch_warnings():  # whoever splits checks whether groups are cut
        warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
        splits = list(check_cv(cv).split(X, y, groups))
    return [(np.arange(n)[train], np.arange(n)[test]) for train, test in splits]


def check_whole(place: int, trained: Places, tested: Places) -> None:
    """Raise ValueError if a split, given by its place and the groups of its rows, trains on a group that it tests."""
    if cut := len(np.intersect1d(trained, tested)):
        advice = "give a number of folds, which keeps groups whole, or a splitter such as GroupKFold"
        raise ValueError(f"cv: split {place} has rows of {cut} groups both in training and in test: {advice}")


def _balanced(unit: Places, count: int, order: Places, equal: Places) -> Places:
    """Return the fold (n,) of every row: units in this order, the largest first, each into the smallest fold.

    Units of equal size go to the folds `equal` (units,).
    """
    size = np.bincount(unit)
    if size.max() == size.min():
        return equal[unit]
    fold_of_unit, filled = np.empty(len(size), dtype=np.intp), np.zeros(count)
    for u in order[np.argsort(-size[order], kind="stable")]:
        fold = int(np.argmin(filled))
        fold_of_unit[u] = fold
        filled[fold] += size[u]
    return fold_of_unit[unit]


def _target_of_units(Y: Floats, unit: Places | None) -> Floats:
    """Return the mean of the first output over the rows of every unit (units,)."""
    return Y[:, 0] if unit is None else np.bincount(unit, Y[:, 0]) / np.bincount(unit)


def _by_turns(target: Floats, count: int) -> Places:
    """Return a number below `count` for every target (n,), in ascending order by turns: 0, 1, 2, 2, 1, 0, 0, 1, ..."""
    turns = np.concatenate([np.arange(count), np.arange(count)[::-1]])
    number = np.empty(len(target), dtype=np.intp)
    number[np.argsort(target, kind="stable")] = np.resize(turns, len(target))
    return number


def _given_folds(cv: Any, given: Given) -> list[Fold]:
    """Return the given splits over the rows in use.

    A split need not use all rows: a row that is neither trained on nor tested is held out and not scored.
    """
    n = int(given.used.sum())
    X = np.empty((len(given.used), 1)) if given.X is None else given.X
    number = np.cumsum(given.used) - 1  # index of each row among the rows in use
    splits = split_rows(cv, X, given.Y, given.groups, len(given.used))
    pairs = [(train[given.used[train]], test[given.used[test]]) for train, test in splits]
    folds = [_fold(number[train], number[test], n) for train, test in pairs if len(test)]
    if not folds:
        raise ValueError("cv: no split tests a row of positive weight")
    return folds


def _whole(fold: Fold, place: int, unit: Places, grouped: bool) -> Fold:
    """Return the fold without training rows of units that are held out; ValueError if it tests and trains a group.

    A split that trains on nothing but copies of tested rows stays as it is: whoever gives it wants it so.
    """
    trained = np.ones(len(unit), dtype=bool)
    trained[fold.held_out] = False
    if grouped:
        check_whole(place, unit[trained], unit[fold.tested])
    held_out = np.flatnonzero(np.isin(unit, unit[fold.held_out]) | ~trained)
    if len(held_out) == len(unit):
        return fold
    return Fold(held_out, np.searchsorted(held_out, fold.tested))


def _with_whole_copies(splits: Splits, unit: Places | None) -> Splits:
    number = splits.partition()
    if unit is None or number is None:
        return replace(splits, unit=unit)
    moved = number[np.unique(unit, return_index=True)[1]][unit]
    folds = tuple(folds_by(moved))
    return replace(splits, folds=folds if len(folds) > 1 else splits.folds, unit=unit)


def _fold(train: Places, test: Places, n: int) -> Fold:
    if len(train) == 0:
        raise ValueError("cv: a split has no training row of positive weight")
    if len(np.unique(train)) < len(train):
        raise ValueError("cv: a split trains on a row more than once; use sample_weight for repeated rows")
    if len(np.intersect1d(train, test)):
        raise ValueError("cv: a split tests rows that it trains on")
    held_out = np.setdiff1d(np.arange(n), train)
    return Fold(held_out, np.searchsorted(held_out, test))


def _precede(fold: Fold, n: int) -> bool:
    """Return whether all training rows of a split precede its test rows."""
    trained = np.ones(n, dtype=bool)
    trained[fold.held_out] = False
    return bool(np.flatnonzero(trained).max(initial=-1) < fold.tested.min(initial=n))


def _restricted(fold: Fold, rows: Places, n: int) -> Fold:
    held, tested = np.zeros((2, n), dtype=bool)
    held[fold.held_out], tested[fold.tested] = True, True
    held_out = np.flatnonzero(held[rows])
    return Fold(held_out, np.flatnonzero(tested[rows][held_out]))


def _at(fold: FoldOf, places: Places) -> Places:
    """Return the folds of these rows, which ascend, without asking for the folds of all rows at once."""
    found = np.empty(len(places), dtype=np.intp)
    for start in range(0, int(places[-1]) + 1, SLICE):
        low, high = np.searchsorted(places, (start, start + SLICE))
        if high > low:
            found[low:high] = fold(start, int(places[high - 1]) + 1)[places[low:high] - start]
    return found
