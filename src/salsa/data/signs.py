"""The signs of monotone columns, from what the user gives by name or position."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from salsa._utils.arrays import Places
from salsa.data.columns import Columns


def monotone_signs(monotonic_cst: Any, columns: Columns) -> Places | None:
    """Return 1, -1 or 0 for every feature (D,), None if all are 0; ValueError names a wrong entry.

    The sign of a column of dates is the sign of its trend.
    """
    names, sign = list(columns.table), np.zeros(len(columns.names), dtype=np.intp)
    first = columns.first  # of a date, the trend
    if isinstance(monotonic_cst, Mapping):
        given = list(monotonic_cst.items())
        if unknown := [name for name, _ in given if name not in names]:
            known = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"monotonic_cst: there is no column {unknown[0]!r}; columns are {known}")
    else:
        is_list = isinstance(monotonic_cst, (Sequence, np.ndarray)) and not isinstance(monotonic_cst, str)
        if not is_list or len(np.shape(monotonic_cst)) != 1 or len(monotonic_cst) != len(names):
            advice = f"give 1, -1 or 0 for each of the {len(names)} columns, or a dict such as {{{names[0]!r}: 1}}"
            raise ValueError(f"monotonic_cst={monotonic_cst!r}: {advice}")
        given = list(zip(names, monotonic_cst, strict=True))
    for name, value in given:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or value not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst: column {name!r} has {value!r}: give 1 (increasing), -1 (decreasing) or 0")
        sign[first[names.index(name)]] = round(float(value))
    if (odd := np.flatnonzero((sign != 0) & columns.categorical)).size:
        advice = "give it 0, or make it an ordered category of pandas, which counts as numbers"
        raise ValueError(
            f"monotonic_cst: column {columns.names[odd[0]]!r} holds categories, which have no order: {advice}"
        )
    return sign if sign.any() else None
