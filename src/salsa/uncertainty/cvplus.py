"""Uncertainty of low-rank predictions: posterior standard deviations and CV+ intervals, from sums over rows alone.

With features phi(x) = L^-1 k(Z, x), centred sums C and C_y of the training rows and the sum W of their weights, theta
has the posterior covariance a alpha (C + alpha I)^-1, and the prior that the anchors Z do not explain stays:

    t(x) = k(x, x) - |phi|^2 + alpha (phi - mean)'(C + alpha I)^-1 (phi - mean) + alpha / W,

with the amplitude a of the exact model (see ``jackknife``): the least penalised sum of squares, over alpha, over W - 1.
CV+ (Barber et al., 2021) adds the sizes of held-out residuals to the predictions of models that did not see them; where
later rows judge, to the prediction of the model. The sizes are counted in narrow classes, rounded up: counts of blocks
from any machine add up. They are counted relative to each of the three scales of ``jackknife``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from salsa._utils.arrays import Floats, Places
from salsa._utils.lapack import triangular_product
from salsa._utils.rowwise import dot_rows, solve_rows, times_rows
from salsa._utils.sums import RidgePath, Sums
from salsa.data.rows import Observations
from salsa.uncertainty import LeaveOneOut
from salsa.uncertainty.interval_scores import LEVELS, LOCAL, PLAIN, POSTERIOR, rank_of
from salsa.uncertainty.local_scale import LocalScale

CLASSES, SMALLEST, LARGEST = 8192, 1e-6, 1e4  # classes of residuals over their scale, each 0.28 % wide
_WIDTH = np.log(LARGEST / SMALLEST) / (CLASSES - 2)
_BISECTIONS = 20
KINDS = (PLAIN, POSTERIOR, LOCAL)


@dataclass(frozen=True, eq=False)
class Scores:
    """Held-out residuals over each of the scales, counted by fold, and the sums of these scales in every class.

    Both together give the interval score of any quantile: the widths of all intervals, and by how much they miss.
    """

    counts: Floats  # (kinds, folds, q, classes)
    scales: Floats  # (kinds, q, classes): sums of the scales of the residuals in each class
    largest: float  # posterior scale

    def __add__(self, other: Scores) -> Scores:
        largest = max(self.largest, other.largest)
        return Scores(self.counts + other.counts, self.scales + other.scales, largest)


@dataclass(frozen=True, eq=False)
class CVPlus:
    """The uncertainty of a low-rank fit, in the units that it was solved in: about 16 r^2 bytes for r anchors."""

    L: Floats  # (r, r)
    mean: Floats  # (r,) of phi
    root: Floats  # (r, r), lower triangular, in LAPACK's order: alpha (C + alpha I)^-1 = root root'
    alpha: float
    weight: float  # W, the precision of the offset
    amplitude: Floats  # (q,)
    thetas: Floats  # (folds, r, q) of the fits without each fold, or to the folds before it
    offsets: Floats  # (folds, q)
    below: Floats  # (q, folds, classes): number of the residuals up to the end of each class
    scale: tuple[str, ...]  # (q,) the scale of intervals
    largest: float = np.inf  # posterior scale of a training row: beyond it, intervals of constant scale widen
    units: int = 0  # number of independent units; 0: the number of residuals
    forward: bool = False  # later rows judge
    rho: float = 0.0  # variance of a group's level over the noise
    local: LocalScale | None = None

    @property
    def new_noise(self) -> float:
        """The noise variance of a new observation of weight one in a new group, over the amplitude."""
        return self.alpha * (1.0 + self.rho)

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        """Return sqrt(a t(x)) (m, q) of f at m rows, from k (m, r) with the anchors and prior (m,) = k(x, x).

        Linear functionals of f work alike, from their values on k(., z), on k in both arguments, and on the constant 1.
        """
        F = solve_rows(self.L, k, n_threads=n_threads)
        t = self._remainder(F, self._known(F, constant, n_threads), prior, constant)
        return np.sqrt(np.outer(t, self.amplitude))

    def interval(
        self,
        prediction: Floats,
        k: Floats,
        prior: Floats,
        coverage: float,
        X: Floats,
        left_out: Floats | None = None,
        *,
        n_threads: int | None = None,
    ) -> Floats:
        """CV+: lower and upper ends (m, q, 2) for new observations.

        Of the n values f_-fold(i)(x) + score_i s(x), the ceil(coverage (n + 1))-th smallest is the upper end; the lower
        end is the mirror image. The predictions (m, folds, q) of the fits without each fold may be given; otherwise
        they follow from the thetas.
        """
        total = self.below[:, :, -1].sum(axis=1)
        need = rank_of(coverage, total[:1], self.units)
        interval = np.empty((*prediction.shape, 2))
        if need > total[0]:
            interval[..., 0], interval[..., 1] = -np.inf, np.inf
            return interval
        F = solve_rows(self.L, k, n_threads=n_threads)
        posterior = np.sqrt(self._remainder(F, self._known(F, 1.0, n_threads), prior) + self.new_noise)
        widths = self._widths(X, posterior, n_threads)
        for j in range(prediction.shape[1]):
            if self.forward:
                centre = prediction[:, [j]]
            elif left_out is None:
                centre = times_rows(F, self.thetas[:, :, j], n_threads=n_threads) + self.offsets[:, j]
            else:
                centre = left_out[:, :, j]
            reach = np.sqrt(self.amplitude[j]) * widths[self.scale[j]][:, min(j, widths[self.scale[j]].shape[1] - 1)]
            ends = self._end(j, np.concatenate([-centre, centre]), np.concatenate([reach, reach]), need)
            interval[:, j, 0], interval[:, j, 1] = -ends[: len(centre)], ends[len(centre) :]
        return np.sort(interval, axis=-1)

    def _widths(self, X: Floats, posterior: Floats, n_threads: int | None) -> dict[str, Floats]:
        """Return the scales in use at m rows, (m, 1) or, of the local scale, (m, q)."""
        plain = np.sqrt(self.alpha) * np.maximum(posterior / self.largest, 1.0)
        widths = {PLAIN: plain[:, None], POSTERIOR: posterior[:, None]}
        if self.local is not None and LOCAL in self.scale:
            widths[LOCAL] = posterior[:, None] * self.local(X, n_threads=n_threads)
        return widths

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

    def posterior_scale(self, F: Floats, prior: Floats) -> Floats:
        """Return the scale of a new observation (m,) at rows with features F (m, r), over the amplitude."""
        known = triangular_product(self.root, np.ascontiguousarray(F - self.mean).T, transposed=True).T
        scale: Floats = np.sqrt(self._remainder(F, known, prior) + self.new_noise)
        return scale

    def held_out(self, F: Floats, prior: Floats, Y: Floats, fold: Places) -> tuple[Floats, Floats]:
        """Return held-out residuals (m, q) of rows in folds (m,), over their amplitude, and posterior scales (m,)."""
        residual = np.zeros_like(Y)
        for number, (theta, offset) in enumerate(zip(self.thetas, self.offsets, strict=True)):
            rows = np.flatnonzero(fold == number)
            residual[rows] = Y[rows] - offset - F[rows] @ theta
        return residual / np.sqrt(np.maximum(self.amplitude, 1e-300)), self.posterior_scale(F, prior)

    def scores(self, X: Floats, residual: Floats, posterior: Floats, fold: Places) -> Scores:
        """Count the sizes of held-out residuals (m, q) over their amplitude, by the folds (m,) that hold them out."""
        size, folds, q = np.abs(residual), len(self.offsets), residual.shape[1]
        scales = [np.full((len(X), 1), np.sqrt(self.alpha)), posterior[:, None]]
        if self.local is not None:
            scales.append(posterior[:, None] * self.local.held_out(X, fold, n_threads=1))
        counts, sums = np.zeros((len(scales), folds, q, CLASSES)), np.zeros((3, q, CLASSES))
        tested = fold > 0 if self.forward else np.ones(len(fold), dtype=bool)
        for kind, scale in enumerate(scales):
            place, scale = _class(size / scale), np.broadcast_to(scale, size.shape)
            for j in range(q):
                sums[kind, j] = np.bincount(place[tested, j], weights=scale[tested, j], minlength=CLASSES)
                for number in range(folds):
                    chosen = tested & (fold == number)
                    counts[kind, number, j] = np.bincount(place[chosen, j], minlength=CLASSES)
        return Scores(counts, sums, float(posterior.max(initial=0.0)))

    def transformed(self, P: Floats, mean: Floats) -> CVPlus:
        """Return the uncertainty in terms of other features phi with this mean; it was learned with P'phi, P (r, R)."""
        return replace(self, mean=mean, root=lower_root(P @ self.root), thetas=P @ self.thetas)

    def with_scores(self, scores: Scores, n: int) -> CVPlus:
        """Store residual counts scaled up to n rows; per output, keep the scale of the least interval score."""
        pooled = scores.counts.sum(axis=1)  # (kinds, q, classes)
        kinds = range(len(pooled))
        outputs = range(pooled.shape[1])
        best = [min(kinds, key=lambda kind: _interval_score(pooled[kind, j], scores.scales[kind, j])) for j in outputs]
        counts = np.array([scores.counts[kind, :, j] for j, kind in enumerate(best)])  # (q, folds, classes)
        counts *= n / counts[0].sum()
        counts = counts.sum(axis=1, keepdims=True) if self.forward else counts
        scale = tuple(KINDS[kind] for kind in best)
        return replace(self, below=np.cumsum(counts, axis=-1), scale=scale, largest=scores.largest)

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
        below = np.zeros((len(self.below[j]), CLASSES + 1))  # no residual is below the first class
        below[:, 1:] = self.below[j]
        starts = 1 + (CLASSES + 1) * np.arange(len(below))
        low, high = (left_out.min(axis=1) + reach * pooled, left_out.max(axis=1) + reach * pooled)
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                place = _class((middle[:, None] - left_out) / reach[:, None], rounded_up=False)
                held = np.cumsum(below.take(place + starts), axis=1)[:, -1]  # adds up in the order of the folds
                enough = held >= need
                low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high)


_END = np.append(SMALLEST * np.exp(_WIDTH * np.arange(CLASSES - 1)), np.inf)  # ends of the classes


def _class(score: Floats, *, rounded_up: bool = True) -> NDArray[np.intp]:
    """The first class whose end is not below the score; or the last whose end is not above it, -1 for none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.log(np.maximum(score, 0.0) / SMALLEST) / _WIDTH
    place[np.isnan(place)] = 0.0
    place = np.ceil(place - 1e-9) if rounded_up else np.floor(place + 1e-9)
    classes: NDArray[np.intp] = np.clip(place, 0 if rounded_up else -1, CLASSES - 1).astype(np.intp)
    return classes


def _interval_score(counts: Floats, scales: Floats) -> float:
    """Return ``interval_score`` from the numbers of residuals in classes, and the sums of their scales there."""
    reached, total = np.cumsum(counts), 0.0
    middle = np.append(_END[:-1], LARGEST)
    for level in LEVELS:
        q = middle[int(np.searchsorted(reached, level * reached[-1]))]
        missed = np.maximum(middle - q, 0.0) @ scales
        total += float((1 - level) * q * scales.sum() + missed)
    return total


def lower_root(A: Floats) -> Floats:
    """Return a lower triangular root (r, r), in LAPACK's order, with root root' = A A'; A (r, R), R >= r."""
    (upper,) = qr(A.T, mode="r", check_finite=False)
    return np.array(upper[: len(A)], dtype=np.float64, order="C").T


def posterior_on_anchors(
    L: Floats, total: Sums, whole: RidgePath, alpha: float, n: int, thetas: Floats, offsets: Floats
) -> CVPlus:
    """Return the uncertainty of ridge regression on anchors, in which no residuals are counted yet.

    `total` are the sums of the n rows, and `whole` is the fit to them; thetas (folds, r, q) and offsets (folds, q) are
    of the fits without each fold.
    """
    root = lower_root(whole.V * np.sqrt(alpha / (whole.values + alpha)))
    least = total.yy - total.y**2 / total.weight - np.sum(whole.target * whole.rotated(alpha), axis=0)
    amplitude = np.maximum(least, 0.0) / alpha / max(n - 1.0, 1e-300)
    no_scores = np.zeros((len(total.y), len(thetas), CLASSES)), (PLAIN,) * len(total.y)
    return CVPlus(L, whole.x_mean, root, alpha, total.weight, amplitude, thetas, offsets, *no_scores)


@dataclass(frozen=True, eq=False)
class LowRankUncertainty:
    """The uncertainty of a low-rank fit, in the units of the target; see ``salsa.uncertainty.Uncertainty``."""

    cvplus: CVPlus
    unit: Floats  # (q,)
    points: Floats  # (r, D), the anchors
    keeps_rows: bool = False
    grouped: bool = False  # rows share the levels of groups
    mean_weight: float = 1.0  # the mean of the training rows' weights as given, which the fit divides weights by

    @property
    def sd_points(self) -> Floats:
        return self.points

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        """Do nothing: a low-rank fit keeps all that predictions need."""

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        return self.unit * self.cvplus.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        ends = self.cvplus.interval(prediction / self.unit, k, prior, coverage, X, n_threads=n_threads)
        return self.unit[:, None] * ends

    def leave_one_out(
        self, rows: Observations, prediction: Floats, k: Floats, prior: Floats, *, n_threads: int | None = None
    ) -> LeaveOneOut:
        if self.grouped:
            raise ValueError("this low-rank model has groups, and a row alone cannot be left out: use cross-validation")
        unit, Y, weight = self.unit, rows.Y / self.unit, rows.weight / self.mean_weight
        found = self.cvplus.leave_one_out(k, prior, prediction / unit, Y, weight, n_threads=n_threads)
        return LeaveOneOut(unit * found.target, unit * found.prediction, unit * found.sd, found.weight)
