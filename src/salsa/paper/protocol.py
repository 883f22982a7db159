"""SALSA exactly as the authors' program runs it, which differs from the paper's description (see docs/paper.md)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa.data.splits import Fold
from salsa.expansion import KernelExpansion
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.paper.direct import direct_minimum
from salsa.paper.theory import exact_order_kernel
from salsa.selection.order import increasing
from salsa.solvers.factor import Factor, exact_factor
from salsa.solvers.ridge import expansion, held_out

LAMBDA_RANGE = (1e-4, 100.0)  # times the number of training rows
N_FOLDS = 5


class AuthorsProtocol(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The estimator behind the errors of SALSA in Table 1.

    1. The kernel has exactly order d, is not normalised and has the factor sd(y); h_j = 20 sd_j n^(-1/5); no intercept.
    2. DIRECT chooses alpha = lambda on log lambda over [1e-4, 100] n in 31 evaluations; folds do not rescale alpha.
    3. The folds are five contiguous blocks of rows; the mean squared errors of the first `folds_used` are summed.
    4. Orders 1, 2, ... are tried until three in a row do not improve.

    X and y are expected as ``load_dataset`` returns them: standardised, with rows in the order of the authors' shuffle.

    Parameters
    ----------
    folds_used : int, default=2
        Number of folds that are scored: 2 in the authors' program, 5 in the description of the paper.

    Attributes
    ----------
    order_, alpha_ : the chosen order and penalty.
    errors_ : dict, order -> sum of the cross-validation errors.
    expansion_ : ``KernelExpansion``, the fitted function.
    """

    def __init__(self, folds_used: int = 2) -> None:
        self.folds_used = folds_used

    def fit(self, X: Any, y: Any) -> Self:
        """Choose order and alpha on X (n, D) and y (n,), and fit on all rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True, ensure_min_samples=N_FOLDS)
        if self.folds_used not in range(1, N_FOLDS + 1):
            raise ValueError(f"folds_used={self.folds_used!r} must be a number from 1 to {N_FOLDS}")
        Y = y[:, None].astype(np.float64)
        folds = contiguous_folds(len(X))[: self.folds_used]
        bandwidth, sd = rule_of_thumb_bandwidth(X), float(np.std(y, ddof=1)) or 1.0
        found: dict[int, tuple[float, float]] = {}  # order -> (alpha, cross-validation value)

        def loss(order: int) -> tuple[float, float]:
            factor = exact_factor(exact_order_kernel(bandwidth, order, "gaussian", sd)(X), intercept=False)
            found[order] = _best_alpha(factor, Y, folds)
            return found[order][1], 0.0

        with one_blas_thread():
            increasing(range(1, X.shape[1] + 1), patience=3)(loss)
            self.order_ = min(found, key=lambda order: (found[order][1], order))
            self.alpha_ = found[self.order_][0]
            kernel = exact_order_kernel(bandwidth, self.order_, "gaussian", sd)
            self.expansion_: KernelExpansion = expansion(
                kernel, X, exact_factor(kernel(X), intercept=False), Y, self.alpha_
            )
        self.errors_ = {order: value for order, (_, value) in found.items()}
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predictions (n,) at the rows X (n, D)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return self.expansion_.predict(X)[:, 0]


def contiguous_folds(n: int) -> list[Fold]:
    """Return folds of rows round((f-1) n/5 + 1) .. round(f n/5), counted from 1, halves rounded up as in MATLAB."""
    edges = [int(np.floor(f * n / N_FOLDS + 0.5)) for f in range(N_FOLDS + 1)]
    return [Fold(np.arange(a, b), np.arange(b - a)) for a, b in pairwise(edges)]


def _best_alpha(factor: Factor, Y: Floats, folds: list[Fold]) -> tuple[float, float]:
    residuals = held_out(factor, Y, folds).residuals
    low, high = np.log(np.array(LAMBDA_RANGE) * len(Y))

    def alpha(t: float) -> float:
        return float(np.exp(low + t * (high - low)))

    t, value = direct_minimum(lambda t: float(sum(np.mean(r**2) for r in residuals(alpha(t)))))
    return alpha(t), value
