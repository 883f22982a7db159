"""Additive kernels of interaction order d: k(x, x') = sum_m w_m e_m(a_1 k_1, ..., a_D k_D) / C(D, m)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salsa import _core
from salsa._utils.arrays import Floats, for_the_core
from salsa._utils.cached import cached_property
from salsa.kernels import pair_loops
from salsa.kernels.base import ALL_BASES, NUMERIC_BASES, cyclic, straight
from salsa.kernels.marginals import Distribution
from salsa.kernels.pair_loops import KernelGradient
from salsa.kernels.symmetric import binomials, each_outside, elementary_symmetric

_CYCLIC_CODE = 64  # added to the code of a base kernel on a circle
_CODES = {name: code for code, name in enumerate(_core.base_kernels())}
_CODES |= {cyclic(name): _CYCLIC_CODE + code for name, code in _CODES.items() if cyclic(name) in ALL_BASES}


@dataclass(frozen=True, eq=False)
class AdditiveKernel:
    """The kernel sum_{m=0..d} w_m e_m(a_1 k_1, ..., a_D k_D) / C(D, m); e_m sums all products of m distinct factors.

    Parameters
    ----------
    bandwidth : array of D, the h_j > 0; infinity makes k_j constant.
    relevance : array of D, the a_j >= 0; 0 removes a feature from every interaction.
    order_weights : array of d+1, the w_m >= 0 of the orders 0..d, with d <= D.
    base : name of a base kernel (see ``BASE_KERNELS``), or one name per feature. Names such as
        ``"cyclic_gaussian"`` belong to base kernels on a circle of circumference 1, for features such as the time of
        year.
    distributions : one ``Distribution`` per feature, which stands for a missing value (NaN): k_j is then its mean over
        the distribution, and 1 where both are missing. None: missing values are refused.

    Notes
    -----
    e_m is computed by e_m <- e_m + s_j e_{m-1} over features: O(D d) per pair, no subtraction, all orders in one sweep.

    A missing value is represented by its feature's distribution (a kernel mean embedding) and by being missing, as a
    category of its own: k_j is the mean over the distribution, plus 1 minus the mean over pairs where both are missing.
    The second part lets the prediction for a missing value deviate from the mean over the distribution.
    """

    bandwidth: Floats
    relevance: Floats
    order_weights: Floats
    base: str | tuple[str, ...] = "gaussian"
    distributions: tuple[Distribution, ...] | None = field(default=None, repr=False)
    normaliser: Floats = field(init=False, repr=False)  # 1 / C(D, m) for m = 0..d
    codes: NDArray[np.int8] = field(init=False, repr=False)  # (D,) numbers of the base kernels in the core
    _diagonal_value: float = field(init=False, repr=False)

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
        if self.distributions is not None and len(self.distributions) != D:
            raise ValueError(f"{len(self.distributions)} distributions for {D} features")
        object.__setattr__(self, "normaliser", 1.0 / binomials(D, d))
        object.__setattr__(self, "codes", _base_codes(self.base, D))
        object.__setattr__(self, "_diagonal_value", self._find_diagonal())
        if not (np.isfinite(self._diagonal_value) and self.normaliser.all()):
            raise ValueError(
                f"the kernel overflows float64 at order {d} of {D} features: lower the order or the relevances"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Build copies and pickles anew, so that they are checked and immutable too."""
        return AdditiveKernel, (self.bandwidth, self.relevance, self.order_weights, self.base, self.distributions)

    @property
    def n_features(self) -> int:
        """The number D of features."""
        return len(self.bandwidth)

    @property
    def terms(self) -> tuple[AdditiveKernel, ...]:
        """This kernel alone: the sum has one term."""
        return (self,)

    @property
    def bases(self) -> tuple[str, ...]:
        """The base kernel of every feature (D,)."""
        return (self.base,) * self.n_features if isinstance(self.base, str) else self.base

    @property
    def numeric_base(self) -> str:
        """The base kernel of the first feature that is no category; "equality" if all features are categories."""
        return next((straight(base) for base in self.bases if not ALL_BASES[base].for_categories), "equality")

    @property
    def on_line(self) -> NDArray[np.bool_]:
        """The mask (D,) of features that are numbers: neither categories nor places on a circle."""
        return np.array([base in NUMERIC_BASES for base in self.bases], dtype=bool)

    @property
    def order(self) -> int:
        """The largest order d."""
        return len(self.order_weights) - 1

    def __call__(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Floats:
        """Return K (n, m) between the rows of X (n, D) and Z (m, D); Z=None means X itself, at half the work."""
        return pair_loops.block(self.terms, self.checked(X), None if Z is None else self.checked(Z), n_threads)

    def single(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> NDArray[np.float32]:
        """Return K in float32: errors are below 4e-7 of the diagonal, memory is half and time two thirds of float64."""
        return pair_loops.block32(self.terms, self.checked(X), None if Z is None else self.checked(Z), n_threads)

    def product(self, X: Any, Z: Any, V: Any, *, n_threads: int | None = None) -> Floats:
        """Return K(X, Z) V, of the shape of V (m,) or (m, q), without forming K."""
        return pair_loops.product(self.terms, self.checked(X), self.checked(Z), V, n_threads)

    def diagonal(self, X: Any) -> Floats:
        """Return k(x_i, x_i) (n,): sum_m w_m e_m(a) / C(D, m), as every base kernel is 1 at distance zero."""
        return np.full(len(self.checked(X)), self._diagonal_value)

    def gradient(
        self, X: Any, G: Any, Z: Any = None, *, of_zeros: bool = True, n_threads: int | None = None
    ) -> KernelGradient:
        """Turn G = dL/dK (n, m) into derivatives of L, by the adjoint of the recursion: O(D d) per pair for all.

        Only G + G' matters if Z is None. ``of_zeros=False`` skips derivatives of zero parameters, which stay zero on
        the logarithmic scale: relevances of 0, and order weights below the smallest positive one. A kernel of order D
        alone then costs O(D) per pair.
        """
        X, Z = self.checked(X), None if Z is None else self.checked(Z)
        return pair_loops.gradient(self.terms, X, G, Z, of_zeros, n_threads)[0]

    @cached_property
    def variance_with_each(self) -> Floats:
        """The prior variance (D,) of all effects with each feature: the part of k(x, x) that its relevance adds."""
        used, found = self.relevance > 0, np.zeros(self.n_features)
        relevance = self.relevance[used]
        found[used] = relevance * each_outside(relevance, self.order_weights * self.normaliser)
        return found

    @cached_property
    def variation(self) -> Floats:
        """One minus the mean of k_j over pairs of values of each feature in use (D,).

        It is one for features of relevance zero, and without distributions.
        """
        found = np.ones(self.n_features)
        if self.distributions is None:
            return found
        for j in np.flatnonzero(self.relevance).tolist():
            points, weights = self.distributions[j]
            K = pair_loops.block((self.of_feature(j),), points[:, None], None, 1)
            found[j] = 1 - weights @ K @ weights
        return np.maximum(found, np.finfo(np.float64).eps)

    def of_feature(self, j: int) -> AdditiveKernel:
        """Return the base kernel k_j as a kernel of one feature."""
        distributions = None if self.distributions is None else (self.distributions[j],)
        return AdditiveKernel(self.bandwidth[[j]], np.ones(1), np.array([0.0, 1.0]), self.bases[j], distributions)

    def checked(self, X: Any) -> Floats:
        """Return rows as the compiled core takes them (n, D); ValueError for other shapes and numbers."""
        if self._is_checked(X):
            return X  # type: ignore[no-any-return]
        from sklearn.utils import check_array  # here, because a loaded model predicts without scikit-learn

        finite = True if self.distributions is None else "allow-nan"
        with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
            rows: Floats = check_array(
                X, dtype=np.float64, order="C", ensure_all_finite=finite, ensure_min_samples=0, input_name="X"
            )
        if rows.shape[1] != self.n_features:
            raise ValueError(f"X has {rows.shape[1]} features, this kernel has {self.n_features}")
        return for_the_core(rows)

    def _is_checked(self, X: Any) -> bool:
        """Whether X is an array that ``checked`` would return as it is."""
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or X.shape[1] != self.n_features:
            return False
        fit = X.dtype.isnative and X.flags.c_contiguous and X.flags.aligned
        return fit and not (np.isinf(X) if self.distributions is not None else ~np.isfinite(X)).any()

    def _find_diagonal(self) -> float:
        e = elementary_symmetric(self.relevance[self.relevance > 0], self.order)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.order_weights @ (e * self.normaliser)) if np.isfinite(e).all() else np.inf

    def with_means(self, j: int, x: Floats) -> Floats:
        """Return (n, 3): values of feature j, k_j with a missing value there, and its derivative by log h_j."""
        assert self.distributions is not None  # `checked` refuses missing values without distributions
        missing, code = np.isnan(x), int(self.codes[j])
        means = _core.embed(np.where(missing, 0.0, x), *self.distributions[j], code, float(self.bandwidth[j]))
        return np.column_stack([x, np.where(missing[:, None], (1.0, 0.0), means)])


def _frozen_vector(values: ArrayLike, name: str) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {vector.shape}")
    vector.flags.writeable = False
    return vector


@lru_cache(maxsize=256)
def _base_codes(base: str | tuple[str, ...], D: int) -> NDArray[np.int8]:
    """Return the compiled core's numbers of the base kernels (D,)."""
    names = [base] * D if isinstance(base, str) else list(base)
    if len(names) != D:
        raise ValueError(f"base has {len(names)} names for {D} features")
    if unknown := sorted(set(names) - set(_CODES)):
        raise ValueError(f"unknown base kernel {unknown[0]!r}; choose from {', '.join(_CODES)}")
    codes = np.array([_CODES[name] for name in names], dtype=np.int8)
    codes.flags.writeable = False
    return codes
