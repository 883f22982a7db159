"""One method on all folds: its held-out predictions and times, or the reason of its failure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

from salsa._utils.arrays import Floats, Places
from salsa.baselines.encoding import TableEncoder
from salsa.baselines.processes import OK, ask_all, failure
from salsa.baselines.registry import find_rival, make_baseline

Split = tuple[Places, Places]  # rows to train on, rows to test


class Method(NamedTuple):
    """A method: a name in the registry, or an estimator with a name."""

    name: str
    estimator: Any = None

    def make(self, encoded: bool = False) -> Any:
        """Make a new estimator; if `encoded`, a rival from the registry gets the table as numbers."""
        if self.estimator is not None:
            return clone(self.estimator, safe=False)
        model = make_baseline(self.name)
        return make_pipeline(TableEncoder(), model) if encoded and not find_rival(self.name).ours else model


class Task(NamedTuple):
    """A method with the table and the splits to measure it on."""

    method: Method
    X: Any
    y: Floats
    splits: Sequence[Split]
    encoded: bool = False


class Fold(NamedTuple):
    prediction: Floats  # (test rows,)
    fit_seconds: float
    predict_seconds: float


class Measured(NamedTuple):
    """The result of one method: a fold for every split, or no fold if the method did not finish."""

    name: str
    status: str
    folds: tuple[Fold, ...] = ()


def run_all(tasks: Sequence[Task], time_limit: float | None, n_jobs: int) -> Iterator[Measured]:
    """Yield the result of every task as it finishes; tasks run in this process if n_jobs is 1 and there is no limit."""
    if time_limit is None and n_jobs == 1:
        yield from map(run, tasks)
        return
    with closing(ask_all([partial(_run_apart, task) for task in tasks], time_limit, n_jobs)) as answers:
        for number, answer in answers:
            yield Measured(tasks[number].method.name, answer) if isinstance(answer, str) else answer


def _run_apart(task: Task, begin: Callable[[], None]) -> Measured:
    task.method.make()  # imports the packages of the method
    begin()
    return run(task)


def run(task: Task) -> Measured:
    """Fit and predict on every split, on one thread; an error becomes the status, warnings are not shown."""
    method, X, y, splits, encoded = task
    try:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            return Measured(method.name, OK, tuple(_fold(method.make(encoded), X, y, *split) for split in splits))
    except Exception as error:  # an error in one method must not stop the other methods
        return Measured(method.name, failure(error))


def _fold(model: Any, X: Any, y: Floats, train: Places, test: Places) -> Fold:
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    begin = time.perf_counter()
    model.fit(X_train, y[train])
    fitted = time.perf_counter()
    prediction = np.asarray(model.predict(X_test), dtype=np.float64)
    end = time.perf_counter()
    if prediction.size != len(test):
        raise ValueError(f"predictions have shape {prediction.shape} for {len(test)} rows")
    if not np.isfinite(prediction).all():
        raise ValueError(f"{int(np.sum(~np.isfinite(prediction)))} of {len(test)} predictions are not finite")
    return Fold(prediction.ravel(), fitted - begin, end - fitted)
