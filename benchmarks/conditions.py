"""The conditions of a run: the arguments of the command line, full or tiny sizes, and the packages that are installed.

Every benchmark takes --tiny, which runs the same code on few rows, and on tables of scikit-learn where the full run
reads those of another package. The tests run every benchmark in this way. Benchmarks with a `Figures` take --out FILE,
too, and append the figures that they print to this csv (docs/evidence.md).
"""

from __future__ import annotations

import csv
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

Size = TypeVar("Size")

ARGUMENTS = [word for word in sys.argv[1:] if word != "--tiny"]
TINY = "--tiny" in sys.argv[1:]


def size(full: Size, tiny: Size) -> Size:
    return tiny if TINY else full


def number(full: int, tiny: int) -> int:
    """Return the first argument as a number such as 20000 or 2e4; without arguments, the size."""
    return int(float(ARGUMENTS[0])) if ARGUMENTS else size(full, tiny)


def installed(package: str) -> bool:
    """Return whether a package can be imported, and print a line if it cannot."""
    found = find_spec(package) is not None
    if not found:
        print(f"{package} is not installed: its side of the comparison is left out")
    return found


class Figures:
    """Figures that a benchmark appends to the csv of --out, row by row; without --out they are only printed.

    A run that was interrupted goes on: `has` tells whether the file has a row with some values, from an earlier run.
    """

    def __init__(self) -> None:
        self.path = None
        if "--out" in ARGUMENTS:
            place = ARGUMENTS.index("--out")
            self.path = Path(ARGUMENTS[place + 1])
            del ARGUMENTS[place : place + 2]

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
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
