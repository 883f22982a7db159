"""Jobs and their results: rows in memory, and lines of a CSV file; a killed run loses no finished row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, NamedTuple, get_args, get_type_hints

from salsa._utils.locks import locked
from salsa.baselines.processes import OK, TIMED_OUT

NAN = float("nan")


class Job(NamedTuple):
    """One fit of a method to n rows of D features."""

    dataset: str  # a released data set, or a part of figure 1 such as "fig1a"
    method: str
    protocol: str  # how the rows are prepared, see ``load_dataset``; "synthetic" in figure 1
    seed: int  # seed of the noise columns of airfoil and ccpp; in figure 1 the number of the trial
    n: int
    D: int


class Row(NamedTuple):
    """The result of a job, whose fields come first. A fit that did not finish has a status and no numbers."""

    dataset: str
    method: str
    protocol: str
    seed: int
    n: int
    D: int
    status: str = OK  # or "timed out", or "failed: " and the reason
    mse: float = NAN  # on the test rows
    order: int | None = None
    seconds: float = NAN  # CPU time of the fit, with all its tuning; the limit if the fit timed out
    wall_seconds: float = NAN
    limit: float = NAN  # limit of the fit in CPU seconds
    variance: float = NAN  # variance of the test target

    @property
    def job(self) -> Job:
        return Job(*self[:6])


class Layout(NamedTuple):
    """The columns of a file of rows."""

    columns: Mapping[str, str]  # name in the header -> field of ``Row``
    others: Mapping[str, Any]  # values of other fields, which are equal in all lines
    missing: str  # text of a missing float


TABLE1 = Layout({name: name for name in Row._fields if name != "variance"}, {}, missing="nan")


class Ledger:
    """A CSV file with a header and a line for every row; the last line of a job counts."""

    def __init__(self, file: BinaryIO, layout: Layout) -> None:
        self.file, self.layout = file, layout
        whole = _whole_lines(file.read())
        self.rows = _parsed(whole, layout, file.name)
        # An incomplete last line is removed, so that the next row begins on a new line.
        file.truncate(len(whole))
        file.seek(len(whole))
        if not whole:
            self._write(layout.columns)

    def is_done(self, job: Job, limit: float | None) -> bool:
        """Whether a job need not run: it is ok, or timed out with at least this limit. Failed jobs run again."""
        known = self.rows.get(job)
        if known is None or known.status != TIMED_OUT or limit is None:
            return known is not None and known.status == OK
        return known.limit >= limit or known.seconds >= limit  # not all files have both

    def add(self, row: Row) -> None:
        """Append one line, and return when it is on the disk."""
        values = [getattr(row, field) for field in self.layout.columns.values()]
        self._write(self.layout.missing if value != value else value for value in values)
        self.rows[row.job] = row

    def _write(self, values: Iterable[Any]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        self.file.write(text.getvalue().encode())
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def open_ledger(path: Path, layout: Layout) -> Iterator[Ledger]:
    """Open the ledger in a file, which is created if missing; only one run at a time may write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+b") as file, ExitStack() as held:
        try:
            held.enter_context(locked(file))
        except BlockingIOError as error:
            advice = "wait for it, or give another folder"
            raise ValueError(f"{path} is being written by another run; {advice}") from error
        yield Ledger(file, layout)


def read_rows(path: Path, layout: Layout) -> list[Row]:
    """Return the rows in a file, also while a run is writing it; an empty list if there is no file."""
    content = path.read_bytes() if path.exists() else b""
    return list(_parsed(_whole_lines(content), layout, str(path)).values())


def _whole_lines(content: bytes) -> bytes:
    """Return the content without an incomplete last line, which an interrupted run may leave."""
    return content[: content.rfind(b"\n") + 1]


def _parsed(content: bytes, layout: Layout, name: str) -> dict[Job, Row]:
    """Parse the whole lines of a file and return the last row of every job; errors contain the name of the file."""
    names = list(layout.columns)
    header, *lines = csv.reader(io.StringIO(content.decode(errors="replace"))) if content else [names]
    if header != names:
        expected = f"its first line should be {','.join(names)}"
        raise ValueError(f"{name} is not a file of these results: {expected}; move it away, or give another folder")
    rows = [_row(line, layout, f"{name}, line {place}") for place, line in enumerate(lines, start=2)]
    return {row.job: row for row in rows}


def _row(line: Sequence[str], layout: Layout, place: str) -> Row:
    kinds = get_type_hints(Row)
    try:
        texts = zip(layout.columns.values(), line, strict=True)
        values = {field: _value(text, kinds[field], layout.missing) for field, text in texts}
    except ValueError as error:
        raise ValueError(f"{place} is not a result ({error}); remove that line, and its fit will run again") from error
    return Row(**layout.others, **values)


def _value(text: str, hint: Any, missing: str) -> Any:
    """Parse a text or a number; a blank is None if the type allows None."""
    kind, *others = get_args(hint) or (hint,)
    if not text and NoneType in others:
        return None
    return NAN if kind is float and text == missing else kind(text)
