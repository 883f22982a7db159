"""The kernel matrix of all rows: tiles of its lower triangle in float32 (2 n^2 bytes) or float64, computed once.

A product with a few vectors reads every tile once, for both halves of the matrix. Sums are in float64 and in a fixed
order, over the tiles of a group and then over the groups (``tile_groups``): results depend neither on the number of
threads nor on the process or worker that holds a tile. Tiles that do not fit into memory are computed again in every
product.

Rounding to float32 changes K by a matrix of norm about 6e-8 sqrt(n) times its diagonal. K + alpha I must stay positive
definite, so penalties below ``least_alpha`` need float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.linalg import Tile, tile_products
from salsa._utils.memory import TILE, format_bytes, tile_bytes, tiled_bytes
from salsa._utils.progress import Told, each, unheard
from salsa.data.rows import mapped
from salsa.kernels import Kernel
from salsa.kernels.sum import sum_of
from salsa.solvers.alpha import mean_diagonal

GROUPS_PER_SIDE = 12  # the most groups of tiles next to each other: up to 78 groups in the lower triangle
MOST_VECTORS = 512  # in one reading of the matrix
SAFETY = 4.0  # alpha is so many times the rounding errors of the matrix, or more


Place = tuple[slice, slice]  # rows and columns of a tile
Sums = tuple[Floats, Floats]  # the sums (c, rows) and (c, columns) over a group of tiles


class Tiles(Protocol):
    """A kernel matrix K (n, n) that is multiplied with vectors."""

    double: bool  # whether tiles are in float64

    @property
    def held(self) -> float:
        """The share of the tiles that are held in memory."""

    def times(self, V: Floats, told: Told = unheard) -> Floats:
        """Return the products K v (c, n) of the rows v of V (c, n)."""


class TileHolder(Protocol):
    """The workers of a cluster, which hold kernel matrices in the place of this process."""

    @property
    def workers(self) -> int:
        """The number of workers."""

    def fits(self, n: int, D: int, vectors: int) -> bool:
        """Return whether the workers can hold the matrix of n rows and D features, and multiply it with vectors."""

    def require(self, n: int, D: int, vectors: int) -> None:
        """Raise MemoryError if they cannot."""

    def tiles(self, kernel: Kernel, X: Floats, *, double: bool, held: bool) -> Tiles:
        """Return the kernel matrix of the rows X (n, D); its tiles are held, or computed again in every product."""


@dataclass(frozen=True, eq=False)
class TileGroup:
    """Neighbouring tiles in the lower triangle: slices of the rows and columns of the matrix."""

    rows: tuple[slice, ...]
    columns: tuple[slice, ...]

    @property
    def places(self) -> list[Place]:
        return [(rows, columns) for rows in self.rows for columns in self.columns if columns.start <= rows.start]

    @property
    def span(self) -> Place:
        """The rows and the columns of the whole group."""
        return slice(self.rows[0].start, self.rows[-1].stop), slice(self.columns[0].start, self.columns[-1].stop)

    def bytes(self, *, double: bool = False) -> int:
        """Return the bytes of the tiles."""
        lengths, widths = ([int(side.stop - side.start) for side in sides] for sides in (self.rows, self.columns))
        numbers = sum(lengths) * sum(widths)
        if self.rows == self.columns:  # tiles above the diagonal do not count
            numbers = (numbers + sum(length * length for length in lengths)) // 2
        return (8 if double else 4) * numbers

    def sums(self, products: Iterable[tuple[Tile, Tile]], c: int) -> Sums:
        """Add up the products of the tiles with c vectors; `products` may go on with other groups."""
        (top, bottom), (left, right) = ((side.start, side.stop) for side in self.span)
        down, across = np.zeros((c, bottom - top)), np.zeros((c, right - left))
        for (rows, columns), (below, beside) in zip(self.places, products, strict=False):
            down[:, rows.start - top : rows.stop - top] += below
            if rows != columns:
                across[:, columns.start - left : columns.stop - left] += beside
        return down, across

    def add(self, sums: Sums, out: Floats) -> None:
        """Add the sums over this group to the product `out` (c, n)."""
        for side, part in zip(self.span, sums, strict=True):
            out[:, side] += part


def tile_groups(n: int) -> list[TileGroup]:
    """Return the tiles on and below the diagonal of an (n, n) matrix in groups, which depend on n only."""
    slices = [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]
    step = -(-len(slices) // GROUPS_PER_SIDE)
    sides = [tuple(slices[first : first + step]) for first in range(0, len(slices), step)]
    return [TileGroup(rows, columns) for i, rows in enumerate(sides) for columns in sides[: i + 1]]


@dataclass(frozen=True, eq=False)
class TileSource:
    """The kernel and the rows X (n, D) that the tiles of K / scale are computed from."""

    kernel: Kernel  # divided by `scale`, so that tiles are in the range of float32
    X: Floats
    scale: float
    double: bool
    features: Floats | None = None  # F (n, r): the tiles are of K - F F', in float32

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, *, double: bool, features: Floats | None = None) -> TileSource:
        scale = float(2.0 ** np.round(np.log2(mean_diagonal(kernel, X))))
        return cls(_scaled(kernel, 1.0 / scale), X, scale, double, features)

    def tile(self, place: Place) -> Tile:
        rows, columns = place
        others = None if rows == columns else _aligned(self.X[columns])
        if self.features is not None:
            K = self.kernel(_aligned(self.X[rows]), others, n_threads=1)
            K -= (self.features[rows] / self.scale) @ self.features[columns].T
            return K.astype(np.float32)
        kernel = self.kernel if self.double else self.kernel.single
        return kernel(_aligned(self.X[rows]), others, n_threads=1)

    def numbers(self, V: Floats) -> Tile:
        """Return the vectors in the numbers of the tiles."""
        return V.astype(np.float64 if self.double else np.float32)


def place_products(place: Place, tile: Tile, V: Tile) -> tuple[Tile, Tile]:
    """Return the products of a tile and of its transpose with the vectors V (c, n), in the numbers of the tile."""
    rows, columns = (_aligned(V[:, side]) for side in place)
    return tile_products(_aligned(tile), columns, None if place[0] == place[1] else rows)


def some_at_a_time(times: Callable[[Floats], Floats], V: Floats, most: int) -> Floats:
    """Return the products of all rows of V (c, n), at most `most` at a time."""
    return np.vstack([times(V[some : some + most]) for some in range(0, len(V), most)])


class KernelTiles:
    """The kernel matrix K (n, n) of the rows X (n, D), or K - F F' with features F (n, r).

    `room` is the number of bytes that tiles may take.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Floats,
        threads: int,
        room: float,
        *,
        double: bool = False,
        features: Floats | None = None,
        told: Told = unheard,
    ) -> None:
        self.threads, self.double = threads, double
        self.source, self.groups = TileSource.of(kernel, X, double=double, features=features), tile_groups(len(X))
        self.places = [place for group in self.groups for place in group.places]
        count = min(len(self.places), max(0, int(room / tile_bytes(len(X), double=double))))
        self.tiles = list(each(mapped(self.source.tile, self.places[:count], threads), told, count))

    @property
    def held(self) -> float:
        """The share of the tiles that are held in memory."""
        return len(self.tiles) / len(self.places)

    def times(self, V: Floats, told: Told = unheard) -> Floats:
        """Return the products K v (c, n) of the rows v of V (c, n)."""
        return some_at_a_time(lambda some: self._times(some, told), V, MOST_VECTORS)

    def _times(self, V: Floats, told: Told) -> Floats:
        numbers = self.source.numbers(V)

        def product(number: int) -> tuple[Tile, Tile]:
            place = self.places[number]
            tile = self.tiles[number] if number < len(self.tiles) else self.source.tile(place)
            return place_products(place, tile, numbers)

        results = mapped(product, range(len(self.places)), self.threads)
        out, products = np.zeros(V.shape), each(results, told, len(self.places))
        for group in self.groups:
            group.add(group.sums(products, len(V)), out)
        out *= self.source.scale
        return out


def not_held_note(tiles: Tiles, n: int) -> list[str]:
    """Return a note on tiles of n rows that are not held, if there are any."""
    if tiles.held == 1.0:
        return []
    size = format_bytes(tiled_bytes(n, double=tiles.double))
    share = f"{1 - tiles.held:.0%} of the kernel matrix ({size}) do not fit into the memory limit"
    return [f"{share} and were computed again in every iteration; a higher limit is faster"]


def least_alpha(kernel: Kernel, X: Floats) -> float:
    """Return the least penalty for which tiles in float32 have enough digits."""
    return float(SAFETY * np.finfo(np.float32).eps / 2 * np.sqrt(len(X)) * mean_diagonal(kernel, X))


def _aligned(array: Tile) -> Tile:
    """Return the array as the compiled core wants it; a copy if it came over a network and lies at an odd address."""
    return np.require(array, requirements=["C", "A"])


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    """Return the kernel times a factor."""
    return sum_of([replace(term, order_weights=factor * term.order_weights) for term in kernel.terms])
