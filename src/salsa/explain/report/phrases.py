"""Texts for numbers, shares and lists of names."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats

THIN = "\u202f"  # a narrow no-break space


def quantised(values: Floats, span: float | None = None) -> Floats:
    """Round values to about 1/10000 of their span, which is enough for drawing."""
    finite = values[np.isfinite(values)]
    span = float(np.ptp(finite)) if span is None and len(finite) else span
    if not span or not np.isfinite(span):
        return values
    return np.round(values, int(4 - np.floor(np.log10(span))))


def base64(values: Floats) -> str:
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")


def percent(share: float) -> str:
    points = 100 * share
    if abs(points) < 0.05:
        return f"{'less than 0.1' if points > 0.005 else 0}{THIN}%"
    return (f"{points:.1f}{THIN}%" if abs(points) < 9.95 else f"{points:.0f}{THIN}%").replace("-", "−")


def adding_up(shares: Any) -> list[str]:
    """Return shares of a whole as percentages with equal decimals that add up to the percentage of the whole."""
    shares = np.asarray(shares, dtype=np.float64)
    points, decimals = rounded(shares)
    return [_points_words(part, share, decimals) for part, share in zip(points, shares, strict=True)]


def remainder(shares: Any) -> str:
    """Return the sum of all shares but the first as a percentage that adds up with ``adding_up(shares)[0]``."""
    shares = np.asarray(shares, dtype=np.float64)
    points, decimals = rounded(shares)
    return _points_words(points[1:].sum(), shares[1:].sum(), decimals)


def rounded(shares: Floats) -> tuple[Floats, int]:
    """Return shares in percent and their number of decimals, rounded by the largest-remainder method."""
    decimals = int((shares[shares > 0] < 0.0995).any())
    units = np.round(10 ** (2 + decimals) * shares, 6)
    whole = np.floor(units)
    up = np.argsort(whole - units, kind="stable")[: round(units.sum() - whole.sum())]
    whole[up] += 1
    return whole / 10**decimals, decimals


def _points_words(points: float, share: float, decimals: int) -> str:
    return f"{'< 0.1' if points == 0 < share else f'{points:.{decimals}f}'}{THIN}%"


def amount(value: float) -> str:
    """Return a number rounded to three digits, such as 0.695 or 12,300."""
    if not 999.5 <= abs(value) < 1e15:
        return f"{value:.3g}"
    return f"{round(value, 2 - int(np.floor(np.log10(abs(value))))):,.0f}"


def short(name: str, most: int = 40) -> str:
    """Return a name for a sentence; a name longer than `most` letters loses its middle."""
    tail = most // 3
    return name if len(name) <= most else f"{name[: most - tail - 1].rstrip()}…{name[-tail:]}"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def with_copies(rows: str, copies: int) -> str:
    """Say how many of some rows are copies of others."""
    return rows if not copies else f"{rows}, {copies:,} of them {'a copy' if copies == 1 else 'copies'}"


def some(parts: list[str], most: int) -> str:
    """List the first `most` parts, and how many more there are."""
    return listed(parts if len(parts) <= most else [*parts[:most], f"{len(parts) - most} more"])


def listed(parts: Iterable[str]) -> str:
    *most, last = list(parts)
    return f"{', '.join(most)} and {last}" if most else last
