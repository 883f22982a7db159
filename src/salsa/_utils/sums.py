"""Ridge regression from sums over rows: the alpha path and exact cross-validation errors need no further pass.

Sums of blocks from any machine are added; subtracting the sums of a fold leaves the fold out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.lapack import gram
from salsa._utils.linalg import symmetric_eigen

PIECE = 256  # rows whose features are converted to float64 at a time


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows with features phi (r,), targets y (q,) and weights: all that ridge regression needs to know.

    Nothing reads the upper triangle of xx.
    """

    weight: float
    x: Floats  # (r,) sum of w phi
    y: Floats  # (q,) sum of w y
    xx: Floats  # (r, r) sum of w phi phi', the lower triangle
    xy: Floats  # (r, q) sum of w phi y'
    yy: Floats  # (q,) sum of w y^2

    @classmethod
    def of(cls, F: NDArray[np.floating[Any]], Y: Floats, w: Floats) -> Sums:
        """Sum over the rows of F (m, r), Y (m, q), w (m,): products of features with the digits of F.

        The others are summed in float64: features are centred by their sums, of which large parts cancel.
        """
        root = np.sqrt(w)[:, None]
        if (w != 1.0).any():
            F, Y = (F * root).astype(F.dtype), root * Y
        xx = gram(np.asfortranarray(F.T))
        sums = _products(F, np.column_stack([root, Y]))  # (r, 1 + q)
        parts = sums[:, 0], Y.T @ root[:, 0], xx.astype(np.float64), sums[:, 1:], np.sum(Y**2, axis=0)
        return cls(float(w.sum()), *parts)

    def plus(self, other: Sums) -> Sums:
        """Return the sum of both, in the matrix of this one: adding up many blocks takes no further memory."""
        xx = np.add(self.xx, other.xx, out=self.xx)
        parts = (self.weight + other.weight, self.x + other.x, self.y + other.y, xx)
        return Sums(*parts, self.xy + other.xy, self.yy + other.yy)

    def moved(self, c: Floats) -> Sums:
        """Return the sums of the features phi + c, from those of phi."""
        x, xc = self.x + self.weight * c, np.outer(self.x, c)
        xx = self.xx + xc + xc.T + self.weight * np.outer(c, c)
        return Sums(self.weight, x, self.y, xx, self.xy + np.outer(c, self.y), self.yy)

    def without_levels(self, levels: Floats, rho: float) -> Sums:
        """Return the sums with R^-1 in the place of W (``salsa.data.noise``), from levels (g, 1 + r + q) of groups.

        A row of levels has the sums of w, w phi and w y over one group: Phi'R^-1 Phi = Phi'W Phi - sum c s s',
        c = rho / (1 + rho w).
        """
        r, weight = len(self.x), levels[:, 0]
        S = np.sqrt(rho / (1.0 + rho * weight))[:, None] * levels
        one, x, y = S[:, 0], S[:, 1 : r + 1], S[:, r + 1 :]
        minus = Sums(float(one @ one), x.T @ one, y.T @ one, x.T @ x, x.T @ y, np.sum(y**2, axis=0))
        return self - minus

    def __add__(self, other: Sums) -> Sums:
        return Sums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def __sub__(self, other: Sums) -> Sums:
        return Sums(**{name: value - getattr(other, name) for name, value in vars(self).items()})


def _products(F: NDArray[np.floating[Any]], right: Floats) -> Floats:
    """Return F' right (r, k) in float64, from pieces of the rows that stay in the cache."""
    if F.dtype == np.float64:
        return np.asarray(F.T @ right)
    total = np.zeros((F.shape[1], right.shape[1]))
    for start in range(0, len(F), PIECE):
        rows = slice(start, start + PIECE)
        total += F[rows].astype(np.float64).T @ right[rows]
    return total


class RidgePath:
    """Ridge solutions (C + alpha I)^-1 c for any alpha, C and c the centred sums of rows: one eigen-decomposition."""

    def __init__(self, rows: Sums) -> None:
        self.x_mean, self.y_mean = rows.x / rows.weight, rows.y / rows.weight
        C = rows.xx - np.outer(rows.x, self.x_mean)
        values, self.V = symmetric_eigen(C, overwrite=True)
        self.values = np.maximum(values, 0.0)
        self.target = self.V.T @ (rows.xy - np.outer(rows.x, self.y_mean))

    def rotated(self, alpha: float) -> Floats:
        """Return V' theta (r, q)."""
        return self.target / (self.values + alpha)[:, None]

    def solution(self, alpha: float) -> tuple[Floats, Floats]:
        """Return theta (r, q) and offset (q,)."""
        theta = self.V @ self.rotated(alpha)
        return theta, self.y_mean - self.x_mean @ theta

    def degrees_of_freedom(self, alpha: float) -> float:
        return 1.0 + float(np.sum(self.values / (self.values + alpha)))


class HeldOutSums:
    """The squared error (q,) on some rows of the ridge fit to others, for any alpha, from the sums of both."""

    def __init__(self, fitted: Sums, held_out: Sums) -> None:
        self.path, rows = RidgePath(fitted), held_out
        x_mean, y_mean = self.path.x_mean, self.path.y_mean
        # sums of the held-out rows about the means of the fitted rows
        xx = rows.xx - np.outer(rows.x, x_mean) - np.outer(x_mean, rows.x) + rows.weight * np.outer(x_mean, x_mean)
        xy = rows.xy - np.outer(rows.x, y_mean) - np.outer(x_mean, rows.y) + rows.weight * np.outer(x_mean, y_mean)
        self.yy = rows.yy - 2 * rows.y * y_mean + rows.weight * y_mean**2
        V = self.path.V
        xx = np.tril(xx) + np.tril(xx, -1).T
        self.xx = np.matmul(np.matmul(V.T, xx), V)  # calls: Python looks for signals after each, not after operators
        self.xy, self.weight = V.T @ xy, rows.weight

    def squared_error(self, alpha: float) -> Floats:
        return self.squared_error_of(self.path.rotated(alpha))

    def squared_error_of(self, theta: Floats) -> Floats:
        """Return the squared error (q,) of the parameters V theta, theta (r, q), with the offset of the fitted rows."""
        error: Floats = self.yy - 2 * np.sum(theta * self.xy, axis=0) + np.sum(theta * (self.xx @ theta), axis=0)
        return np.maximum(error, 0.0)


def target_scale(total: Sums) -> Floats:
    """Return the variance of every output (q,), and 1 for a constant one."""
    variance = (total.yy - total.y**2 / total.weight) / total.weight
    return np.where(variance > 1e-14 * total.yy / total.weight, variance, 1.0)


def cross_validation_error(held_out: Sequence[HeldOutSums], variance: Floats, alpha: float) -> tuple[float, float]:
    """Return the error as a share of the variance, and its standard error from the spread of the folds."""
    return pooled_error(held_out, variance, [part.squared_error(alpha) for part in held_out])


def pooled_error(
    held_out: Sequence[HeldOutSums], variance: Floats, squared_errors: Sequence[Floats]
) -> tuple[float, float]:
    """Return the error as a share of the variance, and its standard error, from the squared errors (q,) of folds."""
    weight = np.array([part.weight for part in held_out])
    errors = np.array([np.mean(error / variance) for error in squared_errors]) / weight
    mean = float(weight @ errors / weight.sum())
    spread = np.sum((weight / weight.sum() * (errors - mean)) ** 2) * len(errors) / max(len(errors) - 1, 1)
    return mean, float(np.sqrt(spread))
