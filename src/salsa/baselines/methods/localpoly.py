"""Local polynomial regression of any degree in any number of features."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa.baselines.methods.estimator import Seed, WeightedMethod, is_folds, weighted_errors
from salsa.baselines.methods.localfits import LocalFits
from salsa.data.rows import Observations
from salsa.data.splits import Fold, Given, folds_of, parse_cv
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.options import is_text, per_feature

MULTIPLES = [2.0**k for k in range(-5, 6)]  # candidates for c; then the best times 2^(+-1/2)
ROUNDING = 1e-12  # errors that differ by less, as a share of the variance of y, count as equal
MOST_SCORED = 300  # rows scored in cross-validation if every prediction costs n^3 / 3 flops
SMALLEST_RIDGE = 1e-14  # a smaller ridge is lost in rounding
MANY_TIMES, MANY_ROWS = 5, 5000  # whole weights become repeated rows up to 5 times the rows and 5000 rows
LARGEST_RANGE = 1e7  # range of a feature in bandwidths, beyond which rounding decides which row is the nearest
FARTHEST = 8  # queries are moved to within 10^8 bandwidths of the centre; slopes have vanished at this distance


@dataclass(eq=False, repr=False)
class LocalPolynomialRegressor(WeightedMethod):
    """Local polynomial regression: the prediction at x is the value of a polynomial fitted to the rows near x.

    The polynomial has all terms up to a total degree in x_i - x. It is fitted by least squares; row i has the weight
    exp(-sum_j ((x_ij - x_j) / h_j)^2 / 2). Degree 0 is the Nadaraya-Watson estimator, degree 1 is locally linear
    regression, and degree 2 is locally quadratic regression.

    Parameters
    ----------
    degree : int, default=1
        Total degree of the polynomials, which have C(n_features + degree, degree) terms.
    bandwidth : "auto", float or array of shape (n_features,), default="auto"
        A number is the c of h_j = c sd_j n^(-1/(4+D)) for D features; "auto" chooses c from about 1/32 to 32 by
        cross-validation. An array gives the h_j; an infinite h_j leaves feature j out. Constant features are left out.
    ridge : float, default=1e-10
        Penalty on all terms but the constant, relative to the trace of the local normal equations; see Notes.
    cv : int, splitter or iterable, default=5
        Folds for bandwidth="auto"; a number means shuffled folds.
    n_jobs : int, default=None
        Threads that share the queries; None means 1, -1 all. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds where cv is a number.

    Attributes
    ----------
    bandwidth_ : array of shape (n_features,).
    multiple_ : float, the c that was given or found; 1 if bandwidth is an array.
    cv_errors_ : dict, c -> cross-validated squared error over the variance of y; empty if nothing was chosen.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    *Few rows.* If the rows near x are too few or degenerate to determine all terms, the ridge chooses the smallest
    polynomial that fits. Its norm is the norm of the kernel (1 + u'v)^degree, with u in units of the bandwidths, or of
    sqrt(D) standard deviations if these are smaller, so that u has a norm of about 1 for all data. The constant term is
    not penalised: if only one row is near, the prediction is its target. The ridge is iterated four times: for terms
    that the rows determine, only the fourth power of its bias is left, and polynomials of this degree are reproduced to
    about 1e-8. With a larger ridge, the estimate tends to the estimate of degree 0.

    *Far away.* Weights are relative to the weight of the nearest row and computed from logarithms, hence never all
    zero. The trace grows with the distance, so that slopes fade and predictions tend to the values of the nearest rows.

    *Cost.* With up to 16384 monomials of twice the degree (22 features for degree 2), all normal equations come from
    one product of the weights with these monomials. Otherwise, and for bandwidths so narrow that moments about a common
    centre would lose digits, every query is solved separately over rows of relevant weight, in terms or in rows,
    whichever are fewer: with 50 features and degree 2, n^3 / 3 flops per query. The bandwidth is then chosen by the
    predictions for 300 rows only.

    Examples
    --------
    >>> import numpy as np
    >>> from salsa.baselines.methods.localpoly import LocalPolynomialRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> model = LocalPolynomialRegressor(degree=2, bandwidth=1.0).fit(X, X[:, 0] * X[:, 1])
    >>> float(model.predict([[0.5, 0.5]])[0].round(6))
    0.25
    """

    degree: int = 1
    bandwidth: Any = "auto"
    _: KW_ONLY
    ridge: float = 1e-10
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Seed = None

    def _learn(self, rows: Observations) -> None:
        """Keep the rows, in units of their bandwidths, and choose the bandwidths."""
        _check_choices(self.degree, self.ridge, self.cv)
        if is_folds(self.cv):
            rows = written_out(rows.some(rows.weight > 0))
        used, c, self.cv_errors_ = rows.weight > 0, _multiple(self.bandwidth), dict[float, float]()
        kept = rows.some(used)
        unit = self._bandwidth_unit(kept.X, kept.weight)
        fits = self._local_fits(kept, c * unit)
        if is_text(self.bandwidth, "auto") and used.sum() > 1:
            random_state = check_random_state(self.random_state)
            folds = folds_of(parse_cv(self.cv), Given(used, rows.X, rows.Y), random_state)
            c = self._choose_multiple(fits, folds, random_state)
            fits = replace(fits, Z=fits.Z / c, spread=fits.spread / c)
        self.multiple_, self.bandwidth_, self._fits = c, c * unit, fits

    def _predict(self, X: Floats) -> Any:
        with np.errstate(over="ignore"):
            x = (X - self._centre) / self.bandwidth_
        limit = 10.0 ** min(FARTHEST, 100 / max(1, self._fits.degree))  # its powers stay far within float64
        limits = limit * np.minimum(1.0, self._fits.spread)
        return self._offset + self._answers(self._fits, np.clip(x, -limits, limits))[0]

    def _bandwidth_unit(self, X: Floats, weight: Floats) -> Floats:
        """Return the bandwidths (D,) at c = 1: sd_j n^(-1/(4+D)), or the given array."""
        if is_text(self.bandwidth, "auto") or isinstance(self.bandwidth, numbers.Real):
            rate = 1 / 5 - 1 / (4 + X.shape[1])
            return rule_of_thumb_bandwidth(X, float(weight.sum() ** rate), sample_weight=weight)
        given = per_feature("bandwidth", self.bandwidth, '"auto", a positive number c', X.shape[1])
        if not (given > 0).all():
            raise ValueError(f"bandwidth={self.bandwidth!r}: bandwidths must be positive")
        return given

    def _local_fits(self, rows: Observations, bandwidth: Floats) -> LocalFits:
        """Centre the rows at their mean, divide them by the bandwidths, and return their local fits."""
        X, Y, weight, _ = rows
        share = weight / weight.sum()
        self._centre, self._offset = share @ X, share @ Y
        Z = (X - self._centre) / bandwidth
        if (widest := np.ptp(Z, axis=0).max()) > LARGEST_RANGE:
            limit = f"the limit is {LARGEST_RANGE:.0e}: give larger bandwidths, or leave out distant rows"
            raise ValueError(f"bandwidth={self.bandwidth!r}: a feature ranges over {widest:.1e} bandwidths, {limit}")
        spread = np.sqrt(X.shape[1] * (share @ Z**2))
        spread[spread == 0] = np.inf
        log_weight = np.log(weight) if np.ptp(weight) else None
        return LocalFits(Z, Y - self._offset, log_weight, spread, int(self.degree), float(self.ridge))

    def _choose_multiple(self, fits: LocalFits, folds: list[Fold], random_state: RandomState) -> float:
        if len(fits.Z) * (1 - 1 / len(folds)) < fits.n_terms:
            most = -(-MOST_SCORED // len(folds))
            folds = [Fold(held_out, random_state.permutation(test)[:most]) for held_out, test in folds]
        errors = self._held_out_errors(fits, folds, MULTIPLES)
        c = _best(errors)
        errors |= self._held_out_errors(fits, folds, [c * 2**-0.5, c * 2**0.5])
        self.cv_errors_ = dict(sorted(errors.items()))
        return _best(errors)

    def _held_out_errors(self, fits: LocalFits, folds: list[Fold], multiples: Sequence[float]) -> dict[float, float]:
        weight = np.ones(len(fits.Z)) if fits.log_weight is None else np.exp(fits.log_weight)
        rows = Observations(fits.Z, fits.Y, weight)
        return weighted_errors(rows, folds, multiples, lambda train, x: self._answers(fits.of(train), x, multiples))

    def _answers(self, fits: LocalFits, x: Floats, multiples: Sequence[float] = (1.0,)) -> Floats:
        """Return predictions (multiples, m, q) at the queries x (m, D)."""
        shares = np.array_split(x, min(effective_n_jobs(self.n_jobs), len(x)))
        with one_blas_thread():  # queries are independent: our own threads share them
            parts = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(fits)(share, multiples) for share in shares)
        return np.concatenate(parts, axis=1)


def written_out(rows: Observations) -> Observations:
    """Return the rows in ascending order, with whole weights as repeated rows unless there would be too many."""
    if (rows.weight % 1 == 0).all() and rows.weight.sum() <= min(MANY_TIMES * len(rows.X), MANY_ROWS):
        rows = rows.some(np.repeat(np.arange(len(rows.X)), rows.weight.astype(np.intp)))
        rows = rows._replace(weight=np.ones(len(rows.X)))
    return rows.some(rows.ascending())


def _check_choices(degree: Any, ridge: Any, cv: Any) -> None:
    if isinstance(degree, bool) or not isinstance(degree, numbers.Integral) or degree < 0:
        raise ValueError(f"degree={degree!r} must be an integer, 0 or more")
    if not isinstance(ridge, (int, float, np.number)) or not SMALLEST_RIDGE <= ridge < np.inf:
        raise ValueError(f"ridge={ridge!r} must be a finite number of at least {SMALLEST_RIDGE:.0e}")
    parse_cv(cv)


def _multiple(bandwidth: Any) -> float:
    """Return c if `bandwidth` is a number, otherwise 1."""
    if not isinstance(bandwidth, numbers.Real):
        return 1.0
    if not 0 < float(bandwidth) < np.inf:
        raise ValueError(f"bandwidth={bandwidth!r}: c must be positive and finite")
    return float(bandwidth)


def _best(errors: dict[float, float]) -> float:
    """Return the largest c whose error is the smallest up to rounding."""
    return max(c for c, error in errors.items() if error <= min(errors.values()) + ROUNDING)
