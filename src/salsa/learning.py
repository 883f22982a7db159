"""Learned kernels: relevances, bandwidths, order weights and noise by maximising the marginal likelihood.

With C = K + s2 W^-1 and an unpenalised offset, the restricted marginal likelihood of the standardised target y is

    -log p = 1/2 y'My + 1/2 log det C + 1/2 log(1'C^-1 1) + (sum of weights - n)/2 log s2,
    M = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1),

the last term of -log p being what integer weights add when they stand for repeated rows. Its derivative by K
is 1/2 (M - My y'M), and the compiled adjoint turns that into the derivatives of all parameters at once. Parameters
are logarithms, with normal priors on u_j, v_j and t_m:

    a_j = exp(u_j),   h_j = sd_j exp(v + v_j),   w_m = exp(t_m),   s2 = exp(z)

Bandwidths start as one shared multiple of sd_j and move apart only as far as the data insist.
"""

from __future__ import annotations

from math import comb, lgamma
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

from salsa.blas import one_blas_thread
from salsa.kernels import AdditiveKernel, Distribution, Floats, observed_spread
from salsa.moments import power_of_two, target_variance, weights_or_ones

RELEVANCE_SD, BANDWIDTH_SD, WEIGHT_SD = 1.0, 0.5, 3.0  # prior standard deviations of u_j, v_j, t_m
START_BANDWIDTH = 10.0  # times n^(-1/5)
START_NOISE = 0.1
NOISE_RANGE = (1e-8, 4.0)
ABSENT = -16.0  # u_j at which a feature counts as removed
JITTER = 1e-10  # of the kernel's diagonal, so that no step of the search meets a matrix that cannot be factorised
FEW = 16  # features up to which removing each is tried
PRUNING_ROUNDS, PRUNING_ITERATIONS = 3, 10
_EPS = float(np.finfo(np.float64).eps)
SNAP = 0.01  # learned logarithms are rounded to this, so that rounding errors lead to the same kernel


class Structure(NamedTuple):
    """Which interaction orders a kernel has: lowest..highest."""

    lowest: int
    highest: int


class LearnedKernel(NamedTuple):
    """A kernel, the noise that goes with it, and how probable the data make them."""

    kernel: AdditiveKernel
    noise: float  # s2 in units of the target's variance: the alpha that goes with the kernel
    evidence: float  # log posterior, up to a constant
    theta: Floats
    structure: Structure


class Problem(NamedTuple):
    """What a kernel is learned from."""

    X: Floats  # (n, D)
    Y: Floats  # (n, q)
    weight: Floats | None  # (n,)
    base: tuple[str, ...]
    distributions: tuple[Distribution, ...] | None = None  # of the features' values, for missing ones
    bandwidth: Floats | None = None  # (D,) where bandwidths are given and not learned
    threads: int | None = 1
    total: float | None = None  # weight of all rows, where these are a sample of a table

    def rows(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Problem:
        """Some of the rows, with outputs in units of their own size: what is learned does not depend on units."""
        weight, Y = None if self.weight is None else self.weight[index], self.Y[index]
        return self._replace(X=np.ascontiguousarray(self.X[index]), Y=Y / power_of_two(Y), weight=weight, total=None)

    def with_base(self, name: str) -> Problem:
        """The same with another base kernel for numbers; categories keep theirs."""
        return self._replace(base=tuple(base if base == "equality" else name for base in self.base))


def learn_kernel(
    problem: Problem, structure: Structure, *, start: Floats | None = None, iterations: int = 30
) -> LearnedKernel:
    """The kernel of the given orders that is most probable, from `start` (any kernel's theta) or equal relevances."""
    objective = Posterior(problem, structure)
    theta = objective.start() if start is None else objective.adapt(start)
    with one_blas_thread():  # matrices are small, and a second pool of threads only gets in the way
        return objective.result(objective.minimise(theta, iterations))


def prune_kernel(problem: Problem, learned: LearnedKernel, allowance: float) -> LearnedKernel:
    """Remove the features that do not pay, learn on without them, and again."""
    objective, theta = Posterior(problem, learned.structure), learned.theta
    with one_blas_thread():
        for _ in range(PRUNING_ROUNDS):
            pruned = objective.prune(theta, allowance)
            if pruned is theta:
                break
            theta = objective.minimise(pruned, PRUNING_ITERATIONS)
        return objective.result(theta)


def either_half(pair: tuple[LearnedKernel, LearnedKernel]) -> LearnedKernel:
    """The first kernel, and from the second the relevances and bandwidths of features that only it has."""
    first, second = (learned.theta for learned in pair)
    D = pair[0].kernel.n_features
    lacks = np.zeros(len(first), dtype=bool)
    lacks[:D] = first[:D] <= ABSENT
    lacks[D + 1 : 2 * D + 1] = lacks[:D]
    second = second.copy()
    second[D + 1 : 2 * D + 1] = np.clip(second[D + 1 : 2 * D + 1] + second[D] - first[D], -3.0, 3.0)  # h_j as it was
    return pair[0]._replace(theta=np.where(lacks, second, first))


def leave_one_out_losses(problem: Problem, kernel: AdditiveKernel, alpha: float) -> Floats:
    """Squared leave-one-out residuals (n,) in units of the target's variance, averaged over outputs."""
    K = kernel(problem.X, n_threads=problem.threads)
    return Posterior(problem, Structure(1, kernel.order)).leave_one_out(K, alpha)


class Posterior:
    """theta -> minus log posterior and its gradient. theta = (u (D), v, v_j (D), t (orders), z)."""

    def __init__(self, problem: Problem, structure: Structure) -> None:
        X, Y, weight, *_ = problem
        n, self.D = X.shape
        w = weights_or_ones(weight, n)
        total = w.sum()
        self.problem, self.structure, self.weight, self.repeats = problem, structure, w, total - n
        count, norm, self.constant = observed_spread(X, w)
        self.sd = norm / np.sqrt(count)
        self.product = structure.lowest == structure.highest >= self.D - int(self.constant.sum())  # of all that vary
        self.Y = (Y - w @ Y / total) / np.sqrt(target_variance(Y, w))
        orders = np.arange(structure.lowest, structure.highest + 1)
        self.t = np.array([-lgamma(m + 1) for m in orders]) if len(orders) > 1 else np.zeros(1)

    def start(self) -> Floats:
        """Equal relevances, one bandwidth, order m weighted 1/m!."""
        v = np.log(START_BANDWIDTH * self.weight.sum() ** -0.2)
        u = np.where(self.constant, ABSENT, 0.0)
        return np.concatenate([u, [v], np.zeros(self.D), self.t, [np.log(START_NOISE)]])

    def adapt(self, theta: Floats) -> Floats:
        """Relevances, bandwidths and noise of another structure; its order weights where it has the same."""
        t = theta[2 * self.D + 1 : -1]
        u = np.where(self.constant, ABSENT, theta[: self.D])
        return np.concatenate([u, theta[self.D : 2 * self.D + 1], t if len(t) == len(self.t) else self.t, theta[-1:]])

    def minimise(self, theta: Floats, iterations: int) -> Floats:
        settings: Any = {"jac": True, "bounds": self._bounds(theta), "options": {"maxiter": iterations, "maxcor": 20}}
        found = minimize(self, theta, method="L-BFGS-B", **settings)
        snapped: Floats = np.round(np.asarray(found.x) / SNAP) * SNAP
        return snapped

    def prune(self, theta: Floats, allowance: float) -> Floats:
        """Remove as many of the least relevant features as the likelihood allows, found by halving.

        Each may cost `allowance` units of log likelihood. A feature matters as far as a_j k_j varies; its mean over
        pairs is a constant c_j that every interaction with j leaves behind in the order below,
        e_m -> e_m + c_j e_{m-1}, and that the order weights take over. The product of all features becomes c_j times
        the product of the others.
        """
        a = np.where(theta[: self.D] <= ABSENT, 0.0, np.exp(theta[: self.D]))
        level = self._mean_base_kernels(theta)
        order = self._removal_order(theta, a, level)
        fit = self.fit_of(theta)
        low, high = 0, len(order) - 1
        while low < high:
            count = (low + high + 1) // 2
            if self.fit_of(self._without(theta, order[:count], a * level)) <= fit + allowance * count:
                low = count
            else:
                high = count - 1
        return self._without(theta, order[:low], a * level) if low else theta

    def _removal_order(self, theta: Floats, a: Floats, level: Floats) -> NDArray[np.intp]:
        """Features that are left, the least useful first: by what each alone is worth, if that is cheap to find out."""
        present = np.flatnonzero(a > 0)
        if len(present) > FEW:
            return present[np.argsort((a * (1 - level))[present], kind="stable")]
        fits = [self.fit_of(self._without(theta, np.array([j]), a * level)) for j in present]
        return present[np.argsort(fits, kind="stable")]

    def _mean_base_kernels(self, theta: Floats) -> Floats:
        """Mean over pairs of k_j (D,), on a few hundred rows."""
        kernel, rows = self.kernel(theta), self.problem.X[:: max(1, len(self.problem.X) // 300)]
        return np.array([kernel.of_feature(j)(rows[:, [j]], n_threads=1).mean() for j in range(self.D)])

    def _without(self, theta: Floats, features: NDArray[np.intp], level: Floats) -> Floats:
        """theta without some features, whose constant part goes to the weights of the orders below."""
        t = theta[2 * self.D + 1 : -1]
        if self.product:
            t = t + np.log(level[features]).sum()
        else:
            normaliser = self.kernel(theta).normaliser[self.structure.lowest :]
            weight = np.exp(t) * normaliser
            for j in features:
                weight[:-1] += level[j] * weight[1:]
            t = np.log(weight / normaliser)
        theta = theta.copy()
        theta[features] = ABSENT
        theta[2 * self.D + 1 : -1] = t
        return theta

    def result(self, theta: Floats) -> LearnedKernel:
        noise = float(np.exp(theta[-1]))
        evidence = -self.fit_of(theta) - self._prior(theta)[0]
        return LearnedKernel(self.kernel(theta), noise, evidence, theta, self.structure)

    def kernel(self, theta: Floats) -> AdditiveKernel:
        D, given = self.D, self.problem.bandwidth
        relevance = np.where(theta[:D] <= ABSENT, 0.0, np.exp(theta[:D]))
        bandwidth = self.sd * np.exp(theta[D] + theta[D + 1 : 2 * D + 1]) if given is None else given
        weights = self._order_weights(np.exp(theta[2 * D + 1 : -1]), int(np.sum(relevance > 0)))
        bandwidth = np.where(self.constant, np.inf, bandwidth)
        return AdditiveKernel(bandwidth, relevance, weights, self.problem.base, self.problem.distributions)

    def _order_weights(self, weights: Floats, present: int) -> Floats:
        """w_0..w_d; a product has as many factors as features are left, and its w counts as if there were no others."""
        if self.product:
            return np.append(np.zeros(max(present, 1)), weights * comb(self.D, max(present, 1)))
        return np.append(np.zeros(self.structure.lowest), weights)

    def fit_of(self, theta: Floats) -> float:
        """Minus log likelihood, without the prior."""
        K = self.kernel(theta)(self.problem.X, n_threads=self.problem.threads)
        noise = float(np.exp(theta[-1]))
        return self._likelihood(*self._factorise(K, noise), noise)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        noise, kernel, threads = float(np.exp(theta[-1])), self.kernel(theta), self.problem.threads
        L, c, ones = self._factorise(kernel(self.problem.X, n_threads=threads), noise)
        value = self._likelihood(L, c, ones, noise)
        dK, dnoise = self._slope(L, c, ones, noise)
        g = kernel.gradient(self.problem.X, dK, of_zeros=False, n_threads=threads)
        v = np.zeros(self.D) if self.problem.bandwidth is not None else _times(g.bandwidth, kernel.bandwidth)
        t = (g.order_weights * kernel.order_weights)[-len(self.t) :]
        gradient = np.concatenate([g.relevance * kernel.relevance, [v.sum()], v, t, [dnoise * noise]])
        prior, slope = self._prior(theta)
        return value + prior, gradient + slope

    def leave_one_out(self, K: Floats, noise: float) -> Floats:
        """Mean over outputs of r_i^2, r_i = c_i / M_ii."""
        L, c, ones = self._factorise(K, noise)
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        diagonal = inverse.diagonal()
        r = c / np.maximum(diagonal - ones**2, _EPS * diagonal)[:, None]  # a row can outweigh all others to rounding
        losses: Floats = np.mean(r**2, axis=1)
        return losses

    def _factorise(self, K: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
        """L with L L' = C, c = M y (n, q), and C^-1 1 / sqrt(1'C^-1 1) (n,). K is overwritten."""
        n = len(K)
        A = K.T  # the same matrix in the order of LAPACK
        A.flat[:: n + 1] += noise / self.weight + JITTER * A[0, 0]
        L, _ = dpotrf(A, lower=1, overwrite_a=1)
        Z, _ = dpotrs(L, np.column_stack([self.Y, np.ones(n)]), lower=1)
        ones = Z[:, -1] / np.sqrt(Z[:, -1].sum())
        return L, Z[:, :-1] - np.outer(ones, ones @ self.Y), ones

    def _likelihood(self, L: Floats, c: Floats, ones: Floats, noise: float) -> float:
        q = self.Y.shape[1]
        determinants = np.log(L.diagonal()).sum() + np.log(ones.sum())  # sum of `ones` is sqrt(1'C^-1 1)
        return float(0.5 * np.sum(self.Y * c) + q * (determinants + 0.5 * self.repeats * np.log(noise)))

    def _slope(self, L: Floats, c: Floats, ones: Floats, noise: float) -> tuple[Floats, float]:
        """dL/dK, all of it in one triangle, and dL/ds2. L is overwritten."""
        q = self.Y.shape[1]
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        M = dsyrk(-1.0, np.column_stack([np.sqrt(q) * ones, c]), beta=float(q), c=inverse, lower=1, overwrite_c=1)
        M.flat[:: len(M) + 1] *= 0.5  # an element off the diagonal stands for both, hence without the half
        return M.T, float(np.sum(M.diagonal() / self.weight) + 0.5 * q * self.repeats / noise)

    def _prior(self, theta: Floats) -> tuple[float, Floats]:
        D = self.D
        u = np.where(theta[:D] <= ABSENT, 0.0, RELEVANCE_SD**-2.0)
        v, t = np.full(D, BANDWIDTH_SD**-2.0), np.full(len(self.t), WEIGHT_SD**-2.0)
        precision = np.concatenate([u, [0.0], v, t, [0.0]])
        away = theta - np.concatenate([np.zeros(2 * D + 1), self.t, [0.0]])
        return 0.5 * float(precision @ away**2), precision * away

    def _bounds(self, theta: Floats) -> list[tuple[float, float]]:
        """Removed features stay removed."""
        u = [(ABSENT, ABSENT) if value <= ABSENT else (ABSENT + 1, 6.0) for value in theta[: self.D]]
        noise = (float(np.log(NOISE_RANGE[0])), float(np.log(NOISE_RANGE[1])))
        return [*u, (-5.0, 6.0), *[(-3.0, 3.0)] * self.D, *[(-16.0, 12.0)] * len(self.t), noise]


def _times(derivative: Floats, bandwidth: Floats) -> Floats:
    """h dL/dh, 0 where h is infinite."""
    return np.where(np.isinf(bandwidth), 0.0, derivative * np.where(np.isinf(bandwidth), 1.0, bandwidth))
