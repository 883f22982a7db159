"""Results on disk, one line each; a killed run loses no finished result."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, Generic, Protocol, TypeVar, get_args, get_type_hints

from salsa.baselines.processes import OK, TIMED_OUT


class Record(Protocol):
    """The result of a job: a named tuple of texts and numbers."""

    @property
    def job(self) -> Hashable: ...

    @property
    def status(self) -> str: ...

    @property
    def limit(self) -> float:
        """The limit in CPU seconds; it is only read if the job timed out."""


R = TypeVar("R", bound=Record)


class Ledger(Generic[R]):
    """A CSV file with a header and a line for every result of the given kind; the last line of a job counts."""

    def __init__(self, file: BinaryIO, kind: type[R]) -> None:
        self.file = file
        whole = _whole_lines(file.read())
        self.results: dict[Hashable, R] = _last_of_each_job(_parsed(whole, kind, file.name))
        # An incomplete last line is removed, so that the next result begins on a new line.
        file.truncate(len(whole))
        file.seek(len(whole))
        if not whole:
            self._write(_fields(kind))

    def is_done(self, job: Hashable, limit: float | None) -> bool:
        """Whether a job need not run: it is ok, or timed out with at least this limit. Failed jobs run again."""
        known = self.results.get(job)
        if known is None:
            return False
        return known.status == OK or (known.status == TIMED_OUT and limit is not None and known.limit >= limit)

    def add(self, result: R) -> None:
        """Append one line, and return when it is on the disk."""
        self._write(tuple(result))  # type: ignore[arg-type]  # a named tuple
        self.results[result.job] = result

    def _write(self, values: Sequence[Any]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        self.file.write(text.getvalue().encode())
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def open_ledger(path: Path, kind: type[R]) -> Iterator[Ledger[R]]:
    """Open the ledger in a file, which is created if missing; only one run at a time may write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system releases the lock, however this process ends
        except BlockingIOError as error:
            raise ValueError(f"{path} is being written by another run; wait for it, or give another folder") from error
        yield Ledger(file, kind)


def read_results(path: Path, kind: type[R]) -> list[R]:
    """Return the results in a file, also while a run is writing it; an empty list if there is no file."""
    if not path.exists():
        return []
    return list(_last_of_each_job(_parsed(_whole_lines(path.read_bytes()), kind, str(path))).values())


def _last_of_each_job(results: Sequence[R]) -> dict[Hashable, R]:
    return {result.job: result for result in results}


def _whole_lines(content: bytes) -> bytes:
    """Return the content without an incomplete last line, which an interrupted run may leave."""
    return content[: content.rfind(b"\n") + 1]


def _fields(kind: type[R]) -> tuple[str, ...]:
    return tuple(get_type_hints(kind))


def _parsed(content: bytes, kind: type[R], name: str) -> list[R]:
    """Parse the whole lines of a file; errors contain its name."""
    header, *lines = csv.reader(io.StringIO(content.decode(errors="replace"))) if content else [[*_fields(kind)]]
    if tuple(header) != _fields(kind):
        raise ValueError(
            f"{name} is not a file of these results: its first line should be {','.join(_fields(kind))}; move it away, "
            "or give another folder"
        )
    return [_result(line, kind, f"{name}, line {place}") for place, line in enumerate(lines, start=2)]


def _result(line: Sequence[str], kind: type[R], place: str) -> R:
    kinds = get_type_hints(kind)
    try:
        return kind(*(_value(text, hint) for text, hint in zip(line, kinds.values(), strict=True)))
    except ValueError as error:
        raise ValueError(f"{place} is not a result ({error}); remove that line, and its fit will run again") from error


def _value(text: str, hint: Any) -> Any:
    """Parse a text or a number; a blank is None if the type allows None."""
    kind, *others = get_args(hint) or (hint,)
    return None if not text and NoneType in others else kind(text)
