"""Uncertainty of predictions: posterior standard deviations and jackknife+ intervals, both without a single refit.

The fit is f(x) = b + k(x)'c with C = K + alpha R, u = C^-1 1, M = C^-1 - uu' / (1'u), c = M y, b = u'y / (1'u): R is
the noise (``salsa.data.noise``), W^-1 for weights alone, and T = R^-1/2. With L L' = T K T' + alpha I, p = L^-1 T 1
and v = L^-1 T k(x), everything below is one triangular product away:

    remainder          t(x) = k(x, x) - |v|^2 + (1 - p'v)^2 / |p|^2      variance that the rows do not explain
    effects            h(x) = df(x) / dy = T'L^-T (v + p (1 - p'v) / |p|^2)
    held-out block B   r_B = M_BB^-1 c_B,   f_-B(x) = f(x) - h_B(x)'r_B,   t_-B(x) = t(x) + h_B(x)'M_BB^-1 h_B(x)

A block is a row, a group, a cell of aggregated counts, or a given fold. Block B with y_B replaced by its own held-out
prediction y_B - r_B does not move f_-B, hence the middle formula; and M_BB^-1 = t_-B + alpha R_BB is the covariance of
what block B adds, with gain h_B(x), hence the last.

The Gaussian process whose posterior mean is f has prior covariance a k and noise covariance a alpha R, and a flat prior
on b. Restricted maximum likelihood gives the amplitude a = y'My / (n - 1).

Intervals are f_-B(x) +- q s(x) with one of three scales s: constant, the posterior scale sqrt(t_-B(x) + alpha), or that
times the local scale of the noise (``local_scale``). The one with the least interval score on held-out rows is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger, dtrsm
from scipy.linalg.lapack import dtrtri

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.linalg import positive_factor
from salsa._utils.memory import EXACT_ADVICE, exact_bytes, memory_limit_bytes, require_memory
from salsa._utils.rowwise import dot_rows, solve_rows, times_rows
from salsa._utils.weighted import power_of_two
from salsa.data.noise import Noise
from salsa.data.splits import Splits, members
from salsa.expansion import KernelExpansion
from salsa.uncertainty import LeaveOneOut
from salsa.uncertainty.interval_scores import LOCAL, PLAIN, POSTERIOR, best_scale, rank_of
from salsa.uncertainty.local_scale import LocalScale, learn_local_scale

_TINY = float(np.finfo(np.float64).tiny)


class Judged(NamedTuple):
    """The way in which held-out residuals are found and counted.

    Residuals belong to blocks that are held out together, or, where later rows judge or rows are tested otherwise than
    once, they were found at the time of the fit (`forward`).
    """

    block: Places | None = None  # (n,), None: every row by itself
    units: int = 0  # number of independent units; 0: the number of residuals
    counts: Floats | None = None  # (n,) how many new observations a row stands for; None: one
    fold: Places | None = None  # (n,) the folds of the fit, if each row is tested once
    forward: Forward | None = None
    local: bool = True  # whether the local scale takes part


class Forward(NamedTuple):
    """Residuals of tested rows: their places, sizes (k, q) in the units of the target, and variances (k,)."""

    row: Places
    residual: Floats
    variance: Floats


def judged_by(splits: Splits, counts: Floats | None, *, local: bool = True) -> Judged:
    """Return how the splits of a fit judge its intervals; ``forward`` is left to ``forward_residuals``."""
    number = splits.partition()
    units = splits.n if splits.unit is None else int(splits.unit.max()) + 1
    if splits.given:
        return Judged(number, units, counts, number, None, local)
    return Judged(splits.unit, units, counts, number, None, local)


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The uncertainty of an exact fit, in the units that it was solved in: 8 n^2 bytes for n rows, q outputs."""

    L: Floats  # (n, n) lower triangular, L L' = T K T' + alpha I
    level: Floats  # (n,) p = L^-1 T 1
    target: Floats  # (n, q) y
    noise: Noise
    alpha: float
    amplitude: Floats  # (q,) a; infinite for a single row, which cannot tell
    held: Held
    judged: Judged
    local: LocalScale | None
    scale: tuple[str, ...]  # (q,) the scale of intervals
    score: Floats  # (k, q) |r_i| over its scale; infinite for a single row

    @property
    def new_noise(self) -> float:
        """The noise variance of a new observation of weight one in a new group, over the amplitude."""
        return self.alpha * (1.0 + (self.noise.rho if self.noise.shared else 0.0))

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        """Return sqrt(a t(x)) (m, q) of f at m rows, from k (m, n) with the training rows and prior (m,) = k(x, x).

        Linear functionals of f work alike, from their values on k(., x_i), on k in both arguments, and on constant 1.
        An observation has the variance a t(x) + noise. Takes m n^2 flops.
        """
        t = _remainder(self, _half_solve(self, k, n_threads), prior, constant)
        return np.sqrt(np.outer(t, self.amplitude))

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        """Jackknife+ (Barber et al., Annals of Statistics, 2021): lower and upper ends (m, q, 2) for new observations.

        Of the n values f_-B(x) + score_i s(x), the ceil(coverage (n + 1))-th smallest is the upper end; the lower end
        is the mirror image. With groups of g rows on average, g takes the place of the 1, which stands for what is new.
        A new observation is covered with probability >= 2 coverage - 1 whatever the distribution, and about `coverage`
        in practice. With too few units for the coverage, the ends are infinite. Takes 2 m n^2 flops, and up to eight
        times the memory of k.
        """
        interval = np.empty((*prediction.shape, 2))
        V = _half_solve(self, k, n_threads)
        t = _remainder(self, V, prior)
        H = None if self.judged.forward else _effects(self, V, n_threads)
        widths = self._widths(X, t, H, n_threads)
        count = _counts(self.judged, self.held)
        for j, f in enumerate(prediction.T):
            left_out = f[:, None] if H is None else f[:, None] - _by_block(H * self.held.residual[:, j], self.judged)
            reach = self.score[:, j] * widths[self.scale[j]][..., j if self.scale[j] == LOCAL else 0]
            need = rank_of(coverage, count, self.judged.units)
            interval[:, j, 0] = -_quantile(reach - left_out, count, need)
            interval[:, j, 1] = _quantile(reach + left_out, count, need)
        return np.sort(interval, axis=-1)  # the ends can only cross for a coverage below one half

    def leave_one_out(self, unit: Floats) -> LeaveOneOut:
        """Return the held-out predictions of the training rows that were held out, times the units (q,) of outputs."""
        row = self.held.row
        sd = np.where(self.held.variance > 0.0, np.sqrt(self.held.variance), np.inf)[:, None] * np.sqrt(self.amplitude)
        target = self.target[row]
        prediction = target - self.held.residual
        return LeaveOneOut(unit * target, unit * prediction, unit * sd, self.noise.weight[row])

    def _widths(self, X: Floats, t: Floats, H: Floats | None, n_threads: int | None) -> dict[str, Floats]:
        """Return the scales in use at m rows, (m, n or 1, 1) or, of the local scale, (m, n or 1, q)."""
        widths: dict[str, Floats] = {}
        largest = float(self.held.scale.max())
        widths[PLAIN] = np.sqrt(np.maximum((t + self.new_noise) / largest**2, 1.0))[:, None, None]
        if set(self.scale) == {PLAIN}:
            return widths
        posterior = np.sqrt((t + self.new_noise)[:, None] if H is None else _held_out_variance(self, H, t))
        widths[POSTERIOR] = posterior[:, :, None]
        if self.local is not None and LOCAL in self.scale:
            widths[LOCAL] = posterior[:, :, None] * self.local(X, n_threads=n_threads)[:, None, :]
        return widths


class Held(NamedTuple):
    """Held-out residuals: rows (k,), residuals (k, q), variances of what they add (k,), scales of a new row (k,)."""

    row: Places
    residual: Floats
    variance: Floats  # 0 for a single row, which leaves nothing behind
    scale: Floats
    roots: tuple[tuple[Places, Floats], ...] = ()  # rows of every block of several rows, and a root of M_BB^-1


def learn_jackknife(
    K: Floats, Y: Floats, coef: Floats, alpha: float, noise: Noise, judged: Judged, expansion: KernelExpansion | None
) -> Jackknife:
    """Return the uncertainty from K (n, n), which is overwritten, Y (n, q) and the fit's coef (n, q) = M Y.

    The local scale is learned from the rows of the expansion; None: it does not take part. Takes n^3 flops, and memory
    for one matrix beside K.
    """
    L, level = _factor(K, alpha, noise)
    if judged.forward is None:
        held = _hold_out(_projected_inverse(L, level, noise, K), coef, alpha, noise, judged.block)
    else:
        held = _from_forward(judged.forward, alpha, noise)
    known = held.variance > 0.0
    size = np.where(known[:, None], np.abs(held.residual), np.inf)
    scales, local = {PLAIN: np.ones((len(size), 1)), POSTERIOR: held.scale[:, None]}, None
    if expansion is not None and judged.local and judged.fold is not None and judged.forward is None and known.all():
        kernel, X, *_ = expansion.parts
        local = learn_local_scale(kernel, X, size / held.scale[:, None], judged.fold, judged.counts)
        scales[LOCAL] = held.scale[:, None] * local.held_out(X, judged.fold, n_threads=1)
    chosen = best_scale(size, scales, _counts(judged, held), judged.units)
    columns = [scales[name][:, j if name == LOCAL else 0] for j, name in enumerate(chosen)]
    score = size / np.column_stack(columns)
    amplitude = _amplitude(Y, coef, noise)
    return Jackknife(L, level, Y, noise, alpha, amplitude, held, judged, local, chosen, score)


def forward_residuals(K: Floats, Y: Floats, coef: Floats, alpha: float, noise: Noise, splits: Splits) -> Forward:
    """Return the residuals of all tested rows, by the fits to the training rows of each split. K is overwritten."""
    L, level = _factor(K, alpha, noise)
    A = _projected_inverse(L, level, noise, K)
    rows, residuals, variances = [], [], []
    for fold in splits.folds:
        root = _block_root(A[:, fold.held_out])
        residuals.append((root @ (root.T @ coef[fold.held_out]))[fold.test])
        variances.append(np.sum(root**2, axis=1)[fold.test])
        rows.append(fold.tested)
    return Forward(np.concatenate(rows), np.concatenate(residuals), np.concatenate(variances))


def _factor(K: Floats, alpha: float, noise: Noise) -> tuple[Floats, Floats]:
    """Return L (n, n) and p = L^-1 T 1 (n,); K is overwritten."""
    K = noise.whiten_both(K)
    K.flat[:: len(K) + 1] += alpha
    L = positive_factor(K)
    return L, dtrsm(1.0, L, noise.ones[:, None], lower=1)[:, 0]


def _from_forward(forward: Forward, alpha: float, noise: Noise) -> Held:
    variance = forward.variance
    return Held(forward.row, forward.residual, variance, _new_row_scale(variance, alpha, noise.weight[forward.row]))


def _projected_inverse(L: Floats, level: Floats, noise: Noise, work: Floats) -> Floats:
    """Return A (n, n) = (I - pp'/|p|^2) L^-1 T, in the place of `work`: M = A'A, no difference of near numbers."""
    work.T[...] = L
    inverse, _ = dtrtri(work.T, lower=1, overwrite_c=1)
    p = level / np.linalg.norm(level)
    inverse = dger(-1.0, p, p @ inverse, a=inverse, overwrite_a=1)
    projected: Floats = inverse if noise.plain else noise.transpose_rows(inverse)
    return projected


def _hold_out(A: Floats, coef: Floats, alpha: float, noise: Noise, block: Places | None) -> Held:
    """Return the held-out residuals of all rows, from M = A'A."""
    M = np.einsum("ij,ij->j", A, A)
    n = len(M)
    variance: Floats = np.divide(1.0, M, out=np.zeros_like(M), where=(M > 0.0) & (n > 1))
    residual, roots = coef * variance[:, None], []
    for rows in [] if block is None else members(block):
        if len(rows) == 1:
            continue
        if len(rows) == n:  # nothing is left to predict from
            variance[:], residual[:] = 0.0, 0.0
            continue
        root = _block_root(A[:, rows])
        residual[rows] = root @ (root.T @ coef[rows])
        variance[rows] = np.sum(root**2, axis=1)
        roots.append((rows, root))
    return Held(np.arange(n), residual, variance, _new_row_scale(variance, alpha, noise.weight), tuple(roots))


def _block_root(A: Floats) -> Floats:
    """Return a root (b, b) of (A'A)^-1 for the columns A (n, b) of a block."""
    L = positive_factor(np.ascontiguousarray(A.T @ A))
    inverse, _ = dtrtri(L, lower=1)
    root: Floats = np.tril(inverse).T
    return root


def _new_row_scale(variance: Floats, alpha: float, weight: Floats) -> Floats:
    """Return the scale sqrt(t_-B(x_i) + alpha R_ii) of one more observation, of weight one, at x_i."""
    new = variance + alpha * (1.0 - 1.0 / weight)
    return np.sqrt(np.maximum(new, alpha if alpha > 0.0 else _TINY))


def _amplitude(Y: Floats, coef: Floats, noise: Noise) -> Floats:
    """Return the amplitude a (q,) = y'My / (n - 1)."""
    n = len(Y)
    if n == 1:
        return np.full(Y.shape[1], np.inf)
    form = np.einsum("ij,ij->j", Y - noise.mean_weight @ Y, coef)
    amplitude: Floats = np.maximum(form, 0.0) / (n - 1.0)
    return amplitude


def _counts(judged: Judged, held: Held) -> Floats:
    return np.ones(len(held.row)) if judged.counts is None else judged.counts[held.row]


def _half_solve(uncertainty: Jackknife, k: Floats, n_threads: int | None) -> Floats:
    """Return the rows v' (m, n) of (L^-1 T k')'."""
    return solve_rows(uncertainty.L, uncertainty.noise.whiten_rows(k), overwrite=True, n_threads=n_threads)


def _missing(uncertainty: Jackknife, V: Floats, constant: float = 1.0) -> Floats:
    """(1 - p'v) / |p|^2 (m,): the part of the intercept that the rows near x do not settle."""
    missing: Floats = (constant - dot_rows(V, uncertainty.level)) / _level_norm(uncertainty)
    return missing


def _level_norm(uncertainty: Jackknife) -> float:
    """Return the squared norm |p|^2."""
    return float(np.sum(uncertainty.level**2))


def _remainder(uncertainty: Jackknife, V: Floats, prior: Floats, constant: float = 1.0) -> Floats:
    """Return t(x) (m,), at least 0; a functional that vanishes on constants can have variance 0."""
    intercept = _missing(uncertainty, V, constant) ** 2 * _level_norm(uncertainty)
    return np.maximum(prior - dot_rows(V, V) + intercept, _TINY if constant else 0.0)


def _effects(uncertainty: Jackknife, V: Floats, n_threads: int | None) -> Floats:
    """Return the effects h(x)' (m, n) = df(x) / dy; V is overwritten."""
    V += _missing(uncertainty, V)[:, None] * uncertainty.level
    H = solve_rows(uncertainty.L, V, transposed=True, overwrite=True, n_threads=n_threads)
    return uncertainty.noise.transpose_rows(H)


def _by_block(shift: Floats, judged: Judged) -> Floats:
    """Return the sums (m, n) of a block's values, at every row of the block."""
    if judged.block is None:
        return shift
    order = np.argsort(judged.block, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(judged.block))[:-1])
    return np.add.reduceat(shift[:, order], starts, axis=1)[:, judged.block]


def _held_out_variance(uncertainty: Jackknife, H: Floats, t: Floats) -> Floats:
    """Return the variance (m, n) of new observations without the block B of each row: t_-B(x) and the noise."""
    held, alone = uncertainty.held, np.ones(H.shape[1], dtype=bool)
    variance = H * H
    for rows, root in held.roots:
        variance[:, rows] = dot_rows(part := times_rows(H[:, rows], root.T), part)[:, None]
        alone[rows] = False
    variance[:, alone] *= held.variance[alone]
    variance += (t + uncertainty.new_noise)[:, None]
    return variance


def _quantile(values: Floats, count: Floats, need: float) -> Floats:
    """Return per row of values (m, n), which is overwritten, the smallest that `need` of the counts do not exceed.

    The result is infinite if there are not so many.
    """
    if need > count.sum():
        return np.full(len(values), np.inf)
    if (count == 1.0).all():
        rank = max(int(np.ceil(need)), 1) - 1
        values.partition(rank, axis=1)
        return values[:, rank].copy()
    order = values.argsort(axis=1)
    short = np.sum(np.cumsum(count[order], axis=1) < need, axis=1, keepdims=True)
    rank = np.minimum(short, values.shape[1] - 1)
    return np.take_along_axis(values, np.take_along_axis(order, rank, axis=1), axis=1)[:, 0]


@dataclass(frozen=True, eq=False)
class ExactUncertainty:
    """The uncertainty of an exact fit, in the units of the target; see ``salsa.uncertainty.Uncertainty``.

    It is computed on first use, from the n x n kernel matrix of the training rows, and neither saved nor pickled.
    """

    expansion: KernelExpansion
    penalty: float  # added to the diagonal of the kernel matrix
    noise: Noise
    judged: Judged = field(default_factory=Judged)
    keeps_rows: bool = True

    @property
    def points(self) -> Floats:
        return self.expansion.anchors

    @property
    def sd_points(self) -> Floats:
        return self.expansion.anchors

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        if "_learned" in self.__dict__:
            return
        kernel, X, coef, _ = self.expansion.parts
        limit = memory_limit_bytes(memory_limit)
        require_memory(exact_bytes(len(X)), limit, "the uncertainty of predictions", EXACT_ADVICE)
        Y = self.expansion.predict(X, n_threads=threads) + self.penalty * self.noise.times(coef)
        unit, judged = power_of_two(Y), self.judged
        if judged.forward is not None:
            judged = judged._replace(forward=judged.forward._replace(residual=judged.forward.residual / unit))
        K, scaled = kernel(X, n_threads=threads), (Y / unit, coef / unit)
        with one_blas_thread():
            learned = learn_jackknife(K, *scaled, self.penalty, self.noise, judged, self.expansion)
        self.__dict__["_learned"] = learned, unit

    def judge(self, threads: int | None) -> tuple[tuple[str, ...], Floats]:
        """Return the scale of the intervals of every output, and the held-out residuals (k, q); nothing is kept."""
        judged = replace(self)
        judged.prepare(None, threads)
        jackknife, unit = judged._learned
        return jackknife.scale, unit * jackknife.held.residual

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        jackknife, unit = self._learned
        return unit * jackknife.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        jackknife, unit = self._learned
        return unit[:, None] * jackknife.interval(prediction / unit, k, prior, coverage, X, n_threads=n_threads)

    def training_rows(self) -> LeaveOneOut:
        """Return what the model without each training row, or its block, says of it, in the order of the anchors."""
        jackknife, unit = self._learned
        return jackknife.leave_one_out(unit)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_learned"}

    @property
    def _learned(self) -> tuple[Jackknife, Floats]:
        learned: tuple[Jackknife, Floats] = self.__dict__["_learned"]
        return learned
