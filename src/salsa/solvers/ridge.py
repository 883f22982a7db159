"""Kernel ridge regression on a factor: the whole alpha path, and exact held-out residuals without refitting.

With K = Q diag(l) Q' (whitened, centred: see ``Factor``), G = (K + alpha I)^-1 on the range of P, and c = G y,

    coefficients        c(alpha) = Q (Q'y / (l + alpha)) + (I - QQ') y / alpha
    held-out fold B     r_B = (G_BB)^-1 c_B          exact for any folds of whole groups, weights and outputs
    leave-one-out       r_i = c_i / G_ii
    degrees of freedom  trace(K G) = sum l / (l + alpha), plus one for an intercept

Three formulas give the same held-out residuals; ``held_out`` takes the one that is cheapest for the shape at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.linalg.blas import dsyrk

from salsa._utils.arrays import Floats, Places
from salsa._utils.linalg import solve_positive, symmetric_eigen
from salsa.data.noise import Noise
from salsa.data.splits import Fold
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.solvers.alpha import Score
from salsa.solvers.factor import Factor

_EPS = float(np.finfo(np.float64).eps)


class HeldOut(Protocol):
    """Residuals y_i - f^(-B)(x_i) of rows that the fit did not see."""

    notes: set[str]  # how ill-conditioned matrices were solved

    def residuals(self, alpha: float) -> list[Floats]:
        """Return one array (rows of the fold's held_out, q) per fold, in the units of y."""


def coefficients(factor: Factor, Y: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Return dual coefficients (n, q) and offset (q,) of the ridge fit of Y (n, q)."""
    coef = factor.noise.transposed(_dual(factor, Y, alpha))
    return coef, _offset(factor.noise, factor.kernel_mean, Y, coef)


def expansion(kernel: Kernel, X: Floats, factor: Factor, Y: Floats, alpha: float) -> KernelExpansion:
    return KernelExpansion(kernel, X, *coefficients(factor, Y, alpha))


def solve_once(K: Floats, Y: Floats, alpha: float, noise: Noise | None = None) -> tuple[Floats, Floats, str | None]:
    """Return coefficients, offset and note for one alpha, from one Cholesky factor. K is overwritten.

    With an unpenalised intercept, c = z_y - z_u (u'z_y) / (u'z_u) where z = (K + alpha I)^-1 [y, u].
    """
    noise = Noise(np.ones(len(K))) if noise is None else noise
    mean, u = noise.mean_weight @ K, noise.ones
    K = noise.whiten_both(K)
    K.flat[:: len(K) + 1] += alpha
    Z, note = solve_positive(K, np.column_stack([noise.whiten(Y), u]))
    z_u = Z[:, -1]
    coef = noise.transposed(Z[:, :-1] - np.outer(z_u, u @ Z[:, :-1] / (u @ z_u)))
    return coef, _offset(noise, mean, Y, coef), note


def degrees_of_freedom(factor: Factor, alpha: float) -> float:
    """Return the trace of the smoother: sum l / (l + alpha), plus one for the intercept."""
    return float(np.sum(factor.l / (factor.l + alpha))) + (factor.kernel_mean is not None)


def held_out(factor: Factor, Y: Floats, folds: Sequence[Fold], n_alphas: int = 30) -> HeldOut:
    """Choose the cheapest exact formula for these folds and n_alphas penalties (flops; n_B rows held out, rank r):

    leave-one-out  n r per alpha                      folds of one row each
    blocks         n_B^2 r + n_B^3 / 3 per alpha      invert the block of G
    grams          (n - n_B) r^2 + 10 r^3, once       eigen-decompose the training rows' r x r Gram matrix
    """
    n, r = factor.Q.shape
    sizes = np.array([len(fold.held_out) for fold in folds], dtype=float)
    if (sizes == 1).all() and not factor.noise.shared:
        return _LeaveOneOut(factor, Y, folds)
    blocks = n_alphas * np.sum(sizes**2 * r + sizes**3 / 3)
    grams = np.sum((n - sizes) * r**2 + 10.0 * r**3)
    return _FoldBlocks(factor, Y, folds) if blocks <= grams else _FoldGrams(factor, Y, folds)


def held_out_error(score: Score, held: HeldOut, alpha: float) -> tuple[float, float]:
    """Return the cross-validation error at this alpha, and its standard error."""
    return score(held.residuals(alpha))


def _dual(factor: Factor, Y: Floats, alpha: float) -> Floats:
    y = factor.project(Y)
    Qy = factor.Q.T @ y
    c: Floats = factor.Q @ (Qy / (factor.l + alpha)[:, None])
    return c if factor.spans_everything else c + factor.remove(y - factor.Q @ Qy) / alpha


def _offset(noise: Noise, kernel_mean: Floats | None, Y: Floats, coef: Floats) -> Floats:
    """Return the offset mean(y) - mean over rows of K coef, both generalised; 0 without intercept."""
    if kernel_mean is None:
        return np.zeros(Y.shape[1])
    offset: Floats = noise.mean_weight @ Y - kernel_mean @ coef
    return offset


class _LeaveOneOut:
    """Leave-one-out by alpha G_ii = (I - uu' - QQ')_ii + sum_k Q_ik^2 alpha / (l_k + alpha), free of cancellation."""

    def __init__(self, factor: Factor, Y: Floats, folds: Sequence[Fold]) -> None:
        self.factor, self.Y, self.folds = factor, Y, folds
        self.notes: set[str] = set()
        self.squares = factor.Q**2
        u = factor.intercept_direction
        rest = 1.0 - self.squares.sum(axis=1) - (0.0 if u is None else u**2)
        self.rest = np.zeros(len(Y)) if factor.spans_everything else np.maximum(rest, 0.0)

    def residuals(self, alpha: float) -> list[Floats]:
        shrink = alpha / (self.factor.l + alpha)
        diagonal = self.rest + self.squares @ shrink
        diagonal = np.maximum(diagonal, _EPS * shrink.min(initial=1.0))  # rounding
        r = alpha * _dual(self.factor, self.Y, alpha) / (diagonal * self.factor.noise.root)[:, None]
        return [r[fold.held_out] for fold in self.folds]


class _FoldBlocks:
    """Held-out folds by alpha G_BB = (I - uu' - QQ')_BB + Q_B diag(alpha / (l + alpha)) Q_B'."""

    def __init__(self, factor: Factor, Y: Floats, folds: Sequence[Fold]) -> None:
        self.factor, self.Y, self.folds = factor, Y, folds
        self.notes: set[str] = set()

    def residuals(self, alpha: float) -> list[Floats]:
        c = alpha * _dual(self.factor, self.Y, alpha)
        shrink = np.sqrt(alpha / (self.factor.l + alpha))
        return [self._residual(fold.held_out, shrink, c) for fold in self.folds]

    def _residual(self, B: Places, shrink: Floats, c: Floats) -> Floats:
        Q_B = self.factor.Q[B]
        G = _gram(Q_B * shrink)
        if not self.factor.spans_everything:
            G += self._rest(B, Q_B)
        r, note = solve_positive(G, c[B])
        self.notes |= {note} if note else set()
        return self.factor.noise.some(B).unwhiten(r)

    def _rest(self, B: Places, Q_B: Floats) -> Floats:
        u = self.factor.intercept_direction
        rest = np.eye(len(B)) - _gram(Q_B)
        return rest if u is None else rest - np.outer(u[B], u[B])


def _gram(A: Floats) -> Floats:
    """Return the lower triangle of A A' (n_B, n_B); nothing reads the upper one."""
    if A.shape[1] == 0:
        return np.zeros((len(A), len(A)))
    return dsyrk(1.0, A.T, trans=1, lower=1)


class _FoldGrams:
    """Held-out folds by ridge in the coordinates F = Q diag(l)^1/2 of the training rows T: one spectrum per fold."""

    def __init__(self, factor: Factor, Y: Floats, folds: Sequence[Fold]) -> None:
        self.notes: set[str] = set()
        F = factor.Q * np.sqrt(factor.l)
        self.parts = [self._prepare(factor, F, factor.project(Y), fold.held_out) for fold in folds]

    @staticmethod
    def _prepare(factor: Factor, F: Floats, y: Floats, B: Places) -> tuple[Floats, Floats, Floats, Floats, Noise]:
        keep = np.ones(len(F), dtype=bool)
        keep[B] = False
        u_T, u_B = factor.noise.ones[keep], factor.noise.ones[B]
        F_T, y_T, F_B, y_B = F[keep], y[keep], F[B], y[B]
        if factor.kernel_mean is not None:  # centre on the training rows' generalised mean
            t = u_T / (u_T @ u_T)
            F_mean, y_mean = t @ F_T, t @ y_T
            F_T, y_T = F_T - np.outer(u_T, F_mean), y_T - np.outer(u_T, y_mean)
            F_B, y_B = F_B - np.outer(u_B, F_mean), y_B - np.outer(u_B, y_mean)
        values, V = symmetric_eigen(F_T.T @ F_T)
        return np.maximum(values, 0.0), V.T @ (F_T.T @ y_T), F_B @ V, y_B, factor.noise.some(B)

    def residuals(self, alpha: float) -> list[Floats]:
        return [
            noise.unwhiten(y_B - F_B @ (target / (values + alpha)[:, None]))
            for values, target, F_B, y_B, noise in self.parts
        ]
