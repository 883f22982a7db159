"""The exact fit: one Cholesky factor of the kernel matrix of all rows, at the alpha that was chosen on all rows."""

from __future__ import annotations

from salsa._utils.memory import exact_bytes
from salsa.expansion import KernelExpansion
from salsa.kernels.marginals import marginal_of
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.alpha import penalty
from salsa.solvers.ridge import solve_once
from salsa.uncertainty.jackknife import ExactUncertainty, Judged, forward_residuals, judged_by


def solve_exact(task: RidgeTask) -> Solution:
    """Solve for the coefficients of all rows, at the alpha of the task."""
    kernel, X, Y, weight = task.kernel, task.sample.X, task.sample.Y, task.sample.given_weight
    added = penalty(kernel, X, task.alpha)
    task.steps.step("fit to all rows")
    coef, offset, note = solve_once(kernel(X, n_threads=task.threads), Y, added, task.noise)
    judged = Judged()
    if task.splits is not None:
        judged = judged_by(task.splits, task.counts, local=not task.two_valued)
        if judged.fold is None and task.splits.folds:
            K = kernel(X, n_threads=task.threads)
            forward = forward_residuals(K, Y, coef, added, task.noise, task.splits)
            judged = judged._replace(forward=forward._replace(residual=task.unit * forward.residual))
    marginals = None if weight is None else tuple(marginal_of(x, weight) for x in X.T)
    expansion = KernelExpansion(kernel, X, coef, offset, marginals).times(task.unit)
    uncertainty = ExactUncertainty(expansion, added, task.noise, judged)
    task.steps.step("uncertainty")
    scale, residual = uncertainty.judge(task.threads)
    return Solution(expansion, uncertainty, notes=(note,) if note else (), scale=scale, residual=residual)


SOLVER = Solver(True, lambda n, *_: exact_bytes(n), solve_exact)
