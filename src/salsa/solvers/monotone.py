"""Ridge fits that are monotone in some features everywhere in the box of the training range.

1. Fit freely. If the slopes are proven to have the right signs, the free fit is the result, bit for bit.
2. Choose alpha by the cross-validation error of monotone fits, from the free fit's alpha on.
3. Correct the free fit at this alpha until its signs are proven (``cutting_planes``).
4. Take intervals from the monotone fits without each fold. Posterior standard deviations are the free fit's.

Exact fits are corrected on up to BASIS anchors among their rows, low-rank fits on their anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cho_solve

from salsa._utils.arrays import Floats, Places
from salsa._utils.linalg import positive_factor
from salsa._utils.sums import HeldOutSums, RidgePath, pooled_error
from salsa.data.splits import StoredFolds, TableSplits, fold_numbers
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.solvers import RidgeTask, Solution
from salsa.solvers.alpha import ALPHA_FLOOR, LOG10_LIMITS, AlphaPath, Score, mean_diagonal
from salsa.solvers.anchors import Anchors, pivoted_cholesky
from salsa.solvers.cutting_planes import FITTING, Correction, FreeFit, MonotoneFits
from salsa.solvers.penalties import Penalties, Tried
from salsa.solvers.ridge import solve_once
from salsa.solvers.slopes import FINEST_S, Monotone
from salsa.uncertainty.iterated import FittedRows, IteratedUncertainty, Witnesses, learn_iterated

T = TypeVar("T")
Fits = list[tuple[Floats, Floats]]  # parameters theta (r, q) and offset (q,) of every fit
BASIS, BASIS_TOLERANCE = 1000, 1e-9  # the most anchors of corrections to exact fits, and the trace they may leave
WORTHWHILE = 0.1  # standard errors by which another alpha must be better than the free fit's
ALL_ROWS = -1  # number of the training set of all rows; folds are numbered from 0
FREE = "monotonic_cst: the free fit is monotone, and no constraint is needed"


class LeftOut(NamedTuple):
    """Fits without each fold: coefs (folds, n, q), offsets (folds, q), and the residuals of the rows of every fold."""

    coefs: Floats
    offsets: Floats
    residuals: list[Floats]


class FoldFits(NamedTuple):
    """The free fits to all rows but a fold, for any alpha, with their held-out errors; variance (q,) of the target."""

    parts: list[HeldOutSums]
    variance: Floats


class Constrained(NamedTuple):
    """A monotone fit on anchors: alpha, (theta, offset) of the fit and of the fits without each fold, and notes."""

    path: AlphaPath
    solution: tuple[Floats, Floats]
    without: Fits
    notes: tuple[str, ...]


def constrain_on_anchors(
    task: RidgeTask,
    monotone: Monotone,
    anchors: Anchors,
    whole: RidgePath,
    folds: FoldFits,
    free: AlphaPath,
    span: Floats,
) -> Constrained | None:
    """Correct a free fit on anchors, whose function has this span (q,); None if it is monotone already."""
    fits = MonotoneFits(anchors.kernel, anchors.points, np.arange(len(anchors.points)), anchors.L, monotone)
    if fits.proven(anchors.expansion(*whole.solution(free.alpha)).coef):
        return None
    step = task.steps.step

    def free_fit(path: RidgePath, alpha: float) -> FreeFit:
        coef = anchors.expansion(*path.solution(alpha)).coef
        return FreeFit(coef, lambda V: path.V @ (path.V.T @ V / (path.values + alpha)[:, None]))

    def corrected(path: RidgePath, alpha: float, d: Floats) -> tuple[Floats, Floats]:
        theta = path.solution(alpha)[0] + d
        return theta, path.y_mean - path.x_mean @ theta

    def attempt(alpha: float, _: Fits | None) -> Tried[Fits]:
        step(f"monotone fits without each fold, alpha {alpha:.2g}")
        found = [corrected(p.path, alpha, fits.judged(free_fit(p.path, alpha), span).d) for p in folds.parts]
        pairs = zip(folds.parts, found, strict=True)
        errors = [part.squared_error_of(part.path.V.T @ theta) for part, (theta, _) in pairs]
        return Tried(*pooled_error(folds.parts, folds.variance, errors), found)

    penalties = constrained_penalties(attempt, free.alpha, task.kernel, task.sample.X, task.alphas)
    step("monotone fit to all rows")
    alpha, without = penalties.best, penalties.tried[penalties.best].solved
    assert without is not None  # the best penalty keeps its solutions
    correction = fits.fitted(free_fit(whole, alpha), span)
    theta, offset = corrected(whole, alpha, correction.d)
    solution = theta * correction.proven, np.where(correction.proven, offset, whole.y_mean)
    return Constrained(penalties.path, solution, without, fits.notes(correction))


class ExactFits:
    """Monotone fits to all rows, and to the rows outside each fold: exact free fits, with corrections on anchors."""

    def __init__(self, task: RidgeTask, monotone: Monotone, span: Floats) -> None:
        kernel, X = task.kernel, task.sample.X
        self.task, self.span = task, span
        self.anchors = pivoted_cholesky(kernel, X, min(len(X), BASIS), BASIS_TOLERANCE, task.random_state)
        L = positive_factor(kernel(X[self.anchors.places], n_threads=task.threads))
        self.fits = MonotoneFits(kernel, X, self.anchors.places, L, monotone)
        self.K = kernel(X, n_threads=task.threads)
        self.moments: dict[int, tuple[Floats, Floats]] = {}  # mean (r,) and centred C (r, r) of every training set

    def free(self, number: int, rows: Places, alpha: float) -> tuple[FreeFit, Floats]:
        """Return the free fit to these rows, and its offset (q,)."""
        task, noise = self.task, self.task.noise.some(rows)
        part, offset, _ = solve_once(self.K[np.ix_(rows, rows)], task.sample.Y[rows], alpha, noise)
        coef = np.zeros_like(task.sample.Y)
        coef[rows] = part
        if number not in self.moments:
            F = self.anchors.F[rows]
            mean = noise.mean_weight @ F
            centred = noise.whiten(F - mean)
            self.moments[number] = mean, centred.T @ centred
        H = self.moments[number][1].copy()
        H.flat[:: len(H) + 1] += alpha
        L = positive_factor(H)
        return FreeFit(coef, lambda V: cho_solve((L, True), V, check_finite=False)), offset

    def shifted(self, number: int, offset: Floats, correction: Correction) -> Floats:
        """Return the offset (q,) of the corrected fit."""
        return offset - self.moments[number][0] @ correction.d

    def without(self, alpha: float) -> LeftOut:
        """Fit the rows outside each fold."""
        task, left_out = self.task, LeftOut(np.empty(0), np.empty(0), [])
        assert task.splits is not None  # a function that is not constant has seen two units, which are split
        task.steps.step(f"monotone fits without each fold, alpha {alpha:.2g}")
        coefs, offsets = [], []
        for number, fold in enumerate(task.splits.folds):
            free, offset = self.free(number, np.setdiff1d(np.arange(len(self.K)), fold.held_out), alpha)
            correction = self.fits.judged(free, self.span)
            coefs.append(correction.coef)
            offsets.append(self.shifted(number, offset, correction))
            predicted = self.K[fold.held_out] @ coefs[-1] + offsets[-1]
            left_out.residuals.append(task.sample.Y[fold.held_out] - predicted)
        return left_out._replace(coefs=np.array(coefs), offsets=np.array(offsets))

    def choose_alpha(self) -> Penalties[LeftOut]:
        """Choose alpha by the cross-validation error of the monotone fits."""
        task, splits = self.task, self.task.splits
        assert splits is not None
        score = Score(task.sample.Y, splits.folds, task.sample.given_weight, task.loss, splits.unit)

        def attempt(alpha: float, _: LeftOut | None) -> Tried[LeftOut]:
            found = self.without(alpha)
            return Tried(*score(found.residuals), found)

        return constrained_penalties(attempt, task.alpha, task.kernel, task.sample.X, task.alphas)

    def degrees_of_freedom(self, alpha: float) -> float:
        """Return the trace of the free fit's smoother on the anchors, plus one for the intercept."""
        values = np.maximum(np.linalg.eigvalsh(self.moments[ALL_ROWS][1]), 0.0)
        return 1.0 + float(np.sum(values / (values + alpha)))

    def uncertainty(self, alpha: float, coef: Floats, left_out: LeftOut) -> tuple[IteratedUncertainty, Floats]:
        """Return the uncertainty from the monotone fits without each fold, and held-out residuals (k, q).

        coef (n, q) of the free fit give the amplitude of posterior deviations.
        """
        task, splits = self.task, self.task.splits
        assert splits is not None
        number, forward = fold_numbers(splits)
        drawn = StoredFolds(number), int(number.max()) + 1, splits.random_state
        table = TableSplits(splits.n, *drawn, splits.unit, splits.given, forward)
        residual = np.zeros_like(task.sample.Y)
        for fold, found in zip(splits.folds, left_out.residuals, strict=True):
            residual[fold.tested] = found[fold.test]
        white = task.noise.whiten(self.anchors.F)
        witnesses = Witnesses(self.anchors.places, self.anchors.F, white.T @ white)
        rows = FittedRows(task.sample.X, task.sample.Y, task.noise, table, number, coef)
        parts = rows, witnesses, alpha, left_out[:2], residual, (task.unit, task.level)
        tested = np.concatenate([fold.tested for fold in splits.folds])
        return learn_iterated(task.kernel, *parts, local=not task.two_valued), task.unit * residual[tested]


def constrain_exact(task: RidgeTask, monotone: Monotone, free: Solution) -> Solution:
    """Return the free solution if it is monotone; otherwise the monotone fit, with its own alpha and intervals."""
    task.steps.step("proof of monotone slopes")
    kernel, X, coef, _ = free.expansion.parts
    if MonotoneFits(kernel, X, np.arange(0), np.zeros((0, 0)), monotone).proven(coef):
        return free._replace(notes=(*free.notes, FREE))
    fits = ExactFits(task, monotone, free.expansion.span / task.unit)
    penalties = fits.choose_alpha()
    alpha, left_out = penalties.best, penalties.tried[penalties.best].solved
    assert left_out is not None  # the best penalty keeps its fits
    task.steps.step("monotone fit to all rows")
    whole, offset = fits.free(ALL_ROWS, np.arange(len(X)), alpha)
    correction = fits.fits.fitted(whole, fits.span)
    proven, level = correction.proven, task.noise.mean_weight @ task.sample.Y
    coef, offset = correction.coef * proven, np.where(proven, fits.shifted(ALL_ROWS, offset, correction), level)
    expansion = KernelExpansion(kernel, X, coef, offset, free.expansion.marginals).times(task.unit)
    notes, freedom = (*free.notes, *fits.fits.notes(correction)), fits.degrees_of_freedom(alpha)
    uncertainty, residual = fits.uncertainty(alpha, whole.coef, left_out)
    return Solution(expansion, uncertainty, penalties.path, freedom, notes, uncertainty.cvplus.scale, residual)


class NearPenalties(Penalties[T]):
    """Penalties of which one near the first is kept unless another one is better by WORTHWHILE standard errors.

    The first penalty, which is the free fit's, was searched on a fine grid. Smaller steps of the error are noise.
    """

    @property
    def best(self) -> float:
        error, standard_error, _ = min(self.tried.values(), key=lambda one: one.error)
        first, limit = next(iter(self.tried)), error + WORTHWHILE * standard_error
        good = [alpha for alpha, one in self.tried.items() if one.error <= limit]
        return min(good, key=lambda alpha: abs(np.log(alpha / first)))


def constrained_penalties(
    attempt: Callable[[float, T | None], Tried[T]],
    first: float,
    kernel: Kernel,
    X: Floats,
    alphas: Sequence[float] | None,
) -> Penalties[T]:
    """Return the penalties that were tried: the given ones, or half decades from the free fit's on."""
    diagonal = mean_diagonal(kernel, X)
    floor = ALPHA_FLOOR * diagonal
    if alphas is not None:
        given = Penalties(attempt)
        given.attempt_all([max(alpha, floor) for alpha in alphas])
        return given
    near = NearPenalties(attempt)
    near.search(max(first, floor), floor, 10.0 ** LOG10_LIMITS[1] * diagonal)
    return near


def monotone_bytes(n: int, D: int, rank: int, folds: int) -> int:
    """Return the peak memory of monotone fits to n rows of D features; with a rank of n the free fit is exact.

    Exact fits hold the kernel matrix with the part of a fold, features, and moments of every training set; low-rank
    fits hold two matrices of every fold. Both hold grids of kernel values for the slopes of a function of m anchors.
    """
    exact, m = rank >= n, min(n, rank)
    rows, r, matrices = (n, min(n, BASIS), folds + 9) if exact else (0, m, 2 * folds + 9)
    return 8 * (2 * rows * (rows + r) + matrices * r * r) + grid_bytes(m, D)


def grid_bytes(m: int, D: int) -> int:
    """Return the memory for the slopes of a function of m anchors and D features: grids of kernel values."""
    return 8 * m * (FITTING[1] * D + 4 * FINEST_S)
