"""COSSO: smoothing-spline ANOVA that selects whole components (single features or pairs).

The model is f(x) = b + sum_a f_a(x). Component a has the kernel R_a with a weight theta_a >= 0; R = sum_a theta_a R_a.
The fit minimises

    |y - f|^2 + alpha sum_a |f_a|^2 / theta_a     subject to  sum_a theta_a <= M.

A component of weight 0 is left out. Two steps alternate (Lin and Zhang, 2006):

(a) for given theta, f = b + R(., S) c is a ridge regression; the basis rows S are some of the rows, or all if few;
(b) for given c and b, f = b + G theta with G_a = R_a(., S) c, and theta is a non-negative lasso of
    y - b - alpha c / 2 on G, where c is 0 for rows outside S. Its path over M is piecewise linear, and is followed
    from corner to corner.

The steps start from equal weights. As Lin and Zhang advise, they stop after one turn; a last step (a) fits c and b.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from salsa._utils.arrays import Floats, Places
from salsa.baselines.methods.estimator import Method, Seed
from salsa.baselines.methods.garrote import SMALLEST_PENALTY, GarrotePath
from salsa.baselines.methods.smoothing import candidates, choose, standardise
from salsa.baselines.methods.splineanova import AnovaKernel, Ridge

N_BUDGETS = 25  # values of M, from 0 to the end of the path
BASIS_ROWS = {1: 200, 2: 500}  # number of basis rows by order; all components share them


@dataclass(eq=False, repr=False)
class COSSORegressor(Method):
    """Component selection and smoothing (Lin and Zhang, 2006) of main effects and, with order 2, of all pairs.

    Features are scaled to [0, 1] by their range; beyond the range of a feature, predictions are constant in it.

    Parameters
    ----------
    order : {1, 2}, default=1
        1: single features; 2: single features and all pairs.
    budget : "auto", float or sequence of float, default="auto"
        M, the largest sum of the components' weights, which start at 1 each. Cross-validation chooses from a sequence;
        "auto" stands for up to 25 values.
    n_basis : "auto" or int, default="auto"
        The largest number of basis rows, drawn at random. "auto": 200 with order 1, 500 with order 2.
    n_turns : int, default=1
        Number of times that the weights are renewed.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds.
    random_state : int, RandomState instance or None, default=None
        Draws the basis rows and shuffles the folds.

    Attributes
    ----------
    budget_, alpha_ : the chosen M, and the alpha that generalised cross-validation chooses at equal weights.
    theta_ : array, weights of the components; 0 if a component is not selected.
    terms_ : list of tuples, the features of every component.
    cv_errors_ : array, mean squared error of every budget as a share of the variance of y; None for a single budget.
    """

    _fewest_rows = 2

    order: int = 1
    _: KW_ONLY
    budget: Any = "auto"
    n_basis: Any = "auto"
    n_turns: int = 1
    cv: Any = 5
    random_state: Seed = None

    def _learn(self, X: Floats, y: Floats) -> None:
        self._check_parameters()
        random = check_random_state(self.random_state)
        z, self._mean, self._scale = standardise(y)
        alternation = self._alternation(X, z, None, random)
        budgets = sorted(candidates("budget", self.budget, alternation.budgets(), 0))
        share = alternation.alpha / len(X)

        def path(X: Floats, y: Floats, new: Floats) -> Floats:
            fold = self._alternation(X, y, share * len(X), random)
            return np.column_stack([fold.fit(M, self.n_turns).predict(new) for M in budgets])

        best, self.cv_errors_ = choose(path, len(budgets), X, z, self.cv, random)
        self.budget_, self.alpha_, self.terms_ = budgets[best], alternation.alpha, alternation.kernel.terms
        self._fitted = alternation.fit(self.budget_, self.n_turns)
        self.theta_ = self._fitted.theta

    def _predict(self, X: Floats) -> Floats:
        return self._mean + self._scale * self._fitted.predict(X)

    def _alternation(self, X: Floats, y: Floats, alpha: float | None, random: RandomState) -> Alternation:
        most = BASIS_ROWS[self.order] if isinstance(self.n_basis, str) else self.n_basis
        basis = np.sort(random.choice(len(X), min(most, len(X)), replace=False))
        return Alternation(AnovaKernel.of(X, basis, self.order), X, y, basis, alpha)

    def _check_parameters(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order={self.order!r}: give 1 (single features) or 2 (single features and pairs)")
        if self.n_basis != "auto" and (isinstance(self.n_basis, str) or self.n_basis < 1):
            raise ValueError(f"n_basis={self.n_basis!r}: give 'auto' or a number of rows, at least 1")
        if self.n_turns < 1:
            raise ValueError(f"n_turns={self.n_turns}: give at least 1 turn")
        candidates("budget", self.budget, (), 0)


class Fitted(NamedTuple):
    """The fitted function f(x) = b + R(x, S) c."""

    kernel: AnovaKernel
    theta: Floats  # (p,)
    c: Floats  # (m,)
    b: float

    def predict(self, X: Floats) -> Floats:
        return self.b + self.kernel(X, self.theta) @ self.c


class Alternation:
    """The steps (a) and (b) on one set of rows; numbers that do not depend on the budget are computed once."""

    def __init__(self, kernel: AnovaKernel, X: Floats, y: Floats, basis: Places, alpha: float | None) -> None:
        self.kernel, self.X, self.y, self.basis = kernel, X, y, basis
        equal = np.ones(len(kernel.terms))
        ridge = self._ridge(equal)
        self.alpha = ridge.best_alpha() if alpha is None else alpha
        self.first_path = self._weights(Fitted(kernel, equal, *ridge.solve(self.alpha)))

    def budgets(self) -> list[float]:
        """Return candidates for M, from 0 to the sum of the weights at the end of the path, where noise is fitted."""
        sums = self.first_path.sums_at(np.geomspace(1.0, SMALLEST_PENALTY, N_BUDGETS))
        return [float(M) for M in np.unique(sums)]

    def fit(self, M: float, n_turns: int) -> Fitted:
        found = self.smooth(self.first_path.weights(M))
        for _ in range(n_turns - 1):
            found = self.smooth(self._weights(found).weights(M))
        return found

    def smooth(self, theta: Floats) -> Fitted:
        """Take step (a): fit c and b for the weights theta (p,)."""
        return Fitted(self.kernel, theta, *self._ridge(theta).solve(self.alpha))

    def _ridge(self, theta: Floats) -> Ridge:
        return Ridge.of(self.kernel(self.X, theta), self.basis, self.y)

    def _weights(self, fitted: Fitted) -> GarrotePath:
        """Take step (b): return the path of weights over M for a fitted function."""
        target = self.y - fitted.b
        target[self.basis] -= self.alpha / 2 * fitted.c
        return GarrotePath.of(self.kernel.components(self.X, fitted.c), target)
