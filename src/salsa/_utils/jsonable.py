"""Values as JSON has them."""

from __future__ import annotations

import math
from typing import Any


def jsonable(value: Any) -> Any:
    """The same in lists, texts and numbers; null for a number that is not finite, lists for arrays."""
    if isinstance(value, dict):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return jsonable(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
