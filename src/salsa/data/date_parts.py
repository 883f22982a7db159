"""The parts of a date that a model learns from: trend, time of year, day of week and hour of day.

A column of dates becomes one feature per part. The trend is the number of days since 1970 in UTC. The other parts go by
the clock of the column's time zone and are places on a circle, from 0 to 1: the end of December touches January. A
part is left out where the table cannot tell it from other parts (see ``reasons_against``).
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa.data.time_zones import AS_WRITTEN, is_zone

if TYPE_CHECKING:  # a loaded model describes its parts without pandas
    import pandas as pd

    from salsa.data.stamps import Instants, Stamps

TREND, YEAR, WEEK, DAY = "trend", "time of year", "day of week", "hour of day"
DATE_PARTS = (TREND, YEAR, WEEK, DAY)
DURATION = "duration"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: The least number of days that a table spans for a part that repeats: one turn of the year, two of the others
LEAST_DAYS = {YEAR: 365.0, WEEK: 14.0, DAY: 2.0}
#: Units of durations in seconds, the longest first
DURATION_UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
READABLE = 2.0  # the largest duration is at least this many units, unless it is shorter than two seconds

_DAY_LENGTH = 86_400_000_000  # in microseconds
_FIRST_WEEKDAY = 3  # 1970 began on a Thursday
_COMMON_YEAR = 2001  # a year of 365 days
_ROUNDING = 1e-6  # of a day: the share of the year at midnight may be rounded down


class Part(NamedTuple):
    """A feature that is a part of a column: of a date, or the length of a duration."""

    column: str  # the name of the table's column
    name: str  # one of DATE_PARTS, or DURATION
    detail: str | None  # the time zone of dates (see ``Stamps``), or the unit of durations

    @property
    def feature(self) -> str:
        """The name of the feature, such as "date: time of year"."""
        return self.column if self.name == DURATION else f"{self.column}: {self.name}"

    @property
    def is_known(self) -> bool:
        """Whether the name, and the zone or unit, are ones that this module writes."""
        if self.name == DURATION:
            return self.detail in DURATION_UNITS
        return self.name in DATE_PARTS and (self.detail is None or self.detail == AS_WRITTEN or is_zone(self.detail))

    @property
    def is_cyclic(self) -> bool:
        """Whether the feature is a place on a circle."""
        return self.name in LEAST_DAYS

    def written(self, value: float) -> str:
        """Return a value as people write it: 2026-01-31, 31 January, Saturday, 13:30 or 3 hours."""
        if self.name == DURATION:
            return f"{value:.4g} {self.detail}"
        if self.name == WEEK:
            return WEEKDAYS[round(7 * value) % 7]
        if self.name == TREND:
            minute = np.datetime_as_string(_seconds(np.array([value])), unit="m")[0]
            return str(minute).replace("T", " ").removesuffix(" 00:00")
        if self.name == YEAR:
            day = datetime.date(_COMMON_YEAR, 1, 1) + datetime.timedelta(days=int(365 * (value % 1) + _ROUNDING))
            return f"{day.day} {day:%B}"
        minutes = round(1440 * value)
        return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"

    def of(self, stamps: Stamps) -> Floats:
        """Return the values (n,) of this part, NaN where a stamp is missing."""
        clock = stamps.in_zone(self.detail, self.column)
        return {TREND: _days, YEAR: _time_of_year, WEEK: _day_of_week, DAY: _hour_of_day}[self.name](
            clock.utc if self.name == TREND else clock.local
        )


def date_features(column: str, zone: str | None) -> list[Part]:
    """Return all parts of a column of dates."""
    return [Part(column, name, zone) for name in DATE_PARTS]


def reasons_against(low: Floats, high: Floats) -> dict[str, str]:
    """Return the reason to leave out each part of a date, "" to keep it, from the ranges (4,) of all parts.

    A part that repeats needs stamps that differ in it, over more than one repetition: within one year, the time of year
    and the trend are the same thing. The trend always stays.
    """
    days = high[0] - low[0]
    reasons = {TREND: ""}
    for name, least, first, last in zip(DATE_PARTS[1:], LEAST_DAYS.values(), low[1:], high[1:], strict=True):
        if not last > first:
            reasons[name] = "it is the same in all rows"
        elif days < least:
            reasons[name] = f"{days:.3g} days are fewer than {least:g}, so that it cannot be told from the trend"
        else:
            reasons[name] = ""
    return reasons


def duration_unit(low: float, high: float) -> str:
    """Return the longest unit in which the largest duration, given in seconds, is a readable number."""
    largest = np.fmax(abs(low), abs(high))
    return next((unit for unit, seconds in DURATION_UNITS.items() if largest >= READABLE * seconds), "seconds")


def as_dates(days: Floats) -> pd.DatetimeIndex:
    """Return the instants of a trend, in UTC and to the second."""
    import pandas as pd

    return pd.DatetimeIndex(_seconds(days))


def _seconds(days: Floats) -> NDArray[np.datetime64]:
    """Return instants to the second, NaT for NaN."""
    seconds = np.where(np.isnan(days), 0, np.round(86400 * np.nan_to_num(days))).astype(np.int64)
    instants = seconds.astype("datetime64[s]")
    instants[np.isnan(days)] = np.datetime64("NaT")
    return instants


def _days(instants: Instants) -> Floats:
    return _float(instants) / _DAY_LENGTH


def _time_of_year(clock: Instants) -> Floats:
    """Return the share of the year that has passed: a leap year also ends where the next one begins."""
    start = clock.astype("datetime64[Y]")
    end = (start + np.timedelta64(1, "Y")).astype(clock.dtype)
    start = start.astype(clock.dtype)
    return _float(clock - start) / _float(end - start)


def _day_of_week(clock: Instants) -> Floats:
    return (np.floor(_days(clock)) + _FIRST_WEEKDAY) % 7 / 7


def _hour_of_day(clock: Instants) -> Floats:
    return _float(clock - clock.astype("datetime64[D]")) / _DAY_LENGTH


def _float(values: NDArray[np.datetime64] | NDArray[np.timedelta64]) -> Floats:
    """Return microseconds as floats, NaN for NaT."""
    return np.where(np.isnat(values), np.nan, values.astype(np.int64))
