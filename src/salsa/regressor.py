"""SalsaRegressor: store the parameters, validate, call ``fitting``, assign."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import MultiOutputMixin, RegressorMixin

from salsa._utils.arrays import Floats
from salsa._utils.progress import Progress, with_callbacks
from salsa._utils.threads import parse_threads
from salsa._utils.unchanged import unchanged_by_failure
from salsa._utils.user_warning import TooFewRowsWarning, warn_user
from salsa.data.blocks import reread, slices_of
from salsa.data.rows import Observations
from salsa.data.targets import checked_rows, checked_weights
from salsa.data.training_range import encoded
from salsa.data.transforms import TargetTransform, transformed
from salsa.fitted import assign, fitted_of
from salsa.fitting import fit_source, fit_table
from salsa.kernel_model import KernelModel
from salsa.options import check_probability, parse_options
from salsa.uncertainty import LeaveOneOut
from salsa.uncertainty.continuation import find_outside, widened
from salsa.uncertainty.cvplus import LowRankUncertainty
from salsa.uncertainty.iterated import IteratedUncertainty
from salsa.uncertainty.jackknife import ExactUncertainty
from salsa.uncertainty.scored import ScoredUncertainty


class SalsaRegressor(RegressorMixin, MultiOutputMixin, KernelModel):  # type: ignore[misc]
    """Kernel ridge regression with an additive kernel whose interaction order is chosen by cross-validation.

    The model is f(x) = offset + sum_i coef_i k(x, x_i). The kernel k sums, over all interactions of the orders 1..d
    (or of order d alone), the products of one-dimensional kernels; see ``AdditiveKernel``.

    Parameters
    ----------
    order : "auto", "bisect", int or sequence of int, default="auto"
        Interaction order d. "auto": learned kernels are a sum of orders 1 to 3 and of products of all features; with
        equal relevances, 1, 2, ... are tried until three in a row do not improve. "bisect" searches 1..D by halving
        where relevances are equal. A given order d learns one kernel of the orders 1..d; a sequence tries exactly
        those orders.
    alpha : "auto", float or sequence of float, default="auto"
        Ridge penalty, added to the diagonal of the kernel matrix: alpha = n lambda of the paper. With weights w it is
        alpha / w, as in scikit-learn's KernelRidge.
    loss : {"squared_error", "huber", "quantile", "poisson", "gamma"}, default="squared_error"
        The loss that is minimised on training rows, and that judges held-out rows. "huber" limits the influence of
        gross errors; "quantile" predicts a quantile; "poisson" is for counts, or for rates with exposures as
        sample_weight; "gamma" is for positive amounts. "poisson" and "gamma" have a log link: f is the logarithm of the
        predicted mean. Losses other than the squared error take one target, and solver "exact" or "lowrank".
    quantile : float, default=None
        With loss="quantile", the quantile to predict, between 0 and 1.
    target_transform : None, "log", "log1p" or "sqrt", default=None
        The model is learned, judged and explained on this scale of the target, and so are the errors of ``search_``;
        predictions and intervals are in the target's own units. For positive, skewed targets whose noise grows with
        their level.
    relevance : "learned", "equal" or array of shape (n_features,), default="learned"
        Relevance a_j >= 0 of every feature; 0 removes it. "learned" learns relevances, bandwidths and weights of a sum
        of kernels, and keeps them unless equal relevances are clearly better at predicting held-out rows; "equal" is
        the paper.
    interactions : "up_to" or "exact", default="up_to"
        All orders 1..d, or only d (the paper). Weights of orders are equal unless they are learned.
    interaction_cst : None, "pairwise", "no_interactions" or list of sets of features, default=None
        The features that may interact, as in scikit-learn's HistGradientBoostingRegressor. With sets of features, by
        name or by position, f is a sum of functions of the features of one set each: interactions between sets are
        absent exactly. Features that are in no set form one additional set. "pairwise" allows the orders 1 and 2,
        "no_interactions" order 1 alone.
    monotonic_cst : None, array of shape (n_features,) or dict of column name to int, default=None
        1: f increases with the feature, -1: f decreases, 0: free; as in HistGradientBoostingRegressor. Means, quantiles
        and centres of all losses rise with f. The sign of the slope is proven everywhere in the box of the training
        range. Terms with such a feature have at most order two; products have the other features. Needs the package
        clarabel (``pip install clarabel``), base kernels "matern52" or "gaussian", and the solvers
        "exact" (by default up to 3000 rows) or "lowrank".
    kernel : "auto" or the name of a base kernel, default="auto"
        Base kernel of single features, such as "gaussian" or "matern52"; ``salsa.kernels.base`` has the table. "auto"
        is Gaussian (the paper) if relevances are equal or given, otherwise Matern 5/2; learned sums also have a rough
        Laplace product. A given base kernel is used in all terms: choose "matern52" for smooth curves.
    bandwidth : "auto", "rule_of_thumb", float or array of shape (n_features,), default="auto"
        "auto" learns them with the relevances. Otherwise, and where relevances are not learned, h_j = c sd_j n^(-1/5)
        with c = 20 (the paper) or a given c; an array gives the h_j themselves.
    solver : {"auto", "exact", "lowrank", "pcg", "features", "divide"}, default="auto"
        "exact" factorises the kernel matrix of all rows: n^3 flops and 40 n^2 bytes. "pcg" is the exact fit, too, by
        conjugate gradients on the kernel matrix in float32: a few dozen times n^2 flops and 2 n^2 bytes; a matrix that
        does not fit into memory is computed again in every iteration. "lowrank" has a few rows (anchors) stand for all:
        n rank^2 flops, and memory that does not grow with n. Whatever the solver, the kernel is learned from at most
        8000 rows. "features" are random features in place of anchors, and "divide" is the mean of
        exact fits to parts of the rows: for comparison. "auto" is "exact" up to 3000 rows, unless a rank is given,
        "pcg" up to 60 000 if the matrix fits into memory (fewer with several targets), and "lowrank" beyond. Losses
        other than the squared error have "lowrank" beyond 3000 rows, unless "pcg" is asked for.
    rank : None or int, default=None
        The most anchors of the low-rank solver, which takes as many as its tolerance asks for, and of the
        preconditioner of "pcg"; the number of random features; the most rows of a part. None: 2000. Where there are no
        more rows than that, the fit is exact. A rank above the number of rows is an error if a solver is given.
    cv : int, splitter or iterable, default=5
        Folds of the cross-validation; a number means folds of about equal size, of whole groups if ``fit`` is given
        groups. They are shuffled, except where kernels are learned and the solver is exact: there, rows in the order of
        the target go to the folds by turns, and no seed decides. Given splits judge everything: kernels, order, alpha,
        intervals. If all training rows of every split precede its test rows, as in ``cv=TimeSeriesSplit(5)``, kernels
        are learned on earlier rows and judged on later ones.
    categorical_features : "from_dtype", None, or array of indices, names or a mask, default="from_dtype"
        Columns of categories, compared for equality only: text and category dtypes, and what is given by number, name
        or mask. Ordered categories of pandas count as numbers by their rank. None: categories that are numbers count
        as numbers.
    memory_limit : None, int or str, default=None
        Bytes, or a text such as "4GB", that fit may take; None: 80 % of what is available. A fit that needs more is
        refused before it begins; the error names the solvers and ranks that fit.
    n_jobs : int, default=None
        Threads for kernel matrices; None or -1 means all. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the folds where cv is a number (see `cv` for the exception), and draws the rows that relevances are
        learned from where there are more than 800.
    verbose : int, default=0
        1 prints to standard error every kernel and order tried, and how far each long phase is. On a terminal the last
        line is rewritten; a file gets a line every ten seconds, and one at the end of a phase. scikit-learn's callbacks
        (1.9 and later) are told of the kernels and orders: ``SalsaRegressor().set_callbacks(ProgressBar())``.

    Attributes
    ----------
    order_, alpha_ : the chosen order (of a sum, the largest) and penalty, for weights of mean one.
    relevance_, bandwidth_ : arrays of shape (n_features,), the a_j and h_j of the kernel. For a sum of kernels, the
        relevance of a feature is the prior variance of what depends on it, and its bandwidth is the geometric mean over
        the terms, weighted by prior variances. A relevance is 0 exactly where the function ignores the feature. A
        column of dates has an entry for each of its parts, such as the time of year; ``columns_.names`` names them.
    columns_ : ``Columns``, what the columns of the table hold.
    search_ : ``OrderSearch``, with a table and a plot of what was tried, the terms of the kernel (``components``), the
        variance rho of groups' levels, the scale of intervals, and the numbers of groups and of merged copies.
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
        loss: str = "squared_error",
        quantile: float | None = None,
        target_transform: str | None = None,
        relevance: Any = "learned",
        interactions: str = "up_to",
        interaction_cst: Any = None,
        monotonic_cst: Any = None,
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
        self.loss = loss
        self.quantile = quantile
        self.target_transform = target_transform
        self.relevance = relevance
        self.interactions = interactions
        self.interaction_cst = interaction_cst
        self.monotonic_cst = monotonic_cst
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose order and alpha by cross-validation and fit on all rows of X (n, D) and y (n,) or (n, q).

        sample_weight are precisions: a weight of 2 is half the noise variance, 0 removes a row, and only ratios matter
        (with a given alpha they act as in scikit-learn's KernelRidge). groups are labels (n,), such as the person that
        a row was measured on: groups are held out whole, and share a level in the noise. Predictions and intervals are
        for new groups. Copies, rows that agree in all features, targets and groups, count as one observation with the
        sum of their weights.

        A NumPy memmap is read in blocks, as ``fit_blocks`` does.
        """
        progress = Progress(self, X, y)
        with unchanged_by_failure(self), progress:
            options = parse_options(self.get_params(deep=False))
            if isinstance(X, np.memmap) and X.ndim == 2:
                fitted = fit_source(options, slices_of(X, y, sample_weight, groups), progress)
            else:
                fitted = fit_table(options, X, y, sample_weight, groups, progress)
            assign(self, fitted)
            progress.end()
        return self

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit_blocks(
        self, blocks: Any, *, target: Any = None, sample_weight: str | None = None, groups: str | None = None
    ) -> Self:
        """Fit a table that need not fit into memory: it is read in blocks of rows, several times.

        Where the fit is exact (up to 60 000 rows), and with other solvers that need all rows, the table is read whole.
        Otherwise the result is the same as from ``fit`` on the same rows, unless some are copies: these are held out
        together, but not merged. Losses other than the squared error read the rows some dozens of times, unless memory
        holds their features (4 n rank bytes); with monotonic_cst they read the table whole.

        Parameters
        ----------
        blocks : path, pyarrow dataset, iterable or function
            The path of a Parquet file or of a folder of such files; or an iterable (or a function that returns one) of
            data frames, or of tuples (X, y), (X, y, weights) or (X, y, weights, groups). An iterable that can be read
            only once is kept in a temporary file.
        target : str or list of str, default=None
            The name of this column in data frames; a list of names for several outputs.
        sample_weight, groups : str, default=None
            The names of these columns in data frames.
        """
        progress = Progress(self, None, None)
        with unchanged_by_failure(self), progress:
            options = parse_options(self.get_params(deep=False))
            with reread(blocks, target, sample_weight, groups) as source:
                fitted = fit_source(options, source, progress)
            assign(self, fitted)
            progress.end()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return f(X), of shape (n,) or (n, q) as y was; with return_std also its posterior standard deviation.

        X is a table, a dict (one row) or a list of dicts; ``schema`` says what a dict holds.

        With a target_transform, this is the conditional mean of the target, not the transformed-back mean of its
        transform: the mean of g^-1(f(x) + r) over held-out residuals r (smearing). The standard deviation describes
        this mean, to first order.

        The standard deviation describes f, without the noise of a new observation, in the Gaussian-process reading of
        the model. It grows away from the data. An exact fit needs the n x n kernel matrix of its rows for it.
        """
        X, threads = encoded(self, X), parse_threads(self.n_jobs)
        f = self.expansion_.predict(X, n_threads=threads)
        transform = self._fitted.transform
        values = self._shaped(f if transform is None else transform.mean(f))
        if not return_std:
            return values
        sd = self._posterior_sd(X)
        return values, self._shaped(sd if transform is None else transform.sd(f, sd))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Return lower and upper ends (n, 2), or (n, q, 2): a new observation lies between with this probability.

        Exact fits use jackknife+ over rows or groups in closed form, from the n x n kernel matrix of their rows;
        low-rank fits use CV+. Where later rows judge, forward residuals take their place. Widths are constant, follow
        the posterior standard deviation, or follow it and the local size of the noise: ``search_.interval_scale`` says
        which had the least interval score on held-out rows. Intervals are for new groups, and for rows whose precisions
        vary as in training. Ends are infinite, with a warning, if the training rows or groups are too few for the
        coverage. Outside the range of a feature, intervals also hold the straight continuation of the function, plus
        and minus its bend, up to the span of the function over the training rows; rows far outside trigger a warning.
        """
        check_probability("coverage", coverage)
        return self._shaped(predict_encoded(self, encoded(self, X), coverage)[1])

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeaveOneOut:
        """Return target, prediction without that row, and predictive standard deviation (n, q) of training rows.

        Closed forms give them, for the kernel and the penalty chosen on all rows. With groups, aggregated counts or
        given splits, the whole group or fold is left out; where later rows judge, only tested rows are returned. An
        exact fit keeps its rows, copies as one, in the order of ``expansion_.anchors`` (not of the table), and needs
        their n x n kernel matrix. A fit by solver="pcg" keeps the predictions of the fits without each fold. A low-rank
        fit does not keep its rows: give the training rows that you ask for, with their weights. It leaves out single
        rows, and raises ValueError if it has groups.
        """
        uncertainty, threads = self._uncertainty(), parse_threads(self.n_jobs)
        if isinstance(uncertainty, ExactUncertainty | IteratedUncertainty | ScoredUncertainty):
            return self._left_out_in_units(uncertainty.training_rows())
        assert isinstance(uncertainty, LowRankUncertainty)
        if X is None or y is None:
            raise ValueError("a low-rank model keeps no training rows to leave out: give them, leave_one_out(X, y)")
        rows, y = checked_rows(encoded(self, X), y)
        transform = fitted_of(self).transform
        Y = transformed(transform.name if isinstance(transform, TargetTransform) else None, y.reshape(len(y), -1))
        given = Observations(rows, Y, checked_weights(sample_weight, rows))
        values = self.expansion_.predict(rows, n_threads=threads)
        parts = [
            uncertainty.leave_one_out(given.some(some), values[some], k, prior, n_threads=threads)
            for some, k, prior in self._blocks(rows, uncertainty.points)
        ]
        names = ("target", "prediction", "sd", "weight")
        whole = LeaveOneOut(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        return self._left_out_in_units(whole)

    def _left_out_in_units(self, found: LeaveOneOut) -> LeaveOneOut:
        """Return targets, predictions and standard deviations in the units of the target."""
        transform = fitted_of(self).transform
        if transform is None:
            return found
        sd, target = transform.sd(found.prediction, found.sd), found.target
        target = transform.inverse(target) if isinstance(transform, TargetTransform) else target
        return replace(found, target=target, prediction=transform.mean(found.prediction), sd=sd)

    def _shaped(self, values: Floats) -> Floats:
        """Return values (n, q, ...) as (n, ...) if y had one dimension."""
        return values[:, 0] if self._fitted.flat else values


def predict_encoded(model: SalsaRegressor, X: Floats, coverage: float) -> tuple[Floats, Floats]:
    """Return predictions (n, q) and ends of intervals (n, q, 2) at encoded rows X (n, D); see ``predict_interval``."""
    values, intervals = _intervals(model, X, coverage)
    fitted = fitted_of(model)
    if (outside := find_outside(model.expansion_, X, n_threads=parse_threads(model.n_jobs))) is not None:
        at_nearest, sd = _intervals(model, outside.nearest, coverage)[1], model._posterior_sd(outside.nearest)
        intervals = widened(intervals, outside, at_nearest, sd, coverage)
    if isinstance(fitted.uncertainty, ScoredUncertainty):
        intervals = fitted.uncertainty.ends(intervals, coverage)
    if np.isinf(intervals).any():
        problem = f"there are too few training rows for intervals of coverage {coverage:g}"
        warn_user(f"{problem}: their ends are infinite", TooFewRowsWarning)
    transform = fitted.transform
    ends = transform.inverse(intervals) if isinstance(transform, TargetTransform) else intervals
    return in_units(model, values), ends


def _intervals(model: SalsaRegressor, X: Floats, coverage: float) -> tuple[Floats, Floats]:
    """Return f(X) (n, q) and intervals (n, q, 2), on the scale of learning."""
    uncertainty, threads = model._uncertainty(), parse_threads(model.n_jobs)
    values = model.expansion_.predict(X, n_threads=threads)
    parts = [
        uncertainty.interval(values[rows], k, prior, coverage, X[rows], n_threads=threads)
        for rows, k, prior in model._blocks(X, uncertainty.points)
    ]
    return values, np.concatenate(parts)


def in_units(model: SalsaRegressor, f: Floats) -> Floats:
    """Return the conditional mean of the target (n, q) where the fitted function is f (n, q)."""
    transform = fitted_of(model).transform
    return f if transform is None else transform.mean(f)
