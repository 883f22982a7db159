"""Ridge regression that sees its rows block by block: in memory, on disk or on other machines.

1. A pass over the blocks adds up sums for every fold. 2. From these, alpha by the exact cross-validation error of the
model, the fit to all rows, and those to all rows but a fold's. 3. A second pass over some of the rows counts how large
the held-out residuals are: what intervals for new observations are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from salsa.cvplus import CVPlus, Scores, learn_cvplus
from salsa.kernels import Floats
from salsa.rows import Block, FoldOf, Rows
from salsa.selection import AlphaPath, Loss
from salsa.solvers import Fold
from salsa.solvers.lowrank import Anchors, HeldOutSums, RidgePath, Sums

SCORE_ROWS = 50_000  # about so many held-out residuals are counted
T = TypeVar("T")
BLOCK_NUMBERS, LEAST_ROWS = 2**21, 1024  # features in a block; rows, where there are many features


class Basis(Protocol):
    """phi: x -> r numbers."""

    def features(self, X: Floats, *, n_threads: int | None = None) -> Floats: ...


class Table(NamedTuple):
    """Rows, the scale of their targets, and how they are held out."""

    rows: Rows
    unit: Floats  # (q,)
    level: Floats  # (q,), in these units
    fold: FoldOf
    n_folds: int

    def standard(self, Y: Floats) -> Floats:
        return Y / self.unit - self.level


class Ridge(NamedTuple):
    """The fit to all rows; (theta, offset) of the fits without each fold."""

    path: AlphaPath
    total: Sums
    whole: RidgePath
    without: list[tuple[Floats, Floats]]

    @property
    def solution(self) -> tuple[Floats, Floats]:
        """theta (r, q) and offset (q,)."""
        return self.whole.solution(self.path.alpha)

    @property
    def degrees_of_freedom(self) -> float:
        return self.whole.degrees_of_freedom(self.path.alpha)

    def uncertainty(self, anchors: Anchors) -> CVPlus:
        """Without the sizes of residuals yet."""
        return learn_cvplus(anchors.L, self.whole, self.total, self.path.alpha, self.without)


def fit_ridge(basis: Basis, r: int, table: Table, choose: Callable[[Loss], AlphaPath]) -> Ridge:
    """On r features; choose(loss) finds alpha by its cross-validation error."""
    folds = _summed(partial(_fold_sums, basis, table.n_folds, table.unit, table.level), _added, table, r)
    total = reduce(Sums.__add__, folds)
    held_out = [HeldOutSums(total - fold, fold) for fold in folds]
    path = choose(partial(_loss, held_out, _variance(total)))
    return Ridge(path, total, RidgePath(total), [part.path.solution(path.alpha) for part in held_out])


def with_scores(uncertainty: CVPlus, anchors: Anchors, table: Table) -> CVPlus:
    """With the sizes of held-out residuals."""
    every = max(1, len(table.rows) // SCORE_ROWS)
    function = partial(_scores, anchors, uncertainty, table.unit, table.level)
    return uncertainty.with_scores(_summed(function, Scores.__add__, table, len(anchors.points), every))


def block_rows(r: int) -> int:
    """Of a block with r features: it does not depend on the number of threads."""
    return max(LEAST_ROWS, BLOCK_NUMBERS // r)


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


def _summed(function: Callable[[Block], T], add: Callable[[T, T], T], table: Table, r: int, every: int = 1) -> T:
    return table.rows.total(function, add, table.fold, block_rows(r), every)


def _fold_sums(basis: Basis, n_folds: int, unit: Floats, level: Floats, block: Block) -> list[Sums]:
    """The block's part of the sums of every fold."""
    F, Y = basis.features(block.X, n_threads=1), block.Y / unit - level
    rows = [np.flatnonzero(block.fold == fold) for fold in range(n_folds)]
    return [Sums.of(F[chosen], Y[chosen], block.weight[chosen]) for chosen in rows]


def _scores(anchors: Anchors, uncertainty: CVPlus, unit: Floats, level: Floats, block: Block) -> Scores:
    F, prior = anchors.features(block.X, n_threads=1), anchors.kernel.diagonal(block.X)
    return uncertainty.scores(F, prior, block.Y / unit - level, block.weight, block.fold)


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
