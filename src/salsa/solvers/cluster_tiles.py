"""The kernel matrix of all rows on the workers of a Dask cluster, whose memory adds up.

The rows are sent to every worker, and every worker computes and holds some groups of tiles. A product is one round
trip: the vectors go to the workers, each group returns the sums over its tiles, and the client adds the groups up in a
fixed order. The groups depend on the number of rows only, so results do not depend on the number of workers. If a
worker dies, Dask computes its tiles again on other workers. If it was the only one with the rows or the vectors, the
client sends the rows again and all tiles are computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import numpy as np
from dask.distributed import Client, Future

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa._utils.linalg import Tile
from salsa._utils.memory import DEFAULT_SHARE, available_bytes, format_bytes, tile_bytes
from salsa.data.dask_rows import ATTEMPTS
from salsa.kernels import Kernel
from salsa.solvers.tiles import (
    GROUPS_PER_SIDE,
    MOST_VECTORS,
    Sums,
    TileGroup,
    TileSource,
    place_products,
    some_at_a_time,
    tile_groups,
)

SHARE = 0.55  # the share of a worker's memory limit that is used: Dask moves data to disk at 60 %
GATHERED = 16  # groups whose sums the client asks for at a time


class Cluster:
    """The workers of a cluster, which hold the kernel matrices of one fit; leaving the context frees their memory."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.made: WeakSet[ClusterTiles] = WeakSet()
        self.vectors = 1  # the number of vectors that rooms are planned for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for tiles in list(self.made):
            tiles.release()

    @cached_property
    def found(self) -> dict[str, WorkerMemory]:
        """The memory of every worker, by its address, at the beginning of the fit."""
        return worker_memory(self.client)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self.found)

    def fits(self, n: int, D: int, vectors: int) -> bool:
        """Return whether the workers can hold the matrix of n rows and D features, and multiply it with vectors."""
        sizes = [group.bytes() for group in tile_groups(n)]
        return None not in homes_of(sizes, self._rooms(n, D, vectors))

    def require(self, n: int, D: int, vectors: int) -> None:
        """Raise MemoryError with a way out if a worker needs more memory than it may take."""
        self.vectors = vectors
        if self.fits(n, D, vectors):
            return
        sizes = [group.bytes() for group in tile_groups(n)]
        homes = homes_of(sizes, dict.fromkeys(self.found, np.inf))
        load = Counter[str | None]()
        for home, size in zip(homes, sizes, strict=True):
            load[home] += size
        need = max(load.values(), default=sum(sizes)) + self._working(n, D, vectors)
        least = min((worker.room for worker in self.found.values()), default=0.0)
        raise MemoryError(
            f"solver='pcg' with {n} rows needs about {format_bytes(need)} on each of the {self.workers} workers, "
            f"of which one may take {format_bytes(max(least, 0.0))} more ({SHARE:.0%} of its memory limit, less what "
            "it holds now). Give the cluster more workers, the workers more memory, or solver='lowrank'."
        )

    def tiles(self, kernel: Kernel, X: Floats, *, double: bool, held: bool) -> ClusterTiles:
        """Return the kernel matrix of the rows X (n, D); its tiles are held, or computed again in every product."""
        n, D = X.shape
        groups, rooms = tile_groups(n), self._rooms(n, D, self.vectors) if held else {}
        homes = homes_of([group.bytes(double=double) for group in groups], rooms)
        tiles = ClusterTiles(self.client, TileSource.of(kernel, X, double=double), groups, homes)
        self.made.add(tiles)
        return tiles

    def _rooms(self, n: int, D: int, vectors: int) -> dict[str, float]:
        """Return the bytes of tiles that every worker may hold."""
        working = self._working(n, D, vectors)
        return {address: worker.room - working for address, worker in self.found.items()}

    def _working(self, n: int, D: int, vectors: int) -> int:
        """Return the bytes that a worker needs besides its tiles: rows, vectors, sums, and tiles in the making."""
        threads = max((worker.threads for worker in self.found.values()), default=1)
        c, shares = min(vectors + 1, MOST_VECTORS), 1 + (GROUPS_PER_SIDE + 1) / max(self.workers, 1)
        return int(2 * 8 * n * (D + c * shares)) + threads * tile_bytes(n, double=True)


class ClusterTiles:
    """The kernel matrix K (n, n) on the workers of a cluster, in the place of ``KernelTiles``.

    Groups with a home are computed and held by this worker; the other groups are computed again in every product.
    """

    def __init__(
        self, client: Client, source: TileSource, groups: list[TileGroup], homes: Sequence[str | None]
    ) -> None:
        self.client, self.source, self.groups, self.homes = client, source, groups, homes
        self.double = source.double
        self._send()

    @property
    def held(self) -> float:
        """The share of the tiles that are held in memory."""
        sizes = [group.bytes() for group in self.groups]
        return sum(size for size, home in zip(sizes, self.homes, strict=True) if home is not None) / sum(sizes)

    def times(self, V: Floats) -> Floats:
        """Return the products K v (c, n) of the rows v of V (c, n)."""
        return some_at_a_time(self._times, V)

    def release(self) -> None:
        """Free the memory of the workers."""
        for future in (self.rows, *self.tiles):
            future.release()

    def _send(self) -> None:
        """Send the rows to the workers, which start to compute the tiles that they hold."""
        self.rows = self.client.scatter(self.source, broadcast=True, hash=False)
        held = [number for number, home in enumerate(self.homes) if home is not None]
        tiles = self._submit(held, _computed, dict.fromkeys(held, self.rows))
        self.tiles = [tiles.get(number, self.rows) for number in range(len(self.groups))]

    def _times(self, V: Floats) -> Floats:
        for _ in range(ATTEMPTS - 1):
            with suppress(CancelledError):  # the only worker with the rows or the vectors has died
                return self._attempt(V)
            self.release()
            self._send()
        return self._attempt(V)

    def _attempt(self, V: Floats) -> Floats:
        vectors = self.client.scatter(self.source.numbers(V), broadcast=True, hash=False)
        numbers = range(len(self.groups))
        futures = self._submit(numbers, _sums, dict(enumerate(self.tiles)), dict.fromkeys(numbers, vectors))
        try:
            return self._added([futures[number] for number in numbers], V.shape)
        finally:  # also if the user interrupts: tasks that nobody waits for are dropped
            for future in (vectors, *futures.values()):
                future.release()

    def _added(self, futures: list[Future], shape: tuple[int, ...]) -> Floats:
        """Return the products (c, n), as the sum over groups in their order."""
        out = np.zeros(shape)
        for first in range(0, len(futures), GATHERED):
            some = slice(first, first + GATHERED)
            for group, sums in zip(self.groups[some], self.client.gather(futures[some]), strict=True):
                group.add(sums, out)
        out *= self.source.scale
        return out

    def _submit(self, numbers: Sequence[int], task: Any, *arguments: Mapping[int, Future]) -> dict[int, Future]:
        """Submit task(*arguments of the group, group) to the home of every group, or to any worker."""
        futures: dict[int, Future] = {}
        for home in sorted({self.homes[number] for number in numbers}, key=str):
            mine = [number for number in numbers if self.homes[number] == home]
            place = {} if home is None else {"workers": [home], "allow_other_workers": True}
            columns = [[argument[number] for number in mine] for argument in arguments]
            submitted = self.client.map(task, *columns, [self.groups[number] for number in mine], pure=False, **place)
            futures.update(zip(mine, submitted, strict=True))
        return futures


class WorkerMemory(NamedTuple):
    """The machine of a worker, the bytes that it may take for a fit, and its number of threads."""

    host: str
    room: float
    threads: int


def worker_memory(client: Client) -> dict[str, WorkerMemory]:
    """Ask all workers for their memory; workers of one machine share the memory that is available there."""
    asked = dict(sorted(client.run(_memory, on_error="ignore").items()))
    sharing = Counter(host for host, *_ in asked.values())
    return {
        address: WorkerMemory(host, min(limited, DEFAULT_SHARE * available / sharing[host]), threads)
        for address, (host, limited, available, threads) in asked.items()
    }


def homes_of(sizes: Sequence[int], rooms: Mapping[str, float]) -> list[str | None]:
    """Return for every group the worker with the least to hold so far that has room for it, or None."""
    homes: list[str | None] = [None] * len(sizes)
    load = dict.fromkeys(rooms, 0)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        able = [worker for worker, room in rooms.items() if load[worker] + sizes[number] <= room]
        if able:
            homes[number] = least = min(able, key=load.__getitem__)
            load[least] += sizes[number]
    return homes


def _memory(dask_worker: Any) -> tuple[str, float, int, int]:
    """Return the machine, the bytes left below SHARE of the limit, the bytes available there, and the threads."""
    limit = dask_worker.memory_manager.memory_limit or np.inf  # None or 0: unlimited
    left = SHARE * limit - dask_worker.monitor.get_process_memory()
    return dask_worker.ip, float(left), available_bytes(), int(dask_worker.state.nthreads)


def _computed(source: TileSource, group: TileGroup) -> list[Tile]:
    with one_blas_thread():  # a worker has threads of its own
        return [source.tile(place) for place in group.places]


def _sums(tiles: list[Tile] | TileSource, V: Tile, group: TileGroup) -> Sums:
    """Return the sums over a group whose tiles are held, or computed now."""
    with one_blas_thread():
        given = map(tiles.tile, group.places) if isinstance(tiles, TileSource) else tiles
        pairs = zip(group.places, given, strict=True)
        return group.sums((place_products(place, tile, V) for place, tile in pairs), len(V))
