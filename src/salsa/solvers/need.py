"""The memory that a fit needs with each solver, and which solver fits into a limit."""

from __future__ import annotations

from typing import NamedTuple

from salsa._utils.memory import SMALLER_TABLE, exact_bytes, format_bytes, require_memory, tiled_bytes
from salsa.solvers import find_solver

DEFAULT_RANK = 2000  # the most anchors, random features or rows of a part
DIRECT_RANK = 3000  # the most anchors that are fitted by sums over rows
SUGGESTED = ("exact", "pcg", "lowrank")  # the other solvers are for comparison
SEARCH_ROWS = 2000  # rows that the order is chosen on, in a fit to many rows
LEARNING_ROWS = 4000  # the most rows of one kernel matrix in learning: a second judgement has so many


class Size(NamedTuple):
    """The size of a fit: rows, features, outputs, folds, threads, and bytes that it needs whatever the solver."""

    n: int
    D: int
    outputs: int
    folds: int
    threads: int
    choices: int = 0  # peak while kernel and order are chosen, before the solver begins
    table: int = 0  # to read the whole table, for solvers that need all rows

    def need(self, name: str, rank: int) -> int:
        """Return the peak memory in bytes of a fit by this solver."""
        solver = find_solver(name)
        solving = solver.bytes(self.n, self.D, self.outputs, rank, self.folds, self.threads)
        return max(solving, self.choices) + (self.table if solver.needs_all_rows else 0)


def choice_bytes(n: int, *, searched: bool, learned: bool) -> int:
    """Return the peak memory of the choice of an order on some of n rows, and of learning a kernel from them."""
    return max(exact_bytes(min(n, SEARCH_ROWS)) * searched, learning_bytes(min(n, LEARNING_ROWS)) * learned)


def learning_bytes(n: int) -> int:
    """Return the peak memory of learning a kernel from n rows: K and its factor, which the gradient overwrites."""
    return 3 * 8 * n * n


def check_memory(name: str, rank: int, size: Size, limit: int) -> None:
    """Raise MemoryError if the fit needs more than the limit; the error says which solver and rank would fit."""
    need = size.need(name, rank)
    if need > limit:
        reads = ", which reads the whole table," if size.table and find_solver(name).needs_all_rows else ""
        require_memory(need, limit, f"this fit by solver={name!r}{reads}", way_out(name, rank, size, limit))


def way_out(name: str, rank: int, size: Size, limit: int) -> str:
    """Return which solvers and ranks fit into the limit, or the least limit that works."""
    ways = [] if name == "exact" else _smaller_rank(name, rank, size, limit)
    ways += [way for other in SUGGESTED if other != name for way in _other_solver(other, size, limit)]
    if ways:
        return f"{', '.join(ways)}. Otherwise {SMALLER_TABLE}"
    least, name = min((size.need(name, 10), name) for name in ("exact", "lowrank"))
    (fits,) = [f"solver={name!r} fits"] if name == "exact" else _smaller_rank(name, DEFAULT_RANK, size, least)
    return f"No solver fits: the least limit that works is {format_bytes(1.01 * least)}, into which {fits}."


def _smaller_rank(name: str, rank: int, size: Size, limit: int) -> list[str]:
    """Return the largest round rank below this one that fits, as a text."""
    fitting = [smaller for smaller in round_ranks(rank - 1) if size.need(name, smaller) <= limit]
    return [f"solver={name!r} with rank={fitting[-1]} fits"] if fitting else []


def _other_solver(name: str, size: Size, limit: int) -> list[str]:
    rank = min(DEFAULT_RANK, size.n)
    need = size.need(name, rank) + (tiled_bytes(size.n) if name == "pcg" else 0)  # without its tiles, pcg is slow
    if need <= limit:
        return [f"solver={name!r} needs {format_bytes(need)} and fits"]
    return _smaller_rank(name, rank, size, limit) if name == "lowrank" else []


def round_ranks(most: int) -> list[int]:
    """Return 10, 20, ... 100, 110, ... 1000, 1100, ...: numbers of two digits, and zeros, up to `most`."""
    tens = [*range(10, 100, 10), *(digits * 10**zeros for zeros in range(1, 8) for digits in range(10, 100))]
    return [rank for rank in tens if rank <= most]
