"""Parameters of a sum of additive kernels as logarithms, with normal priors on u_j, v_j and t_m.

A term has

    a_j = exp(u_j),   h_j = sd_j exp(v + v_j),   w_m = exp(t_m),

and theta is (u (D), v, v_j (D), t) of every term, then the logarithm z of the noise variance s2. A product of all
features has no u: its relevance is its weight w. Bandwidths start as one shared multiple of sd_j; the prior on v_j
keeps them close together. Features and terms are removed by infinite logarithms: u_j = -inf and v_j = inf for a
feature, t = -inf for a term.
"""

from __future__ import annotations

from math import comb, lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa.kernels import pair_loops
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import observed_spread
from salsa.kernels.sum import SumKernel
from salsa.kernels.symmetric import binomials
from salsa.learning import Form, Problem

RELEVANCE_SD, WEIGHT_SD = 1.0, 3.0  # prior standard deviations of u_j and t_m
BANDWIDTH_SD, PRODUCT_BANDWIDTH_SD = 0.5, 1.5  # prior standard deviations of v_j; a product has no other relevances
START_WIDTH = 10.0  # h_j / (sd_j n^(-1/5)) at the start, in terms of low order
NOISE_RANGE = (1e-8, 4.0)
SHORTEST = 0.3  # bandwidth of the rough product, relative to the usual one: a shorter one would take up the noise
PRODUCT_LIMIT = 1000  # with more features, the number of products C(D, p) may leave the range of float64
REVIVED = 0.05  # share of the prior variance that every term has when the rows change
LEVEL_ROWS = 300  # rows that the means of base kernels are taken over
U_RANGE, V_RANGE, DEVIATION_RANGE, T_RANGE = (-15.0, 6.0), (-5.0, 12.0), (-4.0, 6.0), (-16.0, 12.0)


class Block(NamedTuple):
    """The places of the parameters of a term in theta."""

    u: slice  # empty for a product
    v: int
    deviation: slice  # the v_j
    t: slice


class SumParameters:
    """The parameters of a sum of terms of the given forms; see ``Parameters``."""

    def __init__(self, problem: Problem, forms: tuple[Form, ...]) -> None:
        self.problem, self.forms = problem, forms
        self.n, self.D = problem.X.shape
        count, norm, self.constant = observed_spread(problem.X, problem.weight)
        self.sd = np.where(self.constant, 1.0, norm / np.sqrt(count))
        self.blocks, self.size = _layout(forms, self.D)
        self.mean, self.precision = np.zeros(self.size), np.zeros(self.size)
        for form, block in zip(forms, self.blocks, strict=True):
            spread = PRODUCT_BANDWIDTH_SD if form.is_product else BANDWIDTH_SD
            self.precision[block.u], self.precision[block.deviation] = RELEVANCE_SD**-2, spread**-2
            self.precision[block.t] = WEIGHT_SD**-2
            if form.lowest < form.highest:
                self.mean[block.t] = [-lgamma(m + 1) for m in range(form.lowest, form.highest + 1)]

    def start(self, noise: float, width: float, features: NDArray[np.bool_] | None = None) -> Floats:
        """Return equal relevances of these features (D,), one bandwidth in each term, and order m weighted 1/m!."""
        theta, kept = self.mean.copy(), ~self.constant if features is None else features & ~self.constant
        for form, block in zip(self.forms, self.blocks, strict=True):
            count = max(1, int(form.among(kept).sum()))
            theta[block.v] = np.log(width * _usual_width(form, self.n, count))
        theta[-1] = np.log(noise)
        return without_features(theta, self.forms, ~kept)

    def bounds(self) -> Floats:
        bounds = np.empty((self.size, 2))
        for form, block in zip(self.forms, self.blocks, strict=True):
            bounds[block.u], bounds[block.v], bounds[block.deviation] = U_RANGE, V_RANGE, DEVIATION_RANGE
            bounds[block.t] = T_RANGE
            if form.is_product and form.base == "laplace":
                count = max(1, int(form.among(~self.constant).sum()))
                bounds[block.v, 0] = np.log(SHORTEST * _usual_width(form, self.n, count))
        bounds[-1] = np.log(NOISE_RANGE)
        return bounds

    def prior(self, theta: Floats) -> tuple[float, Floats]:
        away = np.where(np.isfinite(theta), theta - self.mean, 0.0)
        return 0.5 * float(self.precision @ away**2), self.precision * away

    def kernel(self, theta: Floats) -> SumKernel:
        return SumKernel([self._term(theta, place) for place in self.present_terms(theta)])

    def pull_back(self, theta: Floats, kernel: SumKernel, X: Floats, dK: Floats, threads: int | None) -> Floats:
        out = np.zeros(self.size)
        gradients = pair_loops.gradient(kernel.terms, X, dK, None, False, threads)
        for place, term, g in zip(self.present_terms(theta), kernel.terms, gradients, strict=True):
            block = self.blocks[place]
            if self.problem.bandwidth is None:
                out[block.deviation] = _times(g.bandwidth, term.bandwidth)
                out[block.v] = out[block.deviation].sum()
            if not self.forms[place].is_product:
                out[block.u] = g.relevance * term.relevance
            out[block.t] = (g.order_weights * term.order_weights)[block.t.start - block.t.stop :]
        return out

    def present(self, theta: Floats) -> NDArray[np.bool_]:
        """Return which features (D,) are in the kernel: they are in all terms that are present, or in none."""
        present: NDArray[np.bool_] = np.isfinite(theta[self.blocks[self.present_terms(theta)[0]].deviation])
        return present

    def present_terms(self, theta: Floats) -> list[int]:
        """Return the numbers of the terms that are not removed."""
        return [place for place, block in enumerate(self.blocks) if np.isfinite(theta[block.t]).any()]

    def revived(self, theta: Floats) -> Floats:
        """Raise the weights of terms that have less than REVIVED of the prior variance to this share.

        The derivative by the logarithm of a weight vanishes with the weight: a term that few rows did not need would
        not come back by itself where more rows need it.
        """
        places, theta = self.present_terms(theta), theta.copy()
        variances = {place: self._term(theta, place).diagonal(self.problem.X[:1])[0] for place in places}
        least = REVIVED * sum(variances.values())
        for place, variance in variances.items():
            t = self.blocks[place].t
            if 0 < variance < least:  # without variance, the order is above the number of features
                theta[t] = np.clip(theta[t] + np.log(least / variance), *T_RANGE)
        return theta

    def levels(self, theta: Floats) -> Floats:
        """Return the means over pairs of rows of the base kernels, (terms, D), on a few hundred rows."""
        rows = self.problem.X[:: max(1, len(self.problem.X) // LEVEL_ROWS)]
        levels = np.ones((len(self.forms), self.D))
        for place in self.present_terms(theta):
            term = self._term(theta, place)
            for j in np.flatnonzero(self.present(theta)).tolist():
                levels[place, j] = pair_loops.block((term.of_feature(j),), rows[:, [j]], None, 1).mean()
        return levels

    def variation(self, theta: Floats, levels: Floats) -> Floats:
        """Return how much the kernel varies over pairs of rows through each feature (D,)."""
        found = np.zeros(self.D)
        for place in self.present_terms(theta):
            found += self._term(theta, place).variance_with_each * (1 - levels[place])
        return found

    def without(self, theta: Floats, features: Places, levels: Floats) -> Floats:
        """Remove features from theta: in every term, k_j becomes its mean over pairs of rows, levels (terms, D).

        With e_m the sum of all products of m features and c_j the mean of a_j k_j, e_m becomes e_m + c_j e_{m-1} of the
        features that are left: weight moves from order m to order m - 1. The product of all features becomes c_j times
        the product of the other features.
        """
        theta = theta.copy()
        for place in self.present_terms(theta):
            form, block = self.forms[place], self.blocks[place]
            t = theta[block.t]
            if form.is_product:
                t = t + np.log(levels[place, features]).sum()
            else:
                normaliser = 1.0 / binomials(self.D, form.highest)[form.lowest :]
                weight = np.exp(t) * normaliser
                for c in np.exp(theta[block.u][features]) * levels[place, features]:
                    weight[:-1] += c * weight[1:]
                t = np.log(weight / normaliser)
                theta[block.u][features] = -np.inf
            theta[block.t] = np.clip(t, *T_RANGE)
            theta[block.deviation][features] = np.inf
        return theta

    def without_term(self, theta: Floats, place: int) -> Floats:
        theta = theta.copy()
        block = self.blocks[place]
        theta[block.t] = -np.inf
        theta[block.u], theta[block.v], theta[block.deviation] = -np.inf, np.inf, np.inf
        return theta

    def _term(self, theta: Floats, place: int) -> AdditiveKernel:
        form, block, given = self.forms[place], self.blocks[place], self.problem.bandwidth
        present, weights = form.among(self.present(theta)), np.exp(theta[block.t])
        bandwidth = self.sd * np.exp(theta[block.v] + theta[block.deviation]) if given is None else given
        bandwidth = np.where(present, bandwidth, np.inf)
        if form.is_product:  # the weight w C(D, p) of p features cancels the normaliser
            p = max(int(present.sum()), 1)
            relevance, weights = present.astype(np.float64), np.append(np.zeros(p), weights * comb(self.D, p))
        else:
            relevance, weights = np.exp(theta[block.u]), np.append(np.zeros(form.lowest), weights)
        base = self.problem.bases(form.base)
        return AdditiveKernel(bandwidth, relevance, weights, base, self.problem.distributions)


def without_features(theta: Floats, forms: tuple[Form, ...], absent: NDArray[np.bool_]) -> Floats:
    """Return theta without these features (D,), whatever they contributed."""
    theta = theta.copy()
    for block in _layout(forms, len(absent))[0]:
        theta[block.deviation][absent] = np.inf
        theta[block.u][absent[: block.u.stop - block.u.start]] = -np.inf
    return theta


def completed(theta: Floats, other: Floats) -> Floats:
    """Return theta with the parameters of features and terms that only the other has."""
    return np.where(np.isfinite(theta), theta, other)


def _layout(forms: tuple[Form, ...], D: int) -> tuple[list[Block], int]:
    """Return the places of all terms' parameters in theta, and the length of theta."""
    blocks, at = [], 0
    for form in forms:
        u = slice(at, at + (0 if form.is_product else D))
        deviation = slice(u.stop + 1, u.stop + 1 + D)
        t = slice(deviation.stop, deviation.stop + form.highest - form.lowest + 1)
        blocks.append(Block(u, u.stop, deviation, t))
        at = t.stop
    return blocks, at + 1


def _usual_width(form: Form, n: int, varying: int) -> float:
    """Return the bandwidth in units of sd_j at which a term of this form starts."""
    if not form.is_product:
        return float(START_WIDTH * n**-0.2)
    return float(varying) if form.base == "laplace" else 1.5 * float(np.sqrt(varying))


def _times(derivative: Floats, bandwidth: Floats) -> Floats:
    """Return h dL/dh, 0 where h is infinite."""
    return np.where(np.isinf(bandwidth), 0.0, derivative * np.where(np.isinf(bandwidth), 1.0, bandwidth))
