"""Exact fits of many rows that minimise a penalised likelihood: Newton's method on the kernel matrix.

1. The low-rank fit (``anchored_likelihood``) has chosen kernel and alpha. Its anchors give the preconditioners, and its
   functions are where the exact fits start.
2. What the anchors leave of the kernel matrix is computed once, in tiles of float32; the anchors' part is multiplied in
   float64. So the rounding errors of a product are relative to what is left.
3. The fits without each fold and the fit to all rows are solved side by side (``kernel_systems``), for one penalty
   after the other, in half decades from the alpha of the low-rank fit on. Their held-out losses choose alpha.
4. At this alpha, the functions are computed again in float64 and corrected until they stay the same.
5. The posterior is that of the working response on the anchors, as in a low-rank fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.memory import tile_bytes
from salsa._utils.threads import thread_count
from salsa.data.rows import Observations
from salsa.expansion import KernelExpansion
from salsa.losses import IDENTITY, robust_spread
from salsa.solvers.alpha import ALPHA_FLOOR, LOG10_LIMITS, AlphaPath, mean_diagonal
from salsa.solvers.anchored_likelihood import AllRows, AnchoredTask
from salsa.solvers.anchors import few_anchors_note
from salsa.solvers.kernel_systems import Duals, KernelSystems
from salsa.solvers.likelihood import (
    MOST_SCALES,
    SEARCHED,
    Basis,
    Candidate,
    LikelihoodSolution,
    Scaled,
    alike,
    anchored_solution,
    degrees_of_freedom,
    held_out_of,
    null_loss,
    working_sums,
)
from salsa.solvers.penalised import Fits
from salsa.solvers.penalties import Penalties, Tried, unsolved_note
from salsa.solvers.systems import ROWS
from salsa.solvers.tiles import KernelTiles, not_held_note
from salsa.uncertainty.cvplus import LowRankUncertainty
from salsa.uncertainty.scored import HeldOut

BEGUN, SOLVED = 1e-4, 1e-12  # tolerances of the first step and of the result, as shares of the best constant's loss
MOST_ALPHA = 10.0 ** LOG10_LIMITS[1]  # relative to the mean diagonal of the kernel matrix
VECTORS = 30  # numbers per row and system that the iterations hold at a time


class Found(NamedTuple):
    """The fits without each fold and to all rows at a penalty, and the spread of their held-out residuals."""

    fits: Duals
    spread: float


class Iterated(NamedTuple):
    """An exact fit: its choice of alpha and posterior, the rows, and coefficients (n, 1) with an offset (1,)."""

    candidate: Candidate
    rows: Observations
    coef: Floats
    offset: Floats


class IteratedFits:
    """The exact fits of a task, for penalties that are tried."""

    def __init__(self, task: AnchoredTask, low: Candidate) -> None:
        """Take the low-rank fit to all rows."""
        assert low.anchors is not None
        self.low, self.anchors, self.steps = low, low.anchors, task.steps
        self.task = task.sample(None)
        rows, folds = self.task.rows, self.task.splits.folds
        (n, D), r = rows.X.shape, len(self.anchors.points)
        self.threads = thread_count(task.threads, n, n, D)
        self.null = null_loss(task.loss, rows.Y, rows.weight)
        F = self.anchors.features(rows.X, n_threads=self.threads)
        self.F = np.ascontiguousarray(F)
        room = task.memory - iterated_bytes(n, D, r, len(folds), self.threads)
        told = self.steps.share("kernel matrix")
        self.tiles = KernelTiles(low.kernel, rows.X, self.threads, room, features=self.F, told=told)
        known = self.F, rows.Y, rows.weight, folds, task.loss, self.threads
        self.systems = KernelSystems(self.tiles.times, *known)

    def chosen(self) -> Iterated:
        """Choose alpha by the held-out losses of the fits without each fold, and return the exact fit to all rows."""
        task, low = self.task, self.low
        penalties, floor = Penalties(self._attempt), ALPHA_FLOOR * mean_diagonal(low.kernel, task.rows.X)
        if not task.splits.folds:  # a single observation or group judges nothing
            path, solved = low.path, self._solve(low.path.alpha, None)
        else:
            if task.alphas is None:
                penalties.search(low.path.alpha, floor, MOST_ALPHA * floor / ALPHA_FLOOR)
            else:
                penalties.attempt_all([max(alpha, floor) for alpha in task.alphas])
            path, best = penalties.path, penalties.tried[penalties.best].solved
            assert best is not None
            solved = best
        return self._finished(path, solved, penalties.unsolved)

    def _attempt(self, alpha: float, start: Found | None) -> Tried[Found]:
        """Return the held-out loss of a penalty."""
        rows, splits = self.task.rows, self.task.splits
        solved = self._solve(alpha, start)
        held = self._held_out(solved.fits)
        error, standard_error = held.error(self.task.loss, rows.Y, rows.weight, splits.unit, self.null)
        alone = self.task.alphas is not None and len(self.task.alphas) == 1
        return Tried(error if alone or solved.fits.converged else np.inf, standard_error, solved)

    def _solve(self, alpha: float, start: Found | None) -> Found:
        """Solve for this penalty; the scale of a loss follows from held-out residuals, as in ``likelihood``."""
        self.steps.step(f"penalty {alpha:.2g}")
        fits, spread = (None, self._spread(self._low_rank())) if start is None else start
        for _ in range(MOST_SCALES):
            self.systems.loss, before = self.task.loss.at_spread(spread), spread
            fits = self._begin(alpha) if fits is None else fits
            fits = self.systems.solve(alpha, fits, SEARCHED * self.null)
            spread = self._spread(fits)
            if self.systems.loss == self.task.loss.at_spread(spread) or alike(before, spread):
                break
        assert fits is not None
        return Found(fits, spread)

    def _begin(self, alpha: float) -> Duals:
        low = self._low_rank()
        return self.systems.begin(low.f, low.offset, alpha, BEGUN * self.null)

    def _low_rank(self) -> Duals:
        """Return the functions of the low-rank fits, without coefficients of the rows."""
        theta, offset = self.low.fits.theta[:, :, 0], self.low.fits.offset[:, 0]
        return Duals(np.empty(0), offset, (self.F @ theta + offset).T)

    def _held_out(self, fits: Duals) -> HeldOut:
        return held_out_of(self.task, fits.f.T[:, :, None])

    def _spread(self, fits: Duals) -> float:
        """Return the spread of the residuals of held-out predictions; 1 if it does not matter."""
        if self.task.loss.link != IDENTITY or not self.task.splits.folds:
            return 1.0
        row, f, *_ = self._held_out(fits)
        return robust_spread(self.task.rows.Y[row] - f, self.task.rows.weight[row])

    def _finished(self, path: AlphaPath, solved: Found, unsolved: list[float]) -> Iterated:
        """Solve to all digits at the chosen penalty."""
        systems, alpha, rows = self.systems, path.alpha, self.task.rows
        systems.loss = self.task.loss.at_spread(solved.spread)
        fits = systems.solve(alpha, solved.fits, SOLVED * self.null)
        tiles = KernelTiles(self.low.kernel, rows.X, self.threads, 0, double=True)
        told = self.steps.share("functions in float64")
        fits = systems.corrected(alpha, fits, partial(tiles.times, told=told), SOLVED * self.null)
        f, basis = fits.f[-1, :, None], Basis(self.low.kernel, self.F, None)
        sums = working_sums(self.task._replace(loss=systems.loss), basis, f)
        theta = (fits.coef @ self.F).T[:, :, None]  # (r, S, 1), the part on the anchors
        kept = Fits(theta, fits.offset[:, None], fits.converged)
        freedom, notes = degrees_of_freedom(sums, alpha), self._notes(alpha, unsolved)
        held = self._held_out(fits)
        candidate = Candidate(
            self.low.kernel, self.anchors, path, kept, held, f, sums, freedom, systems.loss, tuple(notes)
        )
        return Iterated(candidate, rows, fits.coef[-1, :, None].copy(), fits.offset[-1:])

    def _notes(self, alpha: float, unsolved: list[float]) -> list[str]:
        """Return what the user should know of penalties that were not solved, of few anchors, and of tiles not held."""
        left = self.anchors.left * len(self.task.rows.Y) * mean_diagonal(self.low.kernel, self.task.rows.X)
        few = few_anchors_note(len(self.anchors.points), left, alpha)
        return [*unsolved_note(unsolved), *few, *not_held_note(self.tiles, len(self.task.rows.Y))]


def finish_on_matrix(found: Iterated, known: AllRows) -> LikelihoodSolution:
    """Return the calibrated function of all rows, in the units of the target, with its uncertainty on the anchors."""
    chosen, rows, coef, offset = found
    scaled = Scaled.of(chosen, chosen.loss, known.Y, known.weight, known.units)
    expansion, uncertainty, notes = anchored_solution(chosen, scaled, known.weight, rows)
    exact = scaled.function(KernelExpansion(chosen.kernel, rows.X, coef, offset, expansion.marginals))
    assert isinstance(uncertainty.inner, LowRankUncertainty)
    inner = replace(uncertainty.inner, keeps_rows=True)
    return LikelihoodSolution(exact, replace(uncertainty, inner=inner), notes)


def iterated_bytes(n: int, D: int, rank: int, folds: int, threads: int) -> int:
    """Return the peak memory without tiles that are held: features, sums of every system and their factors, vectors."""
    S, r = folds + 1, min(rank, n)
    blocks, tiles = threads * (2 * ROWS * r + (r + 1) ** 2), 3 * threads * tile_bytes(n, double=True)
    return 8 * (2 * n * r + (2 * S + 6) * r * r + VECTORS * n * S + 2 * n * D + blocks) + tiles
