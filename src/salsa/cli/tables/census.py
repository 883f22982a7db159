"""Tables too large for memory: their size, the types of their columns, and checks over all chunks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from salsa.cli.tables.checking import check_ordered, numeric, plain_features
from salsa.cli.tables.formats import format_of
from salsa.cli.tables.labels import FILL_GROUP, check_group_count, group_labels
from salsa.cli.tables.messages import LEAVE_OUT, first_row, missing_error
from salsa.cli.tables.reading import STDIN, require_pyarrow
from salsa.cli.tables.target_column import TargetColumn

UNPACKED = 4  # approximate bytes of text per byte of gzip


def table_bytes(source: str) -> int:
    """Return about how many bytes a table takes as numbers; 0 for a pipe, which cannot be read twice."""
    if source == STDIN:
        return 0
    size, format = os.path.getsize(source), format_of(source)
    if format.is_arrow and size:
        return _arrow_bytes(source, format.kind, size)
    return UNPACKED * size if format.is_packed else size


def _arrow_bytes(source: str, kind: str, size: int) -> int:
    """Return 8 bytes per value by the row count of the file; the size of a damaged file, whose reader raises later."""
    pa = require_pyarrow(source)
    from pyarrow import dataset  # type: ignore[import-untyped,unused-ignore]

    try:
        table = dataset.dataset(source, format=kind)
        return 8 * int(table.count_rows()) * len(table.schema)
    except (pa.ArrowException, OSError):
        return size


class CsvTypes(NamedTuple):
    """Columns of a CSV file to be read as text or as float64, because single chunks may look like another type."""

    text: list[str]
    floats: list[str]


def csv_types(chunks: Iterable[pd.DataFrame]) -> CsvTypes:
    """Return the types that pandas finds for the whole file: one text, or booleans among numbers, make a text column.

    Integers beyond 64 bits are not handled: the type that pandas finds depends on the rows before them.
    """
    kinds: dict[str, set[str]] = {}
    for chunk in chunks:
        for name in chunk:
            kinds.setdefault(str(name), set()).update(_csv_kinds(chunk[name]))
    text = [name for name, seen in kinds.items() if "text" in seen or {"truth", "number"} <= seen]
    return CsvTypes(text, [name for name, seen in kinds.items() if "fraction" in seen and name not in text])


def _csv_kinds(column: pd.Series[Any]) -> set[str]:
    """Return the kinds of values: "number", "number" and "fraction", "truth" or "text"; empty without values.

    Fractions matter because pandas before version 3 reads long integers exactly, but not in a column with fractions.
    A column of integers with missing values is float64 too, and counts as "number" only.
    """
    values = column.dropna()
    if values.empty:
        return set()
    inferred = pd.api.types.infer_dtype(values)
    if inferred == "floating":
        are_integers = len(values) < len(column) and bool((values % 1 == 0).all())
        return {"number"} if are_integers else {"number", "fraction"}
    return {{"integer": "number", "boolean": "truth"}.get(inferred, "text")}


class Census:
    """A count of rows and missing values of a large table, with checks of its columns over all chunks, before a fit."""

    def __init__(
        self,
        source: str,
        names: Sequence[str],
        categories: Collection[str],
        target: TargetColumn,
        weights: str | None,
        group: str | None = None,
        *,
        monotone: Sequence[str] = (),
    ) -> None:
        self._source, self._names, self._categories, self._monotone = source, names, categories, monotone
        self._target, self._weights, self._group = target, *([name] if name else [] for name in (weights, group))
        self.labels: dict[Any, int] = {}  # groups by number, in the order of their first rows
        self._missing: Counter[str] = Counter()
        self._first: dict[str, int] = {}  # first row without a value, per column
        self.rows = 0

    def add(self, chunk: pd.DataFrame) -> None:
        """Count the rows of a chunk; raise ValueError if a value cannot be used."""
        self.rows += len(chunk)
        self._target.add(chunk[self._target.name])
        for name in self._monotone:
            check_ordered(chunk[name], self._categories, self._source)
        for name in self._weights:
            numeric(chunk[name], self._source, may_miss=True)
        for name in self._group:
            for label in group_labels(chunk[name], self._source, may_miss=True).dropna().unique():
                self.labels.setdefault(label, len(self.labels))
        self._count_missing(chunk)
        held = [name for name in self._names if chunk[name].notna().any()]
        plain_features(chunk, held, self._categories, self._source)

    def _count_missing(self, chunk: pd.DataFrame) -> None:
        for name in (*self._names, *self._weights, *self._group):
            missing = chunk[name].isna().to_numpy()
            if missing.any():
                self._missing[name] += int(missing.sum())
                self._first.setdefault(name, first_row(chunk[name], missing))

    def check(self) -> None:
        """Raise ValueError if weights or groups cannot be used."""
        advice = dict.fromkeys(self._group, FILL_GROUP)
        for name in (*self._weights, *self._group):
            if self._missing[name]:
                found = self._first[name], self._missing[name]
                raise missing_error(name, self._source, *found, advice.get(name, LEAVE_OUT))
        for name in self._group:
            check_group_count(name, len(self.labels), self._source)

    def missing(self, names: Sequence[str]) -> float:
        """Return the share of missing values in these columns."""
        return sum(self._missing[name] for name in names) / (self.rows * len(names))
