"""Kernels of smoothing-spline ANOVA: a feature's functions of mean 0 with |f|^2 = (int f')^2 + int f''^2 on [0, 1].

    k(s, t) = k1(s) k1(t) + k2(s) k2(t) - k4(|s - t|)

with scaled Bernoulli polynomials k1, k2, k4; a pair's kernel is the product of its two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from dataclasses import dataclass

import numpy as np

from salsa.baselines.smoothing import Rows, to_unit
from salsa.kernels import Floats

BLOCK = 2**21  # numbers held at a time


def spline_kernel(s: Floats, t: Floats) -> Floats:
    """k(s, t), elementwise."""
    return _k1(s) * _k1(t) + _k2(s) * _k2(t) - _k4(np.abs(s - t))


def _k1(x: Floats) -> Floats:
    return x - 0.5


def _k2(x: Floats) -> Floats:
    return (_k1(x) ** 2 - 1 / 12) / 2


def _k4(x: Floats) -> Floats:
    square = _k1(x) ** 2
    return (square * (square - 0.5) + 7 / 240) / 24


@dataclass(frozen=True, eq=False)
class AnovaKernel:
    """Components between any rows and m basis rows: all features, then with order 2 all pairs.

    No component is ever held for all rows: a block of rows has the D single kernels, and pairs are their products.
    """

    low: Floats  # (D,)
    high: Floats  # (D,)
    basis: Floats  # (m, D) on [0, 1]
    order: int

    @classmethod
    def of(cls, X: Floats, basis: Rows, order: int) -> AnovaKernel:
        low, high = X.min(axis=0), X.max(axis=0)
        return cls(low, high, to_unit(X[basis], low, high), order)

    @property
    def terms(self) -> list[tuple[int, ...]]:
        """Features of every component (p,)"""
        features = range(len(self.low))
        return [term for size in range(1, self.order + 1) for term in combinations(features, size)]

    def __call__(self, X: Floats, theta: Floats) -> Floats:
        """sum_a theta_a R_a (n, m)"""
        single, pairs = self._split(theta)
        used = np.flatnonzero(single + pairs.any(axis=0) + pairs.any(axis=1))
        blocks = [np.zeros((0, len(self.basis)))]
        for K in self._single_kernels(X, used):
            inner = single[used][:, None] + pairs[np.ix_(used, used)] @ K
            blocks.append(np.einsum("njm,njm->nm", K, inner))
        return np.concatenate(blocks)

    def components(self, X: Floats, c: Floats) -> Floats:
        """R_a c for all components a: (n, p)"""
        rows, columns = np.triu_indices(len(self.low), 1)
        blocks = []
        for K in self._single_kernels(X, np.arange(len(self.low))):
            single = K @ c
            pairs = ((K * c) @ K.transpose(0, 2, 1))[:, rows, columns] if self.order == 2 else single[:, :0]
            blocks.append(np.hstack([single, pairs]))
        return np.concatenate(blocks)

    def _split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Weights of features (D,), and of pairs above the diagonal of (D, D)."""
        D = len(self.low)
        pairs = np.zeros((D, D))
        if self.order == 2:
            pairs[np.triu_indices(D, 1)] = theta[D:]
        return theta[:D], pairs

    def _single_kernels(self, X: Floats, features: Rows) -> Iterator[Floats]:
        """(rows of a block, features, m), block by block; 0 for a constant feature."""
        low, high = self.low[features], self.high[features]
        U, V = np.clip(to_unit(X[:, features], low, high), 0.0, 1.0), self.basis[:, features].T
        step = max(1, BLOCK // max(V.size, 1))
        for start in range(0, len(U), step):
            yield spline_kernel(U[start : start + step, :, None], V) * (high > low)[:, None]
