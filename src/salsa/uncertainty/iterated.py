"""Uncertainty of exact fits to many rows: CV+ intervals from exact fits without each fold, deviations from anchors.

The fits without each fold are solved along with the fit to all rows, so the intervals of ``cvplus`` have exact
predictions. The posterior variance of an exact fit would need a solve per row. The variance on the anchors of the
preconditioner takes its place (docs/scale_measured.md says how close it comes).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.cached import cached_property
from salsa._utils.linalg import positive_factor
from salsa._utils.rowwise import times_rows
from salsa.data.noise import Noise
from salsa.data.splits import TableSplits
from salsa.kernels import Kernel
from salsa.uncertainty import LeaveOneOut
from salsa.uncertainty.cvplus import CLASSES, CVPlus, lower_root
from salsa.uncertainty.interval_scores import PLAIN
from salsa.uncertainty.local_scale import LOCAL_ROWS, learn_local_scale

BLOCK_ROWS = 4096  # rows whose posterior scales are computed together
KEPT_ANCHORS = 400  # up to so many anchors, the posterior on them is small enough to keep
COMPUTED_ROWS = 10_000  # up to so many rows, the posterior on more anchors is computed when it is asked for


@dataclass(frozen=True, eq=False)
class IteratedUncertainty:
    """The uncertainty of an iterated fit, in the units of the target; see ``salsa.uncertainty.Uncertainty``."""

    cvplus: CVPlus  # the uncertainty on the anchors, without thetas
    unit: Floats  # (q,)
    points: Floats  # (n, D), the training rows
    weight: Floats  # (n,) of the training rows, one on average
    places: Places  # (r,) of the anchors among the training rows
    coefs: Floats  # (folds, n, q) of the fits without each fold, in the units of `cvplus`
    left_out: LeaveOneOut  # predictions of the fits without each fold for its rows, in the units of the target
    kernel: Kernel
    keeps_rows: bool = True

    @cached_property
    def sd_points(self) -> Floats:
        return self.points[self.places]

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        """Compute the posterior on many anchors, which is neither saved nor pickled; the fit keeps everything else."""
        if self.cvplus.root.size or "_posterior" in self.__dict__:
            return
        with one_blas_thread():
            self.__dict__["_posterior"] = self._computed(threads)

    def _computed(self, threads: int | None) -> CVPlus:
        """Return the uncertainty with L and the root of the posterior covariance, from the training rows."""
        noise, anchors, cvplus = Noise(self.weight), self.points[self.places], self.cvplus
        L = positive_factor(self.kernel(anchors, n_threads=threads))
        gram = np.zeros((len(L), len(L)))
        for start in range(0, len(self.points), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            k = self.kernel(anchors, self.points[rows], n_threads=threads)
            F = solve_triangular(L, k, lower=True, overwrite_b=True, check_finite=False) * noise.root[rows]
            gram += F @ F.T
        root = _posterior_root(gram, cvplus.mean, cvplus.weight, cvplus.alpha)
        return replace(cvplus, L=L, root=root)

    @property
    def _complete(self) -> CVPlus:
        """The uncertainty on the anchors with its posterior."""
        complete: CVPlus = self.__dict__.get("_posterior", self.cvplus)
        return complete

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_posterior"}

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        return self.unit * self._complete.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        outputs = [times_rows(k, self.coefs[:, :, j], n_threads=n_threads) for j in range(len(self.unit))]
        left_out = np.stack(outputs, axis=2) + self.cvplus.offsets
        parts = prediction / self.unit, k[:, self.places], prior, coverage, X, left_out
        return self.unit[:, None] * self._complete.interval(*parts, n_threads=n_threads)

    def training_rows(self) -> LeaveOneOut:
        """Return what the fit without its fold says of each tested training row, in the order of the anchors."""
        return self.left_out


class Witnesses(NamedTuple):
    """Anchors among the training rows: their places (r,), features F (n, r) of all rows, and whitened F'F (r, r)."""

    places: Places
    F: Floats
    gram: Floats


class FittedRows(NamedTuple):
    """Rows with their targets (n, q), noise, splits and folds (n,), and the coefficients (n, q) of the fit to them."""

    X: Floats
    Y: Floats
    noise: Noise
    splits: TableSplits
    fold: Places
    coef: Floats


def anchored(kernel: Kernel, rows: FittedRows, witnesses: Witnesses, alpha: float, offsets: Floats) -> CVPlus:
    """Return the uncertainty on the anchors, in which no residuals are counted yet; offsets (folds, q)."""
    noise, q = rows.noise, rows.Y.shape[1]
    mean, weight = noise.mean_weight @ witnesses.F, float(noise.ones @ noise.ones)
    amplitude = np.maximum(np.sum(rows.Y * rows.coef, axis=0), 0.0) / max(len(rows.Y) - 1.0, 1e-300)
    L, root = positive_factor(kernel(rows.X[witnesses.places])), _posterior_root(witnesses.gram, mean, weight, alpha)
    not_counted = np.zeros((len(offsets), 0, q)), offsets, np.zeros((q, len(offsets), CLASSES)), (PLAIN,) * q
    cvplus = CVPlus(L, mean, root, alpha, weight, amplitude, *not_counted)
    return replace(cvplus, units=rows.splits.units, forward=rows.splits.forward, rho=noise.rho)


def _posterior_root(gram: Floats, mean: Floats, weight: float, alpha: float) -> Floats:
    """Return lower triangular `root` (r, r) with root root' = alpha (C + alpha I)^-1, C = gram - weight mean mean'."""
    C = gram - weight * np.outer(mean, mean)
    C.flat[:: len(C) + 1] += alpha
    inverse = solve_triangular(positive_factor(C), np.eye(len(C)), lower=True, check_finite=False)
    return lower_root(np.sqrt(alpha) * inverse.T)


def counted(
    cvplus: CVPlus, kernel: Kernel, rows: FittedRows, residual: Floats, posterior: Floats, *, local: bool
) -> CVPlus:
    """Learn the local scale from some held-out residuals (n, q), and count their sizes; posterior (n,) are scales."""
    tested = _tested(rows)
    residual = residual / np.sqrt(np.maximum(cvplus.amplitude, 1e-300))
    if local and not cvplus.forward:
        some = tested[:: max(1, len(tested) // LOCAL_ROWS)]
        size = np.abs(residual[some]) / posterior[some, None]
        cvplus = replace(cvplus, local=learn_local_scale(kernel, rows.X[some], size, rows.fold[some]))
    scores = cvplus.scores(rows.X[tested], residual[tested], posterior[tested], rows.fold[tested])
    return cvplus.with_scores(scores, len(rows.X))


def learn_iterated(
    kernel: Kernel,
    rows: FittedRows,
    witnesses: Witnesses,
    alpha: float,
    without: tuple[Floats, Floats],
    residual: Floats,
    units: tuple[Floats, Floats],
    *,
    local: bool,
) -> IteratedUncertainty:
    """Return the uncertainty from the coefficients (folds, n, q) and offsets (folds, q) of the fits without each fold.

    residual (n, q) are held-out residuals. Targets were divided by the first of `units` (q,), and then the second was
    subtracted.
    """
    (coefs, offsets), (unit, level) = without, units
    if rows.splits.forward:  # nothing tests the rows before the first fold
        coefs, offsets = np.concatenate([coefs[:1], coefs]), np.concatenate([offsets[:1], offsets])
    cvplus = anchored(kernel, rows, witnesses, alpha, offsets)
    posterior = _posterior_scale(cvplus, witnesses.F, kernel.diagonal(rows.X))
    cvplus = counted(cvplus, kernel, rows, residual, posterior, local=local)
    tested, weight = _tested(rows), rows.noise.weight
    variance = np.outer(posterior**2 + alpha * (1.0 / weight - 1.0), cvplus.amplitude)
    target = rows.Y + level
    observed, predicted, sd = (unit * values[tested] for values in (target, target - residual, np.sqrt(variance)))
    left_out = LeaveOneOut(observed, predicted, sd, weight[tested])
    cvplus = replace(cvplus, offsets=offsets + level)
    if len(witnesses.places) > KEPT_ANCHORS and len(rows.X) <= COMPUTED_ROWS and not rows.noise.shared:
        cvplus = replace(cvplus, L=np.empty((0, 0)), root=np.empty((0, 0)))
    return IteratedUncertainty(cvplus, unit, rows.X, weight, witnesses.places, coefs, left_out, kernel)


def _posterior_scale(cvplus: CVPlus, F: Floats, prior: Floats) -> Floats:
    """Return the posterior scales (n,) of all rows, in blocks: copies of F (n, r) would be much memory."""
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(F), BLOCK_ROWS)]
    return np.concatenate([cvplus.posterior_scale(F[rows], prior[rows]) for rows in blocks])


def _tested(rows: FittedRows) -> Places:
    """Return the rows that a fit without them judges."""
    return np.flatnonzero(rows.fold > 0) if rows.splits.forward else np.arange(len(rows.fold))
