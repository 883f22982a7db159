"""A leaderboard of methods on your own data: the same folds for all, errors with their standard errors, and times."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier

from salsa._utils.arrays import Floats, Places
from salsa._utils.jsonable import jsonable
from salsa.baselines.class_targets import (
    AUTO,
    CLASSIFICATION,
    REGRESSION,
    Target,
    brier_scores,
    checked_target,
    log_losses,
)
from salsa.baselines.comparison_display import ComparisonDisplay
from salsa.baselines.comparison_splits import checked_splits, group_codes, splits_inside
from salsa.baselines.cross_validation import Measured, Method, Task, run_all
from salsa.baselines.encoding import needs_encoding
from salsa.baselines.registry import find_rival
from salsa.baselines.transformed_target import checked_transform
from salsa.data.forward_folds import Split
from salsa.data.splits import parse_cv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Quick methods of every kind that need no additional package
FAST = ("salsa", "salsa-paper", "ridge", "lasso", "knn", "krr", "hist-gbrt")
FAST_CLASSIFIERS = ("salsa", "logistic", "naive-bayes", "knn", "hist-gbrt")
FIGURES = {REGRESSION: ("mse", "mse_se", "r2"), CLASSIFICATION: ("log_loss", "log_loss_se", "brier", "accuracy")}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of ``compare``.

    frame : data frame, a row per method, the smallest error first and failures last:
        method; mse, the mean over folds of the mean squared error, and mse_se, its standard error over folds; r2 of all
        held-out predictions together; fit_seconds and predict_seconds, means over folds; status: "ok", "timed out" or
        "failed: " and the reason.
        For classes, in place of mse, mse_se and r2: log_loss, the mean over folds of -log p of the true class, and
        log_loss_se, its standard error over folds; brier, the mean over all held-out rows of the sum over classes of
        (p_k - [y = k])^2; accuracy, the share of held-out rows whose most probable class is true.
    """

    frame: pd.DataFrame

    @property
    def error(self) -> str:
        """The column that methods are ordered by: "mse", or "log_loss" for classes."""
        return "log_loss" if "log_loss" in self.frame else "mse"

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return self.frame.to_string(index=False, float_format="{:.4g}".format, na_rep="")

    def _repr_html_(self) -> str:
        return self.frame.to_html(index=False, float_format="{:.4g}".format, na_rep="")

    @property
    def best(self) -> str:
        """The name of the method with the smallest error."""
        return str(self._finished()["method"].iloc[0])

    def to_json(self) -> str:
        """Return the rows as a JSON list; the numbers of a failed method are null."""
        return json.dumps(jsonable(self.frame.to_dict("records")))

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Plot the error of every finished method with one standard error on either side; the best method is on top."""
        return ComparisonDisplay(self._finished(), self.error).plot(ax)

    def _finished(self) -> pd.DataFrame:
        rows = self.frame[self.frame["status"] == "ok"]
        if rows.empty:
            raise ValueError(f"no method finished: {'; '.join(self.frame['method'] + ' ' + self.frame['status'])}")
        return rows


def compare(
    X: Any,
    y: Any,
    methods: Any = None,
    cv: Any = 5,
    *,
    task: str = AUTO,
    groups: Any = None,
    target_transform: str | None = None,
    time_limit: float | None = None,
    n_jobs: int = 1,
    random_state: int | None = 0,
    verbose: int = 0,
) -> Comparison:
    """Cross-validate methods on the same folds and return a leaderboard.

    Parameters
    ----------
    X : array or data frame of shape (n, D), y : array of shape (n,)
        For rivals given by name, categories become columns of 0 and 1, and missing numbers become medians. Estimators
        that you give get the rows unchanged; an estimator that cannot handle them is listed as failed.
    methods : None, sequence of names, or mapping of names to estimators
        Names in ``BASELINES``, "salsa" and "salsa-paper" are valid, for classes names in ``CLASSIFIERS`` and "salsa";
        None takes a few quick methods of every kind. Estimators of classes need ``predict_proba``.
    cv : int, splitter or iterable of (train, test), default=5
        A number means shuffled folds, which are stratified for classes; with groups, balanced folds of whole groups.
        All classes must be in the training rows of every split. A splitter whose training rows all
        precede its test rows, such as TimeSeriesSplit, also tunes the methods given by name: it splits the training
        rows of every fold again, so that later rows judge there, too. salsa takes all of these splits; rivals take the
        ones that train on at least half of the rows. Training rows too few for the splitter, and methods that do not
        take splits, keep shuffled folds.
    task : "auto", "regression" or "classification", default="auto"
        "auto" takes text, booleans and categories as classes, and numbers as numbers: classes that are numbers need
        "classification". Methods for classes are tuned and ordered by their log loss.
    groups : array of shape (n,), optional
        Labels of groups, which are held out whole. Methods whose ``fit`` takes groups get the labels of the training
        rows, unless all have one label; other methods given by name are tuned on folds of whole groups if they take
        splits.
    target_transform : None, "log", "log1p" or "sqrt", default=None
        Methods given by name learn this transform of the target. Predictions and errors are in its own units: means by
        smearing, with held-out residuals for salsa and residuals of the training rows for other methods.
    time_limit : float, optional
        Seconds that a method may take for all folds together. The method then runs in a separate process, which is
        killed after this time. Starting the process and importing packages do not count.
    n_jobs : int, default=1
        Number of methods that run at the same time, each on one thread in a separate process.
    random_state : int, default=0
        Shuffles the folds.
    verbose : int, default=0
        1 prints a line to standard error when a method is done; a terminal always gets these lines.
    """
    target = checked_target(X, y, task)
    chosen, n = _methods(methods, target), len(target.y)
    code = group_codes(groups, n)
    splits = checked_splits(parse_cv(cv), X, target, code, random_state)
    _check_transform(target, target_transform)
    _check_resources(time_limit, n_jobs)
    show, begin = bool(verbose) or sys.stderr.isatty(), time.perf_counter()
    rows: dict[str, dict[str, Any]] = {}
    told = splits_inside(cv, X, target, code, splits), needs_encoding(X), target_transform
    learned = [target.learned(coded=method.estimator is None) for method in chosen]
    tasks = [Task(method, X, y, splits, *told, classes) for method, (y, classes) in zip(chosen, learned, strict=True)]
    for measured in run_all(tasks, time_limit, n_jobs):
        rows[measured.name] = row = _row(measured, target, splits)
        if show:
            _say(row, f"{len(rows)} of {len(chosen)}, {time.perf_counter() - begin:.1f} s")
    in_order = pd.DataFrame([rows[method.name] for method in chosen])
    return Comparison(in_order.sort_values(FIGURES[target.task][0], kind="stable", ignore_index=True))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error sd / sqrt(k) of the mean of k independent values; NaN for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _row(measured: Measured, target: Target, splits: Sequence[Split]) -> dict[str, Any]:
    names = (*FIGURES[target.task], "fit_seconds", "predict_seconds")
    row: dict[str, Any] = {"method": measured.name, **dict.fromkeys(names, float("nan")), "status": measured.status}
    if not measured.folds:
        return row
    truth = [target.coded[test] for _, test in splits]
    predictions = [fold.prediction for fold in measured.folds]
    figures = _number_figures if target.labels is None else _class_figures
    return row | {
        **figures(predictions, truth),
        "fit_seconds": float(np.mean([fold.fit_seconds for fold in measured.folds])),
        "predict_seconds": float(np.mean([fold.predict_seconds for fold in measured.folds])),
    }


def _number_figures(predictions: Sequence[Floats], truth: Sequence[Floats]) -> dict[str, float]:
    losses = [(found - values) ** 2 for found, values in zip(predictions, truth, strict=True)]
    errors = [float(loss.mean()) for loss in losses]
    variance = float(np.var(np.concatenate(truth)))
    r2 = 1 - float(np.concatenate(losses).mean()) / variance if variance > 0 else float("nan")
    return {"mse": float(np.mean(errors)), "mse_se": standard_error(errors), "r2": r2}


def _class_figures(predictions: Sequence[Floats], truth: Sequence[Places]) -> dict[str, float]:
    errors = [float(log_losses(found, code).mean()) for found, code in zip(predictions, truth, strict=True)]
    probability, code = np.concatenate(predictions), np.concatenate(truth)
    return {
        "log_loss": float(np.mean(errors)),
        "log_loss_se": standard_error(errors),
        "brier": float(brier_scores(probability, code).mean()),
        "accuracy": float(np.mean(probability.argmax(axis=1) == code)),
    }


def _say(row: dict[str, Any], where: str) -> None:
    error = "log_loss" if "log_loss" in row else "mse"
    figures = f"{error.replace('_', ' ')} {row[error]:.4g} +- {row[f'{error}_se']:.2g}"
    result = figures if row["status"] == "ok" else row["status"]
    print(f"[salsa] {row['method']}: {result} ({where})", file=sys.stderr, flush=True)


def _methods(methods: Any, target: Target) -> list[Method]:
    """Return the methods; an unknown name is refused before any method runs."""
    task = target.task
    if isinstance(methods, Mapping):
        chosen = [Method(str(name), _estimator(name, value, task), task) for name, value in methods.items()]
    else:
        fast = FAST if task == REGRESSION else FAST_CLASSIFIERS
        names = fast if methods is None else [methods] if isinstance(methods, str) else list(methods)
        chosen = [Method(name, task=task) for name in dict.fromkeys(find_rival(name, task).name for name in names)]
    if not chosen:
        raise ValueError("methods is empty: name at least one method, or leave methods out for a few quick ones")
    return chosen


def _estimator(name: Any, value: Any, task: str) -> Any:
    if isinstance(value, type) or not (hasattr(value, "fit") and hasattr(value, "predict")):
        raise ValueError(f"methods: {name!r} is not an estimator: give an object with the methods fit and predict")
    if task == REGRESSION and _classifies(value):
        raise ValueError(f"methods: {name!r} is a classifier, and y is a number: give task='classification'")
    if task == CLASSIFICATION and not hasattr(value, "predict_proba"):
        raise ValueError(f"methods: {name!r} has no predict_proba, which classes need: give a classifier that has it")
    return value


def _classifies(estimator: Any) -> bool:
    return hasattr(estimator, "predict_proba") or (isinstance(estimator, BaseEstimator) and is_classifier(estimator))


def _check_transform(target: Target, transform: str | None) -> None:
    """Raise ValueError for a transform of classes, or of numbers outside its domain."""
    if transform is not None and target.labels is not None:
        raise ValueError(f"target_transform={transform!r} is for numbers; y has classes: leave it out")
    if transform is not None:
        checked_transform(target.y, transform)


def _check_resources(time_limit: float | None, n_jobs: int) -> None:
    if time_limit is not None and not 0 < time_limit < np.inf:
        raise ValueError(f"time_limit={time_limit!r} must be a positive number of seconds, or None for no limit")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of processes, at least 1")
