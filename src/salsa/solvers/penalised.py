"""Penalised likelihood on features: minimise sum_i W_i l(y_i, f_i) + alpha / 2 |theta|^2 over f = phi'theta + b.

The fits to all rows and without each fold are systems side by side, with the features of all rows and their own
weights W_s, which are zero for rows that are held out. Newton's method solves every system, its steps by conjugate
gradients: products with the features serve all systems at once. The preconditioner of a system is the factor of its
own rows, P_s = sum_i W_si h_i phi_i phi_i' + alpha I, with curvatures h near those of a good fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from salsa._utils.arrays import Floats
from salsa._utils.lapack import gram
from salsa._utils.linalg import positive_factor
from salsa.data.splits import Fold
from salsa.losses import Likelihood

SLOW, MANY = 25, 6  # products of a Newton step, and steps, after which the preconditioners are computed again
NEAR = 0.51  # decades between penalties that share the factors of preconditioners
LEFT = 1e-3  # share of the squared residual that a Newton step leaves
MOST_STEPS, MOST_PRODUCTS, MOST_HALVINGS = 100, 200, 40
HOLD = 1.0  # weight of an observation that holds the offset of a system without one of the classes
DESCENT = 1e-4  # share of the expected decrease that a step must reach


class Fits(NamedTuple):
    """Parameters theta (r, S, q) and offsets (S, q) of S systems, and whether all have converged."""

    theta: Floats
    offset: Floats
    converged: bool = True


class Systems:
    """The systems without each fold, and the system of all rows, which is the last of S; features F (n, r).

    The curvatures of the preconditioners follow a fit that takes many products: they are then those of that fit.
    """

    def __init__(self, F: Floats, Y: Floats, w: Floats, folds: Sequence[Fold], loss: Likelihood) -> None:
        self.F, self.Y, self.loss, self.folds = F, Y, loss, folds
        self.W = np.repeat(w[:, None], len(folds) + 1, axis=1)  # (n, S)
        for s, fold in enumerate(folds):
            self.W[fold.held_out, s] = 0.0
        self.hold = np.array([_hold(loss, Y, weight) for weight in self.W.T])  # (S,)
        self.grams = self._grams(loss.reference(Y, w))
        self.factored = 1e-300, list[Floats]()  # a penalty, none at first, and the factors of preconditioners there

    def _grams(self, curvature: Floats) -> list[Floats]:
        """Return the upper triangles of P_s without alpha, (r + 1, r + 1); the intercept comes last."""
        weight = self.W[:, -1] * curvature
        total = _gram(self.F, weight)
        return [*(total - _gram(self.F[out], weight[out]) for out, _ in self.folds), total]

    def start(self) -> Fits:
        """Return the best constants of the fit to all rows, with which all systems start."""
        constant = self.loss.constant(self.Y, self.W[:, -1])
        S, q = self.W.shape[1], self.Y.shape[1]
        return Fits(np.zeros((self.F.shape[1], S, q)), np.tile(constant, (S, 1)))

    def predict(self, fits: Fits) -> Floats:
        """Return f (n, S, q)."""
        return self._forward(np.concatenate([fits.theta, fits.offset[None]]))

    def solve(self, alpha: float, start: Fits, tolerance: float, *, certain: bool = False) -> Fits:
        """Minimise from a start, until a Newton step promises to lower the mean loss by less than the tolerance.

        A preconditioner of far larger curvatures promises too little. If the result must be certain, the last step has
        the preconditioners of the result itself.
        """
        x = np.concatenate([start.theta, start.offset[None]])
        penalty = np.full((len(x), self.W.shape[1], 1), alpha)
        penalty[-1, :, 0] = self.hold
        centre = np.zeros_like(x)
        centre[-1] = self.start().offset
        if abs(np.log10(alpha / self.factored[0])) > NEAR:
            self.factored = alpha, self._factors(alpha)
        total, f = self.W.sum(axis=0), self._forward(x)
        value = self._value(x - centre, f, penalty)
        for number in range(1, MOST_STEPS + 1):
            slope = self._back(self.loss.slope(self.Y[:, None], f)) + penalty * (x - centre)
            step, promised, products = self._newton_step(f, slope, penalty, self.factored[1], tolerance * total)
            going = promised > tolerance * total
            if not going.any() and not certain:
                return Fits(x[:-1], x[-1])
            if not going.any() or products > SLOW or number % MANY == 0:  # preconditioners may be far from curvatures
                self.grams = self._grams(self.loss.curvature(self.Y, f[:, -1]))
                self.factored = alpha, self._factors(alpha)
            if not going.any():
                certain = False
                continue
            x, f, value, moved = self._descend(x - centre, f, value, step, np.where(going, promised, 0.0), penalty)
            x = x + centre
            if not moved:  # rounding errors are all that is left
                return Fits(x[:-1], x[-1], bool((promised <= 1e-6 * np.abs(value)).all()))
        return Fits(x[:-1], x[-1], False)

    def _factors(self, alpha: float) -> list[Floats]:
        factors = []
        for P in self.grams:
            A = P.copy()
            A.flat[: -1 : len(A) + 1] += alpha
            factors.append(positive_factor(A))
        return factors

    def _forward(self, x: Floats) -> Floats:
        r, S, q = x.shape
        f: Floats = (self.F @ x[:-1].reshape(r - 1, S * q)).reshape(-1, S, q) + x[-1]
        return f

    def _back(self, V: Floats) -> Floats:
        """Return the sums over rows of W phi V' (r + 1, S, q), for V (n, S, q)."""
        n, S, q = V.shape
        V = self.W[:, :, None] * V
        return np.concatenate([(self.F.T @ V.reshape(n, S * q)).reshape(-1, S, q), V.sum(axis=0)[None]])

    def _value(self, x: Floats, f: Floats, penalty: Floats) -> Floats:
        """Return the penalised losses (S,)."""
        losses = np.sum(self.W * self.loss.value(self.Y[:, None], f), axis=0)
        value: Floats = losses + 0.5 * np.sum(penalty * x**2, axis=(0, 2))
        return value

    def _newton_step(
        self, f: Floats, slope: Floats, penalty: Floats, factors: Sequence[Floats], least: Floats
    ) -> tuple[Floats, Floats, int]:
        """Return steps by conjugate gradients, by how much they promise to lower the losses (S,), and the products.

        A step is good enough when the preconditioned residual is small relative to its start, or to `least`.
        """
        d, r = np.zeros_like(slope), -slope
        z = _preconditioned(factors, r)
        p, rz = z, _dots(r, z)
        enough = np.maximum(LEFT * rz, 0.1 * least)
        products = 0
        while products < MOST_PRODUCTS:
            products += 1
            Hp = self._back(self.loss.bend(self.Y[:, None], f, self._forward(p))) + penalty * p
            curvature = _dots(p, Hp)
            a = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)[:, None]
            d, r = d + a * p, r - a * Hp
            z = _preconditioned(factors, r)
            new = _dots(r, z)
            if (new <= enough).all():
                break
            p, rz = z + np.divide(new, rz, out=np.zeros_like(rz), where=rz > 0)[:, None] * p, new
        return d, -_dots(slope, d), products

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


def _hold(loss: Likelihood, Y: Floats, w: Floats) -> float:
    """Return 0, or HOLD where the best offset is infinite: a fold can hold all rows of a rare class, or all counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.0 if np.isfinite(loss.constant(Y, w)).all() else HOLD


def _gram(F: Floats, weight: Floats) -> Floats:
    """Return the upper triangle of sum_i weight_i (phi_i, 1) (phi_i, 1)', (r + 1, r + 1), with zeros below."""
    Z = np.sqrt(weight)[:, None] * np.column_stack([F, np.ones(len(F))])
    return gram(np.asfortranarray(Z.T)).T


def _preconditioned(factors: Sequence[Floats], r: Floats) -> Floats:
    out = np.empty_like(r)
    for s, L in enumerate(factors):
        half = solve_triangular(L, r[:, s], lower=True, check_finite=False)
        out[:, s] = solve_triangular(L, half, lower=True, trans=1, check_finite=False)
    return out


def _dots(a: Floats, b: Floats) -> Floats:
    """Return the inner products (S,) of every system."""
    dots: Floats = np.einsum("rsq,rsq->s", a, b)
    return dots
