"""The conditions of a run: the arguments of the command line, full or tiny sizes, and the packages that are installed.

Every benchmark takes --tiny, which runs the same code on few rows, and on tables of scikit-learn where the full run
reads those of another package. The tests run every benchmark in this way.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
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
