"""The kernel matrix of all rows on the workers of a Dask cluster, whose memory adds up.

The rows are sent to every worker, and every worker computes and holds some groups of tiles. A product is one round
trip: the vectors go to the workers, each group returns the sums over its tiles, and the client adds the groups up in a
fixed order. The groups depend on the number of rows only, so results do not depend on the number of workers. If a
worker dies, its tiles are computed again on workers that have room for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import numpy as np
from dask.distributed import Client, Future, wait

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa._utils.cached import cached_property
from salsa._utils.linalg import Tile
from salsa._utils.memory import DEFAULT_SHARE, available_bytes, format_bytes, tile_bytes
from salsa._utils.progress import Told, unheard
from salsa.data.dask_rows import ATTEMPTS
from salsa.kernels import Kernel
from salsa.solvers.tiles import (
    GROUPS_PER_SIDE,
    Sums,
    TileGroup,
    TileSource,
    place_products,
    some_at_a_time,
    tile_groups,
)

SHARE = 0.55  # the share of a worker's memory limit that is used: Dask moves data to disk at 60 %
MOST_VECTORS = 64  # in one round trip: the client holds the sums of all groups
PATIENCE = 1.0  # seconds of waiting before workers are counted
REPLACED = 10.0  # seconds in which a cluster may start a worker in the place of a dead one


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
        tiles = ClusterTiles(self, TileSource.of(kernel, X, double=double), held=held)
        self.made.add(tiles)
        return tiles

    def rooms(self, n: int, D: int) -> dict[str, float]:
        """Return the bytes of tiles that every worker may hold."""
        return self._rooms(n, D, self.vectors)

    def ask_again(self) -> None:
        """Wait for workers that take the place of dead ones, and ask all workers for their memory."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(self.workers, timeout=REPLACED)
        self.__dict__.pop("found", None)

    def _rooms(self, n: int, D: int, vectors: int) -> dict[str, float]:
        working = self._working(n, D, vectors)
        return {address: worker.room - working for address, worker in self.found.items()}

    def _working(self, n: int, D: int, vectors: int) -> int:
        """Return the bytes that a worker needs besides its tiles: rows, vectors, sums, and tiles in the making."""
        threads = max((worker.threads for worker in self.found.values()), default=1)
        c, shares = min(vectors + 1, MOST_VECTORS), 1 + (GROUPS_PER_SIDE + 1) / max(self.workers, 1)
        return int(2 * 8 * n * (D + c * shares)) + threads * tile_bytes(n, double=True)


class Share(NamedTuple):
    """Groups of tiles, by their numbers, for one thread of a worker; without a home, tiles are not held."""

    home: str | None
    numbers: list[int]
    tiles: Future  # the tiles of all groups; the rows, if they are not held


class ClusterTiles:
    """The kernel matrix K (n, n) on the workers of a cluster, in the place of ``KernelTiles``.

    A worker has as many shares as threads, so that no task of a product waits in a line. Dask would move such tasks to
    idle workers, and their tiles with them.
    """

    def __init__(self, cluster: Cluster, source: TileSource, *, held: bool) -> None:
        self.cluster, self.client, self.source, self.double = cluster, cluster.client, source, source.double
        self.groups, self.hold = tile_groups(len(source.X)), held
        self.rows = self._scatter(source)
        self.shares = self._shared(range(len(self.groups)))

    @property
    def held(self) -> float:
        """The share of the tiles that are held in memory."""
        held = [number for share in self.shares if share.home is not None for number in share.numbers]
        return sum(self.groups[number].bytes() for number in held) / sum(group.bytes() for group in self.groups)

    def times(self, V: Floats, told: Told = unheard) -> Floats:
        """Return the products K v (c, n) of the rows v of V (c, n); only the end is told."""
        products = some_at_a_time(self._times, V, MOST_VECTORS)
        told(1.0)
        return products

    def release(self) -> None:
        """Free the memory of the workers."""
        for future in (self.rows, *(share.tiles for share in self.shares)):
            future.release()

    def _times(self, V: Floats) -> Floats:
        for _ in range(ATTEMPTS - 1):
            with suppress(CancelledError, OSError):  # a worker has died
                return self._attempt(V)
            self._repair()
        return self._attempt(V)

    def _attempt(self, V: Floats) -> Floats:
        vectors = self._scatter(self.source.numbers(V))
        futures = [self._submit(_sums, share.home, share.numbers, share.tiles, vectors) for share in self.shares]
        try:
            self._wait(futures)
            found = self.client.gather(futures)
        finally:  # also if the user interrupts: tasks that nobody waits for are dropped
            for future in (vectors, *futures):
                future.release()
        pairs = zip(self.shares, found, strict=True)
        return self._added({k: sums for share, some in pairs for k, sums in zip(share.numbers, some, strict=True)}, V)

    def _added(self, sums: dict[int, Sums], V: Floats) -> Floats:
        """Return the products (c, n), as the sum over groups in their order."""
        out = np.zeros(V.shape)
        for number, group in enumerate(self.groups):
            group.add(sums[number], out)
        out *= self.source.scale
        return out

    def _wait(self, futures: list[Future]) -> None:
        """Wait for tasks; raise CancelledError if a worker with tiles has died."""
        homes = {share.home for share in self.shares} - {None}
        while True:
            with suppress(TimeoutError):
                wait(futures, timeout=PATIENCE)
                return
            alive = set(self.client.nthreads())
            if homes - alive or not alive:
                raise CancelledError

    def _repair(self) -> None:
        """Share the tiles of dead workers among the workers that are there now, and send lost rows again."""
        self.cluster.ask_again()
        if self.rows.cancelled():  # no other worker had them
            self.rows = self._scatter(self.source)
        alive = self.cluster.found
        kept = [share for share in self.shares if share.home in alive and not share.tiles.cancelled()]
        known = {number for share in kept for number in share.numbers}
        numbers = [number for number in range(len(self.groups)) if number not in known]
        self.shares = [*kept, *self._shared(numbers)]  # futures of tiles that nobody keeps are released

    def _shared(self, numbers: Sequence[int]) -> list[Share]:
        """Return shares of these groups; the workers start to compute the tiles that they hold."""
        rooms = self.cluster.rooms(*self.source.X.shape) if self.hold else {}
        homes = homes_of([self.groups[number].bytes(double=self.double) for number in numbers], rooms)
        of_home: dict[str | None, list[int]] = {}
        for number, home in zip(numbers, homes, strict=True):
            of_home.setdefault(home, []).append(number)
        shares = []
        for home, mine in of_home.items():
            threads = min(len(mine), len(mine) if home is None else self.cluster.found[home].threads)
            shares += [self._share(home, mine[thread::threads]) for thread in range(threads)]
        return shares

    def _share(self, home: str | None, numbers: list[int]) -> Share:
        tiles = self.rows if home is None else self._submit(_computed, home, numbers, self.rows)
        return Share(home, numbers, tiles)

    def _submit(self, task: Any, home: str | None, numbers: list[int], *given: Future) -> Future:
        """Submit task(*given, groups) to this worker; to any worker without a home, or if it has died."""
        place = {} if home is None else {"workers": [home], "allow_other_workers": True}
        return self.client.submit(task, *given, [self.groups[number] for number in numbers], pure=False, **place)

    def _scatter(self, data: Any) -> Future:
        """Send data to one worker; others copy them. With broadcast=True Dask waits forever if a worker dies now."""
        return self.client.scatter(data, hash=False)


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


def _computed(source: TileSource, groups: list[TileGroup]) -> list[list[Tile]]:
    """Return the tiles of some groups."""
    with one_blas_thread():  # a worker has threads of its own
        return [[source.tile(place) for place in group.places] for group in groups]


def _sums(tiles: list[list[Tile]] | TileSource, V: Tile, groups: list[TileGroup]) -> list[Sums]:
    """Return the sums over some groups whose tiles are held, or computed now."""
    with one_blas_thread():
        if isinstance(tiles, TileSource):
            return [_group_sums(group, map(tiles.tile, group.places), V) for group in groups]
        return [_group_sums(group, given, V) for group, given in zip(groups, tiles, strict=True)]


def _group_sums(group: TileGroup, tiles: Iterable[Tile], V: Tile) -> Sums:
    pairs = zip(group.places, tiles, strict=True)
    return group.sums((place_products(place, tile, V) for place, tile in pairs), len(V))
