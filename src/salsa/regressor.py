"""SalsaRegressor: validate, choose, solve, store."""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import _check_feature_names, _check_n_features, _check_sample_weight, check_is_fitted
from threadpoolctl import threadpool_limits

from salsa import parameters
from salsa._version import __version__
from salsa.archive import entry, naming, read_archive, write_archive
from salsa.columns import Columns, learn_columns
from salsa.cvplus import CVPlus
from salsa.expansion import KernelExpansion
from salsa.folds import check_number_of_folds, make_folds
from salsa.intervals import LeaveOneOut, Uncertainty, learn_uncertainty
from salsa.kernels import BASE_KERNELS, Floats, distribution_of, thread_count
from salsa.learning import Problem
from salsa.lowrank import DEFAULT_RANK, fit_lowrank, lowrank_bytes
from salsa.memory import memory_limit_bytes, require_memory, row_blocks
from salsa.moments import power_of_two, weights_or_ones, written_out
from salsa.planning import fit_exact, make_plan, penalty
from salsa.progress import CallbackSupportMixin, Progress, with_callbacks
from salsa.selection import OrderSearch
from salsa.solvers import exact_bytes
from salsa.solvers.lowrank import anchors_of
from salsa.warning import warn_user

#: Within these limits coefficients of y / (alpha of 1e-14 of the kernel's diagonal) are far from those of float64
TARGET_LIMIT, WEIGHT_LIMITS = 1e150, (1e-50, 1e50)
EXACT_ROWS = 3000  # up to which "auto" is the exact solver
MEMORY_ADVICE = "fit on a random sample of the rows, or raise memory_limit if the machine has more."
EXACT_ADVICE, LOWRANK_ADVICE = f"Give solver='lowrank', {MEMORY_ADVICE}", f"Give a smaller rank, {MEMORY_ADVICE}"


class SalsaRegressor(CallbackSupportMixin, RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
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
    relevance : "learned", "equal" or array of shape (n_features,), default="learned"
        Relevance a_j >= 0 of every feature; 0 removes it. "learned" learns relevances, bandwidths, order weights, and
        keeps them if they are better at predicting rows that they were not learned from; "equal" is the paper.
    interactions : "up_to" or "exact", default="up_to"
        All orders 1..d with equal weight, or only d (the paper).
    kernel : {"auto", "gaussian", "laplace", "matern32", "matern52"}, default="auto"
        Base kernel of single features. "auto" is Gaussian (the paper) where relevances are not learned; learned kernels
        are Matern 5/2, or one of the others where that predicts better. Insist on "matern52" for smooth curves.
    bandwidth : "auto", "rule_of_thumb", float or array of shape (n_features,), default="auto"
        "auto" learns them with the relevances. Otherwise, and where relevances are not learned, h_j = c sd_j n^(-1/5)
        with c = 20 (the paper) or a given c; an array gives the h_j themselves.
    solver : {"auto", "exact", "lowrank", "pcg"}, default="auto"
        "exact" factorises the kernel matrix of all rows: n^3 flops and 40 n^2 bytes. "lowrank" has a few rows (anchors)
        stand for all, learns the kernel and the order on a sample, and everything else on all rows: n rank^2 flops,
        and memory that does not grow with n. "pcg" is the exact fit with the order and alpha that "lowrank" chooses, by
        preconditioned conjugate gradients: n^2 kernel values in each of a few iterations, and memory for n rank
        numbers. "auto" is exact up to 3000 rows, unless a rank is given, and low-rank beyond.
    rank : None or int, default=None
        The most anchors of the low-rank solver, which takes as many as its tolerance asks for; None: 2000. Where there
        are no more rows than that, the fit is exact.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means shuffled folds. Exact, without refits, for any splits. For grouped
        rows give the splits: ``cv=list(GroupKFold().split(X, y, groups))``.
    categorical_features : "from_dtype", None, or array of indices, names or a mask, default="from_dtype"
        Columns of categories, compared for equality only: text and category dtypes, and what is given by number, name
        or mask. Ordered categories of pandas count as numbers by their rank. None: categories that are numbers count
        as numbers.
    memory_limit : None, int or str, default=None
        Bytes, or a text such as "4GB", that fit may take; None: 80 % of what is available.
    n_jobs : int, default=None
        Threads for kernel matrices; None or -1 means all. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds where cv is a number, and draws the rows that relevances are learned from.
    verbose : int, default=0
        1 prints a line for every kernel and order tried to standard error, and lets predict warn of rows outside the
        range of the training data. scikit-learn's callbacks (1.9 and later) are
        told of the same steps: ``SalsaRegressor().set_callbacks(ProgressBar())``.

    Attributes
    ----------
    order_, alpha_ : the chosen order and penalty.
    relevance_, bandwidth_ : arrays of shape (n_features,).
    columns_ : ``Columns``, what the columns of the table hold.
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
        relevance: Any = "learned",
        interactions: str = "up_to",
        kernel: str = "auto",
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

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose order and alpha by cross-validation and fit on all rows of X (n, D) and y (n,) or (n, q)."""
        progress = Progress(self, X, y)
        self._check_choices()
        X, y = self._learn_columns(X, y)
        weight, used = _weights(sample_weight, X)
        Y = _target(y)
        rank = self._rank(int(used.sum()))
        if self.cv is None or isinstance(self.cv, numbers.Integral):  # given splits refer to the rows as they are
            X, Y = X[used], Y[used]
            if rank is None:
                X, Y, weight = written_out(X, Y, weight)
            used = np.ones(len(X), dtype=bool)
        self._require_memory(X[used], rank)
        self.columns_.check_spans(X[used])
        unit = power_of_two(Y[used])
        problem = self._problem(X[used], Y[used] / unit, weight)
        random_state = check_random_state(self.random_state)

        with threadpool_limits(1, user_api="blas"):  # LAPACK's last bits depend on its threads; ours do not
            plan = make_plan(self, problem, random_state, progress)
            folds = lambda: make_folds(self.cv, X, Y, used, random_state)  # noqa: E731
            if rank is None:
                fit = fit_exact(self, problem, plan, folds, progress)
            else:
                exact = self.solver == "pcg"
                fit = fit_lowrank(self, problem, plan, folds, progress, rank, random_state, exact=exact)
        self.expansion_ = fit.expansion.times(unit)
        self.search_ = replace(fit.search, contenders=plan.contenders).with_note(plan.note)
        kept = None if fit.uncertainty is None else (fit.uncertainty, unit)
        self._store(flat=y.ndim == 1, weight=problem.weight, kept=kept)
        progress.end()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """f(X), of shape (n,) or (n, q) as y was; with return_std also its posterior standard deviation.

        The standard deviation is that of f in the Gaussian-process reading of the model, without the noise of a new
        observation. It grows away from the data, and needs the n x n kernel matrix of the training rows.
        """
        X = self._encode(X)
        values = self.expansion_.predict(X, n_threads=parameters.threads(self.n_jobs))
        if not return_std:
            return self._shaped(values)
        uncertainty, unit = self._uncertainty()
        parts = [uncertainty.posterior_sd(k, self.expansion_.kernel.diagonal(X[rows])) for rows, k in self._blocks(X)]
        return self._shaped(values), self._shaped(unit * np.concatenate(parts))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Lower and upper ends (n, 2), or (n, q, 2), of intervals that hold a new observation with this probability.

        Jackknife+ by exact leave-one-out, scaled by the posterior standard deviation where that makes them shorter.
        Needs the n x n kernel matrix of the training rows; infinite ends where these are too few for the coverage.
        """
        parameters.probability("coverage", coverage)
        X = self._encode(X)
        values = self.expansion_.predict(X, n_threads=parameters.threads(self.n_jobs))
        (uncertainty, unit), kernel = self._uncertainty(), self.expansion_.kernel
        parts = [
            uncertainty.interval(values[rows] / unit, k, kernel.diagonal(X[rows]), coverage)
            for rows, k in self._blocks(X)
        ]
        intervals = unit[:, None] * np.concatenate(parts)
        return intervals[:, 0] if self._flat else intervals

    def leave_one_out(self) -> LeaveOneOut:
        """Target, prediction without that row, and predictive standard deviation (n, q) of every training row.

        In the order of ``expansion_.anchors``, which is not that of the table. By closed form, for the kernel and the
        penalty that all rows chose. Needs the n x n kernel matrix of the rows.
        """
        check_is_fitted(self)
        uncertainty, unit = self._uncertainty()
        if isinstance(uncertainty, CVPlus):
            raise ValueError("a low-rank model keeps no training rows to leave out; evaluate it on rows of your own")
        return uncertainty.leave_one_out(unit)

    def functional_sd(self, k: Floats, prior: Floats) -> Floats:
        """Posterior standard deviation (m, q) of m linear functionals of f that vanish on constants, such as effects.

        k (m, n) is what they make of the kernel with the training rows, prior (m,) of the kernel in both arguments.
        """
        check_is_fitted(self)
        uncertainty, unit = self._uncertainty()
        return unit * uncertainty.posterior_sd(k, prior, constant=0.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .salsa file (zip of JSON and arrays, no pickle); ``salsa.load`` reads it."""
        check_is_fitted(self)
        self._check_resources()
        kernel, arrays = self.expansion_.state()
        header = {
            "salsa_version": __version__,
            "parameters": _stored(self.get_params()),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "columns": self.columns_.state(),
            "flat": self._flat,
            "search": self.search_.state(),
            "kernel": kernel,
        }
        if self._cvplus is not None:
            uncertainty, unit = self._cvplus
            arrays |= {**uncertainty.state(), "cv_unit": unit}
        elif self._weight is not None:
            arrays["weight"] = self._weight
        write_archive(path, header, arrays)

    def _check_resources(self) -> None:
        """What predictions ask for; checked on saving and loading, so that what was saved can be loaded."""
        parameters.threads(self.n_jobs)
        memory_limit_bytes(self.memory_limit)

    def _check_choices(self) -> None:
        parameters.one_of("interactions", self.interactions, ("up_to", "exact"))
        parameters.one_of("kernel", self.kernel, ["auto", *(name for name in BASE_KERNELS if name != "equality")])
        parameters.one_of("solver", self.solver, ("auto", "exact", "lowrank", "pcg"))
        check_number_of_folds(self.cv)
        parameters.rank(self.rank, self.solver)

    def _rank(self, n: int) -> int | None:
        """The most anchors that a low-rank fit to n rows may have; None for an exact fit."""
        if self.solver == "exact" or (self.solver == "auto" and self.rank is None and n <= EXACT_ROWS):
            return None
        rank = DEFAULT_RANK if self.rank is None else int(self.rank)
        return rank if rank < n else None

    def _require_memory(self, X: Floats, rank: int | None) -> None:
        n, D = X.shape
        if rank is None:
            need, advice = exact_bytes(n), EXACT_ADVICE
        else:
            folds = int(self.cv) if isinstance(self.cv, numbers.Integral) else 5  # the default, and a guess for splits
            threads = thread_count(parameters.threads(self.n_jobs), n, rank, D)
            need = lowrank_bytes(n, D, rank, folds, threads, exact=self.solver == "pcg")
            advice = LOWRANK_ADVICE
        require_memory(need, memory_limit_bytes(self.memory_limit), "this fit", advice)

    def _learn_columns(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """Features as numbers and codes, NaN where missing (n, D), and the target."""
        self.columns_, rows = learn_columns(X, self.categorical_features)
        _check_integers(y)
        _check_feature_names(self, X, reset=True)
        _check_n_features(self, rows, reset=True)
        with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
            checked: tuple[Floats, Floats] = check_X_y(
                rows,
                y,
                dtype=np.float64,
                order="C",
                ensure_all_finite="allow-nan",
                multi_output=True,
                y_numeric=True,
                estimator=self,
            )
        return checked

    def _encode(self, X: Any) -> Floats:
        """The same columns at prediction."""
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        if getattr(X, "ndim", 2) == 2:  # other shapes get their error from the columns
            _check_n_features(self, X, reset=False)
        rows = self.columns_.encode(X)
        if self.verbose:
            _warn_beyond(rows, self.expansion_.anchors)
        return rows

    def _problem(self, X: Floats, Y: Floats, weight: Floats | None) -> Problem:
        """What there is to learn from, with the base kernel and the distribution of every feature."""
        categorical = self.columns_.categorical
        base = "gaussian" if parameters.is_text(self.kernel, "auto") else self.kernel
        w = weights_or_ones(weight, len(X))
        distributions = tuple(
            distribution_of(x, w, None if is_category else 128) for x, is_category in zip(X.T, categorical, strict=True)
        )
        bases = tuple("equality" if is_category else base for is_category in categorical)
        return Problem(X, Y, weight, bases, distributions, threads=parameters.threads(self.n_jobs))

    def _shaped(self, values: Floats) -> Floats:
        return values[:, 0] if self._flat else values

    def _blocks(self, X: Floats) -> Iterator[tuple[slice, Floats]]:
        """Rows of X, some at a time, with their kernel values with the training rows."""
        anchors, threads = self.expansion_.anchors, parameters.threads(self.n_jobs)
        for rows in row_blocks(len(X), len(anchors)):
            yield rows, self.expansion_.kernel(X[rows], anchors, n_threads=threads)

    def _uncertainty(self) -> tuple[Uncertainty | CVPlus, Floats]:
        """With the units (q,) of the outputs. Of an exact fit it is computed when first asked for, and not saved."""
        if self._cvplus is not None:
            return self._cvplus
        if not hasattr(self, "_kept_uncertainty"):
            kernel, X, coef, _ = (expansion := self.expansion_).parts
            limit = memory_limit_bytes(self.memory_limit)
            require_memory(exact_bytes(len(X)), limit, "the uncertainty of predictions", EXACT_ADVICE)
            threads, w = parameters.threads(self.n_jobs), weights_or_ones(self._weight, len(X))
            alpha = penalty(kernel, X, self.alpha_)
            Y = expansion.predict(X, n_threads=threads) + alpha * coef / w[:, None]
            unit = power_of_two(Y)
            with threadpool_limits(1, user_api="blas"):
                learned = learn_uncertainty(kernel(X, n_threads=threads), Y / unit, coef / unit, alpha, w)
            self._kept_uncertainty = learned, unit
        return self._kept_uncertainty

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_kept_uncertainty"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _store(self, *, flat: bool, weight: Floats | None, kept: tuple[CVPlus, Floats] | None) -> None:
        self.order_ = self.search_.order
        self.alpha_ = self.search_.alpha
        self.relevance_ = self.expansion_.kernel.relevance
        self.bandwidth_ = self.expansion_.kernel.bandwidth
        self._flat, self._weight, self._cvplus = flat, weight, kept
        self.__dict__.pop("_kept_uncertainty", None)


def load(path: str | os.PathLike[str]) -> SalsaRegressor:
    """Read a model that ``SalsaRegressor.save`` wrote. Nothing in the file is executed."""
    header, arrays = read_archive(path)
    with naming(path):
        return _restored(header, arrays)


def _restored(header: dict[str, Any], arrays: Mapping[str, Floats]) -> SalsaRegressor:
    """The inverse of what ``save`` takes from a model; refuses what does not fit together."""
    stored, names = entry(header, "parameters", {dict}), entry(header, "feature_names", [{str}])
    model = SalsaRegressor(**stored)
    model._check_resources()
    model.columns_ = Columns.from_state(header["columns"])
    model.n_features_in_ = len(model.columns_.names)
    if arrays["bandwidth"].shape != (model.n_features_in_,) or len(names) not in (0, model.n_features_in_):
        raise ValueError("its kernel, its columns and its feature names are not of one number")
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.expansion_ = KernelExpansion.from_state(header["kernel"], arrays)
    model.columns_.check_spans(model.expansion_.anchors)
    model.columns_.check_codes(model.expansion_.anchors)
    model.search_ = OrderSearch.from_state(header["search"])
    if lost := sorted(set(model.get_params()) - set(stored)):
        note = f"parameters a model file cannot hold are at their defaults: {', '.join(lost)}"
        model.search_ = model.search_.with_note(note)
    flat, outputs = entry(header, "flat", {bool}), len(model.expansion_.offset)
    if model.search_.order != model.expansion_.kernel.order or (flat and outputs > 1):
        raise ValueError("its kernel is not of the order that was found, or it has more outputs than it says")
    kept = _stored_uncertainty(arrays, model.expansion_)
    weight = None if kept else _stored_weight(arrays, len(model.expansion_.anchors))
    model._store(flat=flat, weight=weight, kept=kept)
    return model


def _stored_uncertainty(arrays: Mapping[str, Floats], expansion: KernelExpansion) -> tuple[CVPlus, Floats] | None:
    if "cv_unit" not in arrays:
        return None
    uncertainty = CVPlus.from_state(arrays, anchors_of(expansion).L)
    unit = arrays["cv_unit"]
    if not unit.shape == expansion.offset.shape == uncertainty.amplitude.shape or not (unit > 0).all():
        raise ValueError("its uncertainty is not of its outputs")
    return uncertainty, unit


def _stored_weight(arrays: Mapping[str, Floats], n: int) -> Floats | None:
    weight, (low, high) = arrays.get("weight"), WEIGHT_LIMITS
    if weight is not None and (weight.shape != (n,) or not ((weight >= low) & (weight <= high)).all()):
        raise ValueError(f"its weights do not fit its rows, or are not between {low:.0e} and {high:.0e}")
    return weight


def _warn_beyond(X: Floats, anchors: Floats) -> None:
    """Say how many rows lie outside the range of the training rows in some column."""
    low, high = (bound(anchors, axis=0) for bound in (np.fmin.reduce, np.fmax.reduce))
    beyond = int(np.sum(((low > X) | (high < X)).any(axis=1)))
    if beyond:
        warn_user(f"{beyond} of {len(X)} rows lie outside the range of the training data")


def _check_integers(y: Any) -> None:
    """Refuse Python's integers beyond float64, of which the conversion would only say OverflowError."""
    values = np.asarray(y)
    if values.dtype == object and any(isinstance(v, int) and abs(v) > sys.float_info.max for v in values.ravel()):
        raise ValueError(
            f"y has an integer beyond float64; the largest value allowed is {TARGET_LIMIT:.0e}: rescale it"
        )


def _target(y: Floats) -> Floats:
    """(n, q)"""
    Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if (largest := np.abs(Y).max()) > TARGET_LIMIT:
        raise ValueError(f"y has a value of size {largest:.3g}; the largest allowed is {TARGET_LIMIT:.0e}: rescale it")
    return Y


def _weights(sample_weight: Any, X: Floats) -> tuple[Floats | None, NDArray[np.bool_]]:
    """Weights of the rows in use (None: all one), and which rows those are."""
    if sample_weight is None:
        return None, np.ones(len(X), dtype=bool)
    if not np.any(np.asarray(sample_weight)):
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    used = weight > 0
    low, high = WEIGHT_LIMITS
    if weight.max() > high or weight[used].min() < low:
        limits = f"between {low:.0e} and {high:.0e}"
        raise ValueError(
            f"sample_weight: weights that are not zero must be {limits}; a weight counts rows: rescale them"
        )
    if weight.sum() < 0.5 * used.sum():
        advice = "a weight counts rows (2: the row twice); rescale the weights to mean 1 if they are only relative"
        warn_user(f"sample_weight sums to {weight.sum():.3g} for {used.sum()} rows: {advice}")
    return weight[used], used


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
