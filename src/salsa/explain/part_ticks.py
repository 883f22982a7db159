"""Round values along an axis that shows a part of a date: dates, months or hours, with their names."""

from __future__ import annotations

import numpy as np

from salsa.data.date_parts import DAY, TREND, YEAR, Part

Ticks = list[tuple[float, str]]

MOST_DATES = 4  # along an axis
MONTHS = ("Jan", "Mar", "May", "Jul", "Sep", "Nov", "Jan")
_MONTH_STARTS = (0, 59, 120, 181, 243, 304, 365)  # days of a common year before these months
_HOURS = range(0, 25, 4)
#: Steps between dates, the shortest first: their unit in NumPy, and their number of units
_STEPS = [
    *(("m", count) for count in (1, 5, 15, 60, 180, 360, 720)),
    *(("D", count) for count in (1, 2, 7, 14)),
    *(("M", count) for count in (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000, 24_000, 60_000)),
]
_YEAR = 12  # months


def part_ticks(part: Part | None, low: float, high: float) -> Ticks | None:
    """Return values between low and high, with their names; None where ticks at round numbers are right."""
    if part is None or part.name not in (TREND, YEAR, DAY):
        return None
    if part.name == TREND:
        return _date_ticks(low, high)
    if part.name == YEAR:
        ticks = [(days / 365, name) for days, name in zip(_MONTH_STARTS, MONTHS, strict=True)]
    else:
        ticks = [(hour / 24, f"{hour:02d}:00") for hour in _HOURS]
    return [(value, name) for value, name in ticks if low <= value <= high]


def _date_ticks(low: float, high: float) -> Ticks:
    """Return the dates of the shortest step that gives at most MOST_DATES of them."""
    ends = [np.datetime64(round(86400 * days), "s") for days in (low, high)]
    for unit, count in _STEPS:
        first, last = (int(end.astype(f"datetime64[{unit}]").astype(np.int64)) for end in ends)
        if (last - first) // count < MOST_DATES:
            dates = np.arange(-(-first // count) * count, last + 1, count).astype(f"datetime64[{unit}]")
            ticks = zip(dates.astype("datetime64[s]").astype(np.int64) / 86400, dates, strict=True)
            return [(float(days), _named(date, unit, count)) for days, date in ticks if low <= days <= high]
    return []


def _named(date: np.datetime64, unit: str, count: int) -> str:
    text = str(date)
    if unit == "m":
        day, clock = text.split("T")
        return day if clock == "00:00" else clock
    return text[:-3] if unit == "M" and count % _YEAR == 0 else text
