"""Columns that say how rows belong together, and are no features: labels of groups, and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from salsa._utils.arrays import Places
from salsa.cli.tables.messages import column_error, first_row, missing_error, shown_value

FILL_GROUP = "; leave such rows out, or give each of them a group"
FILL_TIME = "; leave such rows out, or fill in their times"
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}
_DATES = {"date", "datetime", "datetime64"}


def group_labels(column: pd.Series[Any], source: str, may_miss: bool = False) -> pd.Series[Any]:
    """Return the labels of groups; raise ValueError on a missing label, or on values that are no labels."""
    column = _plain(column)
    if _inferred(column) not in {*_NUMBERS, *_DATES, "string", "empty"}:
        raise column_error(column.name, source, "holds neither numbers, text nor dates", "; groups need such labels")
    if not may_miss:
        _check_present(column, source, FILL_GROUP)
    return column


def check_group_count(name: str, count: int, source: str) -> None:
    """Raise ValueError if all rows are in one group, which cannot be held out."""
    if count == 1:
        advice = "; at least 2 groups are needed: leave --group out"
        raise column_error(name, source, "has all rows in one group", advice)


def time_places(column: pd.Series[Any], source: str) -> Places:
    """Return the place (n,) of every row's time among the distinct times, earliest first; equal times are equal.

    Times are numbers, dates, or text with dates in ISO format; dates without a time zone count as UTC.
    """
    column = _plain(column)
    _check_present(column, source, FILL_TIME)
    inferred = _inferred(column)
    if inferred in _DATES:
        return _places(pd.to_datetime(column, utc=True))
    if inferred not in {*_NUMBERS, "string"}:
        raise column_error(column.name, source, "holds neither numbers nor dates", "; --time needs them to sort rows")
    times: pd.Series[Any] = pd.to_numeric(column, errors="coerce").astype(np.float64)
    wrong = ~np.isfinite(times.to_numpy())
    if inferred == "string" and wrong.any():
        times = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        wrong = times.isna().to_numpy()
    if wrong.any():
        problem = f"has {shown_value(column, wrong)}, which is neither a finite number nor a date in ISO format"
        raise column_error(column.name, source, problem, ", such as 2026-01-31 or 2026-01-31T18:30")
    return _places(times)


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values of a column that the file declares as categories."""
    return column.astype(column.cat.categories.dtype) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _inferred(column: pd.Series[Any]) -> str:
    return pd.api.types.infer_dtype(column, skipna=True)


def _check_present(column: pd.Series[Any], source: str, advice: str) -> None:
    missing = column.isna().to_numpy()
    if missing.any():
        raise missing_error(column.name, source, first_row(column, missing), int(missing.sum()), advice)


def _places(values: pd.Series[Any]) -> Places:
    return pd.factorize(values, sort=True)[0]
