"""Results on disk, one line each, written so that a killed run loses none that was finished."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from salsa.paper.runner import Result, Trial

NAME = "results.csv"
HEADER = ",".join(Result._fields)


class Ledger:
    """The file `results.csv` in a folder: a header, then a line for every result; the last line of a trial counts."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        whole = whole_lines(file.read())
        self.results: dict[Trial, Result] = {result.trial: result for result in _as_results(whole, file.name)}
        # A last line that was torn off goes, so that the next one begins on its own.
        file.truncate(len(whole))
        file.seek(len(whole))
        if not whole:
            self._write(as_line(Result._fields))

    def is_done(self, trial: Trial, limit: float | None) -> bool:
        """Whether it need not run: it is ok, or was stopped by a limit that was not lower. Failures run again."""
        known = self.results.get(trial)
        if known is None or known.status.startswith("failed"):
            return False
        return known.status == "ok" or (limit is not None and known.limit >= limit)

    def add(self, result: Result) -> None:
        """Append one line, which is on the disk when this returns."""
        self._write(as_line(result))
        self.results[result.trial] = result

    def _write(self, line: bytes) -> None:
        self.file.write(line)
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def open_ledger(folder: str | Path) -> Iterator[Ledger]:
    """The ledger of a folder, which is made if it is not there; for one run at a time."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, NAME)
    path.touch()
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system gives it back, however this process ends
        except BlockingIOError as error:
            raise ValueError(f"{path} is being written by another run; wait for it, or give another folder") from error
        yield Ledger(file)


def read_results(path: str | Path) -> list[Result]:
    """What a file of results holds, also while a run is writing it."""
    results = _as_results(whole_lines(Path(path).read_bytes()), str(path))
    return list({result.trial: result for result in results}.values())


def whole_lines(content: bytes) -> bytes:
    """Without a last line that was being written when the machine stopped."""
    return content[: content.rfind(b"\n") + 1]


def as_line(values: Sequence[Any]) -> bytes:
    """Of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _as_results(content: bytes, name: str) -> list[Result]:
    """What whole lines of a file of this name say."""
    lines = content.decode(errors="replace").splitlines()
    if lines[:1] not in ([], [HEADER]):
        raise ValueError(f"{name} is not a file of results: its first line should be {HEADER}")
    return [_as_result(line, f"{name}, line {place}") for place, line in enumerate(csv.reader(lines[1:]), start=2)]


def _as_result(line: list[str], place: str) -> Result:
    try:
        dataset, method, protocol, seed, n, D, status, mse, order, seconds, wall_seconds, limit = line
        return Result(
            *(dataset, method, protocol, int(seed), int(n), int(D), status),
            *(float(mse), int(order) if order else None, float(seconds), float(wall_seconds), float(limit)),
        )
    except ValueError as error:
        raise ValueError(f"{place} is not a result ({error}); remove that line, and its fit will run again") from error
