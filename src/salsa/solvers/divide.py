"""Divide and conquer (Zhang, Duchi and Wainwright, 2013): the mean of ridge fits to parts of the rows.

Every part of n_b of the n rows is fitted with alpha n_b / n, that is with the lambda of the whole table: each fit is
rougher than its rows alone would ask for, and the mean over the parts makes up for it. The mean of functions over
different anchors is a function over all of them, with coefficients divided by the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import exact_bytes
from salsa._utils.progress import each
from salsa._utils.threads import thread_count
from salsa._utils.weighted import mean_and_standard_error
from salsa.data.noise import Noise
from salsa.data.rows import Observations, mapped
from salsa.data.splits import TableSplits
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.alpha import ALPHA_FLOOR, LOG10_GRID, mean_diagonal, try_alphas
from salsa.solvers.factor import exact_factor
from salsa.solvers.lowrank import marginals
from salsa.solvers.ridge import coefficients, degrees_of_freedom, solve_once
from salsa.uncertainty import Unavailable

HELD_OUT_ROWS = 2000  # alpha is chosen on at most so many rows of the last fold
NO_GROUPS = "solver='divide' cuts groups into parts, and leaves their levels out of the noise: use solver='lowrank'"
NO_UNCERTAINTY = "solver='divide' has no intervals or standard deviations: use solver='lowrank'"

#: A map that keeps the order of the parts: the builtin, or a map of a pool, of joblib, or of a Dask client with gather
Run = Callable[[Callable[[Observations], Any], Iterable[Observations]], Iterable[Any]]


def solve_in_parts(task: RidgeTask) -> Solution:
    """Choose alpha by the error on rows of one fold, which all parts leave out at first; then fit parts of all rows."""
    rows, n, kernel = task.rows.take(np.arange(len(task.rows))), len(task.rows), task.kernel
    rows = rows._replace(Y=rows.Y / task.unit - task.level)
    run = partial(mapped, threads=thread_count(task.threads, n, task.rank, kernel.n_features))
    assert task.table is not None  # with no more rows than a part has, the fit is exact
    held_out, rest = held_out_rows(task.table)
    tested, parts = rows.some(held_out), _parts(rows, rest, task.rank)
    scale = mean_diagonal(kernel, task.sample.X)
    alphas = [max(alpha, ALPHA_FLOOR * scale) for alpha in task.alphas or scale * 10.0**LOG10_GRID]
    predictions, degrees = divided_path(kernel, parts, tested.X, alphas, _telling(run, task, "alpha", len(parts)))
    deviances = task.loss.deviance(tested.Y, tested.Y - predictions) / task.loss.null(tested.Y, tested.weight)
    errors = [mean_and_standard_error(values.mean(axis=1), tested.weight) for values in deviances]
    path = try_alphas(dict(zip(alphas, errors, strict=True)).__getitem__, alphas)
    parts = _parts(rows, task.random_state.permutation(n), task.rank)
    expansion = solve_divided(kernel, parts, path.alpha, _telling(run, task, "fits to parts of the rows", len(parts)))
    weight = np.concatenate([part.weight for part in parts])
    if (weight != 1).any():
        expansion = replace(expansion, marginals=marginals(task.kernel, expansion.anchors, weight))
    whole = replace(expansion, offset=expansion.offset + task.level).times(task.unit)
    notes = (f"the mean of {len(parts)} fits", *(() if task.rho == 0 else (NO_GROUPS,)))
    best = alphas.index(path.alpha)
    residual = task.unit * (tested.Y - predictions[best])
    return Solution(whole, Unavailable(NO_UNCERTAINTY), path, float(degrees[best]), notes, residual=residual)


def _telling(run: Run, task: RidgeTask, phase: str, parts: int) -> Run:
    """Return the map, which tells how many of the parts are done."""
    return lambda function, rows: each(run(function, rows), task.steps.share(phase), parts)


def held_out_rows(table: TableSplits) -> tuple[Places, Places]:
    """Return some rows of the last fold, and all rows of the other folds, each in random order.

    Units are not cut; where later rows judge, the last fold is the latest.
    """
    fold = table.fold(0, table.n)
    tested, rest = (
        table.random_state.permutation(np.flatnonzero(part)) for part in (fold == fold.max(), fold < fold.max())
    )
    return tested[:HELD_OUT_ROWS], rest


def solve_divided(kernel: Kernel, parts: Sequence[Observations], alpha: float, run: Run = map) -> KernelExpansion:
    """Return the mean of the fits to the parts, weighted by the sums of their weights."""
    shares = _shares(parts)
    solved = list(run(partial(_solution, kernel, alpha / _weight(parts)), parts))
    coef = np.concatenate([share * coef for share, (coef, _) in zip(shares, solved, strict=True)])
    offset = shares @ np.array([offset for _, offset in solved])
    return KernelExpansion(kernel, np.concatenate([part.X for part in parts]), coef, offset)


def divided_path(
    kernel: Kernel, parts: Sequence[Observations], X: Floats, alphas: Sequence[float], run: Run = map
) -> tuple[Floats, Floats]:
    """Return, for every alpha, predictions (alphas, m, q) of the mean fit at the rows of X, and degrees of freedom."""
    relative, shares = np.asarray(alphas) / _weight(parts), _shares(parts)
    tried = list(run(partial(_path, kernel, X, relative), parts))
    predictions, degrees = (np.array(values) for values in zip(*tried, strict=True))
    return np.tensordot(shares, predictions, axes=1), shares @ degrees


def _solution(kernel: Kernel, relative: float, part: Observations) -> tuple[Floats, Floats]:
    coef, offset, _ = solve_once(kernel(part.X, n_threads=1), part.Y, relative * part.weight.sum(), Noise(part.weight))
    return coef, offset


def _path(kernel: Kernel, X: Floats, relative: Floats, part: Observations) -> tuple[Floats, Floats]:
    """Fit one part for all alphas, from one factor."""
    factor, k = exact_factor(kernel(part.X, n_threads=1), Noise(part.weight)), kernel(X, part.X, n_threads=1)
    alphas = relative * part.weight.sum()
    solutions = [coefficients(factor, part.Y, alpha) for alpha in alphas]
    degrees = np.array([degrees_of_freedom(factor, alpha) for alpha in alphas])
    return np.array([offset + k @ coef for coef, offset in solutions]), degrees


def _weight(parts: Sequence[Observations]) -> float:
    return float(sum(part.weight.sum() for part in parts))


def _shares(parts: Sequence[Observations]) -> Floats:
    return np.array([part.weight.sum() for part in parts]) / _weight(parts)


def _parts(rows: Observations, places: Places, size: int) -> list[Observations]:
    """Cut rows into parts of about equal size, at most `size` rows each."""
    return [rows.some(part) for part in np.array_split(places, -(-len(places) // size))]


def divide_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    return threads * exact_bytes(rank) + 8 * n * (2 * D + 4) + 8 * HELD_OUT_ROWS * (rank + len(LOG10_GRID))


SOLVER = Solver(True, divide_bytes, solve_in_parts)
