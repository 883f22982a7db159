"""The conditions of a run: the arguments of the command line, full or tiny sizes, and the packages that are installed.

Every benchmark takes --tiny, which runs the same code on few rows, and on tables of scikit-learn where the full run
reads those of another package. The tests run every benchmark in this way. Benchmarks with a `Figures` take --out FILE,
too, and write the figures that they print to this csv (docs/result_files.md).
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

Size = TypeVar("Size")

ARGUMENTS = [word for word in sys.argv[1:] if word != "--tiny"]
TINY = "--tiny" in sys.argv[1:]


def size(full: Size, tiny: Size) -> Size:
    return tiny if TINY else full


def number(full: int, tiny: int) -> int:
    """Return the first argument as a number such as 20000 or 2e4; without arguments but --out, the size."""
    _out()
    return int(float(ARGUMENTS[0])) if ARGUMENTS else size(full, tiny)


def installed(package: str) -> bool:
    """Return whether a package can be imported, and print a line if it cannot."""
    found = find_spec(package) is not None
    if not found:
        print(f"{package} is not installed: its side of the comparison is left out")
    return found


@cache
def _out() -> Path | None:
    """Take --out and its file out of the arguments, which have it only once."""
    if "--out" not in ARGUMENTS:
        return None
    place = ARGUMENTS.index("--out")
    path = Path(ARGUMENTS[place + 1])
    del ARGUMENTS[place : place + 2]
    return path


class Figures:
    """Figures that a benchmark writes to the csv of --out, row by row; without --out they are only printed.

    With resumes=True, rows of an earlier run are kept: `has` tells whether there is a row with some values.
    """

    def __init__(self, resumes: bool = False) -> None:
        self.path, self.mode = _out(), "a" if resumes else "w"

    def rows(self) -> list[dict[str, str]]:
        if self.path is None or not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def has(self, **values: object) -> bool:
        return any(all(row[name] == str(value) for name, value in values.items()) for row in self.rows())

    def add(self, **row: object) -> None:
        if self.path is None:
            return
        with self.path.open(self.mode, encoding="utf-8", newline="") as file:
            self.mode = "a"
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
