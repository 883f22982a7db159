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
from sklearn.model_selection import KFold
from sklearn.utils import check_consistent_length, column_or_1d

from salsa._utils.arrays import Floats, Places
from salsa._utils.jsonable import jsonable
from salsa.baselines.cross_validation import Inside, Measured, Method, Task, run_all
from salsa.baselines.encoding import needs_encoding
from salsa.baselines.registry import find_rival
from salsa.baselines.transformed_target import checked_transform
from salsa.baselines.tuning import N_FOLDS, SEED
from salsa.data.forward_folds import Split, forward_inside
from salsa.data.splits import check_whole, is_number, parse_cv, shuffled_folds, split_rows
from salsa.data.targets import checked_groups, telling_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Quick methods of every kind that need no additional package
FAST = ("salsa", "salsa-paper", "ridge", "lasso", "knn", "krr", "hist-gbrt")
COLUMNS = ("method", "mse", "mse_se", "r2", "fit_seconds", "predict_seconds", "status")
WIDE_RANGE = 20.0  # ratio of the largest to the smallest error above which the axis is logarithmic


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of ``compare``.

    frame : data frame, a row per method, the smallest error first and failures last:
        method; mse, the mean over folds of the mean squared error, and mse_se, its standard error over folds; r2 of all
        held-out predictions together; fit_seconds and predict_seconds, means over folds; status: "ok", "timed out" or
        "failed: " and the reason.
    """

    frame: pd.DataFrame

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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the error of every finished method with one standard error on either side; the best method is on top."""
        from salsa._utils.drawing import DARK, axes_or_new, label, name_ticks

        rows = self._finished()[::-1]
        with axes_or_new(ax, 6.5, 1.2 + 0.3 * len(rows)) as axes:
            mse, se = rows["mse"].to_numpy(), rows["mse_se"].fillna(0.0).to_numpy()
            axes.errorbar(mse, np.arange(len(rows)), xerr=se, fmt="o", color=DARK, capsize=2, markersize=5)
            axes.set_ylim(-0.6, len(rows) - 0.4)
            if mse.min() > 0 and mse.max() > WIDE_RANGE * mse.min():
                axes.set_xscale("log", nonpositive="clip")
            axes.set_xlabel("mean squared error, ± one standard error over folds")
            name_ticks(axes, "y", [label(name) for name in rows["method"]])
        return axes

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
        Names in ``BASELINES``, "salsa" and "salsa-paper" are valid; None takes a few quick methods of every kind.
    cv : int, splitter or iterable of (train, test), default=5
        A number means shuffled folds; with groups, balanced folds of whole groups. A splitter whose training rows all
        precede its test rows, such as TimeSeriesSplit, also tunes the methods given by name: it splits the training
        rows of every fold again, so that later rows judge there, too. salsa takes all of these splits; rivals take the
        ones that train on at least half of the rows. Training rows too few for the splitter, and methods that do not
        take splits, keep shuffled folds.
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
    y, chosen = _target(X, y), _methods(methods)
    code = _group_codes(groups, len(y))
    splits = _splits(parse_cv(cv), X, y, code, random_state)
    if target_transform is not None:
        checked_transform(y, target_transform)  # refuses targets outside its domain
    _check_resources(time_limit, n_jobs)
    show, begin = bool(verbose) or sys.stderr.isatty(), time.perf_counter()
    rows: dict[str, dict[str, Any]] = {}
    told = _inside(cv, X, y, code, splits), needs_encoding(X), target_transform
    for measured in run_all([Task(method, X, y, splits, *told) for method in chosen], time_limit, n_jobs):
        rows[measured.name] = row = _row(measured, y, splits)
        if show:
            _say(row, f"{len(rows)} of {len(chosen)}, {time.perf_counter() - begin:.1f} s")
    in_order = pd.DataFrame([rows[method.name] for method in chosen], columns=list(COLUMNS))
    return Comparison(in_order.sort_values("mse", kind="stable", ignore_index=True))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error sd / sqrt(k) of the mean of k independent values; NaN for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _row(measured: Measured, y: Floats, splits: Sequence[Split]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS, float("nan")) | {"method": measured.name, "status": measured.status}
    if not measured.folds:
        return row
    truth = [y[test] for _, test in splits]
    losses = [(fold.prediction - values) ** 2 for fold, values in zip(measured.folds, truth, strict=True)]
    errors = [float(loss.mean()) for loss in losses]
    variance = float(np.var(np.concatenate(truth)))
    return row | {
        "mse": float(np.mean(errors)),
        "mse_se": standard_error(errors),
        "r2": 1 - float(np.concatenate(losses).mean()) / variance if variance > 0 else float("nan"),
        "fit_seconds": float(np.mean([fold.fit_seconds for fold in measured.folds])),
        "predict_seconds": float(np.mean([fold.predict_seconds for fold in measured.folds])),
    }


def _say(row: dict[str, Any], where: str) -> None:
    result = f"mse {row['mse']:.4g} +- {row['mse_se']:.2g}" if row["status"] == "ok" else row["status"]
    print(f"[salsa] {row['method']}: {result} ({where})", file=sys.stderr, flush=True)


def _methods(methods: Any) -> list[Method]:
    """Return the methods; an unknown name is refused before any method runs."""
    if isinstance(methods, Mapping):
        chosen = [Method(str(name), _estimator(name, value)) for name, value in methods.items()]
    else:
        names = FAST if methods is None else [methods] if isinstance(methods, str) else list(methods)
        chosen = [Method(name) for name in dict.fromkeys(find_rival(name).name for name in names)]
    if not chosen:
        raise ValueError("methods is empty: name at least one method, or leave methods out for a few quick ones")
    return chosen


def _estimator(name: Any, value: Any) -> Any:
    if isinstance(value, type) or not (hasattr(value, "fit") and hasattr(value, "predict")):
        raise ValueError(f"methods: {name!r} is not an estimator: give an object with the methods fit and predict")
    return value


def _target(X: Any, y: Any) -> Floats:
    target: Floats = np.asarray(column_or_1d(y), dtype=np.float64)
    check_consistent_length(X, target)
    if not np.isfinite(target).all():
        place = int(np.flatnonzero(~np.isfinite(target))[0])
        raise ValueError(f"y is {target[place]} in row {place}; leave out rows without a target")
    return target


def _group_codes(groups: Any, n: int) -> Places | None:
    """Return numbers 0, 1, ... of the groups, in the order of their first rows; None without groups."""
    found = telling_groups(checked_groups(groups, n))
    return None if found is None else pd.factorize(found.code)[0]


def _splits(cv: Any, X: Any, y: Floats, code: Places | None, random_state: int | None) -> list[Split]:
    n = len(y)
    if is_number(cv):
        count, what = (n, "row") if code is None else (int(code.max()) + 1, "group")
        if cv > count:
            raise ValueError(f"cv={cv}: there are only {count} {what}s; give at most one fold per {what}")
        if code is not None:
            return _group_folds(code, int(cv), random_state)
        cv = KFold(int(cv), shuffle=True, random_state=random_state)
    splits = split_rows(cv, X, y, code, n)
    if not splits or any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError("cv: every split needs rows to train on and rows to test; there must be at least one split")
    if code is not None:
        for place, (train, test) in enumerate(splits):
            check_whole(place, code[train], code[test])
    return splits


def _group_folds(code: Places, count: int, random_state: int | None) -> list[Split]:
    """Return shuffled folds of whole groups, of about equal numbers of rows."""
    folds = shuffled_folds(len(code), count, random_state, code)
    return [(np.setdiff1d(np.arange(len(code)), fold.held_out), fold.held_out) for fold in folds]


def _inside(cv: Any, X: Any, y: Floats, code: Places | None, splits: Sequence[Split]) -> list[Inside]:
    """Return for every split what methods are told of its training rows."""
    if code is None:
        return [Inside(folds) for folds in forward_inside(cv, splits, X, y)]
    return [_grouped(pd.factorize(code[train])[0]) for train, _ in splits]


def _grouped(code: Places) -> Inside:
    several = len(code) > 0 and code.max() > 0
    return Inside(_group_folds(code, N_FOLDS, SEED), code) if several else Inside()


def _check_resources(time_limit: float | None, n_jobs: int) -> None:
    if time_limit is not None and not 0 < time_limit < np.inf:
        raise ValueError(f"time_limit={time_limit!r} must be a positive number of seconds, or None for no limit")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of processes, at least 1")
