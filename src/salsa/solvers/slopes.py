"""The least slope of a fitted function along a feature, over the box of the training range, with a proof.

A monotone feature j is in terms of order one and two only. So the slope at x_j = t is

    df/dx_j (t, x) = f_j'(t) + sum_k d_j f_jk(t, x_k),

and its least value over the box, as all x_k vary independently, is m_j(t) = f_j'(t) + sum_k min_s d_j f_jk(t, s).

Both minima are taken over grids. Between the points of a grid, norms of f_j and f_jk in the spaces of their kernels
bound the slope. For k_j(t) with bandwidth h, every function F of norm |F| has |F''| <= b / h^2 |F|, |F'| <= a / h |F|,
and F' differs from its linear interpolation with step d by at most c (d / h)^p / h |F|. Hence

    d_j f_jk(t, s) against its interpolation in s    at most  d^2 / 8  b_k / h_k^2  a_j / h_j  |f_jk|  =: e_k
    the whole slope against its interpolation in t   at most  c (d / h_j)^p / h_j  (|f_j| + sum_k |f_jk|)  =: e,

so that m_j between two points t of the grid is at least the lesser of both values there, minus e, minus sum_k e_k.
On a circle, where the kernel is k_k(sin(pi t) / pi), b_k is sqrt(b^2 + (2 pi a h_k)^2): the fourth derivative of this
kernel at zero is b^2 / h^4 + 4 pi^2 a^2 / h^2.
For Matern 5/2, (c, p) = (4 / sqrt(3) 5^(5/4) / sqrt(48), 3/2): F''' has the L2 norm sqrt(16/3) (sqrt(5) / h)^(5/2) |F|
at most, from the spectral density, and the interpolation of F' misses by d^(3/2) / sqrt(48) times that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import row_blocks
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.base import is_cyclic

#: Points of the first grids in t and in s, and the most that a proof refines them to
FIRST, FINEST_T, FINEST_S = 65, 65 * 2**7, 1025


class Smooth(NamedTuple):
    """A base kernel with slopes: k'(t) for h = 1, and the constants a, b, c and p of this module's bounds."""

    slope: Callable[[Floats], Floats]
    a: float
    b: float
    c: float
    p: float


def _matern_slope(t: Floats) -> Floats:
    r = np.sqrt(5.0) * np.abs(t)
    slope: Floats = -(5.0 / 3.0) * t * (1.0 + r) * np.exp(-r)
    return slope


def _gaussian_slope(t: Floats) -> Floats:
    slope: Floats = -t * np.exp(-0.5 * t * t)
    return slope


#: Base kernels of features that may be monotone: the others are not smooth enough for the bounds
SMOOTH_BASES = {
    "matern52": Smooth(_matern_slope, np.sqrt(5.0 / 3.0), 5.0, 4.0 / np.sqrt(3.0) * 5.0**1.25 / np.sqrt(48.0), 1.5),
    "gaussian": Smooth(_gaussian_slope, 1.0, np.sqrt(3.0), np.sqrt(15.0) / 8.0, 2.0),
}


class Monotone(NamedTuple):
    """The monotone features, and the box in which they are monotone."""

    sign: Places  # (D,) 1 for increasing, -1 for decreasing, 0 for free
    low: Floats  # (D,) of the training rows, NaN where all values are missing
    high: Floats
    levels: Places  # (D,) number of levels of a category, 0 for numbers


class Part(NamedTuple):
    """The slope along feature j that one term gives: k_j' (A + sum_k B_k k_k)."""

    term: AdditiveKernel
    A: float
    B: Floats  # (D,), zero at j

    @property
    def smooth(self) -> Smooth:
        return SMOOTH_BASES[self.term.numeric_base]


class Norms(NamedTuple):
    """Norms of f_j (parts,) and f_jk (parts, others) in the spaces of k_j and k_j k_k."""

    main: Floats
    pairs: Floats


class Proof(NamedTuple):
    """Whether a slope is proven not to be negative; if not, points t where it is too small, and the size of s grids."""

    proven: bool
    t: Floats
    size: int


class Slopes:
    """Slopes of f = sum_i coef_i k(., z_i) along feature j, times its sign, from coefficients (m,)."""

    def __init__(self, kernel: Kernel, anchors: Floats, monotone: Monotone, j: int) -> None:
        self.anchors, self.monotone, self.j, self.sign = anchors, monotone, j, float(monotone.sign[j])
        terms = [term for term in kernel.terms if term.relevance[j] > 0 and np.isfinite(term.bandwidth[j])]
        self.parts = [_part(term, j) for term in terms]
        used = np.any([part.B > 0 for part in self.parts], axis=0) if self.parts else np.zeros(len(monotone.sign), bool)
        self.others = np.flatnonzero(used)
        self.span = float(monotone.high[j] - monotone.low[j])
        self._values: dict[tuple[int, int], list[Floats]] = {}

    @property
    def vary(self) -> bool:
        """Whether f depends on the feature, and the feature varies."""
        return bool(self.parts) and self.span > 0

    def grid(self, size: int) -> Floats:
        return np.linspace(self.monotone.low[self.j], self.monotone.high[self.j], size)

    def least(self, coef: Floats, t: Floats, size: int) -> tuple[Floats, Floats]:
        """Return m_j(t) (T,) over grids of `size` points, and the values s (T, others) that attain it."""
        parts = [self._least(coef, t[rows], size) for rows in row_blocks(len(t), len(coef))]
        total, attained = (np.concatenate(part) for part in zip(*parts, strict=True))
        return total, attained

    def _least(self, coef: Floats, t: Floats, size: int) -> tuple[Floats, Floats]:
        weighted = [self.sign * coef * self._slopes(part, t) for part in self.parts]
        total = sum((part.A * P.sum(axis=1) for part, P in zip(self.parts, weighted, strict=True)), np.zeros(len(t)))
        attained = np.empty((len(t), len(self.others)))
        for place, k in enumerate(self.others.tolist()):
            values = np.zeros((len(t), 1))
            for part, P, K in zip(self.parts, weighted, self._kernels(k, size), strict=True):
                values = values + part.B[k] * (P @ K.T)
            best = np.argmin(values, axis=1)
            total += values[np.arange(len(t)), best]
            attained[:, place] = self.points(k, size)[best]
        return total, attained

    def functionals(self, t: Floats, s: Floats) -> Floats:
        """Return the slopes at t (T,) and s (T, others) as functionals of the coefficients (T, m)."""
        found = np.zeros((len(t), len(self.anchors)))
        for part in self.parts:
            factor = np.full_like(found, part.A)
            for place, k in enumerate(self.others.tolist()):
                factor += part.B[k] * part.term.of_feature(k)(s[:, [place]], self.anchors[:, [k]])
            found += self._slopes(part, t) * factor
        return self.sign * found

    def points(self, k: int, size: int) -> Floats:
        """Return the values of feature k that are looked at: all levels, or a grid; and a missing value."""
        low, high, levels = self.monotone.low[k], self.monotone.high[k], int(self.monotone.levels[k])
        points = np.arange(levels, dtype=np.float64) if levels else np.linspace(low, high, size if high > low else 1)
        missing = self.parts[0].term.distributions is not None
        return np.append(points, np.nan) if missing and not np.isnan(low) else points

    def norms(self, coef: Floats) -> Norms:
        """Return the norms of f_j and of every f_jk."""
        main, pairs = np.zeros(len(self.parts)), np.zeros((len(self.parts), len(self.others)))
        for rows in row_blocks(len(coef), len(coef)):
            for number, part in enumerate(self.parts):
                left = coef[rows, None] * self._between(part.term, self.j, rows)
                main[number] += np.sum(left @ coef)
                for place, k in enumerate(self.others.tolist()):
                    pairs[number, place] += np.sum((left * self._between(part.term, k, rows)) @ coef)
        A = np.array([part.A for part in self.parts])
        B = np.array([part.B[self.others] for part in self.parts])
        return Norms(A * np.sqrt(np.maximum(main, 0.0)), B * np.sqrt(np.maximum(pairs, 0.0)))

    def error_in_t(self, norms: Norms, step: float) -> float:
        """Return the bound e of the interpolation in t."""
        total = 0.0
        for part, main, pairs in zip(self.parts, *norms, strict=True):
            h, smooth = part.term.bandwidth[self.j], part.smooth
            total += smooth.c * (step / h) ** smooth.p / h * (main + pairs.sum())
        return float(total)

    def error_in_s(self, norms: Norms, size: int) -> float:
        """Return the sum of the bounds e_k of the interpolations in s."""
        k, total = self.others, 0.0
        step = np.where(self.monotone.levels[k] > 0, 0.0, (self.monotone.high[k] - self.monotone.low[k]) / (size - 1))
        step = np.nan_to_num(step)
        for part, pairs in zip(self.parts, norms.pairs, strict=True):
            smooth = part.smooth
            h, on_circle = part.term.bandwidth[k], [is_cyclic(part.term.bases[other]) for other in k]
            b = np.where(on_circle, np.hypot(smooth.b, 2.0 * np.pi * smooth.a * h), smooth.b)
            bends = np.where(step > 0, step**2 / 8.0 * b / h**2, 0.0)
            total += float(bends @ pairs) * smooth.a / part.term.bandwidth[self.j]
        return total

    def finest_error(self, coef: Floats) -> float:
        """Return what no refinement of the grids can prove: the bounds of the finest grids."""
        norms = self.norms(coef)
        return self.error_in_t(norms, self.span / (FINEST_T - 1)) + self.error_in_s(norms, FINEST_S)

    def proof(self, coef: Floats, least: float = 0.0) -> Proof:
        """Prove that the slope is nowhere negative, or find points where it is below `least` >= 0.

        Cells of the grid whose bound is negative are halved, or the grids in s refined, until all bounds are positive.
        """
        norms, size, t = self.norms(coef), FIRST, self.grid(FIRST)
        left, right = t[:-1], t[1:]
        width, finest = self.span / (FIRST - 1), self.span / (FINEST_T - 1)
        while True:
            t, place = np.unique(np.concatenate([left, right]), return_inverse=True)
            value, _ = self.least(coef, t, size)
            lower = np.minimum(*value[place].reshape(2, -1))
            in_t, in_s = self.error_in_t(norms, width), self.error_in_s(norms, size)
            unproven = ~(lower >= in_t + in_s)  # NaN proves nothing
            if not unproven.any():
                return Proof(True, t[:0], size)
            if (value < least).any() or (width <= finest and size >= FINEST_S):
                return Proof(False, t[value < least], size)
            left, right = left[unproven], right[unproven]
            if size < FINEST_S and (in_s > in_t or width <= finest):
                size = 2 * size - 1
            else:
                middle, width = 0.5 * (left + right), width / 2
                left, right = np.append(left, middle), np.append(middle, right)

    def _slopes(self, part: Part, t: Floats) -> Floats:
        """Return k_j'(t - z) (T, m); a missing z has the mean over its distribution."""
        z, h, slope = self.anchors[:, self.j], part.term.bandwidth[self.j], part.smooth.slope
        P: Floats = slope((t[:, None] - z) / h) / h
        if (missing := np.isnan(z)).any():
            assert part.term.distributions is not None  # missing values need distributions
            points, weights = part.term.distributions[self.j]
            P[:, missing] = (slope((t[:, None] - points) / h) / h @ weights)[:, None]
        return P

    def _kernels(self, k: int, size: int) -> list[Floats]:
        """Return k_k of every part between the points of feature k and the anchors (S, m), which are kept if few."""
        if (k, size) in self._values:
            return self._values[k, size]
        points, z = self.points(k, size)[:, None], self.anchors[:, [k]]
        values = [part.term.of_feature(k)(points, z) for part in self.parts]
        if size <= FIRST:
            self._values[k, size] = values
        return values

    def _between(self, term: AdditiveKernel, k: int, rows: slice) -> Floats:
        return term.of_feature(k)(self.anchors[rows][:, [k]], self.anchors[:, [k]])


def _part(term: AdditiveKernel, j: int) -> Part:
    """Return the slope of a term along feature j, which must be in no product of three features."""
    weights, a = term.order_weights * term.normaliser, term.relevance
    assert not weights[3:].any() or np.sum(a > 0) < 3  # the kernels of a monotone fit have order two
    B = (weights[2] if len(weights) > 2 else 0.0) * a[j] * a
    B[j] = 0.0
    return Part(term, float(weights[1] * a[j]), B)
