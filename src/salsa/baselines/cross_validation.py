"""One method on all folds: its held-out predictions and times, or the reason of its failure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

from salsa._utils.arrays import Floats, Places
from salsa.baselines.class_targets import REGRESSION, probabilities
from salsa.baselines.encoding import TableEncoder
from salsa.baselines.processes import OK, ask_all, failure
from salsa.baselines.registry import find_rival, make_baseline
from salsa.baselines.transformed_target import TransformedTarget
from salsa.baselines.tuning import N_FOLDS
from salsa.data.forward_folds import Split


class Inside(NamedTuple):
    """Folds and groups inside the training rows of a split, so that a method tunes itself as it is judged."""

    folds: Sequence[Split] | None = None  # None: the method's own
    groups: Places | None = None  # (training rows,)

    def for_rivals(self) -> Sequence[Split] | None:
        """Return the folds that train on at least half of the rows: grids were made for no fewer."""
        if self.folds is None:
            return None
        rows = 1 + max(int(test.max()) for _, test in self.folds)
        return [split for split in self.folds if 2 * len(split[0]) >= rows] or None


OWN_FOLDS = Inside()


class Method(NamedTuple):
    """A method: a name in the registry, or an estimator with a name; and whether it predicts numbers or classes."""

    name: str
    estimator: Any = None
    task: str = REGRESSION

    def make(self, encoded: bool = False, inside: Inside = OWN_FOLDS, transform: str | None = None) -> Any:
        """Make a new estimator.

        If `encoded`, a rival from the registry gets the table as numbers. `inside` sets the folds that a method of the
        registry tunes itself on, unless it takes groups. An estimator with a name is made as it was given.
        """
        if self.estimator is not None:
            return clone(self.estimator, safe=False)
        model, ours = make_baseline(self.name, self.task), find_rival(self.name, self.task).ours
        if (folds := _folds(model, inside, ours)) is not None:
            model.set_params(**dict.fromkeys(_fold_parameters(model), folds))
        if transform is not None:
            model = model.set_params(target_transform=transform) if ours else TransformedTarget(model, transform)
        return make_pipeline(TableEncoder(), model) if encoded and not ours else model


class Task(NamedTuple):
    """A method with the table and the splits to measure it on.

    Estimators learn y as it was given. Methods of the registry learn classes as numbers 0, 1, ..., K - 1.
    """

    method: Method
    X: Any
    y: NDArray[Any]  # (n,)
    splits: Sequence[Split]
    inside: Sequence[Inside]  # one per split
    encoded: bool = False
    transform: str | None = None
    classes: NDArray[Any] | None = None  # ascending; None: the target is a number


class Fold(NamedTuple):
    prediction: Floats  # (test rows,); for classes the probabilities (test rows, classes)
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
    method, X, y, splits = task[:4]
    try:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            folds = []
            for split, inside in zip(splits, task.inside, strict=True):
                model = method.make(task.encoded, inside, task.transform)
                groups = {"groups": inside.groups} if inside.groups is not None and takes_groups(model) else {}
                folds.append(_fold(model, X, y, *split, groups, task.classes))
            return Measured(method.name, OK, tuple(folds))
    except Exception as error:  # an error in one method must not stop the other methods
        return Measured(method.name, failure(error))


def takes_groups(model: Any) -> bool:
    """Return whether fit has an argument of the name groups."""
    return "groups" in signature(model.fit).parameters


def _folds(model: Any, inside: Inside, ours: bool) -> Sequence[Split] | None:
    """Return the folds to set; None for a method that gets groups, from which it makes folds itself."""
    if inside.groups is not None and takes_groups(model):
        return None
    return inside.folds if ours else inside.for_rivals()


def _fold_parameters(model: Any) -> list[str]:
    """Return the parameters that hold the folds of the registry: five shuffled folds, by number or as a splitter."""
    found = model.get_params().items()
    return [name for name, value in found if name.split("__")[-1] == "cv" and _is_default(value)]


def _is_default(cv: Any) -> bool:
    return isinstance(cv, KFold | StratifiedKFold) or (isinstance(cv, int) and cv == N_FOLDS)


def _fold(
    model: Any,
    X: Any,
    y: NDArray[Any],
    train: Places,
    test: Places,
    groups: dict[str, Places],
    classes: NDArray[Any] | None,
) -> Fold:
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    begin = time.perf_counter()
    model.fit(X_train, y[train], **groups)
    fitted = time.perf_counter()
    prediction = _numbers(model, X_test, len(test)) if classes is None else probabilities(model, X_test, classes)
    end = time.perf_counter()
    return Fold(prediction, fitted - begin, end - fitted)


def _numbers(model: Any, X: Any, n: int) -> Floats:
    """Return the predictions (n,) of a fitted model; ValueError if they have another shape or are not finite."""
    prediction = np.asarray(model.predict(X), dtype=np.float64)
    if prediction.size != n:
        raise ValueError(f"predictions have shape {prediction.shape} for {n} rows")
    if not np.isfinite(prediction).all():
        raise ValueError(f"{int(np.sum(~np.isfinite(prediction)))} of {n} predictions are not finite")
    return prediction.ravel()
