"""Divide and conquer (Zhang, Duchi and Wainwright, 2013): the mean of ridge fits to parts of the rows.

Every part of n_b of the n rows is fitted with alpha n_b / n, that is with the lambda of the whole table: each fit is
rougher than its rows alone would ask for, and the mean over the parts makes up for it. The mean of functions over
different anchors is a function over all of them, with coefficients divided by the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from salsa.expansion import KernelExpansion
from salsa.kernels import AdditiveKernel, Floats
from salsa.rows import Piece
from salsa.solvers.factor import exact_factor
from salsa.solvers.ridge import coefficients, degrees_of_freedom, solve_once

#: A map, in the order of the parts: the builtin, a pool's, joblib's, or that of a Dask client with its results gathered
Run = Callable[[Callable[[Piece], Any], Iterable[Piece]], Iterable[Any]]


def solve_divided(kernel: AdditiveKernel, parts: Sequence[Piece], alpha: float, run: Run = map) -> KernelExpansion:
    """The mean of the fits to the parts, each counting by its weight."""
    shares = _shares(parts)
    solved = list(run(partial(_solution, kernel, alpha / _weight(parts)), parts))
    coef = np.concatenate([share * coef for share, (coef, _) in zip(shares, solved, strict=True)])
    offset = shares @ np.array([offset for _, offset in solved])
    return KernelExpansion(kernel, np.concatenate([part.X for part in parts]), coef, offset)


def divided_path(
    kernel: AdditiveKernel, parts: Sequence[Piece], X: Floats, alphas: Sequence[float], run: Run = map
) -> tuple[Floats, Floats]:
    """Of the mean of the fits, for every alpha: predictions (alphas, m, q) at the rows of X, degrees of freedom."""
    relative, shares = np.asarray(alphas) / _weight(parts), _shares(parts)
    tried = list(run(partial(_path, kernel, X, relative), parts))
    predictions, degrees = (np.array(values) for values in zip(*tried, strict=True))
    return np.tensordot(shares, predictions, axes=1), shares @ degrees


def _solution(kernel: AdditiveKernel, relative: float, part: Piece) -> tuple[Floats, Floats]:
    coef, offset, _ = solve_once(kernel(part.X, n_threads=1), part.Y, relative * part.weight.sum(), part.weight)
    return coef, offset


def _path(kernel: AdditiveKernel, X: Floats, relative: Floats, part: Piece) -> tuple[Floats, Floats]:
    """One factor for all alphas."""
    factor, k = exact_factor(kernel(part.X, n_threads=1), part.weight), kernel(X, part.X, n_threads=1)
    alphas = relative * part.weight.sum()
    solutions = [coefficients(factor, part.Y, alpha) for alpha in alphas]
    degrees = np.array([degrees_of_freedom(factor, alpha) for alpha in alphas])
    return np.array([offset + k @ coef for coef, offset in solutions]), degrees


def _weight(parts: Sequence[Piece]) -> float:
    return float(sum(part.weight.sum() for part in parts))


def _shares(parts: Sequence[Piece]) -> Floats:
    return np.array([part.weight.sum() for part in parts]) / _weight(parts)
