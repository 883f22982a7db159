"""Random features of additive kernels: E[phi(x)'phi(x')] = k(x, x') - w_0; the intercept stands for w_0.

The features of a sum of kernels are the features of all terms. The steps for a term:

1. Draw a subset S of the features per random feature: an order m >= 1 with probability proportional to
   T_m = w_m e_m(a) / C(D, m), then m of the features with probability proportional to the product of their a_j.
2. Set phi_r(x) = sqrt(2 T / R) Re(exp(i b) prod_{j in S} z_j(x_j)), T = sum T_m, b uniform on the circle, z_j random,
   E[z_j(x) conj z_j(x')] = k_j(x, x'): exp(i omega x), omega from the spectral density of k_j (Rahimi and Recht, 2007).
3. For categories, z_j is a random sign. For a missing value, it is mu + eps sqrt(1 - |mu|^2), with the mean mu of z_j
   over the feature's distribution and a random sign eps: k_j is then that mean, and 1 where both are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm

from salsa._utils.arrays import Floats
from salsa._utils.threads import thread_count
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.base import ALL_BASES, is_cyclic
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.anchors import Anchors
from salsa.solvers.lowrank import anchors_for, direct_bytes, fit_ridge, on_anchors

Subsets = NDArray[np.bool_]  # (D, R): whether feature j is in the subset of random feature r

BLOCK = 2**20  # values of phi that are computed at a time
CIRCLE_POINTS = 4096  # points at which a base kernel on a circle gives its Fourier coefficients
COST = 10  # cost of a value of phi, in values of base kernels


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """A random map phi from rows to R numbers: the maps of all terms of a kernel, side by side."""

    terms: tuple[TermFeatures, ...]

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """Return phi (m, R) of the rows of X (m, D); the number of threads does not change it."""
        return np.hstack([term.features(X, n_threads=n_threads) for term in self.terms])


@dataclass(frozen=True, eq=False)
class TermFeatures:
    """A random map phi from rows to R numbers, for one term; C of the D features are in some subset.

    For each random feature, a column has a frequency omega, or a key for categories (0 outside its subset), and eps.
    """

    kernel: AdditiveKernel
    total: float  # T
    columns: NDArray[np.intp]  # (C,)
    inside: Subsets  # (C, R)
    frequency: Floats  # (C, R)
    key: NDArray[np.uint64]  # (C, R)
    eps: Floats  # (C, R)
    angle: Floats  # (R,): b

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """Return phi (m, R) of the rows of X (m, D); the number of threads does not change it."""
        X = self._checked(X)
        phi = np.zeros((len(X), len(self.angle)))
        if len(self.columns) == 0:
            return phi
        absent = {c: self._missing(c) for c in np.flatnonzero(np.isnan(X).any(axis=0)).tolist()}
        step = max(1, BLOCK // len(self.angle))
        blocks = [slice(start, start + step) for start in range(0, len(X), step)]
        with ThreadPoolExecutor(thread_count(n_threads, *phi.shape, COST)) as pool:
            list(pool.map(lambda rows: self._fill(phi[rows], X[rows], absent), blocks))
        return phi

    @property
    def _categories(self) -> list[int]:
        return [c for c, j in enumerate(self.columns) if ALL_BASES[self.kernel.bases[j]].for_categories]

    def _checked(self, X: Any) -> Floats:
        """Return the columns in use (m, C); raise ValueError if phi cannot be computed."""
        rows, D = np.asarray(X, dtype=np.float64), self.kernel.n_features
        if rows.ndim != 2 or rows.shape[1] != D:
            raise ValueError(f"X has the shape {rows.shape}: give a column for each of the {D} features of this kernel")
        rows = rows[:, self.columns]
        if self.kernel.distributions is None and np.isnan(rows).any():
            raise ValueError("X has missing values (NaN): give the kernel the distributions of its features")
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.fmax.reduce(np.abs(rows), axis=0, initial=0.0) * np.abs(self.frequency).max(axis=1, initial=0.0)
        if not np.isfinite(reach.sum()):
            worst = self.columns[np.argmin(np.isfinite(reach))]
            raise ValueError(f"feature {worst} of X is infinite, or too large relative to its bandwidth: rescale it")
        return rows

    def _fill(self, phi: Floats, X: Floats, absent: Mapping[int, NDArray[np.complex128]]) -> None:
        """Compute phi (m, R) of the rows of X (m, C) in place; `absent` holds z_j of missing values."""
        missing = np.isnan(X)
        phi[:] = self.angle
        dgemm(1.0, self.frequency.T, np.where(missing, 0.0, X).T, 1.0, phi.T, overwrite_c=1)
        for c, z in absent.items():
            phi[np.ix_(missing[:, c], self.inside[c])] += np.angle(z)
        np.cos(phi, out=phi)
        phi *= np.sqrt(2 * self.total / len(self.angle))
        for c, z in absent.items():
            phi[np.ix_(missing[:, c], self.inside[c])] *= np.abs(z)
        for c in self._categories:
            observed = ~missing[:, c]
            codes, place = np.unique(X[observed, c], return_inverse=True)
            phi[np.ix_(observed, self.inside[c])] *= _signs(codes, self.key[c, self.inside[c]])[place]

    def _missing(self, c: int) -> NDArray[np.complex128]:
        """Return the factor of a missing value of column c, for each random feature whose subset includes c."""
        assert self.kernel.distributions is not None  # `_checked` refuses missing values without distributions
        points, weights = self.kernel.distributions[self.columns[c]]
        inside = self.inside[c]
        signs = _signs(points, self.key[c, inside])
        mu = weights @ (signs * np.exp(1j * np.outer(points, self.frequency[c, inside])))
        z: NDArray[np.complex128] = mu + self.eps[c, inside] * np.sqrt(np.maximum(1 - np.abs(mu) ** 2, 0.0))
        return z


def solve_random_features(task: RidgeTask) -> Solution:
    """Fit random features, and interpolate the function at anchors: every solution is a ``KernelExpansion``."""
    basis = draw_features(task.kernel, task.rank, task.random_state)
    ridge = fit_ridge(basis, task.rank, task)
    anchors = anchors_for(task, ridge.path.alpha)
    P, F, weight = interpolation(basis, anchors), anchors.features(task.sample.X), task.sample.given_weight
    mean = F.mean(axis=0) if weight is None else weight @ F / weight.sum()
    theta, offset = ridge.solution
    return on_anchors(task, anchors, ridge, ridge.cvplus(anchors).transformed(P, mean), (P @ theta, offset))


def draw_features(kernel: Kernel, count: int, random_state: RandomState) -> RandomFeatures:
    """Draw `count` random features of the kernel without its order 0; at least one for every term."""
    if count < 1:
        raise ValueError(f"count={count}: at least one random feature is needed")
    numbers = zip(kernel.terms, shared_out(kernel, count), strict=True)
    return RandomFeatures(tuple(draw_term_features(term, number, random_state) for term, number in numbers))


def shared_out(kernel: Kernel, count: int) -> list[int]:
    """Return how many of `count` random features each term gets: one, and a share of the others by its variance.

    The prior variance of a term is its diagonal, without order 0. Shares are rounded to the largest remainders.
    """
    origin, terms = np.zeros((1, kernel.n_features)), kernel.terms
    variance = np.array([max(float(term.diagonal(origin)[0] - term.order_weights[0]), 0.0) for term in terms])
    share = variance / variance.sum() if variance.any() else np.full(len(terms), 1 / len(terms))
    others = max(count - len(terms), 0) * share
    numbers = np.floor(others).astype(int)
    short = max(count - len(terms), 0) - int(numbers.sum())
    numbers[np.argsort(numbers - others, kind="stable")[:short]] += 1
    found: list[int] = (1 + numbers).tolist()
    return found


def draw_term_features(kernel: AdditiveKernel, count: int, random_state: RandomState) -> TermFeatures:
    """Draw `count` random features of one term without its order 0."""
    subsets, total = draw_subsets(kernel, count, random_state)
    columns = np.flatnonzero(subsets.any(axis=1))
    inside = subsets[columns]
    frequency, key = np.zeros(inside.shape), np.zeros(inside.shape, dtype=np.uint64)
    for c, j in enumerate(columns.tolist()):
        if is_cyclic(kernel.bases[j]):
            frequency[c] = cyclic_frequencies(kernel.of_feature(j), random_state, count) * inside[c]
        elif (frequencies := ALL_BASES[kernel.bases[j]].frequencies) is None:
            key[c] = random_state.randint(0, 2**64, count, dtype=np.uint64) * inside[c]
        else:
            frequency[c] = frequencies(random_state, count) / kernel.bandwidth[j] * inside[c]
    eps = random_state.choice([-1.0, 1.0], inside.shape)
    return TermFeatures(kernel, total, columns, inside, frequency, key, eps, random_state.uniform(0, 2 * np.pi, count))


def cyclic_frequencies(base: AdditiveKernel, random_state: RandomState, count: int) -> Floats:
    """Draw frequencies (count,) of a base kernel on a circle: 2 pi m has the probability of its Fourier coefficient."""
    places = np.arange(CIRCLE_POINTS)[:, None] / CIRCLE_POINTS
    coefficients = np.fft.rfft(replace(base, distributions=None)(places, np.zeros((1, 1)))[:, 0]).real
    coefficients[1:-1] *= 2.0  # cos(2 pi m t) stands for two exponentials
    chance = np.maximum(coefficients, 0.0)
    return 2.0 * np.pi * random_state.choice(len(chance), count, p=chance / chance.sum()).astype(np.float64)


def interpolation(features: RandomFeatures, anchors: Anchors) -> Floats:
    """Return P (r, R): P' times the anchors' features of x is phi(x) if x is an anchor, and nearly so elsewhere.

    The function phi(x)'theta therefore has the parameters P theta on the anchors.
    """
    P: Floats = solve_triangular(anchors.L, features.features(anchors.points), lower=True, check_finite=False)
    return P


def draw_subsets(kernel: AdditiveKernel, count: int, random_state: RandomState) -> tuple[Subsets, float]:
    """Return a random subset of the features for each random feature, and T; a kernel of zeros has empty subsets."""
    with np.errstate(divide="ignore"):
        log_a, log_w = np.log(kernel.relevance), np.log(kernel.order_weights * kernel.normaliser)
    log_e = log_prefix_polynomials(log_a, kernel.order)
    T = np.exp(log_w + log_e[-1])
    T[0] = 0.0
    subsets = np.zeros((len(log_a), count), dtype=bool)
    if not T.any():
        return subsets, 0.0
    left, share = random_state.choice(len(T), count, p=T / T.sum()), inclusion(log_a, log_e)
    for j in reversed(range(len(log_a))):
        subsets[j] = random_state.random_sample(count) < share[j, left]
        left -= subsets[j]
    return subsets, float(T.sum())


def log_prefix_polynomials(log_a: Floats, d: int) -> Floats:
    """Return log e_m of the first j relevances (D+1, d+1), j = 0..D and m = 0..d; logarithms do not overflow."""
    log_e = np.full((len(log_a) + 1, d + 1), -np.inf)
    log_e[:, 0] = 0.0
    for j, value in enumerate(log_a):
        log_e[j + 1, 1:] = np.logaddexp(log_e[j, 1:], value + log_e[j, :-1])
    return log_e


def inclusion(log_a: Floats, log_e: Floats) -> Floats:
    """Return the probability (D, d+1) a_j e_{m-1} / e_m that j is one of m features chosen from the first j + 1."""
    possible = np.isfinite(log_e[1:, 1:])
    ratio = log_a[:, None] + log_e[:-1, :-1] - np.where(possible, log_e[1:, 1:], 0.0)
    return np.pad(np.exp(np.where(possible, ratio, -np.inf)), ((0, 0), (1, 0)))


def _signs(codes: Floats, key: NDArray[np.uint64]) -> Floats:
    """Return signs (u, r): -1 where an odd number of bits is set both in the code (u,) and in the key (r,), else 1.

    With random keys the signs of two codes agree half of the time, exactly: they differ in at least one bit.
    """
    bits = (codes + 0.0).view(np.uint64)[:, None] & key  # + 0.0 as -0.0 equals 0.0
    for shift in (32, 16, 8, 4, 2, 1):
        bits = bits ^ (bits >> np.uint64(shift))
    return np.where(bits & np.uint64(1), -1.0, 1.0)


SOLVER = Solver(False, direct_bytes, solve_random_features)
