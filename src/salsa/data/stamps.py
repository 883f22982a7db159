"""Stamps: dates and times of any kind of column, as instants (UTC) and as the clock on the wall shows them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from salsa.data.time_zones import AS_WRITTEN, is_zone

Instants = NDArray[np.datetime64]  # (n,) in microseconds, NaT where missing

_ISO = re.compile(
    r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?)?"  # 2026-01, 2026-01-31T12:00Z
)
_UNIT = "datetime64[us]"
_MONTH_LENGTH = 7  # of a text such as 2026-01
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Stamps(NamedTuple):
    """Stamps as instants in UTC, and as shown by the clock of their time zone."""

    utc: Instants
    local: Instants
    zone: str | None  # None: the stamps have no zone, and their clock counts as UTC

    def in_zone(self, zone: str | None, column: str) -> Stamps:
        """Return the stamps by the clock of the zone of the training table; ValueError if only one table has zones."""
        if np.isnat(self.utc).all():
            return self
        if (zone is None) != (self.zone is None):
            had, has = ("no time zone", "have one") if zone is None else ("a time zone", "have none")
            advice = "remove it" if zone is None else "add it"
            raise ValueError(f"column {column!r}: stamps had {had} in training and {has} here; {advice}")
        return self if zone in (self.zone, None, AS_WRITTEN) else self._replace(local=_clock(self.utc, zone))


def read_stamps(series: Any) -> Stamps:
    """Return the stamps of a column of dates, or of dates and times, of any kind of data frame (narwhals)."""
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    zone = series.dtype.time_zone
    if zone is None:
        local = _instants(series.dt.replace_time_zone(None))
        return Stamps(local, local, None)
    utc = _instants(series.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
    if is_zone(zone):
        return Stamps(utc, _clock(utc, zone), zone)  # Arrow knows no summer time after 2037
    return Stamps(utc, _instants(series.dt.replace_time_zone(None)), AS_WRITTEN)


def stamps_of_objects(name: str, values: Iterable[Any]) -> Stamps:
    """Return the stamps of Python's, NumPy's or pandas' dates; ValueError if only some of them have a time zone."""
    found = [None if pd.isna(value) else _as_datetime(value) for value in values]
    zones = {stamp.tzinfo for stamp in found if stamp is not None}
    local = np.array([None if stamp is None else stamp.replace(tzinfo=None) for stamp in found], dtype=_UNIT)
    if zones <= {None}:
        return Stamps(local, local, None)
    if None in zones:
        problem = "has stamps with and without a time zone"
        raise ValueError(f"column {name!r} {problem}; give all of them a zone, or none")
    shift = [0 if stamp is None else (stamp.utcoffset() or _MICROSECOND * 0) // _MICROSECOND for stamp in found]
    named = {str(zone) for zone in zones}
    zone = named.pop() if len(named) == 1 else AS_WRITTEN
    return Stamps(local - np.array(shift, dtype="timedelta64[us]"), local, zone if is_zone(zone) else AS_WRITTEN)


def are_iso(texts: Collection[Any]) -> bool:
    """Return whether all texts, at least one, are dates, or dates and times, as ISO 8601 writes them."""
    return bool(len(texts)) and all(_iso(text) is not None for text in texts)


def stamps_of_texts(name: str, texts: Collection[Any], places: NDArray[np.intp]) -> Stamps:
    """Return the stamps of distinct texts at these places (n,), -1 where missing; ValueError names a wrong text."""
    found = [_iso(text) for text in texts]
    if None in found:
        wrong = found.index(None)
        row = int(np.argmax(places == wrong))
        problem = f"has {str(list(texts)[wrong])!r} in row {row} (counted from 0)"
        raise ValueError(f"column {name!r} {problem}; it held dates in training: write dates as in 2026-01-31")
    utc, local, zone = stamps_of_objects(name, [*found, None])
    return Stamps(utc[places], local[places], zone)


def read_durations(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return durations (n,), of NumPy's type or as objects, in seconds; NaN where missing."""
    if values.dtype == object:
        series = pd.Series(values, dtype=object, copy=True)
        series[series.isna()] = pd.NaT  # older versions of pandas do not take pd.NA for a missing duration
        values = np.asarray(pd.to_timedelta(series), dtype="timedelta64[ns]")
    seconds: NDArray[np.float64] = values / np.timedelta64(1, "s")
    return seconds


def _instants(series: Any) -> Instants:
    return np.asarray(series.to_numpy()).astype(_UNIT)


def _as_datetime(value: Any) -> datetime.datetime:
    if isinstance(value, np.datetime64):
        return _EPOCH + int(value.astype(_UNIT).astype(np.int64)) * _MICROSECOND
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day)


def _iso(text: Any) -> datetime.datetime | None:
    """Return the date and time of a text; None if the text is no date of ISO 8601."""
    if not isinstance(text, str) or not _ISO.fullmatch(text):
        return None
    try:
        return datetime.datetime.fromisoformat(f"{text}-01" if len(text) == _MONTH_LENGTH else text)
    except ValueError:
        return None


def _clock(utc: Instants, zone: str) -> Instants:
    """Return the clock in a time zone at these instants."""
    local = pd.DatetimeIndex(utc, tz="UTC").tz_convert(zone).tz_localize(None)
    return np.asarray(local).astype(_UNIT)
