"""Rows of a table, wherever they are: a large fit asks for some of them, and for sums over all, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import Told, each, unheard

S = TypeVar("S")
T = TypeVar("T")
FoldOf = Callable[[int, int], Places]  # (start, stop) -> the folds that rows start..stop-1 are held out in
SLICE = 2**16  # rows in a slice of an array, and about the rows whose folds are drawn from one seed


class Observations(NamedTuple):
    """Rows with positive weights: features (m, D), NaN where missing, targets (m, q), weights (m,) and groups (m,)."""

    X: Floats
    Y: Floats
    weight: Floats
    group: Places | None = None  # numbers of the groups, None without groups

    def some(self, index: slice | Places | NDArray[np.bool_]) -> Observations:
        group = None if self.group is None else self.group[index]
        return Observations(self.X[index], self.Y[index], self.weight[index], group)

    @property
    def given_weight(self) -> Floats | None:
        """The weights (m,), or None if all are one."""
        return None if (self.weight == 1).all() else self.weight

    def ascending(self) -> Places:
        """Return the places of the rows in ascending order: a fit to them does not depend on their order in a table."""
        keys = np.column_stack([np.where(np.isnan(self.X), np.inf, self.X), self.Y, self.weight])
        return np.lexsort(keys.T[::-1])


class Block(NamedTuple):
    """Some rows, and the fold that each is held out in (m,)."""

    X: Floats
    Y: Floats
    weight: Floats
    group: Places | None
    fold: Places

    def some(self, index: slice | Places) -> Block:
        group = None if self.group is None else self.group[index]
        return Block(self.X[index], self.Y[index], self.weight[index], group, self.fold[index])

    def by_fold(self) -> Block:
        """Return the rows in the order of their folds, and of the block within a fold."""
        return self.some(np.argsort(self.fold, kind="stable"))

    def then(self, other: Block) -> Block:
        """Return the rows of both blocks."""
        return Block(*(joined(parts) for parts in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Total(Generic[T]):
    """A sum over rows: of a function of blocks of at most `size` rows; only one row in `every` counts.

    `add` returns the sum of two results, and may overwrite the first one.
    """

    function: Callable[[Block], T]
    add: Callable[[T, T], T]
    fold: FoldOf
    size: int
    every: int = 1


class Rows(Protocol):
    """All rows of positive weight, in order."""

    def __len__(self) -> int: ...

    def take(self, places: Places) -> Observations:
        """Return the rows with these numbers, which ascend."""

    def total(self, what: Total[T], told: Told = unheard) -> T:
        """Sum a function over all rows, in blocks."""


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
        return Observations(*map(joined, zip(*taken, strict=True)))

    def total(self, what: Total[T], told: Told = unheard) -> T:
        blocks, counted = batches(self.parts(), what.fold, what.size, what.every), -(-self.n // what.every)
        with closing(mapped(what.function, blocks, self.threads)) as results:  # ends the threads, also on failure
            return reduce(what.add, each(results, told, -(-counted // what.size)))

    def after(self, count: int) -> StreamedRows:
        """Return the rows without the first ones, which are still read."""
        return StreamedRows(partial(_without_first, self.parts, count), self.n - count, self.threads)


def _without_first(parts: Callable[[], Iterable[Observations]], count: int) -> Iterator[Observations]:
    for part in parts():
        left = max(0, count - len(part.X))
        if count < len(part.X):
            yield part.some(slice(count, None))
        count = left


def no_folds(start: int, stop: int) -> Places:
    """Return one fold for all rows, where folds do not matter."""
    return np.zeros(stop - start, dtype=np.intp)


def mean_weight(weight: Floats) -> float:
    """Return the mean of the weights (n,), without rounding if all are equal: over it, they are exactly one."""
    return float(weight[0] if weight.min() == weight.max() else weight.mean())


def joined(parts: Sequence[Any]) -> Any:
    """Return the arrays one after the other; None if they are None."""
    return None if parts[0] is None else np.concatenate(parts)


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
    """Yield the results in the order of the items, computed by `threads` threads.

    Threads go on while the caller takes a result: at most one result per thread waits. After a failure or an
    interruption nobody waits for the items that are being worked on; they end by themselves.
    """
    source, pool = iter(items), ThreadPoolExecutor(threads)
    waiting: deque[Future[T]] = deque()
    try:
        waiting.extend(pool.submit(function, item) for item in islice(source, threads))
        while waiting:
            result = waiting[0].result()
            waiting.popleft()
            waiting.extend(pool.submit(function, item) for item in islice(source, 1))
            yield result
    finally:
        pool.shutdown(wait=not waiting, cancel_futures=True)
