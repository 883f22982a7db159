"""Ridge systems that differ in their rows, penalties and targets, solved side by side by conjugate gradients.

In whitened coordinates (``salsa.data.noise``), with u = T 1 and m the rows of a system,

    m (T K T' + alpha I) m z = m (T y - b u),   u'z = 0,

where b is the unpenalised offset. A product with K serves all systems at once. The preconditioner has K ~ F F' of a few
anchors, with the rows and the penalty of each system:

    M^-1 v = (v - F (C + alpha I)^-1 F'v) / alpha,   C = F'F over these rows,

in float64, because it subtracts nearly equal numbers. A residual r is taken as r - b u with b = w'r / w'u, w = M^-1 u:
then every direction keeps u'z = 0, and b adds up to the offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrs

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import gram
from salsa._utils.linalg import positive_factor
from salsa._utils.progress import Told, unheard
from salsa.data.noise import Noise
from salsa.data.rows import mapped

ROWS = 4096  # rows of a block of F
STALLED = 100  # iterations without a smaller residual that end a solve: float32 has no more digits
SETTLED, RECENT = 0.02, 4  # held-out predictions are settled if they move so little in so many iterations
WHOLE = -1  # the part of a system of all rows

Times = Callable[[Floats], Floats]  # V (c, n) -> the products K v (c, n)
Iterated = Callable[[int, float], None]  # gets the number of iterations so far, and the largest relative residual


class Systems(NamedTuple):
    """Systems (c): the part of the rows that each solves, its penalty, and its whitened targets (c, n)."""

    part: Places
    alpha: Floats
    target: Floats

    def some(self, chosen: NDArray[np.bool_] | Places) -> Systems:
        return Systems(self.part[chosen], self.alpha[chosen], self.target[chosen])


class Solved(NamedTuple):
    """Solutions z and products K T'z, both (c, n), offsets (c,), relative residuals (c,), and whether each is done."""

    z: Floats
    fitted: Floats
    offset: Floats
    residual: Floats
    done: NDArray[np.bool_]
    iterations: int


@dataclass(eq=False)
class Parts:
    """Parts of the rows, and the preconditioners of systems on them; F (n, r) are whitened features of all rows.

    A row is in a part where its mask (parts, n) is true.
    """

    F: Floats
    noise: Noise
    mask: NDArray[np.bool_]
    threads: int
    told: Told = unheard
    grams: list[Floats] = field(init=False)
    factors: dict[tuple[int, float], Floats] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._masks = np.vstack([self.mask, np.ones(self.mask.shape[1], dtype=bool)])  # all rows last
        kinds, number = np.unique(self.mask, axis=1, return_inverse=True)
        number = number.ravel()  # NumPy 2.0 gives another shape
        self._summed = 0
        self.told(0.0)
        sums = [self._gram(np.flatnonzero(number == kind)) for kind in range(kinds.shape[1])]
        self.grams = [sum((sums[kind] for kind in np.flatnonzero(part)), np.zeros_like(sums[0])) for part in kinds]
        self.grams.append(sum(sums, np.zeros_like(sums[0])))

    @property
    def gram(self) -> Floats:
        """F'F (r, r) over all rows."""
        return self.grams[WHOLE]

    def rows(self, part: Places) -> NDArray[np.bool_]:
        """Return the masks (c, n) of these parts."""
        return self._masks[part]

    def precondition(self, systems: Systems, V: Floats) -> Floats:
        """Return M^-1 v (c, n) of every row v of V (c, n), which is zero outside the rows of its system."""
        inner = times_features(V, self.F, self.threads)
        for part, alpha in {(int(p), float(a)) for p, a in zip(systems.part, systems.alpha, strict=True)}:
            same = (systems.part == part) & (systems.alpha == alpha)
            inner[same] = dpotrs(self._factor(part, alpha), inner[same].T, lower=1)[0].T
        out = V - from_features(inner, self.F, self.threads) * self.rows(systems.part)
        out /= systems.alpha[:, None]
        return out

    def smoother_trace(self, alpha: float, e: Floats, z: Floats) -> float:
        """Estimate the trace of the smoother I - alpha G of all rows, from z = G e (n,) for random signs e (n,).

        With M_c^-1 = M^-1 - w w' / w'u in the place of G the trace is known; e'(M_c^-1 - G) e estimates the difference.
        """
        L, all_rows = self._factor(WHOLE, alpha), np.full(2, WHOLE)
        pair = np.vstack([self.noise.ones, e])
        w, other = self.precondition(Systems(all_rows, np.full(2, alpha), pair), pair)
        wu = float(w @ self.noise.ones)
        inverse = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
        known = len(L) - alpha * float(np.sum(inverse**2)) + alpha * float(w @ w) / wu
        return known + alpha * float(e @ (other - w * (w @ e) / wu - z))

    def forget(self) -> None:
        """Forget the factors of penalties that were tried."""
        self.factors.clear()

    def _factor(self, part: int, alpha: float) -> Floats:
        if (part, alpha) not in self.factors:
            self.factors[part, alpha] = positive_factor(self.grams[part] + alpha * np.eye(len(self.gram)))
        return self.factors[part, alpha]

    def _gram(self, rows: Places) -> Floats:
        """Return F'F over some rows: blocks in a fixed order, so that threads do not change the bits."""
        blocks = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        total = np.zeros((self.F.shape[1],) * 2, order="F")
        products = mapped(lambda block: gram(np.ascontiguousarray(self.F[block]).T), blocks, self.threads)
        for block, part in zip(blocks, products, strict=True):
            total += part
            self._summed += len(block)
            self.told(self._summed / len(self.F))
        return total + np.tril(total, -1).T


def times_features(V: Floats, F: Floats, threads: int) -> Floats:
    """Return V F (c, r), the rows of F in blocks."""
    out = np.zeros((len(V), F.shape[1]))
    for part in mapped(lambda rows: V[:, rows] @ F[rows], _blocks(F), threads):
        out += part
    return out


def from_features(S: Floats, F: Floats, threads: int) -> Floats:
    """Return S F' (c, n), the rows of F in blocks."""
    return np.hstack(list(mapped(lambda rows: S @ F[rows].T, _blocks(F), threads)))


def _blocks(F: Floats) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, len(F), ROWS)]


def solve_systems(
    times: Times,
    parts: Parts,
    systems: Systems,
    start: Floats | None,
    tolerance: float,
    most: int,
    told: Iterated = unheard,
) -> Solved:
    """Solve every system until its residual falls by the factor `tolerance` and its held-out predictions settle.

    The residual of z = 0 counts as one. A small residual alone says little of rows outside the system: with a small
    alpha, their predictions may still move. They are settled if they move by at most SETTLED of their root mean square
    error in RECENT iterations. A system that is done leaves the products; `most` iterations, or STALLED without a
    smaller residual, end the others, of which the iterate with the least residual is returned. `start` (c, n) are first
    solutions with u'z = 0, zero outside the rows of their systems.
    """
    iteration = _Iteration(times, parts, systems, start)
    while len(live := iteration.live(tolerance)) and iteration.count < most:
        iteration.advance(live)
        told(iteration.count, float(iteration.left.max()))
    return iteration.solved(tolerance)


class _Iteration:
    """The state of conjugate gradients for all systems."""

    def __init__(self, times: Times, parts: Parts, systems: Systems, start: Floats | None) -> None:
        self.times, self.parts, self.systems, self.noise = times, parts, systems, parts.noise
        c, n = systems.target.shape
        self.mask = parts.rows(systems.part)
        self.u = self.mask * self.noise.ones
        self.w = parts.precondition(systems, self.u)
        self.uw = np.sum(self.u * self.w, axis=1)
        self.held_out = (~self.mask).sum(axis=1)
        every = np.arange(c)
        self.z, self.fitted, self.count = np.zeros((c, n)), np.zeros((c, n)), 0
        residual, _ = self._centred(self.mask * systems.target, every)
        self.size = np.maximum(np.linalg.norm(residual, axis=1), np.finfo(float).tiny)
        if start is not None and start.any():
            self._begin(start)
        self.residual, self.offset = self._centred(self._whole_residual(), every)
        self.left = np.linalg.norm(self.residual, axis=1) / self.size
        self.since, self.direction, self.before = np.zeros(c, dtype=int), np.zeros((c, n)), np.zeros(c)
        self.moves = np.full((RECENT, c), np.inf)
        self.moves[:, (self.left == 0) | (self.held_out == 0)] = 0.0
        self.best = self.left.copy()
        self.kept = self.z.copy(), self.fitted.copy(), self.offset.copy()

    def live(self, tolerance: float) -> Places:
        """Return the systems that are neither done nor stalled."""
        return np.flatnonzero(~self._done(tolerance) & (self.since < STALLED))

    def advance(self, live: Places) -> None:
        """Do one iteration for some systems."""
        self.count += 1
        chosen, noise, mask = self.systems.some(live), self.noise, self.mask[live]
        s = self.parts.precondition(chosen, self.residual[live])
        now = np.sum(self.residual[live] * s, axis=1)
        direction = s + ratio(now, self.before[live])[:, None] * self.direction[live]
        image = self.times(noise.transpose_rows(direction.copy()))
        white = noise.whiten_rows(image)
        curved = mask * white + chosen.alpha[:, None] * direction
        step = ratio(now, np.sum(direction * curved, axis=1))[:, None]
        self.direction[live], self.before[live] = direction, now
        self.z[live] += step * direction
        self.fitted[live] += step * image
        self.residual[live], moved = self._centred(self.residual[live] - step * curved, live)
        self.offset[live] += moved
        self.left[live] = np.linalg.norm(self.residual[live], axis=1) / self.size[live]
        self.moves[self.count % RECENT, live] = self._moved(live, ~mask * (step * white + np.outer(moved, noise.ones)))
        self._keep(live)

    def solved(self, tolerance: float) -> Solved:
        """Return the solutions that are done, and of the other systems the iterates with the least residuals."""
        done = self._done(tolerance)
        parts = zip((self.z, self.fitted, self.offset), self.kept, strict=True)
        z, fitted, offset = (np.where(done.reshape(-1, *[1] * (now.ndim - 1)), now, kept) for now, kept in parts)
        return Solved(z, fitted, offset, np.where(done, self.left, self.best), done, self.count)

    def _begin(self, start: Floats) -> None:
        """Start from these solutions where they are better than zeros."""
        z, fitted = start, self.times(self.noise.transpose_rows(start.copy()))
        self.z, self.fitted = z, fitted
        residual = self._centred(self._whole_residual(), np.arange(len(z)))[0]
        good = (np.linalg.norm(residual, axis=1) < self.size)[:, None]
        self.z, self.fitted = np.where(good, z, 0.0), np.where(good, fitted, 0.0)

    def _whole_residual(self) -> Floats:
        white = self.systems.target - self.noise.whiten_rows(self.fitted)
        residual: Floats = self.mask * white - self.systems.alpha[:, None] * self.z
        return residual

    def _centred(self, residual: Floats, live: Places) -> tuple[Floats, Floats]:
        """Return the residuals of some systems without the offset that they call for, and this offset."""
        b = np.sum(self.w[live] * residual, axis=1) / self.uw[live]
        return residual - b[:, None] * self.u[live], b

    def _moved(self, live: Places, change: Floats) -> Floats:
        """Return by how much held-out predictions moved, relative to their root mean square error; 0 without any."""
        white = self.systems.target[live] - self.noise.whiten_rows(self.fitted[live])
        error = ~self.mask[live] * (white - np.outer(self.offset[live], self.noise.ones))
        return ratio(np.linalg.norm(change, axis=1), np.linalg.norm(error, axis=1))

    def _done(self, tolerance: float) -> NDArray[np.bool_]:
        settled = (self.held_out == 0) | (self.moves.sum(axis=0) <= SETTLED)
        done: NDArray[np.bool_] = (self.left <= tolerance) & settled
        return done

    def _keep(self, live: Places) -> None:
        """Remember the iterates of systems whose residuals are the least so far."""
        better = live[self.left[live] < self.best[live]]
        self.since[live] += 1
        self.since[better], self.best[better] = 0, self.left[better]
        for kept, now in zip(self.kept, (self.z, self.fitted, self.offset), strict=True):
            kept[better] = now[better]


def ratio(a: Floats, b: Floats) -> Floats:
    """Return a / b; 0 for a system that is solved (b = 0)."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
