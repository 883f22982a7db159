"""COSSO: smoothing-spline ANOVA in which whole components, single features or pairs, are selected.

f(x) = b + sum_a f_a(x), and with weights theta_a >= 0 of the components' kernels R_a, R = sum_a theta_a R_a, it
minimises

    |y - f|^2 + alpha sum_a |f_a|^2 / theta_a     subject to  sum_a theta_a <= M.

Components whose weight is 0 are gone. In turn (Lin and Zhang, 2006):

(a) for given theta, f = b + R(., S) c is a ridge regression; S are some of the rows (all, if there are few);
(b) for given c and b, f = b + G theta with G_a = R_a(., S) c, and theta is a non-negative lasso of
    y - b - alpha c / 2 on G, c being 0 for rows outside S. Its path over M has corners and straight pieces: all of it
    is found at once by least angle regression.

They start from equal weights and stop after one turn, as their paper advises; (a) follows for the weights found.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from salsa.baselines.smoothing import Rows, held_out_errors, standardise
from salsa.baselines.splineanova import AnovaKernel
from salsa.kernels import Floats

N_BUDGETS, SMALLEST_PENALTY = 25, 1e-4  # values of M, from 0 to where the lasso's penalty is this share of its largest
ALPHAS = np.geomspace(1e-8, 1.0, 65)  # candidates for alpha in units of the largest eigenvalue
NEGLIGIBLE = 1e-10  # eigenvalue of the basis rows' kernel matrix, relative to the largest, that is left out


class COSSORegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Component selection and smoothing (Lin and Zhang, 2006) of main effects and, with order 2, of all pairs.

    Features are scaled to [0, 1] by their range; beyond it, predictions go on as at its ends.

    Parameters
    ----------
    order : {1, 2}, default=1
        Single features, or these and all pairs.
    budget : "auto", float or sequence of float, default="auto"
        M, the sum of the components' weights, which are 1 each at the start. "auto" tries 25 values by
        cross-validation, a sequence exactly those.
    n_basis : int, default=150
        The most rows that kernels are centred on, drawn at random.
    n_turns : int, default=1
        How often weights are renewed.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds.
    random_state : int, RandomState instance or None, default=None
        Draws the basis rows and shuffles the folds.

    Attributes
    ----------
    budget_, alpha_ : M, and alpha by generalised cross-validation at equal weights.
    theta_ : array, weights of the components; 0 for those that are not selected.
    terms_ : list of tuples, the features of every component.
    cv_errors_ : array, mean squared error of every budget; None if there was one only.
    """

    def __init__(
        self,
        order: int = 1,
        *,
        budget: Any = "auto",
        n_basis: int = 150,
        n_turns: int = 1,
        cv: Any = 5,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.order = order
        self.budget = budget
        self.n_basis = n_basis
        self.n_turns = n_turns
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose alpha and the budget, then fit all rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._check_parameters()
        with threadpool_limits(1, user_api="blas"):  # matrices are small
            return self._learn(X, y.astype(np.float64))

    def _learn(self, X: Floats, y: Floats) -> Self:
        random = check_random_state(self.random_state)
        z, self._mean, self._scale = standardise(y)
        alternation = self._alternation(X, z, None, random)
        budgets = alternation.budgets() if isinstance(self.budget, str) else np.sort(np.atleast_1d(self.budget))
        share = alternation.alpha / len(X)
        best, self.cv_errors_ = 0, None
        if len(budgets) > 1:

            def path(X: Floats, y: Floats, new: Floats) -> Floats:
                fold = self._alternation(X, y, share * len(X), random)
                return np.column_stack([fold.fit(M, self.n_turns).predict(new) for M in budgets])

            errors = held_out_errors(path, X, z, self.cv, random)
            best, self.cv_errors_ = int(np.argmin(errors)), errors * self._scale**2
        self.budget_, self.alpha_, self.terms_ = float(budgets[best]), alternation.alpha, alternation.kernel.terms
        self._fitted = alternation.fit(self.budget_, self.n_turns)
        self.theta_ = self._fitted.theta
        return self

    def predict(self, X: Any) -> Floats:
        """(n,)"""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._mean + self._scale * self._fitted.predict(X)

    def _alternation(self, X: Floats, y: Floats, alpha: float | None, random: RandomState) -> Alternation:
        basis = np.sort(random.choice(len(X), min(self.n_basis, len(X)), replace=False))
        return Alternation(AnovaKernel.of(X, basis, self.order), X, y, basis, alpha)

    def _check_parameters(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order={self.order!r}: components are of one feature (1) or up to two (2)")
        if self.n_basis < 1 or self.n_turns < 1:
            raise ValueError(f"n_basis={self.n_basis} and n_turns={self.n_turns} must be 1 or more")
        given = np.zeros(1) if isinstance(self.budget, str) and self.budget == "auto" else self.budget
        if isinstance(given, str) or np.size(given) == 0 or not np.all(np.greater_equal(given, 0) & np.isfinite(given)):
            raise ValueError(f"budget={self.budget!r}: give 'auto', or one or more numbers that are not negative")


class Fitted(NamedTuple):
    """x -> b + R(x, S) c"""

    kernel: AnovaKernel
    theta: Floats  # (p,)
    c: Floats  # (m,)
    b: float

    def predict(self, X: Floats) -> Floats:
        return self.b + self.kernel(X, self.theta) @ self.c


class Alternation:
    """Steps (a) and (b) on one set of rows; what all budgets share is computed once."""

    def __init__(self, kernel: AnovaKernel, X: Floats, y: Floats, basis: Rows, alpha: float | None) -> None:
        self.kernel, self.X, self.y, self.basis = kernel, X, y, basis
        equal = np.ones(len(kernel.terms))
        ridge = self._ridge(equal)
        self.alpha = ridge.best_alpha() if alpha is None else alpha
        self.first_path = self._weights(Fitted(kernel, equal, *ridge.solve(self.alpha)))

    def budgets(self) -> Floats:
        """Values of M, from none to where noise is fitted."""
        return np.unique(self.first_path.sums_at(np.geomspace(1.0, SMALLEST_PENALTY, N_BUDGETS)))

    def fit(self, M: float, n_turns: int) -> Fitted:
        found = self.smooth(self.first_path.weights(M))
        for _ in range(n_turns - 1):
            found = self.smooth(self._weights(found).weights(M))
        return found

    def smooth(self, theta: Floats) -> Fitted:
        """Step (a)"""
        return Fitted(self.kernel, theta, *self._ridge(theta).solve(self.alpha))

    def _ridge(self, theta: Floats) -> Ridge:
        return Ridge.of(self.kernel(self.X, theta), self.basis, self.y)

    def _weights(self, fitted: Fitted) -> GarrotePath:
        """Step (b)"""
        target = self.y - fitted.b
        target[self.basis] -= self.alpha / 2 * fitted.c
        return GarrotePath.of(self.kernel.components(self.X, fitted.c), target)


class Ridge(NamedTuple):
    """min |y - b - H c|^2 + alpha c'Q c for any alpha, in coordinates where both matrices are diagonal."""

    T: Floats  # (m, r): c = T a
    l: Floats  # (r,): the penalty of a is alpha, its squares weigh l
    target: Floats  # (r,)
    H_mean: Floats  # (m,)
    y: Floats  # (n,)

    @classmethod
    def of(cls, H: Floats, basis: Rows, y: Floats) -> Ridge:
        size, U = np.linalg.eigh((H[basis] + H[basis].T) / 2)
        keep = size > max(NEGLIGIBLE * size[-1], 0.0)
        W = U[:, keep] / np.sqrt(size[keep])
        H_mean = H.mean(axis=0)
        Z = (H - H_mean) @ W
        l, V = np.linalg.eigh(Z.T @ Z)
        return cls(W @ V, np.maximum(l, 0.0), V.T @ (Z.T @ (y - y.mean())), H_mean, y)

    def solve(self, alpha: float) -> tuple[Floats, float]:
        """c and b"""
        c = self.T @ (self.target / (self.l + alpha))
        return c, float(self.y.mean() - self.H_mean @ c)

    def best_alpha(self) -> float:
        """By generalised cross-validation."""
        alphas = ALPHAS * self.l.max(initial=0.0)
        return float(min(alphas, key=self.generalised_error)) if alphas[0] > 0 else 1.0

    def generalised_error(self, alpha: float) -> float:
        """|y - f|^2 / n over (1 - degrees of freedom / n)^2, both as sums of what is left: nothing cancels."""
        n, left = len(self.y), alpha / (self.l + alpha)
        within = np.divide(self.target**2, self.l, out=np.zeros_like(self.l), where=self.l > 0)
        squares = within @ left**2 + max(n * self.y.var() - within.sum(), 0.0)
        freedom = n - 1 - len(left) + left.sum()
        return float(n * squares / freedom**2) if freedom > 0 else np.inf


class GarrotePath(NamedTuple):
    """Weights theta >= 0 with which G theta is nearest to the target, for every sum M of them."""

    penalties: Floats  # (k,), falling
    corners: Floats  # (k, p): theta at the corners of the path, straight between them

    @classmethod
    def of(cls, G: Floats, target: Floats) -> GarrotePath:
        largest = float((G.T @ target).max(initial=0.0)) / len(G)
        if largest <= 0:
            return cls(np.zeros(1), np.zeros((1, G.shape[1])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of twins it leaves one out, and says so
            limits = {"alpha_min": SMALLEST_PENALTY * largest, "max_iter": 2 * sum(G.shape)}
            penalties, _, corners = lars_path(G, target, method="lasso", positive=True, **limits)
        return cls(penalties, corners.T)

    def sums_at(self, share: Floats) -> Floats:
        """M where the penalty is this share of the largest."""
        return np.interp(-share * self.penalties[0], -self.penalties, self.corners.sum(axis=1))

    def weights(self, M: float) -> Floats:
        """theta (p,) with sum M, or the last of the path if that is less."""
        sums = self.corners.sum(axis=1)
        after = min(int(np.searchsorted(sums, M)), len(sums) - 1)
        before = max(after - 1, 0)
        step = sums[after] - sums[before]
        t = min((M - sums[before]) / step, 1.0) if step > 0 else 1.0
        return (1 - t) * self.corners[before] + t * self.corners[after]
