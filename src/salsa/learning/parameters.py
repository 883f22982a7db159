"""Parameters of a sum of additive kernels as logarithms, with normal priors on u_j, v_j and t_m.

A term has

    a_j = exp(u_j),   h_j = sd_j exp(v + v_j),   w_m = exp(t_m),

and theta is (u (D), v, v_j (D), t) of every term, then the logarithm z of the noise variance s2. A product of all
features has no u: its relevance is its weight w. Bandwidths start as one shared multiple of sd_j; the prior on v_j
keeps them close together. Features and terms are removed by infinite logarithms: u_j = -inf and v_j = inf for a
feature, t = -inf for a term.

A form of several disjoint sets of features has (u, v, v_j) of the features of all sets and t of every set: each set has
a term of its own, and the sets share v. The prior variances of all sets add up to the variance of one set of all
features, in proportion to the numbers of their features.
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
from salsa.kernels.symmetric import binomials, weights_within
from salsa.learning import Form, Problem

RELEVANCE_SD, WEIGHT_SD = 1.0, 3.0  # prior standard deviations of u_j and t_m
BANDWIDTH_SD, PRODUCT_BANDWIDTH_SD = 0.5, 1.5  # prior standard deviations of v_j; a product has no other relevances
START_WIDTH = 10.0  # h_j / (sd_j n^(-1/5)) at the start, in terms of low order
NOISE_RANGE = (1e-8, 4.0)
SHORTEST = 0.3  # bandwidth of the rough product, relative to the usual one: a shorter one would take up the noise
PRODUCT_LIMIT = 1000  # with more features, the number C(D, p) of products of p may leave the range of float64
REVIVED = 0.05  # share of the prior variance that every term has when the rows change
LEVEL_ROWS = 300  # rows that the means of base kernels are taken over
U_RANGE, V_RANGE, DEVIATION_RANGE, T_RANGE = (-15.0, 6.0), (-5.0, 12.0), (-4.0, 6.0), (-16.0, 12.0)


class Block(NamedTuple):
    """A term, which is a form and a set of s features, and the places of its parameters in theta."""

    form: Form
    features: Places  # (s,), ascending
    u: Places  # (s,); empty for a product
    v: int  # shared by the sets of the form
    deviation: Places  # (s,): the v_j
    t: slice


class SumParameters:
    """The parameters of a sum of terms of the given forms; see ``Parameters``."""

    def __init__(self, problem: Problem, forms: tuple[Form, ...]) -> None:
        self.problem = problem
        self.n, self.D = problem.X.shape
        count, norm, self.constant = observed_spread(problem.X, problem.weight)
        self.sd = np.where(self.constant, 1.0, norm / np.sqrt(count))
        self.blocks, self.size = _layout(forms, self.D)
        self.bases = {form.base: problem.bases(form.base) for form in forms}
        sizes = {block.features.tobytes(): len(block.features) for block in self.blocks}  # one per set
        self.shares = np.array([len(block.features) / sum(sizes.values()) for block in self.blocks])
        self.mean, self.precision = np.zeros(self.size), np.zeros(self.size)
        for block, share in zip(self.blocks, self.shares, strict=True):
            form, spread = block.form, PRODUCT_BANDWIDTH_SD if block.form.is_product else BANDWIDTH_SD
            self.precision[block.u], self.precision[block.deviation] = RELEVANCE_SD**-2, spread**-2
            self.precision[block.t] = WEIGHT_SD**-2
            if form.lowest < form.highest:
                self.mean[block.t] = [-lgamma(m + 1) for m in range(form.lowest, form.highest + 1)]
            self.mean[block.t] += np.log(share)

    def start(self, noise: float, width: float, features: NDArray[np.bool_] | None = None) -> Floats:
        """Return equal relevances of these features (D,), one bandwidth in each form, and order m weighted 1/m!."""
        theta, kept = self.mean.copy(), ~self.constant if features is None else features & ~self.constant
        for v, usual in self._usual_widths(kept).items():
            theta[v] = np.log(width * usual)
        theta[-1] = np.log(noise)
        return _without_features(theta, self.blocks, ~kept)

    def bounds(self) -> Floats:
        bounds, usual = np.empty((self.size, 2)), self._usual_widths(~self.constant)
        for block in self.blocks:
            bounds[block.u], bounds[block.v], bounds[block.deviation] = U_RANGE, V_RANGE, DEVIATION_RANGE
            bounds[block.t] = T_RANGE
            if block.form.is_product and block.form.base == "laplace":
                bounds[block.v, 0] = np.log(SHORTEST * usual[block.v])
        bounds[-1] = np.log(NOISE_RANGE)
        return bounds

    def _usual_widths(self, kept: NDArray[np.bool_]) -> dict[int, float]:
        """Return the bandwidth at which each form starts, by the place of its v, with these features (D,)."""
        counts: dict[int, list[int]] = {}
        for block in self.blocks:
            counts.setdefault(block.v, []).append(int(kept[block.features].sum()))
        forms = {block.v: block.form for block in self.blocks}
        return {v: _usual_width(forms[v], self.n, _mean_size(sizes)) for v, sizes in counts.items()}

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
                by_deviation = _times(g.bandwidth, term.bandwidth)[block.features]
                out[block.deviation] = by_deviation
                out[block.v] += by_deviation.sum()
            if not block.form.is_product:
                out[block.u] = (g.relevance * term.relevance)[block.features]
            out[block.t] = (g.order_weights * term.order_weights)[block.t.start - block.t.stop :]
        return out

    def present(self, theta: Floats) -> NDArray[np.bool_]:
        """Return which features (D,) are in the kernel: each is in all present terms whose set has it, or in none."""
        present = np.zeros(self.D, dtype=bool)
        for place in self.present_terms(theta):
            block = self.blocks[place]
            present[block.features] |= np.isfinite(theta[block.deviation])
        return present

    def present_terms(self, theta: Floats) -> list[int]:
        """Return the numbers of the terms that are not removed."""
        return [place for place, block in enumerate(self.blocks) if np.isfinite(theta[block.t]).any()]

    def variances(self, theta: Floats) -> dict[int, float]:
        """Return the prior variance of every term that is not removed, by its number."""
        row = self.problem.X[:1]
        return {place: float(self._term(theta, place).diagonal(row)[0]) for place in self.present_terms(theta)}

    def revived(self, theta: Floats) -> Floats:
        """Raise the weights of terms that have less than REVIVED of the prior variance to this share.

        The derivative by the logarithm of a weight vanishes with the weight: a term that few rows did not need would
        not come back by itself where more rows need it. The terms of several sets share REVIVED by their features.
        """
        theta, variances = theta.copy(), self.variances(theta)
        total = REVIVED * sum(variances.values())
        for place, variance in variances.items():
            t, least = self.blocks[place].t, total * self.shares[place]
            if 0 < variance < least:  # without variance, the order is above the number of features
                theta[t] = np.clip(theta[t] + np.log(least / variance), *T_RANGE)
        return theta

    def levels(self, theta: Floats) -> Floats:
        """Return the means over pairs of rows of the base kernels, (terms, D), on a few hundred rows."""
        rows = self.problem.X[:: max(1, len(self.problem.X) // LEVEL_ROWS)]
        levels = np.ones((len(self.blocks), self.D))
        for place in self.present_terms(theta):
            block, term = self.blocks[place], self._term(theta, place)
            for j in block.features[np.isfinite(theta[block.deviation])].tolist():
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
        the product of the other features. A term that has no features left is removed.
        """
        theta = theta.copy()
        for place in self.present_terms(theta):
            block = self.blocks[place]
            form, own = block.form, features[np.isin(features, block.features)]
            gone, t = np.searchsorted(block.features, own), theta[block.t]
            if form.is_product:
                t = t + np.log(levels[place, own]).sum()
            else:
                normaliser = 1.0 / binomials(len(block.features), form.highest)[form.lowest :]
                weight = np.exp(t) * normaliser
                for c in np.exp(theta[block.u[gone]]) * levels[place, own]:
                    weight[:-1] += c * weight[1:]
                t = np.log(weight / normaliser)
                theta[block.u[gone]] = -np.inf
            theta[block.t] = np.clip(t, *T_RANGE)
            theta[block.deviation[gone]] = np.inf
        return _without_empty_terms(theta, self.blocks)

    def without_term(self, theta: Floats, place: int) -> Floats:
        return _without_term(theta.copy(), self.blocks, self.blocks[place])

    def _term(self, theta: Floats, place: int) -> AdditiveKernel:
        block, given = self.blocks[place], self.problem.bandwidth
        form, S, present = block.form, block.features, np.isfinite(theta[block.deviation])
        own = self.sd[S] * np.exp(theta[block.v] + theta[block.deviation]) if given is None else given[S]
        bandwidth, relevance, weights = np.full(self.D, np.inf), np.zeros(self.D), np.exp(theta[block.t])
        bandwidth[S] = np.where(present, own, np.inf)
        if form.is_product:  # the weight w C(D, p) of p features cancels the normaliser
            p = max(int(present.sum()), 1)
            relevance[S], weights = present, np.append(np.zeros(p), weights * comb(self.D, p))
        else:
            relevance[S] = np.exp(theta[block.u])
            weights = weights_within(self.D, len(S), np.append(np.zeros(form.lowest), weights))
        return AdditiveKernel(bandwidth, relevance, weights, self.bases[form.base], self.problem.distributions)


def products_fit(size: int, D: int) -> bool:
    """Return whether products of up to `size` of D features can be counted in float64, with room for weights."""
    return comb(D, min(size, D // 2)) <= comb(PRODUCT_LIMIT, PRODUCT_LIMIT // 2)


def without_features(theta: Floats, forms: tuple[Form, ...], absent: NDArray[np.bool_]) -> Floats:
    """Return theta without these features (D,), whatever they contributed."""
    return _without_features(theta.copy(), _layout(forms, len(absent))[0], absent)


def _without_features(theta: Floats, blocks: list[Block], absent: NDArray[np.bool_]) -> Floats:
    """Remove these features (D,) from theta in place."""
    for block in blocks:
        gone = absent[block.features]
        theta[block.deviation[gone]] = np.inf
        theta[block.u[gone[: len(block.u)]]] = -np.inf
    return _without_empty_terms(theta, blocks)


def _without_empty_terms(theta: Floats, blocks: list[Block]) -> Floats:
    """Remove from theta, in place, terms that have no features left, unless no term has any."""
    empty = [block for block in blocks if not np.isfinite(theta[block.deviation]).any()]
    if len(empty) < len(blocks):
        for block in empty:
            _without_term(theta, blocks, block)
    return theta


def _without_term(theta: Floats, blocks: list[Block], gone: Block) -> Floats:
    """Remove a term from theta in place; v is removed with the last term of its form."""
    theta[gone.t] = -np.inf
    theta[gone.u], theta[gone.deviation] = -np.inf, np.inf
    if not any(np.isfinite(theta[block.t]).any() for block in blocks if block.v == gone.v):
        theta[gone.v] = np.inf
    return theta


def completed(theta: Floats, other: Floats) -> Floats:
    """Return theta with the parameters of features and terms that only the other has."""
    return np.where(np.isfinite(theta), theta, other)


def _layout(forms: tuple[Form, ...], D: int) -> tuple[list[Block], int]:
    """Return the terms with the places of their parameters in theta, and the length of theta."""
    blocks, at = [], 0
    for form in forms:
        sets = [np.array(S) for S in form.sets] or [np.arange(D)]
        ends, orders = np.cumsum([len(S) for S in sets]), form.highest - form.lowest + 1
        u = np.arange(at, at + (0 if form.is_product else ends[-1]))
        v = at + len(u)
        deviation = np.arange(v + 1, v + 1 + ends[-1])
        at = v + 1 + len(deviation)
        for S, end in zip(sets, ends.tolist(), strict=True):
            own = slice(end - len(S), end)
            blocks.append(Block(form, S, u[own], v, deviation[own], slice(at, at + orders)))
            at += orders
    return blocks, at + 1


def _mean_size(counts: list[int]) -> float:
    """Return the mean number of features of the sets that have some; one if no set has."""
    filled = [count for count in counts if count]
    return sum(filled) / len(filled) if filled else 1.0


def _usual_width(form: Form, n: int, varying: float) -> float:
    """Return the bandwidth in units of sd_j at which a term of this form starts, of a set of so many features."""
    if not form.is_product:
        return float(START_WIDTH * n**-0.2)
    return float(varying) if form.base == "laplace" else 1.5 * float(np.sqrt(varying))


def _times(derivative: Floats, bandwidth: Floats) -> Floats:
    """Return h dL/dh, 0 where h is infinite."""
    return np.where(np.isinf(bandwidth), 0.0, derivative * np.where(np.isinf(bandwidth), 1.0, bandwidth))
