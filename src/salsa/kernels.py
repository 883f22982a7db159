"""Additive kernels of interaction order d: k(x, x') = sum_m w_m e_m(a_1 k_1, ..., a_D k_D) / C(D, m)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from salsa import _core
from salsa.base_kernels import BASE_KERNELS

Floats = NDArray[np.float64]
Places = NDArray[np.intp]  # numbers of rows or features

_CODES = {name: code for code, name in enumerate(_core.base_kernels())}


class Distribution(NamedTuple):
    """Of a feature's values: weighted points, the weights summing to one."""

    points: Floats
    weights: Floats


class KernelGradient(NamedTuple):
    """Sums over pairs of dL/dK times the derivative of K with respect to each parameter."""

    relevance: Floats  # (D,)
    bandwidth: Floats  # (D,)
    order_weights: Floats  # (d+1,)


@dataclass(frozen=True, eq=False)
class AdditiveKernel:
    """The kernel sum_{m=0..d} w_m e_m(a_1 k_1, ..., a_D k_D) / C(D, m); e_m sums all products of m distinct factors.

    Parameters
    ----------
    bandwidth : array of D, the h_j > 0; infinity makes k_j constant.
    relevance : array of D, the a_j >= 0; 0 removes a feature from every interaction.
    order_weights : array of d+1, the w_m >= 0 of the orders 0..d, with d <= D.
    base : name of a base kernel (see ``BASE_KERNELS``), or one name per feature.
    distributions : one ``Distribution`` per feature, which stands for a missing value (NaN): k_j is then its mean over
        the distribution, and 1 where both are missing. None: missing values are refused.

    Notes
    -----
    e_m is computed by e_m <- e_m + s_j e_{m-1} over features: O(D d) per pair, no subtraction, all orders in one sweep.

    A missing value is represented by its feature's distribution (a kernel mean embedding) and by being missing, as a
    category of its own: k_j is the mean over the distribution, plus 1 minus the mean over pairs where both are missing.
    Without the second part a missing value could not stand for what the other features make of it.
    """

    bandwidth: Floats
    relevance: Floats
    order_weights: Floats
    base: str | tuple[str, ...] = "gaussian"
    distributions: tuple[Distribution, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("bandwidth", "relevance", "order_weights"):
            object.__setattr__(self, name, _frozen_vector(getattr(self, name), name))
        if not isinstance(self.base, str):
            object.__setattr__(self, "base", tuple(self.base))
        D, d = len(self.bandwidth), len(self.order_weights) - 1
        if D == 0 or len(self.relevance) != D:
            raise ValueError(f"bandwidth has {D} values, relevance {len(self.relevance)}: give one of each per feature")
        if not 1 <= d <= D:
            raise ValueError(
                f"order_weights has {d + 1} values: give those of orders 0..d, 1 <= d <= {D}, the number of features"
            )
        h = self.bandwidth
        if not ((h >= 1e-150) & ((h <= 1e150) | np.isinf(h))).all():  # also catches NaN
            limits = "between 1e-150 and 1e150, or infinite for a base kernel that is constant"
            raise ValueError(f"bandwidth must be positive, {limits}; rescale a feature whose values are beyond that")
        for name in ("relevance", "order_weights"):
            if not ((values := getattr(self, name)) >= 0).all() or not np.isfinite(values).all():
                raise ValueError(f"{name} must be finite and not negative")
        _base_codes(self.base, D)
        if self.distributions is not None and len(self.distributions) != D:
            raise ValueError(f"{len(self.distributions)} distributions for {D} features")
        if not (np.isfinite(self._diagonal_value) and self.normaliser.all()):
            raise ValueError(
                f"the kernel overflows float64 at order {d} of {D} features: lower the order or the relevances"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are built anew, so that they are checked and immutable too."""
        return AdditiveKernel, (self.bandwidth, self.relevance, self.order_weights, self.base, self.distributions)

    @property
    def n_features(self) -> int:
        return len(self.bandwidth)

    @property
    def bases(self) -> tuple[str, ...]:
        """The base kernel of every feature (D,)."""
        return (self.base,) * self.n_features if isinstance(self.base, str) else self.base

    @property
    def numeric_base(self) -> str:
        """That of the first feature that is no category; "equality" where all are."""
        return next((base for base in self.bases if not BASE_KERNELS[base].for_categories), "equality")

    @property
    def order(self) -> int:
        """The largest order d."""
        return len(self.order_weights) - 1

    def __call__(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Floats:
        """K (n, m) of the rows of X (n, D) with the rows of Z (m, D); Z=None: with X itself, at half the work."""
        X, Z = self._check(X), None if Z is None else self._check(Z)
        if (active := self._active) is None:
            return np.full((len(X), len(X if Z is None else Z)), self.order_weights[0])
        threads = thread_count(n_threads, len(X), len(X if Z is None else Z), self.n_features)
        X, Z, missing = self._columns(active.features, X, Z)
        return _core.block(X, Z, *active.arguments, threads, missing=missing)

    def orders(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Floats:
        """(d+1, n, m): e_m / C(D, m) of every order m = 0..d, unweighted, in one sweep."""
        X, Z = self._check(X), self._check(X if Z is None else Z)
        threads = thread_count(n_threads, len(X), len(Z), self.n_features)
        X, Z, missing = self._columns(np.arange(self.n_features), X, Z)
        return _core.orders(X, Z, *self._arguments(self.normaliser), threads, missing=missing)

    def product(self, X: Any, Z: Any, V: Any, *, n_threads: int | None = None) -> Floats:
        """K(X, Z) V, of the shape of V (m,) or (m, q), without forming K."""
        X, Z = self._check(X), self._check(Z)
        V = _for_the_core(V)
        columns = V[:, None] if V.ndim == 1 else V
        if len(columns) != len(Z):
            raise ValueError(f"V has {len(columns)} rows, Z has {len(Z)}: give one row of V per row of Z")
        if (active := self._active) is None:
            out = np.broadcast_to(self.order_weights[0] * columns.sum(axis=0), (len(X), columns.shape[1])).copy()
        else:
            threads = thread_count(n_threads, len(X), len(Z), self.n_features)
            X, Z, missing = self._columns(active.features, X, Z)
            out = _core.product(X, Z, columns, *active.arguments, threads, missing=missing)
        return out[:, 0] if V.ndim == 1 else out

    def diagonal(self, X: Any) -> Floats:
        """k(x_i, x_i) (n,): sum_m w_m e_m(a) / C(D, m), as every base kernel is 1 at distance zero."""
        return np.full(len(self._check(X)), self._diagonal_value)

    def gradient(
        self, X: Any, G: Any, Z: Any = None, *, of_zeros: bool = True, n_threads: int | None = None
    ) -> KernelGradient:
        """G = dL/dK (n, m) -> derivatives of L, by the adjoint of the recursion: O(D d) per pair for all of them.

        Only G + G' matters where Z is None. Without of_zeros the derivatives of what is zero are left at 0 where that
        saves work, as on the logarithmic scale, where zeros stay: of features of relevance 0, and of order weights
        below the smallest positive one. A kernel of order D alone then costs O(D) per pair.
        """
        X, Z = self._check(X), None if Z is None else self._check(Z)
        G = _for_the_core(G)
        threads = thread_count(n_threads, len(X), len(X if Z is None else Z), self.n_features)
        active = None if of_zeros else self._active
        features = np.arange(self.n_features) if active is None else active.features
        arguments = self._arguments(self.order_weights * self.normaliser) if active is None else active.arguments
        X, Z, missing = self._columns(features, X, Z)
        *found, e = _core.gradient(X, Z, G, *arguments, threads, None, of_zeros, missing)
        relevance, log_bandwidth = (_scattered(part, features, self.n_features) for part in found)
        e = _scattered(e, np.arange(len(e)), self.order + 1)
        return KernelGradient(relevance, log_bandwidth / self.bandwidth, e * self.normaliser)

    def means(self, Z: Any, background: Sequence[Distribution], *, n_threads: int | None = None) -> Floats:
        """(m, D): a_j times the mean of k_j(X, z_j) over the background of feature j, whose points may be missing."""
        Z, means = self._check(Z), np.zeros((len(Z), self.n_features))
        for j in np.flatnonzero(self.relevance).tolist():
            points, weights = background[j]
            product = self.of_feature(j).product(Z[:, [j]], points[:, None], weights, n_threads=n_threads)
            means[:, j] = self.relevance[j] * product
        return means

    def shapley(self, X: Any, Z: Any, V: Any, means: Floats, *, n_threads: int | None = None) -> Floats:
        """(n, D, q): Shapley values of the rows of K(X, Z) V, V (m, q); features left out stand at ``means`` (m, D).

        Exact: e_m is linear in every feature, which makes them integrals of polynomials of degree d - 1.
        """
        X, Z = self._check(X), self._check(Z)
        values = np.zeros((len(X), self.n_features, V.shape[1]))
        if (active := self._active) is not None:
            threads = thread_count(n_threads, len(X), len(Z), self.n_features * self.order)
            keep, (*_, weights) = active
            X, Z, missing = self._columns(keep, X, Z)
            nodes, node_weights = unit_rule(len(weights) - 2)
            left, V = np.ascontiguousarray(means[:, keep]), _for_the_core(V)
            values[:, keep] = _core.shapley(
                X, Z, left, V, nodes, node_weights, *active.arguments, threads, missing=missing
            )
        return values

    def of_feature(self, j: int) -> AdditiveKernel:
        """The base kernel k_j, as a kernel of one feature."""
        distributions = None if self.distributions is None else (self.distributions[j],)
        return AdditiveKernel(self.bandwidth[[j]], np.ones(1), np.array([0.0, 1.0]), self.bases[j], distributions)

    @property
    def normaliser(self) -> Floats:
        """1 / C(D, m) for m = 0..d."""
        return 1.0 / _binomials(self.n_features, self.order)

    @property
    def _diagonal_value(self) -> float:
        e = elementary_symmetric(self.relevance, self.order)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.order_weights @ (e * self.normaliser)) if np.isfinite(e).all() else np.inf

    def _check(self, X: Any) -> Floats:
        finite = True if self.distributions is None else "allow-nan"
        with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
            rows: Floats = check_array(
                X, dtype=np.float64, order="C", ensure_all_finite=finite, ensure_min_samples=0, input_name="X"
            )
        if rows.shape[1] != self.n_features:
            raise ValueError(f"X has {rows.shape[1]} features, this kernel has {self.n_features}")
        return _for_the_core(rows)

    def _arguments(self, weights: Floats) -> tuple[NDArray[np.int8], Floats, Floats, Floats]:
        return _base_codes(self.base, self.n_features), self.bandwidth, self.relevance, weights

    @property
    def _active(self) -> _ActiveFeatures | None:
        """What is left for the compiled loops without features of relevance zero; None where that is nothing."""
        keep = np.flatnonzero(self.relevance > 0)
        weights = (self.order_weights * self.normaliser)[: len(keep) + 1]
        if len(keep) == 0:
            return None
        codes = _base_codes(self.base, self.n_features)
        return _ActiveFeatures(keep, (codes[keep], self.bandwidth[keep], self.relevance[keep], weights))

    def _columns(
        self, features: NDArray[np.intp], X: Floats, Z: Floats | None
    ) -> tuple[Floats, Floats | None, NDArray[np.int8] | None]:
        """These features as the compiled loops want them, and which have missing values (None: none has)."""
        tables = [X] if Z is None else [X, Z]
        has_missing = np.any([np.isnan(table).any(axis=0) for table in tables], axis=0)
        missing = has_missing[features]
        if missing.any():
            parts = [
                np.column_stack([self._with_means(j, T[:, j]) if has_missing[j] else T[:, j] for j in features])
                for T in tables
            ]
        elif len(features) < self.n_features:
            parts = [np.ascontiguousarray(table[:, features]) for table in tables]
        else:
            parts = tables
        return parts[0], None if Z is None else parts[1], missing.astype(np.int8) if missing.any() else None

    def _with_means(self, j: int, x: Floats) -> Floats:
        """(n, 3): values of feature j, k_j with a missing value there, and its derivative by log h_j."""
        assert self.distributions is not None  # no missing value has passed the check without
        missing, code = np.isnan(x), _CODES[self.bases[j]]
        means = _core.embed(np.where(missing, 0.0, x), *self.distributions[j], code, float(self.bandwidth[j]))
        return np.column_stack([x, np.where(missing[:, None], (1.0, 0.0), means)])


class _ActiveFeatures(NamedTuple):
    features: Places
    arguments: tuple[NDArray[np.int8], Floats, Floats, Floats]


def unit_rule(degree: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 1], exact for polynomials up to this degree."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, (degree + 2) // 2))
    return (nodes + 1) / 2, weights / 2


def covariances(products: Floats, means: Floats, coef: Floats, weights: Floats) -> Floats:
    """Of the kernel sum_m weights_m e_m with the last r of c anchors and with all of these: (r, d-2 + D).

    products (D, r, c) and means (D, n) are moments of the base kernels over a background, coef (n,) the coefficients.
    The first columns are covariances of the orders 3..d of interaction, summed over the anchors up to each with their
    coefficients, pairs counted twice; the others what of these concerns each feature.
    """
    D, r, c = products.shape
    return _core.covariances(products, means, coef, weights, thread_count(None, r, c, D * len(weights)))


def elementary_symmetric(s: Floats, d: int) -> Floats:
    """e_0..e_d (d+1, ...) of the D numbers or arrays s (D, ...), by e_m <- e_m + s_j e_{m-1}."""
    e = np.zeros((d + 1, *s.shape[1:]))
    e[0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for value in s:
            e[1:] += value * e[:-1]
    return e


def rule_of_thumb_bandwidth(
    X: Any, c: float = 20.0, *, sample_weight: Any = None, total: float | None = None
) -> Floats:
    """h_j = c sd_j n^(-1/5), the paper's bandwidth; infinity (a constant base kernel) for a constant column.

    With weights, n is their sum and sd_j the weighted standard deviation, so that integer weights mean repeated rows.
    Where X is a sample, total is the n of the whole table.
    """
    with np.errstate(invalid="ignore"):  # as above
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    X, w = X[w > 0], w[w > 0]
    if len(X) == 0:
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    n, norm, constant = observed_spread(X, w)
    # n - 1 as for repeated rows; continued below n = 2 so that small fractional weights stay positive
    sd = norm / np.sqrt(np.maximum(n - 1, n / 2))
    return np.where(constant, np.inf, c * sd * (w.sum() if total is None else total) ** -0.2)


def observed_spread(X: Floats, w: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Of every column of X (n, D), missing values apart: its weight, the norm of what deviates from its mean, and
    whether it is constant. A column without values counts as constant, of weight 1; one with a single value, or none at
    all, as in "yes" or nothing, does not: it deviates by 1.
    """
    observed = ~np.isnan(X)
    single = ~(np.where(observed, X, -np.inf).max(axis=0) > np.where(observed, X, np.inf).min(axis=0))
    constant = single & (observed.all(axis=0) | ~observed.any(axis=0))
    X = np.where(observed, X, 0.0)
    unit = np.where(X.any(axis=0), np.abs(X).max(axis=0), 1.0)  # squares of very large or small numbers have no float64
    X = X / unit
    n = np.where(observed.any(axis=0), w @ observed, 1.0)
    squares: Floats = w @ np.where(observed, X - w @ X / n, 0.0) ** 2
    return n, np.where(single & ~constant, 1.0, unit * np.sqrt(squares)), constant


def distribution_of(x: Floats, w: Floats, limit: int | None = 128) -> Distribution:
    """Of the observed values of x (n,) with weights w: its distinct values or, if more, the means of `limit` parts.

    Where there is one value, or none at all, a missing value is nothing like it: the weight is 0.
    """
    observed = ~np.isnan(x)
    if not observed.any():
        return Distribution(np.zeros(1), np.ones(1))
    points, inverse = np.unique(x[observed], return_inverse=True)
    if len(points) == 1 and not observed.all():
        return Distribution(points, np.zeros(1))
    weights = np.bincount(inverse, weights=w[observed])
    if limit is not None and len(points) > limit:
        middle = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
        part = np.minimum((limit * middle).astype(np.intp), limit - 1)
        mass = np.bincount(part, weights=weights, minlength=limit)
        scale = np.abs(points).max()
        sums = np.bincount(part, weights=weights * (points / scale), minlength=limit)
        points, weights = scale * (sums[mass > 0] / mass[mass > 0]), mass[mass > 0]
    return Distribution(points, weights / weights.sum())


def marginal_of(x: Floats, w: Floats) -> Distribution:
    """The distinct values of x (n,) and their share of the weight; a missing value is the last of them."""
    points, inverse = np.unique(x, return_inverse=True)
    weights = np.bincount(inverse, weights=w)
    return Distribution(points, weights / weights.sum())


def thinned(marginal: Distribution, limit: int | None) -> Distribution:
    """The same distribution by at most `limit` points besides the missing value; None: as it is."""
    points, weights = marginal
    observed = ~np.isnan(points)
    if limit is None or observed.sum() <= limit:
        return marginal
    fewer = distribution_of(points[observed], weights[observed], limit)
    shares = np.append(weights[observed].sum() * fewer.weights, weights[~observed])
    return Distribution(np.append(fewer.points, points[~observed]), shares)


def largest_order(D: int) -> int:
    """The largest order whose number of terms, C(D, d), is a float64: D itself up to D = 1029."""
    return int(np.argmin(np.isfinite(_binomials(D, D)))) - 1 if D > 1029 else D


def _binomials(D: int, d: int) -> Floats:
    """C(D, m) for m = 0..d; infinity beyond the range of float64."""
    limit = int(np.finfo(np.float64).max)
    return np.array([float(c) if (c := comb(D, m)) <= limit else np.inf for m in range(d + 1)])


def _base_codes(base: str | Sequence[str], D: int) -> NDArray[np.int8]:
    names = [base] * D if isinstance(base, str) else list(base)
    if len(names) != D:
        raise ValueError(f"base has {len(names)} names for {D} features")
    if unknown := sorted(set(names) - set(_CODES)):
        raise ValueError(f"unknown base kernel {unknown[0]!r}; choose from {', '.join(_CODES)}")
    return np.array([_CODES[name] for name in names], dtype=np.int8)


_forked = (
    False  # whether this is a child of fork: it would wait for the parent's OpenMP threads, which it does not have
)


def _remember_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember_fork)


def thread_count(requested: int | None, n: int, m: int, D: int) -> int:
    """As many threads as asked for (default: all), but none for less than about a millisecond of work."""
    available = 1 if _forked else _core.max_threads() if requested is None else requested
    return max(1, min(available, n * m * D // 1_000_000))


def _for_the_core(values: ArrayLike) -> Floats:
    """Contiguous and aligned, which a view of someone's bytes need not be; a copy only where needed."""
    return np.require(values, np.float64, ["C", "A"])


def _scattered(values: Floats, index: NDArray[np.intp], length: int) -> Floats:
    """Zeros, but for these values."""
    full = np.zeros(length)
    full[index] = values
    return full


def _frozen_vector(values: ArrayLike, name: str) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {vector.shape}")
    vector.flags.writeable = False
    return vector
