"""Conversion of values to the types of JSON."""

from __future__ import annotations

import math
from typing import Any


def jsonable(value: Any) -> Any:
    """Return the value in types of JSON: arrays and tuples become lists, numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return jsonable(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
