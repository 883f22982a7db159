"""Tables too large for memory: how large they are, and what all their chunks hold together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from salsa.cli.tables.checking import is_text, numeric, plain_features, target_of
from salsa.cli.tables.formats import format_of
from salsa.cli.tables.messages import first_row, missing_error
from salsa.cli.tables.reading import STDIN, require_pyarrow
from salsa.cli.tables.texts import Texts, check_texts

UNPACKED = 4  # bytes of text in a byte of gzip, about


def table_bytes(source: str) -> int:
    """About what a table takes as numbers; 0 for a pipe, which cannot be read twice."""
    if source == STDIN:
        return 0
    size, format = os.path.getsize(source), format_of(source)
    if format.is_arrow and size:
        return _arrow_bytes(source, format.kind, size)
    return UNPACKED * size if format.is_packed else size


def _arrow_bytes(source: str, kind: str, size: int) -> int:
    """By the number of rows, which the file tells; by its size where it is damaged, of which its reader will tell."""
    pa = require_pyarrow(source)
    from pyarrow import dataset  # type: ignore[import-untyped,unused-ignore]

    try:
        table = dataset.dataset(source, format=kind)
        return 8 * int(table.count_rows()) * len(table.schema)
    except (pa.ArrowException, OSError):
        return size


class CsvTypes(NamedTuple):
    """The columns of a CSV file that some chunk of it might take for something else than the whole file is."""

    text: list[str]
    floats: list[str]


def csv_types(chunks: Iterable[pd.DataFrame]) -> CsvTypes:
    """As pandas decides on the whole file: one text makes all text, truth values among numbers too.

    Integers beyond 64 bits are left out of account: what they are taken for depends on the rows before them.
    """
    kinds: dict[str, set[str]] = {}
    for chunk in chunks:
        for name in chunk:
            kinds.setdefault(str(name), set()).update(_csv_kinds(chunk[name]))
    text = [name for name, seen in kinds.items() if "text" in seen or {"truth", "number"} <= seen]
    return CsvTypes(text, [name for name, seen in kinds.items() if "fraction" in seen and name not in text])


def _csv_kinds(column: pd.Series[Any]) -> set[str]:
    """Empty where there are no values, "number" or "number" and "fraction", "truth" or "text".

    Before version 3 pandas reads long numbers beside fractions as a neighbour of the nearest float64, and long integers
    alone exactly; beside missing values these are float64 as well.
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
    """What there is to know of a large table before a fit: rows, missing values, and the checks over all chunks."""

    def __init__(
        self, source: str, names: Sequence[str], categories: Collection[str], target: str, weights: str | None
    ) -> None:
        self._source, self._names, self._categories = source, names, categories
        self._target, self._weights = target, [] if weights is None else [weights]
        self._texts: dict[str, Texts] = {}
        self._missing: Counter[str] = Counter()
        self._first: dict[str, int] = {}  # rows without a value
        self.rows = 0

    def add(self, chunk: pd.DataFrame) -> None:
        """Count some rows; ValueError where one of them will not do."""
        self.rows += len(chunk)
        target_of(chunk, self._target, self._source, may_miss=True)
        for name in self._weights:
            numeric(chunk, name, self._source, may_miss=True)
        self._count_missing(chunk)
        held = [name for name in self._names if chunk[name].notna().any()]
        plain_features(chunk, held, self._categories, self._source)
        for name in held:
            if name not in self._categories and is_text(chunk[name]):
                self._texts.setdefault(name, Texts(name)).add(chunk[name])

    def _count_missing(self, chunk: pd.DataFrame) -> None:
        for name in (*self._names, self._target, *self._weights):
            missing = chunk[name].isna().to_numpy()
            if missing.any():
                self._missing[name] += int(missing.sum())
                self._first.setdefault(name, first_row(chunk[name], missing))

    def check(self) -> None:
        """ValueError where all rows together will not do."""
        for name in (self._target, *self._weights):
            if self._missing[name]:
                raise missing_error(name, self._source, self._first[name], self._missing[name])
        check_texts(self._texts.values(), self._source)

    @property
    def empty(self) -> list[str]:
        """Features without a value."""
        return [name for name in self._names if self._missing[name] == self.rows]

    def missing(self, names: Sequence[str]) -> float:
        """The share of missing values in these columns."""
        return sum(self._missing[name] for name in names) / (self.rows * len(names))
