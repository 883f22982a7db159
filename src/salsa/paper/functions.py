"""The synthetic truths of figure 1: the logarithm of three Gaussian bumps, alone or summed over subsets of features.

The paper gives neither the centres v_i and weights a_i of the bumps nor the distribution of the rows, and mentions no
noise. Here rows are uniform on [0, 1]^D, targets have no noise, and the constants are those of ``log_bumps``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats

SEED = 1
WEIGHTS = (0.3, 0.3, 0.4)
WIDTH = 0.01  # h = WIDTH sqrt(d)
TEST_ROWS = 2000
MOST_SUBSETS = 10**7
BLOCK = 2**20  # values of bumps at a time


@dataclass(frozen=True, eq=False)
class LogBumps:
    """f_d(x) = log sum_i a_i h^-d exp(-|x - v_i|^2 / (2 h^2)) with h = 0.01 sqrt(d), for x of d features.

    centres : array of shape (B, d), the v_i; weights : array of shape (B,), the a_i > 0.

    The bumps are so narrow that almost everywhere one of them is all there is to see: f_d is, but for a constant,
    -min_i |x - v_i|^2 / (2 h^2). That is -|x|^2 / (2 h^2), of order 1, plus the largest of B linear functions, which
    is of all orders; the farther the centres are apart, the more it matters.
    """

    centres: Floats
    weights: Floats

    @property
    def order(self) -> int:
        """d"""
        return int(self.centres.shape[1])

    def __call__(self, X: Floats) -> Floats:
        """The sum of f_d over all subsets of d of the D features of X (n, D): f_d itself where D = d. Shape (n,)."""
        count = _checked_count(X.shape[1], self.order)
        exponents = self._exponents(X)
        values: Floats = np.full(len(X), count * -self.order * np.log(WIDTH * np.sqrt(self.order)))
        for subsets in _blocks(X.shape[1], self.order, max(1, BLOCK // (len(self.weights) * max(1, len(X))))):
            values += self._block(exponents, subsets).sum(axis=1)
        return values

    def _exponents(self, X: Floats) -> Floats:
        """-(x_j - v_ik)^2 / (2 h^2) of every feature j in every place k: shape (B, d, n, D)."""
        scale = 2 * WIDTH**2 * self.order
        return -((X - self.centres[:, :, None, None]) ** 2) / scale

    def _block(self, exponents: Floats, subsets: NDArray[np.intp]) -> Floats:
        """log sum_i a_i exp(...) on each of the subsets (b, d): shape (n, b). Sums of exponentials would be zero."""
        terms = np.log(self.weights)[:, None, None] + sum(
            exponents[:, place][:, :, subsets[:, place]] for place in range(self.order)
        )
        result: Floats = np.logaddexp.reduce(terms, axis=0)
        return result


class Sample(NamedTuple):
    """Rows to learn from and rows to test."""

    X_train: Floats  # (n, D)
    y_train: Floats  # (n,)
    X_test: Floats  # (TEST_ROWS, D)
    y_test: Floats  # (TEST_ROWS,)


def log_bumps(d: int, spread: float = 1.0, seed: int = SEED) -> LogBumps:
    """Three bumps, their centres uniform on the cube of side `spread` in the middle of [0, 1]^d; weights 0.3, 0.3, 0.4.

    The weights hardly matter: log(a_i) is of size one, and f_d ranges over hundreds.
    """
    places = np.random.default_rng(seed).uniform(size=(len(WEIGHTS), d))
    return LogBumps(0.5 + spread * (places - 0.5), np.array(WEIGHTS))


def draw(truth: LogBumps, D: int, n: int, trial: int) -> Sample:
    """Uniform rows and their values, no noise: the same test rows for every n, and the first n of the same rows."""
    rng = np.random.default_rng([SEED, D, trial])
    X_test, X_train = rng.uniform(size=(TEST_ROWS, D)), rng.uniform(size=(n, D))
    return Sample(X_train, truth(X_train), X_test, truth(X_test))


def _checked_count(D: int, d: int) -> int:
    if d > D:
        raise ValueError(f"the function is of {d} features, but X has {D}: give at least {d} columns")
    if (count := comb(D, d)) > MOST_SUBSETS:
        raise ValueError(f"{count} subsets of {d} of {D} features are too many: at most {MOST_SUBSETS} are summed")
    return count


def _blocks(D: int, d: int, size: int) -> Iterator[NDArray[np.intp]]:
    """All subsets of d of D features, at most `size` at a time: shape (b, d)."""
    subsets = combinations(range(D), d)
    while block := list(islice(subsets, size)):
        yield np.array(block, dtype=np.intp)
