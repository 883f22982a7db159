"""Whether the logarithm of a positive, skewed target is predicted better: a comparison on held-out rows, for a note."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from salsa._utils.arrays import Floats
from salsa.kernels import Kernel
from salsa.learning import Problem
from salsa.solvers.alpha import LOG10_GRID, mean_diagonal
from salsa.solvers.factor import exact_factor
from salsa.solvers.ridge import held_out

ROWS = 400  # the comparison takes at most so many rows


def suggest_logarithm(problem: Problem, kernel: Kernel, skewed: Mapping[int, float]) -> list[str]:
    """Return a note for every output whose logarithm has the higher density on held-out rows, of those in `skewed`."""
    if not problem.splits.folds:
        return []
    rows = problem.rows(problem.splits.sample(problem.Y, ROWS))
    gains = log_density_gain(rows._replace(Y=rows.Y[:, list(skewed)]), kernel)
    return [
        f"the target is positive and skewed (skewness {skewness:.1f}): with target_transform='log' (salsa fit --log),"
        f" the log density of held-out rows is {gain:.2f} higher per row, and intervals stay positive"
        for skewness, gain in zip(skewed.values(), gains, strict=True)
        if gain > 0
    ]


def log_density_gain(problem: Problem, kernel: Kernel) -> Floats:
    """Return for every output (q,) how much higher the log density of a held-out y is if log y is fitted, on average.

    Both fits use this kernel and the alpha that is best for them. With a held-out standard deviation s, log p(y) is
    -log s up to a constant; with a standard deviation s of log y, it is -log s - log y.
    """
    Y, w, folds = problem.Y, problem.weight, problem.splits.folds
    q, K = Y.shape[1], kernel(problem.X, n_threads=problem.threads)
    fits = held_out(exact_factor(K, problem.noise), np.hstack([Y, np.log(Y)]), folds)
    spread = np.full(2 * q, np.inf)
    for alpha in mean_diagonal(kernel, problem.X) * 10.0**LOG10_GRID:
        pairs = [(r[fold.test], w[fold.tested]) for r, fold in zip(fits.residuals(float(alpha)), folds, strict=True)]
        squares = sum(weight @ residual**2 for residual, weight in pairs)
        spread = np.minimum(spread, squares / sum(weight.sum() for _, weight in pairs))
    spread = np.maximum(spread, np.finfo(np.float64).tiny)
    gain: Floats = 0.5 * np.log(spread[:q] / spread[q:]) - w @ np.log(Y) / w.sum()
    return gain
