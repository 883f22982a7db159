"""The exact fit: one Cholesky factor of the kernel matrix of all rows, at the alpha that was chosen on all rows."""

from __future__ import annotations

from salsa._utils.memory import exact_bytes
from salsa.expansion import KernelExpansion
from salsa.kernels.marginals import marginal_of
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.alpha import penalty
from salsa.solvers.ridge import solve_once
from salsa.uncertainty.jackknife import ExactUncertainty


def solve_exact(task: RidgeTask) -> Solution:
    """Solve for the coefficients of all rows, at the alpha of the task."""
    kernel, (X, Y, _), weight = task.kernel, task.sample, task.sample.given_weight
    added = penalty(kernel, X, task.alpha)
    coef, offset, note = solve_once(kernel(X, n_threads=task.threads), Y, added, weight)
    marginals = None if weight is None else tuple(marginal_of(x, weight) for x in X.T)
    expansion = KernelExpansion(kernel, X, coef, offset, marginals).times(task.unit)
    return Solution(expansion, ExactUncertainty(expansion, added, weight), notes=(note,) if note else ())


SOLVER = Solver(True, lambda n, D, rank, folds, threads: exact_bytes(n), solve_exact)
