"""Fits of many rows that minimise a penalised likelihood on the features of anchors (``likelihood``, ``row_systems``).

1. Anchors are chosen from a sample of the rows. Features are held as far as memory allows (``feature_rows``).
2. The fits without each fold and the fit to all rows, for several penalties at once. Their held-out losses choose
   alpha.
3. The sums over the working response of the fit to all rows give its posterior.

Rows are read again for every sum. Targets, weights, folds and held-out predictions of all rows stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import format_bytes
from salsa._utils.progress import SILENT, Steps
from salsa._utils.threads import thread_count
from salsa.data.rows import Observations, Rows, array_rows
from salsa.data.splits import Splits
from salsa.kernels import Kernel
from salsa.losses import IDENTITY, Likelihood, density_of, robust_spread
from salsa.solvers import SAMPLE_ROWS
from salsa.solvers.alpha import ALPHA_FLOOR, AlphaPath, descend_alpha, mean_diagonal, penalty, try_alphas
from salsa.solvers.anchors import Anchors, choose_anchors
from salsa.solvers.feature_rows import BLOCK, FeatureRows, Patterns
from salsa.solvers.likelihood import (
    FINAL,
    LEFT_OF_ALPHA,
    MOST_SCALES,
    SEARCHED,
    Candidate,
    LikelihoodSolution,
    LikelihoodTask,
    Scaled,
    alike,
    anchored_solution,
    at_places,
    degrees_of_freedom,
    held_out,
    null_loss,
)
from salsa.solvers.penalised import Fits, hold_of
from salsa.solvers.row_systems import RowSystems, Solved
from salsa.uncertainty.scored import HeldOut

AHEAD = 5  # penalties that a search solves at once
RECOMPUTED = (
    "memory holds the features of {:.0%} of the rows ({} of {}): the others were computed again in {} passes over the"
    " rows"
)


class AllRows(NamedTuple):
    """All rows, wherever they are, and what of them stays in memory."""

    rows: Rows  # with targets as given
    Y: Floats  # (n, q), as given, over the unit
    weight: Floats  # (n,), one on average
    splits: Splits
    counts: Floats | None = None  # how many new observations a row stands for; None: one
    unit: Floats | None = None  # (q,); None: one
    rank: Places | None = None  # (n,) of every row, an order in which samples are drawn; None: by the target

    @property
    def units(self) -> Floats:
        """The unit (q,) of the targets."""
        return np.ones(self.Y.shape[1]) if self.unit is None else self.unit

    def over(self, unit: Floats) -> AllRows:
        """Return the rows with targets in another unit (q,)."""
        return self._replace(Y=self.Y / unit, unit=unit)


class AnchoredTask(NamedTuple):
    """A fit of many rows to a likelihood on anchors: everything that it needs but the kernel."""

    known: AllRows
    loss: Likelihood
    alphas: tuple[float, ...] | None  # the user's candidates; None: alpha is searched
    rank: int  # the most anchors
    threads: int | None
    memory: int  # bytes that the fit may take
    steps: Steps = SILENT

    def sample(self, most: int | None) -> LikelihoodTask:
        """Return the task of at most so many rows in memory, evenly spaced in the order of the target; None: of all."""
        rows, Y, weight, splits, counts, _, rank = self.known
        if most is None:
            some = Observations(rows.take(np.arange(len(Y))).X, Y, weight)
        else:
            places = splits.sample(self.loss.coded(Y) if rank is None else rank[:, None].astype(np.float64), most)
            X, order = rows.take(places).X, slice(None) if rank is None else np.argsort(rank[places])
            places = places[order]
            some = Observations(X[order], Y[places], weight[places])
            splits, counts = splits.at(places), at_places(counts, places)
        draws = self.rank, splits.random_state, self.threads, counts, self.steps, self.memory
        return LikelihoodTask(some, splits, self.loss, self.alphas, *draws)


def in_memory(task: LikelihoodTask, rank: int) -> AnchoredTask:
    """Return the task of rows in memory, to be fitted on at most `rank` anchors."""
    rows = task.rows
    threads = thread_count(task.threads, len(rows.X), rank, rows.X.shape[1])
    known = AllRows(array_rows(rows, threads), rows.Y, rows.weight, task.splits, task.counts)
    return AnchoredTask(known, task.loss, task.alphas, rank, task.threads, task.memory, task.steps)


def fit_on_anchors(
    task: AnchoredTask, sample: Observations, kernel: Kernel, alpha: float, near: float = np.inf
) -> Candidate:
    """Fit all rows on anchors from a sample, chosen for the penalty `alpha`; the search begins near another one."""
    X, n, random_state = sample.X, len(task.known.Y), task.known.splits.random_state
    tolerance = LEFT_OF_ALPHA * penalty(kernel, X, alpha) / (n * mean_diagonal(kernel, X))
    draws = task.rank, tolerance, random_state
    anchors = choose_anchors(kernel, X, *draws, n_threads=task.threads, steps=task.steps)
    return AnchoredFits(task, anchors, mean_diagonal(kernel, X)).chosen(near)


def finish_on_anchors(chosen: Candidate, known: AllRows, sample: Observations) -> LikelihoodSolution:
    """Return the calibrated function, in the units of the target, with its uncertainty."""
    scaled = Scaled.of(chosen, chosen.loss, known.Y, known.weight, known.units)
    return anchored_solution(chosen, scaled, known.weight, sample)


class AnchoredFits:
    """The fits of a task on anchors, for penalties that are tried."""

    def __init__(self, task: AnchoredTask, anchors: Anchors, scale: float) -> None:
        """Take the mean diagonal of the kernel matrix as `scale`."""
        self.task, self.anchors, self.scale = task, anchors, scale
        self.Y, self.weight, self.splits = task.known.Y, task.known.weight, task.known.splits
        (n, q), (r, D), folds, loss = self.Y.shape, anchors.points.shape, len(self.splits.folds), task.loss
        threads, patterns = thread_count(task.threads, n, r, folds + 1), Patterns.of(self.splits)
        memory = task.memory - systems_bytes(n, D, q, r, folds, threads)
        self.features = FeatureRows(task.known.rows, anchors, patterns, memory, task.steps, threads)
        weights = [self.weight * patterns.known[patterns.number, s] for s in range(folds + 1)]
        hold, total = np.array([(hold_of(loss, self.Y, weight), weight.sum()) for weight in weights]).T
        constant = loss.constant(self.Y, self.weight)
        self.systems = RowSystems(self.features, constant, total, hold, task.known.units, loss)
        self.null = null_loss(loss, self.Y, self.weight)
        self.tried: dict[float, tuple[Solved, float]] = {}

    def chosen(self, near: float) -> Candidate:
        """Choose alpha by the held-out losses of the fits without each fold, and fit all rows."""
        task = self.task
        if not self.splits.folds:  # a single observation or group judges nothing
            alpha = max(task.alphas[0] if task.alphas else self.scale, ALPHA_FLOOR * self.scale)
            path = AlphaPath(np.empty(0), np.empty(0), alpha, 1.0, 0.0)
        elif task.alphas is None:
            path = descend_alpha(self.errors_of, self.scale, near, AHEAD)
        else:
            alphas = [max(alpha, ALPHA_FLOOR * self.scale) for alpha in task.alphas]
            parts = [alphas[start : start + AHEAD] for start in range(0, len(alphas), AHEAD)]
            errors = [error for part in parts for error in self.errors_of(part)]
            path = try_alphas(dict(zip(alphas, errors, strict=True)).__getitem__, alphas)
        return self._candidate(path)

    def errors_of(self, alphas: Sequence[float]) -> list[tuple[float, float]]:
        """Return the held-out losses of the fits for these penalties, and their standard errors."""
        task, unit = self.task, self.splits.unit
        task.steps.step(f"penalties {max(alphas):.2g} to {min(alphas):.2g}")
        predicted = self._solve(alphas)
        held_out = [self._held_out_of(predicted[:, a]) for a in range(len(alphas))]
        return [one.error(task.loss, self.Y, self.weight, unit, self.null) for one in held_out]

    def _solve(self, alphas: Sequence[float]) -> Floats:
        """Solve for these penalties, and return what the fits without each fold predict (n, A, T, q).

        Losses with a scale have the scale that follows from their held-out residuals, as in ``likelihood``.
        """
        starts, spreads = zip(*map(self._nearest, alphas), strict=True)
        solved = Solved(np.concatenate([start.x for start in starts], axis=1))
        for _ in range(MOST_SCALES):
            losses, before = [self.task.loss.at_spread(spread) for spread in spreads], spreads
            solved = self.systems.solve(alphas, losses, solved, SEARCHED * self.null)
            predicted = self.systems.held_out(solved)
            spreads = tuple(self._spread(predicted[:, a]) for a in range(len(alphas)))
            settled = [loss == self.task.loss.at_spread(spread) for loss, spread in zip(losses, spreads, strict=True)]
            if all(one or alike(*pair) for one, *pair in zip(settled, before, spreads, strict=True)):
                break
        self.tried |= {alpha: (solved.at(a), spreads[a]) for a, alpha in enumerate(alphas)}
        return predicted

    def _nearest(self, alpha: float) -> tuple[Solved, float]:
        """Return the fits of the nearest penalty that was tried, and the spread of their held-out residuals."""
        if self.tried:
            return self.tried[min(self.tried, key=lambda other: abs(np.log(other / alpha)))]
        constants = np.broadcast_to(
            self.systems.constant, (len(self.Y), self.features.patterns.tested.shape[1], self.systems.q)
        )
        return self.systems.start(1), self._spread(constants)

    def _spread(self, predicted: Floats) -> float:
        """Return the spread of the residuals of held-out predictions (n, T, q); 1 if it does not matter."""
        if self.task.loss.link != IDENTITY or not self.splits.folds:
            return 1.0
        row, f, *_ = self._held_out_of(predicted)
        return robust_spread(self.Y[row] - f, self.weight[row])

    def _held_out_of(self, predicted: Floats) -> HeldOut:
        """Return the predictions (n, T, q) of the systems that test a row, fold after fold."""
        patterns, folds = self.features.patterns, self.splits.folds
        place = [np.argmax(patterns.tested[patterns.number[fold.tested]] == s, axis=1) for s, fold in enumerate(folds)]
        found = [predicted[fold.tested, places] for fold, places in zip(folds, place, strict=True)]
        return held_out(self.splits, self.task.known.counts, found, self.systems.q)

    def _candidate(self, path: AlphaPath) -> Candidate:
        """Fit all rows with this penalty, to all digits, and return its posterior."""
        task, systems, alpha = self.task, self.systems, path.alpha
        start, spread = self._nearest(alpha)
        loss = task.loss.at_spread(spread)
        solved = systems.solve([alpha], [loss], start, FINAL * self.null, certain=True)
        x = solved.x[:, 0]  # (r + 1, S, q)
        held, f = self._held_out_of(systems.held_out(solved)[:, 0]), systems.fitted(x[:, -1])
        sums = systems.working_sums(x[:, -1], loss, density_of(loss, self.Y, f))
        fits, freedom = Fits(x[1:], x[0], solved.converged), degrees_of_freedom(sums, alpha)
        return Candidate(self.anchors.kernel, self.anchors, path, fits, held, f, sums, freedom, loss, self._notes())

    def _notes(self) -> tuple[str, ...]:
        """Return a note if features were computed again in every sum over the rows."""
        n, r, count = len(self.Y), len(self.anchors.points), self.features.count
        if count == n:
            return ()
        held, whole = (format_bytes(4.0 * rows * r) for rows in (count, n))
        return (RECOMPUTED.format(count / n, held, whole, self.systems.passes),)


def anchored_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    """Return the least peak memory of a fit on anchors: features need not be held."""
    sample = 8 * min(n, SAMPLE_ROWS) * (2 * rank + 2 * D)
    return max(sample, systems_bytes(n, D, outputs, rank, folds, threads))


def systems_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    """Return the peak memory of systems on anchors, without the features that are held.

    It has the sums of every system, which each thread adds to, or their factors; blocks; and numbers of every row.
    """
    S, A = folds + 1, AHEAD
    matrices = max((threads + 2) * S, (A + 1) * S) + 3
    blocks = 8 * threads * BLOCK * (6 * rank + 2 * D + 4 * A * S * outputs)
    return 8 * matrices * (rank + 1) ** 2 + blocks + 8 * n * outputs * (2 * A + S + 6)
