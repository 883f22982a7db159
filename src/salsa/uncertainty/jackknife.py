"""Uncertainty of predictions: posterior standard deviations and jackknife+ intervals, both without a single refit.

The fit is f(x) = b + k(x)'c with C = K + alpha W^-1, u = C^-1 1, M = C^-1 - uu' / (1'u), c = M y, b = u'y / (1'u):
W holds the sample weights, and a weight of 2 is the row twice. With L L' = W^1/2 K W^1/2 + alpha I, p = L^-1 W^1/2 1
and v = L^-1 W^1/2 k(x), everything below is one triangular product away:

    remainder          t(x) = k(x, x) - |v|^2 + (1 - p'v)^2 / |p|^2      variance that the rows do not explain
    effects            h(x) = df(x) / dy = W^1/2 L^-T (v + p (1 - p'v) / |p|^2)
    leave-one-out      r_i = c_i / M_ii,   f_-i(x) = f(x) - h_i(x) r_i,   t_-i(x) = t(x) + h_i(x)^2 / M_ii

Row i with y_i replaced by its own leave-one-out prediction y_i - r_i does not move f_-i, hence the middle formula; and
1 / M_ii = t_-i(x_i) + alpha / w_i is the variance of what row i adds, with gain h_i(x), hence the last. Every copy of
a weighted row is left out at once.

The Gaussian process whose posterior mean is f has prior covariance a k and noise variance a alpha, and a flat prior on
b. Restricted maximum likelihood gives the amplitude a = y'My / (sum of weights - 1): alpha y'My is the minimum of the
penalised sum of squares, hence the same for a weight of 2 and the row twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger, dtrsm
from scipy.linalg.lapack import dtrtri

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa._utils.linalg import positive_factor
from salsa._utils.memory import EXACT_ADVICE, exact_bytes, memory_limit_bytes, require_memory
from salsa._utils.rowwise import dot_rows, solve_rows
from salsa._utils.weighted import power_of_two, weights_or_ones
from salsa.expansion import KernelExpansion
from salsa.uncertainty import LeaveOneOut

_TINY = float(np.finfo(np.float64).tiny)
_LEVEL = 0.9  # the coverage at which scaled and plain intervals are compared


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The uncertainty of an exact fit, in the units that it was solved in: 8 n^2 bytes for n rows, q outputs."""

    L: Floats  # (n, n) lower triangular, L L' = W^1/2 K W^1/2 + alpha I
    level: Floats  # (n,) p = L^-1 W^1/2 1
    target: Floats  # (n, q) y
    weight: Floats  # (n,) > 0
    alpha: float
    amplitude: Floats  # (q,) a; infinite where the weights sum to 1 or less: it cannot be estimated from one row
    loo_variance: Floats  # (n,) 1 / M_ii; 0 for a single row, which leaves nothing behind
    loo_residual: Floats  # (n, q) r_i; 0 for a single row
    score: Floats  # (n, q) |r_i|, divided by loo_scale where scaled; infinite for a single row
    scaled: NDArray[np.bool_]  # (q,) whether intervals are wider where t(x) is

    @property
    def noise(self) -> Floats:
        """Variance (q,) of y about f: a alpha."""
        return self.alpha * self.amplitude

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        """Return sqrt(a t(x)) (m, q) of f at m rows, from k (m, n) with the training rows and prior (m,) = k(x, x).

        Linear functionals of f work alike, from their values on k(., x_i), on k in both arguments, and on constant 1.
        An observation has the variance a t(x) + noise. Takes m n^2 flops.
        """
        t = _remainder(self, _half_solve(self, k, n_threads), prior, constant)
        return np.sqrt(np.outer(t, self.amplitude))

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, *, n_threads: int | None = None
    ) -> Floats:
        """Jackknife+ (Barber et al., Annals of Statistics, 2021): lower and upper ends (m, q, 2) for new observations.

        Of the n values f_-i(x) + score_i s_i(x), the ceil(coverage (n + 1))-th smallest is the upper end; the lower end
        is the mirror image. s_i = 1, or the leave-one-out predictive scale sqrt(t_-i(x) + alpha) where scaled. A weight
        of 2 is two of the n values. A new observation is covered with probability >= 2 coverage - 1 whatever the
        distribution, and about `coverage` in practice. Rows whose weights sum to N cannot promise more than
        N / (N + 1): beyond that, the ends are infinite. Takes 2 m n^2 flops, and up to eight times the memory of k.
        """
        interval = np.empty((*prediction.shape, 2))
        V = _half_solve(self, k, n_threads)
        t = _remainder(self, V, prior)
        H = _effects(self, V, n_threads)
        scale = _scales(self, H, t) if self.scaled.any() else np.empty(0)
        for j, f in enumerate(prediction.T):
            left_out = f[:, None] - H * self.loo_residual[:, j]
            reach = self.score[:, j] * (scale if self.scaled[j] else 1.0)
            interval[:, j, 0] = -_quantile(reach - left_out, self.weight, coverage)
            interval[:, j, 1] = _quantile(reach + left_out, self.weight, coverage)
        return np.sort(interval, axis=-1)  # the ends can only cross for a coverage below one half

    def leave_one_out(self, unit: Floats) -> LeaveOneOut:
        """Return the leave-one-out predictions of every training row, times the units (q,) of the outputs."""
        scale = _loo_scale(self.loo_variance, self.alpha, self.weight)
        sd = np.where(self.loo_variance > 0.0, scale, np.inf)[:, None] * np.sqrt(self.amplitude)
        prediction = self.target - self.loo_residual
        return LeaveOneOut(unit * self.target, unit * prediction, unit * sd, self.weight)


def learn_jackknife(K: Floats, Y: Floats, coef: Floats, alpha: float, weight: Floats | None = None) -> Jackknife:
    """Return the uncertainty from K (n, n), which is overwritten, Y (n, q) and the fit's coef (n, q) = M Y.

    Takes 2/3 n^3 flops, and memory for one matrix beside K.
    """
    w = weights_or_ones(weight, len(K))
    K *= np.sqrt(w)
    K *= np.sqrt(w)[:, None]
    K.flat[:: len(K) + 1] += alpha
    L = positive_factor(K)
    level = dtrsm(1.0, L, np.sqrt(w)[:, None], lower=1)[:, 0]
    loo_variance = _loo_variance(L, level, w, K)
    residual = coef * loo_variance[:, None]
    scale = _loo_scale(loo_variance, alpha, w)
    size = np.where(loo_variance[:, None] > 0.0, np.abs(residual), np.inf)
    scaled = _width(size / scale[:, None], w) * (w @ scale / w.sum()) < _width(size, w)
    score = np.where(scaled, size / scale[:, None], size)
    return Jackknife(L, level, Y, w, alpha, _amplitude(Y, coef, w), loo_variance, residual, score, scaled)


def _loo_variance(L: Floats, level: Floats, weight: Floats, work: Floats) -> Floats:
    """1 / M_ii (n,), with M_ii = w_i |(I - pp'/|p|^2) L^-1 e_i|^2: no difference of nearly equal numbers."""
    work.T[...] = L
    inverse, _ = dtrtri(work.T, lower=1, overwrite_c=1)
    p = level / np.linalg.norm(level)
    inverse = dger(-1.0, p, p @ inverse, a=inverse, overwrite_a=1)
    M = weight * np.einsum("ij,ij->j", inverse, inverse)
    variance: Floats = np.divide(1.0, M, out=np.zeros_like(M), where=(M > 0.0) & (len(M) > 1))
    return variance


def _loo_scale(loo_variance: Floats, alpha: float, weight: Floats) -> Floats:
    """sqrt(t_-i(x_i) + alpha) (n,): of one more observation at x_i, not of the mean of its w_i copies."""
    variance = loo_variance + alpha * (1.0 - 1.0 / weight)
    return np.sqrt(np.maximum(variance, alpha if alpha > 0.0 else _TINY))


def _amplitude(Y: Floats, coef: Floats, weight: Floats) -> Floats:
    """Return the amplitude a (q,) = y'My / (sum of weights - 1)."""
    total = weight.sum()
    if total <= 1.0:
        return np.full(Y.shape[1], np.inf)
    form = np.einsum("ij,ij->j", Y - weight @ Y / total, coef)
    amplitude: Floats = np.maximum(form, 0.0) / (total - 1.0)
    return amplitude


def _width(size: Floats, weight: Floats) -> Floats:
    """Quantile (q,) of the sizes (n, q) that a share _LEVEL of new ones does not exceed."""
    return _quantile(size.T.copy(), weight, _LEVEL)  # which reorders its argument


def _half_solve(uncertainty: Jackknife, k: Floats, n_threads: int | None) -> Floats:
    """Return the rows v' (m, n) of (L^-1 W^1/2 k')'."""
    return solve_rows(uncertainty.L, k * np.sqrt(uncertainty.weight), overwrite=True, n_threads=n_threads)


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
    H *= np.sqrt(uncertainty.weight)
    return H


def _scales(uncertainty: Jackknife, H: Floats, t: Floats) -> Floats:
    """Return the leave-one-out scales sqrt(t_-i(x) + alpha) (m, n)."""
    scale = H * H
    scale *= uncertainty.loo_variance
    scale += (t + uncertainty.alpha)[:, None]
    return np.sqrt(scale, out=scale)


def _quantile(values: Floats, weight: Floats, coverage: float) -> Floats:
    """Return per row of values (m, n), which is overwritten, the smallest that outweighs a share `coverage` of N + 1.

    N is the sum of weights, and 1 stands for the new row. The result is infinite if N is too small.
    """
    total = weight.sum()
    need = coverage * (total + 1.0) * (1.0 - 1e-12)  # 0.9 * 10 is 9, whatever rounding says
    if need > total:
        return np.full(len(values), np.inf)
    if (weight == 1.0).all():
        rank = max(int(np.ceil(need)), 1) - 1
        values.partition(rank, axis=1)
        return values[:, rank].copy()
    order = values.argsort(axis=1)
    short = np.sum(np.cumsum(weight[order], axis=1) < need, axis=1, keepdims=True)
    rank = np.minimum(short, values.shape[1] - 1)
    return np.take_along_axis(values, np.take_along_axis(order, rank, axis=1), axis=1)[:, 0]


@dataclass(frozen=True, eq=False)
class ExactUncertainty:
    """The uncertainty of an exact fit, in the units of the target; see ``salsa.uncertainty.Uncertainty``.

    It is computed on first use, from the n x n kernel matrix of the training rows, and neither saved nor pickled.
    """

    expansion: KernelExpansion
    penalty: float  # added to the diagonal of the kernel matrix
    weight: Floats | None  # (n,), None if all are one
    keeps_rows: bool = True

    @property
    def points(self) -> Floats:
        return self.expansion.anchors

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        if "_learned" in self.__dict__:
            return
        kernel, X, coef, _ = self.expansion.parts
        limit = memory_limit_bytes(memory_limit)
        require_memory(exact_bytes(len(X)), limit, "the uncertainty of predictions", EXACT_ADVICE)
        w = weights_or_ones(self.weight, len(X))
        Y = self.expansion.predict(X, n_threads=threads) + self.penalty * coef / w[:, None]
        unit = power_of_two(Y)
        with one_blas_thread():
            learned = learn_jackknife(kernel(X, n_threads=threads), Y / unit, coef / unit, self.penalty, w)
        self.__dict__["_learned"] = learned, unit

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        jackknife, unit = self._learned
        return unit * jackknife.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, *, n_threads: int | None = None
    ) -> Floats:
        jackknife, unit = self._learned
        return unit[:, None] * jackknife.interval(prediction / unit, k, prior, coverage, n_threads=n_threads)

    def training_rows(self) -> LeaveOneOut:
        """Return what the model without each training row says of it, in the order of the anchors."""
        jackknife, unit = self._learned
        return jackknife.leave_one_out(unit)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_learned"}

    @property
    def _learned(self) -> tuple[Jackknife, Floats]:
        learned: tuple[Jackknife, Floats] = self.__dict__["_learned"]
        return learned
