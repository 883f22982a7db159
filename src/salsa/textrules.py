"""What text in a column is likely to be if it is not a category."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISTAKE_PERCENT = 90  # of the values are numbers: text among them counts as a mistake
IDENTIFIER_ROWS = 50  # more rows than this, more than half of them with a text of their own: names, not categories

_DATE_TEXT = re.compile(
    r"\d{1,4}[-/](\d{1,2}|[A-Za-z]{3,9})[-/]\d{1,4}([T ].*)?"  # 2026-01-31, 31/1/2026, 31-Jan-2026 12:00
    r"|\d{4}[-/]\d{1,2}"  # 2026-01
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"  # 12:00
)


def are_mistakes(values: int, numbers: int) -> bool:
    """Text in a column of numbers is more likely a slip of the pen than a category."""
    return MISTAKE_PERCENT * values <= 100 * numbers < 100 * values


def are_dates(texts: Collection[Any]) -> bool:
    """Whether all texts can be read as dates or times."""
    if not all(isinstance(text, str) and _DATE_TEXT.fullmatch(text) for text in texts):
        return False
    return bool(pd.Series(pd.to_datetime(list(texts), errors="coerce", format="mixed", utc=True)).notna().all())


def are_identifiers(values: int, distinct: int) -> bool:
    """Whether most rows have a text of their own."""
    return values > IDENTIFIER_ROWS and 2 * distinct > values


def spell_numbers(texts: Any) -> NDArray[np.bool_]:
    """Which values are numbers or can be read as one (n,)."""
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    found: NDArray[np.bool_] = np.isfinite(numbers)
    return found
