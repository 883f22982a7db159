"""Columns that are likely not to be what a fit takes them for: text that is no category, and columns without values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa.columns import Columns, Level
from salsa.kernels import Floats
from salsa.textrules import FEW_LEVELS, are_dates, are_identifiers, are_mistakes, have_units, spell_numbers

SHARE_OF_NAMES = 0.9  # different texts per row; more than on the command line, because folds have fewer rows per text


class Counts(NamedTuple):
    """Of each of the D columns of some rows; those of several blocks of rows add up."""

    values: NDArray[np.int64]  # that are not missing (D,)
    numbers: NDArray[np.int64]  # in columns of categories (D,)
    is_text: NDArray[np.bool_]  # text that nothing declares to be categories (D,)

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(self.values + other.values, self.numbers + other.numbers, self.is_text | other.is_text)


def count_values(columns: Columns, X: Floats, is_text: NDArray[np.bool_]) -> Counts:
    """Of encoded rows (n, D)."""
    numbers = np.zeros(X.shape[1], dtype=np.int64)
    for j, levels in enumerate(columns.levels):
        if levels:
            numbers[j] = np.isin(X[:, j], np.flatnonzero(_spell_numbers(levels))).sum()
    return Counts((~np.isnan(X)).sum(axis=0), numbers, is_text)


def doubts(columns: Columns, counts: Counts) -> Iterator[str]:
    """A sentence for every column of text that is likely not to hold categories."""
    for j in np.flatnonzero(counts.is_text & (counts.values > 0)):
        levels = columns.levels[j] or ()
        if doubt := _doubt(levels, int(counts.values[j]), int(counts.numbers[j])):
            problem = f"column {columns.names[j]!r} is text and counts as categories, but {doubt}"
            yield f"{problem}; if they are categories, name it in categorical_features"


def empty_columns(columns: Columns, counts: Counts) -> list[str]:
    """A note for every column without values."""
    return [f"column {columns.names[j]!r} has no values" for j in np.flatnonzero(counts.values == 0)]


def target_notes(Y: Floats) -> list[str]:
    """On targets (n, q) that are constant or a choice of two."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    if (low == high).all():
        return ["the target is constant"]
    if len(Y) > 2 and ((low == Y) | (high == Y)).all():
        return ["the target has two values: predictions lie between and beyond them, and are no probabilities"]
    return []


def _doubt(levels: tuple[Level, ...], values: int, numbers: int) -> str:
    """What else they are, and what to do; nothing where they may well be categories."""
    if are_mistakes(values, numbers):
        other = levels[int(np.argmin(_spell_numbers(levels)))]
        return f"{numbers} of its {values} values are numbers, {other!r} is not: correct it, or give NaN where missing"
    if numbers == values and len(levels) > FEW_LEVELS and not any(map(_is_code, levels)):
        return "holds numbers as text: turn it into numbers, as pandas.to_numeric does"
    if are_dates(levels):
        return "holds dates or times: turn them into numbers, such as the year, the month or the days since some date"
    if have_units(levels):
        return f"looks like numbers with a unit or separators, such as {levels[0]!r}: leave only the number"
    if are_identifiers(values, len(levels), SHARE_OF_NAMES):
        return f"has {len(levels)} different texts in {values} rows, like names or identifiers: leave it out"
    return ""


def _spell_numbers(levels: tuple[Level, ...]) -> NDArray[np.bool_]:
    """Which levels are numbers or can be read as one; truth values are not."""
    return spell_numbers([None if isinstance(level, bool) else level for level in levels])


def _is_code(level: Level) -> bool:
    """Whether it has zeros in front, which numbers have not."""
    return isinstance(level, str) and len(level) > 1 and level.isdigit() and level.startswith("0")
