"""Penalised likelihood on the kernel matrix: minimise sum_i W_i l(y_i, f_i) + alpha / 2 c'Kc over f = b + K c.

The fits without each fold and the fit to all rows are systems side by side, with weights W_s that are zero for rows
that are held out; a product with K serves all systems. Newton's method solves them. With the slopes g = W l'(f), the
roots of curvatures t = sqrt(W l''(f)), T = diag(t), and the residual rho = g + alpha c, a Newton step is

    d = T zeta - rho / alpha,   (T K T + alpha I) zeta + t b = T K rho / alpha,   t'zeta - kappa b = 1'g / alpha,

which divides by no curvature: rows without any have zeta = 0. Conjugate gradients solve for zeta and the step b of the
offset. Half of the squared norm of their residual bounds what a step leaves of the decrease of Newton's model. Steps
are halved until the penalised losses fall.

The preconditioner has K ~ F F' of anchors and roots of curvatures R, within a factor CHANGED of T where the sums over
rows are not brought up to date: M = D (R F F'R + alpha I) D, D = T / R. An offset without a finite best value is held
by kappa = hold / alpha (``penalised.hold_of``); otherwise kappa is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrs

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import gram
from salsa._utils.linalg import positive_factor
from salsa.data.rows import mapped
from salsa.data.splits import Fold
from salsa.losses import Likelihood
from salsa.solvers.penalised import DESCENT, MOST_HALVINGS, MOST_PRODUCTS, MOST_STEPS, hold_of
from salsa.solvers.systems import ROWS, from_features, ratio, times_features

CHANGED = 2.0  # factor of a curvature beyond which preconditioners follow
LEFT = 0.01  # share of the promised decrease that a Newton step may leave
STALLED = 3  # steps that promise no less than before, after which rounding errors are all that is left
MOST_CORRECTIONS = 5
EXACT, UNSETTLED = 1e-7, 1e-4  # changes of f in float64, as shares of its size, that end corrections, or need a note

Times = Callable[[Floats], Floats]  # V (S, n) -> the products of a matrix (n, n) with its rows


class Duals(NamedTuple):
    """Coefficients (S, n), offsets (S,) and functions f (S, n) of S systems, and whether all have converged."""

    coef: Floats
    offset: Floats
    f: Floats
    converged: bool = True

    def moved(self, step: Duals, size: Floats) -> Duals:
        """Return the point after steps of these sizes (S,); a step of size zero need not be finite."""
        coef, offset, f = (
            np.where(some > 0, x + some * dx, x)
            for x, dx in zip(self[:3], step[:3], strict=True)
            for some in [size.reshape(-1, *[1] * (x.ndim - 1))]
        )
        return Duals(coef, offset, f)


class KernelSystems:
    """The systems without each fold, and the system of all rows, which is the last of S."""

    def __init__(
        self, times: Times, F: Floats, Y: Floats, w: Floats, folds: Sequence[Fold], loss: Likelihood, threads: int
    ) -> None:
        """Take features F (n, r) of anchors, the product with K - F F', and targets Y (n, 1)."""
        self.rest, self.Y, self.loss = times, Y, loss
        self.W = np.tile(w, (len(folds) + 1, 1))  # (S, n)
        for s, fold in enumerate(folds):
            self.W[s, fold.held_out] = 0.0
        self.total = self.W.sum(axis=1)
        self.hold = np.array([hold_of(loss, Y, weight) for weight in self.W])  # (S,)
        self.centre = float(loss.constant(Y, w)[0])
        self.preconditioners = Preconditioners(F, len(self.W), threads)

    @np.errstate(over="ignore", invalid="ignore")  # functions that are not finite have no lower loss
    def begin(self, f: Floats, offset: Floats, alpha: float, tolerance: float) -> Duals:
        """Return the ends of Newton steps from functions f (S, n) with these offsets (S,), whatever their norms.

        Where a constant has a lower penalised loss, it is returned.
        """
        self.preconditioners.renew(self.W, self.loss.curvature(self.Y, f[-1, :, None]))
        none = Duals(np.zeros_like(f), offset, f)
        step, _ = NewtonSystem(self, alpha, none, offset[:, None] - f).step(tolerance * self.total, 0.0)
        found = Duals(step.coef, offset + step.offset, step.f + offset[:, None])
        constant = Duals(none.coef, np.full_like(offset, self.centre), np.full_like(f, self.centre))
        good = self.value(found, alpha) < self.value(constant, alpha)
        coef, f = (np.where(good[:, None], *pair) for pair in ((found.coef, constant.coef), (found.f, constant.f)))
        return Duals(coef, np.where(good, found.offset, constant.offset), f)

    def times(self, V: Floats) -> Floats:
        """Return K v (S, n)."""
        return self.preconditioners.kernel(V) + self.rest(V)

    def slope(self, f: Floats) -> Floats:
        """Return W l'(f) (S, n)."""
        return self.W * self.of_loss(self.loss.slope, f)

    def of_loss(self, function: Callable[..., Floats], f: Floats, *more: Floats) -> Floats:
        """Return what a function of targets and predictions gives for f (S, n)."""
        values = function(self.Y[:, None], *(x.T[:, :, None] for x in (f, *more)))
        return values.reshape(f.T.shape).T

    def value(self, now: Duals, alpha: float) -> Floats:
        """Return the penalised losses (S,)."""
        losses = np.sum(self.W * self.of_loss(self.loss.value, now.f), axis=1)
        norm = _dots(now.coef, now.f - now.offset[:, None])
        value: Floats = losses + 0.5 * alpha * norm + 0.5 * self.hold * (now.offset - self.centre) ** 2
        return value

    @np.errstate(over="ignore", invalid="ignore")  # steps that are not finite are halved, or end in a note
    def solve(self, alpha: float, start: Duals, tolerance: float) -> Duals:
        """Minimise from a start, until a Newton step promises to lower the mean losses by less than the tolerance."""
        now, value, least = start, self.value(start, alpha), tolerance * self.total
        fewest, waited = np.inf, 0
        for _ in range(MOST_STEPS):
            step, promised = NewtonSystem(self, alpha, now).step(0.1 * least, LEFT)
            going = ~(np.abs(promised) <= least)  # also where rounding errors have led to NaN
            change = float(np.max(np.abs(promised) / np.maximum(value, np.finfo(float).tiny)))
            if not going.any():
                return now._replace(converged=True)
            waited = 0 if change < 0.5 * fewest else waited + 1
            fewest = min(fewest, change)
            now, value, moved = self._descend(alpha, now, value, step, np.where(going, promised, 0.0))
            if not moved or (waited >= STALLED and change <= 1e-6):
                return now._replace(converged=change <= 1e-6)
        return now._replace(converged=False)

    def corrected(self, alpha: float, now: Duals, in_double: Times, tolerance: float) -> Duals:
        """Return the minimum for products with K in float64: functions are computed again until they stay the same."""
        change = np.inf
        for _ in range(MOST_CORRECTIONS):
            f = in_double(now.coef) + now.offset[:, None]
            change = float(np.abs(f - now.f).max() / (np.abs(f).max() or 1.0))
            now = now._replace(f=f)
            if change <= EXACT:
                break
            now = self.solve(alpha, now, tolerance)
        return now._replace(converged=now.converged and change <= UNSETTLED)

    def _descend(
        self, alpha: float, now: Duals, value: Floats, step: Duals, promised: Floats
    ) -> tuple[Duals, Floats, bool]:
        """Go along the steps of systems that promise something, halved until the penalised losses fall."""
        size = (promised > 0).astype(np.float64)
        for _ in range(MOST_HALVINGS):
            moved = now.moved(step, size)
            found = self.value(moved, alpha)
            short = ~(found <= value - DESCENT * size * promised) & (size > 0)
            if not short.any():
                return moved, found, bool(size.any())
            size = np.where(short, 0.5 * size, size)
        size = np.where(short, 0.0, size)
        moved = now.moved(step, size)
        return moved, self.value(moved, alpha), bool(size.any())


class NewtonSystem:
    """The Newton steps of all systems at the present functions.

    gap (S, n) or 0: by how much b + K c of the present coefficients and offsets exceeds the present functions.
    """

    def __init__(self, systems: KernelSystems, alpha: float, now: Duals, gap: Floats | float = 0.0) -> None:
        self.systems, self.alpha, self.gap = systems, alpha, gap
        slope = systems.slope(now.f)
        self.rho = slope + alpha * now.coef
        self.along = slope.sum(axis=1) + systems.hold * (now.offset - systems.centre)  # (S,), the slopes of offsets
        square = systems.W * np.maximum(systems.of_loss(systems.loss.bend, now.f, np.ones_like(now.f)), 0.0)
        self.t = np.sqrt(square)
        systems.preconditioners.follow(square, alpha)
        self.Mt = systems.preconditioners.solve(self.t, self.t)
        self.level = _dots(self.t, self.Mt) + systems.hold / alpha

    def step(self, enough: Floats, share: float) -> tuple[Duals, Floats]:
        """Return the steps, and by how much they promise to lower the losses (S,).

        They leave at most `enough` (S,) of these decreases, or this share.
        """
        times, alpha, rho, t = self.systems.times, self.alpha, self.rho, self.t
        known = self.systems.preconditioners.kernel(rho / alpha)
        zeta, b = self._constrained(t * (known - self.gap), self.along / alpha)
        d = t * zeta - rho / alpha
        image = times(d)
        left = -t * (image + b[:, None] + self.gap) - alpha * zeta
        p, pb = self._constrained(left)
        now = _dots(left, p)
        for _ in range(MOST_PRODUCTS):
            promised = -_dots(rho, image) - self.along * b
            if (_dots(left, left) <= np.maximum(enough, share * promised)).all():
                break
            tp = t * p
            Kp = times(tp)
            curved = t * (Kp + pb[:, None]) + alpha * p
            a = ratio(now, _dots(p, curved))
            d, image, b, left = d + _by(a, tp), image + _by(a, Kp), b + a * pb, left - _by(a, curved)
            z, zb = self._constrained(left)
            before, now = now, _dots(left, z)
            p, pb = z + _by(ratio(now, before), p), zb + ratio(now, before) * pb
        return Duals(d, b, image + b[:, None]), promised

    def _constrained(self, r: Floats, s: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return z (S, n) and b (S,) with M z + t b = r and t'z - kappa b = s."""
        b = ratio(_dots(self.Mt, r) - s, self.level)
        return self.systems.preconditioners.solve(r, self.t) - _by(b, self.Mt), b


class Preconditioners:
    """M = D (R F F'R + alpha I) D of every system, with features F (n, r) and sums over rows that follow curvatures."""

    def __init__(self, F: Floats, count: int, threads: int) -> None:
        self.F, self.threads = F, threads
        self.square = np.zeros((count, len(F)))  # R^2
        self.grams = [np.zeros((F.shape[1],) * 2) for _ in range(count)]
        self.factors: dict[int, Floats] = {}
        self.alpha = 0.0

    def renew(self, W: Floats, curvature: Floats) -> None:
        """Begin with curvatures (n,) that all systems share, whose weights are W (S, n)."""
        self.square, self.factors = (W > 0) * (W[-1] * curvature), {}
        kinds, number = np.unique(W[:-1] > 0, axis=1, return_inverse=True)
        number, r = number.ravel(), self.F.shape[1]  # NumPy 2.0 gives another shape
        self.grams = [np.zeros((r, r)) for _ in W]
        for kind, has in enumerate(kinds.T):
            rows = np.flatnonzero(number == kind)
            found = self._gram(rows, self.square[-1, rows])
            for s in np.flatnonzero(np.append(has, True)):
                self.grams[s] += found

    def follow(self, square: Floats, alpha: float) -> None:
        """Take the squares T^2 (S, n) of rows where these differ by the factor CHANGED, and the penalty alpha."""
        if alpha != self.alpha:
            self.alpha, self.factors = alpha, {}
        for s, (new, old) in enumerate(zip(square, self.square, strict=True)):
            rows = np.flatnonzero((new > CHANGED * old) | (CHANGED * new < old))
            change = new[rows] - old[rows]
            for sign in (1.0, -1.0):
                some = sign * change > 0
                if some.any():
                    self.grams[s] += sign * self._gram(rows[some], sign * change[some])
                    self.factors.pop(s, None)
            old[rows] = new[rows]
        self.root = np.sqrt(self.square)

    def solve(self, r: Floats, t: Floats) -> Floats:
        """Return M^-1 r (S, n), with the present roots t of curvatures."""
        D = np.divide(t, self.root, out=np.ones_like(t), where=self.root > 0)
        v = r / D
        sums = times_features(self.root * v, self.F, self.threads)
        inner = np.array([dpotrs(self._factor(s), sums[s], lower=1)[0] for s in range(len(sums))])
        v -= self.root * from_features(inner, self.F, self.threads)
        v /= self.alpha * D
        return v

    def kernel(self, V: Floats) -> Floats:
        """Return the products F F'v (S, n)."""
        return from_features(times_features(V, self.F, self.threads), self.F, self.threads)

    def _factor(self, s: int) -> Floats:
        if s not in self.factors:
            self.factors[s] = positive_factor(self.grams[s] + self.alpha * np.eye(len(self.grams[s])))
        return self.factors[s]

    def _gram(self, rows: Places, weight: Floats) -> Floats:
        """Return the sum of weight phi phi' over some rows: blocks in a fixed order, whatever the threads."""

        def part(start: int) -> Floats:
            some = slice(start, start + ROWS)
            return gram((self.F[rows[some]] * np.sqrt(weight[some])[:, None]).T)

        total = np.zeros((self.F.shape[1],) * 2, order="F")
        for sums in mapped(part, range(0, len(rows), ROWS), self.threads):
            total += sums
        return total + np.tril(total, -1).T


def _by(a: Floats, V: Floats) -> Floats:
    """Return every row of V (S, n) times its number of a (S,)."""
    return a[:, None] * V


def _dots(a: Floats, b: Floats) -> Floats:
    """Return the inner products (S,) of every system."""
    dots: Floats = np.einsum("sn,sn->s", a, b)
    return dots
