"""Kernels of smoothing-spline ANOVA, and the ridge regression that fits functions of such a kernel.

A feature on [0, 1] has functions of mean 0 with |f|^2 = (int f')^2 + int f''^2. Their kernel is

    k(s, t) = k1(s) k1(t) + k2(s) k2(t) - k4(|s - t|)

with scaled Bernoulli polynomials k1, k2, k4. The kernel of a pair is the product of the kernels of its features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.baselines.methods.smoothing import to_unit

BLOCK = 2**21  # numbers in memory at a time
ALPHAS = np.geomspace(1e-8, 1.0, 65)  # candidates for alpha in units of the largest eigenvalue
ALMOST = 1.01
NEGLIGIBLE = 1e-10  # smaller eigenvalues of the basis rows' kernel matrix, relative to the largest, are left out


def spline_kernel(s: Floats, t: Floats) -> Floats:
    """Return k(s, t), elementwise."""
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
    """The kernels of all components between any rows and m basis rows: all features, then with order 2 all pairs.

    Rows are processed in blocks: a block has the kernels of D features, and the kernels of pairs are their products.
    """

    low: Floats  # (D,)
    high: Floats  # (D,)
    basis: Floats  # (m, D) on [0, 1]
    order: int

    @classmethod
    def of(cls, X: Floats, basis: Places, order: int) -> AnovaKernel:
        low, high = X.min(axis=0), X.max(axis=0)
        return cls(low, high, to_unit(X[basis], low, high), order)

    @property
    def terms(self) -> list[tuple[int, ...]]:
        """The features of each of the p components."""
        features = range(len(self.low))
        return [term for size in range(1, self.order + 1) for term in combinations(features, size)]

    def __call__(self, X: Floats, theta: Floats) -> Floats:
        """Return sum_a theta_a R_a (n, m) between the rows of X and the basis rows."""
        single, pairs = self._split(theta)
        used = np.flatnonzero(single + pairs.any(axis=0) + pairs.any(axis=1))
        blocks = [np.zeros((0, len(self.basis)))]
        for K in self._single_kernels(X, used):
            inner = single[used][:, None] + pairs[np.ix_(used, used)] @ K
            blocks.append(np.einsum("njm,njm->nm", K, inner))
        return np.concatenate(blocks)

    def components(self, X: Floats, c: Floats) -> Floats:
        """Return R_a c for all components a as the columns of (n, p)."""
        rows, columns = np.triu_indices(len(self.low), 1)
        blocks = []
        for K in self._single_kernels(X, np.arange(len(self.low))):
            single = K @ c
            pairs = ((K * c) @ K.transpose(0, 2, 1))[:, rows, columns] if self.order == 2 else single[:, :0]
            blocks.append(np.hstack([single, pairs]))
        return np.concatenate(blocks)

    def _split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the weights of features (D,), and the weights of pairs above the diagonal of (D, D)."""
        D = len(self.low)
        pairs = np.zeros((D, D))
        if self.order == 2:
            pairs[np.triu_indices(D, 1)] = theta[D:]
        return theta[:D], pairs

    def _single_kernels(self, X: Floats, features: Places) -> Iterator[Floats]:
        """Yield the kernels (rows of a block, features, m) block by block; they are 0 for a constant feature."""
        low, high = self.low[features], self.high[features]
        U, V = np.clip(to_unit(X[:, features], low, high), 0.0, 1.0), self.basis[:, features].T
        step = max(1, BLOCK // max(V.size, 1))
        for start in range(0, len(U), step):
            yield spline_kernel(U[start : start + step, :, None], V) * (high > low)[:, None]


class Ridge(NamedTuple):
    """Ridge regression min |y - b - H c|^2 + alpha c'Q c for any alpha, in coordinates with diagonal terms."""

    T: Floats  # (m, r): c = T a
    values: Floats  # (r,): weights of a_k^2 in the squared error; in the penalty, all are alpha
    target: Floats  # (r,)
    H_mean: Floats  # (m,)
    y: Floats  # (n,)

    @classmethod
    def of(cls, H: Floats, basis: Places, y: Floats) -> Ridge:
        size, U = np.linalg.eigh((H[basis] + H[basis].T) / 2)
        keep = size > max(NEGLIGIBLE * size[-1], 0.0)
        W = U[:, keep] / np.sqrt(size[keep])
        H_mean = H.mean(axis=0)
        Z = (H - H_mean) @ W
        values, V = np.linalg.eigh(Z.T @ Z)
        return cls(W @ V, np.maximum(values, 0.0), V.T @ (Z.T @ (y - y.mean())), H_mean, y)

    def solve(self, alpha: float) -> tuple[Floats, float]:
        """Return c (m,) and b for this alpha."""
        c = self.T @ (self.target / (self.values + alpha))
        return c, float(self.y.mean() - self.H_mean @ c)

    def best_alpha(self) -> float:
        """Return the largest alpha whose generalised cross-validation error is at most 1 % above the least."""
        alphas = ALPHAS * self.values.max(initial=0.0)
        if alphas[0] == 0:
            return 1.0
        errors = np.array([self.generalised_error(alpha) for alpha in alphas])
        return float(alphas[np.flatnonzero(errors <= ALMOST * errors.min())[-1]])

    def generalised_error(self, alpha: float) -> float:
        """Return |y - f|^2 / n over (1 - degrees of freedom / n)^2, by the residual shares alpha / (values + alpha)."""
        n, left = len(self.y), alpha / (self.values + alpha)
        within = np.divide(self.target**2, self.values, out=np.zeros_like(self.values), where=self.values > 0)
        squares = within @ left**2 + max(n * self.y.var() - within.sum(), 0.0)
        freedom = n - 1 - len(left) + left.sum()
        return float(n * squares / freedom**2) if freedom > 0 else np.inf
