"""Additive Gaussian processes (Duvenaud, Nickisch & Rasmussen 2011), on the compiled kernel of this package.

The kernel sums all interactions of orders 1..d. The variance of each order, a bandwidth and a scale per feature and the
noise maximise the marginal likelihood under normal priors. No simpler kernel competes, and no feature is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from salsa._utils.arrays import Floats
from salsa._utils.memory import memory_limit_bytes, require_memory
from salsa._utils.weighted import power_of_two
from salsa.baselines.methods.estimator import Method, Seed
from salsa.data.noise import Noise
from salsa.data.splits import Splits
from salsa.expansion import KernelExpansion
from salsa.learning import Form, Problem
from salsa.learning.learn import learn_kernel
from salsa.learning.parameters import PRODUCT_LIMIT
from salsa.solvers.ridge import solve_once

TOLERANCE = 5e-5  # learning ends when a few iterations gain less than this log posterior per row
BASE = "gaussian"
PRODUCT = "all"


@dataclass(eq=False, repr=False)
class AdditiveGPRegressor(Method):
    """Posterior mean of a Gaussian process with Gaussian base kernels and all orders up to `max_order`.

    Parameters
    ----------
    max_order : int or "all", default=10
        The highest order, at most the number of features. "all": the product of all features and no other order,
        which is the usual Gaussian process with a bandwidth for every feature.
    learning_rows : int, default=1000
        The largest number of rows that the kernel is learned from. The posterior mean uses all rows, by a Cholesky
        factor of their kernel matrix.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that the kernel is learned from.

    Attributes
    ----------
    kernel_ : ``AdditiveKernel``, the learned kernel.
    noise_ : float, the noise variance as a share of the variance of the target.
    expansion_ : ``KernelExpansion``, the posterior mean.
    """

    max_order: Any = 10
    learning_rows: Any = 1000
    random_state: Seed = None

    def _learn(self, X: Floats, y: Floats) -> None:
        X, Y, (n, D) = np.ascontiguousarray(X), y[:, None], X.shape
        form = self._form(D)
        require_memory(24 * n * n, memory_limit_bytes(None), f"the kernel matrix of {n} rows", "Fit on fewer rows.")
        unit = power_of_two(Y)
        splits = Splits(n, (), check_random_state(self.random_state))
        problem = Problem(X, Y / unit, Noise(np.ones(n)), splits, (BASE,) * D)
        rows = splits.sample(problem.Y, self.learning_rows)
        learned = learn_kernel(problem.rows(rows), (form,), tolerance=TOLERANCE)
        self.kernel_, self.noise_ = learned.kernel, learned.noise
        coef, offset, _ = solve_once(learned.kernel(X, n_threads=1), problem.Y, learned.noise)
        self.expansion_ = KernelExpansion(learned.kernel, X, coef, offset).times(unit)

    def _predict(self, X: Floats) -> Floats:
        return self.expansion_.predict(np.ascontiguousarray(X), n_threads=1)[:, 0]

    def _form(self, D: int) -> Form:
        if not isinstance(self.learning_rows, Integral) or self.learning_rows < 2:
            raise ValueError(f"learning_rows={self.learning_rows!r} must be an integer of at least 2")
        if self.max_order == PRODUCT:
            if D > PRODUCT_LIMIT:
                raise ValueError(
                    f"max_order={PRODUCT!r} takes at most {PRODUCT_LIMIT} features, not {D}: give a number"
                )
            return Form(BASE)
        if isinstance(self.max_order, bool) or not isinstance(self.max_order, Integral) or self.max_order < 1:
            raise ValueError(f"max_order={self.max_order!r} must be an integer of at least 1, or {PRODUCT!r}")
        return Form(BASE, 1, min(int(self.max_order), D))
