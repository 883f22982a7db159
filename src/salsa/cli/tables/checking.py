"""Types of columns and their checks in training and prediction; errors name file, column and row, with advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from salsa.cli.tables.messages import DROP, column_error, dates_error, first_row, missing_error, shown_value
from salsa.cli.tables.reading import title
from salsa.data.date_parts import DURATION, Part
from salsa.data.number_format import NumberFormat, is_missing_word
from salsa.data.stamps import are_iso

Level = str | int | float | bool

_KINDS = {  # type by pandas.api.types.infer_dtype -> kind of column
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"), "number"),
    "string": "text",
    "categorical": "category",
}
_TIMED = {"date", "datetime", "datetime64", "timedelta", "timedelta64"}  # features may hold these
_DATES = _TIMED | {"time", "period"}
MOST_NAMED = 8  # names that an error lists
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}  # as in read_csv


def require_columns(table: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """Raise ValueError if columns are missing; the message names each with the most similar column of the table."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        others = [name for name in table.columns if name not in names]
        shown = [repr(name) + _nearest(name, others) for name in missing[:MOST_NAMED]]
        listed = ", ".join(shown) + (f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else "")
        raise ValueError(f"{title(source)} has no column {listed}; {_describe(list(table.columns))}")


def numeric(column: pd.Series[Any], source: str, advice: str = "", may_miss: bool = False) -> pd.Series[float]:
    """Return a column as float64; raise ValueError on the first value that is not finite, or not there.

    The message ends with the advice, in which {0} becomes the name of the column.
    """
    _kind(column, source, advice)
    values = pd.to_numeric(column, errors="coerce").astype(np.float64)
    missing = column.isna().to_numpy()
    wrong = ~np.isfinite(values.to_numpy()) & ~missing
    if wrong.any():
        problem = f"has {shown_value(column, wrong)}, which is not a finite number"
        raise column_error(column.name, source, problem, advice)
    if missing.any() and not may_miss:
        raise missing_error(column.name, source, first_row(column, missing), int(missing.sum()))
    return values


def target_of(table: pd.DataFrame, name: str, source: str, may_miss: bool = False) -> pd.Series[float]:
    """Return the column to predict as float64."""
    return numeric(table[name], source, may_miss=may_miss)


def check_ordered(column: pd.Series[Any], categories: Collection[str], source: str) -> None:
    """Raise ValueError if a monotone column holds categories without an order."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype) and not column.cat.ordered
    if is_category or column.name in categories or (is_text(column) and not are_iso(column.dropna().unique())):
        advice = "; --monotone needs numbers: leave it out for this column"
        raise column_error(column.name, source, "holds categories, which have no order", advice)


def plain_features(table: pd.DataFrame, names: Sequence[str], categories: Collection[str], source: str) -> pd.DataFrame:
    """Return these columns for training: numbers as float64, text and dates unchanged, `categories` as categories."""
    columns = {
        name: _category(table[name], source) if name in categories else _feature(table[name], source) for name in names
    }
    return pd.DataFrame(columns, index=table.index)


def is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column holds text, unless the file declares the column as categories."""
    return _KINDS.get(pd.api.types.infer_dtype(column, skipna=True)) == "text"


def is_timed(column: pd.Series[Any]) -> bool:
    """Return whether a column holds dates or durations by its type."""
    return pd.api.types.infer_dtype(column, skipna=True) in _TIMED


def known_features(
    table: pd.DataFrame,
    levels: Mapping[str, tuple[Level, ...] | None],
    formats: Mapping[str, NumberFormat],
    source: str,
    unseen: Unseen,
    timed: Mapping[str, Part],
) -> pd.DataFrame:
    """Return the columns of the training table in another table: categories as their levels, numbers as float64.

    Texts of numbers are read as in training. Values that are not among the levels are added to ``unseen`` and become
    missing. The columns `timed` hold dates or durations: their first parts are given.
    """
    columns = {}
    for name, known in levels.items():
        if name in timed and timed[name].name == DURATION:
            columns[name] = _known_durations(table[name], source)
        elif name in timed:
            columns[name] = _known_dates(table[name], source, unseen.words)
        elif known is None:
            columns[name] = known_numbers(table[name], formats.get(name, NumberFormat()), source, unseen.words)
        else:
            columns[name] = _known_levels(table[name], known, source, unseen)
    return pd.DataFrame(columns, index=table.index)


def _known_dates(column: pd.Series[Any], source: str, odd: Tally) -> pd.Series[Any]:
    """Return a column of dates; raise ValueError on the first text that is no date.

    Words for missing values are counted, and missing.
    """
    if not is_text(column):
        return column
    texts = read_dates(column)
    odd.add(str(column.name), column[texts.isna() & column.notna()].tolist())
    wrong = texts.isin([text for text in texts.dropna().unique() if not are_iso([text])]).to_numpy()
    if wrong.any():
        problem = f"has {shown_value(column, wrong)}, which is no date such as 2026-01-31"
        raise column_error(column.name, source, problem, "; it held dates in training: correct or empty the cell")
    return texts


def _known_durations(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    """Return a column of durations, which only files with types can hold; raise ValueError for other values."""
    if is_timed(column) or column.isna().all():
        return column
    advice = "; it held durations in training: give a Parquet or Feather file, whose columns have types"
    raise column_error(column.name, source, "holds no durations", advice)


def read_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return texts of dates without spaces around them; None for words for missing values."""
    places, distinct = pd.factorize(column)
    texts = [str(text).strip() for text in distinct]
    known = np.array([*(None if is_missing_word(text) else text for text in texts), None], dtype=object)
    return pd.Series(known[places], column.index, dtype=object, name=column.name)


def known_numbers(column: pd.Series[Any], written: NumberFormat, source: str, odd: Tally) -> pd.Series[float]:
    """Return a column of numbers as float64, read as in training; words for missing values are counted, and NaN."""
    advice = "; it held numbers in training: correct the cell, or empty it if the value is missing"
    if not is_text(column):
        return numeric(column, source, advice, may_miss=True)
    words = column.map(lambda text: isinstance(text, str) and is_missing_word(text)).astype(bool)
    odd.add(str(column.name), column[words].tolist())
    texts = _without_words(column).mask(words, None)
    if written.is_plain:
        return numeric(texts, source, advice, may_miss=True)
    values = read_numbers(texts, written)
    wrong = (values.isna() & texts.notna()).to_numpy()
    if wrong.any():
        problem = f"has {shown_value(column, wrong)}, which is not written like the numbers of training ({written})"
        raise column_error(column.name, source, problem, "; correct the cell, or empty it if the value is missing")
    return values


def read_numbers(column: pd.Series[Any], written: NumberFormat) -> pd.Series[float]:
    """Return the numbers of a column of texts; NaN where they are missing, or not written in this format."""
    places, distinct = pd.factorize(column)
    values = np.append(written.values(distinct.to_numpy(object)), np.nan)[places]
    return pd.Series(values, column.index, name=column.name)


class Tally:
    """Odd values of columns, counted over all chunks of a table."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, Any] = {}

    def add(self, name: str, values: Sequence[Any]) -> None:
        if len(values):
            self._counts[name] += len(values)
            self._examples.setdefault(name, values[0])

    def __str__(self) -> str:
        """Describe the values by column, with the first value of each; empty if there are none."""
        return "; ".join(
            f"column {name!r}: {count} {'row' if count == 1 else 'rows'}, such as {str(self._examples[name])!r}"
            for name, count in self._counts.items()
        )


class Unseen(Tally):
    """Values of categories that were not seen in training; `words` stand for missing numbers or dates."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Tally()


def _feature(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    if is_timed(column):
        return column
    is_number = _kind(column, source, DROP) == "number"
    return numeric(column, source, DROP, may_miss=True) if is_number else column


def _category(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    if _kind(column, source, DROP) == "number":
        column = numeric(column, source, DROP, may_miss=True)
    return pd.Series(pd.Categorical(column, ordered=False), column.index, name=column.name)


def _kind(column: pd.Series[Any], source: str, advice: str) -> str:
    """Return "number", "text" or "category" (if the file declares it); raise ValueError for other types."""
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred in _DATES:
        raise dates_error(column.name, source, advice)
    if inferred not in _KINDS:
        raise column_error(column.name, source, "holds neither numbers nor text", advice)
    return _KINDS[inferred]


def _without_words(column: pd.Series[Any]) -> pd.Series[Any]:
    """Replace the words True and False in a column of text by 1 and 0."""
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return column
    return column.map(lambda text: str(int(_BOOLEANS[text])) if text in _BOOLEANS else text)


def _known_levels(column: pd.Series[Any], levels: tuple[Level, ...], source: str, unseen: Unseen) -> pd.Series[Any]:
    """Return the levels that the values stand for; None for missing and unseen values."""
    _kind(column, source, "")
    places, distinct = pd.factorize(column)
    level_set = frozenset(levels)
    known = [_known_level(value, level_set) for value in distinct]
    values = np.array([*known, None], dtype=object)[places]
    unseen.add(str(column.name), column[(places >= 0) & pd.isna(values)].tolist())
    return pd.Series(values, column.index, dtype=object, name=column.name)


def _known_level(value: Any, levels: frozenset[Level]) -> Any:
    """Return the level equal to the value, or to the number or boolean that the value spells; None if there is none.

    Spaces around texts do not count, as in training.
    """
    spelled = pd.to_numeric(value, errors="coerce") if isinstance(value, str) else None
    bare = value.strip() if isinstance(value, str) else None
    return next((level for level in (value, spelled, _BOOLEANS.get(value), bare) if level in levels), None)


def _nearest(name: str, names: list[str]) -> str:
    """Return a hint at the most similar name, ignoring letter case; an empty text if no name is similar."""
    if "," in name and all(part.strip() in names for part in name.split(",")):
        return " (give the option once for each column)"
    folded = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), folded, n=1)
    return f" (did you mean {folded[matches[0]]!r}?)" if matches else ""


def _describe(names: list[str], most: int = MOST_NAMED) -> str:
    if len(names) == 1:
        return f"its only column is {names[0]!r}: commas, semicolons, tabs or bars must separate columns"
    return f"its columns are {', '.join(names[:most])}{', ...' if len(names) > most else ''}"
