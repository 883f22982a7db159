"""The checks of two models that are to be compared: columns, kinds, classes, targets, and rows new to both."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.listing import some_of
from salsa.data.columns import Columns
from salsa.data.copies import row_hashes
from salsa.explain.report.judging_rows import Evidence, kept_targets
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.losses import Quantile
from salsa.uncertainty.scored import ScoredUncertainty

FEWEST_ROWS = 10
NAMES = ("Model A", "Model B")


def check_pair(models: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return the two models of a list; ValueError if there are others, or no rows with targets to judge them."""
    if len(models) != 2:
        raise ValueError(f"a comparison is of two models, not of {len(models)}: give a list of two fitted models")
    if X is None or y is None:
        raise ValueError("a comparison needs rows that neither model has seen: give X and y")
    return models[0], models[1]


def check_columns(one: Columns, other: Columns) -> None:
    """Raise ValueError if two tables have different columns, or a column of different kinds."""
    for first, second, name in ((one, other, NAMES[0]), (other, one, NAMES[1])):
        if alone := [column for column in first.table if column not in second.table]:
            raise ValueError(f"the models cannot be compared: only {name} has the columns {some_of(alone)}")
    for column in one.table:
        kinds = [_kind(columns, column) for columns in (one, other)]
        if kinds[0] != kinds[1]:
            said = " and ".join(f"a {kind} for {name}" for kind, name in zip(kinds, NAMES, strict=True))
            raise ValueError(f"the models cannot be compared: column {column!r} is {said}; fit both to one table")


def _kind(columns: Columns, column: str) -> str:
    j = int(columns.first[columns.table.index(column)])
    part = columns.all_parts[j]
    if part is not None:
        return "duration" if part.name == "duration" else "date"
    return "number" if columns.levels[j] is None else "category"


def check_targets(one: Any, other: Any) -> None:
    """Raise ValueError if two models predict different things: classes and numbers, or other classes or quantiles."""
    classes = [fitted_of(model).classes for model in (one, other)]
    kinds = ["numbers" if labels is None else f"the classes {some_of(labels.tolist())}" for labels in classes]
    if kinds[0] != kinds[1]:
        raise ValueError(f"the models cannot be compared: {NAMES[0]} predicts {kinds[0]}, {NAMES[1]} {kinds[1]}")
    levels = [_level(model) for model in (one, other)]
    if levels[0] != levels[1]:
        said = ["the mean" if level is None else f"the quantile {level:g}" for level in levels]
        raise ValueError(f"the models cannot be compared: {NAMES[0]} predicts {said[0]}, {NAMES[1]} {said[1]}")
    outputs = [model.expansion_.coef.shape[1] for model in (one, other)]
    if outputs[0] != outputs[1]:
        raise ValueError(
            f"the models cannot be compared: they have {outputs[0]} and {outputs[1]} outputs; fit both to one target"
        )


def _level(model: Any) -> float | None:
    kept = fitted_of(model).uncertainty
    return kept.loss.level if isinstance(kept, ScoredUncertainty) and isinstance(kept.loss, Quantile) else None


def check_training_targets(models: tuple[Any, Any], subjects: tuple[Subject, Subject], found: list[Evidence]) -> None:
    """Raise ValueError if rows that both models were fitted to have different targets in most cases."""
    known = [_targets_by_row(*parts) for parts in zip(models, subjects, found, strict=True)]
    shared = [(known[0][row], known[1][row]) for row in known[0].keys() & known[1].keys()]
    if not shared:
        return
    one, other = np.array(shared).T
    apart = np.abs(one - other) > 1e-6 * max(np.ptp(one), np.ptp(other))
    if apart.mean() > 0.5:
        first = int(apart.argmax())
        raise ValueError(
            f"the models cannot be compared: they were fitted to different targets; a row that both know has the target"
            f" {one[first]:.4g} for {NAMES[0]} and {other[first]:.4g} for {NAMES[1]}"
        )


def _targets_by_row(model: Any, subject: Subject, evidence: Evidence) -> dict[int, float]:
    """Return the target of each training row by the hash of the row, in the order of the table's columns by name."""
    targets = kept_targets(model, subject, evidence)
    known = ~np.isnan(targets)
    order = np.argsort(np.array(subject.columns.names, dtype=object), kind="stable")
    anchors: Floats = np.ascontiguousarray(subject.expansion.anchors[known][:, order])
    return dict(zip(row_hashes(anchors).tolist(), targets[known].tolist(), strict=True)) if len(anchors) else {}


def common_rows(found: list[Evidence]) -> Places:
    """Return the places of the given rows that neither model has seen; ValueError for fewer than ten."""
    places = np.intersect1d(found[0].places, found[1].places)
    if len(places) < FEWEST_ROWS:
        known = max(evidence.known for evidence in found)
        raise ValueError(
            f"a comparison needs {FEWEST_ROWS} rows or more that neither model has seen; X has {len(places)} such rows,"
            f" and {known} training rows of a model"
        )
    return places
