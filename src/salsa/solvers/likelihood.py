"""Fits that minimise a penalised likelihood, sum_i w_i l(y_i, f(x_i)) + alpha / 2 |f|^2, with a chosen kernel.

1. Features F (n, r) with F F' = K, up to a constant, from the factor of K. Many rows have the features of anchors
   (``anchored_likelihood``).
2. The fits without each fold, and the fit to all rows, for one penalty after the other (``penalised``). Their held-out
   losses choose alpha.
3. At this alpha the working response z and the working weights h of the fit to all rows. Ridge regression of z with the
   weights w h gives the coefficients of an exact fit, and its posterior: the closed forms of squared error hold for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from scipy.linalg.lapack import dtrtri
from scipy.optimize import minimize_scalar

from salsa._utils.arrays import Floats, Places
from salsa._utils.linalg import positive_factor
from salsa._utils.memory import SMALLER_TABLE, exact_bytes
from salsa._utils.progress import SILENT, Steps
from salsa._utils.sums import RidgePath, Sums
from salsa._utils.threads import thread_count
from salsa.data.noise import Noise
from salsa.data.rows import Observations, mapped
from salsa.data.splits import Splits
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.kernels.marginals import marginal_of
from salsa.losses import (
    IDENTITY,
    Likelihood,
    Logistic,
    Quantile,
    Softmax,
    newton_response,
    robust_spread,
    weighted_quantile,
)
from salsa.solvers.alpha import ALPHA_FLOOR, AlphaPath, descend_alpha, mean_diagonal, try_alphas
from salsa.solvers.anchors import Anchors
from salsa.solvers.factor import exact_factor
from salsa.solvers.lowrank import marginals
from salsa.solvers.penalised import Fits, Systems
from salsa.solvers.ridge import solve_once
from salsa.uncertainty.cvplus import LowRankUncertainty, posterior_on_anchors
from salsa.uncertainty.jackknife import ExactUncertainty, judged_by
from salsa.uncertainty.scored import HeldOut, ScoredUncertainty

BLOCK = 4096  # rows whose features, or sums, are computed at a time
SEARCHED, FINAL = 1e-6, 1e-11  # tolerances of the mean loss, as shares of the best constant's loss
LEFT_OF_ALPHA = 1.0  # anchors may leave so many times alpha of the kernel matrix's trace unexplained
ALIKE, MOST_SCALES = 2.0, 20  # spreads of residuals that one scale of the loss serves, and scales that are tried
MOST_SOLVES = 20  # ridge regressions of the working response
SETTLED = 1e-9  # change of f, as a share of its size, at which the coefficients of an exact fit are found
LARGEST_FACTOR = 3.0  # natural logarithm of the largest factor of f that calibrates probabilities
LIKELIHOOD_ADVICE = f"Give a smaller rank (solver='lowrank', rank=1000), {SMALLER_TABLE}"
NOT_CONVERGED = "the penalised likelihood did not converge: its coefficients are those of the last step"


class LikelihoodTask(NamedTuple):
    """Rows, with targets on the scale of the loss, and everything that a fit needs but the kernel."""

    rows: Observations
    splits: Splits
    loss: Likelihood
    alphas: tuple[float, ...] | None  # the user's candidates; None: alpha is searched
    rank: int | None  # the most anchors; None: the fit is exact
    random_state: RandomState
    threads: int | None
    counts: Floats | None = None  # how many new observations a row stands for; None: one
    steps: Steps = SILENT
    memory: int = 0  # bytes that the fit may take

    def some(self, places: Places) -> LikelihoodTask:
        """Return the task of some of the rows."""
        return self._replace(
            rows=self.rows.some(places), splits=self.splits.at(places), counts=at_places(self.counts, places)
        )


def at_places(values: Floats | None, places: Places) -> Floats | None:
    return None if values is None else values[places]


class Basis(NamedTuple):
    """Features F (n, r) of all rows for a kernel; of orthogonal ones the squared lengths (r,), in descending order."""

    kernel: Kernel
    F: Floats
    lengths: Floats | None  # None: columns are not orthogonal


class Candidate(NamedTuple):
    """A kernel with its best penalty, and the fits at that penalty: without each fold, and to all rows."""

    kernel: Kernel
    anchors: Anchors | None  # None: the fit is exact
    path: AlphaPath
    fits: Fits
    held_out: HeldOut
    f: Floats  # (n, q), of the fit to all rows
    sums: Sums  # over the working response of f, with the working weights
    degrees_of_freedom: float
    loss: Likelihood  # with the scale of these fits
    notes: tuple[str, ...] = ()


class LikelihoodSolution(NamedTuple):
    """The fitted function, on the scale of the link, its uncertainty and notes."""

    expansion: KernelExpansion
    uncertainty: ScoredUncertainty
    notes: tuple[str, ...]


def basis_of(task: LikelihoodTask, kernel: Kernel) -> Basis:
    """Return the features of all rows of an exact fit."""
    X, noise = task.rows.X, Noise(task.rows.weight)
    factor = exact_factor(kernel(X, n_threads=task.threads), noise)
    if len(factor.l) == 0:  # a kernel that is constant has one column of zeros
        return Basis(kernel, np.zeros((len(X), 1)), np.zeros(1))
    F = noise.unwhiten((factor.Q * np.sqrt(factor.l))[:, ::-1])
    return Basis(kernel, np.ascontiguousarray(F), factor.l[::-1])


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def cross_validate_alpha(task: LikelihoodTask, basis: Basis, near: float = np.inf) -> Candidate:
    """Choose alpha by the held-out losses of the fits without each fold, and solve all fits at this alpha.

    near: an alpha that is near the best one, where the search begins; without one it begins at a large alpha.
    """
    rows, folds, loss = task.rows, task.splits.folds, task.loss
    systems = Systems(basis.F, rows.Y, rows.weight, folds, loss, lengths=basis.lengths, threads=task.threads)
    null, scale = null_loss(loss, rows.Y, rows.weight), mean_diagonal(basis.kernel, rows.X)
    tried: dict[float, Fits] = {}

    def error_of(alpha: float) -> tuple[float, float]:
        task.steps.step(f"penalty {alpha:.2g}")
        start = tried[min(tried, key=lambda other: abs(np.log(other / alpha)))] if tried else systems.start()
        tried[alpha] = _solved(task, systems, alpha, start, SEARCHED * null)
        found = held_out_of(task, systems.predict(tried[alpha]))
        return found.error(loss, rows.Y, rows.weight, task.splits.unit, null)

    def errors_of(alphas: Sequence[float]) -> list[tuple[float, float]]:
        return [error_of(alpha) for alpha in alphas]

    if not folds:  # a single observation or group judges nothing
        alpha = max(task.alphas[0] if task.alphas else scale, ALPHA_FLOOR * scale)
        path = AlphaPath(np.empty(0), np.empty(0), alpha, 1.0, 0.0)
    elif task.alphas is None:
        path = descend_alpha(errors_of, scale, near)
    else:
        path = try_alphas(error_of, [max(alpha, ALPHA_FLOOR * scale) for alpha in task.alphas])
    start = tried.get(path.alpha, systems.start())
    systems.loss = loss.at_spread(_spread(task, systems, start))
    fits = systems.solve(path.alpha, start, FINAL * null, certain=True)
    predicted = systems.predict(fits)
    held_out, f = held_out_of(task, predicted), predicted[:, -1]
    sums = working_sums(task._replace(loss=systems.loss), basis, f)
    freedom = degrees_of_freedom(sums, path.alpha)
    return Candidate(basis.kernel, None, path, fits, held_out, f, sums, freedom, systems.loss)


def _solved(task: LikelihoodTask, systems: Systems, alpha: float, start: Fits, tolerance: float) -> Fits:
    """Solve all systems; a loss with a scale has the scale that follows from their own held-out residuals.

    Solves repeat until the spread of these residuals is within a factor ALIKE of the spread that they were solved with.
    So no fit is asked for whose residuals are far larger than the corner of the loss: there, all curvatures vanish.
    """
    spread = _spread(task, systems, start)
    for _ in range(MOST_SCALES):
        systems.loss, before = task.loss.at_spread(spread), spread
        start = systems.solve(alpha, start, tolerance)
        spread = _spread(task, systems, start)
        if systems.loss == task.loss.at_spread(spread) or alike(before, spread):
            break
    return start


def alike(spread: float, other: float) -> bool:
    """Return whether one scale of the loss serves both spreads of residuals."""
    return spread / ALIKE <= other <= ALIKE * spread


def _spread(task: LikelihoodTask, systems: Systems, fits: Fits) -> float:
    """Return the spread of the residuals of rows that the fits without each fold predict; 1 if it does not matter."""
    if task.loss.link != IDENTITY or not task.splits.folds:
        return 1.0
    row, f, *_ = held_out_of(task, systems.predict(fits))
    return robust_spread(task.rows.Y[row] - f, task.rows.weight[row])


def null_loss(loss: Likelihood, Y: Floats, w: Floats) -> float:
    """Return the mean loss of the best constant, the unit of errors; 1 if it is zero."""
    return float(w @ loss.judge(Y, np.zeros_like(Y) + loss.constant(Y, w)) / w.sum()) or 1.0


def calibrated(loss: Likelihood, held_out: HeldOut, Y: Floats, w: Floats) -> float:
    """Return the factor of f, less the best constant, with the least held-out log loss.

    Probabilities that are too sure have a factor below 1, which moves them to the shares of the classes. It is 1 unless
    another one gains a unit of log likelihood, the price of a parameter (AIC), and 1 for losses of numbers.
    """
    row, f, *_ = held_out
    if len(row) == 0 or not isinstance(loss, Logistic | Softmax):
        return 1.0
    constant = loss.constant(Y, w)

    def total(log_factor: float) -> float:
        scaled = constant + np.exp(log_factor) * (f - constant)
        return float(w[row] @ held_out.losses(loss, Y, w, scaled))

    found = minimize_scalar(total, bounds=(-LARGEST_FACTOR, LARGEST_FACTOR), method="bounded")
    return float(np.exp(found.x)) if total(0.0) - found.fun > 1.0 else 1.0


def likelihood_bytes(n: int, D: int, outputs: int, folds: int) -> int:
    """Return the peak memory of an exact fit: features, sums of every fold and their factors, and vectors."""
    systems = 8 * (2 * (folds + 1) * (n + 1) ** 2 + 8 * n * outputs * (folds + 1))
    return max(exact_bytes(n), 24 * n * n) + 16 * n * D + systems


class Scaled(NamedTuple):
    """How f becomes the calibrated function in the units of the target: scale (f + shift)."""

    scale: Floats  # (q,)
    shift: Floats  # (q,)
    target: Floats  # (n, q)
    held_out: HeldOut
    loss: Likelihood

    @classmethod
    def of(cls, chosen: Candidate, loss: Likelihood, Y: Floats, w: Floats, unit: Floats) -> Scaled:
        factor = calibrated(loss, chosen.held_out, Y, w)
        scale, shift = factor * unit, _shift(loss, Y, w, chosen.held_out, factor)
        held_out = chosen.held_out._replace(f=scale * (chosen.held_out.f + shift))
        return cls(scale, shift, unit * Y, held_out, loss.times(unit))

    def function(self, expansion: KernelExpansion) -> KernelExpansion:
        return replace(expansion, offset=expansion.offset + self.shift).times(self.scale)

    def uncertainty(self, inner: ExactUncertainty | LowRankUncertainty, w: Floats) -> ScoredUncertainty:
        return ScoredUncertainty(inner, self.target, w, self.held_out, self.loss)


def finish(task: LikelihoodTask, chosen: Candidate, unit: Floats) -> LikelihoodSolution:
    """Return the calibrated function, in the units (q,) of the target, with its uncertainty."""
    rows = task.rows
    scaled = Scaled.of(chosen, task.loss, rows.Y, rows.weight, unit)
    if chosen.anchors is not None:
        return anchored_solution(chosen, scaled, rows.weight, rows)
    expansion, noise, note = _exact(task, chosen.kernel, chosen.path.alpha, chosen.f)
    expansion = scaled.function(expansion)
    exact = ExactUncertainty(expansion, chosen.path.alpha, noise, judged_by(task.splits, task.counts, local=False))
    return LikelihoodSolution(expansion, scaled.uncertainty(exact, rows.weight), _notes(chosen) + note)


def anchored_solution(chosen: Candidate, scaled: Scaled, weight: Floats, sample: Observations) -> LikelihoodSolution:
    """Return the function of the anchors; the weights (n,) are of all rows, and features vary as in the sample."""
    anchors, alpha, total = chosen.anchors, chosen.path.alpha, chosen.sums
    assert anchors is not None
    expansion = anchors.expansion(chosen.fits.theta[:, -1], chosen.fits.offset[-1])
    expansion = replace(expansion, marginals=marginals(chosen.kernel, sample.X, sample.weight))
    expansion = scaled.function(expansion)
    folds = slice(None) if chosen.fits.theta.shape[1] == 1 else slice(-1)
    without = np.moveaxis(chosen.fits.theta[:, folds], 1, 0), chosen.fits.offset[folds]
    cvplus = posterior_on_anchors(anchors.L, total, RidgePath(total), alpha, len(weight), *without)
    inner = LowRankUncertainty(cvplus, scaled.scale, anchors.points)
    return LikelihoodSolution(expansion, scaled.uncertainty(inner, weight), _notes(chosen))


def _notes(chosen: Candidate) -> tuple[str, ...]:
    return chosen.notes if chosen.fits.converged else (*chosen.notes, NOT_CONVERGED)


def _shift(loss: Likelihood, Y: Floats, w: Floats, held_out: HeldOut, factor: float) -> Floats:
    """Return what is added to f (q,) before it is multiplied: it keeps the best constant, or is that of a quantile.

    A quantile gets its share of the held-out targets: a fit is closer to its own rows than to new ones, and without
    this, less than their share of new targets lie outside.
    """
    row, f, *_ = held_out
    if factor != 1.0:
        return (1.0 / factor - 1.0) * loss.constant(Y, w)
    if not isinstance(loss, Quantile) or len(row) == 0:
        return np.zeros(Y.shape[1])
    return weighted_quantile(Y[row] - f, w[row], loss.level)


def _exact(
    task: LikelihoodTask, kernel: Kernel, alpha: float, f: Floats
) -> tuple[KernelExpansion, Noise, tuple[str, ...]]:
    """Return the exact fit, by Newton steps from f (n, q) that are ridge regressions, until these give f again.

    The noise is that of the working weights.
    """
    X, Y, w = task.rows.X, task.rows.Y, task.rows.weight
    K = kernel(X, n_threads=task.threads)
    for _ in range(MOST_SOLVES):
        z, h = newton_response(task.loss, Y, f)
        noise = Noise(w * h)
        coef, offset, note = solve_once(K.copy(), z, alpha, noise)
        moved = z - alpha * noise.times(coef) - f
        f = f + moved
        if np.abs(moved).max() <= SETTLED * (1.0 + np.abs(f).max()):
            break
    background = None if (w == 1).all() else tuple(marginal_of(x, w) for x in X.T)
    noise = Noise(w * task.loss.working(Y, f)[1])
    return KernelExpansion(kernel, X, coef, offset, background), noise, (note,) if note else ()


def held_out_of(task: LikelihoodTask, f: Floats) -> HeldOut:
    """Return what the fits without each fold predict for its tested rows, from the predictions f (n, S, q)."""
    found = [f[fold.tested, s] for s, fold in enumerate(task.splits.folds)]
    return held_out(task.splits, task.counts, found, f.shape[2])


def held_out(splits: Splits, counts: Floats | None, found: Sequence[Floats], outputs: int) -> HeldOut:
    """Return held-out predictions from those of every fold for its tested rows."""
    row = np.concatenate([np.empty(0, dtype=np.intp), *(fold.tested for fold in splits.folds)])
    held = np.concatenate([np.empty((0, outputs)), *found])
    units = splits.n if splits.unit is None else int(splits.unit.max()) + 1
    return HeldOut(row, held, np.ones(len(row)) if counts is None else counts[row], units)


def working_sums(task: LikelihoodTask, basis: Basis, f: Floats) -> Sums:
    """Return the sums over all rows of the working response, with the working weights, by blocks and threads."""
    z, h = task.loss.working(task.rows.Y, f)
    w, F, (n, r) = task.rows.weight * h, basis.F, basis.F.shape

    def part(rows: slice) -> Sums:
        return Sums.of(F[rows].astype(np.float64), z[rows], w[rows])

    return reduce(Sums.plus, mapped(part, _blocks(n), thread_count(task.threads, n, r, 1)))


def degrees_of_freedom(rows: Sums, alpha: float) -> float:
    """Return the trace of the smoother of the working response, r - alpha tr (C + alpha I)^-1, plus one."""
    C = (rows.xx - np.outer(rows.x, rows.x / rows.weight)).T
    C.flat[:: len(C) + 1] += alpha
    inverse, _ = dtrtri(positive_factor(C), lower=1)
    return len(C) - alpha * float(np.sum(inverse**2)) + 1.0
