"""SalsaRegressor: validate, choose, solve, store."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from salsa import parameters
from salsa.archive import read_archive, write_archive
from salsa.expansion import KernelExpansion
from salsa.folds import make_folds
from salsa.kernels import BASE_KERNELS, AdditiveKernel, Floats
from salsa.memory import memory_limit_bytes, require_memory
from salsa.selection import ALPHA_FLOOR, OrderResult, OrderSearch, search_order
from salsa.solvers import Fold, exact_bytes, exact_factor, solve_once

MEMORY_ADVICE = "Fit on a random sample of the rows, or raise memory_limit if the machine has more."


class SalsaRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression with an additive kernel whose interaction order is chosen by cross-validation.

    The model is f(x) = offset + sum_i coef_i k(x, x_i). The kernel k sums, over all interactions of the orders 1..d
    (or of order d alone), the products of one-dimensional kernels; see ``AdditiveKernel``.

    Parameters
    ----------
    order : "auto", "bisect", int or sequence of int, default="auto"
        Interaction order d. "auto" tries 1, 2, ... until three in a row do not improve; "bisect" searches 1..D by
        halving (for many features and a large best order); a sequence tries exactly those.
    alpha : "auto", float or sequence of float, default="auto"
        Ridge penalty, added to the diagonal of the kernel matrix: alpha = n lambda of the paper.
    relevance : "equal" or array of shape (n_features,), default="equal"
        Relevance a_j >= 0 of every feature; 0 removes it.
    interactions : "up_to" or "exact", default="up_to"
        All orders 1..d with equal weight, or only d (the paper).
    kernel : {"gaussian", "laplace", "matern32", "matern52"}, default="gaussian"
        Base kernel of single features.
    bandwidth : "auto", "rule_of_thumb", float or array of shape (n_features,), default="auto"
        h_j = c sd_j n^(-1/5), with c = 20 for "auto" and "rule_of_thumb" (the paper), or a given c; an array gives
        the h_j themselves.
    solver : "auto" or "exact", default="auto"
        Both are the exact solver: one eigen-decomposition per order, for up to about ten thousand rows.
    rank : None
        The exact solver has no rank to choose; anything but None is refused.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds. Exact, without refits, for any splits. For grouped
        rows give the splits: ``cv=list(GroupKFold().split(X, y, groups))``.
    categorical_features : "from_dtype", None, or array of indices or a mask, default="from_dtype"
        Columns whose numbers are codes of categories, compared for equality only: those of category dtype in a
        pandas data frame, or columns by number, name or mask.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose order and alpha by cross-validation and fit on all rows of X (n, D) and y (n,) or (n, q)."""
        table = X
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        self._check_choices()
        weight, used = _weights(sample_weight, X)
        require_memory(exact_bytes(int(used.sum())), memory_limit_bytes(self.memory_limit), "this fit", MEMORY_ADVICE)
        Y = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        problem = _Problem(X[used], Y[used], weight, parameters.threads(self.n_jobs))
        order, alphas = parameters.single_order(self.order, X.shape[1]), parameters.alpha_candidates(self.alpha)
        nothing_to_choose = order is not None and alphas is not None and len(alphas) == 1

        with threadpool_limits(1, user_api="blas"):  # LAPACK's last bits depend on its threads; ours do not
            kernel_of = self._kernel_family(problem, table)
            if nothing_to_choose or len(problem.X) == 1:
                alpha = alphas[0] if alphas else 1.0
                self.search_ = OrderSearch((), order or 1, alpha, ("order and alpha were given, or there is one row",))
            else:
                folds = make_folds(self.cv, X, Y, used, check_random_state(self.random_state))
                self.search_ = self._search(problem, kernel_of, alphas, folds)
            self.expansion_, note = _solve(problem, kernel_of(self.search_.order), self.search_.alpha)
        self.search_ = self.search_.with_note(note)
        self._store(flat=y.ndim == 1)
        return self

    def predict(self, X: Any) -> Floats:
        """f(X), of shape (n,) or (n, q) as y was."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        values = self.expansion_.predict(X, n_threads=parameters.threads(self.n_jobs))
        return values[:, 0] if self._flat else values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .salsa file (zip of JSON and arrays, no pickle); ``salsa.load`` reads it."""
        check_is_fitted(self)
        kernel, arrays = self.expansion_.state()
        header = {
            "parameters": _stored(self.get_params()),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "flat": self._flat,
            "search": self.search_.state(),
            "kernel": kernel,
        }
        write_archive(path, header, arrays)

    def _check_choices(self) -> None:
        parameters.one_of("interactions", self.interactions, ("up_to", "exact"))
        parameters.one_of("kernel", self.kernel, [name for name in BASE_KERNELS if name != "equality"])
        parameters.one_of("solver", self.solver, ("auto", "exact"))
        if self.rank is not None:
            raise ValueError(f"rank={self.rank!r}: the exact solver has no rank to choose; leave it at None")

    def _kernel_family(self, problem: _Problem, table: Any) -> Callable[[int], AdditiveKernel]:
        """order -> kernel, with bandwidths, relevances and base kernels set."""
        D = problem.X.shape[1]
        bandwidth = parameters.bandwidths(self.bandwidth, problem.X, problem.weight)
        relevance = parameters.relevances(self.relevance, D)
        names = list(getattr(self, "feature_names_in_", []))
        categorical = parameters.categorical_mask(self.categorical_features, table, names, D)
        base = tuple("equality" if is_category else self.kernel for is_category in categorical)

        def kernel_of(order: int) -> AdditiveKernel:
            weights = np.zeros(order + 1)
            weights[1 if self.interactions == "up_to" else order :] = 1.0
            return AdditiveKernel(bandwidth, relevance, weights, base)

        return kernel_of

    def _search(
        self,
        problem: _Problem,
        kernel_of: Callable[[int], AdditiveKernel],
        alphas: list[float] | None,
        folds: list[Fold],
    ) -> OrderSearch:
        X, Y, weight, threads = problem
        return search_order(
            lambda order: exact_factor(kernel_of(order)(X, n_threads=threads), weight),
            Y,
            folds,
            parameters.order_rule(self.order, X.shape[1]),
            scale=lambda order: _scale(kernel_of(order), problem),
            alphas=alphas,
            sample_weight=weight,
            report=_report if self.verbose else None,
        )

    def _store(self, *, flat: bool) -> None:
        self.order_ = self.search_.order
        self.alpha_ = self.search_.alpha
        self.relevance_ = self.expansion_.kernel.relevance
        self.bandwidth_ = self.expansion_.kernel.bandwidth
        self._flat = flat


def load(path: str | os.PathLike[str]) -> SalsaRegressor:
    """Read a model that ``SalsaRegressor.save`` wrote. Nothing in the file is executed."""
    header, arrays = read_archive(path)
    try:
        parameters = header["parameters"]
        model = SalsaRegressor(**parameters)
        model.expansion_ = KernelExpansion.from_state(header["kernel"], arrays)
        model.search_ = OrderSearch.from_state(header["search"])
        model.n_features_in_ = model.expansion_.kernel.n_features
        if names := header["feature_names"]:
            model.feature_names_in_ = np.array(names, dtype=object)
        if lost := sorted(set(model.get_params()) - set(parameters)):
            note = f"parameters a model file cannot hold are at their defaults: {', '.join(lost)}"
            model.search_ = model.search_.with_note(note)
        model._store(flat=bool(header["flat"]))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is not a complete salsa model file: it lacks or misstates {error}") from error
    return model


class _Problem(NamedTuple):
    X: Floats  # (n, D), the rows in use
    Y: Floats  # (n, q)
    weight: Floats | None  # (n,)
    threads: int | None


def _solve(problem: _Problem, kernel: AdditiveKernel, alpha: float) -> tuple[KernelExpansion, str | None]:
    """The fit at a given alpha by one Cholesky factor: cheaper and more accurate than the search's eigenvalues."""
    X, Y, weight, threads = problem
    alpha = max(alpha, ALPHA_FLOOR * _scale(kernel, problem))
    coef, offset, note = solve_once(kernel(X, n_threads=threads), Y, alpha, weight)
    return KernelExpansion(kernel, X, coef, offset), note


def _scale(kernel: AdditiveKernel, problem: _Problem) -> float:
    """Mean diagonal of K; 1 for a kernel that vanishes. Not of W K: a row of weight 2 is two rows on the diagonal."""
    return float(kernel.diagonal(problem.X).mean()) or 1.0


def _weights(sample_weight: Any, X: Floats) -> tuple[Floats | None, NDArray[np.bool_]]:
    """Weights of the rows in use (None: all one), and which rows those are."""
    if sample_weight is None:
        return None, np.ones(len(X), dtype=bool)
    if not np.any(np.asarray(sample_weight)):
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    used = weight > 0
    if weight.sum() < 0.5 * used.sum():
        advice = "a weight counts rows (2: the row twice); rescale the weights to mean 1 if they are only relative"
        warnings.warn(f"sample_weight sums to {weight.sum():.3g} for {used.sum()} rows: {advice}", stacklevel=3)
    return weight[used], used


def _report(result: OrderResult) -> None:
    error = f"{result.path.error:.4g} +- {result.path.standard_error:.2g}"
    print(f"[salsa] order {result.order}: error {error} of the variance, {result.seconds:.1f} s", file=sys.stderr)


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back: numbers, texts and sequences of these; splitters are left out."""
    plain = {
        key: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for key, value in values.items()
    }
    plain = {name: list(value) if isinstance(value, tuple | range) else value for name, value in plain.items()}
    return {name: value for name, value in plain.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value))
