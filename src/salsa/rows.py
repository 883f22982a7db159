"""The rows of a table, wherever they are: a large fit asks for some of them, and for sums over all, block by block."""

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

from salsa.kernels import Floats, Places

S = TypeVar("S")
T = TypeVar("T")
FoldOf = Callable[[int, int], Places]  # (start, stop) -> the folds that rows start..stop-1 are held out in
SLICE = 2**16  # rows of an array at a time, and about as many are put into folds by one seed


class Piece(NamedTuple):
    """Some rows: features (m, D), targets (m, q) and weights (m,)."""

    X: Floats
    Y: Floats
    weight: Floats

    def some(self, index: slice | Places | NDArray[np.bool_]) -> Piece:
        return Piece(self.X[index], self.Y[index], self.weight[index])


class Block(NamedTuple):
    """Some rows, and the fold that each is held out in (m,)."""

    X: Floats
    Y: Floats
    weight: Floats
    fold: Places

    def some(self, index: slice) -> Block:
        return Block(self.X[index], self.Y[index], self.weight[index], self.fold[index])

    def then(self, other: Block) -> Block:
        """The rows of both."""
        X, Y, weight, fold = (np.concatenate(parts) for parts in zip(self, other, strict=True))
        return Block(X, Y, weight, fold)


class Rows(Protocol):
    """All rows in use, in order."""

    def __len__(self) -> int: ...

    def take(self, places: Places) -> Piece:
        """The rows with these numbers, which ascend."""

    def total(self, function: Callable[[Block], T], add: Callable[[T, T], T], fold: FoldOf, size: int, every: int) -> T:
        """function summed over blocks of at most `size` rows; of every so many rows only one."""


@dataclass(frozen=True, eq=False)
class PieceRows:
    """Rows that come in pieces of any size, again and again: slices of arrays, or parts of a file."""

    pieces: Callable[[], Iterable[Piece]]
    n: int
    threads: int

    def __len__(self) -> int:
        return self.n

    def take(self, places: Places) -> Piece:
        taken, start = [], 0
        for piece in self.pieces():
            low, high = np.searchsorted(places, (start, start + len(piece.X)))
            taken.append(piece.some(places[low:high] - start))
            start += len(piece.X)
        return Piece(*map(np.concatenate, zip(*taken, strict=True)))

    def total(self, function: Callable[[Block], T], add: Callable[[T, T], T], fold: FoldOf, size: int, every: int) -> T:
        blocks = batches(self.pieces(), fold, size, every)
        with closing(mapped(function, blocks, self.threads)) as results:  # its threads end with it, also when it fails
            return reduce(add, results)


def array_rows(table: Piece, threads: int) -> PieceRows:
    """Rows in memory."""
    n = len(table.X)
    slices = [slice(start, start + SLICE) for start in range(0, n, SLICE)]
    return PieceRows(lambda: map(table.some, slices), n, threads)


def batches(pieces: Iterable[Piece], fold: FoldOf, size: int, every: int, start: int = 0) -> Iterator[Block]:
    """Every so many rows of the pieces in blocks of `size`, the last smaller; the first row is number `start`.

    So sums do not depend on where one piece ends and the next begins, nor on the number of threads.
    """
    waiting: Block | None = None
    for piece in pieces:
        stop = start + len(piece.X)
        block = Block(*piece, fold(start, stop)).some(slice(-start % every, None, every))
        block = block if waiting is None else waiting.then(block)
        whole = len(block.X) // size * size
        for first in range(0, whole, size):
            yield block.some(slice(first, first + size))
        waiting, start = block.some(slice(whole, None)), stop
    if waiting is not None and len(waiting.X):
        yield waiting


@dataclass(frozen=True)
class ShuffledFolds:
    """Folds of equal size. That of a row follows from its number and the seed: nothing is stored, anyone can ask."""

    count: int
    seed: int

    def __call__(self, start: int, stop: int) -> Places:
        rounds = max(1, SLICE // self.count)
        size = rounds * self.count
        first = start // size
        groups = [self._group(number, rounds) for number in range(first, max(first, (stop - 1) // size) + 1)]
        return np.concatenate(groups)[start - first * size : stop - first * size]

    def _group(self, number: int, rounds: int) -> Places:
        """In every round, each of `count` neighbours in another fold, at random."""
        random = np.random.default_rng((self.seed, number)).random((rounds, self.count))
        return np.argsort(random, axis=1).ravel()


def mapped(function: Callable[[S], T], items: Iterable[S], threads: int) -> Generator[T]:
    """A map in the order of the items, by so many threads; no more results are held than there are threads."""
    source = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        while wave := list(islice(source, threads)):
            yield from pool.map(function, wave)
