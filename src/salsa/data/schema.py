"""The JSON Schema of a record that a fitted model takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.data.columns import Columns, Level
from salsa.data.date_parts import DURATION, Part

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNIT = re.compile(r".*\S\s*[\[(]([^\[\]()]+)[\])]\s*")  # "area [m2]", "speed (km/h)"


def schema_of(columns: Columns, seen: Sequence[Floats], *, may_miss: bool, strict: bool) -> dict[str, Any]:
    """Return the schema of a record, with a field for every column of the table.

    `seen` are the training values, one array per feature.
    """
    fields = zip(columns.table, columns.first, strict=True)
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {name: _field(name, columns, j, seen[j], may_miss, strict) for name, j in fields},
        "required": list(columns.table),
        "additionalProperties": False,
    }


def _field(name: str, columns: Columns, j: int, seen: Floats, may_miss: bool, strict: bool) -> dict[str, Any]:
    """Return the schema of the column of the table whose first feature is j."""
    levels, part = columns.levels[j], columns.all_parts[j]
    if levels is not None:
        return _of_category(levels, columns.ordered[j], may_miss, strict)
    if part is None or part.name == DURATION:
        return _of_number(name, seen, part, may_miss, strict)
    return _of_date(part, seen, may_miss)


def _of_date(trend: Part, seen: Floats, may_miss: bool) -> dict[str, Any]:
    """Return the schema of a date; its range is the first and the last instant, in UTC if dates have a time zone.

    The format date-time of JSON Schema asks for a time zone, which the model refuses unless training rows had one.
    """
    observed = seen[~np.isnan(seen)]
    zoned = {} if trend.detail is None else {"format": "date-time"}
    found: dict[str, Any] = {"type": _or_null(["string"], may_miss), **zoned, "x-kind": "date"}
    if len(observed):
        found["x-range"] = [trend.written(float(end)).replace(" ", "T") for end in (observed.min(), observed.max())]
    return found


def _of_number(name: str, values: Floats, duration: Part | None, may_miss: bool, strict: bool) -> dict[str, Any]:
    """Return the schema of a number, or of a duration in its unit."""
    observed = values[~np.isnan(values)]
    is_truth = duration is None and np.isin(observed, (0.0, 1.0)).all()
    kinds = ["number", "boolean"] if is_truth else ["number"]
    found: dict[str, Any] = {"type": _or_null(kinds, may_miss), "x-kind": "duration" if duration else "number"}
    if duration is not None:
        found["x-unit"] = duration.detail
    elif unit := _UNIT.fullmatch(name):
        found["x-unit"] = unit[1].strip()
    if not len(observed):
        return found
    low, high = float(observed.min()), float(observed.max())
    found["x-range"] = [low, high]
    return found | ({"minimum": low, "maximum": high} if strict else {})


def _of_category(levels: tuple[Level, ...], ordered: bool, may_miss: bool, strict: bool) -> dict[str, Any]:
    kind = "ordered category" if ordered else "category"
    found = {"type": _or_null(["string", "number", "boolean"], may_miss), "x-kind": kind, "x-levels": list(levels)}
    return found | ({"enum": [*levels, *([None] if may_miss else [])]} if strict else {})


def _or_null(kinds: list[str], may_miss: bool) -> Any:
    kinds = [*kinds, "null"] if may_miss else kinds
    return kinds[0] if len(kinds) == 1 else kinds
