"""Uncertainty of low-rank predictions: posterior standard deviations and CV+ intervals, from sums over rows alone.

With features phi(x) = L^-1 k(Z, x), centred sums C and C_y of the training rows and the sum W of their weights, theta
has the posterior covariance a alpha (C + alpha I)^-1, and the prior that the anchors Z do not explain stays:

    t(x) = k(x, x) - |phi|^2 + alpha (phi - mean)'(C + alpha I)^-1 (phi - mean) + alpha / W,

with the amplitude a of the exact model (see ``jackknife``): the least penalised sum of squares, over alpha, over W - 1.
CV+ (Barber et al., 2021) adds the sizes of held-out residuals to the predictions of models that did not see them. The
sizes are counted in narrow classes, rounded up: counts of blocks from any machine add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from salsa._utils.arrays import Floats
from salsa._utils.rowwise import dot_rows, solve_rows, times_rows
from salsa.data.rows import Observations
from salsa.uncertainty import LeaveOneOut

CLASSES, SMALLEST, LARGEST = 8192, 1e-6, 1e4  # classes of residuals over their scale, each 0.28 % wide
_WIDTH = np.log(LARGEST / SMALLEST) / (CLASSES - 2)
_LEVEL = 0.9  # the coverage at which scaled and plain intervals are compared
_BISECTIONS = 20


@dataclass(frozen=True, eq=False)
class Scores:
    """Held-out residuals over their scale, counted by fold: plain, and scaled by sqrt(t(x) + alpha)."""

    counts: Floats  # (2, folds, q, classes), weighted
    scale: float  # sum of w sqrt(t(x) + alpha)

    def __add__(self, other: Scores) -> Scores:
        return Scores(self.counts + other.counts, self.scale + other.scale)


@dataclass(frozen=True, eq=False)
class CVPlus:
    """The uncertainty of a low-rank fit, in the units that it was solved in: about 16 r^2 bytes for r anchors."""

    L: Floats  # (r, r)
    mean: Floats  # (r,) of phi
    root: Floats  # (r, r), lower triangular, in LAPACK's order: alpha (C + alpha I)^-1 = root root'
    alpha: float
    weight: float  # W
    amplitude: Floats  # (q,)
    thetas: Floats  # (folds, r, q) of the fits without each fold
    offsets: Floats  # (folds, q)
    below: Floats  # (q, folds, classes): weight of the residuals up to the end of each class
    scaled: NDArray[np.bool_]  # (q,)

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        """Return sqrt(a t(x)) (m, q) of f at m rows, from k (m, r) with the anchors and prior (m,) = k(x, x).

        Linear functionals of f work alike, from their values on k(., z), on k in both arguments, and on the constant 1.
        """
        F = solve_rows(self.L, k, n_threads=n_threads)
        t = self._remainder(F, self._known(F, constant, n_threads), prior, constant)
        return np.sqrt(np.outer(t, self.amplitude))

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, *, n_threads: int | None = None
    ) -> Floats:
        """CV+: lower and upper ends (m, q, 2) for new observations.

        Of the values f_-fold(i)(x) + |r_i|, the ceil(coverage (W + 1))-th smallest is the upper end; the lower end is
        the mirror image. Residuals count relative to sqrt(t + alpha) where scaled.
        """
        need = coverage * (self.weight + 1.0) * (1.0 - 1e-12)
        interval = np.empty((*prediction.shape, 2))
        if need > self.weight:
            interval[..., 0], interval[..., 1] = -np.inf, np.inf
            return interval
        F = solve_rows(self.L, k, n_threads=n_threads)
        scale = np.sqrt(self._remainder(F, self._known(F, 1.0, n_threads), prior) + self.alpha)
        for j in range(prediction.shape[1]):
            left_out = times_rows(F, self.thetas[:, :, j], n_threads=n_threads) + self.offsets[:, j]
            reach = np.sqrt(self.amplitude[j]) * (scale if self.scaled[j] else np.full(len(F), np.sqrt(self.alpha)))
            interval[:, j, 0] = -self._end(j, -left_out, reach, need)
            interval[:, j, 1] = self._end(j, left_out, reach, need)
        return np.sort(interval, axis=-1)

    def leave_one_out(
        self,
        k: Floats,
        prior: Floats,
        prediction: Floats,
        Y: Floats,
        weight: Floats,
        *,
        n_threads: int | None = None,
    ) -> LeaveOneOut:
        """Return the leave-one-out predictions of training rows, for the same anchors and alpha.

        With g = 1/W + (phi - mean)'(C + alpha I)^-1 (phi - mean), a row of weight w has the leverage w g; without it
        the residual is r / (1 - w g), and its posterior variance has g / (1 - w g) in the place of g.
        """
        F = solve_rows(self.L, k, n_threads=n_threads)
        known = self._known(F, 1.0, n_threads)
        g = 1.0 / self.weight + dot_rows(known, known) / self.alpha
        rest = np.maximum(1.0 - weight * g, 1e-12)  # rounding may leave nothing of a row that is fitted exactly
        t = np.maximum(prior - dot_rows(F, F), 0.0) + self.alpha * (g / rest + 1.0 / weight)
        without = Y - (Y - prediction) / rest[:, None]
        return LeaveOneOut(Y, without, np.sqrt(np.outer(t, self.amplitude)), weight)

    def scores(self, F: Floats, prior: Floats, Y: Floats, weight: Floats, fold: NDArray[np.intp]) -> Scores:
        """Count the sizes of held-out residuals of rows, by the folds (m,) that hold them out."""
        known = (F - self.mean) @ self.root  # by BLAS, which is faster: nobody is told of a single row
        scale = np.sqrt(self._remainder(F, known, prior) + self.alpha)
        counts = np.zeros((2, len(self.thetas), Y.shape[1], CLASSES))
        for number, (theta, offset) in enumerate(zip(self.thetas, self.offsets, strict=True)):
            rows = np.flatnonzero(fold == number)
            size = np.abs(Y[rows] - offset - F[rows] @ theta) / np.sqrt(np.maximum(self.amplitude, 1e-300))
            for kind, unit in enumerate((np.sqrt(self.alpha), scale[rows][:, None])):
                place = _class(size / unit)
                for j in range(Y.shape[1]):
                    counts[kind, number, j] = np.bincount(place[:, j], weights=weight[rows], minlength=CLASSES)
        return Scores(counts, float(weight @ scale))

    def transformed(self, P: Floats, mean: Floats) -> CVPlus:
        """Return the uncertainty in terms of other features phi with this mean; it was learned with P'phi, P (r, R)."""
        return replace(self, mean=mean, root=lower_root(P @ self.root), thetas=P @ self.thetas)

    def with_scores(self, scores: Scores) -> CVPlus:
        """Store residual counts scaled up to all rows; per output, keep the kind of interval that is shorter."""
        pooled = np.cumsum(scores.counts.sum(axis=1), axis=-1)  # (2, q, classes)
        width = _END[np.argmax(pooled >= _LEVEL * pooled[..., -1:], axis=-1)]
        counted = float(scores.counts[0, :, 0].sum())
        scaled = width[1] * (scores.scale / counted) < width[0] * np.sqrt(self.alpha)
        counts = np.where(scaled[None, :, None], scores.counts[1], scores.counts[0]) * (self.weight / counted)
        return replace(self, below=np.cumsum(counts, axis=-1).transpose(1, 0, 2), scaled=scaled)

    def _known(self, F: Floats, constant: float, n_threads: int | None) -> Floats:
        """Return root' (phi - constant mean) (m, r)."""
        return times_rows(F - constant * self.mean, self.root.T, upper=True, n_threads=n_threads)

    def _remainder(self, F: Floats, known: Floats, prior: Floats, constant: float = 1.0) -> Floats:
        """Return t(x) (m,), which rounding must not make negative."""
        t = prior - dot_rows(F, F) + dot_rows(known, known)
        remainder: Floats = np.maximum(t, 0.0) + constant**2 * self.alpha / self.weight
        return remainder

    def _end(self, j: int, left_out: Floats, reach: Floats, need: float) -> Floats:
        """The smallest u (m,) with at least `need` of the values left_out[:, fold] + reach * score at or below it.

        The score that all folds together reach at `need` bounds it from both sides.
        """
        reached = self.below[j].sum(axis=0)
        pooled = _END[int(np.argmax(reached >= min(need, reached[-1])))]
        low, high = (left_out.min(axis=1) + reach * pooled, left_out.max(axis=1) + reach * pooled)
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                place = _class((middle[:, None] - left_out) / reach[:, None], rounded_up=False)
                held = sum(np.where(p >= 0, self.below[j, f][p], 0.0) for f, p in enumerate(place.T))
                enough = held >= need
                low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high)


_END = np.append(SMALLEST * np.exp(_WIDTH * np.arange(CLASSES - 1)), np.inf)  # ends of the classes


def _class(score: Floats, *, rounded_up: bool = True) -> NDArray[np.intp]:
    """The first class whose end is not below the score; or the last whose end is not above it, -1 for none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.log(np.maximum(score, 0.0) / SMALLEST) / _WIDTH
    place = np.nan_to_num(place, nan=0.0, posinf=CLASSES, neginf=-1.0)
    place = np.ceil(place - 1e-9) if rounded_up else np.floor(place + 1e-9)
    classes: NDArray[np.intp] = np.clip(place, 0 if rounded_up else -1, CLASSES - 1).astype(np.intp)
    return classes


def lower_root(A: Floats) -> Floats:
    """Return a lower triangular root (r, r), in LAPACK's order, with root root' = A A'; A (r, R), R >= r."""
    (upper,) = qr(A.T, mode="r", check_finite=False)
    return np.array(upper[: len(A)], dtype=np.float64, order="C").T


@dataclass(frozen=True, eq=False)
class LowRankUncertainty:
    """The uncertainty of a low-rank fit, in the units of the target; see ``salsa.uncertainty.Uncertainty``."""

    cvplus: CVPlus
    unit: Floats  # (q,)
    points: Floats  # (r, D), the anchors
    keeps_rows: bool = False

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        """Do nothing: a low-rank fit keeps all that predictions need."""

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        return self.unit * self.cvplus.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, *, n_threads: int | None = None
    ) -> Floats:
        ends = self.cvplus.interval(prediction / self.unit, k, prior, coverage, n_threads=n_threads)
        return self.unit[:, None] * ends

    def leave_one_out(
        self, rows: Observations, prediction: Floats, k: Floats, prior: Floats, *, n_threads: int | None = None
    ) -> LeaveOneOut:
        unit, Y = self.unit, rows.Y / self.unit
        found = self.cvplus.leave_one_out(k, prior, prediction / unit, Y, rows.weight, n_threads=n_threads)
        return LeaveOneOut(unit * found.target, unit * found.prediction, unit * found.sd, found.weight)
