"""The exact fit without its n x n matrix: conjugate gradients, preconditioned by a low-rank factor.

1. Choose anchors, and alpha by the cross-validation error of the low-rank fit. 2. Solve the exact fit for that alpha.

(K + A) z = b, A = alpha W^-1, with K ~ F F' from a few anchors: the preconditioner F F' + A is inverted by Woodbury's
formula, (FF' + A)^-1 = A^-1 - A^-1 F (I + F'A^-1 F)^-1 F'A^-1. Kernel blocks are recomputed in every iteration,
so memory is n r numbers; a good factor keeps the iterations few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from salsa._utils.arrays import Floats
from salsa._utils.linalg import positive_factor
from salsa.data.noise import Noise
from salsa.expansion import KernelExpansion
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.alpha import penalty
from salsa.solvers.anchors import Anchors
from salsa.solvers.lowrank import anchors_for, fit_ridge, lowrank_bytes, marginals, uncertainty_of
from salsa.uncertainty import Uncertainty
from salsa.uncertainty.jackknife import ExactUncertainty, judged_by

TOLERANCE = 1e-9  # residual relative to the norm of every right-hand side
MOST_ITERATIONS = 300
JACKKNIFE_ROWS = 3000  # with more rows, the low-rank fit gives the uncertainty: the exact one takes 40 n^2 bytes

Operator = Callable[[Floats], Floats]


def solve_by_iteration(task: RidgeTask) -> Solution:
    """Fit all rows exactly, with the alpha of the low-rank fit on the preconditioner's anchors."""
    anchors = anchors_for(task, task.alpha)
    ridge = fit_ridge(anchors, len(anchors.points), task)
    rows = task.rows.take(np.arange(len(task.rows)))
    X, Y = rows.X, rows.Y / task.unit - task.level
    added = penalty(task.kernel, X, ridge.path.alpha)
    noise = Noise(rows.weight, rows.group, task.rho)
    found = solve_pcg(anchors, X, Y, added, noise, n_threads=task.threads)
    note = f"conjugate gradients: {found.iterations} iterations, relative residual {found.residual:.1e}"
    weight = rows.given_weight
    background = None if weight is None else marginals(task, X, weight)
    expansion = KernelExpansion(task.kernel, X, found.coef, found.offset + task.level, background).times(task.unit)
    assert task.table is not None
    judged = judged_by(task.table.at(np.arange(len(X))), None, local=not task.two_valued)
    exact = ExactUncertainty(expansion, added, noise, judged)
    if len(X) > JACKKNIFE_ROWS or judged.fold is None:
        lowrank, residual = uncertainty_of(task, anchors, ridge.cvplus(anchors))
        uncertainty: Uncertainty = lowrank
        scale = lowrank.cvplus.scale
    else:
        uncertainty, (scale, residual) = exact, exact.judge(task.threads)
    return Solution(expansion, uncertainty, ridge.path, ridge.degrees_of_freedom, (note,), scale, residual)


class Iterated(NamedTuple):
    """The result of conjugate gradients."""

    coef: Floats  # (n, q)
    offset: Floats  # (q,)
    iterations: int
    residual: float  # the largest, relative to its right-hand side


def solve_pcg(
    anchors: Anchors, X: Floats, Y: Floats, alpha: float, noise: Noise, *, n_threads: int | None = None
) -> Iterated:
    """Return coefficients and offset of the exact ridge fit, with an unpenalised intercept as in ``solve_once``."""
    kernel = anchors.kernel
    right = np.column_stack([Y, np.ones(len(X))])
    Z, iterations, residual = conjugate_gradients(
        lambda V: kernel.product(X, X, V, n_threads=n_threads) + alpha * noise.times(V),
        _woodbury(anchors.features(X, n_threads=n_threads), alpha, noise),
        right,
    )
    offset = Z[:, :-1].sum(axis=0) / Z[:, -1].sum()
    coef = Z[:, :-1] - np.outer(Z[:, -1], offset)
    return Iterated(coef, offset, iterations, residual)


def conjugate_gradients(A: Operator, precondition: Operator, B: Floats) -> tuple[Floats, int, float]:
    """Return A^-1 B for all columns of B (n, q) at once, the number of iterations, the largest relative residual."""
    Z, R = np.zeros_like(B), B.copy()
    size = np.maximum(np.linalg.norm(B, axis=0), np.finfo(float).tiny)
    S = precondition(R)
    direction, rs = S, np.sum(R * S, axis=0)
    iterations, residual = 0, np.inf
    while residual > TOLERANCE and iterations < MOST_ITERATIONS:
        iterations += 1
        image = A(direction)
        step = _ratio(rs, np.sum(direction * image, axis=0))
        Z += step * direction
        R -= step * image
        residual = float(np.max(np.linalg.norm(R, axis=0) / size))
        S = precondition(R)
        rs, old = np.sum(R * S, axis=0), rs
        direction = S + _ratio(rs, old) * direction
    return Z, iterations, residual


def _ratio(a: Floats, b: Floats) -> Floats:
    """Return a / b; 0 for a column that is solved (b = 0)."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _woodbury(F: Floats, alpha: float, noise: Noise) -> Operator:
    """Return the map V -> (F F' + alpha R)^-1 V = T'(T F F'T' + alpha I)^-1 T V, R the noise."""
    F = noise.whiten(F)
    L = positive_factor(alpha * np.eye(F.shape[1]) + F.T @ F)

    def precondition(V: Floats) -> Floats:
        V = noise.whiten(V)
        inner = solve_triangular(L, F.T @ V, lower=True, check_finite=False)
        correction: Floats = F @ solve_triangular(L, inner, lower=True, trans=1, check_finite=False)
        return noise.transposed((V - correction) / alpha)

    return precondition


def pcg_bytes(n: int, D: int, rank: int, folds: int, threads: int) -> int:
    return lowrank_bytes(n, D, rank, folds, threads) + 8 * 3 * n * rank


SOLVER = Solver(True, pcg_bytes, solve_by_iteration)
