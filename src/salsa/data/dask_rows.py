"""Rows on a Dask cluster: workers read their partitions, and read them again for every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from dask import delayed
from dask.base import is_dask_collection
from dask.distributed import Client

from salsa._utils.arrays import Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.progress import Told, unheard
from salsa.data.blocks import RawBlock, Reading, part_of
from salsa.data.rows import Observations, Total, batches, joined

T = TypeVar("T")
SPLIT_EVERY = 4  # partial sums that one task adds up
ATTEMPTS = 3  # tries per sum: workers may die


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """All rows of positive weight on a cluster; see ``Rows``."""

    client: Client
    blocks: list[Any]  # delayed ``RawBlock``s that have rows of positive weight
    counts: list[int]  # rows of positive weight in each block
    reading: Reading

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def starts(self) -> list[int]:
        """The index of the first row of each partition."""
        return [0, *np.cumsum(self.counts).tolist()[:-1]]

    def take(self, places: Places) -> Observations:
        ends = np.searchsorted(places, [*self.starts, len(self)])
        wanted = [places[low:high] - start for low, high, start in zip(ends, ends[1:], self.starts, strict=False)]
        tasks = [
            delayed(_taken)(block, self.reading, inside)
            for block, inside in zip(self.blocks, wanted, strict=True)
            if len(inside)
        ]
        taken = self.client.gather(self.client.compute(tasks))
        return Observations(*map(joined, zip(*taken, strict=True)))

    def total(self, what: Total[T], told: Told = unheard) -> T:
        """Sum over all partitions; only the beginning and the end are told of."""
        told(0.0)
        result = self._tried(what)
        told(1.0)
        return result

    def _tried(self, what: Total[T]) -> T:
        for _ in range(ATTEMPTS - 1):
            with suppress(CancelledError):  # the only worker with the scattered data has died
                return self._total(what)
        return self._total(what)

    def _total(self, what: Total[T]) -> T:
        shared = self.client.scatter(what, hash=False)  # broadcast=True would wait forever if a worker died now
        parts = [
            delayed(_partition_sum)(shared, block, self.reading, start, pure=False)
            for block, start in zip(self.blocks, self.starts, strict=True)
        ]
        while len(parts) > 1:
            groups = [parts[first : first + SPLIT_EVERY] for first in range(0, len(parts), SPLIT_EVERY)]
            parts = [delayed(_added)(what.add, group) for group in groups]
        result: T = self.client.compute(parts[0]).result()
        return result


def delayed_blocks(X: Any, y: Any, weight: Any, groups: Any) -> list[Any]:
    """Return a delayed ``RawBlock`` for every partition of X, with the same rows of y, weight and groups."""
    given = {"y": y, "weight": weight, "groups": groups}
    names = ["X", *(name for name, other in given.items() if other is not None)]
    collections = [X, *(_like(X, "sample_weight" if name == "weight" else name, given[name]) for name in names[1:])]
    parts = zip(*map(partitions, collections), strict=True)
    return [delayed(RawBlock)(**{"y": None, **dict(zip(names, part, strict=True))}) for part in parts]


def _like(X: Any, name: str, other: Any) -> Any:
    """Return the collection in the partitions of X; raise ValueError if lengths, as far as known, do not match."""
    rows = lengths(X)
    if not is_dask_collection(other):
        if np.isnan(rows).any():
            problem = f"{name} is a {type(other).__name__}, and partitions of X do not tell their lengths"
            raise ValueError(f"{problem}: {_ALIKE}")
        other = da.from_array(np.asarray(other), chunks=(tuple(rows), *np.asarray(other).shape[1:]))
    if isinstance(other, da.Array) and not np.isnan([*rows, *lengths(other)]).any():
        if sum(lengths(other)) != sum(rows):
            raise ValueError(f"X has {sum(rows)} rows and {name} has {sum(lengths(other))}")
        other = other.rechunk({0: tuple(rows)})
    if len(lengths(other)) != len(rows):
        raise ValueError(f"X has {len(rows)} partitions and {name} has {len(lengths(other))}: {_ALIKE}")
    return other


_ALIKE = "give a Dask collection with the same partitions, such as a column of the same data frame"


def lengths(collection: Any) -> list[float]:
    """Return the number of rows of every partition; NaN if unknown before it is computed."""
    if isinstance(collection, da.Array):
        return list(collection.chunks[0])
    return [np.nan] * int(collection.npartitions)


def partitions(collection: Any) -> list[Any]:
    """Return the delayed partitions. Graphs are not optimised: that merges partitions, and X and y would not match."""
    if isinstance(collection, da.Array) and collection.ndim == 2:
        collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed(optimize_graph=False)))


def _partition_sum(what: Total[T], block: RawBlock, reading: Reading, start: int) -> T | None:
    """Return the sum over one partition; None if no row of it counts."""
    with one_blas_thread():  # a worker has threads of its own
        blocks = batches([part_of(block, reading)], what.fold, what.size, what.every, start)
        results = map(what.function, blocks)
        first = next(results, None)
        return None if first is None else reduce(what.add, results, first)


def _added(add: Callable[[T, T], T], parts: Iterable[T | None]) -> T | None:
    """Return the sum over some partitions; `add` may overwrite its first argument, but no result of another task."""
    some = [part for part in parts if part is not None]
    return reduce(add, some[1:], deepcopy(some[0])) if some else None


def _taken(block: RawBlock, reading: Reading, places: Places) -> Observations:
    return part_of(block, reading).some(places)
