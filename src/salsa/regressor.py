"""SalsaRegressor: validate, choose, solve, store."""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from salsa import _core
from salsa.archive import read_archive, write_archive
from salsa.expansion import KernelExpansion
from salsa.folds import make_folds
from salsa.kernels import BASE_KERNELS, AdditiveKernel, Floats, rule_of_thumb_bandwidth
from salsa.memory import memory_limit_bytes, require_memory
from salsa.selection import AlphaPath, OrderResult, OrderRule, OrderSearch, bisecting, given, increasing, search_order
from salsa.solvers import exact_bytes, exact_factor, expansion, solve_once

PATIENCE = 3  # orders without improvement before the search stops, as the authors' program


class SalsaRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression with an additive kernel whose interaction order is chosen by cross-validation.

    The model is f(x) = offset + sum_i coef_i k(x, x_i) with k the sum over all interactions of the orders 1..d (or of
    order d alone) of products of one-dimensional kernels; see ``AdditiveKernel``.

    Parameters
    ----------
    order : "auto", "bisect", int or sequence of int, default="auto"
        Interaction order d. "auto" tries 1, 2, ... until three in a row do not improve; "bisect" searches 1..D by halving
        (for many features and a large best order); a sequence tries exactly those.
    alpha : "auto", float or sequence of float, default="auto"
        Ridge penalty, added to the diagonal of the kernel matrix: alpha = n lambda of the paper.
    relevance : "equal" or array of shape (n_features,), default="equal"
        Relevance a_j >= 0 of every feature; 0 removes it.
    interactions : "up_to" or "exact", default="up_to"
        All orders 1..d with equal weight, or only d (the paper).
    kernel : {"gaussian", "laplace", "matern32", "matern52"}, default="gaussian"
        Base kernel of single features.
    bandwidth : "auto", "rule_of_thumb", float or array of shape (n_features,), default="auto"
        h_j = c sd_j n^(-1/5), with c = 20 for "auto" and "rule_of_thumb" (the paper), or a given c; an array gives the h_j.
    solver : "auto" or "exact", default="auto"
    rank : None
        Reserved for low-rank solvers.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds. Exact, without refits, for any splits.
    categorical_features : "from_dtype", None, or array of indices or a mask, default="from_dtype"
        Numeric columns that hold category codes: compared for equality only. "from_dtype" finds none in a numeric array.
    memory_limit : None, int or str, default=None
        Bytes, or a text such as "4GB", that fit may take; None: 80 % of what is available.
    n_jobs : int, default=None
        Threads for kernel matrices; None or -1 means all. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds where cv is a number.
    verbose : int, default=0
        1 prints a line per order to standard error.

    Attributes
    ----------
    order_, alpha_ : the chosen order and penalty.
    relevance_, bandwidth_ : arrays of shape (n_features,).
    search_ : ``OrderSearch``, with a table and a plot of what was tried.
    expansion_ : ``KernelExpansion``, the fitted function.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from salsa import SalsaRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 6))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    >>> model = SalsaRegressor(random_state=0).fit(X, y)
    >>> model.order_
    2
    """

    def __init__(
        self,
        order: Any = "auto",
        alpha: Any = "auto",
        *,
        relevance: Any = "equal",
        interactions: str = "up_to",
        kernel: str = "gaussian",
        bandwidth: Any = "auto",
        solver: str = "auto",
        rank: int | None = None,
        cv: Any = 5,
        categorical_features: Any = "from_dtype",
        memory_limit: float | str | None = None,
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.order = order
        self.alpha = alpha
        self.relevance = relevance
        self.interactions = interactions
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.solver = solver
        self.rank = rank
        self.cv = cv
        self.categorical_features = categorical_features
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose order and alpha by cross-validation and fit on all rows of X (n, D) and y (n,) or (n, q)."""
        X, Y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        self._check_choices()
        weight, used = _weights(sample_weight, X)
        flat, Y = Y.ndim == 1, np.asarray(Y, dtype=np.float64).reshape(len(X), -1)
        rule, order = _order_rule(self.order, X.shape[1])
        alphas = _alphas(self.alpha)
        limit = memory_limit_bytes(self.memory_limit)
        require_memory(exact_bytes(int(used.sum())), limit, f"an exact fit of {used.sum()} rows", _MEMORY_ADVICE)
        kernel_of = self._kernel_family(X[used], weight)
        threads = _threads(self.n_jobs)

        with threadpool_limits(1, user_api="blas"):  # LAPACK's last bits depend on its threads; ours do not
            if used.sum() > 1 and not (order and alphas and len(alphas) == 1):
                folds = make_folds(self.cv, X, Y, used, check_random_state(self.random_state))
                problem = X[used], Y[used], weight
                self.search_, self.expansion_ = _search(problem, kernel_of, rule, alphas, folds, threads, _reporter(self.verbose))
            else:
                self.search_, self.expansion_ = _solve(X[used], Y[used], weight, kernel_of(order or 1), alphas, threads)
        self._store(flat)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """f(X), of shape (n,) or (n, q) as y was."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        values = self.expansion_.predict(X, n_threads=_threads(self.n_jobs))
        return values[:, 0] if self._flat else values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .salsa file (zip of JSON and arrays, no pickle); ``salsa.load`` reads it."""
        check_is_fitted(self)
        write_archive(path, *_to_archive(self))

    def _check_choices(self) -> None:
        _one_of("interactions", self.interactions, ("up_to", "exact"))
        _one_of("kernel", self.kernel, tuple(name for name in BASE_KERNELS if name != "equality"))
        _one_of("solver", self.solver, ("auto", "exact"))
        if self.rank is not None:
            raise ValueError(f"rank={self.rank!r}: the exact solver has no rank to choose; leave it at None")

    def _kernel_family(self, X: Floats, weight: Floats | None) -> Callable[[int], AdditiveKernel]:
        """order -> kernel, with bandwidths and relevances set."""
        D = X.shape[1]
        bandwidth = _bandwidth(self.bandwidth, X, weight)
        relevance = np.ones(D) if _is_text(self.relevance, "equal") else _per_feature("relevance", self.relevance, D, '"equal"')
        categorical = _categorical(self.categorical_features, D)
        base = tuple("equality" if is_category else self.kernel for is_category in categorical)

        def kernel_of(order: int) -> AdditiveKernel:
            weights = np.zeros(order + 1)
            weights[1 if self.interactions == "up_to" else order :] = 1.0
            return AdditiveKernel(bandwidth, relevance, weights, base)

        return kernel_of

    def _store(self, flat: bool) -> None:
        self.order_ = self.search_.order
        self.alpha_ = self.search_.alpha
        self.relevance_ = self.expansion_.kernel.relevance
        self.bandwidth_ = self.expansion_.kernel.bandwidth
        self._flat = flat


def load(path: str | os.PathLike[str]) -> SalsaRegressor:
    """Read a model that ``SalsaRegressor.save`` wrote. Nothing in the file is executed."""
    return _from_archive(*read_archive(path))


_MEMORY_ADVICE = "Fit on a random sample of the rows, or raise memory_limit if the machine has more."


def _search(
    problem: tuple[Floats, Floats, Floats | None],
    kernel_of: Callable[[int], AdditiveKernel],
    rule: OrderRule,
    alphas: list[float] | None,
    folds: Sequence[Any],
    threads: int | None,
    report: Callable[[OrderResult], None],
) -> tuple[OrderSearch, KernelExpansion]:
    X, Y, weight = problem
    search, factor = search_order(
        lambda order: exact_factor(kernel_of(order)(X, n_threads=threads), weight),
        Y,
        folds,
        rule,
        scale=lambda order: _scale(kernel_of(order), X),
        alphas=alphas,
        sample_weight=weight,
        report=report,
    )
    return search, expansion(kernel_of(search.order), X, factor, Y, search.alpha)


def _solve(
    X: Floats, Y: Floats, weight: Floats | None, kernel: AdditiveKernel, alphas: list[float] | None, threads: int | None
) -> tuple[OrderSearch, KernelExpansion]:
    """Nothing to choose: order and alpha are given, or there is a single row."""
    alpha = alphas[0] if alphas else _scale(kernel, X)
    coef, offset, note = solve_once(kernel(X, n_threads=threads), Y, max(alpha, 1e-14 * _scale(kernel, X)), weight)
    reason = "a single row: nothing to search" if len(X) == 1 else "order and alpha were given: nothing to search"
    search = OrderSearch((), kernel.order, alpha, (reason, *([note] if note else [])))
    return search, KernelExpansion(kernel, X, coef, offset)


def _scale(kernel: AdditiveKernel, X: Floats) -> float:
    """Mean diagonal of K; 1 for a kernel that vanishes (all relevances zero)."""
    return float(kernel.diagonal(X).mean()) or 1.0


def _weights(sample_weight: ArrayLike | None, X: Floats) -> tuple[Floats | None, NDArray[np.bool_]]:
    """Weights of the rows in use (None: all one), and which rows those are."""
    if sample_weight is None:
        return None, np.ones(len(X), dtype=bool)
    weight = np.asarray(sample_weight)
    if weight.ndim == 1 and len(weight) == len(X) and not np.any(weight):
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    used = weight > 0
    return weight[used], used


def _order_rule(order: Any, D: int) -> tuple[OrderRule, int | None]:
    """How orders are tried, and the order itself where only one was given."""
    if _is_text(order, "auto"):
        return increasing(D, PATIENCE), None
    if _is_text(order, "bisect"):
        return bisecting(D), None
    candidates = _sequence("order", order, '"auto", "bisect", an int or a sequence of ints')
    for d in candidates:
        if isinstance(d, bool) or not isinstance(d, numbers.Integral) or not 1 <= d <= D:
            raise ValueError(f"order={d!r}: an order is an integer from 1 to {D}, the number of features")
    orders = [int(d) for d in candidates]
    return given(orders), orders[0] if len(orders) == 1 else None


def _alphas(alpha: Any) -> list[float] | None:
    if _is_text(alpha, "auto"):
        return None
    candidates = _sequence("alpha", alpha, '"auto", a number or a sequence of numbers')
    for value in candidates:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < np.inf:
            raise ValueError(f"alpha={value!r}: a penalty is a finite number that is not negative")
    return [float(value) for value in candidates]


def _bandwidth(bandwidth: Any, X: Floats, weight: Floats | None) -> Floats:
    if _is_text(bandwidth, "auto") or _is_text(bandwidth, "rule_of_thumb"):
        return rule_of_thumb_bandwidth(X, sample_weight=weight)
    choices = '"auto", "rule_of_thumb", a positive number c'
    if isinstance(bandwidth, numbers.Real) and not isinstance(bandwidth, bool):
        if not 0 < bandwidth < np.inf:
            raise ValueError(f"bandwidth={bandwidth!r}: c must be positive and finite")
        return rule_of_thumb_bandwidth(X, float(bandwidth), sample_weight=weight)
    return _per_feature("bandwidth", bandwidth, X.shape[1], choices)


def _categorical(features: Any, D: int) -> NDArray[np.bool_]:
    mask = np.zeros(D, dtype=bool)
    if features is None or _is_text(features, "from_dtype"):
        return mask
    chosen = np.asarray(features)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "biu") or (chosen.dtype.kind == "b" and len(chosen) != D):
        raise ValueError(f'categorical_features must be "from_dtype", None, a list of column numbers or a mask of {D} booleans')
    if chosen.dtype.kind != "b" and chosen.size and not (-D <= chosen.min() and chosen.max() < D):
        raise ValueError(f"categorical_features names a column outside 0..{D - 1}")
    mask[chosen if chosen.size else []] = True
    return mask


def _per_feature(name: str, values: Any, D: int, choices: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.shape != (D,):
        raise ValueError(f"{name}={values!r} must be {choices} or an array of {D} numbers, one per feature")
    return array


def _sequence(name: str, value: Any, choices: str) -> list[Any]:
    if isinstance(value, numbers.Number):
        return [value]
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray, range)) or len(value) == 0:
        raise ValueError(f"{name}={value!r} must be {choices}")
    return list(value)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def _is_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def _threads(n_jobs: int | None) -> int | None:
    """n_jobs as scikit-learn counts: -1 all, -2 all but one; None leaves it to the size of the problem."""
    if n_jobs is None:
        return None
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use -1 for all threads")
    return n_jobs if n_jobs > 0 else max(1, _core.max_threads() + 1 + n_jobs)


def _reporter(verbose: int) -> Callable[[OrderResult], None]:
    def report(result: OrderResult) -> None:
        error = f"{result.path.error:.4g} +- {result.path.standard_error:.2g}"
        print(f"[salsa] order {result.order}: error {error} of the variance, {result.seconds:.1f} s", file=sys.stderr)

    return report if verbose else lambda result: None


def _to_archive(model: SalsaRegressor) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    kernel, search = model.expansion_.kernel, model.search_
    parameters = {name: value for name, value in model.get_params().items() if _is_plain(value)}
    header = {
        "model": "SalsaRegressor",
        "parameters": parameters,
        "order": search.order,
        "alpha": search.alpha,
        "notes": list(search.notes),
        "base": list(kernel.base),
        "flat": model._flat,
        "feature_names": list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None,
        "results": [[r.order, r.path.alpha, r.path.error, r.path.standard_error, r.degrees_of_freedom, r.seconds] for r in search.results],
    }
    arrays: dict[str, NDArray[Any]] = {
        "bandwidth": kernel.bandwidth,
        "relevance": kernel.relevance,
        "order_weights": kernel.order_weights,
        "anchors": model.expansion_.anchors,
        "coef": model.expansion_.coef,
        "offset": model.expansion_.offset,
    }
    for r in search.results:
        arrays[f"path_{r.order}"] = np.vstack([r.path.alphas, r.path.errors])
    return header, arrays


def _is_plain(value: Any) -> bool:
    """Whether JSON gives it back as it was."""
    return value is None or isinstance(value, (bool, int, float, str))


def _from_archive(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SalsaRegressor:
    try:
        model = SalsaRegressor(**header["parameters"])
        kernel = AdditiveKernel(arrays["bandwidth"], arrays["relevance"], arrays["order_weights"], tuple(header["base"]))
        anchors, coef, offset = arrays["anchors"], arrays["coef"], arrays["offset"]
        if anchors.shape[1:] != (kernel.n_features,) or coef.shape != (len(anchors), len(offset)):
            raise ValueError("its arrays do not fit each other")
        model.expansion_ = KernelExpansion(kernel, anchors, coef, offset)
        results = tuple(_result(arrays[f"path_{row[0]}"], *row) for row in header["results"])
        model.search_ = OrderSearch(results, header["order"], header["alpha"], tuple(header["notes"]))
        model.n_features_in_ = kernel.n_features
        if header["feature_names"] is not None:
            model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        model._store(bool(header["flat"]))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"the model file lacks or misstates {error}") from error
    return model


def _result(path: Floats, order: int, alpha: float, error: float, standard_error: float, dof: float, seconds: float) -> OrderResult:
    return OrderResult(order, AlphaPath(path[0], path[1], alpha, error, standard_error), dof, seconds)
