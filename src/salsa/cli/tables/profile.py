"""Facts about the values of a column, gathered over all chunks of a table: missing, constant, or counting the rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from salsa.data.column_words import CATEGORY, CONSTANT, DATE, DURATION, EXAMPLE, NUMBER, parts_words
from salsa.data.text_columns import FEW_LEVELS

NAMELESS = re.compile(r"Unnamed: \d+")
_IDENTIFIER = re.compile(
    r"(?i:(.*[\W_])?(id|ids|row[_ ]?names?|uuid|guid|key|index|idx|code|nr))|.*[a-z](Id|ID|Key|Code|Nr)"
)
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"}
_TEXTS = {"string", "categorical"}
_TIMED = {
    **dict.fromkeys(("date", "datetime", "datetime64"), DATE),
    **dict.fromkeys(("timedelta", "timedelta64"), DURATION),
}


class Profile:
    """The values of one column."""

    def __init__(self, name: str) -> None:
        self.name, self.kind, self.example = name, NUMBER, ""
        self.values = self.missing = 0
        self._low, self._high, self._first, self._last = np.inf, -np.inf, None, None
        self._counts, self._is_whole, self._is_truth = True, True, True
        self._texts: set[str] = set()  # at most two

    def add(self, column: pd.Series[Any], every: pd.Series[Any] | None = None) -> None:
        """Take note of the values of a chunk; `every` also has the values of rows that are left out."""
        present = column.dropna()
        self.values += len(present)
        self.missing += len(column) - len(present)
        self._count(present if every is None else every.dropna())
        if present.empty:
            return
        self.example = self.example or _shown(present.iloc[0])
        inferred = pd.api.types.infer_dtype(present)
        self._is_truth = self._is_truth and inferred == "boolean"
        if inferred in _NUMBERS:
            self._add_numbers(present.to_numpy(np.float64))
            return
        self.kind = _TIMED.get(inferred, CATEGORY)
        if inferred in (*_TEXTS, *_TIMED) and len(self._texts) < 2:
            self._texts.update(map(str, present.unique()[:2]))

    def _add_numbers(self, values: Any) -> None:
        self._low, self._high = min(self._low, values.min()), max(self._high, values.max())
        self._is_whole = self._is_whole and bool((values == np.floor(values)).all())

    def _count(self, column: pd.Series[Any]) -> None:
        """Take note of whether each value is one more than the value before, in the rows of the file."""
        if not self._counts or column.empty:
            return
        if not pd.api.types.is_numeric_dtype(column):
            self._counts = False
            return
        values = column.to_numpy(np.float64)
        self._first = values[0] if self._first is None else self._first
        before = values[:1] - 1 if self._last is None else [self._last]
        with np.errstate(invalid="ignore"):  # of infinite values
            self._counts = bool((np.diff(values, prepend=before) == 1).all())
        self._last = values[-1]

    @property
    def is_empty(self) -> bool:
        return self.values == 0

    @property
    def is_row_number(self) -> bool:
        """Whether a column without a name counts the rows, like an index that was saved with the table."""
        return bool(NAMELESS.fullmatch(self.name)) and self._counts_rows and self._first in (0, 1)

    @property
    def _counts_rows(self) -> bool:
        return self.kind == NUMBER and self._counts and self._is_whole and self.values > 1 and not self.missing

    def remarks(self, may_be_number: bool = True) -> list[str]:
        """Return what should be known about the values; less if the column is taken as categories anyway."""
        if self.is_empty:
            return ["ignored: it has no values"]
        if self.is_row_number:
            return ["left out: it counts the rows, like a saved index"]
        alike = self._low == self._high if self.kind == NUMBER else len(self._texts) == 1
        if alike and not self.missing:
            return [CONSTANT]
        if not may_be_number:
            return []
        if self.kind == DATE:
            return [parts_words()]
        if self._is_truth:
            return ["true is 1 and false is 0"]
        if self._counts_rows and self.values > FEW_LEVELS:
            return [f"counts the rows: if it is an identifier, --drop {self.name!r} leaves it out"]
        if self.kind == NUMBER and self._is_whole:
            either = f"--drop {self.name!r} leaves it out, --category {self.name!r} takes it as categories"
            if NAMELESS.fullmatch(self.name):
                return [f"whole numbers, perhaps of rows: {either}"]
            return [f"named like an identifier: {either}"] if _IDENTIFIER.fullmatch(self.name) else []
        return []


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return EXAMPLE.format(value) if isinstance(value, float | np.floating) else str(value).removesuffix(" 00:00:00")
