"""The JSON Schema of a record that a fitted model takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.data.columns import Columns, Level

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNIT = re.compile(r".*\S\s*[\[(]([^\[\]()]+)[\])]\s*")  # "area [m2]", "speed (km/h)"


def schema_of(columns: Columns, seen: Sequence[Floats], *, may_miss: bool, strict: bool) -> dict[str, Any]:
    """Return the schema of a record with these columns, whose training values were `seen`, one array per column."""
    kinds = zip(columns.names, columns.levels, columns.ordered, seen, strict=True)
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {
            name: _of_number(name, values, may_miss, strict)
            if levels is None
            else _of_category(levels, ordered, may_miss, strict)
            for name, levels, ordered, values in kinds
        },
        "required": list(columns.names),
        "additionalProperties": False,
    }


def _of_number(name: str, values: Floats, may_miss: bool, strict: bool) -> dict[str, Any]:
    observed = values[~np.isnan(values)]
    kinds = ["number", "boolean"] if np.isin(observed, (0.0, 1.0)).all() else ["number"]
    found: dict[str, Any] = {"type": _or_null(kinds, may_miss), "x-kind": "number"}
    if unit := _UNIT.fullmatch(name):
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
