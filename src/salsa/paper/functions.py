"""The synthetic truths of figure 1: the logarithm of three Gaussian bumps, alone or summed over subsets of features.

The paper gives neither the centres v_i and weights a_i of the bumps nor the distribution of the rows, and mentions no
noise. Here rows are uniform on [0, 1]^D, targets have no noise, and ``log_bumps`` chooses the constants.
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
    """The function f_d(x) = log sum_i a_i h^-d exp(-|x - v_i|^2 / (2 h^2)) of d features, with h = 0.01 sqrt(d).

    centres : array of shape (B, d), the v_i; weights : array of shape (B,), the a_i > 0.

    The bumps are so narrow that one of them dominates almost everywhere: up to a constant, f_d is
    -min_i |x - v_i|^2 / (2 h^2). This is -|x|^2 / (2 h^2), of order 1, plus the largest of B linear functions, which
    has all orders and matters more if the centres are farther apart.
    """

    centres: Floats
    weights: Floats

    @property
    def order(self) -> int:
        """The number d of features of f_d."""
        return int(self.centres.shape[1])

    def __call__(self, X: Floats) -> Floats:
        """Return the sum (n,) of f_d over all subsets of d of the D features of X (n, D); this is f_d if D = d."""
        count = _checked_count(X.shape[1], self.order)
        exponents = self._exponents(X)
        values: Floats = np.full(len(X), count * -self.order * np.log(WIDTH * np.sqrt(self.order)))
        for subsets in _blocks(X.shape[1], self.order, max(1, BLOCK // (len(self.weights) * max(1, len(X))))):
            values += self._block(exponents, subsets).sum(axis=1)
        return values

    def _exponents(self, X: Floats) -> Floats:
        """Return -(x_j - v_ik)^2 / (2 h^2) of every feature j in every place k, of shape (B, d, n, D)."""
        scale = 2 * WIDTH**2 * self.order
        return -((X - self.centres[:, :, None, None]) ** 2) / scale

    def _block(self, exponents: Floats, subsets: NDArray[np.intp]) -> Floats:
        """Return log sum_i a_i exp(...) (n, b) on each of the subsets (b, d), without exponentials that underflow."""
        terms = np.log(self.weights)[:, None, None] + sum(
            exponents[:, place][:, :, subsets[:, place]] for place in range(self.order)
        )
        result: Floats = np.logaddexp.reduce(terms, axis=0)
        return result


class Sample(NamedTuple):
    """The training rows and the test rows of a trial."""

    X_train: Floats  # (n, D)
    y_train: Floats  # (n,)
    X_test: Floats  # (TEST_ROWS, D)
    y_test: Floats  # (TEST_ROWS,)


def log_bumps(d: int, spread: float = 1.0, seed: int = SEED) -> LogBumps:
    """Return three bumps of weights 0.3, 0.3, 0.4; centres are uniform on the middle cube of side `spread` in [0, 1]^d.

    The weights hardly matter: log(a_i) is of size one, and f_d ranges over hundreds.
    """
    places = np.random.default_rng(seed).uniform(size=(len(WEIGHTS), d))
    return LogBumps(0.5 + spread * (places - 0.5), np.array(WEIGHTS))


def draw(truth: LogBumps, D: int, n: int, trial: int) -> Sample:
    """Draw uniform rows and targets without noise; every n has the same test rows and a prefix of the same rows."""
    rng = np.random.default_rng([SEED, D, trial])
    X_test, X_train = rng.uniform(size=(TEST_ROWS, D)), rng.uniform(size=(n, D))
    return Sample(X_train, truth(X_train), X_test, truth(X_test))


def _checked_count(D: int, d: int) -> int:
    if d > D:
        raise ValueError(f"the function has {d} features, but X has {D}: give at least {d} columns")
    if (count := comb(D, d)) > MOST_SUBSETS:
        raise ValueError(f"{count} subsets of {d} of {D} features are too many: at most {MOST_SUBSETS} are summed")
    return count


def _blocks(D: int, d: int, size: int) -> Iterator[NDArray[np.intp]]:
    """Yield all subsets of d of D features in arrays (b, d) of at most `size` subsets."""
    subsets = combinations(range(D), d)
    while block := list(islice(subsets, size)):
        yield np.array(block, dtype=np.intp)
