"""SalsaRegressor: validate, choose, solve, store."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from salsa import parameters
from salsa.archive import entry, naming, read_archive, write_archive
from salsa.blas import one_blas_thread
from salsa.blockwise import Table, fold_numbers
from salsa.columns import learn_table
from salsa.cvplus import CVPlus
from salsa.doubts import Counts, count_values, doubts, empty_columns, target_notes
from salsa.folds import check_number_of_folds, make_folds
from salsa.inputs import check_total_weight, checked_rows, checked_weights
from salsa.intervals import LeaveOneOut, Uncertainty, learn_uncertainty
from salsa.kernels import BASE_KERNELS, Floats, distribution_of, thread_count
from salsa.large import DEFAULT_RANK, SOLVERS, fit_large, large_bytes, sample_rows
from salsa.learning import Problem
from salsa.memory import memory_limit_bytes, require_memory, row_blocks
from salsa.moments import power_of_two, weights_or_ones, written_out
from salsa.planning import Fit, Plan, fit_exact, make_plan, penalty
from salsa.progress import CallbackSupportMixin, Progress, with_callbacks
from salsa.ranges import warn_beyond
from salsa.rows import FoldOf, Piece, PieceRows, Rows, ShuffledFolds, array_rows
from salsa.solvers import Fold, exact_bytes
from salsa.sources import Source, Survey, pieces, reread, slices_of, survey
from salsa.storing import model_state, restore
from salsa.warning import warn_user

NEEDS_ALL_ROWS = ("exact", "pcg", "divide")
EXACT_ROWS = 3000  # up to which "auto" is the exact solver
MEMORY_ADVICE = "fit on a random sample of the rows, or raise memory_limit if the machine has more."
EXACT_ADVICE, LARGE_ADVICE = f"Give solver='lowrank', {MEMORY_ADVICE}", f"Give a smaller rank, {MEMORY_ADVICE}"


class SalsaRegressor(CallbackSupportMixin, RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression with an additive kernel whose interaction order is chosen by cross-validation.

    The model is f(x) = offset + sum_i coef_i k(x, x_i). The kernel k sums, over all interactions of the orders 1..d
    (or of order d alone), the products of one-dimensional kernels; see ``AdditiveKernel``.

    Parameters
    ----------
    order : "auto", "bisect", int or sequence of int, default="auto"
        Interaction order d. "auto": where relevances are learned, orders 1, 2, 3, 12 and the product of all features
        race; where they are equal, 1, 2, ... are tried until three in a row do not improve. "bisect" searches 1..D by
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
    solver : {"auto", "exact", "lowrank", "pcg", "features", "divide"}, default="auto"
        "exact" factorises the kernel matrix of all rows: n^3 flops and 40 n^2 bytes. "lowrank" has a few rows (anchors)
        stand for all, learns the kernel and the order on a sample, and everything else on all rows: n rank^2 flops,
        and memory that does not grow with n. "pcg" is the exact fit with the order and alpha that "lowrank" chooses, by
        preconditioned conjugate gradients: n^2 kernel values in each of a few iterations, and memory for n rank
        numbers. "features" are random features in place of anchors, and "divide" is the mean of exact fits to parts of
        the rows: for comparison. "auto" is exact up to 3000 rows, unless a rank is given, and low-rank beyond.
    rank : None or int, default=None
        The most anchors of the low-rank solver, which takes as many as its tolerance asks for; the number of random
        features; the most rows of a part. None: 2000. Where there are no more rows than that, the fit is exact.
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
        1 prints a line for every kernel and order tried to standard error. scikit-learn's callbacks (1.9 and later) are
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
        """Choose order and alpha by cross-validation and fit on all rows of X (n, D) and y (n,) or (n, q).

        A NumPy memmap is read in blocks, as ``fit_blocks`` does.
        """
        progress = Progress(self, X, y)
        with unchanged_by_failure(self):
            self._check_choices()
            if isinstance(X, np.memmap) and X.ndim == 2:
                self._fit_source(slices_of(X, y, sample_weight), progress)
                return self
            self.columns_, rows, is_text = learn_table(X, self.categorical_features)
            _check_feature_names(self, X, reset=True)
            _check_n_features(self, rows, reset=True)
            rows, y = checked_rows(rows, y)
            weight = checked_weights(sample_weight, rows)
            used = weight > 0
            check_total_weight(float(weight.sum()), int(used.sum()))
            self.columns_.check_spans(rows[used])
            notes = self._doubts(count_values(self.columns_, rows[used], is_text))
            self._fit_table(Piece(rows, y.reshape(len(y), -1), weight), used, progress, flat=y.ndim == 1)
            self._note([*notes, *target_notes(y.reshape(len(y), -1)[used])])
        return self

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit_blocks(self, blocks: Any, *, target: Any = None, sample_weight: str | None = None) -> Self:
        """The same fit to a table that need not fit into memory: it is read some rows at a time, several times.

        Up to 3000 rows, and with the solvers that need all rows, the table is read whole. Otherwise the result is that
        of ``fit`` on the same rows.

        Parameters
        ----------
        blocks : path, pyarrow dataset, iterable or function
            The path of a Parquet file or of a folder of such files; or an iterable (or a function that returns one) of
            data frames, or of tuples (X, y) or (X, y, weights). What can be iterated only once is kept in a temporary
            file.
        target : str or list of str, default=None
            The name of this column in data frames; a list of names for several outputs.
        sample_weight : str, default=None
            The name of this column in data frames.
        """
        progress = Progress(self, None, None)
        with unchanged_by_failure(self):
            self._check_choices()
            with reread(blocks, target, sample_weight) as source:
                self._fit_source(source, progress)
        return self

    def _fit_source(self, source: Source, progress: Progress) -> None:
        """The fit to rows that are read in blocks."""
        seen = survey(source(), self.categorical_features)
        threads = thread_count(parameters.threads(self.n_jobs), seen.rows, DEFAULT_RANK, len(seen.low))
        self._fit_seen(PieceRows(lambda: pieces(source(), seen), seen.rows, threads), seen, progress)

    def _fit_seen(self, rows: Rows, seen: Survey, progress: Progress) -> None:
        """The fit to rows of which a first reading has told what they hold."""
        self._remember(seen)
        notes = self._doubts(seen.counts)
        n, rank = seen.rows, self._rank(seen.rows)
        used = np.ones(n, dtype=bool)
        if rank is None or self.solver in NEEDS_ALL_ROWS:
            need, limit = 24 * n * (len(seen.low) + seen.outputs), memory_limit_bytes(self.memory_limit)
            require_memory(need, limit, f"solver={self.solver!r} reads the whole table, which", EXACT_ADVICE)
            self._fit_table(rows.take(np.arange(n)), used, progress, flat=seen.flat)
        else:
            splits = lambda: make_folds(self.cv, np.empty((n, 1)), None, used, None)  # noqa: E731
            self._fit_rows(rows, splits, rank, progress, flat=seen.flat)
        self._note(notes)

    def _doubts(self, counts: Counts) -> list[str]:
        """What is odd in the columns, as notes; what is likely a mistake is also a warning, before a long fit."""
        doubtful = list(doubts(self.columns_, counts))
        for doubt in doubtful:
            warn_user(doubt)
        return [*doubtful, *empty_columns(self.columns_, counts)]

    def _remember(self, seen: Survey) -> None:
        """The columns of a table that was read in blocks."""
        check_total_weight(seen.weight, seen.rows)
        self.columns_, self.n_features_in_ = seen.columns, len(seen.low)
        self.__dict__.pop("feature_names_in_", None)
        if seen.feature_names is not None:
            self.feature_names_in_ = seen.feature_names
        self.columns_.check_limits(seen.low, seen.high)

    def _fit_table(self, table: Piece, used: NDArray[np.bool_], progress: Progress, *, flat: bool) -> None:
        """The fit to rows in memory; those without weight are only there because given splits count them."""
        X, Y, _ = table
        n, rank = int(used.sum()), self._rank(int(used.sum()))
        if rank is None:
            self._fit_exact(table, used, progress, flat=flat)
        else:
            kept = table if used.all() else table.some(used)
            splits = lambda: make_folds(self.cv, X, Y, used, None)  # noqa: E731
            self._fit_rows(array_rows(kept, self._threads(n, rank)), splits, rank, progress, flat=flat)

    def _fit_exact(self, table: Piece, used: NDArray[np.bool_], progress: Progress, *, flat: bool) -> None:
        X, Y, weight = table.X, table.Y, _unless_ones(table.weight[used])
        if self.cv is None or isinstance(self.cv, numbers.Integral):  # given splits refer to the rows as they are
            X, Y, weight = written_out(X[used], Y[used], weight)
            used = np.ones(len(X), dtype=bool)
        require_memory(exact_bytes(int(used.sum())), memory_limit_bytes(self.memory_limit), "this fit", EXACT_ADVICE)
        unit, random_state = power_of_two(Y[used]), check_random_state(self.random_state)
        problem = self._problem(X[used], Y[used] / unit, weight)
        with one_blas_thread():  # LAPACK's last bits depend on its threads; ours do not
            plan = make_plan(self, problem, random_state, progress)
            fit = fit_exact(self, problem, plan, lambda: make_folds(self.cv, X, Y, used, random_state), progress)
        self._learned(fit, plan, unit, progress, flat=flat)

    def _fit_rows(
        self, rows: Rows, splits: Callable[[], list[Fold]], rank: int, progress: Progress, *, flat: bool
    ) -> None:
        """The fit to many rows, wherever they are."""
        n, solver = len(rows), "lowrank" if self.solver == "auto" else self.solver
        random_state = check_random_state(self.random_state)
        fold, n_folds = self._folds(n, splits, random_state)
        need = large_bytes(n, self.n_features_in_, rank, n_folds, self._threads(n, rank), solver)
        require_memory(need, memory_limit_bytes(self.memory_limit), "this fit", LARGE_ADVICE)
        with one_blas_thread():
            X, Y, weight = sample_rows(rows, random_state)
            unit = power_of_two(Y)
            problem = self._problem(X, Y / unit, _unless_ones(weight), n * float(weight.mean()))
            plan = make_plan(self, problem, random_state, progress)
            table = Table(rows, unit, problem.Y.mean(axis=0), fold, n_folds)
            fit = fit_large(self, table, problem, plan, progress, rank, random_state, solver)
        self._learned(fit, plan, unit, progress, flat=flat)

    def _folds(self, n: int, splits: Callable[[], list[Fold]], random_state: RandomState) -> tuple[FoldOf, int]:
        """The fold that each of n rows is held out in, and how many there are."""
        if self.cv is None or isinstance(self.cv, numbers.Integral):
            count = min(int(self.cv or 5), n)
            return ShuffledFolds(count, int(random_state.randint(2**31))), count
        number = fold_numbers(splits(), n)
        return lambda start, stop: number[start:stop], int(number.max()) + 1

    def _learned(self, fit: Fit, plan: Plan, unit: Floats, progress: Progress, *, flat: bool) -> None:
        self.expansion_ = fit.expansion.times(unit)
        self.search_ = replace(fit.search, contenders=plan.contenders).with_notes(plan.note)
        kept = None if fit.uncertainty is None else (fit.uncertainty, unit)
        self._store(flat=flat, weight=fit.weight, kept=kept, averaged=fit.averaged)
        progress.end()

    def _note(self, notes: list[str]) -> None:
        self.search_ = self.search_.with_notes(*notes)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """f(X), of shape (n,) or (n, q) as y was; with return_std also its posterior standard deviation.

        The standard deviation is that of f in the Gaussian-process reading of the model, without the noise of a new
        observation. It grows away from the data. An exact fit needs the n x n kernel matrix of its rows for it.
        """
        X = self._encode(X)
        values = self.expansion_.predict(X, n_threads=parameters.threads(self.n_jobs))
        if not return_std:
            return self._shaped(values)
        uncertainty, unit = self._uncertainty()
        threads, prior = parameters.threads(self.n_jobs), self.expansion_.kernel.diagonal(X)
        parts = [uncertainty.posterior_sd(k, prior[rows], n_threads=threads) for rows, k in self._blocks(X)]
        return self._shaped(values), self._shaped(unit * np.concatenate(parts))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Lower and upper ends (n, 2), or (n, q, 2), of intervals that hold a new observation with this probability.

        Jackknife+ by exact leave-one-out, for which an exact fit needs the n x n kernel matrix of its rows; CV+ for a
        low-rank fit. Scaled by the posterior standard deviation where that makes them shorter. Infinite ends, with a
        warning, where the training rows are too few for the coverage. They hold for rows like those of the training
        table, not far outside their range, of which a warning tells.
        """
        parameters.probability("coverage", coverage)
        X = self._encode(X)
        threads, prior = parameters.threads(self.n_jobs), self.expansion_.kernel.diagonal(X)
        values, (uncertainty, unit) = self.expansion_.predict(X, n_threads=threads), self._uncertainty()
        parts = [
            uncertainty.interval(values[rows] / unit, k, prior[rows], coverage, n_threads=threads)
            for rows, k in self._blocks(X)
        ]
        intervals = unit[:, None] * np.concatenate(parts)
        if np.isinf(intervals).any():
            warn_user(
                f"there are too few training rows for intervals of coverage {coverage:g}: their ends are infinite"
            )
        return intervals[:, 0] if self._flat else intervals

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeaveOneOut:
        """Target, prediction without that row, and predictive standard deviation (n, q) of every training row.

        By closed form, for the kernel and the penalty that all rows chose. An exact fit has its rows, in the order of
        ``expansion_.anchors``, which is not that of the table, and needs their n x n kernel matrix. A low-rank fit does
        not keep its rows: give those of them that you ask for, with their weights.
        """
        check_is_fitted(self)
        uncertainty, unit = self._uncertainty()
        if not isinstance(uncertainty, CVPlus):
            return uncertainty.leave_one_out(unit)
        if X is None or y is None:
            raise ValueError("a low-rank model keeps no training rows to leave out: give them, leave_one_out(X, y)")
        rows, y = checked_rows(self._encode(X), y)
        Y, weight = y.reshape(len(y), -1) / unit, checked_weights(sample_weight, rows)
        threads, diagonal = parameters.threads(self.n_jobs), self.expansion_.kernel.diagonal(rows)
        values = self.expansion_.predict(rows, n_threads=threads) / unit
        parts = [
            uncertainty.leave_one_out(k, diagonal[some], values[some], Y[some], weight[some], n_threads=threads)
            for some, k in self._blocks(rows)
        ]
        target, prediction, sd = (
            unit * np.concatenate([getattr(part, name) for part in parts]) for name in ("target", "prediction", "sd")
        )
        return LeaveOneOut(target, prediction, sd, weight)

    def functional_sd(self, k: Floats, prior: Floats) -> Floats:
        """Posterior standard deviation (m, q) of m linear functionals of f that vanish on constants, such as effects.

        k (m, n) is what they make of the kernel with the training rows, prior (m,) of the kernel in both arguments.
        """
        check_is_fitted(self)
        uncertainty, unit = self._uncertainty()
        threads = parameters.threads(self.n_jobs)
        return unit * uncertainty.posterior_sd(k, prior, constant=0.0, n_threads=threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .salsa file (zip of JSON and arrays, no pickle); ``salsa.load`` reads it."""
        check_is_fitted(self)
        self._check_resources()
        names = SalsaRegressor._get_param_names()  # not those that fitted it on a cluster
        write_archive(path, *model_state(self, {name: getattr(self, name) for name in names}))

    def _check_resources(self) -> None:
        """What predictions ask for; checked on saving and loading, so that what was saved can be loaded."""
        parameters.threads(self.n_jobs)
        memory_limit_bytes(self.memory_limit)

    def _check_choices(self) -> None:
        parameters.one_of("interactions", self.interactions, ("up_to", "exact"))
        parameters.one_of("kernel", self.kernel, ["auto", *(name for name in BASE_KERNELS if name != "equality")])
        parameters.one_of("solver", self.solver, ("auto", "exact", *SOLVERS))
        check_number_of_folds(self.cv)
        parameters.rank(self.rank, self.solver)

    def _rank(self, n: int) -> int | None:
        """The most anchors that a low-rank fit to n rows may have; None for an exact fit."""
        if self.solver == "exact" or (self.solver == "auto" and self.rank is None and n <= EXACT_ROWS):
            return None
        rank = DEFAULT_RANK if self.rank is None else int(self.rank)
        return rank if rank < n else None

    def _threads(self, n: int, rank: int) -> int:
        return thread_count(parameters.threads(self.n_jobs), n, rank, self.n_features_in_)

    def _encode(self, X: Any) -> Floats:
        """The same columns at prediction."""
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        if getattr(X, "ndim", 2) == 2:  # other shapes get their error from the columns
            _check_n_features(self, X, reset=False)
        rows = self.columns_.encode(X)
        warn_beyond(self.expansion_, self.columns_.names, rows)
        return rows

    def _problem(self, X: Floats, Y: Floats, weight: Floats | None, total: float | None = None) -> Problem:
        """What there is to learn from, with the base kernel and the distribution of every feature."""
        categorical = self.columns_.categorical
        base = "gaussian" if parameters.is_text(self.kernel, "auto") else self.kernel
        w = weights_or_ones(weight, len(X))
        distributions = tuple(
            distribution_of(x, w, None if is_category else 128) for x, is_category in zip(X.T, categorical, strict=True)
        )
        bases = tuple("equality" if is_category else base for is_category in categorical)
        threads = parameters.threads(self.n_jobs)
        return Problem(X, Y, weight, bases, distributions, threads=threads, total=total)

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
        if self._averaged:
            raise ValueError("a mean of fits to parts of the rows does not know how sure it is: give solver='lowrank'")
        if not hasattr(self, "_kept_uncertainty"):
            kernel, X, coef, _ = (expansion := self.expansion_).parts
            limit = memory_limit_bytes(self.memory_limit)
            require_memory(exact_bytes(len(X)), limit, "the uncertainty of predictions", EXACT_ADVICE)
            threads, w = parameters.threads(self.n_jobs), weights_or_ones(self._weight, len(X))
            alpha = penalty(kernel, X, self.alpha_)
            Y = expansion.predict(X, n_threads=threads) + alpha * coef / w[:, None]
            unit = power_of_two(Y)
            with one_blas_thread():
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

    def _store(self, *, flat: bool, weight: Floats | None, kept: tuple[CVPlus, Floats] | None, averaged: bool) -> None:
        self.order_ = self.search_.order
        self.alpha_ = self.search_.alpha
        self.relevance_ = self.expansion_.kernel.relevance
        self.bandwidth_ = self.expansion_.kernel.bandwidth
        self._flat, self._weight, self._cvplus, self._averaged = flat, weight, kept, averaged
        self.__dict__.pop("_kept_uncertainty", None)


@contextmanager
def unchanged_by_failure(model: SalsaRegressor) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the model as it was: not fitted, or by another fit."""
    before = model.__dict__.copy()
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def load(path: str | os.PathLike[str]) -> SalsaRegressor:
    """Read a model that ``SalsaRegressor.save`` wrote. Nothing in the file is executed."""
    header, arrays = read_archive(path)
    with naming(path):
        model = SalsaRegressor(**entry(header, "parameters", {dict}))
        model._check_resources()
        restore(model, header, arrays)
    return model


def _unless_ones(weight: Floats) -> Floats | None:
    """Weights that say nothing are none."""
    return None if (weight == 1).all() else weight
