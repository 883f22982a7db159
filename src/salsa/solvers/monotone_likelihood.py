"""Fits of a likelihood that are monotone in some features, on the scale of the link: the steps of ``monotone``.

1. If the free fit is proven to be monotone, it is the result.
2. Choose alpha by the held-out loss of monotone fits without each fold, from the free fit's alpha on.
3. Fit all rows at this alpha until the signs are proven.

All of these fits are functions of anchors: of the free fit's anchors if it is low-rank, of up to BASIS rows otherwise.
Factors that calibrate probabilities are positive, and quantiles are shifted by a constant: both keep the signs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats
from salsa.expansion import KernelExpansion
from salsa.solvers.alpha import AlphaPath
from salsa.solvers.anchors import Anchors, choose_anchors
from salsa.solvers.constrained import Function, Minimum, PenalisedLoss, minimise
from salsa.solvers.cutting_planes import Correction, FreeFit, MonotoneFits
from salsa.solvers.likelihood import (
    SEARCHED,
    Basis,
    Candidate,
    LikelihoodTask,
    degrees_of_freedom,
    held_out_of,
    null_loss,
    working_sums,
)
from salsa.solvers.monotone import BASIS, BASIS_TOLERANCE, constrained_penalties, grid_bytes
from salsa.solvers.penalised import Fits, Systems
from salsa.solvers.penalties import Tried
from salsa.solvers.slopes import Monotone

Correct = Callable[[FreeFit], Correction]
FINAL = 1e-8  # tolerance of the mean loss of the fit to all rows, as a share of the best constant's loss


class MonotoneCandidate(NamedTuple):
    """A monotone fit in the place of a free one, and notes."""

    candidate: Candidate
    notes: tuple[str, ...]


def constrain_likelihood(
    task: LikelihoodTask, monotone: Monotone, chosen: Candidate, free: KernelExpansion
) -> MonotoneCandidate | None:
    """Return the monotone fit with the kernel of the chosen free fit; None if that is monotone already."""
    task.steps.step("proof of monotone slopes")
    if MonotoneFits(free.kernel, free.anchors, np.arange(0), np.zeros((0, 0)), monotone).proven(free.coef):
        return None
    kernel, anchors, X, threads = chosen.kernel, chosen.anchors, task.rows.X, task.threads
    if anchors is None:
        draws = min(len(X), BASIS), BASIS_TOLERANCE, task.random_state
        anchors = choose_anchors(kernel, X, *draws, n_threads=threads, steps=task.steps)
    basis = Basis(kernel, anchors.features(X, n_threads=threads), None)
    return LikelihoodFits(task, monotone, basis, anchors).chosen(chosen)


class LikelihoodFits:
    """Monotone fits to all rows, and to the rows outside each fold, on anchors; the fit to all rows is the last."""

    def __init__(self, task: LikelihoodTask, monotone: Monotone, basis: Basis, anchors: Anchors) -> None:
        rows = task.rows
        self.task, self.basis, self.anchors, self.L = task, basis, anchors, anchors.L
        self.systems = Systems(basis.F, rows.Y, rows.weight, task.splits.folds, task.loss)
        self.fits = MonotoneFits(basis.kernel, anchors.points, np.arange(len(anchors.L)), anchors.L, monotone)
        self.null = null_loss(task.loss, rows.Y, rows.weight)
        self.span = np.zeros(1)  # of the free fit to all rows

    def chosen(self, free: Candidate) -> MonotoneCandidate:
        """Choose alpha, and fit all rows."""
        task, first = self.task, free.path.alpha
        self.span = self._span(self._free(first, None), first)
        penalties = constrained_penalties(self._attempt, first, self.basis.kernel, task.rows.X, task.alphas)
        path, fits = penalties.path, penalties.tried[penalties.best].solved
        assert fits is not None  # the best penalty keeps its fits
        task.steps.step("monotone fit to all rows")
        found = self._minimum(fits, -1, path.alpha, partial(self.fits.fitted, span=self.span), FINAL)
        return self._candidate(path, fits, found)

    def _free(self, alpha: float, near: Fits | None) -> Fits:
        return self.systems.solve(alpha, near or self.systems.start(), SEARCHED * self.null)

    def _attempt(self, alpha: float, near: Fits | None) -> Tried[Fits]:
        """Fit the rows outside each fold, and judge the fits; the fit to all rows stays free."""
        task, rows = self.task, self.task.rows
        task.steps.step(f"monotone fits without each fold, alpha {alpha:.2g}")
        fits, correct = self._free(alpha, near), partial(self.fits.judged, span=self.span)
        for s in range(len(task.splits.folds)):
            fits = _with(fits, s, self._minimum(fits, s, alpha, correct, SEARCHED))
        found = held_out_of(task, self.systems.predict(fits))
        error, spread = found.error(task.loss, rows.Y, rows.weight, task.splits.unit, self.null)
        return Tried(error, spread, fits)

    def _minimum(self, fits: Fits, s: int, alpha: float, correct: Correct, tolerance: float) -> Minimum:
        """Return the monotone fit of system s, which starts from the given fits."""
        J, start = self._problem(fits, s, alpha)
        return minimise(J, self.L, correct, start, tolerance * self.null)

    def _problem(self, fits: Fits, s: int, alpha: float) -> tuple[PenalisedLoss, Function]:
        """Return the penalised loss of system s, and its function among the given fits."""
        systems, centre = self.systems, float(self.systems.start().offset[s, 0])
        rows = systems.loss, np.asarray(systems.F, dtype=np.float64), systems.Y, systems.W[:, s]
        J = PenalisedLoss(*rows, alpha, float(systems.hold[s]), centre)
        return J, J.function(fits.theta[:, s, 0], float(fits.offset[s, 0]))

    def _span(self, fits: Fits, alpha: float) -> Floats:
        """Return the span (1,) of the free fit to all rows, whose last digits a large alpha hides from the loss."""
        J, at = self._problem(fits, -1, alpha)
        return J.span(at)

    def _candidate(self, path: AlphaPath, fits: Fits, found: Minimum) -> MonotoneCandidate:
        """Return the fit in the form of a free one; without a proof of its signs it is constant."""
        if found.correction.proven.all():
            fits = _with(fits, -1, found)
        else:
            fits.theta[:, -1], fits.offset[-1] = 0.0, self.systems.start().offset[-1]
        predicted = self.systems.predict(fits)
        task, held_out, f = self.task, held_out_of(self.task, predicted), predicted[:, -1]
        sums = working_sums(task, self.basis, f)
        freedom = degrees_of_freedom(sums, path.alpha)
        basis = self.basis.kernel, self.anchors
        candidate = Candidate(*basis, path, fits, held_out, f, sums, freedom, task.loss)
        return MonotoneCandidate(candidate, self.fits.notes(found.correction))


def _with(fits: Fits, s: int, found: Minimum) -> Fits:
    """Return the fits with another one in the place of system s."""
    theta, offset = fits.theta.copy(), fits.offset.copy()
    theta[:, s, 0], offset[s] = found.function[:2]
    return Fits(theta, offset, fits.converged and found.converged)


def monotone_likelihood_bytes(n: int, D: int, rank: int, folds: int) -> int:
    """Return the peak memory of monotone fits: features and their copies, and the matrices of every system.

    With a rank of n, the features of the exact free fit are held, too.
    """
    r, free = (min(n, BASIS), n) if rank >= n else (rank, 0)
    return 8 * (n * (4 * r + free) + (2 * folds + 6) * r * r) + grid_bytes(r, D)
