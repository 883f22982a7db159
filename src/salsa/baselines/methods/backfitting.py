"""Back-fitting with cubic smoothing splines: f(x) = mean + sum_j f_j(x_j), where f_j smooths the partial residuals.

The fit minimises |y - f|^2 / n + sum_j penalty_j int f_j''^2. All features get the same degrees of freedom, from which
the penalties follow. Degrees of freedom depend neither on the units nor on the distribution of a feature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from salsa._utils.arrays import Floats
from salsa._utils.user_warning import warn_user
from salsa.baselines.methods.estimator import Method, Seed
from salsa.baselines.methods.smoothing import AdditiveBasis, candidates, choose, standardise

DF_GRID = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
ROUGH = 1e-4  # tolerance while candidates are compared


@dataclass(eq=False, repr=False)
class SplineBackfittingRegressor(Method):
    """Additive model of cubic smoothing splines, fitted by back-fitting (Hastie and Tibshirani, 1990).

    As in their modified back-fitting, lines are fitted jointly by least squares, and curves feature by feature.
    Rounds are accelerated by conjugate gradients, because they converge slowly if features are correlated.

    Parameters
    ----------
    df : "auto", float or sequence of float, default="auto"
        Degrees of freedom of every feature's curve; 1 is a straight line. Cross-validation chooses from a sequence;
        "auto" stands for ten values from 1 to 10.
    n_knots : int, default=30
        The largest number of knots. A feature with at most this many distinct values gets an exact smoothing spline.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds.
    tol : float, default=1e-6
        Back-fitting ends when the residual of its equations is at most this share of their right-hand side.
    max_iter : int, default=1000
        The largest number of rounds.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds.

    Attributes
    ----------
    df_ : the chosen degrees of freedom.
    cv_errors_ : array, mean squared error of every candidate as a share of the variance of y; None for one candidate.
    n_iter_ : number of rounds of the final fit.
    """

    _fewest_rows = 2

    df: Any = "auto"
    _: KW_ONLY
    n_knots: int = 30
    cv: Any = 5
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Seed = None

    def _learn(self, X: Floats, y: Floats) -> None:
        dfs = candidates("df", self.df, DF_GRID, 1)
        if self.n_knots < 2:
            raise ValueError(f"n_knots={self.n_knots}: a curve has at least 2 knots")
        z, self._mean, self._scale = standardise(y)
        best, self.cv_errors_ = choose(partial(self._path, dfs), len(dfs), X, z, self.cv, self.random_state)
        self.df_, self._basis = dfs[best], AdditiveBasis.of(X, self.n_knots)
        equations = BackfittingEquations.of(self._basis, X, z)
        self._coef, _, self.n_iter_, residual = equations.solve(self.df_, tol=self.tol, max_iter=self.max_iter)
        if residual > 2 * self.tol:  # the residual that ends the rounds is updated, not recomputed
            message = f"back-fitting did not converge in max_iter={self.max_iter} rounds: the residual of its "
            message += f"equations is {residual:.1e} of their right-hand side; increase max_iter or tol, or lower df"
            warn_user(message, ConvergenceWarning)

    def _predict(self, X: Floats) -> Floats:
        return self._mean + self._scale * (self._basis(X) @ self._coef)

    def _path(self, dfs: list[float], X: Floats, y: Floats, new: Floats) -> Floats:
        """Return predictions (m, dfs) for the rows of `new`; every fit starts from the solution of the fit before."""
        basis, mean = AdditiveBasis.of(X, self.n_knots), y.mean()
        equations, start, coefs = BackfittingEquations.of(basis, X, y - mean), None, []
        for df in dfs:
            coef, start, *_ = equations.solve(df, start, tol=max(ROUGH, self.tol), max_iter=self.max_iter)
            coefs.append(coef)
        predictions: Floats = mean + basis(new) @ np.column_stack(coefs)
        return predictions


class Backfitted(NamedTuple):
    coef: Floats  # (p,)
    scaled: Floats  # (p,): a start for another fit
    iterations: int
    residual: float  # norm relative to the right-hand side of the equations


class BackfittingEquations(NamedTuple):
    """The equations b_j = S_j (c_j - sum_{k != j} G_jk b_k) of all features j: G = B'B / n, c = B'y / n, S_j shrinks.

    With b = S^1/2 a they become A a = S^1/2 c. A = S^1/2 G S^1/2 + I - S is symmetric, and finite if S is zero.
    """

    basis: AdditiveBasis
    G: Floats  # (p, p)
    c: Floats  # (p,)

    @classmethod
    def of(cls, basis: AdditiveBasis, X: Floats, y: Floats) -> BackfittingEquations:
        B = basis(X)
        return cls(basis, B.T @ B / len(B), B.T @ y / len(B))

    def solve(self, df: float, start: Floats | None = None, *, tol: float, max_iter: int) -> Backfitted:
        """Solve by conjugate gradients, preconditioned by one round of back-fitting forwards and backwards."""
        p = len(self.c)
        if not self.c.any():
            return Backfitted(np.zeros(p), np.zeros(p), 0, 0.0)
        S = np.concatenate([feature.shrinkage(df) for feature in self.basis.features])
        root = np.sqrt(S)
        A = self.G * root * root[:, None]
        A.flat[:: p + 1] += 1.0 - S
        rounds = count()
        operator = LinearOperator((p, p), matvec=self._round(A), dtype=np.float64)
        a, _ = cg(A, root * self.c, start, rtol=tol, maxiter=max_iter, M=operator, callback=lambda _: next(rounds))
        residual = np.linalg.norm(root * self.c - A @ a) / np.linalg.norm(root * self.c)
        return Backfitted(root * a, a, next(rounds), float(residual))

    def _round(self, A: Floats) -> Callable[[Floats], Floats]:
        """Return a function of r (p,), one round of back-fitting to r: lines, curves forwards and backwards, lines."""
        blocks = [block for block in self.basis.blocks if block.stop > block.start]
        lines = np.array([block.start for block in blocks], dtype=np.intp)
        A_lines, all_lines = A[lines], np.linalg.pinv(A[np.ix_(lines, lines)], hermitian=True)
        curves = [slice(block.start + 1, block.stop) for block in blocks if block.stop > block.start + 1]

        def backfit(r: Floats) -> Floats:
            a = np.zeros(len(A))
            a[lines] = all_lines @ r[lines]
            for curve in [*curves, *curves[::-1]]:
                a[curve] += r[curve] - A[curve] @ a  # a curve's own block of A is the identity
            a[lines] += all_lines @ (r[lines] - A_lines @ a)
            return a

        return backfit
