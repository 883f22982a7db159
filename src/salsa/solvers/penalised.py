"""Penalised likelihood on features: minimise sum_i W_i l(y_i, f_i) + alpha / 2 |theta|^2 over f = b + phi'theta.

The fits to all rows and without each fold are systems side by side, with the features of all rows and their own
weights W_s, which are zero for rows that are held out. Newton's method solves every system, its steps by conjugate
gradients: products with the features serve all systems at once. The preconditioner of a system is the factor of its
own rows, P_s = sum_i W_si h_i phi_i phi_i' + alpha I, with curvatures h near those of a good fit.

Orthogonal features have short columns too, which the penalty outweighs. The preconditioners take these for orthogonal
in every system: if their squared lengths are at most TAIL of alpha, this multiplies condition numbers by at most
(1 + t) / (1 - t), t^2 = TAIL / (1 + TAIL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import gram, triangular_solve
from salsa._utils.linalg import positive_factor
from salsa._utils.threads import thread_count
from salsa.data.rows import mapped
from salsa.data.splits import Fold
from salsa.losses import Likelihood

S = TypeVar("S")
T = TypeVar("T")

ROWS, SUMMED = 512, 4096  # rows of a block of products, few enough for the cache, and of a block of sums
TAIL = 0.05  # squared lengths of columns, times curvatures, as shares of alpha, below which they count as orthogonal
SLOW, MANY = 25, 6  # products of a Newton step, and steps, after which the preconditioners are computed again
NEAR = 0.51  # decades between penalties that share the factors of preconditioners
LEFT = 1e-3  # share of the squared residual that a Newton step leaves
FLAT = 1e-6  # least curvature along a direction, as a share of the preconditioner's: losses may be linear
DIVERGED = 1e12  # growth of the squared residual at which conjugate gradients have broken down by rounding errors
FLAT_OFFSET = 1e-3  # least curvature along the offset in preconditioners, as a share of the largest curvature
MOST_STEPS, MOST_PRODUCTS, MOST_HALVINGS = 100, 200, 40
HOLD = 1.0  # weight of an observation that holds the offset of a system without one of the classes
DESCENT = 1e-4  # share of the expected decrease that a step must reach


class Fits(NamedTuple):
    """Parameters theta (r, S, q) and offsets (S, q) of S systems, and whether all have converged."""

    theta: Floats
    offset: Floats
    converged: bool = True


class Systems:
    """The systems without each fold, and the system of all rows, which is the last of S.

    F: features (n, r), in float64 or float32. Blocks of products have their digits, all else has those of float64.

    lengths: the squared lengths (r,) of the columns of F, descending, if these are orthogonal with the weights w. The
    curvatures of the preconditioners follow a fit that takes many products: they are then those of that fit.
    """

    def __init__(
        self,
        F: NDArray[np.floating[Any]],
        Y: Floats,
        w: Floats,
        folds: Sequence[Fold],
        loss: Likelihood,
        *,
        lengths: Floats | None = None,
        threads: int | None = 1,
    ) -> None:
        self.F, self.Y, self.loss, self.lengths = F, Y, loss, lengths
        self.W = np.repeat(w[:, None], len(folds) + 1, axis=1)  # (n, S)
        for s, fold in enumerate(folds):
            self.W[fold.held_out, s] = 0.0
        self.hold = np.array([hold_of(loss, Y, weight) for weight in self.W.T])  # (S,)
        n, r = F.shape
        self.threads = thread_count(threads, n, r, self.W.shape[1])
        self.preconditioners = Preconditioners(self, loss.reference(Y, loss.constant(Y, w)))

    def start(self) -> Fits:
        """Return the best constants of the fit to all rows, with which all systems start."""
        constant = self.loss.constant(self.Y, self.W[:, -1])
        S, q = self.W.shape[1], self.Y.shape[1]
        return Fits(np.zeros((self.F.shape[1], S, q)), np.tile(constant, (S, 1)))

    def predict(self, fits: Fits) -> Floats:
        """Return f (n, S, q)."""
        return self._forward(np.concatenate([fits.offset[None], fits.theta]))

    def solve(self, alpha: float, start: Fits, tolerance: float, *, certain: bool = False) -> Fits:
        """Minimise from a start, until a Newton step promises to lower the mean loss by less than the tolerance.

        A preconditioner of far larger curvatures promises too little. If the result must be certain, the last step has
        the preconditioners of the result itself.
        """
        x = np.concatenate([start.offset[None], start.theta])
        penalty = np.full((len(x), self.W.shape[1], 1), alpha)
        penalty[0, :, 0] = self.hold
        centre = np.zeros_like(x)
        centre[0] = self.start().offset
        self.preconditioners.approach(alpha)
        total, f = self.W.sum(axis=0), self._forward(x)
        value = self._value(x - centre, f, penalty)
        for number in range(1, MOST_STEPS + 1):
            slope = self._back(self.loss.slope(self.Y[:, None], f)) + penalty * (x - centre)
            step, promised, products = self._newton_step(f, slope, penalty, tolerance * total)
            going = promised > tolerance * total
            if not going.any() and not certain:
                return Fits(x[1:], x[0])
            if not going.any() or products > SLOW or number % MANY == 0:  # preconditioners may be far from curvatures
                self.preconditioners = Preconditioners(self, self.loss.curvature(self.Y, f[:, -1]))
                self.preconditioners.approach(alpha)
            if not going.any():
                certain = False
                continue
            x, f, value, moved = self._descend(x - centre, f, value, step, np.where(going, promised, 0.0), penalty)
            x = x + centre
            if not moved:  # rounding errors are all that is left
                return Fits(x[1:], x[0], bool((promised <= 1e-6 * np.abs(value)).all()))
        return Fits(x[1:], x[0], False)

    def mapped(self, function: Callable[[S], T], items: Iterable[S]) -> Iterable[T]:
        """Yield the results in the order of the items, by as many threads as pay."""
        return map(function, items) if self.threads == 1 else mapped(function, items, self.threads)

    def _blocks(self) -> list[slice]:
        return [slice(start, start + ROWS) for start in range(0, len(self.F), ROWS)]

    def _forward(self, x: Floats) -> Floats:
        f = np.empty((len(self.F), *x.shape[1:]))

        def fill(rows: slice) -> None:
            f[rows] = along(rows)

        along = self._along(x)
        for _ in self.mapped(fill, self._blocks()):
            pass
        return f

    def _along(self, x: Floats) -> Callable[[slice], Floats]:
        """Return the function that gives b + phi'theta (m, S, q) for a block of rows."""
        flat, shape = x[1:].reshape(len(x) - 1, x[0].size).astype(self.F.dtype), x.shape[1:]
        return lambda rows: (self.F[rows] @ flat).reshape(-1, *shape) + x[0]

    def _back(self, V: Floats) -> Floats:
        """Return the sums over rows of W (1, phi) V' (r + 1, S, q), for V (n, S, q)."""
        return self._sum(lambda rows: V[rows])

    def _bend(self, f: Floats, x: Floats) -> Floats:
        """Return the curvatures of the losses times the direction x: its features are read once, block by block."""
        along = self._along(x)
        return self._sum(lambda rows: self.loss.bend(self.Y[rows, None], f[rows], along(rows)))

    def _sum(self, value: Callable[[slice], Floats]) -> Floats:
        """Return the sums over rows of W (1, phi) v', with the values v (m, S, q) of a block of rows."""
        S, q = self.W.shape[1], self.Y.shape[1]
        total = np.zeros((self.F.shape[1] + 1, S, q))

        def part(rows: slice) -> Floats:
            V = self.W[rows, :, None] * value(rows)
            sums = self.F[rows].T @ V.reshape(-1, S * q).astype(self.F.dtype)
            return np.concatenate([V.sum(axis=0)[None], sums.reshape(-1, S, q)])

        for sums in self.mapped(part, self._blocks()):
            total += sums
        return total

    def _value(self, x: Floats, f: Floats, penalty: Floats) -> Floats:
        """Return the penalised losses (S,)."""
        losses = np.sum(self.W * self.loss.value(self.Y[:, None], f), axis=0)
        value: Floats = losses + 0.5 * np.sum(penalty * x**2, axis=(0, 2))
        return value

    def _newton_step(self, f: Floats, slope: Floats, penalty: Floats, least: Floats) -> tuple[Floats, Floats, int]:
        return newton_step(lambda p: self._bend(f, p) + penalty * p, self.preconditioners.solve, slope, least)

    def _descend(
        self, x: Floats, f: Floats, value: Floats, step: Floats, promised: Floats, penalty: Floats
    ) -> tuple[Floats, Floats, Floats, bool]:
        """Go along the steps of systems that promise something, halved until the losses fall."""
        size, df = (promised > 0).astype(np.float64), self._forward(step)
        for _ in range(MOST_HALVINGS):
            moved, f_moved = x + size[:, None] * step, f + size[:, None] * df
            found = self._value(moved, f_moved, penalty)
            short = ~(found <= value - DESCENT * size * promised) & (size > 0)
            if not short.any():
                return moved, f_moved, found, bool(size.any())
            size = np.where(short, 0.5 * size, size)
        size = np.where(short, 0.0, size)
        moved, f_moved = x + size[:, None] * step, f + size[:, None] * df
        return moved, f_moved, self._value(moved, f_moved, penalty), bool(size.any())


class Preconditioners:
    """Factors of P_s of every system, for curvatures (n,) and a penalty near the last one that was asked for."""

    def __init__(self, systems: Systems, curvature: Floats) -> None:
        self.systems, self.curvature = systems, curvature
        self.alpha, self.lead = 1e-300, -1  # no penalty yet, and no sums

    def approach(self, alpha: float) -> None:
        """Take the penalty alpha, unless the present one is near."""
        if abs(np.log10(alpha / self.alpha)) <= NEAR:
            return
        self.alpha, lead = alpha, self._lead(alpha)
        if lead > self.lead:
            self.lead, self.grams = lead, self._grams(lead)
        self.factors = list(self.systems.mapped(self._factor, range(len(self.grams))))
        lengths = self.systems.lengths
        self.tail = np.array([alpha]) if lengths is None else alpha + self.curvature.mean() * lengths[self.lead :]

    def solve(self, r: Floats) -> Floats:
        """Return P_s^-1 r (r + 1, S, q) of every system, approximately."""
        out, lead = np.empty_like(r), self.lead + 1
        out[lead:] = r[lead:] / self.tail[:, None, None]

        def solved(s: int) -> Floats:
            half = triangular_solve(self.factors[s], np.array(r[:lead, s], order="F"))
            return triangular_solve(self.factors[s], half, transposed=True)

        for s, found in enumerate(self.systems.mapped(solved, range(len(self.factors)))):
            out[:lead, s] = found
        return out

    def _lead(self, alpha: float) -> int:
        """Return the number of columns that the factors hold."""
        lengths, r = self.systems.lengths, self.systems.F.shape[1]
        if lengths is None:
            return int(r)
        return int(np.sum(self.curvature.max() * lengths > TAIL * alpha))

    def _factor(self, s: int) -> Floats:
        A = self.grams[s].copy()
        A[0, 0] = max(A[0, 0], FLAT_OFFSET * (self.curvature.max() or 1.0) * self.systems.W[:, s].sum())
        A.flat[len(A) + 1 :: len(A) + 1] += self.alpha
        return positive_factor(A)

    def _grams(self, lead: int) -> list[Floats]:
        """Return the upper triangles of P_s without alpha, (lead + 1, lead + 1); the intercept comes first."""
        F, W = self.systems.F[:, :lead], self.systems.W
        weight, S = W[:, -1] * self.curvature, W.shape[1]
        kinds, kind = np.unique(W[:, :-1] > 0, axis=0, return_inverse=True)  # rows that the same systems have
        grams = [np.zeros((lead + 1, lead + 1)) for _ in range(S)]
        for number, has in enumerate(kinds):
            found = self._gram(F, weight, np.flatnonzero(kind.ravel() == number))
            for s in np.flatnonzero(np.append(has, True)):
                grams[s] += found
        return grams

    def _gram(self, F: NDArray[np.floating[Any]], weight: Floats, rows: Places) -> Floats:
        """Return the upper triangle of sum_i weight_i (1, phi_i) (1, phi_i)' over some rows, with zeros below."""

        def part(block: Places) -> Floats:
            Z = np.column_stack([np.ones(len(block)), F[block]]) * np.sqrt(weight[block])[:, None]
            return gram(Z.T)

        blocks = [rows[start : start + SUMMED] for start in range(0, len(rows), SUMMED)]
        total = np.zeros((F.shape[1] + 1,) * 2, order="F")
        for sums in self.systems.mapped(part, blocks):
            total += sums
        return total.T


def newton_step(
    times: Callable[[Floats], Floats], precondition: Callable[[Floats], Floats], slope: Floats, least: Floats
) -> tuple[Floats, Floats, int]:
    """Return steps by conjugate gradients, by how much they promise to lower the losses (S,), and the products.

    `times` multiplies with the curvatures of the systems. A step is good enough when the preconditioned residual is
    small relative to its start, or to `least` (S,).
    """
    d, r = np.zeros_like(slope), -slope
    z = precondition(r)
    p, rz = z, _dots(r, z)
    enough, most = np.maximum(LEFT * rz, 0.1 * least), DIVERGED * rz
    products = 0
    while products < MOST_PRODUCTS:
        products += 1
        Hp = times(p)
        curvature = _dots(p, Hp)
        flat = curvature < FLAT * rz  # a step along such a direction is long, and the last one
        curvature = np.maximum(curvature, FLAT * rz)
        a = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)[:, None]
        d, r = d + a * p, r - a * Hp
        z = precondition(r)
        new = np.where(flat, 0.0, _dots(r, z))
        if (new <= enough).all() or not (new <= most).all():
            break
        p, rz = z + np.divide(new, rz, out=np.zeros_like(rz), where=rz > 0)[:, None] * p, new
    return d, -_dots(slope, d), products


def hold_of(loss: Likelihood, Y: Floats, w: Floats) -> float:
    """Return 0, or HOLD where the best offset is infinite: a fold can hold all rows of a rare class, or all counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.0 if np.isfinite(loss.constant(Y, w)).all() else HOLD


def _dots(a: Floats, b: Floats) -> Floats:
    """Return the inner products (S,) of every system."""
    dots: Floats = np.einsum("rsq,rsq->s", a, b)
    return dots
