"""Parameters of one additive kernel as logarithms, with normal priors on u_j, v_j and t_m:

    a_j = exp(u_j),   h_j = sd_j exp(v + v_j),   w_m = exp(t_m),   s2 = exp(z),   theta = (u (D), v, v_j (D), t, z)

Bandwidths start as one shared multiple of sd_j; the prior on v_j keeps them close together.
"""

from __future__ import annotations

from math import comb, lgamma

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import observed_spread
from salsa.learning import LearnedKernel, Problem, Structure

RELEVANCE_SD, BANDWIDTH_SD, WEIGHT_SD = 1.0, 0.5, 3.0  # prior standard deviations of u_j, v_j, t_m
START_BANDWIDTH = 10.0  # times sd_j n^(-1/5)
START_NOISE = 0.1
NOISE_RANGE = (1e-8, 4.0)
ABSENT = -16.0  # u_j at which a feature counts as removed


class AdditiveParameters:
    """The parameters of an additive kernel of the given orders; see ``Parameters``."""

    def __init__(self, problem: Problem, structure: Structure) -> None:
        n, self.D = problem.X.shape
        w, self.n = problem.weight, n
        self.problem, self.structure = problem, structure
        count, norm, self.constant = observed_spread(problem.X, w)
        self.sd = norm / np.sqrt(count)
        self.product = structure.lowest == structure.highest >= self.D - int(self.constant.sum())  # all that vary
        orders = np.arange(structure.lowest, structure.highest + 1)
        self.t = np.array([-lgamma(m + 1) for m in orders]) if len(orders) > 1 else np.zeros(1)

    def start(self, noise: float = START_NOISE) -> Floats:
        """Return equal relevances, one bandwidth, and order m weighted 1/m!."""
        v = np.log(START_BANDWIDTH * self.n**-0.2)
        u = np.where(self.constant, ABSENT, 0.0)
        return np.concatenate([u, [v], np.zeros(self.D), self.t, [np.log(noise)]])

    def adapt(self, theta: Floats) -> Floats:
        """Return the theta of another structure for this one; order weights are kept if there are as many."""
        t = theta[2 * self.D + 1 : -1]
        u = np.where(self.constant, ABSENT, theta[: self.D])
        return np.concatenate([u, theta[self.D : 2 * self.D + 1], t if len(t) == len(self.t) else self.t, theta[-1:]])

    def bounds(self, theta: Floats) -> list[tuple[float, float]]:
        u = [(ABSENT, ABSENT) if value <= ABSENT else (ABSENT + 1, 6.0) for value in theta[: self.D]]
        noise = (float(np.log(NOISE_RANGE[0])), float(np.log(NOISE_RANGE[1])))
        return [*u, (-5.0, 6.0), *[(-3.0, 3.0)] * self.D, *[(-16.0, 12.0)] * len(self.t), noise]

    def prior(self, theta: Floats) -> tuple[float, Floats]:
        D = self.D
        u = np.where(theta[:D] <= ABSENT, 0.0, RELEVANCE_SD**-2.0)
        v, t = np.full(D, BANDWIDTH_SD**-2.0), np.full(len(self.t), WEIGHT_SD**-2.0)
        precision = np.concatenate([u, [0.0], v, t, [0.0]])
        away = theta - np.concatenate([np.zeros(2 * D + 1), self.t, [0.0]])
        return 0.5 * float(precision @ away**2), precision * away

    def kernel(self, theta: Floats) -> AdditiveKernel:
        D, given = self.D, self.problem.bandwidth
        relevance = self.relevance(theta)
        bandwidth = self.sd * np.exp(theta[D] + theta[D + 1 : 2 * D + 1]) if given is None else given
        weights = self._order_weights(np.exp(theta[2 * D + 1 : -1]), int(np.sum(relevance > 0)))
        bandwidth = np.where(self.constant, np.inf, bandwidth)
        return AdditiveKernel(bandwidth, relevance, weights, self.problem.base, self.problem.distributions)

    def pull_back(self, theta: Floats, kernel: AdditiveKernel, dK: Floats) -> Floats:
        g = kernel.gradient(self.problem.X, dK, of_zeros=False, n_threads=self.problem.threads)
        v = np.zeros(self.D) if self.problem.bandwidth is not None else _times(g.bandwidth, kernel.bandwidth)
        t = (g.order_weights * kernel.order_weights)[-len(self.t) :]
        return np.concatenate([g.relevance * kernel.relevance, [v.sum()], v, t])

    def relevance(self, theta: Floats) -> Floats:
        """Return the relevances a_j (D,), the factors of the base kernels; 0 for removed features."""
        return np.where(theta[: self.D] <= ABSENT, 0.0, np.exp(theta[: self.D]))

    def mean_base_kernels(self, theta: Floats) -> Floats:
        """Return the mean over pairs of k_j (D,), on a few hundred rows."""
        kernel, rows = self.kernel(theta), self.problem.X[:: max(1, len(self.problem.X) // 300)]
        return np.array([kernel.of_feature(j)(rows[:, [j]], n_threads=1).mean() for j in range(self.D)])

    def without(self, theta: Floats, features: Places, level: Floats) -> Floats:
        """Remove features from theta: each a_j k_j becomes its mean over pairs of rows, c_j = level[j].

        With e_m the sum of all products of m features, e_m becomes e_m + c_j e_{m-1} of the features that are left:
        weight moves from order m to order m - 1. The product of all features becomes c_j times the product of the
        other features.
        """
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

    def _order_weights(self, weights: Floats, present: int) -> Floats:
        """Return the order weights w_0..w_d. A product of p features gets w C(D, p), which cancels the normaliser."""
        if self.product:
            return np.append(np.zeros(max(present, 1)), weights * comb(self.D, max(present, 1)))
        return np.append(np.zeros(self.structure.lowest), weights)


def either_half(pair: tuple[LearnedKernel, ...]) -> LearnedKernel:
    """Return the first kernel, with relevances and bandwidths from the second for features that only it has."""
    if len(pair) == 1:
        return pair[0]
    first, second = (learned.theta for learned in pair)
    D = pair[0].kernel.n_features
    lacks = np.zeros(len(first), dtype=bool)
    lacks[:D] = first[:D] <= ABSENT
    lacks[D + 1 : 2 * D + 1] = lacks[:D]
    second = second.copy()
    second[D + 1 : 2 * D + 1] = np.clip(second[D + 1 : 2 * D + 1] + second[D] - first[D], -3.0, 3.0)  # keeps h_j
    return pair[0]._replace(theta=np.where(lacks, second, first))


def _times(derivative: Floats, bandwidth: Floats) -> Floats:
    """Return h dL/dh, 0 where h is infinite."""
    return np.where(np.isinf(bandwidth), 0.0, derivative * np.where(np.isinf(bandwidth), 1.0, bandwidth))
