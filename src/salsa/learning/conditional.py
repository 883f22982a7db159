"""The likelihood of many rows as a product of conditional likelihoods of blocks (Vecchia's approximation).

    log p(y) ~ sum_b log p(y_B | y_N),

where N are the earlier rows that have the largest kernel values with the block B = B_b. The first block has rows drawn
at random, which show the function at large; the others have rows that are close together, which show it at short
distances. With blocks of b rows given m rows, an evaluation costs n (m + b)^3 / b flops instead of n^3, and blocks are
evaluated side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.kernels import Kernel
from salsa.learning import Block, Problem

FIRST = 1000  # rows of the first block
BLOCK, GIVEN = 250, 500  # most rows of the other blocks, and the rows that these are conditional on
COORDINATES = 300  # rows whose kernel values are the coordinates by which rows are close
POWER_ITERATIONS = 5  # for the direction in which a set of rows is cut


def in_blocks(problem: Problem, kernel: Kernel) -> Problem:
    """Return the problem with blocks of its rows, close together by the kernel, each with earlier rows near it."""
    order = problem.splits.random_state.permutation(len(problem.X))
    first, others = order[:FIRST], order[FIRST:]
    close = kernel(problem.X[others], problem.X[first[:COORDINATES]], n_threads=problem.threads)
    blocks, earlier = [Block(order[:0], first)], first
    for places in _bisected(close, np.arange(len(others))):
        rows = others[places]
        blocks.append(Block(_nearest(problem, kernel, earlier, rows), rows))
        earlier = np.concatenate([earlier, rows])
    return problem._replace(blocks=tuple(blocks))


def _bisected(F: Floats, rows: Places) -> Iterator[Places]:
    """Cut rows with coordinates F (n, c) into sets of at most BLOCK, each time across their widest direction."""
    count = -(-len(rows) // BLOCK)
    if count <= 1:
        if len(rows):
            yield rows
        return
    C = F[rows] - F[rows].mean(axis=0)
    direction = C[np.argmax(np.einsum("ij,ij->i", C, C))]
    for _ in range(POWER_ITERATIONS):
        direction = C.T @ (C @ direction)
        direction /= max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
    rows = rows[np.argsort(C @ direction, kind="stable")]
    cut = len(rows) * (count // 2) // count
    yield from _bisected(F, rows[:cut])
    yield from _bisected(F, rows[cut:])


def _nearest(problem: Problem, kernel: Kernel, earlier: Places, rows: Places) -> Places:
    """Return the GIVEN earlier rows with the largest squared kernel values with these rows, added up."""
    K = kernel(problem.X[earlier], problem.X[rows], n_threads=problem.threads)
    nearest = np.argsort(-np.einsum("ij,ij->i", K, K), kind="stable")[:GIVEN]
    return np.sort(earlier[nearest])
