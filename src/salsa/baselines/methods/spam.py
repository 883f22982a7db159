"""SpAM, sparse additive models: back-fitting that shrinks all curves and sets small curves to zero.

Every curve smooths the partial residuals, P_j = S_j (y - sum_{k != j} f_k), and its size is reduced by alpha:
f_j = max(0, 1 - alpha / |P_j|) P_j, where |f|^2 is the mean square over rows. Smoothers project on a few spline
functions, which are uncorrelated and have mean square 1. This is block descent on a convex problem, the group lasso

    1/2 |y - sum_j B_j b_j|^2 / n + alpha sum_j |b_j|,     B_j'B_j / n = I.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from salsa._utils.arrays import Floats
from salsa._utils.user_warning import warn_user
from salsa.baselines.methods.estimator import Method, Seed
from salsa.baselines.methods.smoothing import AdditiveBasis, candidates, choose, standardise

FUNCTIONS = (3, 6, 10)
N_ALPHAS, SMALLEST_ALPHA = 40, 1e-3  # the grid, from the alpha that leaves only the mean down to this share of it
ROUGH, FEW_ROUNDS = 1e-4, 300  # tolerance and largest number of rounds while candidates are compared


@dataclass(eq=False, repr=False)
class SpAMRegressor(Method):
    """Sparse additive model (Ravikumar, Lafferty, Liu and Wasserman, 2009).

    Parameters
    ----------
    alpha : "auto", float or sequence of float, default="auto"
        Reduction of the size of every curve, in standard deviations of y. Cross-validation chooses from a sequence;
        "auto" stands for 40 values.
    n_functions : "auto", int or sequence of int, default="auto"
        Number of spline functions of every feature; 1 is a straight line. "auto" tries 3, 6 and 10.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds.
    tol : float, default=1e-6
        Back-fitting ends when no curve changes by more than this, in standard deviations of y.
    max_iter : int, default=10000
        The largest number of rounds.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds.

    Attributes
    ----------
    alpha_, n_functions_ : the chosen values.
    sizes_ : array of shape (n_features,), root mean square of every curve in units of y; 0 if there is no curve.
    cv_errors_ : array of shape (n_functions, alphas), mean squared errors as shares of the variance of y; None for
        a single candidate.
    n_iter_ : number of rounds of the final fit.
    """

    _fewest_rows = 2

    alpha: Any = "auto"
    _: KW_ONLY
    n_functions: Any = "auto"
    cv: Any = 5
    tol: float = 1e-6
    max_iter: int = 10000
    random_state: Seed = None

    def _learn(self, X: Floats, y: Floats) -> None:
        z, self._mean, self._scale = standardise(y)
        counts = self._counts()
        bases = [AdditiveBasis.of(X, count + 1) for count in counts]
        lassos = [GroupLasso.of(basis, X, z) for basis in bases]
        alphas = self._alphas(max(lasso.largest_alpha for lasso in lassos))
        path, number = partial(self._path, counts, alphas), len(counts) * len(alphas)
        best, errors = choose(path, number, X, z, self.cv, self.random_state)
        self.cv_errors_ = None if errors is None else errors.reshape(len(counts), -1)
        chosen, at = divmod(best, len(alphas))
        self.alpha_, self.n_functions_, self._basis = alphas[at], counts[chosen], bases[chosen]
        self._coef, self.n_iter_, change = lassos[chosen].solve(self.alpha_, tol=self.tol, max_iter=self.max_iter)
        if change > self.tol:
            message = f"back-fitting did not converge in max_iter={self.max_iter} rounds: the last round changed a "
            message += f"curve by {change:.1e} standard deviations of y; increase max_iter, tol or alpha"
            warn_user(message, ConvergenceWarning)
        self.sizes_ = self._scale * np.array([np.linalg.norm(self._coef[block]) for block in self._basis.blocks])

    def _predict(self, X: Floats) -> Floats:
        return self._mean + self._scale * (self._basis(X) @ self._coef)

    def _counts(self) -> list[int]:
        counts = candidates("n_functions", self.n_functions, FUNCTIONS, 1)
        if any(count % 1 for count in counts):
            raise ValueError(f"n_functions={self.n_functions!r}: give whole numbers")
        return [int(count) for count in counts]

    def _alphas(self, largest: float) -> list[float]:
        """Return the candidates for alpha in falling order, so that every fit can start from the fit before."""
        automatic = [float(alpha) for alpha in largest * np.geomspace(1.0, SMALLEST_ALPHA, N_ALPHAS)]
        return sorted(candidates("alpha", self.alpha, automatic, 0), reverse=True)

    def _path(self, counts: list[int], alphas: list[float], X: Floats, y: Floats, new: Floats) -> Floats:
        """Return predictions (m, counts x alphas) for the rows of `new`."""
        mean, found = y.mean(), []
        for count in counts:
            basis = AdditiveBasis.of(X, count + 1)
            lasso, coef, coefs = GroupLasso.of(basis, X, y - mean), None, []
            for alpha in alphas:
                coef = lasso.solve(alpha, coef, tol=max(ROUGH, self.tol), max_iter=min(FEW_ROUNDS, self.max_iter)).coef
                coefs.append(coef)
            found.append(mean + basis(new) @ np.column_stack(coefs))
        return np.column_stack(found)


class Solved(NamedTuple):
    coef: Floats  # (p,)
    iterations: int
    change: float  # largest change of a curve in the last round


class GroupLasso(NamedTuple):
    """The group lasso above, by G = B'B / n and c = B'y / n; the columns of a feature are one block."""

    G: Floats  # (p, p)
    c: Floats  # (p,)
    blocks: list[slice]

    @classmethod
    def of(cls, basis: AdditiveBasis, X: Floats, y: Floats) -> GroupLasso:
        B = basis(X)
        return cls(B.T @ B / len(B), B.T @ y / len(B), [block for block in basis.blocks if block.stop > block.start])

    @property
    def largest_alpha(self) -> float:
        """The smallest alpha at which all curves are zero."""
        return max((float(np.linalg.norm(self.c[block])) for block in self.blocks), default=0.0)

    def solve(self, alpha: float, start: Floats | None = None, *, tol: float, max_iter: int) -> Solved:
        """Repeat rounds over all features, and in between over features with a curve, until no curve changes."""
        b = np.zeros_like(self.c) if start is None else start.copy()
        r = self.c - self.G @ b
        iterations, change, everything = 0, np.inf, True
        while iterations < max_iter:
            iterations += 1
            change = self._round(b, r, alpha, [block for block in self.blocks if everything or b[block].any()])
            if everything and change <= tol:
                break
            everything = change <= tol
        return Solved(b, iterations, change)

    def _round(self, b: Floats, r: Floats, alpha: float, blocks: Iterable[slice]) -> float:
        """Back-fit every curve, keep r = c - G b up to date, and return the largest change of a curve."""
        largest = 0.0
        for block in blocks:
            P = r[block] + b[block]
            size = float(np.linalg.norm(P))
            step = (1.0 - alpha / size) * P - b[block] if size > alpha else -b[block]
            change = float(np.linalg.norm(step))
            if change > 0:
                b[block] += step
                r -= step @ self.G[block]
                largest = max(largest, change)
        return largest
