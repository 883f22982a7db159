"""Types of columns and their checks in training and prediction; errors name file, column and row, with advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from salsa.cli.tables.messages import DROP, column_error, dates_error, first_row, missing_error, shown_value
from salsa.cli.tables.reading import semicolons, title
from salsa.cli.tables.texts import Texts, check_texts

Level = str | int | float | bool

_KINDS = {  # type by pandas.api.types.infer_dtype -> kind of column
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"), "number"),
    "string": "text",
    "categorical": "category",
}
_DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}  # as in read_csv


def require_columns(table: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """Raise ValueError if columns are missing; the message names each with the most similar column of the table."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        others = [name for name in table.columns if name not in names]
        listed = ", ".join(repr(name) + _nearest(name, others) for name in missing)
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
    return numeric(table[name], source, "; only numbers can be predicted", may_miss)


def number_or_class_of(table: pd.DataFrame, name: str, source: str) -> pd.Series[Any]:
    """Return the column to predict: numbers as float64; text, booleans and categories as text, which are classes.

    Text that is mostly numbers is a column of numbers with mistakes, for which ValueError names the first mistake.
    """
    column, missing = table[name], table[name].isna()
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    numbers = is_text(column) and pd.to_numeric(column[~missing], errors="coerce").notna().mean() > 0.5
    if numbers or inferred not in ("string", "boolean", "categorical"):
        return target_of(table, name, source)
    if missing.any():
        raise missing_error(name, source, first_row(column, missing.to_numpy()), int(missing.sum()))
    return column.astype(str).astype(object)


def labels_of(table: pd.DataFrame, name: str, source: str, classes: Any) -> pd.Series[Any]:
    """Return the column with the labels of a classifier: text that reads like a class becomes this class."""
    column, missing = table[name], table[name].isna()
    if classes.dtype.kind in "iuf":
        return target_of(table, name, source)
    if missing.any():
        raise missing_error(name, source, first_row(column, missing.to_numpy()), int(missing.sum()))
    known = {str(label): label for label in classes.tolist()}
    labels = pd.Series([known.get(str(value), value) for value in column], index=column.index, name=name, dtype=object)
    return labels.infer_objects()  # booleans as such: scikit-learn takes booleans among objects for no class


def check_positive(y: pd.Series[Any], source: str) -> None:
    """Raise ValueError if a target has no logarithm."""
    if not pd.api.types.is_numeric_dtype(y):
        raise column_error(y.name, source, "holds classes", "; --log needs numbers: leave --log out")
    wrong = (y <= 0).to_numpy()
    if wrong.any():
        advice = "; --log needs targets above 0: leave --log out, or leave such rows out"
        raise column_error(y.name, source, f"has {shown_value(y, wrong)}", advice)


def features(table: pd.DataFrame, names: Sequence[str], categories: Collection[str], source: str) -> pd.DataFrame:
    """Return these columns for training: numbers as float64, text unchanged, `categories` as pandas categories.

    Raise ValueError with advice if a text column is not likely to hold categories: dates, identifiers, mistakes.
    """
    X = plain_features(table, names, categories, source)
    found = [Texts(name) for name in names if name not in categories and is_text(table[name])]
    for texts in found:
        texts.add(table[texts.name])
    check_texts(found, source)
    return X


def plain_features(table: pd.DataFrame, names: Sequence[str], categories: Collection[str], source: str) -> pd.DataFrame:
    """Return these columns for training like ``features``, without the checks of texts, which need all rows."""
    columns = {
        name: _category(table[name], source) if name in categories else _feature(table[name], source) for name in names
    }
    return pd.DataFrame(columns, index=table.index)


def is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column holds text, unless the file declares the column as categories."""
    return _KINDS.get(pd.api.types.infer_dtype(column, skipna=True)) == "text"


def known_features(
    table: pd.DataFrame, levels: dict[str, tuple[Level, ...] | None], source: str, unseen: Unseen
) -> pd.DataFrame:
    """Return the columns of the training table in another table: categories as their levels, numbers as float64.

    Values that are not among the levels are added to ``unseen`` and become missing.
    """
    advice = "; it held numbers in training: correct the cell, or empty it if the value is missing"
    columns = {
        name: numeric(_without_words(table[name]), source, advice, may_miss=True)
        if known is None
        else _known_levels(table[name], known, source, unseen)
        for name, known in levels.items()
    }
    return pd.DataFrame(columns, index=table.index)


class Unseen:
    """Values of categories that were not seen in training, counted over all chunks of a table."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, Any] = {}

    def add(self, name: str, values: Sequence[Any]) -> None:
        if len(values):
            self._counts[name] += len(values)
            self._examples.setdefault(name, values[0])

    def __str__(self) -> str:
        """Describe the unseen values by column, with the first value of each; empty if no value is unseen."""
        return "; ".join(
            f"column {name!r}: {count} {'row' if count == 1 else 'rows'}, such as {str(self._examples[name])!r}"
            for name, count in self._counts.items()
        )


def _feature(column: pd.Series[Any], source: str) -> pd.Series[Any]:
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
    """Return the level equal to the value, or to the number or boolean that the value spells; None if there is none."""
    spelled = pd.to_numeric(value, errors="coerce") if isinstance(value, str) else None
    return next((level for level in (value, spelled, _BOOLEANS.get(value)) if level in levels), None)


def _nearest(name: str, names: list[str]) -> str:
    """Return a hint at the most similar name, ignoring letter case; an empty text if no name is similar."""
    if "," in name and all(part.strip() in names for part in name.split(",")):
        return " (give the option once for each column)"
    folded = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), folded, n=1)
    return f" (did you mean {folded[matches[0]]!r}?)" if matches else ""


def _describe(names: list[str], most: int = 8) -> str:
    if len(names) == 1:
        return f"its only column is {names[0]!r}: commas separate columns, tabs in files named .tsv{semicolons(names)}"
    return f"its columns are {', '.join(names[:most])}{', ...' if len(names) > most else ''}"
