"""Which columns of text hold categories, and which are likely to hold something else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from salsa.tables.messages import DROP, column_error, dates_error, shown_value

MISTAKE_PERCENT = 90  # of the values are numbers: text among them counts as a mistake
IDENTIFIER_ROWS = 50  # more rows than this, more than half of them with a text of their own: names, not categories
MOST_TEXTS = 100_000  # more different ones than this are names in any case; of a large table no more are remembered

_DATE_TEXT = re.compile(
    r"\d{1,4}[-/](\d{1,2}|[A-Za-z]{3,9})[-/]\d{1,4}([T ].*)?"  # 2026-01-31, 31/1/2026, 31-Jan-2026 12:00
    r"|\d{4}[-/]\d{1,2}"  # 2026-01
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"  # 12:00
)


class Texts:
    """What a column of text holds, counted over all pieces of a table."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values = self._numbers = 0
        self._other = ""  # the first value that is no number, and its row
        self._distinct: set[str] = set()

    def add(self, column: pd.Series[Any]) -> None:
        present = column.notna().to_numpy()
        is_number = np.isfinite(pd.to_numeric(column, errors="coerce").to_numpy(np.float64))
        self._values += int(present.sum())
        self._numbers += int(is_number.sum())
        if not self._other and (other := present & ~is_number).any():
            self._other = shown_value(column, other)
        if len(self._distinct) <= MOST_TEXTS:
            self._distinct.update(column.dropna().unique())

    def check(self, source: str) -> None:
        """ValueError with advice where they are not likely to be categories."""
        self._check_mistakes(source)
        self._check_dates(source)
        self._check_identifiers(source)

    def _check_mistakes(self, source: str) -> None:
        """Text in a column of numbers is more likely a slip of the pen than a category."""
        values, numbers = self._values, self._numbers
        if MISTAKE_PERCENT * values <= 100 * numbers < 100 * values:
            problem = f"has {self._other}, but {numbers} of its {values} values are numbers"
            rule = f"from {MISTAKE_PERCENT} % on that counts as a mistake"
            advice = "; correct the cell, empty it if the value is missing, or take all as categories: --category {0!r}"
            raise column_error(self._name, source, f"{problem} ({rule})", advice)

    def _check_dates(self, source: str) -> None:
        if not all(map(_DATE_TEXT.fullmatch, self._distinct)):
            return
        dates = pd.to_datetime(list(self._distinct), errors="coerce", format="mixed", utc=True)
        if pd.Series(dates).notna().all():
            raise dates_error(self._name, source, DROP)

    def _check_identifiers(self, source: str) -> None:
        rows, distinct = self._values, len(self._distinct)
        if distinct > MOST_TEXTS or (rows > IDENTIFIER_ROWS and 2 * distinct > rows):
            count = f"more than {MOST_TEXTS}" if distinct > MOST_TEXTS else f"{distinct}"
            problem = f"has {count} different texts in {rows} rows, like names or identifiers"
            raise column_error(self._name, source, problem, f"{DROP}, --category {{0!r}} takes them as categories")
