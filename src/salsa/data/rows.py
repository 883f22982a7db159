"""Rows of a table, wherever they are: a large fit asks for some of them, and for sums over all, block by block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places

S = TypeVar("S")
T = TypeVar("T")
FoldOf = Callable[[int, int], Places]  # (start, stop) -> the folds that rows start..stop-1 are held out in
SLICE = 2**16  # rows in a slice of an array, and about the rows whose folds are drawn from one seed
MANY_TIMES, MANY_ROWS = 5, 5000  # whole weights become repeated rows up to 5 times the rows and 5000 rows


class Observations(NamedTuple):
    """Rows with positive weights: features (m, D), NaN where missing, targets (m, q) and weights (m,)."""

    X: Floats
    Y: Floats
    weight: Floats

    def some(self, index: slice | Places | NDArray[np.bool_]) -> Observations:
        return Observations(self.X[index], self.Y[index], self.weight[index])

    @property
    def given_weight(self) -> Floats | None:
        """The weights (m,), or None if all are one."""
        return None if (self.weight == 1).all() else self.weight

    def sorted(self) -> Observations:
        """Return the rows in ascending order, with whole weights as repeated rows unless there would be too many.

        A fit to these rows depends neither on the order of rows nor on whether a row is repeated or weighted.
        """
        X, Y, weight = self.X, self.Y, self.given_weight
        if weight is not None and (weight % 1 == 0).all() and weight.sum() <= min(MANY_TIMES * len(X), MANY_ROWS):
            rows = np.repeat(np.arange(len(X)), weight.astype(np.intp))
            X, Y, weight = X[rows], Y[rows], None
        keys = [np.where(np.isnan(X), np.inf, X), Y, np.empty((len(X), 0)) if weight is None else weight[:, None]]
        order = np.lexsort(np.column_stack(keys).T[::-1])
        return Observations(X[order], Y[order], np.ones(len(X)) if weight is None else weight[order])


class Block(NamedTuple):
    """Some rows, and the fold that each is held out in (m,)."""

    X: Floats
    Y: Floats
    weight: Floats
    fold: Places

    def some(self, index: slice) -> Block:
        return Block(self.X[index], self.Y[index], self.weight[index], self.fold[index])

    def then(self, other: Block) -> Block:
        """Return the rows of both blocks."""
        X, Y, weight, fold = (np.concatenate(parts) for parts in zip(self, other, strict=True))
        return Block(X, Y, weight, fold)


class Rows(Protocol):
    """All rows of positive weight, in order."""

    def __len__(self) -> int: ...

    def take(self, places: Places) -> Observations:
        """Return the rows with these numbers, which ascend."""

    def total(self, function: Callable[[Block], T], add: Callable[[T, T], T], fold: FoldOf, size: int, every: int) -> T:
        """Sum a function over blocks of at most `size` rows; only one row in `every` counts."""


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows that come in parts of any size, again and again: slices of arrays, or parts of a file."""

    parts: Callable[[], Iterable[Observations]]
    n: int
    threads: int

    def __len__(self) -> int:
        return self.n

    def take(self, places: Places) -> Observations:
        taken, start = [], 0
        for part in self.parts():
            low, high = np.searchsorted(places, (start, start + len(part.X)))
            taken.append(part.some(places[low:high] - start))
            start += len(part.X)
        return Observations(*map(np.concatenate, zip(*taken, strict=True)))

    def total(self, function: Callable[[Block], T], add: Callable[[T, T], T], fold: FoldOf, size: int, every: int) -> T:
        blocks = batches(self.parts(), fold, size, every)
        with closing(mapped(function, blocks, self.threads)) as results:  # ends the threads, also on failure
            return reduce(add, results)


def array_rows(table: Observations, threads: int) -> StreamedRows:
    """Return rows in memory as a stream of slices."""
    n = len(table.X)
    slices = [slice(start, start + SLICE) for start in range(0, n, SLICE)]
    return StreamedRows(lambda: map(table.some, slices), n, threads)


def batches(parts: Iterable[Observations], fold: FoldOf, size: int, every: int, start: int = 0) -> Iterator[Block]:
    """Cut one row in `every` into blocks of `size` rows, the last smaller; the first row has the number `start`.

    Sums over these blocks depend neither on where one part ends and the next begins, nor on the number of threads.
    """
    waiting: Block | None = None
    for part in parts:
        stop = start + len(part.X)
        block = Block(*part, fold(start, stop)).some(slice(-start % every, None, every))
        block = block if waiting is None else waiting.then(block)
        whole = len(block.X) // size * size
        for first in range(0, whole, size):
            yield block.some(slice(first, first + size))
        waiting, start = block.some(slice(whole, None)), stop
    if waiting is not None and len(waiting.X):
        yield waiting


def mapped(function: Callable[[S], T], items: Iterable[S], threads: int) -> Generator[T]:
    """Yield the results in the order of the items, computed by `threads` threads; at most `threads` results wait."""
    source = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        while wave := list(islice(source, threads)):
            yield from pool.map(function, wave)


def row_keys(X: Floats) -> list[bytes]:
    """Return keys that are equal exactly for equal rows of X (n, D)."""
    return [row.tobytes() for row in np.where(np.isnan(X), np.nan, X + 0.0)]  # one pattern for NaN, one for zero
