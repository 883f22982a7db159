"""What text in a column is likely to be if it is not a category."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISTAKE_PERCENT = 90  # of the values are numbers: text among them counts as a mistake
FEW_LEVELS = 10  # no more numbers with a unit than this may well be categories
IDENTIFIER_ROWS = 50  # in fewer rows, texts that hardly repeat may be categories
MOST_PARSED = 1000  # texts that look like dates, of which it is tried

_DATE_TEXT = re.compile(
    r"\d{1,4}[-/](\d{1,2}|[A-Za-z]{3,9})[-/]\d{1,4}([T ].*)?"  # 2026-01-31, 31/1/2026, 31-Jan-2026 12:00
    r"|\d{4}[-/]\d{1,2}"  # 2026-01
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"  # 12:00
)
_NUMBER_WITH_UNIT = re.compile(
    r"(?P<before>[$€£¥]?)\s?[-+]?"
    r"(?:\d{1,3}(?:[,']\d{3})+|\d+)(?:[.,]\d+)?"  # 517, 1,234.5, 1'234
    r"\s?(?P<after>%|[A-Za-z°µ]{0,4}[23²³]?)"
)


def are_mistakes(values: int, numbers: int) -> bool:
    """Text in a column of numbers is more likely a slip of the pen than a category."""
    return MISTAKE_PERCENT * values <= 100 * numbers < 100 * values


def are_dates(texts: Collection[Any]) -> bool:
    """Whether all texts can be read as dates or times."""
    if not all(isinstance(text, str) and _DATE_TEXT.fullmatch(text) for text in texts):
        return False
    some = sorted(texts)[:MOST_PARSED]
    return bool(pd.Series(pd.to_datetime(some, errors="coerce", format="mixed", utc=True)).notna().all())


def are_identifiers(values: int, distinct: int, share: float = 0.5) -> bool:
    """Whether there are more different texts than this share of the rows."""
    return values > IDENTIFIER_ROWS and distinct > share * values


def have_units(texts: Collection[Any]) -> bool:
    """Whether they are many numbers with the same sign or unit, or with separators: $517, 45.5 %, 194 m2, 1,234."""
    if len(texts) <= FEW_LEVELS:
        return False
    units = set()
    for text in texts:
        match = _NUMBER_WITH_UNIT.fullmatch(text) if isinstance(text, str) else None
        units.add(match and match.group("before", "after"))
        if match is None or len(units) > 1:
            return False
    return not spell_numbers(list(texts)).all()


def spell_numbers(texts: Any) -> NDArray[np.bool_]:
    """Which values are numbers or can be read as one (n,)."""
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    found: NDArray[np.bool_] = np.isfinite(numbers)
    return found
