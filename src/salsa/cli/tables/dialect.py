"""The separator and the names of the columns of a CSV file, found from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from salsa.cli.tables.decoding import UTF8, UTF16, WINDOWS

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 21  # lines that decide about the separator: the header and 20 rows


@dataclass
class FileFacts:
    """What was found about a file beside its values."""

    separator: str | None = None  # None for files that are no text
    encoding: str = UTF8
    has_mark: bool = False  # a byte-order mark
    renamed: dict[str, str] = field(default_factory=dict)  # name of a column -> what its name is in the file
    short_rows: int = 0
    first_short: int = 0  # the first short row, counted from 1

    @property
    def notes(self) -> list[str]:
        """Facts that a user should know; empty for plain files."""
        found = []
        if self.separator not in (None, ","):
            found.append(f"{SEPARATORS.get(str(self.separator), repr(self.separator))} separate the columns")
        if self.encoding == UTF16 or self.has_mark:
            found.append(f"the text is {self.encoding} with a byte-order mark")
        return [*found, *self.doubts]

    @property
    def doubts(self) -> list[str]:
        """Notes on values that may have been read wrongly."""
        found = []
        if self.encoding == WINDOWS:
            found.append("the file is no UTF-8: it is read as Windows-1252; look at letters with accents")
        if self.short_rows:
            rows = "1 row is" if self.short_rows == 1 else f"{self.short_rows} rows are"
            where = f"the first is row {self.first_short}"
            found.append(f"{rows} shorter than the header ({where}): the cells that are not there count as missing")
        return found


@dataclass(frozen=True)
class Dialect:
    """How the lines of a file become columns."""

    separator: str
    names: tuple[str, ...]  # of all columns, without two equal ones
    raw: tuple[str, ...]  # names as they are in the file
    first_row: int  # number of values in the first row; 0 if it is not in the sample
    skipped: int = 0  # lines before the header

    @property
    def renamed(self) -> dict[str, str]:
        pairs = zip(self.names, (*self.raw, *[""] * len(self.names)), strict=False)
        return {name: raw for name, raw in pairs if name != raw}


def find_dialect(head: str, is_whole: bool, default: str) -> Dialect:
    """Return the separator and the names of the columns.

    A line such as "sep=;" decides. Otherwise the separator is the one for which the most of the first lines have as
    many values as the header, then the one with the most columns, then the usual one of the file's name.
    """
    hint = re.match(r'"?sep=(.)"?\r?\n', head, re.IGNORECASE)
    text = head[hint.end() :] if hint else head
    candidates = [hint[1]] if hint else [default, *(mark for mark in SEPARATORS if mark != default)]
    samples = {mark: _records(text, mark, is_whole) for mark in candidates}
    separator = max(samples, key=lambda mark: _agreement(samples[mark]))  # the first of equals
    header, *rows = samples[separator] or [[]]
    extra = bool(rows) and all(len(row) == len(header) + 1 and not row[-1].strip() for row in rows)
    names = unique_names([*header, ""] if extra else header)
    return Dialect(separator, names, tuple(header), len(rows[0]) if rows else 0, 1 if hint else 0)


def _records(text: str, separator: str, is_whole: bool) -> list[list[str]]:
    """Return the first lines that are not blank as lists of values; empty if they cannot be split."""
    lines = _split(text, separator)
    try:
        found = list(islice((record for record in lines if record), SAMPLE + 1))
    except csv.Error:
        return []
    return found if is_whole and len(found) <= SAMPLE else found[: max(1, min(len(found) - 1, SAMPLE))]


def _split(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)


def _agreement(records: list[list[str]]) -> tuple[bool, int, int]:
    """Return whether there are two columns or more, how many lines are as long as the header, and its length."""
    columns = len(records[0]) if records else 0
    alike = sum(len(record) == columns for record in records)
    return (True, alike, columns) if columns > 1 else (False, 0, columns)


def unique_names(header: list[str]) -> tuple[str, ...]:
    """Return names without spaces around them: empty ones are numbered, equal ones get .1, .2 and so on."""
    given = [name.strip() or f"Unnamed: {number}" for number, name in enumerate(header)]
    taken, names = set(given), dict.fromkeys(given[:0])
    for name in given:
        free, number = name, 0
        while free in names or (number and free in taken):
            number += 1
            free = f"{name}.{number}"
        names[free] = None
    return tuple(names)


def count_short_rows(lines: Iterable[str], dialect: Dialect) -> tuple[int, int]:
    """Return how many rows have fewer values than the header has names, and the first of them, counted from 1."""
    count, first = 0, 0
    records = (record for record in csv.reader(lines, delimiter=dialect.separator, skipinitialspace=True) if record)
    for number, record in enumerate(islice(records, dialect.skipped + 1, None), start=1):
        if len(record) < len(dialect.raw):
            count, first = count + 1, first or number
    return count, first
