"""The column to predict: numbers or classes, told apart over all chunks of a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from salsa.cli.tables.checking import target_of
from salsa.cli.tables.messages import column_error, dates_error, first_row, missing_error, shown_value
from salsa.data.targets import kind_of_classes
from salsa.data.text_columns import ROWS_PER_CLASS, are_dates, are_numbers, are_too_many_classes, spell_numbers

FEWEST, MOST = 10, 100  # --classes takes numbers of at least FEWEST classes, of half of the rows, of at most MOST
LEAST_COUNT = 10  # counts of something begin near zero: prices and years, in whole numbers, do not
MOST_COUNTED = 10_000  # different values of a chunk that are remembered
MOST_SHOWN = 6  # classes that are named
NUMBERS = "numbers"
LOSS_LIMITS = {"poisson": "0 or more", "gamma": "above 0"}  # the targets that a loss takes


class TargetColumn:
    """The values of the target, over all chunks of a table: numbers, or classes and their numbers of rows.

    Text, booleans and categories are classes, and so is everything if `classes`. Text of which nearly all
    are numbers is a column of numbers with mistakes.
    """

    def __init__(
        self, name: str, source: str, classes: bool = False, log: bool = False, loss: str = "squared_error"
    ) -> None:
        self.name, self._source, self._asked, self._log, self._loss = name, source, classes, log, loss
        self._kinds: set[str] = set()
        self._values = self._spelled = 0
        self._other = ""  # the first text that is not a number, and its row
        self._counts: Counter[Any] = Counter()
        self._whole, self._least = True, np.inf  # whether all numbers are whole, and the least number

    def add(self, column: pd.Series[Any]) -> None:
        """Count the values of a chunk; raise ValueError for values that are neither numbers nor labels."""
        values = _plain(column.dropna())
        if values.empty:
            return
        self._kinds.add(kind := kind_of_classes(column) or NUMBERS)
        self._values += len(values)
        if kind == NUMBERS:
            values = target_of(values.to_frame(), self.name, self._source)
            self._check_range(values)
        if pd.api.types.is_float_dtype(values):
            self._whole = self._whole and bool(((values % 1 == 0) & (values.abs() < 2**53)).all())
            self._least = min(self._least, values.min())
        if kind == "text":
            is_number = spell_numbers(values)
            self._spelled += int(is_number.sum())
            self._other = self._other or ("" if is_number.all() else shown_value(values, ~is_number))
        counts = values.value_counts(sort=False).iloc[: MOST_COUNTED + 1]
        self._counts.update(dict(zip(counts.index.tolist(), counts.tolist(), strict=True)))

    @property
    def kind(self) -> str:
        """Why the target is taken as classes ("text", "--classes", ...), or "numbers"."""
        kinds = self._kinds - {NUMBERS}
        if self._asked:
            return next(iter(kinds), "--classes")
        return NUMBERS if not kinds or are_numbers(self._values, self._spelled) else next(iter(kinds))

    @property
    def has_classes(self) -> bool:
        return self.kind != NUMBERS

    @property
    def hint(self) -> str | None:
        """A note on whole numbers, which may be classes or counts; None for other targets."""
        if self.has_classes or not self._whole:
            return None
        if len(self._counts) == 2:
            return f"column {self.name!r} has two values: --classes takes them as classes"
        few = 2 < len(self._counts) <= FEWEST
        if self._least < 0 or len(self._counts) < 2 or not (few or self._least <= LEAST_COUNT):
            return None
        return f"column {self.name!r} holds whole numbers: --loss poisson is for counts, --classes for classes"

    def __str__(self) -> str:
        """Describe what is predicted, why, and the shares of classes."""
        if not self.has_classes:
            return f"{self.name}: {NUMBERS}"
        shares = [f"{label} {100 * count / self._values:.3g} %" for label, count in self.counts.items()]
        listed = ", ".join(shares[:MOST_SHOWN]) + (", ..." if len(shares) > MOST_SHOWN else "")
        return f"{self.name}: {len(shares)} classes ({self.kind}): {listed}"

    @property
    def counts(self) -> dict[Any, int]:
        """The number of rows of each class, in the order of the classes."""
        found = Counter[Any]()
        for value, count in self._counts.items():
            found[self._label(value)] += count
        return dict(sorted(found.items()))

    def check(self) -> None:
        """Raise ValueError if numbers have mistakes, or if classes are not likely to be classes, or only one."""
        if not self.has_classes:
            if self._other:
                raise self._error(f"has {self._other}, which is not a finite number", "; correct it, or give --classes")
            return
        distinct = len(self._counts)
        if distinct == 1:
            advice = "; at least two are needed: choose another target, or add rows of another class"
            raise self._error(f"has one class, {str(next(iter(self.counts)))!r}", advice)
        if "text" not in self._kinds:
            most = min(max(FEWEST, self._values // ROWS_PER_CLASS), MOST)
            if self._kinds == {NUMBERS} and distinct > most:
                problem = f"has {_count(distinct)} different numbers in {self._values} rows, and --classes takes {most}"
                raise self._error(problem, " at most: leave --classes out to predict a number, or join classes")
            return
        if not self._asked and are_dates(self._counts):
            raise dates_error(self.name, self._source, "")
        if distinct > MOST_COUNTED or are_too_many_classes(self._values, distinct):
            problem = f"has {_count(distinct)} different texts in {self._values} rows, like names or identifiers"
            mixed = f" ({self._spelled} are numbers, but {self._other} is not)" if self._spelled else ""
            advice = "; classes need several rows each: choose another target, or join classes"
            raise self._error(problem + mixed, advice)

    def taken(self, column: pd.Series[Any]) -> pd.Series[Any]:
        """Return the target of a chunk: numbers as float64, or labels; ValueError where it has no value."""
        if not self.has_classes:
            return target_of(column.to_frame(), self.name, self._source)
        missing = column.isna().to_numpy()
        if missing.any():
            raise missing_error(self.name, self._source, first_row(column, missing), int(missing.sum()))
        return _plain(column).map(self._label)

    def check_numbers(self, option: str) -> None:
        """Raise ValueError if the target holds classes, for an option that needs numbers."""
        if self.has_classes:
            raise self._error(f"holds classes ({self.kind})", f"; {option} needs numbers: leave {option} out")

    def _check_range(self, y: pd.Series[float]) -> None:
        """Raise ValueError if a target has no logarithm, or is not one that the loss takes."""
        wrong = (y < 0 if self._loss == "poisson" else y <= 0).to_numpy()
        if (self._log or self._loss in LOSS_LIMITS) and wrong.any():
            option, limit = ("--log", "above 0") if self._log else (f"--loss {self._loss}", LOSS_LIMITS[self._loss])
            advice = f"; {option} needs targets {limit}: leave {option} out, or leave such rows out"
            raise self._error(f"has {shown_value(y, wrong)}", advice)

    def _label(self, value: Any) -> Any:
        """Return the label of a value: text and booleans as they are, whole numbers as integers, others as text."""
        if isinstance(value, str | bool):
            return value
        return int(value) if self._whole else f"{value:.15g}"

    def _error(self, problem: str, advice: str) -> ValueError:
        return column_error(self.name, self._source, problem, advice)


def known_labels(column: pd.Series[Any], source: str, classes: NDArray[Any]) -> pd.Series[Any]:
    """Return the labels of a column as the classes of a model; ValueError for a missing or unknown label."""
    target = TargetColumn(str(column.name), source, classes=True)
    target.add(column)
    known = {_spelled(label): label for label in classes.tolist()}
    labels = target.taken(column).map(lambda label: _spelled(label).strip())  # as in training
    unknown = ~labels.isin(list(known)).to_numpy()
    if unknown.any():
        listed = ", ".join(list(known)[:MOST_SHOWN]) + (", ..." if len(known) > MOST_SHOWN else "")
        problem = f"has {shown_value(labels, unknown)}, which is no class of the model: its classes are {listed}"
        raise column_error(column.name, source, problem)
    return labels.map(known)


def _spelled(label: Any) -> str:
    """Return a label as text; whole numbers have no decimals."""
    return f"{label:.15g}" if isinstance(label, float) else str(label)


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values of a column that the file declares as categories."""
    return column.astype(column.cat.categories.dtype) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _count(distinct: int) -> str:
    return f"more than {MOST_COUNTED}" if distinct > MOST_COUNTED else f"{distinct}"
