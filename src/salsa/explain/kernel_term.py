"""One term of the kernel over a background: means, centred base kernels, and the part of the term in every effect.

Write k_j(x, i) = q_j(i) + c_j(x; i), where q_j(i) is the mean of k_j(X, anchor_i) over the background of feature j. A
term sum_m v_m e_m(a_1 k_1, ..., a_D k_D) has, in the effect of the features S, the part

    r_S(i) prod_{j in S} a_j c_j(x_j; i),    r_S(i) = sum_m v_m e_{m-|S|}(a_l q_l(i), l not in S).

The kernel of a model is the sum of its terms, and so is everything that is linear in the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.cached import cached_property
from salsa.explain.closed_forms import feature_means, kernel_means
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.marginals import Distribution
from salsa.kernels.symmetric import outside, symmetric_sum


@dataclass(frozen=True, eq=False, repr=False)
class KernelTerm:
    """A term of the kernel between any row and the anchors (r, D), over a background."""

    kernel: AdditiveKernel
    anchors: Floats
    background: tuple[Distribution, ...]

    @cached_property
    def active(self) -> list[int]:
        """Numbers of the features that the term uses: their relevance is not zero."""
        return np.flatnonzero(self.kernel.relevance).tolist()

    @cached_property
    def weights(self) -> Floats:
        """Weights v (d+1,) of the term sum_m v_m e_m; e_m is zero for m beyond the number of features in use."""
        weights: Floats = (self.kernel.order_weights * self.kernel.normaliser)[: len(self.active) + 1]
        return weights

    @property
    def order(self) -> int:
        """Order d of the largest interaction that the term can have."""
        return len(self.weights) - 1

    @cached_property
    def means(self) -> Floats:
        """Means (r, D) of a_j k_j(X, anchor_i) over the background, the reference distribution, of feature j."""
        return kernel_means(self.kernel, self.anchors, self.background)

    @cached_property
    def mean(self) -> Floats:
        """Means (r,) of the term with every anchor over the background of all features."""
        return symmetric_sum(self.means.T, self.weights)

    @cached_property
    def mean_twice(self) -> Floats:
        """a_j q_j (D,): the mean of a_j k_j(X, X') over two draws from the background."""
        means = np.zeros(len(self.background))
        for j in self.active:
            rug = self.background[j]
            means[j] = feature_means(self.kernel, j, rug.points, rug) @ rug.weights
        return means

    def has_effect(self, S: Sequence[int]) -> bool:
        """Return whether the term has a part in the effect of the features S."""
        return len(S) <= self.order and set(S) <= set(self.active)

    def centred(self, j: int, points: Floats, some: slice = slice(None)) -> Floats:
        """Return a_j c_j(x; i) (P, r): the centred base kernel of feature j between points (P,) and some anchors."""
        anchors = self.anchors[some, [j]]
        values: Floats = self.kernel.relevance[j] * self.kernel.of_feature(j)(points[:, None], anchors)
        values -= self.means[some, j]
        return values

    def outside(self, S: Sequence[int]) -> Floats:
        """Return r_S(i) (r,): the mean over the background of the factor by which the features outside S enter f_S."""
        return outside(self.means.T, self.weights, S)

    def weights_within(self, features: Sequence[int]) -> Floats:
        """Return weights (d+1, r) of the term as a function of these features, averaged over all other features.

        They are sum_m v_m e_{m-k}(a_l q_l(i), l not among the features) for the orders k = 0..d of these features.
        """
        means = np.delete(self.means.T, features, axis=0)
        orders = range(min(self.order, len(features)) + 1)
        return np.stack([symmetric_sum(means, self.weights[order:]) for order in orders])

    def part(self, S: Sequence[int], rows: Floats) -> Floats:
        """Return the part (m, r) of the term in f_S, between rows (m, |S|) and every anchor."""
        centred = [self.centred(j, x) for j, x in zip(S, rows.T, strict=True)]
        part: Floats = self.outside(S) * reduce(np.multiply, centred)
        return part

    def main_effect(self, j: int, points: Floats, coef: Floats) -> Floats:
        """Return the part (P,) of the term in f_j with these coefficients, without forming a block of the kernel."""
        u, anchors = coef * self.outside([j]), self.anchors[:, [j]]
        product = self.kernel.of_feature(j).product(points[:, None], anchors, u)
        effect: Floats = self.kernel.relevance[j] * product - self.means[:, j] @ u
        return effect

    def on_grid(self, S: Sequence[int], points: Sequence[Floats], coef: Floats) -> Floats:
        """Return the part (P_1, P_2, ...) of the term in f_S at all combinations of the features' points."""
        operands: list[Any] = []
        for axis, (j, x) in enumerate(zip(S, points, strict=True)):
            operands += [self.centred(j, x), [axis, len(S)]]
        u = coef * self.outside(S)
        values: Floats = np.einsum(*operands, u, [len(S)], list(range(len(S))), optimize=True)
        return values

    def prior_variance(self, S: Sequence[int], rows: Floats) -> Floats:
        """Return the prior variance (m,) of the term's part in f_S at rows (m, |S|).

        It is prod_{j in S} a_j (1 - 2 q_j(x_j) + q_j) r_S(q), where q_j is the mean of k_j over two draws.
        """
        prior = np.ones(len(rows))
        for j, x in zip(S, rows.T, strict=True):
            mean = feature_means(self.kernel, j, x, self.background[j])
            prior *= self.kernel.relevance[j] - 2.0 * mean + self.mean_twice[j]
        return prior * outside(self.mean_twice, self.weights, S)

    def by_order(self, rows: Floats, coef: Floats) -> Floats:
        """Return the part (m, d+1) of the term in the sums of all effects of order 0..d, with these coefficients.

        E_s[a] sums products of s centred factors c and a means q. Each feature turns E_s[a] into
        E_s[a] + q E_s[a-1] + c E_{s-1}[a].
        """
        d, v = self.order, self.weights
        E = [np.zeros((d - s + 1, len(rows), len(coef))) for s in range(d + 1)]
        E[0][0] = 1.0
        for place, j in enumerate(self.active):
            q, c = self.means[:, j], self.centred(j, rows[:, j])
            for s in range(min(place + 1, d), -1, -1):
                E[s][1:] += q * E[s][:-1]
                if s:
                    E[s] += c * E[s - 1][:-1]
        return np.stack([np.tensordot(v[s:], E[s], axes=1) @ coef for s in range(d + 1)], axis=1)
