"""Ridge regression on a few anchors: k(x, x') ~ phi(x)'phi(x'), phi(x) = L^-1 k(Z, x), L L' = k(Z, Z).

1. Choose anchors Z from a sample of the rows, until the unexplained trace is small relative to alpha (``anchors``).
2. Add up sums for every fold in a pass over all rows, in blocks and on any number of machines (``sums``).
3. From the sums, find alpha by the exact cross-validation error of the model, the fit to all rows, and the fits
   without each fold. If all rows lead to a smaller alpha than the sample, choose more anchors and repeat 2.
4. Count the sizes of held-out residuals in a second pass over some of the rows, for intervals (``cvplus``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from salsa._utils.arrays import Floats
from salsa.data.rows import Block
from salsa.kernels.marginals import Distribution, marginal_of, thinned
from salsa.solvers import SAMPLE_ROWS, RidgeTask, Solution, Solver
from salsa.solvers.alpha import AlphaPath, choose_alpha, mean_diagonal, penalty
from salsa.solvers.anchors import Anchors, choose_anchors
from salsa.solvers.sums import HeldOutSums, RidgePath, Sums, cross_validation_error, target_scale
from salsa.uncertainty.cvplus import CLASSES, CVPlus, LowRankUncertainty, Scores, lower_root

T = TypeVar("T")
LEFT_OF_ALPHA = 1.0  # anchors may leave so many times alpha of the kernel matrix's trace unexplained
ROUNDS = 3  # most rounds of choosing anchors
SCORE_ROWS = 50_000  # about so many held-out residuals are counted
MARGINAL_POINTS = 1024  # points that stand for the distribution of a feature
BLOCK_NUMBERS, LEAST_ROWS = 2**21, 1024  # values of features in a block; the least rows of a block


class Basis(Protocol):
    """A map phi from rows to r features."""

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats: ...


class Ridge(NamedTuple):
    """The ridge fit to all rows, and (theta, offset) of the fits without each fold."""

    path: AlphaPath
    total: Sums
    whole: RidgePath
    without: list[tuple[Floats, Floats]]

    @property
    def solution(self) -> tuple[Floats, Floats]:
        """The parameters theta (r, q) and the offset (q,)."""
        return self.whole.solution(self.path.alpha)

    @property
    def degrees_of_freedom(self) -> float:
        return self.whole.degrees_of_freedom(self.path.alpha)

    def cvplus(self, anchors: Anchors) -> CVPlus:
        """Return the uncertainty, in which no residuals are counted yet."""
        whole, total, alpha = self.whole, self.total, self.path.alpha
        root = lower_root(whole.V * np.sqrt(alpha / (whole.values + alpha)))
        least = total.yy - total.y**2 / total.weight - np.sum(whole.target * whole.rotated(alpha), axis=0)
        amplitude = np.maximum(least, 0.0) / alpha / max(total.weight - 1.0, 1e-300)
        thetas, offsets = (np.array(parts) for parts in zip(*self.without, strict=True))
        no_scores = np.zeros((len(total.y), len(thetas), CLASSES)), np.zeros(len(total.y), dtype=bool)
        return CVPlus(anchors.L, whole.x_mean, root, alpha, total.weight, amplitude, thetas, offsets, *no_scores)


def solve_lowrank(task: RidgeTask) -> Solution:
    """Choose anchors for the alpha of the sample, and more anchors if all rows lead to a smaller alpha."""
    alpha = task.alpha
    for _ in range(ROUNDS):
        anchors = anchors_for(task, alpha)
        ridge = fit_ridge(anchors, len(anchors.points), task)
        alpha = ridge.path.alpha
        if anchors.left <= tolerance(task, alpha) or len(anchors.points) == task.rank:
            break
    return on_anchors(task, anchors, ridge, ridge.cvplus(anchors), ridge.solution)


def on_anchors(
    task: RidgeTask, anchors: Anchors, ridge: Ridge, cvplus: CVPlus, solution: tuple[Floats, Floats]
) -> Solution:
    """Return the solution as a function of the anchors, with the sizes of held-out residuals for its intervals."""
    expansion = replace(anchors.expansion(*solution), marginals=marginals(task, task.sample.X, task.sample.weight))
    whole = replace(expansion, offset=expansion.offset + task.level).times(task.unit)
    uncertainty = uncertainty_of(task, anchors, cvplus)
    notes = too_few_anchors(task, anchors, ridge.path.alpha)
    return Solution(whole, uncertainty, ridge.path, ridge.degrees_of_freedom, notes)


def uncertainty_of(task: RidgeTask, anchors: Anchors, cvplus: CVPlus) -> LowRankUncertainty:
    """Count the sizes of held-out residuals in a pass over some of the rows."""
    every = max(1, len(task.rows) // SCORE_ROWS)
    function = partial(_scores, anchors, cvplus, task.unit, task.level)
    scored = cvplus.with_scores(_summed(function, Scores.__add__, task, len(anchors.points), every))
    return LowRankUncertainty(replace(scored, offsets=scored.offsets + task.level), task.unit, anchors.points)


def fit_ridge(basis: Basis, r: int, task: RidgeTask) -> Ridge:
    """Fit all rows on r features, with alpha by the cross-validation error."""
    folds = _summed(partial(_fold_sums, basis, task.n_folds, task.unit, task.level), _added, task, r)
    total = reduce(Sums.__add__, folds)
    held_out = [HeldOutSums(total - fold, fold) for fold in folds]
    error_of = partial(cross_validation_error, held_out, target_scale(total))
    path = choose_alpha(error_of, mean_diagonal(task.kernel, task.sample.X), task.alphas)
    return Ridge(path, total, RidgePath(total), [part.path.solution(path.alpha) for part in held_out])


def anchors_for(task: RidgeTask, alpha: float) -> Anchors:
    """Choose anchors until the unexplained trace is below the tolerance, or `rank` is reached."""
    X, limit = task.sample.X, tolerance(task, alpha)
    return choose_anchors(task.kernel, X, task.rank, limit, task.random_state, n_threads=task.threads)


def too_few_anchors(task: RidgeTask, anchors: Anchors, alpha: float) -> tuple[str, ...]:
    """Return a note if the anchors leave more of the kernel's trace unexplained than this alpha affords."""
    if anchors.left <= (limit := tolerance(task, alpha)):
        return ()
    left = f"{len(anchors.points)} anchors leave {anchors.left:.1e} of the kernel's trace, more than {limit:.1e}"
    return (f"{left}: the fit is smoother than the exact one; a larger rank comes closer",)


def tolerance(task: RidgeTask, alpha: float) -> float:
    """Return the share of the kernel's trace over all rows that anchors may leave unexplained."""
    kernel, X = task.kernel, task.sample.X
    return LEFT_OF_ALPHA * penalty(kernel, X, alpha) / (len(task.rows) * mean_diagonal(kernel, X))


def marginals(task: RidgeTask, X: Floats, weight: Floats) -> tuple[Distribution, ...]:
    """Return the distribution of every feature: at most MARGINAL_POINTS points, or all levels of categories."""
    limits = [None if base == "equality" else MARGINAL_POINTS for base in task.kernel.bases]
    return tuple(thinned(marginal_of(x, weight), limit) for x, limit in zip(X.T, limits, strict=True))


def block_rows(r: int) -> int:
    """Return the number of rows in a block with r features; it does not depend on the number of threads."""
    return max(LEAST_ROWS, BLOCK_NUMBERS // r)


def lowrank_bytes(n: int, D: int, rank: int, folds: int, threads: int) -> int:
    sample = min(n, SAMPLE_ROWS) * (2 * rank + 2 * D)
    return 8 * (sample + (4 * folds + 8) * rank * rank + 4 * threads * rank * min(n, block_rows(rank)))


def _summed(function: Callable[[Block], T], add: Callable[[T, T], T], task: RidgeTask, r: int, every: int = 1) -> T:
    assert task.fold is not None  # large fits are given folds
    return task.rows.total(function, add, task.fold, block_rows(r), every)


def _fold_sums(basis: Basis, n_folds: int, unit: Floats, level: Floats, block: Block) -> list[Sums]:
    """Return the block's part of the sums of every fold."""
    F, Y = basis.features(block.X, n_threads=1), block.Y / unit - level
    rows = [np.flatnonzero(block.fold == fold) for fold in range(n_folds)]
    return [Sums.of(F[chosen], Y[chosen], block.weight[chosen]) for chosen in rows]


def _scores(anchors: Anchors, cvplus: CVPlus, unit: Floats, level: Floats, block: Block) -> Scores:
    F, prior = anchors.features(block.X, n_threads=1), anchors.kernel.diagonal(block.X)
    return cvplus.scores(F, prior, block.Y / unit - level, block.weight, block.fold)


def _added(one: list[Sums], other: list[Sums]) -> list[Sums]:
    return [a + b for a, b in zip(one, other, strict=True)]


SOLVER = Solver(False, lowrank_bytes, solve_lowrank)
