"""The columns of a table as floats: numbers, codes of categories and NaN where a value is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa.data.records import PlainTable, are_records, encode_plain, values_of_records

Level = str | int | float | bool

SPAN_LIMITS = (1e-130, 1e130)  # spans whose squared differences over bandwidths stay within float64


@dataclass(frozen=True, repr=False)
class Columns:
    """The D columns of a training table, which encode any table with these columns as floats."""

    names: tuple[str, ...]
    levels: tuple[tuple[Level, ...] | None, ...]  # levels of categories, coded 0..L-1; None for numbers
    ordered: tuple[bool, ...]  # whether codes are ranks, so that the column counts as numbers

    def __repr__(self) -> str:
        held = [name for name, is_category in zip(self.names, self.categorical, strict=True) if is_category]
        categories = f", categories: {some_of(held)}" if held else ""
        return f"Columns {some_of(self.names)} ({len(self.names)}{categories})"

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """The mask (D,) of columns that hold categories without an order."""
        pairs = zip(self.levels, self.ordered, strict=True)
        return np.array([levels is not None and not ordered for levels, ordered in pairs], dtype=bool)

    @cached_property
    def codes(self) -> tuple[dict[Level, float] | None, ...]:
        """The codes of the levels of every column; None for numbers."""
        return tuple(
            None if known is None else {level: float(number) for number, level in enumerate(known)}
            for known in self.levels
        )

    def encode(self, X: Any) -> Floats:
        """Return the table as floats (n, D); levels not seen in training become NaN, with a warning.

        X may also be a dict, which is one row, or a list of dicts. Plain values take a short way.
        """
        records = values_of_records(X, self.names) if are_records(X) else None
        plain = encode_plain(X if records is None else PlainTable(records), self.codes)
        if plain is not None:
            return plain
        from salsa.data.table_columns import encode_table  # here, because it imports pandas and scikit-learn

        return encode_table(X, records, self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: pickles do not depend on cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check_spans(self, X: Floats) -> None:
        """Raise ValueError if a column of encoded rows (n, D) spans too much, or too little, for squares in float64."""
        self.check_limits(np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0))

    def check_limits(self, low: Floats, high: Floats) -> None:
        """Check spans as ``check_spans`` does, from the least and largest values (D,); NaN if all are missing."""
        with np.errstate(over="ignore"):
            span = high - low
        beyond = (span > SPAN_LIMITS[1]) | ((span > 0) & (span < SPAN_LIMITS[0]))  # False for NaN: all are missing
        if beyond.any():
            j = int(beyond.argmax())
            limits = f"a span between {SPAN_LIMITS[0]:.0e} and {SPAN_LIMITS[1]:.0e} can be squared in float64"
            raise ValueError(f"column {self.names[j]!r} goes from {low[j]:.3g} to {high[j]:.3g}; {limits}: rescale it")

    def check_codes(self, X: Floats) -> None:
        """Raise ValueError if encoded rows (n, D) have codes without a level."""
        for name, levels, codes in zip(self.names, self.levels, X.T, strict=True):
            if levels is not None and not np.isin(codes[~np.isnan(codes)], np.arange(len(levels))).all():
                raise ValueError(f"column {name!r} has codes other than those of its {len(levels)} levels")


def some_of(columns: Sequence[Any], most: int = 8) -> str:
    """Return the names of the first columns, for a message."""
    return ", ".join(map(repr, columns[:most])) + (", ..." if len(columns) > most else "")
