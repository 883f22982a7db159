"""A check whether columns of text hold categories, or dates, identifiers, units or mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from salsa.cli.tables.messages import DROP, column_error, dates_error, shown_value
from salsa.data.text_columns import MISTAKE_PERCENT, are_dates, are_identifiers, are_mistakes, have_units, spell_numbers

MOST_TEXTS = 100_000  # a column with more distinct texts holds identifiers; no more texts are remembered


def check_texts(columns: Iterable[Texts], source: str) -> None:
    """Raise ValueError on the first column that is not likely to hold categories, and name further such columns."""
    problems: dict[str, str] = {}
    for texts in columns:
        try:
            texts.check(source)
        except ValueError as error:
            problems[texts.name] = str(error)
    if problems:
        (_, first), *others = problems.items()
        raise ValueError(first + (f" (also look at {', '.join(repr(name) for name, _ in others)})" if others else ""))


class Texts:
    """The values of a text column, counted over all chunks of a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._values = self._numbers = 0
        self._other = ""  # the first value that is not a number, and its row
        self._distinct: set[str] = set()

    def add(self, column: pd.Series[Any]) -> None:
        present = column.notna().to_numpy()
        is_number = spell_numbers(column)
        self._values += int(present.sum())
        self._numbers += int(is_number.sum())
        if not self._other and (other := present & ~is_number).any():
            self._other = shown_value(column, other)
        if len(self._distinct) <= MOST_TEXTS:
            self._distinct.update(column.dropna().unique())

    def check(self, source: str) -> None:
        """Raise ValueError with advice if the texts are not likely to be categories."""
        values, numbers, distinct = self._values, self._numbers, len(self._distinct)
        if are_mistakes(values, numbers):
            problem = f"has {self._other}, but {numbers} of its {values} values are numbers"
            rule = f"with {MISTAKE_PERCENT} % numbers or more, text counts as a mistake"
            advice = "; correct the cell, empty it if the value is missing, or take all as categories: --category {0!r}"
            raise column_error(self.name, source, f"{problem} ({rule})", advice)
        if are_dates(self._distinct):
            raise dates_error(self.name, source, DROP)
        if have_units(self._distinct):
            problem = f"looks like numbers with a unit or separators, such as {min(self._distinct)!r}"
            advice = ": leave only the number; --category {0!r} takes them as categories"
            raise column_error(self.name, source, problem, advice)
        if distinct > MOST_TEXTS or are_identifiers(values, distinct):
            count = f"more than {MOST_TEXTS}" if distinct > MOST_TEXTS else f"{distinct}"
            problem = f"has {count} different texts in {values} rows, like names or identifiers"
            raise column_error(self.name, source, problem, f"{DROP}, --category {{0!r}} takes them as categories")
