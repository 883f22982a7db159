"""Penalised likelihood on the features of anchors (``penalised``), for many rows and several penalties at once.

The systems of every penalty, without each fold and of all rows, are solved side by side by Newton's method: a sum over
all rows serves all of them. So rows whose features are computed again, or read again from a file, are asked for some
dozens of times. Nothing is stored per row but what ``FeatureRows`` holds: every sum follows from the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from math import gcd
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import gram, triangular_solve
from salsa._utils.linalg import positive_factor
from salsa._utils.sums import Sums
from salsa.data.rows import Block, mapped
from salsa.kernels import Kernel
from salsa.losses import Likelihood, working_at
from salsa.solvers.anchors import Anchors
from salsa.solvers.feature_rows import FeatureRows, Function, Values, Vectors, Weighed, pieces
from salsa.solvers.penalised import DESCENT, MANY, MOST_HALVINGS, MOST_STEPS, NEAR, SLOW, newton_step

T = TypeVar("T")
STALLED = 0.5  # share of what the step before promised
CURVED_ROWS = 100_000  # about so many rows have curvatures in the factors: their sums cost n r^2
SINGLE = float(np.finfo(np.float32).eps)  # rounding errors of products with features in float32, at most


class Design(NamedTuple):
    """What a sum over rows needs to know: kernel, anchors, the unit of the targets, and the splits."""

    kernel: Kernel
    points: Floats  # (r, D)
    unit: Floats  # (q,)
    known: NDArray[np.bool_]  # (patterns, S), see ``Patterns``
    tested: Places  # (patterns, T)

    def parts(self, block: Block, F: NDArray[np.float32] | None) -> Iterator[tuple[Values, Floats, Floats]]:
        """Yield pieces: features or kernel values (m, r), targets (m, 1, q), and weights (m, S) in each system."""
        Y, W = block.Y / self.unit, block.weight[:, None] * self.known[block.fold]
        for rows, M in pieces(self.kernel, self.points, block, F):
            yield M, Y[rows, None], W[rows]


class Slopes(NamedTuple):
    """Sums of the losses (A, S), of their slopes, and of how far rounding may have moved the losses (A, S)."""

    value: Floats
    slope: Weighed
    rounding: Floats

    def plus(self, other: Slopes) -> Slopes:
        return Slopes(self.value + other.value, self.slope.plus(other.slope), self.rounding + other.rounding)


class Solved(NamedTuple):
    """Parameters (r + 1, A, S, q) for A penalties, and whether all have converged."""

    x: Floats
    converged: bool = True

    def at(self, place: int) -> Solved:
        """Return the parameters of one penalty."""
        return self._replace(x=self.x[:, place : place + 1])


class Point(NamedTuple):
    """Parameters x (r + 1, C, q) of C = A S systems, the penalised losses (C,), their slopes and rounding errors."""

    x: Floats
    value: Floats
    slope: Floats
    rounding: Floats


class RowSystems:
    """The systems without each fold, and of all rows, for several penalties; the last of S has all rows."""

    def __init__(
        self, features: FeatureRows, constant: Floats, total: Floats, hold: Floats, unit: Floats, loss: Likelihood
    ) -> None:
        """Take the best constants (q,), and of every system its weight (S,) and what holds its offset (S,)."""
        anchors, patterns = features.anchors, features.patterns
        self.features, self.constant, self.weight, self.hold = features, constant, total, hold
        self.L, self.q, self.S = anchors.L, len(constant), len(total)
        self.design = Design(anchors.kernel, anchors.points, unit, patterns.known, patterns.tested)
        self.passes = 0
        self.factors = Factors(self, partial(_reference_grams, self.design, anchors, loss, constant))

    def start(self, count: int) -> Solved:
        """Return the best constants, with which all systems of so many penalties start."""
        x = np.zeros((len(self.L) + 1, count, self.S, self.q))
        x[0] = self.constant
        return Solved(x)

    def solve(
        self,
        alphas: Sequence[float],
        losses: Sequence[Likelihood],
        start: Solved,
        tolerance: float,
        *,
        certain: bool = False,
    ) -> Solved:
        """Minimise the penalised losses for every penalty and its loss; see ``Systems.solve``.

        Sums of features in float32 have rounding errors. If steps promise less than these, and no less than the steps
        before, rounding errors are all that is left.
        """
        r1, A, S, q = start.x.shape
        problem, before = Problem(self, alphas, losses), np.full(A * S, np.inf)
        self.factors.approach(alphas)
        point, least = problem.at(start.x.reshape(r1, A * S, q)), tolerance * np.tile(self.weight, A)
        for number in range(1, MOST_STEPS + 1):
            step, promised, products = problem.newton_step(point, least)
            change = np.abs(promised)  # rounding errors can make promises negative, or NaN
            stalled = (change <= point.rounding) & (change >= STALLED * before)
            going, before = ~(change <= least) & ~stalled, change
            if not going.any() and not certain:
                return Solved(point.x.reshape(start.x.shape))
            if not going.any() or products > SLOW or number % MANY == 0:
                which = int(np.flatnonzero(going)[0]) // S if going.any() else 0
                self.factors.renew(self._curvature(losses[which], point.x.reshape(r1, A, S, q)[:, which, -1]))
                self.factors.approach(alphas)
            if not going.any():
                certain = False
                continue
            point, moved = problem.descend(point, step, np.where(going, promised, 0.0))
            if not moved:
                most = np.maximum(1e-6 * np.abs(point.value), point.rounding)
                return Solved(point.x.reshape(start.x.shape), bool((change <= most).all()))
        return Solved(point.x.reshape(start.x.shape), False)

    def held_out(self, solved: Solved) -> Floats:
        """Return what the fits without each fold predict for the rows that they test (n, A, T, q)."""
        shape = solved.x.shape[1:]
        function = partial(_held_out, self.design, self.vectors(solved.x), shape)
        return np.concatenate(self.total(function, list.__add__))

    def fitted(self, x: Floats) -> Floats:
        """Return the function with the parameters x (r + 1, q) at all rows (n, q)."""
        return np.concatenate(self.total(partial(_fitted, self.design, self.vectors(x)), list.__add__))

    def working_sums(self, x: Floats, loss: Likelihood, density: float | None) -> Sums:
        """Return the sums over the working response of the parameters x (r + 1, q), with the working weights."""
        function = partial(_working_sums, self.design, self._anchors, self.vectors(x), loss, density)
        return self.total(function, Sums.plus)

    def _curvature(self, loss: Likelihood, x: Floats) -> partial[list[Floats]]:
        return partial(_curvature_grams, self.design, self._anchors, loss, self.vectors(x))

    def vectors(self, x: Floats) -> Vectors:
        return Vectors.of(self.L, x.reshape(len(x), -1))

    @property
    def _anchors(self) -> Anchors:
        return self.features.anchors

    def total(self, function: Function[T], add: Callable[[T, T], T], every: int = 1) -> T:
        """Return the sum of a function of blocks over all rows, or about one in `every`, and count it."""
        self.passes += 1
        return self.features.total(function, add, every)


class Problem:
    """The penalised losses of C = A S systems: A penalties with a loss each, and S weights of the rows."""

    def __init__(self, systems: RowSystems, alphas: Sequence[float], losses: Sequence[Likelihood]) -> None:
        self.systems, self.alphas, self.losses = systems, alphas, losses
        S, A, r = systems.S, len(alphas), len(systems.L)
        self.shape = A, S, systems.q
        self.penalty = np.empty((r + 1, A * S, 1))
        self.penalty[:, :, 0] = np.repeat(alphas, S)
        self.penalty[0, :, 0] = np.tile(systems.hold, A)
        self.centre = np.zeros((r + 1, 1, systems.q))
        self.centre[0] = systems.constant

    def at(self, x: Floats) -> Point:
        """Return the penalised losses at x (r + 1, C, q), and their slopes."""
        systems = self.systems
        function = partial(_slopes, systems.design, self.losses, systems.vectors(x), self.shape)
        sums = systems.total(function, Slopes.plus)
        away = x - self.centre
        value = sums.value.ravel() + 0.5 * np.sum(self.penalty * away**2, axis=(0, 2))
        slope = sums.slope.total(systems.L).reshape(x.shape) + self.penalty * away
        return Point(x, value, slope, sums.rounding.ravel())

    def newton_step(self, point: Point, least: Floats) -> tuple[Floats, Floats, int]:
        """Return steps (r + 1, C, q), by how much they promise to lower the losses (C,), and the products."""
        systems, at = self.systems, self.systems.vectors(point.x)

        def times(p: Floats) -> Floats:
            function = partial(_products, systems.design, self.losses, at, systems.vectors(p), self.shape)
            bent = systems.total(function, Weighed.plus)
            return bent.total(systems.L).reshape(p.shape) + self.penalty * p

        return newton_step(times, partial(systems.factors.solve, self.alphas), point.slope, least)

    def descend(self, point: Point, step: Floats, promised: Floats) -> tuple[Point, bool]:
        """Go along the steps of systems that promise something, halved until the losses fall.

        Both ends have the rounding errors of the beginning: those of a step that is far too long exceed its loss.
        """
        size = (promised > 0).astype(np.float64)
        step = np.where(size[:, None] > 0, step, 0.0)
        for _ in range(MOST_HALVINGS):
            found = self.at(point.x + size[:, None] * step)
            allowed = (
                point.value - DESCENT * size * promised + 2.0 * point.rounding
            )  # far away, found.rounding is large
            short = ~(found.value <= allowed) & (size > 0)
            if not short.any():
                return found, bool(size.any())
            size = np.where(short, 0.5 * size, size)
        size = np.where(short, 0.0, size)
        return self.at(point.x + size[:, None] * step), bool(size.any())


class Factors:
    """Factors of sum_i W_si h_i (1, phi_i)(1, phi_i)' + alpha I of every system, for penalties near those asked for.

    They are preconditioners: if there are very many rows, the sum is an estimate from some of them.
    """

    def __init__(self, systems: RowSystems, function: partial[list[Floats]]) -> None:
        self.systems, self.function = systems, function
        self.grams: list[Floats] = []
        self.factors: dict[float, list[Floats]] = {}

    def renew(self, function: partial[list[Floats]]) -> None:
        """Take other curvatures."""
        self.function, self.grams, self.factors = function, [], {}

    def approach(self, alphas: Sequence[float]) -> None:
        """Have a factor near every penalty, and no others."""
        if not self.grams:
            every = out_of_step(max(1, self.systems.features.n // CURVED_ROWS), self.systems.S - 1)
            whole, *held_out = self.systems.total(self.function, _all_added, every)
            self.grams = [every * part for part in (*(whole - part for part in held_out), whole)]
        near = [known for known in self.factors if any(_near(known, alpha) for alpha in alphas)]
        self.factors = {known: self.factors[known] for known in near}
        for alpha in sorted(alphas, reverse=True):
            if not any(_near(known, alpha) for known in self.factors):
                factors = mapped(partial(self._factor, alpha), self.grams, self.systems.features.threads)
                self.factors[alpha] = list(factors)

    def solve(self, alphas: Sequence[float], r: Floats) -> Floats:
        """Return the residuals r (r + 1, C, q) of every system, divided by its factor's matrix."""
        S, out = self.systems.S, np.empty_like(r)

        def solve(c: int) -> Floats:
            known = min(self.factors, key=lambda other: abs(np.log(other / alphas[c // S])))
            factor = self.factors[known][c % S]
            half = triangular_solve(factor, np.array(r[:, c], order="F"))
            return triangular_solve(factor, half, transposed=True)

        for c, found in enumerate(mapped(solve, range(r.shape[1]), self.systems.features.threads)):
            out[:, c] = found
        return out

    def _factor(self, alpha: float, lower: Floats) -> Floats:
        A = lower.T.copy()
        A.flat[len(A) + 1 :: len(A) + 1] += alpha
        return positive_factor(A)


def out_of_step(every: int, folds: int) -> int:
    """Return the least number from `every` on for which one row in so many meets all folds of rows by turns.

    The folds of rows in the order of the target have the period 2 folds (``salsa.data.splits``).
    """
    return next(number for number in count(every) if gcd(number, 2 * max(folds, 1)) == 1)


def _near(alpha: float, other: float) -> bool:
    return bool(abs(np.log10(alpha / other)) <= NEAR)


def _all_added(one: list[Floats], other: list[Floats]) -> list[Floats]:
    """Return the sums of both lists; the matrices of the first are overwritten."""
    return [np.add(a, b, out=a) for a, b in zip(one, other, strict=True)]


def _slopes(
    design: Design,
    losses: Sequence[Likelihood],
    at: Vectors,
    shape: tuple[int, int, int],
    block: Block,
    F: NDArray[np.float32] | None = None,
) -> Slopes:
    """Return the block's sums of the losses of functions (A, S, q), and of their slopes."""
    found = Slopes(np.zeros(shape[:2]), Weighed.zeros(*at.theta.shape), np.zeros(shape[:2]))
    for M, Y, W in design.parts(block, F):
        f = at.along(M).reshape(-1, *shape)
        slope = np.empty_like(f)
        for a, loss in enumerate(losses):
            found.value[a] += np.sum(W * loss.value(Y, f[:, a]), axis=0)
            slope[:, a] = W[:, :, None] * loss.slope(Y, f[:, a])
        if M.dtype == np.float32:
            found.rounding[:] += SINGLE * np.sum(np.abs(slope * (f - at.offset.reshape(shape))), axis=(0, 3))
        found.slope.gather(M, slope.reshape(len(f), -1))
    return found


def _products(
    design: Design,
    losses: Sequence[Likelihood],
    at: Vectors,
    p: Vectors,
    shape: tuple[int, int, int],
    block: Block,
    F: NDArray[np.float32] | None = None,
) -> Weighed:
    """Return the block's part of the curvatures of the losses at functions (A, S, q), times directions p."""
    found = Weighed.zeros(*at.theta.shape)
    for M, Y, W in design.parts(block, F):
        f, V = (vectors.along(M).reshape(-1, *shape) for vectors in (at, p))
        for a, loss in enumerate(losses):
            V[:, a] = W[:, :, None] * loss.bend(Y, f[:, a], V[:, a])
        found.gather(M, V.reshape(len(f), -1))
    return found


def _held_out(
    design: Design, at: Vectors, shape: tuple[int, int, int], block: Block, F: NDArray[np.float32] | None = None
) -> list[Floats]:
    """Return what systems predict for the rows that they test (m, A, T, q); zeros where a pattern has fewer."""
    systems = design.tested[block.fold]  # (m, T)
    f = [at.along(M).reshape(-1, *shape) for M, *_ in design.parts(block, F)]
    found = np.take_along_axis(np.concatenate(f), np.maximum(systems, 0)[:, None, :, None], axis=2)
    return [np.where(systems[:, None, :, None] >= 0, found, 0.0)]


def _fitted(design: Design, at: Vectors, block: Block, F: NDArray[np.float32] | None = None) -> list[Floats]:
    return [np.concatenate([at.along(M) for M, *_ in design.parts(block, F)])]


def _reference_grams(
    design: Design,
    anchors: Anchors,
    loss: Likelihood,
    constant: Floats,
    block: Block,
    F: NDArray[np.float32] | None = None,
) -> list[Floats]:
    curvature = loss.reference(block.Y / design.unit, constant)
    return _grams(design, _features(anchors, block, F), block, curvature)


def _curvature_grams(
    design: Design,
    anchors: Anchors,
    loss: Likelihood,
    at: Vectors,
    block: Block,
    F: NDArray[np.float32] | None = None,
) -> list[Floats]:
    curvature = loss.curvature(block.Y / design.unit, *_fitted(design, at, block, F))
    return _grams(design, _features(anchors, block, F), block, curvature)


def _features(anchors: Anchors, block: Block, F: NDArray[np.float32] | None) -> Values:
    return anchors.features(block.X, n_threads=1) if F is None else F


def _grams(design: Design, F: Values, block: Block, curvature: Floats) -> list[Floats]:
    """Return sums of w h (1, phi)(1, phi)' (r + 1, r + 1), lower triangles: of all rows, and of those held out."""
    Z = np.column_stack([np.ones(len(F)), F]) * np.sqrt(block.weight * curvature)[:, None]
    patterns, known = np.unique(block.fold), design.known[block.fold, :-1]
    if len(patterns) > known.shape[1]:  # many splits cut the rows into more parts than there are splits
        return [gram(Z[rows].T) for rows in (slice(None), *~known.T)]
    sums = [np.zeros((Z.shape[1],) * 2, order="F") for _ in design.known[0]]
    for pattern in patterns:
        found = gram(Z[block.fold == pattern].T)
        for number in (0, *(1 + np.flatnonzero(~design.known[pattern]))):
            sums[number] += found
    return sums


def _working_sums(
    design: Design,
    anchors: Anchors,
    at: Vectors,
    loss: Likelihood,
    density: float | None,
    block: Block,
    F: NDArray[np.float32] | None = None,
) -> Sums:
    Y = block.Y / design.unit
    (f,) = _fitted(design, at, block, F)
    z, h = working_at(loss, Y, f, density)
    return Sums.of(_features(anchors, block, F).astype(np.float64), z, block.weight * h)
