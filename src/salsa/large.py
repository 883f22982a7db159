"""Fits to many rows: what is learned is learned from a sample of them; a ridge fit to all follows.

1. The kernel, the order of interaction and the anchors come from a sample. 2. By the solver's way, alpha by
cross-validation, and the fit:

lowrank    ridge regression on features that a few anchors give, from sums over blocks of rows
features   the same on random features, of which the result is then written as a function of the anchors
pcg        the exact fit for the alpha of "lowrank", by conjugate gradients
divide     the mean of exact fits to parts of the rows
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn.utils.random import sample_without_replacement

from salsa import parameters
from salsa.blockwise import Ridge, Table, block_rows, fit_ridge, with_scores
from salsa.cvplus import CVPlus
from salsa.expansion import KernelExpansion
from salsa.folds import make_folds
from salsa.guard import stratified_rows
from salsa.kernels import AdditiveKernel, Distribution, Floats, Places, marginal_of, thinned, thread_count
from salsa.learning import Problem
from salsa.moments import mean_and_standard_error, target_variance, weights_or_ones
from salsa.planning import Choices, Fit, Plan, mean_diagonal, penalty, search
from salsa.progress import Progress
from salsa.rows import Piece, Rows, mapped
from salsa.selection import (
    ALPHA_FLOOR,
    LOG10_GRID,
    AlphaPath,
    Loss,
    OrderResult,
    OrderSearch,
    search_or_try,
    try_alphas,
)
from salsa.solvers import exact_bytes
from salsa.solvers.divide import divided_path, solve_divided
from salsa.solvers.features import draw_features, interpolation
from salsa.solvers.lowrank import Anchors, choose_anchors
from salsa.solvers.pcg import solve_pcg

SEARCH_ROWS = 2000  # that the order is chosen on
SAMPLE_ROWS = 20_000  # that kernels are learned from, and anchors chosen
DEFAULT_RANK = 2000  # at most so many anchors, random features or rows of a part
LEFT_OF_ALPHA = 1.0  # times alpha: the trace that anchors may leave of the kernel matrix
ROUNDS = 3  # that anchors are chosen in, at most
MARGINAL_POINTS = 1024  # that a feature's values are remembered by
HELD_OUT_ROWS = 2000  # at most so many, and a fifth, to choose the alpha of a divided fit by


class Large(NamedTuple):
    """What the ways to fit many rows have in common."""

    table: Table
    problem: Problem  # of a sample
    kernel: AdditiveKernel
    alpha: float  # that was found on a smaller one
    alphas: list[float] | None  # the user's candidates; None: to be searched
    rank: int
    random_state: RandomState

    def choose(self, loss: Loss) -> AlphaPath:
        """alpha by its cross-validation error."""
        return search_or_try(loss, mean_diagonal(self.kernel, self.problem.X), self.alphas)


class Solved(NamedTuple):
    """In units of the target's size and about its level."""

    path: AlphaPath
    degrees_of_freedom: float
    expansion: KernelExpansion
    uncertainty: CVPlus | None = None
    weight: Floats | None = None  # as in ``Fit``
    notes: tuple[str, ...] = ()


def sample_rows(rows: Rows, random_state: RandomState) -> Piece:
    """At most SAMPLE_ROWS of them."""
    n = len(rows)
    places = sample_without_replacement(n, min(n, SAMPLE_ROWS), random_state=random_state)
    return rows.take(np.sort(places).astype(np.intp))


def fit_large(
    choices: Choices,
    table: Table,
    problem: Problem,
    plan: Plan,
    progress: Progress,
    rank: int,
    random_state: RandomState,
    solver: str,
) -> Fit:
    """Order by cross-validation on a sample of the rows, alpha and the fit on all of them."""
    begin, sample = time.perf_counter(), problem.rows(stratified_rows(problem, SEARCH_ROWS, random_state))
    used = np.ones(len(sample.X), dtype=bool)
    found = search(choices, sample, plan, lambda: make_folds(5, sample.X, sample.Y, used, 0), progress)
    kernel, alphas = plan.kernel_of(found.order), parameters.alpha_candidates(choices.alpha)
    progress.begin(f"order {kernel.order} on all {len(table.rows)} rows")
    solved = SOLVERS[solver](Large(table, problem, kernel, found.alpha, alphas, rank, random_state))
    result = OrderResult(kernel.order, solved.path, solved.degrees_of_freedom, time.perf_counter() - begin)
    progress.order(result)
    results = (*(other for other in found.results if other.order != kernel.order), result)
    order_search = OrderSearch(results, kernel.order, solved.path.alpha, (*found.notes, *solved.notes))
    expansion, uncertainty = solved.expansion, solved.uncertainty
    if uncertainty is not None:
        uncertainty = replace(uncertainty, offsets=uncertainty.offsets + table.level)
    whole = replace(expansion, offset=expansion.offset + table.level)
    return Fit(order_search, whole, uncertainty, solved.weight, averaged=solver == "divide")


def large_bytes(n: int, D: int, rank: int, folds: int, threads: int, solver: str) -> int:
    """Peak memory beside the table."""
    if solver == "divide":
        return threads * exact_bytes(rank) + 8 * n * (2 * D + 4) + 8 * HELD_OUT_ROWS * (rank + len(LOG10_GRID))
    sample, kept = min(n, SAMPLE_ROWS) * (2 * rank + 2 * D), 3 * n * rank if solver == "pcg" else 0
    return 8 * (sample + kept + (4 * folds + 8) * rank * rank + 4 * threads * rank * min(n, block_rows(rank)))


def _lowrank(large: Large) -> Solved:
    """Anchors for the alpha of a smaller sample; more of them where all rows turn out to afford a smaller alpha."""
    alpha = large.alpha
    for _ in range(ROUNDS):
        anchors, notes = _anchors(large, alpha)
        ridge = fit_ridge(anchors, len(anchors.points), large.table, large.choose)
        alpha, enough = ridge.path.alpha, anchors.left <= _tolerance(large, ridge.path.alpha)
        if enough or len(anchors.points) == large.rank:
            break
    return _on_anchors(large, anchors, ridge, ridge.uncertainty(anchors), ridge.solution, notes)


def _features(large: Large) -> Solved:
    """Random features; their functions are then interpolated at the anchors."""
    basis = draw_features(large.kernel, large.rank, large.random_state)
    ridge = fit_ridge(basis, large.rank, large.table, large.choose)
    anchors, notes = _anchors(large, ridge.path.alpha)
    P = interpolation(basis, anchors)
    mean = anchors.features(large.problem.X).mean(axis=0)
    uncertainty = ridge.uncertainty(anchors).transformed(P, mean)
    theta, offset = ridge.solution
    return _on_anchors(large, anchors, ridge, uncertainty, (P @ theta, offset), notes)


def _on_anchors(
    large: Large,
    anchors: Anchors,
    ridge: Ridge,
    uncertainty: CVPlus,
    solution: tuple[Floats, Floats],
    notes: tuple[str, ...],
) -> Solved:
    expansion = replace(anchors.expansion(*solution), marginals=_marginals(large.problem, large.problem.weight))
    scored = with_scores(uncertainty, anchors, large.table)
    return Solved(ridge.path, ridge.degrees_of_freedom, expansion, scored, notes=notes)


def _pcg(large: Large) -> Solved:
    """The exact fit, with the anchors to precondition by; alpha as on the anchors."""
    anchors, _ = _anchors(large, large.alpha)
    ridge = fit_ridge(anchors, len(anchors.points), large.table, large.choose)
    X, Y, weight = _all_rows(large.table)
    alpha = penalty(large.kernel, X, ridge.path.alpha)
    solved = solve_pcg(anchors, X, Y, alpha, weight, n_threads=large.problem.threads)
    note = f"conjugate gradients: {solved.iterations} iterations, relative residual {solved.residual:.1e}"
    expansion = _on_all_rows(large, KernelExpansion(large.kernel, X, solved.coef, solved.offset), weight)
    weighted = None if expansion.marginals is None else weight
    return Solved(ridge.path, ridge.degrees_of_freedom, expansion, weight=weighted, notes=(note,))


def _divide(large: Large) -> Solved:
    """alpha by the error on some rows that all parts leave out at first."""
    everything, n = _all_rows(large.table), len(large.table.rows)
    run = partial(mapped, threads=thread_count(large.problem.threads, n, large.rank, large.kernel.n_features))
    held_out, rest = np.split(large.random_state.permutation(n), [min(n // 5, HELD_OUT_ROWS)])
    tested, parts = everything.some(held_out), _parts(everything, rest, large.rank)
    scale = mean_diagonal(large.kernel, large.problem.X)
    alphas = [max(alpha, ALPHA_FLOOR * scale) for alpha in large.alphas or scale * 10.0**LOG10_GRID]
    predictions, degrees = divided_path(large.kernel, parts, tested.X, alphas, run)
    squares = (tested.Y - predictions) ** 2 / target_variance(tested.Y, tested.weight)
    losses = [mean_and_standard_error(values.mean(axis=1), tested.weight) for values in squares]
    path = try_alphas(dict(zip(alphas, losses, strict=True)).__getitem__, alphas)
    parts = _parts(everything, np.append(held_out, rest), large.rank)
    weight = np.concatenate([part.weight for part in parts])
    expansion = _on_all_rows(large, solve_divided(large.kernel, parts, path.alpha, run), weight)
    return Solved(path, float(degrees[alphas.index(path.alpha)]), expansion, notes=(f"the mean of {len(parts)} fits",))


SOLVERS: dict[str, Callable[[Large], Solved]] = {
    "lowrank": _lowrank,
    "features": _features,
    "pcg": _pcg,
    "divide": _divide,
}


def _anchors(large: Large, alpha: float) -> tuple[Anchors, tuple[str, ...]]:
    """Enough that what they leave of the kernel matrix is small beside alpha, or `rank` of them, with a note."""
    kernel, X, tolerance = large.kernel, large.problem.X, _tolerance(large, alpha)
    anchors = choose_anchors(kernel, X, large.rank, tolerance, large.random_state, n_threads=large.problem.threads)
    if anchors.left <= tolerance:
        return anchors, ()
    left = f"{len(anchors.points)} anchors leave {anchors.left:.1e} of the kernel's trace, more than {tolerance:.1e}"
    return anchors, (f"{left}: the fit is smoother than the exact one; a larger rank comes closer",)


def _tolerance(large: Large, alpha: float) -> float:
    """The share of the kernel's trace over all rows that anchors may leave."""
    kernel, X = large.kernel, large.problem.X
    return LEFT_OF_ALPHA * penalty(kernel, X, alpha) / (len(large.table.rows) * mean_diagonal(kernel, X))


def _all_rows(table: Table) -> Piece:
    X, Y, weight = table.rows.take(np.arange(len(table.rows)))
    return Piece(X, table.standard(Y), weight)


def _parts(rows: Piece, places: Places, size: int) -> list[Piece]:
    """Of about equal size, and no more rows than that."""
    return [rows.some(part) for part in np.array_split(places, -(-len(places) // size))]


def _on_all_rows(large: Large, expansion: KernelExpansion, weight: Floats) -> KernelExpansion:
    """With the marginals of weighted rows; without weights the anchors are what is compared with."""
    if (weight == 1).all():
        return expansion
    return replace(expansion, marginals=_marginals(large.problem._replace(X=expansion.anchors), weight))


def _marginals(problem: Problem, weight: Floats | None) -> tuple[Distribution, ...]:
    w = weights_or_ones(weight, len(problem.X))
    limits = [None if base == "equality" else MARGINAL_POINTS for base in problem.base]
    return tuple(thinned(marginal_of(x, w), limit) for x, limit in zip(problem.X.T, limits, strict=True))
