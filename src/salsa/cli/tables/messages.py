"""Messages about columns that cannot be used: file, column and row, with advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from salsa.cli.tables.reading import title

LEAVE_OUT = "; leave such rows out"
DROP = "; --drop {0!r} leaves the column out"


def column_error(name: Any, source: str, problem: str, advice: str = "") -> ValueError:
    """Return an error that ends with the advice, in which {0} becomes the name of the column."""
    return ValueError(f"{title(source)}: column {name!r} {problem}{advice.format(name)}")


def dates_error(name: Any, source: str, advice: str) -> ValueError:
    numbers = "turn them into numbers, such as the year, the month or the days since some date"
    return column_error(name, source, f"holds dates, times or durations; {numbers}", advice)


def missing_error(name: Any, source: str, row: int, count: int, advice: str = LEAVE_OUT) -> ValueError:
    """Return the error for a column that needs a value in every row; rows are counted from 1."""
    return column_error(name, source, f"has no value in row {row} ({count} missing in all)", advice)


def shown_value(column: pd.Series[Any], where: NDArray[np.bool_]) -> str:
    """Describe the first value of a column at these places, with its row."""
    return f"{str(column[where].iloc[0])!r} in row {first_row(column, where)}"


def first_row(column: pd.Series[Any], where: NDArray[np.bool_]) -> int:
    """Return the number of the first of these rows, counted from 1 after the header."""
    return int(column.index[where][0]) + 1
