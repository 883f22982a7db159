"""A fit on a few anchors that sees its rows block by block: in memory, on disk or on other machines.

1. The order of interaction, and the kernel, from a sample of the rows; anchors from a larger one. 2. A pass over the
blocks adds up sums for every fold. 3. alpha by the exact cross-validation error of the low-rank model, from the sums;
the fit to all rows, and those to all rows but a fold's. 4. A second pass over some of the rows counts how large the
held-out residuals are: what intervals for new observations are made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from salsa import parameters
from salsa.cvplus import CVPlus, Scores, learn_cvplus
from salsa.expansion import KernelExpansion
from salsa.folds import make_folds
from salsa.guard import stratified_rows
from salsa.kernels import AdditiveKernel, Floats, marginal_of, thinned, thread_count
from salsa.learning import Problem
from salsa.moments import weights_or_ones
from salsa.planning import Choices, Fit, Plan, mean_diagonal, penalty, search
from salsa.progress import Progress
from salsa.selection import AlphaPath, Loss, OrderResult, OrderSearch, search_or_try
from salsa.solvers import Fold
from salsa.solvers.lowrank import Anchors, HeldOutSums, RidgePath, Sums, choose_anchors
from salsa.solvers.pcg import solve_pcg

SEARCH_ROWS = 2000  # that the order is chosen on
ANCHOR_ROWS = 20_000  # that anchors are chosen from
DEFAULT_RANK = 2000  # at most so many anchors
LEFT_OF_ALPHA = 1.0  # times alpha: the trace that anchors may leave of the kernel matrix
SCORE_ROWS = 50_000  # about so many held-out residuals are counted
MARGINAL_POINTS = 1024  # that a feature's values are remembered by
T = TypeVar("T")


class Block(NamedTuple):
    """Some rows: features (m, D), targets (m, q), weights (m,) and the fold that each is held out in (m,)."""

    X: Floats
    Y: Floats
    weight: Floats
    fold: NDArray[np.intp]


Blocks = Callable[[int], Iterable[Block]]  # every so many rows of all
Run = Callable[[Callable[[Block], T], Iterable[Block]], Iterable[T]]  # a map, in the order of the blocks


class BlockwiseFit(NamedTuple):
    expansion: KernelExpansion
    path: AlphaPath
    degrees_of_freedom: float
    uncertainty: CVPlus


def fit_lowrank(
    choices: Choices,
    problem: Problem,
    plan: Plan,
    folds: Callable[[], list[Fold]],
    progress: Progress,
    rank: int,
    random_state: RandomState,
    *,
    exact: bool,
) -> Fit:
    """Order by cross-validation on a sample of the rows, alpha and the fit on all of them.

    exact: the exact fit for that order and alpha, by conjugate gradients.
    """
    fold = fold_numbers(folds(), len(problem.X))
    begin, sample = time.perf_counter(), problem.rows(stratified_rows(problem, SEARCH_ROWS, random_state))
    used = np.ones(len(sample.X), dtype=bool)
    found = search(choices, sample, plan, lambda: make_folds(5, sample.X, sample.Y, used, 0), progress)
    kernel = plan.kernel_of(found.order)
    anchors, note = _anchors(kernel, problem, found.alpha, rank, random_state)
    weight, level = weights_or_ones(problem.weight, len(problem.X)), problem.Y[:ANCHOR_ROWS].mean(axis=0)
    fit = fit_blocks(
        anchors,
        lambda every: row_slices(problem.X, problem.Y - level, weight, fold, len(anchors.points), every),
        int(fold.max()) + 1,
        lambda loss: search_or_try(loss, mean_diagonal(kernel, sample.X), parameters.alpha_candidates(choices.alpha)),
        threaded(thread_count(problem.threads, len(problem.X), len(anchors.points), len(kernel.relevance))),
    )
    result = OrderResult(kernel.order, fit.path, fit.degrees_of_freedom, time.perf_counter() - begin)
    progress.order(result)
    results = (*(other for other in found.results if other.order != kernel.order), result)
    order_search = OrderSearch(results, kernel.order, fit.path.alpha, found.notes).with_note(note)
    if exact:
        return _exact_fit(anchors, problem, order_search)
    expansion = replace(fit.expansion, offset=fit.expansion.offset + level, marginals=_marginals(problem, weight))
    return Fit(order_search, expansion, replace(fit.uncertainty, offsets=fit.uncertainty.offsets + level))


def _exact_fit(anchors: Anchors, problem: Problem, found: OrderSearch) -> Fit:
    """Of this order and alpha, with the anchors to precondition by."""
    (X, Y, weight), kernel = problem[:3], anchors.kernel
    w = weights_or_ones(weight, len(X))
    solved = solve_pcg(anchors, X, Y, penalty(kernel, X, found.alpha), w, n_threads=problem.threads)
    note = f"conjugate gradients: {solved.iterations} iterations, relative residual {solved.residual:.1e}"
    marginals = None if weight is None else _marginals(problem, w)
    return Fit(found.with_note(note), KernelExpansion(kernel, X, solved.coef, solved.offset, marginals))


def lowrank_bytes(n: int, D: int, rank: int, folds: int, threads: int, *, exact: bool) -> int:
    """Peak memory beside the table: the factor of the rows that anchors come from, sums of folds, blocks of rows.

    exact: and the features of all rows, twice and their kernel values, for conjugate gradients.
    """
    factor, features = min(n, ANCHOR_ROWS) * (2 * rank + D), 3 * n * rank if exact else 0
    return 8 * (factor + features + (4 * folds + 8) * rank * rank + 4 * threads * max(1024 * rank, 2**23))


def fold_numbers(folds: Sequence[Fold], n: int) -> NDArray[np.intp]:
    """In which fold each of n rows is held out (n,); ValueError unless each is in one, and tested there."""
    number, times = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    for place, fold in enumerate(folds):
        number[fold.held_out] = place
        times[fold.held_out[fold.test]] += 1
    if (times != 1).any() or sum(len(fold.held_out) for fold in folds) != n:
        advice = "give a number of folds, or splits such as those of GroupKFold; or solver='exact', which takes any"
        raise ValueError(f"cv: the low-rank solver needs splits that test every row exactly once: {advice}")
    return number


def fit_blocks(
    anchors: Anchors, blocks: Blocks, n_folds: int, choose: Callable[[Loss], AlphaPath], run: Run[Any]
) -> BlockwiseFit:
    """The ridge fit on these anchors; choose(loss) finds alpha by its cross-validation error."""
    folds = reduce(_added, run(partial(fold_sums, anchors, n_folds), blocks(1)))
    total = reduce(Sums.__add__, folds)
    held_out = [HeldOutSums(total - fold, fold) for fold in folds]
    path = choose(partial(_loss, held_out, _variance(total)))
    whole = RidgePath(total)
    solutions = [part.path.solution(path.alpha) for part in held_out]
    uncertainty = learn_cvplus(anchors, whole, total, path.alpha, solutions)
    some = blocks(max(1, int(total.weight) // SCORE_ROWS))
    counted: Scores = reduce(Scores.__add__, run(partial(_scores, anchors, uncertainty), some))
    expansion = anchors.expansion(*whole.solution(path.alpha))
    return BlockwiseFit(expansion, path, whole.degrees_of_freedom(path.alpha), uncertainty.with_scores(counted))


def fold_sums(anchors: Anchors, n_folds: int, block: Block) -> list[Sums]:
    """The block's part of the sums of every fold."""
    F = anchors.features(block.X, n_threads=1)
    rows = [np.flatnonzero(block.fold == fold) for fold in range(n_folds)]
    return [Sums.of(F[chosen], block.Y[chosen], block.weight[chosen]) for chosen in rows]


def row_slices(X: Floats, Y: Floats, weight: Floats, fold: NDArray[np.intp], rank: int, every: int) -> Iterator[Block]:
    """Every so many rows in memory as blocks, of a size that does not depend on the number of threads."""
    step = every * max(1024, 2**23 // rank)
    for start in range(0, len(X), step):
        rows = slice(start, start + step, every)
        yield Block(X[rows], Y[rows], weight[rows], fold[rows])


def threaded(threads: int) -> Run[Any]:
    """A map by so many threads, in the order of the blocks, that holds no more results than threads."""

    def run(function: Callable[[Block], T], blocks: Iterable[Block]) -> Iterator[T]:
        source = iter(blocks)
        with ThreadPoolExecutor(threads) as pool:
            while wave := list(islice(source, threads)):
                yield from pool.map(function, wave)

    return run


def _anchors(
    kernel: AdditiveKernel, problem: Problem, alpha: float, rank: int, random_state: RandomState
) -> tuple[Anchors, str | None]:
    """Enough that what they leave of the kernel matrix is small beside alpha, or `rank` of them, with a note."""
    n = len(problem.X)
    candidates = problem.X[np.sort(random_state.choice(n, min(n, ANCHOR_ROWS), replace=False))]
    tolerance = LEFT_OF_ALPHA * penalty(kernel, candidates, alpha) / (n * mean_diagonal(kernel, candidates))
    anchors = choose_anchors(kernel, candidates, rank, tolerance, random_state, n_threads=problem.threads)
    if anchors.left <= tolerance:
        return anchors, None
    left = f"{len(anchors.points)} anchors leave {anchors.left:.1e} of the kernel's trace, more than {tolerance:.1e}"
    return anchors, f"{left}: the fit is smoother than the exact one; a larger rank comes closer"


def _marginals(problem: Problem, weight: Floats) -> tuple[Any, ...]:
    limits = [None if base == "equality" else MARGINAL_POINTS for base in problem.base]
    return tuple(thinned(marginal_of(x, weight), limit) for x, limit in zip(problem.X.T, limits, strict=True))


def _added(one: list[Sums], other: list[Sums]) -> list[Sums]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _variance(total: Sums) -> Floats:
    """Of every output (q,); 1 for a constant one."""
    variance = (total.yy - total.y**2 / total.weight) / total.weight
    return np.where(variance > 1e-14 * total.yy / total.weight, variance, 1.0)


def _loss(held_out: Sequence[HeldOutSums], variance: Floats, alpha: float) -> tuple[float, float]:
    """Cross-validation error as a share of the variance, and its standard error from how far the folds differ."""
    weight = np.array([part.weight for part in held_out])
    errors = np.array([np.mean(part.squared_error(alpha) / variance) for part in held_out]) / weight
    mean = float(weight @ errors / weight.sum())
    spread = np.sum((weight / weight.sum() * (errors - mean)) ** 2) * len(errors) / max(len(errors) - 1, 1)
    return mean, float(np.sqrt(spread))


def _scores(anchors: Anchors, uncertainty: CVPlus, block: Block) -> Scores:
    F, prior = anchors.features(block.X, n_threads=1), anchors.kernel.diagonal(block.X)
    return uncertainty.scores(F, prior, block.Y, block.weight, block.fold)
