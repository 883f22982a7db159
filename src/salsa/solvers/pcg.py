"""The exact fit to as many rows as memory holds: conjugate gradients on the kernel matrix in float32.

1. Choose anchors among all rows; their features precondition all systems (``systems``).
2. Compute the kernel matrix, once (``tiles``).
3. Choose alpha by the cross-validation error of exact fits. The fits without each fold are solved side by side, for one
   alpha after the other, each from the solutions before (``penalties``).
4. Solve the fits without each fold for this alpha to more digits: they give the intervals.
5. Solve the fit to all rows. Residuals in float64 correct the rounding errors of float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import tile_bytes
from salsa._utils.progress import Told, unheard
from salsa._utils.threads import thread_count
from salsa._utils.user_warning import warn_user
from salsa.data.noise import Noise
from salsa.data.rows import Observations
from salsa.data.splits import Fold, TableSplits
from salsa.expansion import KernelExpansion
from salsa.solvers import RidgeTask, Solution, Solver
from salsa.solvers.alpha import ALPHA_FLOOR, LOG10_LIMITS, Score, mean_diagonal, penalty
from salsa.solvers.anchors import few_anchors_note, pivoted_cholesky
from salsa.solvers.lowrank import marginals
from salsa.solvers.penalties import Penalties, Tried, unsolved_note
from salsa.solvers.systems import WHOLE, Parts, Solved, Systems, Times, solve_systems
from salsa.solvers.tiles import KernelTiles, Tiles, least_alpha, not_held_note
from salsa.uncertainty.iterated import FittedRows, IteratedUncertainty, Witnesses, learn_iterated
from salsa.uncertainty.local_scale import ANCHORS as LOCAL_ANCHORS
from salsa.uncertainty.local_scale import LOCAL_ROWS

SEARCHED, JUDGED, SOLVED = 1e-2, 1e-3, 1e-6  # relative residuals: of the search of alpha, of held-out rows, of the fit
UNSOLVED = 1e-3  # a fit whose relative residual is larger comes with a warning
FIRST, CORRECTED = 1e-5, 0.01  # relative residuals: of the first solution for all rows, and of corrections to it
MOST_ITERATIONS, MOST_CORRECTIONS = 400, 10
MOST_ALPHA = 10.0 ** LOG10_LIMITS[1]  # relative to the mean diagonal of the kernel matrix
LEFT_OF_ALPHA = 0.1  # anchors may leave so many times alpha of the kernel matrix's trace unexplained


def solve_by_iteration(task: RidgeTask) -> Solution:
    """Fit all rows exactly, with alpha by the cross-validation error of exact fits."""
    rows = task.rows.take(np.arange(len(task.rows)))
    fits = ExactFits(task, rows)
    penalties = fits.choose_alpha()
    path, alpha = penalties.path, penalties.best
    without = fits.judged(alpha, penalties.tried[alpha].solved)
    whole = fits.whole(alpha, without)
    background = marginals(task.kernel, rows.X, rows.weight)  # some points stand for many: explanations are quicker
    expansion = KernelExpansion(task.kernel, rows.X, whole.coef, whole.offset + task.level, background).times(task.unit)
    task.steps.step("uncertainty")
    uncertainty, residual = fits.uncertainty(alpha, whole.coef, without)
    task.steps.done("uncertainty")
    _warn(alpha, whole.residual, solved=bool(without.done.all()))
    notes = (f"conjugate gradients: relative residual {whole.residual:.1e}", *fits.notes(alpha, penalties.unsolved))
    scale = uncertainty.cvplus.scale
    return Solution(expansion, uncertainty, path, whole.degrees_of_freedom, notes, scale, residual)


class Whole(NamedTuple):
    """The fit to all rows: coefficients (n, q), offset (q,), relative residual, and degrees of freedom."""

    coef: Floats
    offset: Floats
    residual: float
    degrees_of_freedom: float


class ExactFits:
    """The exact fits of a task: to all rows, and to the rows outside each fold, or to the folds before it."""

    def __init__(self, task: RidgeTask, rows: Observations) -> None:
        assert task.table is not None  # large fits are given splits
        n, D = rows.X.shape
        self.task, self.rows, self.splits = task, rows, task.table
        self.threads = thread_count(task.threads, n, n, D)
        self.Y, self.noise = rows.Y / task.unit - task.level, Noise(rows.weight, rows.group, task.rho)
        self.white = self.noise.whiten(self.Y).T  # (q, n)
        self.fold = self.splits.fold(0, n)
        self.trained, self.tested = _folds(self.splits, self.fold)
        folds = [Fold(rows, np.arange(len(rows))) for rows in self.tested]
        self.score = Score(self.Y, folds, rows.weight, task.loss, self.splits.unit)
        limit = LEFT_OF_ALPHA * penalty(task.kernel, rows.X, task.alpha) / (n * mean_diagonal(task.kernel, rows.X))
        self.anchors = pivoted_cholesky(
            task.kernel, rows.X, task.rank, limit, task.random_state, n_threads=self.threads, steps=task.steps
        )
        told = task.steps.share("products of features")
        self.parts = Parts(self.noise.whiten(self.anchors.F), self.noise, self.trained, self.threads, told)
        self.room = task.memory - pcg_bytes(n, D, self.Y.shape[1], task.rank, len(self.trained), self.threads)
        self.tiles: Tiles | None = None

    def choose_alpha(self) -> Penalties[Solved]:
        """Try the given penalties, or search from the alpha of the sample on."""
        task, X = self.task, self.rows.X
        penalties, floor = Penalties(self._attempt), ALPHA_FLOOR * mean_diagonal(task.kernel, X)
        if task.alphas is None:
            penalties.search(penalty(task.kernel, X, task.alpha), floor, MOST_ALPHA * floor / ALPHA_FLOOR)
        else:
            penalties.attempt_all([max(alpha, floor) for alpha in task.alphas])
        self.parts.forget()
        return penalties

    def judged(self, alpha: float, searched: Solved | None) -> Solved:
        """Return the fits without each fold, with the digits that intervals need."""
        if searched is not None and searched.done.all() and searched.residual.max() <= JUDGED:
            return searched
        judged = self.without_folds(alpha, searched, JUDGED, "fits without each fold")
        self.task.steps.done("fits without each fold", _residual(judged))
        return judged

    def without_folds(self, alpha: float, start: Solved | None, tolerance: float, phase: str) -> Solved:
        """Solve the fits without each fold; systems are numbered fold by fold, output by output."""
        folds, q = len(self.trained), len(self.white)
        part, targets = np.repeat(np.arange(folds), q), np.tile(self.white, (folds, 1))
        systems = Systems(part, np.full(folds * q, alpha), targets)
        return self._solve(systems, alpha, None if start is None else start.z, tolerance, phase)

    def whole(self, alpha: float, without: Solved) -> Whole:
        """Solve the fit to all rows, from the mean of the fits without each fold.

        The residual is computed in float64 again and again, and a correction is solved for. One more system, whose
        target e has random signs, estimates by how much the trace n - alpha e'z of the smoother exceeds the trace of
        the smoother on the anchors, which is known.
        """
        noise, (q, n) = self.noise, self.white.shape
        signs = np.where(self.task.random_state.random_sample(n) < 0.5, -1.0, 1.0)
        target = np.vstack([self.white, signs])
        systems = Systems(np.full(q + 1, WHOLE), np.full(q + 1, alpha), target)
        start = np.vstack([self._mean(without), np.zeros((1, n))])
        first, steps = self._solve(systems, alpha, start, FIRST, "fit to all rows"), self.task.steps
        steps.done("fit to all rows", _residual(first))
        freedom = self.parts.smoother_trace(alpha, signs, first.z[q])
        z, systems = first.z[:q], systems.some(np.arange(q))
        size = np.maximum(np.linalg.norm(self._centred(self.white)[0], axis=1), np.finfo(float).tiny)
        best = Whole(np.zeros((n, q)), np.zeros(q), np.inf, freedom)
        for number in range(MOST_CORRECTIONS):
            coef = noise.transpose_rows(z.copy())
            image = noise.whiten_rows(self._times_in_double(coef, steps.share(f"residual {number + 1} in float64")))
            residual, offset = self._centred(self.white - image - alpha * z)
            left, before = float(np.max(np.linalg.norm(residual, axis=1) / size)), best.residual
            best = Whole(coef.T, offset, left, freedom) if left < before else best
            if left <= SOLVED or left > 0.5 * before:
                break
            systems, wanted = systems._replace(target=residual), max(CORRECTED, 0.3 * SOLVED / left)
            correction = self._solve(systems, alpha, None, wanted, f"correction {number + 1}")
            steps.done(f"correction {number + 1}", f"of a residual of {left:.1e}, {correction.iterations} iterations")
            z = z + correction.z
        return best

    def uncertainty(self, alpha: float, coef: Floats, without: Solved) -> tuple[IteratedUncertainty, Floats]:
        """Return the uncertainty, and the held-out residuals (k, q), both in the units of the target."""
        task, (n, q) = self.task, self.Y.shape
        residual, tested = np.zeros((n, q)), np.concatenate(self.tested)
        residual[tested] = np.concatenate(self._held_out(without))
        rows = FittedRows(self.rows.X, self.Y, self.noise, self.splits, self.fold, coef)
        coefs = self.noise.transpose_rows(without.z.copy()).reshape(-1, q, n).transpose(0, 2, 1)
        fits = np.ascontiguousarray(coefs), without.offset.reshape(-1, q)
        witnesses, units = Witnesses(self.anchors.places, self.anchors.F, self.parts.gram), (task.unit, task.level)
        local = not task.two_valued
        found = learn_iterated(task.kernel, rows, witnesses, alpha, fits, residual, units, local=local)
        return found, task.unit * residual[np.sort(tested)]

    def notes(self, alpha: float, unsolved: Sequence[float]) -> list[str]:
        """Return what the user should know of penalties that were not solved, of few anchors, and of tiles not held."""
        left = self.anchors.left * len(self.Y) * mean_diagonal(self.task.kernel, self.rows.X)
        notes = [*unsolved_note(unsolved), *few_anchors_note(len(self.anchors.places), left, alpha)]
        return notes if self.tiles is None else [*notes, *not_held_note(self.tiles, len(self.Y))]

    def _attempt(self, alpha: float, start: Solved | None) -> Tried[Solved]:
        """Return the cross-validation error of a penalty."""
        self.parts.forget()
        solved = self.without_folds(alpha, start, SEARCHED, f"alpha {alpha:.2e}")
        error, standard_error = self.score(self._held_out(solved))
        found = f"error {error:.4g} of the variance" if solved.done.all() else "not solved"
        self.task.steps.done(f"alpha {alpha:.2e}", f"{_residual(solved)}, {found}")
        alone = self.task.alphas is not None and len(self.task.alphas) == 1  # a warning tells if it does not converge
        return Tried(error if alone or solved.done.all() else np.inf, standard_error, solved)

    def _held_out(self, solved: Solved) -> list[Floats]:
        """Return the residuals (tested rows, q) of every fold."""
        predicted = (solved.fitted + solved.offset[:, None]).reshape(-1, *self.white.shape)  # (folds, q, n)
        return [self.Y[rows] - predicted[k][:, rows].T for k, rows in enumerate(self.tested)]

    def _mean(self, without: Solved) -> Floats:
        """Return the mean (q, n) of the solutions without each fold, over the fits that know the row."""
        known = np.maximum(self.trained.sum(axis=0), 1)
        return self._centred(without.z.reshape(-1, *self.white.shape).sum(axis=0) / known)[0]

    def _centred(self, V: Floats) -> tuple[Floats, Floats]:
        """Return V (q, n) without its part along u, and this part (q,)."""
        u = self.noise.ones
        part = V @ u / (u @ u)
        return V - np.outer(part, u), part

    def _solve(self, systems: Systems, alpha: float, start: Floats | None, tolerance: float, phase: str) -> Solved:
        times, steps = self._times(alpha), self.task.steps
        steps.step(phase)

        def told(count: int, residual: float) -> None:
            steps.step(phase, None, f"{count} iterations, residual {residual:.1e}")

        return solve_systems(times, self.parts, systems, start, tolerance, MOST_ITERATIONS, told)

    def _times(self, alpha: float) -> Times:
        """Return the product with the kernel matrix, whose tiles have the digits that this penalty needs."""
        kernel, X = self.task.kernel, self.rows.X
        double = alpha < least_alpha(kernel, X)
        if self.tiles is None or (double and not self.tiles.double):
            self.tiles = None  # gives its memory back
            told = self.task.steps.share("kernel matrix in float64" if double else "kernel matrix")
            self.tiles = self._tiles(double=double, held=True, told=told)
        return self.tiles.times if self.tiles.held == 1.0 else partial(self.tiles.times, told=self._computed_again)

    def _computed_again(self, share: float) -> None:
        """Say how far a product is whose tiles are not held; its end is not worth a line."""
        if share < 1.0:
            self.task.steps.step("kernel matrix, computed again", share)

    def _times_in_double(self, V: Floats, told: Told) -> Floats:
        """Return the products K v (c, n) of the rows of V (c, n) in float64."""
        tiles = self.tiles
        if tiles is None or not tiles.double:  # these tiles are computed, used, and forgotten
            tiles = self._tiles(double=True, held=False)
        return tiles.times(V, told)

    def _tiles(self, *, double: bool, held: bool, told: Told = unheard) -> Tiles:
        """Return the kernel matrix, here or on the workers of a cluster."""
        kernel, X, cluster = self.task.kernel, self.rows.X, self.task.cluster
        if cluster is not None:
            return cluster.tiles(kernel, X, double=double, held=held)
        return KernelTiles(kernel, X, self.threads, self.room if held else 0, double=double, told=told)


def _residual(solved: Solved) -> str:
    return f"{solved.iterations} iterations, residual {solved.residual.max():.1e}"


def _warn(alpha: float, residual: float, *, solved: bool) -> None:
    """Warn of a fit that did not converge."""
    if residual > UNSOLVED or not solved:
        what = f"conjugate gradients did not converge for alpha = {alpha:.1e} (relative residual {residual:.1e})"
        warn_user(f"{what}: give a larger alpha, a larger rank or solver='exact'", ConvergenceWarning)


def _folds(splits: TableSplits, fold: Places) -> tuple[NDArray[np.bool_], list[Places]]:
    """Return the rows (folds, n) that each fit knows, and the rows that test it."""
    numbers = range(1, splits.n_folds) if splits.forward else range(splits.n_folds)
    trained = np.array([fold < k if splits.forward else fold != k for k in numbers])
    return trained, [np.flatnonzero(fold == k) for k in numbers]


def pcg_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int) -> int:
    """Return the peak memory without tiles that are held: features, their Gram matrices, vectors, the local scale."""
    r = min(rank, n)
    vectors, local = 24 * n * (folds * outputs + 2), 5 * min(n, 2 * LOCAL_ROWS) * LOCAL_ANCHORS
    return 8 * (3 * n * r + (2 * folds + 6) * r * r + vectors + local) + threads * tile_bytes(n, double=True)


SOLVER = Solver(True, pcg_bytes, solve_by_iteration)
