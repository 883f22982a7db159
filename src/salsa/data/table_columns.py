"""Tables of any kind as columns: what they hold in training, and the long way of any values into floats."""

from __future__ import annotations

import datetime
import numbers
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_array

from salsa._utils.arrays import Floats
from salsa._utils.listing import some_of
from salsa._utils.user_warning import warn_user
from salsa.data.columns import Columns, Feature, Level, gathered, sorted_levels
from salsa.data.date_parts import DURATION, DURATION_UNITS, Part, date_features
from salsa.data.records import check_single_values
from salsa.data.stamps import Stamps, are_iso, read_durations, read_stamps, stamps_of_objects, stamps_of_texts

ESTIMATOR = "SalsaRegressor"  # the name in scikit-learn's messages

_TEXT = (str, pd.Interval)
_NUMBER = (numbers.Real, np.bool_, Decimal)
_MISSING = (type(None), type(pd.NA), type(pd.NaT))
_DATE = (datetime.date, np.datetime64)
_DURATION = (datetime.timedelta, np.timedelta64)
_OTHER_TIME = (datetime.time, pd.Period)
_NESTED = (list, tuple, set, np.ndarray)
_BYTES = (bytes, bytearray, memoryview)
_WIDE = (nw.Decimal, nw.Int128, nw.UInt128)  # types that NumPy does not have


class RawColumn(NamedTuple):
    """A column as it was given: numbers with NaN, distinct values and the index of each row's value, or stamps."""

    name: str
    entries: NDArray[Any]  # (n,): numbers, or indices of distinct values, -1 where missing; seconds of durations
    distinct: NDArray[Any] | None = None  # None for numbers
    category: bool = False  # by dtype
    order: tuple[Level, ...] = ()  # all levels of an ordered category
    stamps: Stamps | None = None
    is_duration: bool = False


class LearnedTable(NamedTuple):
    """A training table: its columns with all parts of dates, and its rows as floats."""

    columns: Columns
    X: Floats  # (n, D)
    is_text: NDArray[np.bool_]  # (D,) columns of text that neither dtype nor user calls categories


def learn_columns(X: Any, categorical_features: Any = "from_dtype") -> tuple[Columns, Floats]:
    """Return the columns of a training table, and the table as floats (n, D)."""
    columns, rows, _ = learn_table(X, categorical_features)
    settled = columns.settled(np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0))
    return settled.columns, settled.of(rows)


def learn_table(X: Any, categorical_features: Any) -> LearnedTable:
    """Return the columns of a training table, the table as floats, and which columns are text by default."""
    table = read_columns(X)
    names = tuple(column.name for column in table)
    by_dtype = isinstance(categorical_features, str) and categorical_features == "from_dtype"
    chosen = np.zeros(len(names), dtype=bool) if by_dtype else _chosen(categorical_features, names)
    table = [column if take else _with_dates(column) for column, take in zip(table, chosen, strict=True)]
    pairs = zip(table, chosen, strict=True)
    columns = gathered([feature for column, take in pairs for feature in _learned(column, bool(take), by_dtype)])
    is_text = np.array([column.distinct is not None and not column.category for column in table], dtype=bool) & ~chosen
    return LearnedTable(columns, _encoded(table, columns), is_text[columns.source])


def encode_table(X: Any, records: Sequence[Sequence[Any]] | None, columns: Columns) -> Floats:
    """Return a table, or records as rows of values, as floats (n, D); see ``Columns.encode``."""
    table = read_columns(X, columns.table) if records is None else _read_records(records, columns)
    return _encoded(table, columns)


def _learned(column: RawColumn, chosen: bool, by_dtype: bool) -> list[Feature]:
    """Return the features of a column: the parts of a date, or one; chosen columns and text are categories."""
    if chosen and (column.stamps is not None or column.is_duration):
        raise ValueError(f"categorical_features: column {column.name!r} holds dates or durations; turn them into text")
    if column.stamps is not None:
        return [Feature(part.feature, part=part) for part in date_features(column.name, column.stamps.zone)]
    if column.is_duration:
        return [Feature(column.name, part=Part(column.name, DURATION, "seconds"))]
    if not chosen and column.distinct is None and not (by_dtype and column.category):
        return [Feature(column.name)]
    if column.order and not chosen:
        return [Feature(column.name, column.order, True)]
    _, distinct = _places_of(column)
    return [Feature(column.name, sorted_levels(set(map(_level_of, distinct))))]


def _chosen(features: Any, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return the mask (D,) of the columns that the user calls categories, by number, name or mask."""
    D = len(names)
    mask = np.zeros(D, dtype=bool)
    if features is None:
        return mask
    given = np.asarray(features)
    if given.dtype.kind == "b" and given.shape == (D,):
        return given
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iuUO"):
        advice = f'"from_dtype", None, a list of column numbers or names, or a mask of {D} booleans'
        raise ValueError(f"categorical_features={features!r} must be {advice}")
    columns: list[Any] = list(range(D)) if given.dtype.kind in "iu" else list(names)
    if unknown := [column for column in given.tolist() if column not in columns]:
        raise ValueError(f"categorical_features: there is no column {unknown[0]!r}; columns are {some_of(columns)}")
    mask[[columns.index(column) for column in given.tolist()]] = True
    return mask


def _encoded(table: list[RawColumn], columns: Columns) -> Floats:
    """Return features (n, D); unknown levels become NaN, with one warning for all columns."""
    if len(table) != len(columns.table):
        raise ValueError(f"the table has {len(table)} columns, the training table had {len(columns.table)}")
    encoded = np.empty((len(table[0].entries), len(columns.names)))
    unseen: list[tuple[RawColumn, NDArray[np.bool_]]] = []
    for j, (place, known, part) in enumerate(zip(columns.source, columns.codes, columns.all_parts, strict=True)):
        column = table[place]
        if part is not None and part.name != DURATION:
            table[place] = column = with_stamps(column)
            assert column.stamps is not None
            encoded[:, j] = part.of(column.stamps)
        elif part is not None:
            encoded[:, j] = _durations_of(column) / DURATION_UNITS[part.detail or "seconds"]
        elif known is None:
            encoded[:, j] = _numbers_of(column)
        else:
            encoded[:, j], strange = _codes_of(column, known)
            if strange.any():
                unseen.append((column, strange))
    if unseen:
        _warn_unseen(unseen)
    return encoded


def _with_dates(column: RawColumn) -> RawColumn:
    """Return a column of text with its stamps if all texts are dates of ISO 8601; other columns stay as they are."""
    if column.distinct is None or column.category or not are_iso(column.distinct):
        return column
    return with_stamps(column)


def with_stamps(column: RawColumn) -> RawColumn:
    """Return a column with its stamps; ValueError if it holds something else."""
    if column.stamps is not None:
        return column
    if column.distinct is None:
        if not np.isnan(column.entries).all():
            advice = "it held dates in training; give dates, or text such as 2026-01-31"
            raise ValueError(f"column {column.name!r} holds numbers; {advice}")
        places = np.full(len(column.entries), -1)
        return column._replace(stamps=stamps_of_texts(column.name, (), places))
    return column._replace(stamps=stamps_of_texts(column.name, column.distinct, column.entries), distinct=None)


def _durations_of(column: RawColumn) -> NDArray[Any]:
    """Return durations in seconds (n,)."""
    if not column.is_duration and (column.distinct is not None or not np.isnan(column.entries).all()):
        raise ValueError(f"column {column.name!r} held durations in training; give durations, such as pandas.Timedelta")
    return column.entries


def _numbers_of(column: RawColumn) -> NDArray[Any]:
    if column.stamps is not None or column.is_duration:
        raise ValueError(f"column {column.name!r} holds dates or durations; it held numbers in training")
    if column.distinct is None:
        return column.entries
    is_text = np.array([*(isinstance(value, _TEXT) for value in column.distinct), False])[column.entries]
    if is_text.any():
        row = int(is_text.argmax())
        problem = f"has {str(column.distinct[column.entries[row]])!r} in row {row} (counted from 0)"
        advice = "it held numbers in training; give a number, or NaN where it is missing"
        raise ValueError(f"column {column.name!r} {problem}; {advice}")
    return np.full(len(column.entries), np.nan)


def _codes_of(column: RawColumn, code: Mapping[Level, float]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return codes of levels (n,), NaN if missing or unknown, and the mask (n,) of unknown levels."""
    if column.stamps is not None or column.is_duration:
        raise ValueError(f"column {column.name!r} holds dates or durations; it held categories in training")
    places, distinct = _places_of(column)
    codes = np.array([*(code.get(_level_of(value), np.nan) for value in distinct), np.nan])[places]  # -1: the last, NaN
    return codes, np.isnan(codes) & (places >= 0)


def _places_of(column: RawColumn) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the index of each row's value among the distinct values (n,), -1 if missing, and the distinct values."""
    return _factorized(column.entries) if column.distinct is None else (column.entries, column.distinct)


def _factorized(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    places, distinct = pd.factorize(values)
    return places, np.asarray(distinct)


def _level_of(value: Any) -> Level:
    """Return a plain Python value; equal values of different types become one level."""
    if isinstance(value, _TEXT):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    number = int(value)
    return number if number == value else float(value)


def _warn_unseen(unseen: list[tuple[RawColumn, NDArray[np.bool_]]]) -> None:
    """Warn once about all columns with unknown levels."""
    names = [column.name for column, _ in unseen]
    column, strange = unseen[0]
    places, distinct = _places_of(column)
    example = _level_of(distinct[places[strange.argmax()]])
    rows = int(np.logical_or.reduce([strange for _, strange in unseen]).sum())
    subject = f"column {names[0]!r} has" if len(names) == 1 else f"columns {some_of(names)} have"
    where = f"{_count(rows, 'row')} in {_count(len(names), 'column')}"
    problem = f"{subject} values not seen in training, such as {example!r} ({where})"
    warn_user(f"{problem}; they count as missing")


def read_columns(X: Any, names: Sequence[str] = ()) -> list[RawColumn]:
    """Return the columns of a data frame, an array or a list of rows; `names` are for tables without names."""
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise ValueError("a lazy frame has no rows yet; call its collect() first")
    if isinstance(frame, nw.DataFrame):
        if 0 in frame.shape:
            _checked(np.empty(frame.shape))
        return [_read_series(series) for series in frame.iter_columns()]
    rows = _checked(_as_array(X))
    names = names or [f"x{j}" for j in range(rows.shape[1])]
    return [_column(name, values) for name, values in zip(names, rows.T, strict=True)]


def _read_records(records: Sequence[Sequence[Any]], columns: Columns) -> list[RawColumn]:
    """Return the columns of rows whose values are in the order of the table's columns."""
    check_single_values(records, columns.table)
    table = np.empty((len(records), len(columns.table)), dtype=object)
    table[:] = records
    features = zip(columns.table, table.T, columns.first, strict=True)
    return [_read_field(name, values, columns.levels[j], columns.all_parts[j]) for name, values, j in features]


def _read_field(name: str, values: NDArray[Any], levels: tuple[Level, ...] | None, part: Part | None) -> RawColumn:
    """Return the column of one field of records; numbers in the place of durations are in the unit of the model."""
    column = _column(name, values, is_text=levels is not None)
    if part is None or part.name != DURATION or column.is_duration or column.distinct is not None:
        return column
    return column._replace(entries=column.entries * DURATION_UNITS[part.detail or "seconds"], is_duration=True)


def _checked(X: Any) -> NDArray[Any]:
    """Return the table if it has rows and columns; otherwise raise scikit-learn's error."""
    array: NDArray[Any] = check_array(X, dtype=None, ensure_all_finite=False, estimator=ESTIMATOR, input_name="X")
    return array


def _as_array(X: Any) -> Any:
    """Turn masked values into None and lists into arrays, in which numbers beside text stay numbers."""
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biufUO":
        return np.where(np.ma.getmaskarray(X), np.array(None), X)
    if not isinstance(X, (list, tuple)):
        return X
    if X and isinstance(X[0], dict):
        raise TypeError("fit takes a table, not dicts: give pandas.DataFrame(rows) for a list of dicts")
    array = np.asarray(X)
    return array if array.dtype.kind in "biufc" else np.array(X, dtype=object)


def _read_series(series: Any) -> RawColumn:
    name, dtype = str(series.name), series.dtype
    if dtype.is_nested():
        raise ValueError(_nested(name))
    if dtype.is_numeric() or dtype == nw.Boolean:
        exact = dtype not in _WIDE and series.null_count() == 0
        return _column(name, (series if exact else series.cast(nw.Float64)).to_numpy())
    if dtype == nw.Date or dtype == nw.Datetime:
        stamps = read_stamps(series)
        return RawColumn(name, np.empty(len(stamps.utc)), stamps=stamps)
    column = _column(name, _entries(series), is_text=dtype == nw.String and not _holds_objects(series))
    return column._replace(category=dtype in (nw.Categorical, nw.Enum), order=_order(series))


def _entries(series: Any) -> NDArray[Any]:
    """Return the values (n,) of a column that is not numeric, with missing values as None or NaN."""
    if series.dtype == nw.String and series.implementation.is_polars():
        series = series.cast(nw.Categorical)  # makes one Python object per level, not per row
    if series.dtype == nw.Categorical and series.implementation.is_pyarrow():
        native = series.to_native()
        series = native.cast(native.type.value_type)  # to_numpy of a dictionary turns missing values into levels
    entries: NDArray[Any] = series.to_numpy()
    return entries


def _holds_objects(series: Any) -> bool:
    return str(getattr(series.to_native(), "dtype", "")) == "object"


def _order(series: Any) -> tuple[Level, ...]:
    """Return the levels of an ordered category of pandas; empty for other columns."""
    dtype = getattr(series.to_native(), "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return tuple(map(_level_of, dtype.categories))
    return ()


def _column(name: str, values: NDArray[Any], is_text: bool = False) -> RawColumn:
    """Return numbers if all values are numbers, otherwise distinct values and indices; errors name the column."""
    kinds = set(map(type, values)) if values.dtype == object else {values.dtype.type}
    for kind in kinds:
        _check_kind(name, kind)
    if (timed := _timed(name, values, kinds)) is not None:
        return timed
    if is_text or any(issubclass(kind, _TEXT) for kind in kinds):
        places, distinct = _factorized(values.astype(object))
        infinite = [not isinstance(value, _TEXT) and bool(_infinite(value)) for value in distinct]
        _check_finite(name, np.array([*infinite, False])[places])
        return RawColumn(name, places, distinct)
    if values.dtype == object:
        missing = pd.isna(values)
        _check_finite(name, _infinite(np.where(missing, 0, values)).astype(bool))
        values = np.where(missing, np.nan, values).astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):  # from long double
            values = values.astype(np.float64, copy=False)
        _check_finite(name, np.isinf(values))
    return RawColumn(name, values)


def _timed(name: str, values: NDArray[Any], kinds: set[type]) -> RawColumn | None:
    """Return a column of dates or of durations; None if it holds neither, ValueError if it holds other values too."""
    if not any(issubclass(kind, (*_DATE, *_DURATION)) for kind in kinds - {type(pd.NaT)}):
        return None
    held = set(map(type, values[~pd.isna(values)])) if values.dtype == object else kinds
    if all(issubclass(kind, _DATE) for kind in held):
        return RawColumn(name, np.empty(len(values)), stamps=stamps_of_objects(name, values))
    if all(issubclass(kind, _DURATION) for kind in held):
        return RawColumn(name, read_durations(values), is_duration=True)
    raise ValueError(f"column {name!r} holds dates or durations beside other values; give it one type of values")


def _check_kind(name: str, kind: type) -> None:
    """Raise an error with advice unless values of this type are numbers, text, dates, durations or missing."""
    if issubclass(kind, (*_MISSING, *_DATE, *_DURATION)):
        return
    if issubclass(kind, _OTHER_TIME):
        advice = "give dates, such as Period.to_timestamp() returns, or numbers, such as the hour"
        raise ValueError(f"column {name!r} holds times without a date, or periods; {advice}")
    if issubclass(kind, _NESTED):
        raise ValueError(_nested(name))
    if issubclass(kind, _BYTES):
        raise ValueError(f"column {name!r} holds bytes; decode them into text")
    if issubclass(kind, numbers.Complex) and not issubclass(kind, numbers.Real):
        raise ValueError(f"Complex data not supported: column {name!r}; give the real and imaginary parts as columns")
    if not issubclass(kind, (*_TEXT, *_NUMBER)):
        raise TypeError(f"column {name!r}: argument must be a string or a number, not {kind.__name__!r}")


def _infinite(value: Any) -> Any:
    """Whether a number, or each object of an array, is beyond float64; float() would fail for large integers."""
    return abs(value) > sys.float_info.max


def _check_finite(name: str, infinite: NDArray[np.bool_]) -> None:
    if infinite.any():
        problem = f"has an infinite value in row {infinite.argmax()} (counted from 0)"
        advice = (
            "replace infinity, or what float64 cannot hold, by a large number, or by NaN where the value is missing"
        )
        raise ValueError(f"column {name!r} {problem}; {advice}")


def _nested(name: str) -> str:
    return f"column {name!r} holds lists or structures; make a column of each of their parts"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
