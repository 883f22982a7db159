"""Records (dicts of field names and values), and the short way of plain values into floats.

Plain values are numbers, known levels of categories and None, in records, in a few rows or in an array of numbers.
Everything else takes the long way of ``columns``, which has the errors and the warnings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.listing import some_of

Codes = Sequence[Mapping[Any, float] | None]  # for every column the code of each level; None for numbers
FEW = 16  # up to so many rows of a table are looked at value by value
_NUMBERS = (float, int, np.floating, np.integer, np.bool_)
_LISTED = (list, tuple, set, np.ndarray)


def are_records(X: Any) -> bool:
    """Whether X is a dict, or a list of rows of which the first is a dict."""
    if isinstance(X, (list, tuple)):
        return bool(X) and isinstance(X[0], Mapping)
    return isinstance(X, Mapping)


def values_of_records(X: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the values of every record in the order of the names; ValueError names a field that does not fit."""
    if isinstance(X, Mapping):
        return [_values(X, names, "")]
    return [_values(record, names, f" in row {row} (counted from 0)") for row, record in enumerate(X)]


def _values(record: Any, names: Sequence[str], where: str) -> tuple[Any, ...]:
    if not isinstance(record, Mapping):
        raise TypeError(
            f"X has a {type(record).__name__}{where}, but the rows before are dicts: give all rows as dicts"
        )
    if len(record) == len(names):
        try:
            return tuple([record[name] for name in names])
        except KeyError:
            pass
    return _values_by_text(record, names, where)


def _values_by_text(record: Mapping[Any, Any], names: Sequence[str], where: str) -> tuple[Any, ...]:
    """Return the values of a record whose keys are compared as texts: columns of a data frame may have numbers."""
    texts = {str(name): value for name, value in record.items()}
    if unknown := [name for name in texts if name not in set(names)]:
        _refuse_unknown(unknown[0], [name for name in names if name not in texts], names, where)
    if absent := [name for name in names if name not in texts]:
        raise ValueError(f"field {absent[0]!r} is absent{where}: give a value, or None if the value is missing")
    return tuple(texts[name] for name in names)


def _refuse_unknown(name: str, absent: Sequence[str], names: Sequence[str], where: str) -> NoReturn:
    close = get_close_matches(name, absent, n=1)
    advice = f"did you mean {close[0]!r}?" if close else f"leave it out; the fields are {some_of(names)}"
    raise ValueError(f"field {name!r}{where} is not a feature of this model: {advice}")


def check_single_values(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> None:
    """Raise ValueError if a field of a record holds a list: a dict is one row, not a table of columns."""
    for row in rows:
        for name, value in zip(names, row, strict=True):
            if isinstance(value, _LISTED):
                advice = "a dict is one row, so give one value; for several rows, give a list of dicts"
                raise ValueError(f"field {name!r} holds a {type(value).__name__}: {advice}")


class PlainTable(NamedTuple):
    """Rows of values in the order of the columns, looked at value by value however many they are."""

    rows: Sequence[Sequence[Any]]


def encode_plain(X: Any, codes: Codes) -> Floats | None:
    """Return a table of plain values as floats (n, D).

    The result is None for other tables, and if a value is infinite or not a known level: ``Columns.encode`` says why.
    """
    all_numbers = all(code is None for code in codes)
    rows = X.rows if isinstance(X, PlainTable) else _rows(X, all_numbers)
    if type(rows) is np.ndarray:
        if all_numbers and rows.dtype.kind in "fiub":
            return _numbers(rows, len(codes))
        rows = rows.tolist() if rows.ndim == 2 and len(rows) <= FEW and rows.dtype.kind in "fiubO" else None
    return _by_value(rows, codes) if rows else None


def _rows(X: Any, all_numbers: bool) -> Any:
    """Return a table as an array or a list of rows; None if it is of another kind, or has many rows."""
    if type(X) is np.ndarray:
        return X
    if isinstance(X, (list, tuple)):
        return X if len(X) <= FEW else None
    library = type(X).__module__.partition(".")[0]
    if library not in ("pandas", "polars") or type(X).__name__ != "DataFrame" or len(X) > FEW:
        return None
    if library == "polars":
        return X.rows()
    return X.to_numpy() if all_numbers else X.to_numpy(dtype=object)  # floats would round large codes


def _numbers(X: Any, D: int) -> Floats | None:
    """Return an array of numbers as floats (n, D): a copy, as other tables give."""
    if X.ndim != 2 or X.shape[1] != D or not len(X):
        return None
    with np.errstate(over="ignore"):  # from long double
        rows = np.array(X, dtype=np.float64, order="C")
    return None if np.isinf(rows).any() else rows


def _by_value(rows: Sequence[Any], codes: Codes) -> Floats | None:
    encoded = []
    try:
        for row in rows:
            if len(row) != len(codes) or isinstance(row, (str, bytes, Mapping)):
                return None
            encoded.append([_plain(value, code) for value, code in zip(row, codes, strict=True)])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return np.array(encoded, dtype=np.float64)


def _plain(value: Any, code: Mapping[Any, float] | None) -> float:
    """Return a value as a float, NaN if it is missing; raise an error if it is not plain."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if code is not None:
        return code[value]
    if not isinstance(value, _NUMBERS):
        raise TypeError
    number = float(value)
    if math.isinf(number):
        raise OverflowError
    return number
