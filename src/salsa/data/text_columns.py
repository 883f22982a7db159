"""Rules that tell categories from dates, identifiers, numbers with units, and mistakes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa.data.columns import Columns, Level

# All thresholds for text, in features and targets, in Python and on the command line:
MISTAKE_PERCENT = 90  # with at least so many numbers, text in a column counts as a mistake
FEW_LEVELS = 10  # up to so many distinct numbers with a unit, or numbers as text, may be categories
IDENTIFIER_ROWS = 50  # up to so many rows, texts that hardly repeat may be categories
IDENTIFIER_SHARE = 0.9  # with more different texts per row, texts are identifiers; not less: folds repeat texts less
MOST_TEXTS = 100_000  # a column with more distinct texts holds identifiers; no more texts are remembered
ROWS_PER_CLASS = 2  # a target with fewer rows per class, on average, holds no classes
MOST_PARSED = 1000  # at most so many texts are parsed as dates

_DATE_TEXT = re.compile(
    r"\d{1,4}[-/](\d{1,2}|[A-Za-z]{3,9})[-/]\d{1,4}([T ].*)?"  # 2026-01-31, 31/1/2026, 31-Jan-2026 12:00
    r"|\d{4}[-/]\d{1,2}"  # 2026-01
    r"|\d{1,2}\.\d{1,2}\.(\d{2}|\d{4})( .*)?"  # 31.01.2026
    r"|([A-Za-z]{3,9}\.? \d{1,2}|\d{1,2} [A-Za-z]{3,9}\.?),? \d{4}( .*)?"  # Jan 31 2026, 31 January 2026
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"  # 12:00
)
_NUMBER_WITH_UNIT = re.compile(
    r"(?P<before>[$€£¥]?)\s?[-+]?"
    r"(?:\d{1,3}(?:[,']\d{3})+|\d+)(?:[.,]\d+)?"  # 517, 1,234.5, 1'234
    r"\s?(?P<after>%|[A-Za-z°µ]{0,4}[23²³]?)"
)


def are_numbers(values: int, numbers: int) -> bool:
    """Whether a column with so many numbers among its values holds numbers, perhaps with mistakes."""
    return 100 * numbers >= MISTAKE_PERCENT * values


def are_mistakes(values: int, numbers: int) -> bool:
    """Whether text among numbers is likely a mistake: nearly all values are numbers, but not all."""
    return are_numbers(values, numbers) and numbers < values


def are_dates(texts: Collection[Any]) -> bool:
    """Whether all texts can be read as dates or times."""
    if not all(isinstance(text, str) and _DATE_TEXT.fullmatch(text) for text in texts):
        return False
    some = sorted(texts)[:MOST_PARSED]
    return bool(pd.Series(pd.to_datetime(some, errors="coerce", format="mixed", utc=True)).notna().all())


def are_identifiers(values: int, distinct: int) -> bool:
    """Whether nearly every row has a text of its own, and there are not only a few rows."""
    return distinct > MOST_TEXTS or (values > IDENTIFIER_ROWS and distinct > IDENTIFIER_SHARE * values)


def are_too_many_classes(values: int, distinct: int) -> bool:
    """Whether the texts of a target have too few rows each for classes, and there are not only a few rows."""
    return values > IDENTIFIER_ROWS and ROWS_PER_CLASS * distinct > values


def have_units(texts: Collection[Any]) -> bool:
    """Whether the texts are many numbers with one sign or unit, or with separators: $517, 45.5 %, 194 m2, 1,234."""
    if len(texts) <= FEW_LEVELS:
        return False
    units = set()
    for text in texts:
        match = _NUMBER_WITH_UNIT.fullmatch(text) if isinstance(text, str) else None
        units.add(match and match.group("before", "after"))
        if match is None or len(units) > 1:
            return False
    return not spell_numbers(list(texts)).all()


def spell_numbers(texts: Any) -> NDArray[np.bool_]:
    """Return the mask (n,) of values that are numbers or can be read as numbers."""
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    found: NDArray[np.bool_] = np.isfinite(numbers)
    return found


class Counts(NamedTuple):
    """Numbers of values in each of the D columns of some rows; + merges two blocks of rows."""

    values: NDArray[np.int64]  # (D,) values that are not missing
    numbers: NDArray[np.int64]  # (D,) numbers in columns of categories
    is_text: NDArray[np.bool_]  # (D,) columns of text that neither dtype nor user calls categories

    def some(self, features: NDArray[np.intp]) -> Counts:
        """Return the counts of some of the features."""
        return Counts(self.values[features], self.numbers[features], self.is_text[features])

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(self.values + other.values, self.numbers + other.numbers, self.is_text | other.is_text)


def count_values(columns: Columns, X: Floats, is_text: NDArray[np.bool_]) -> Counts:
    """Count the values of encoded rows (n, D), column by column."""
    numbers = np.zeros(X.shape[1], dtype=np.int64)
    for j, levels in enumerate(columns.levels):
        if levels:
            numbers[j] = np.isin(X[:, j], np.flatnonzero(_spell_numbers(levels))).sum()
    return Counts((~np.isnan(X)).sum(axis=0), numbers, is_text)


def doubts(columns: Columns, counts: Counts) -> Iterator[str]:
    """Yield a warning for every column of text that is not likely to hold categories."""
    for j in np.flatnonzero(counts.is_text & (counts.values > 0)):
        levels = columns.levels[j] or ()
        if doubt := _doubt(levels, int(counts.values[j]), int(counts.numbers[j])):
            problem = f"column {columns.names[j]!r} is text and counts as categories, but {doubt}"
            yield f"{problem}; if they are categories, name it in categorical_features"


def empty_columns(columns: Columns, counts: Counts) -> list[str]:
    """Return a note for every column without values."""
    return [f"column {columns.names[j]!r} has no values" for j in np.flatnonzero(counts.values == 0)]


def _doubt(levels: tuple[Level, ...], values: int, numbers: int) -> str:
    """Return what the texts are likely to be, with advice; empty if they may be categories."""
    if are_mistakes(values, numbers):
        other = levels[int(np.argmin(_spell_numbers(levels)))]
        return f"{numbers} of its {values} values are numbers, {other!r} is not: correct it, or give NaN where missing"
    if numbers == values and len(levels) > FEW_LEVELS and not any(map(_is_code, levels)):
        return "holds numbers as text: turn it into numbers, as pandas.to_numeric does"
    if are_dates(levels):
        return "holds dates or times: write them as in 2026-01-31, or turn them into dates, as pandas.to_datetime does"
    if have_units(levels):
        return f"looks like numbers with a unit or separators, such as {levels[0]!r}: leave only the number"
    if are_identifiers(values, len(levels)):
        return f"has {len(levels)} different texts in {values} rows, like names or identifiers: leave it out"
    return ""


def _spell_numbers(levels: tuple[Level, ...]) -> NDArray[np.bool_]:
    """Return the mask of levels that are numbers or can be read as numbers; booleans are not."""
    return spell_numbers([None if isinstance(level, bool) else level for level in levels])


def _is_code(level: Level) -> bool:
    """Whether a level is a code: digits with leading zeros."""
    return isinstance(level, str) and len(level) > 1 and level.isdigit() and level.startswith("0")
