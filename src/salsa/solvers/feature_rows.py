"""All rows with the features phi(x) = L^-1 k(Z, x) of anchors Z, for sums over rows that are asked for again and again.

Features are held in memory, rounded to float32, of as many rows as memory allows. Of all other rows, which are read
again for every sum, products with the features need no more than kernel values: phi'theta = k'(L^-T theta), and a sum
of phi v is L^-1 times the sum of k v. Sums over blocks are in float64 and in the order of the rows, so that the number
of threads does not change a bit. Held features are rounded, so that their share changes results by rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import Steps
from salsa.data.rows import Block, Rows, StreamedRows, Total, batches, mapped
from salsa.data.splits import Splits, StoredFolds
from salsa.kernels import Kernel
from salsa.solvers.anchors import Anchors

T = TypeVar("T")
Values = NDArray[np.floating[Any]]  # features in float32, or kernel values in float64
BLOCK, PIECE = 4096, 512  # rows of a block, and those whose features are in the cache at a time

LARGEST = 1e30  # of numbers whose sums over a piece are finite in float32


class Patterns(NamedTuple):
    """How the splits treat every row: its pattern (n,), and the systems, one per fold, that know or test a pattern.

    The last system has all rows. A pattern is tested by at most T systems.
    """

    number: Places  # (n,)
    known: NDArray[np.bool_]  # (patterns, S)
    tested: Places  # (patterns, T), numbers of systems, -1 if there are no more

    @classmethod
    def of(cls, splits: Splits) -> Patterns:
        treated = splits.patterns()
        kinds, number = np.unique(treated, axis=0, return_inverse=True)
        known = np.hstack([~kinds[:, ::2], np.ones((len(kinds), 1), dtype=bool)])
        tests = [np.flatnonzero(kind) for kind in kinds[:, 1::2]]
        tested = np.full((len(kinds), max(1, *map(len, tests))), -1)
        for places, systems in zip(tested, tests, strict=True):
            places[: len(systems)] = systems
        return cls(number.ravel().astype(np.min_scalar_type(-len(kinds))), known, tested)


class Vectors(NamedTuple):
    """Parameters of functions offset + phi'theta, also as coefficients of kernel values."""

    offset: Floats  # (c,)
    theta: NDArray[np.float32]  # (r, c)
    coef: Floats  # (r, c), L^-T theta

    @classmethod
    def of(cls, L: Floats, x: Floats) -> Vectors:
        """Return the vectors of x (r + 1, c), whose first row has the offsets."""
        coef = solve_triangular(L, x[1:], lower=True, trans=1, check_finite=False)
        return cls(x[0], x[1:].astype(np.float32), coef)

    def along(self, M: Values) -> Floats:
        """Return the functions (m, c) at rows with these features or kernel values (m, r)."""
        return M @ (self.theta if M.dtype == np.float32 else self.coef) + self.offset


class Weighed(NamedTuple):
    """Sums over rows of v (c,), of phi v (r, c) for held features, and of k v (r, c) for the other rows."""

    one: Floats
    phi: Floats
    k: Floats

    @classmethod
    def zeros(cls, r: int, c: int) -> Weighed:
        return cls(np.zeros(c), np.zeros((r, c)), np.zeros((r, c)))

    def gather(self, M: Values, V: Floats) -> None:
        """Add the rows with these features or kernel values (m, r), and V (m, c)."""
        self.one[:] += V.sum(axis=0)
        if M.dtype == np.float32:  # steps that are tried and then halved may have slopes beyond float32
            self.phi[:] += M.T @ np.clip(V, -LARGEST, LARGEST).astype(np.float32)
        else:
            self.k[:] += M.T @ V

    def plus(self, other: Weighed) -> Weighed:
        return Weighed(*(np.add(a, b, out=a) for a, b in zip(self, other, strict=True)))

    def total(self, L: Floats) -> Floats:
        """Return the sums of (1, phi) v (r + 1, c) over all rows."""
        others = solve_triangular(L, self.k, lower=True, check_finite=False)
        return np.concatenate([self.one[None], self.phi + others])


class Held(NamedTuple):
    """Features of a block, and the block without its rows X."""

    F: NDArray[np.float32]
    block: Block

    def some(self, rows: slice) -> Held:
        X, Y, weight, _, fold = self.block
        return Held(self.F[rows], Block(X, Y[rows], weight[rows], None, fold[rows]))


Function = Callable[..., T]  # takes a block, and its features if they are held


class FeatureRows:
    """All rows, of which as many have their features in memory as `memory` bytes hold; those of a cluster have none."""

    def __init__(
        self, rows: Rows, anchors: Anchors, patterns: Patterns, memory: int, steps: Steps, threads: int
    ) -> None:
        self.anchors, self.patterns, self.steps, self.threads = anchors, patterns, steps, threads
        self.n, self.held, self.rest = len(rows), list[Held](), rows
        r = len(anchors.points)
        blocks = min(max(0, memory) // (4 * r * BLOCK), -(-self.n // BLOCK))
        if blocks and isinstance(rows, StreamedRows):
            self._hold(rows, blocks)

    def _hold(self, rows: StreamedRows, blocks: int) -> None:
        """Hold the features of the first blocks."""

        def features(block: Block) -> Held:
            F = self.anchors.features(block.X, n_threads=1).astype(np.float32, order="C")
            Y, weight = np.array(block.Y), np.array(block.weight)  # copies: views would keep a part of the table
            return Held(F, Block(np.empty((0, 0)), Y, weight, None, block.fold))

        first = islice(batches(rows.parts(), StoredFolds(self.patterns.number), BLOCK, 1), blocks)
        phase = f"features of {len(self.anchors.points)} anchors"
        with closing(mapped(features, first, self.threads)) as results:
            for held in results:
                self.held.append(held)
                self.steps.step(phase, len(self.held) / blocks)
        self.rest = rows.after(self.count)

    @property
    def count(self) -> int:
        """The number of rows whose features are held."""
        return sum(len(held.block.Y) for held in self.held)

    def total(self, function: Function[T], add: Callable[[T, T], T], every: int = 1) -> T:
        """Return the sum of a function of blocks over all rows, or about one row in `every`.

        `add` may overwrite its first argument.
        """
        parts = []
        if self.held:
            some = [held.some(slice(-number * BLOCK % every, None, every)) for number, held in enumerate(self.held)]
            some = [held for held in some if len(held.F)]  # a short last block may have none of the rows
            with closing(mapped(lambda held: function(held.block, held.F), some, self.threads)) as results:
                parts.append(reduce(add, results))
        if (count := self.count) < self.n:
            fold = StoredFolds(self.patterns.number[count:])
            parts.append(self.rest.total(Total(function, add, fold, BLOCK, every)))
        return reduce(add, parts)


def pieces(
    kernel: Kernel, points: Floats, block: Block, F: NDArray[np.float32] | None
) -> Iterator[tuple[slice, Values]]:
    """Yield pieces of a block, with their features if these are held, or else their kernel values."""
    for start in range(0, len(block.Y), PIECE):
        rows = slice(start, start + PIECE)
        yield rows, kernel(block.X[rows], points, n_threads=1) if F is None else F[rows]
