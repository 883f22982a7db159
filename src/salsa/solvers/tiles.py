"""The kernel matrix of all rows: tiles of its lower triangle in float32 (2 n^2 bytes) or float64, computed once.

A product with a few vectors reads every tile once, for both halves of the matrix. Sums over tiles are in float64 and in
a fixed order: results do not depend on the number of threads. Tiles that do not fit into memory are computed again in
every product.

Rounding to float32 changes K by a matrix of norm about 6e-8 sqrt(n) times its diagonal. K + alpha I must stay positive
definite, so penalties below ``least_alpha`` need float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.linalg import Tile, tile_products
from salsa._utils.memory import TILE, tile_bytes
from salsa._utils.progress import Told, each, unheard
from salsa.data.rows import mapped
from salsa.kernels import Kernel
from salsa.kernels.sum import sum_of
from salsa.solvers.alpha import mean_diagonal

MOST_VECTORS = 512  # in one reading of the matrix
SAFETY = 4.0  # alpha is so many times the rounding errors of the matrix, or more


class KernelTiles:
    """The kernel matrix K (n, n) of the rows X (n, D); `room` is the number of bytes that tiles may take."""

    def __init__(
        self, kernel: Kernel, X: Floats, threads: int, room: float, *, double: bool = False, told: Told = unheard
    ) -> None:
        self.X, self.threads, self.double = X, threads, double
        self.scale = float(2.0 ** np.round(np.log2(mean_diagonal(kernel, X))))  # tiles are in the range of float32
        self.kernel = _scaled(kernel, 1.0 / self.scale)
        self.slices = [slice(start, min(start + TILE, len(X))) for start in range(0, len(X), TILE)]
        self.places = [(i, j) for i in range(len(self.slices)) for j in range(i + 1)]
        count = min(len(self.places), max(0, int(room / tile_bytes(len(X), double=double))))
        self.tiles = list(each(mapped(self._tile, self.places[:count], threads), told, count))

    @property
    def held(self) -> float:
        """The share of the tiles that are held in memory."""
        return len(self.tiles) / len(self.places)

    def times(self, V: Floats, told: Told = unheard) -> Floats:
        """Return the products K v (c, n) of the rows v of V (c, n)."""
        if len(V) > MOST_VECTORS:
            return np.vstack([self.times(V[some : some + MOST_VECTORS]) for some in range(0, len(V), MOST_VECTORS)])
        number_type = np.dtype(np.float64 if self.double else np.float32)
        parts: list[Tile] = [np.ascontiguousarray(V[:, rows], dtype=number_type) for rows in self.slices]

        def product(number: int) -> tuple[Tile, Tile]:
            i, j = self.places[number]
            tile = self.tiles[number] if number < len(self.tiles) else self._tile((i, j))
            return tile_products(tile, parts[j], None if i == j else parts[i])

        out = np.zeros(V.shape)
        products = each(mapped(product, range(len(self.places)), self.threads), told, len(self.places))
        for (i, j), (down, across) in zip(self.places, products, strict=True):
            out[:, self.slices[i]] += down
            if i != j:
                out[:, self.slices[j]] += across
        out *= self.scale
        return out

    def _tile(self, place: tuple[int, int]) -> Tile:
        rows, columns = (self.slices[side] for side in place)
        others = None if rows == columns else self.X[columns]
        kernel = self.kernel if self.double else self.kernel.single
        return kernel(self.X[rows], others, n_threads=1)


def least_alpha(kernel: Kernel, X: Floats) -> float:
    """Return the least penalty for which tiles in float32 have enough digits."""
    return float(SAFETY * np.finfo(np.float32).eps / 2 * np.sqrt(len(X)) * mean_diagonal(kernel, X))


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    """Return the kernel times a factor."""
    return sum_of([replace(term, order_weights=factor * term.order_weights) for term in kernel.terms])
