"""Targets of a comparison: numbers or classes, and the scores of predicted probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from salsa._utils.arrays import Floats, Places
from salsa.data.targets import Labels, class_labels, kind_of_classes

AUTO, REGRESSION, CLASSIFICATION = "auto", "regression", "classification"
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)  # as in scikit-learn's log loss
SUM_TOLERANCE = 1e-4  # probabilities of some packages are in float32


class Target(NamedTuple):
    """The target of a comparison: numbers, or classes as they were given, with their numbers 0, 1, ..., K - 1."""

    y: NDArray[Any]  # (n,)
    labels: Labels | None = None

    @property
    def task(self) -> str:
        return REGRESSION if self.labels is None else CLASSIFICATION

    @property
    def coded(self) -> NDArray[Any]:
        """The target as methods of the registry learn it (n,)."""
        return self.y if self.labels is None else self.labels.code

    def learned(self, coded: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the target that a method learns, and its classes, as they were given or as their numbers."""
        if self.labels is None:
            return self.y, None
        classes, code = self.labels
        return (code, np.arange(len(classes))) if coded else (self.y, classes)


def find_task(y: Any, task: str = AUTO) -> str:
    """Return the task: the named one, or for "auto" classification if the target is text, boolean or categorical."""
    if task not in (AUTO, REGRESSION, CLASSIFICATION):
        raise ValueError(f"task={task!r} must be one of {AUTO}, {REGRESSION}, {CLASSIFICATION}")
    if task != AUTO:
        return task
    return REGRESSION if kind_of_classes(y) is None else CLASSIFICATION


def checked_target(X: Any, y: Any, task: str) -> Target:
    """Return the target of a comparison; ValueError if a row has no target, or if X has another number of rows."""
    if find_task(y, task) == CLASSIFICATION:
        labels = class_labels(y)
        check_consistent_length(X, labels.code)
        return Target(labels.classes[labels.code], labels)
    target: Floats = np.asarray(column_or_1d(y), dtype=np.float64)
    check_consistent_length(X, target)
    if not np.isfinite(target).all():
        place = int(np.flatnonzero(~np.isfinite(target))[0])
        raise ValueError(f"y is {target[place]} in row {place}; leave out rows without a target")
    return Target(target)


def check_counts(labels: Labels, folds: int) -> None:
    """Raise ValueError if a class has fewer rows than there are folds, so that a fold cannot hold one."""
    counts = np.bincount(labels.code)
    if counts.min() < folds:
        rare = labels.classes[counts.argmin()]
        problem = f"class {str(rare)!r} has {counts.min()} of {len(labels.code)} rows, and {folds} folds need {folds}"
        raise ValueError(f"y: {problem}: leave rare classes out, join them, or give fewer folds")


def probabilities(model: Any, X: Any, classes: NDArray[Any]) -> Floats:
    """Return the probabilities (n, classes) of a fitted model; classes that it has not seen have probability 0."""
    found = np.asarray(model.predict_proba(X), dtype=np.float64)
    seen = np.asarray(getattr(model, "classes_", classes))
    if found.ndim != 2 or found.shape[1] != len(seen):
        raise ValueError(f"predict_proba gives the shape {found.shape} for {len(seen)} classes")
    if not np.isfinite(found).all():
        raise ValueError(f"{int(np.sum(~np.isfinite(found).all(axis=1)))} of {len(found)} rows have no probabilities")
    if found.min() < -SUM_TOLERANCE or np.abs(found.sum(axis=1) - 1).max() > SUM_TOLERANCE:
        raise ValueError("predict_proba gives rows that are negative or do not sum to 1")
    placed = np.zeros((len(found), len(classes)))
    placed[:, np.searchsorted(classes, seen)] = found
    return placed


def log_losses(probability: Floats, code: Places) -> Floats:
    """Return -log p of the true class of every row (n,), with p at least LEAST_PROBABILITY."""
    true = probability[np.arange(len(code)), code]
    losses: Floats = -np.log(np.clip(true, LEAST_PROBABILITY, 1.0))
    return losses


def brier_scores(probability: Floats, code: Places) -> Floats:
    """Return the sum over classes of (p_k - [y = k])^2 of every row (n,), between 0 and 2."""
    true = np.eye(probability.shape[1])[code]
    scores: Floats = np.sum((probability - true) ** 2, axis=1)
    return scores


def true_class_score(model: Any, X: Any, y: Any) -> float:
    """Return minus the mean log loss of a fitted model on rows; a class that the model has not seen is allowed."""
    classes, code = np.unique(np.concatenate([model.classes_, y]), return_inverse=True)
    return -float(log_losses(probabilities(model, X, classes), code[len(model.classes_) :]).mean())
