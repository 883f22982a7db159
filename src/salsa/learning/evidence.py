"""The restricted marginal likelihood of a kernel matrix K and a noise variance s2.

With C = K + s2 W^-1 and an unpenalised offset, the standardised target y has

    -log p = 1/2 y'My + 1/2 log det C + 1/2 log(1'C^-1 1) + (sum of weights - n)/2 log s2,
    M = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1),

where the last term makes integer weights equal to repeated rows. The derivative by K is 1/2 (M - My y'M); the
leave-one-out residuals are (My)_i / M_ii.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from salsa._utils.arrays import Floats
from salsa._utils.weighted import target_variance, weights_or_ones

JITTER = 1e-10  # relative to the kernel's diagonal, so that every matrix of the search can be factorised
_EPS = float(np.finfo(np.float64).eps)


class Factorised(NamedTuple):
    """The factor L of C = L L', c = M y (n, q), and ones = C^-1 1 / sqrt(1'C^-1 1) (n,)."""

    L: Floats
    c: Floats
    ones: Floats
    noise: float


class Evidence:
    """The likelihood of the targets Y (n, q), standardised, with weights (n,)."""

    def __init__(self, Y: Floats, weight: Floats | None) -> None:
        w = weights_or_ones(weight, len(Y))
        total = w.sum()
        self.weight, self.repeats = w, total - len(Y)
        self.Y = (Y - w @ Y / total) / np.sqrt(target_variance(Y, w))

    def factorise(self, K: Floats, noise: float) -> Factorised:
        """Factorise C; K is overwritten."""
        n = len(K)
        A = K.T  # K is symmetric: its transpose is K in Fortran order
        A.flat[:: n + 1] += noise / self.weight + JITTER * A[0, 0]
        L, _ = dpotrf(A, lower=1, overwrite_a=1)
        Z, _ = dpotrs(L, np.column_stack([self.Y, np.ones(n)]), lower=1)
        ones = Z[:, -1] / np.sqrt(Z[:, -1].sum())
        return Factorised(L, Z[:, :-1] - np.outer(ones, ones @ self.Y), ones, noise)

    def value(self, found: Factorised) -> float:
        """Return -log p, up to a constant."""
        L, c, ones, noise = found
        q = self.Y.shape[1]
        determinants = np.log(L.diagonal()).sum() + np.log(ones.sum())  # sum of `ones` is sqrt(1'C^-1 1)
        return float(0.5 * np.sum(self.Y * c) + q * (determinants + 0.5 * self.repeats * np.log(noise)))

    def slope(self, found: Factorised) -> tuple[Floats, float]:
        """Return the derivatives of -log p by K, all in one triangle, and by s2. The factor is overwritten."""
        L, c, ones, noise = found
        q = self.Y.shape[1]
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        M = dsyrk(-1.0, np.column_stack([np.sqrt(q) * ones, c]), beta=float(q), c=inverse, lower=1, overwrite_c=1)
        M.flat[:: len(M) + 1] *= 0.5  # off the diagonal an element stands for two: only the diagonal is halved
        return M.T, float(np.sum(M.diagonal() / self.weight) + 0.5 * q * self.repeats / noise)

    def leave_one_out(self, K: Floats, noise: float) -> Floats:
        """Return the leave-one-out residuals (n, q) of the standardised targets; K is overwritten."""
        L, c, ones, _ = self.factorise(K, noise)
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        diagonal = inverse.diagonal()
        residual: Floats = c / np.maximum(diagonal - ones**2, _EPS * diagonal)[:, None]
        return residual  # the maximum is for a row that outweighs all others up to rounding
