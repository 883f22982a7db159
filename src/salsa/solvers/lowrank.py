"""Ridge regression on a few anchors: k(x, x') ~ phi(x)'phi(x'), phi(x) = L^-1 k(Z, x), L L' = k(Z, Z).

1. Choose anchors Z from a sample of the rows, until the unexplained trace is small relative to alpha (``anchors``).
2. Add up sums for every fold in a pass over all rows, in blocks and on any number of machines (``sums``). Of many rows,
   features are computed in float32; sums over blocks are in float64.
3. From the sums, find alpha by the exact cross-validation error of the model, the fit to all rows, and the fits
   without each fold.
4. Count the sizes of held-out residuals in a second pass over some of the rows, for intervals (``cvplus``).

With more than DIRECT_RANK anchors, conjugate gradients take the place of steps 2 and 3 (``many_anchors``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import format_bytes
from salsa._utils.progress import each
from salsa._utils.sums import HeldOutSums, RidgePath, Sums, cross_validation_error, target_scale
from salsa._utils.threads import thread_count
from salsa.data.rows import Block, Total, joined, mapped
from salsa.data.splits import TableSplits
from salsa.kernels import Kernel
from salsa.kernels.marginals import Distribution, marginal_of, thinned
from salsa.solvers import SAMPLE_ROWS, RidgeTask, Solution, Solver
from salsa.solvers.alpha import AlphaPath, choose_alpha, mean_diagonal, penalty
from salsa.solvers.anchors import Anchors, SingleAnchors, choose_anchors
from salsa.solvers.many_anchors import IteratedRidge, fit_many_anchors, many_anchors_bytes
from salsa.solvers.monotone import FREE, FoldFits, constrain_on_anchors
from salsa.solvers.need import DIRECT_RANK
from salsa.solvers.slopes import Monotone
from salsa.uncertainty.cvplus import CVPlus, LowRankUncertainty, Scores, posterior_on_anchors
from salsa.uncertainty.local_scale import LOCAL_ROWS, learn_local_scale

T = TypeVar("T")
LEFT_OF_ALPHA = 1.0  # anchors may leave so many times alpha of the kernel matrix's trace unexplained
FAR = 10.0  # anchors are chosen again if they leave so many times as much unexplained as they may
EXPECTED = 1e-3  # the largest alpha that anchors are chosen for, relative to the mean diagonal of the kernel matrix
SCORE_ROWS = 50_000  # about so many held-out residuals are counted
GROUP_NUMBERS = 10**8  # the most numbers for the sums of groups
MARGINAL_POINTS = 1024  # points that stand for the distribution of a feature
BLOCK_NUMBERS = 2**24  # values of features in a block of rows
SINGLE_ROWS, SINGLE_RANGE = 50_000, (1e-12, 1e12)  # rows, and diagonals of the kernel, whose sums may be in float32
SINGLE_ERROR, SINGLE_WEIGHTS = 1e-3, (0.01, 100.0)  # least error, as a share of the variance, and range of weights
ROUNDED, ROUNDED_ROWS = 0.01, 256  # rounding errors over alpha that are allowed, and the rows that they are measured on
LEAST_ROWS, MOST_ROWS = 1024, 8192  # rows of a block


class Basis(Protocol):
    """A map phi from rows to r features, in float64, or in float32 less their means."""

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats | NDArray[np.float32]: ...


class Ridge(NamedTuple):
    """The ridge fit to all rows, and (theta, offset) of the fits without each fold."""

    path: AlphaPath
    total: Sums
    whole: RidgePath
    without: list[tuple[Floats, Floats]]
    splits: TableSplits
    rho: float  # the shared variance in the noise that was used
    notes: tuple[str, ...] = ()
    folds: FoldFits | None = None  # kept for fits with constraints
    constrained: tuple[Floats, Floats] | None = None  # parameters and offset, if they are not the free ones

    @property
    def solution(self) -> tuple[Floats, Floats]:
        """The parameters theta (r, q) and the offset (q,)."""
        return self.whole.solution(self.path.alpha) if self.constrained is None else self.constrained

    @property
    def degrees_of_freedom(self) -> float:
        return self.whole.degrees_of_freedom(self.path.alpha)

    def cvplus(self, anchors: Anchors) -> CVPlus:
        """Return the uncertainty, in which no residuals are counted yet."""
        without = (np.array(parts) for parts in zip(*self.without, strict=True))
        cvplus = posterior_on_anchors(anchors.L, self.total, self.whole, self.path.alpha, self.splits.n, *without)
        return replace(cvplus, units=self.splits.units, forward=self.splits.forward, rho=self.rho)


def solve_lowrank(task: RidgeTask) -> Solution:
    """Choose anchors, and fit all rows on them in one pass.

    If all rows lead to an alpha far below the expected one, there are few anchors, and the pass was quick: more anchors
    are chosen, once.
    """
    alpha = expected_alpha(task)
    anchors = anchors_for(task, alpha)
    ridge = fit_on_anchors(task, anchors, alpha)
    if len(anchors.points) < task.rank and anchors.left > FAR * tolerance(task, ridge.path.alpha):
        alpha = ridge.path.alpha / FAR
        anchors = anchors_for(task, alpha)
        ridge = fit_on_anchors(task, anchors, alpha)
    if task.monotone is not None:
        assert isinstance(ridge, Ridge)  # fits with constraints have at most DIRECT_RANK anchors
        ridge = _monotone(task, task.monotone, anchors, ridge)
    return on_anchors(task, anchors, ridge, ridge.cvplus(anchors), ridge.solution)


def _monotone(task: RidgeTask, monotone: Monotone, anchors: Anchors, ridge: Ridge) -> Ridge:
    """Return the ridge fit, with corrections that make it monotone, and the alpha of the corrected fits."""
    assert ridge.folds is not None
    span = anchors.expansion(*ridge.solution).span
    found = constrain_on_anchors(task, monotone, anchors, ridge.whole, ridge.folds, ridge.path, span)
    if found is None:
        return ridge._replace(folds=None, notes=(*ridge.notes, FREE))
    without = [found.without[0], *found.without] if ridge.splits.forward else found.without
    notes = (*ridge.notes, *found.notes)
    return ridge._replace(path=found.path, without=without, notes=notes, folds=None, constrained=found.solution)


def expected_alpha(task: RidgeTask) -> float:
    """Return an alpha that all rows will hardly lead below: the sample's, but at most EXPECTED of the mean diagonal.

    A few thousand rows of a noisy target lead to a large alpha, because they do not show the signal; all rows may lead
    to a hundredth of it. Anchors for a smaller alpha are a few more anchors; a second pass costs as much as the first.
    """
    return min(task.alpha, EXPECTED * mean_diagonal(task.kernel, task.sample.X))


def fit_on_anchors(task: RidgeTask, anchors: Anchors, alpha: float) -> Ridge | IteratedRidge:
    """Fit all rows on the features of the anchors, of many rows in float32 where that has enough digits.

    Rounding errors of the features act as noise, and must be small relative to alpha. They are measured on a few rows,
    which gives the least alpha for float32. If the error still falls there, the rows are fitted again in float64.
    """
    r = len(anchors.points)
    if r > DIRECT_RANK:
        return fit_many_anchors(task, anchors, block_rows(r))
    if _may_be_single(task):
        single = anchors.single
        least = _rounding_errors(anchors, single, task.sample.X) / ROUNDED
        if least <= min([alpha, *(task.alphas or ())]):
            ridge = fit_ridge(single, r, task, least)
            above_least = task.alphas is not None or ridge.path.alphas.min() < ridge.path.alpha
            if above_least and ridge.path.error >= SINGLE_ERROR:
                return ridge
    return fit_ridge(anchors, r, task)


def _may_be_single(task: RidgeTask) -> bool:
    """Return whether there are many rows, and sums in float32 have enough digits for them.

    Seven digits are too few for small held-out errors, which are differences of such sums, and for weights of very
    different sizes.
    """
    weight, (low, high), (least, most) = task.sample.weight, SINGLE_RANGE, SINGLE_WEIGHTS
    many = len(task.rows) >= SINGLE_ROWS and task.error >= SINGLE_ERROR
    alike = bool(least <= weight.min() and weight.max() <= most)
    return many and alike and low < mean_diagonal(task.kernel, task.sample.X) < high


def _rounding_errors(anchors: Anchors, single: SingleAnchors, X: Floats) -> float:
    """Return the mean squared rounding error of features in float32, from some of the rows X (m, D)."""
    some = X[:: max(1, len(X) // ROUNDED_ROWS)]
    difference = single.features(some) + single.mean - anchors.features(some)
    return float(np.mean(np.sum(difference**2, axis=1)))


def on_anchors(
    task: RidgeTask, anchors: Anchors, ridge: Ridge | IteratedRidge, cvplus: CVPlus, solution: tuple[Floats, Floats]
) -> Solution:
    """Return the solution as a function of the anchors, with the sizes of held-out residuals for its intervals."""
    expansion = replace(
        anchors.expansion(*solution), marginals=marginals(task.kernel, task.sample.X, task.sample.weight)
    )
    whole = replace(expansion, offset=expansion.offset + task.level).times(task.unit)
    uncertainty, residual = uncertainty_of(task, anchors, cvplus)
    notes = too_few_anchors(task, anchors, ridge.path.alpha) + ridge.notes
    scale = uncertainty.cvplus.scale
    return Solution(whole, uncertainty, ridge.path, ridge.degrees_of_freedom, notes, scale, residual)


def uncertainty_of(task: RidgeTask, anchors: Anchors, cvplus: CVPlus) -> tuple[LowRankUncertainty, Floats]:
    """Learn the local scale from some held-out residuals, and count their sizes in a pass over more of the rows.

    The residuals (k, q) are returned, too, in the units of the target.
    """
    n, r, targets = len(task.rows), len(anchors.points), (task.unit, task.level)
    function = partial(_held_out, anchors, cvplus, *targets)
    found = _summed(function, _then, task, r, "some held-out residuals", max(1, n // LOCAL_ROWS))
    tested = found.fold > 0 if cvplus.forward else np.ones(len(found.fold), dtype=bool)
    residual = task.unit * np.sqrt(cvplus.amplitude) * found.residual[tested]
    if not cvplus.forward and not task.two_valued:
        size = np.abs(found.residual) / found.posterior[:, None]
        cvplus = replace(cvplus, local=learn_local_scale(task.kernel, found.X, size, found.fold))
    scores_of, every = partial(_scores, anchors, cvplus, *targets), max(1, n // SCORE_ROWS)
    scored = cvplus.with_scores(_summed(scores_of, Scores.__add__, task, r, "sizes of held-out residuals", every), n)
    scored, grouped = replace(scored, offsets=scored.offsets + task.level), task.sample.group is not None
    kept = LowRankUncertainty(scored, task.unit, anchors.points, grouped=grouped, mean_weight=task.mean_weight)
    return kept, residual


def fit_ridge(basis: Basis, r: int, task: RidgeTask, least: float = 0.0) -> Ridge:
    """Fit all rows on r features, with alpha by the cross-validation error; at least `least`."""
    splits, notes = task.table, too_many_groups(task, r)
    rho = 0.0 if notes else task.rho
    assert splits is not None  # large fits are given splits
    function = partial(_fold_sums, basis, splits.n_folds, task.unit, task.level, rho > 0)
    folds, levels = _summed(function, _added, task, r, "sums over all rows")
    if isinstance(basis, SingleAnchors):
        folds, levels = [fold.moved(basis.mean) for fold in folds], levels and levels.moved(basis.mean)
    white = folds if levels is None else [fold.without_levels(levels.of(k), rho) for k, fold in enumerate(folds)]
    total = reduce(Sums.__add__, white)
    if splits.forward:
        parts = list(zip(accumulate(white, Sums.__add__), folds[1:], strict=False))
    else:
        parts = [(total - own, fold) for own, fold in zip(white, folds, strict=True)]
    threads = thread_count(task.threads, r, r, r // 8)
    results = mapped(lambda part: HeldOutSums(*part), parts, threads)
    held_out = list(each(results, task.steps.share("fits without each fold"), len(parts)))
    variance, whole = target_scale(reduce(Sums.__add__, folds)), RidgePath(total)
    if isinstance(basis, SingleAnchors):
        least = max(least, _errors_of_products(whole, len(task.rows), block_rows(r)))

    def error_of(alpha: float) -> tuple[float, float]:
        return cross_validation_error(held_out, variance, alpha) if alpha >= least else (np.inf, 0.0)

    path = choose_alpha(error_of, mean_diagonal(task.kernel, task.sample.X), task.alphas)
    without = [part.path.solution(path.alpha) for part in held_out]
    without = [without[0], *without] if splits.forward else without  # nothing tests the rows before the first fold
    kept = None if task.monotone is None else FoldFits(held_out, variance)
    return Ridge(path, total, whole, without, splits, rho, notes, kept)


def _errors_of_products(whole: RidgePath, n: int, rows: int) -> float:
    """Return the size of rounding errors in sums of products in float32, from blocks of so many rows.

    The norm of a block's errors is about the rounding error of its largest eigenvalue, and the errors of the blocks are
    independent. An alpha below this is no penalty: directions whose sums are errors alone would seem to lower the
    held-out error.
    """
    return float(np.finfo(np.float32).eps * whole.values.max() / np.sqrt(max(1.0, n / rows)))


def anchors_for(task: RidgeTask, alpha: float) -> Anchors:
    """Choose anchors until the unexplained trace is below the tolerance, or `rank` is reached."""
    X, limit = task.sample.X, tolerance(task, alpha)
    return choose_anchors(task.kernel, X, task.rank, limit, task.random_state, n_threads=task.threads, steps=task.steps)


def too_few_anchors(task: RidgeTask, anchors: Anchors, alpha: float) -> tuple[str, ...]:
    """Return a note if the anchors leave more of the kernel's trace unexplained than this alpha affords."""
    if anchors.left <= (limit := tolerance(task, alpha)):
        return ()
    left = f"{len(anchors.points)} anchors leave {anchors.left:.1e} of the kernel's trace, more than {limit:.1e}"
    return (f"{left}: the fit is smoother than the exact one; a larger rank comes closer",)


def too_many_groups(task: RidgeTask, r: int) -> tuple[str, ...]:
    """Return a note if the sums of every group do not fit into memory: their levels are then left out of the noise."""
    if task.rho == 0.0 or task.table is None:
        return ()
    groups = task.table.units
    if groups * r <= GROUP_NUMBERS:
        return ()
    sums = f"the sums of {groups} groups on {r} features take more than {format_bytes(8 * GROUP_NUMBERS)}"
    return (f"{sums}: groups are held out whole, but share no level in the noise",)


def tolerance(task: RidgeTask, alpha: float) -> float:
    """Return the share of the kernel's trace over all rows that anchors may leave unexplained."""
    kernel, X = task.kernel, task.sample.X
    return LEFT_OF_ALPHA * penalty(kernel, X, alpha) / (len(task.rows) * mean_diagonal(kernel, X))


def marginals(kernel: Kernel, X: Floats, weight: Floats) -> tuple[Distribution, ...]:
    """Return the distribution of every feature: at most MARGINAL_POINTS points, or all levels of categories."""
    limits = [None if base == "equality" else MARGINAL_POINTS for base in kernel.terms[0].bases]
    return tuple(thinned(marginal_of(x, weight), limit) for x, limit in zip(X.T, limits, strict=True))


def block_rows(r: int) -> int:
    """Return the number of rows in a block with r features; it does not depend on the number of threads."""
    return min(max(LEAST_ROWS, BLOCK_NUMBERS // r), MOST_ROWS)


def lowrank_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    """Return the peak memory of a fit on at most `rank` anchors; the tolerance may leave fewer than DIRECT_RANK."""
    direct = direct_bytes(n, D, outputs, min(rank, DIRECT_RANK), folds, threads)
    if rank <= DIRECT_RANK:
        return direct
    return max(direct, many_anchors_bytes(n, D, outputs, rank, folds, threads, block_rows(rank)))


def direct_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    """Return the peak memory of a fit by sums over rows."""
    sample = min(n, SAMPLE_ROWS) * (2 * rank + 2 * D)
    matrices = (4 + threads) * folds + 8  # each result of a thread has the sums of all folds
    return 8 * (sample + matrices * rank * rank + 4 * threads * rank * min(n, block_rows(rank)))


def _summed(
    function: Callable[[Block], T], add: Callable[[T, T], T], task: RidgeTask, r: int, phase: str, every: int = 1
) -> T:
    assert task.table is not None  # large fits are given splits
    what = Total(function, add, task.table.fold, block_rows(r), every)
    return task.rows.total(what, task.steps.share(phase))


class Levels(NamedTuple):
    """Sums of w, w phi and w y over the rows of groups (g, 1 + r + q), with the groups' numbers and folds (g,)."""

    group: Places
    fold: Places
    sums: Floats

    def moved(self, c: Floats) -> Levels:
        """Return the sums of the features phi + c, from those of phi."""
        sums = self.sums.copy()
        sums[:, 1 : len(c) + 1] += np.outer(sums[:, 0], c)
        return self._replace(sums=sums)

    def of(self, fold: int) -> Floats:
        chosen: Floats = self.sums[self.fold == fold]
        return chosen

    def __add__(self, other: Levels) -> Levels:  # type: ignore[override]
        group, place = np.unique(np.append(self.group, other.group), return_inverse=True)
        fold, sums = np.empty(len(group), dtype=np.intp), np.zeros((len(group), self.sums.shape[1]))
        fold[place] = np.append(self.fold, other.fold)
        for rows, part in ((place[: len(self.group)], self), (place[len(self.group) :], other)):
            sums[rows] += part.sums
        return Levels(group, fold, sums)


def _fold_sums(
    basis: Basis, n_folds: int, unit: Floats, level: Floats, grouped: bool, block: Block
) -> tuple[list[Sums], Levels | None]:
    """Return the block's part of the sums of every fold and, where groups share a level, of every group."""
    block = block.by_fold()  # the features of a fold are one piece, which is not copied
    F, Y = basis.features(block.X, n_threads=1), block.Y / unit - level
    ends = np.searchsorted(block.fold, np.arange(n_folds + 1))
    rows = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
    sums = [Sums.of(F[chosen], Y[chosen], block.weight[chosen]) for chosen in rows]
    return sums, _levels(F, Y, block) if grouped else None


def _levels(F: Floats | NDArray[np.float32], Y: Floats, block: Block) -> Levels:
    assert block.group is not None
    group, first, place = np.unique(block.group, return_index=True, return_inverse=True)
    Z = csr_array((block.weight, (place, np.arange(len(place)))), shape=(len(group), len(place)))
    return Levels(group, block.fold[first], Z @ np.column_stack([np.ones(len(F)), F, Y]))


class HeldOutRows(NamedTuple):
    """Some held-out rows: features, residuals (m, q) over their amplitude, posterior scales (m,) and folds (m,)."""

    X: Floats
    residual: Floats
    posterior: Floats
    fold: Places


def _held_out(anchors: Anchors, cvplus: CVPlus, unit: Floats, level: Floats, block: Block) -> HeldOutRows:
    F, prior = anchors.features(block.X, n_threads=1), anchors.kernel.diagonal(block.X)
    return HeldOutRows(block.X, *cvplus.held_out(F, prior, block.Y / unit - level, block.fold), block.fold)


def _then(one: HeldOutRows, other: HeldOutRows) -> HeldOutRows:
    return HeldOutRows(*map(joined, zip(one, other, strict=True)))


def _scores(anchors: Anchors, cvplus: CVPlus, unit: Floats, level: Floats, block: Block) -> Scores:
    F, prior = anchors.features(block.X, n_threads=1), anchors.kernel.diagonal(block.X)
    return cvplus.scores(block.X, *cvplus.held_out(F, prior, block.Y / unit - level, block.fold), block.fold)


def _added(
    one: tuple[list[Sums], Levels | None], other: tuple[list[Sums], Levels | None]
) -> tuple[list[Sums], Levels | None]:
    """Return the sums of both; the matrices of the first are overwritten."""
    sums = [a.plus(b) for a, b in zip(one[0], other[0], strict=True)]
    return sums, None if one[1] is None or other[1] is None else one[1] + other[1]


SOLVER = Solver(False, lowrank_bytes, solve_lowrank)
