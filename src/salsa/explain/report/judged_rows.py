"""Rows that the predicting model did not see: how far off each prediction is, and whether its interval held."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils import _safe_indexing

from salsa._utils.arrays import Floats, Places
from salsa.explain.report.held_out_groups import telling_units
from salsa.explain.report.held_out_rows import HeldOutRows, interval_rows
from salsa.explain.report.judging_rows import Evidence, Given
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import Subject, interval_ends
from salsa.fitted import fitted_of
from salsa.losses import Quantile
from salsa.uncertainty.scored import ScoredUncertainty

LEVEL = 0.9  # the intended coverage of intervals and sets of classes
FEWEST_ROWS = 10

Truths = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class JudgedRows(NamedTuple):
    """Held-out rows of one kind, with equal weights: n rows with targets and predictions in the target's units."""

    is_new: bool
    observed: Floats  # (n,), or the numbers of the classes
    predicted: Floats  # (n,), or the numbers of the most probable classes
    right: Truths | None  # (n,) whether the most probable class is the true one; None for numbers
    sure: Floats | None  # (n,) the largest probability of a class; None for numbers
    holds: Truths | None  # (m,) whether the interval, or the set of classes, holds the target; None without intervals
    width: Floats | None  # (m,) lengths of the intervals, or numbers of classes in the sets
    X: Floats | None  # (n, D), encoded; None if the rows are not known
    level: float | None = None  # the model predicts this quantile; None: a mean, or classes
    by_construction: bool = False  # these rows set the ends of the intervals
    anchored: bool = False  # a low-rank model: new rows may be training rows that are no anchors
    unit: Places | None = None  # (n,) rows of a unit, such as a group, may depend on each other
    at: Places | None = None  # (m,) the rows whose intervals were computed; None: all
    grouped: bool = False  # training rows: the fits without them are fits without their groups

    @property
    def off(self) -> Floats:
        """The distance (n,) of predictions from targets; for classes, 1 where the predicted class is wrong."""
        return np.abs(self.observed - self.predicted) if self.right is None else np.where(self.right, 0.0, 1.0)

    def checked(self, values: NDArray[T]) -> NDArray[T]:
        """Return the values (m,) of the rows whose intervals were computed, from values (n,) of all rows."""
        return values if self.at is None else values[self.at]


def judged_rows(model: Any, subject: Subject, given: Given, evidence: Evidence, output: int) -> JudgedRows | None:
    """Return the new rows if there are ten or more, else the training rows, predicted by fits without them."""
    new, training = evidence.new, evidence.training
    if new is not None and _count(new) >= FEWEST_ROWS:
        return _new_rows(model, given, evidence, output)._replace(unit=new.unit)
    if training is None or _count(training) < FEWEST_ROWS:
        return None
    kept, X = fitted_of(model).uncertainty, subject.expansion.anchors
    if isinstance(training, ScoredRows):
        assert isinstance(kept, ScoredUncertainty)
        rows = X[kept.held_out.row] if kept.keeps_rows else None
        ends = None if training.is_classes else _scored_ends(kept, training)
    else:
        rows = X if len(X) == _count(training) else None  # the first rows have no prediction if later rows judge
        ends = _normal_ends(training)
    judged = _judged(model, training, rows, ends, is_new=False)
    return judged._replace(unit=training.unit, grouped=True) if evidence.groups else judged


def _count(rows: HeldOutRows | ScoredRows) -> int:
    return len(rows.f if isinstance(rows, ScoredRows) else rows.observed)


def _new_rows(model: Any, given: Given, evidence: Evidence, output: int) -> JudgedRows:
    """Judge the new rows; intervals of ``predict_interval`` are slow, and computed for some of them."""
    rows = evidence.new
    assert rows is not None
    assert given.X is not None
    X, at = given.X[evidence.places], interval_rows(_count(rows))
    if evidence.no_bands is not None or fitted_of(model).classes is not None:
        judged = _judged(model, rows, X, None, is_new=True)
    else:
        ends = interval_ends(model, _safe_indexing(given.table, evidence.places[at]), [LEVEL])[0, :, output]
        judged = _judged(model, rows, X, ends, is_new=True, at=at if len(at) < _count(rows) else None)
    return judged._replace(anchored=evidence.anchored)


def chosen_rows(rows: HeldOutRows | ScoredRows, at: Places) -> HeldOutRows | ScoredRows:
    """Return some of these rows."""
    unit = None if rows.unit is None else telling_units(rows.unit[at])
    if isinstance(rows, ScoredRows):
        parts = (rows.target[at], rows.f[at], rows.weight[at], rows.counts[at])
        return ScoredRows(rows.loss, *parts, unit)
    return HeldOutRows(rows.observed[at], rows.predicted[at], rows.weight[at], unit=unit)


def _judged(
    model: Any,
    rows: HeldOutRows | ScoredRows,
    X: Floats | None,
    ends: Floats | None,
    *,
    is_new: bool,
    at: Places | None = None,
) -> JudgedRows:
    """Judge rows with the ends (m, 2) of the intervals of the rows `at`, or of all rows; classes have sets instead."""
    if isinstance(rows, ScoredRows) and rows.is_classes:
        return _judged_classes(model, rows, X, is_new)
    y = rows.observed if at is None else rows.observed[at]
    holds = None if ends is None else (ends[:, 0] <= y) & (y <= ends[:, 1])
    width = None if ends is None else ends[:, 1] - ends[:, 0]
    is_scored = isinstance(rows, ScoredRows)
    level = rows.loss.level if isinstance(rows, ScoredRows) and isinstance(rows.loss, Quantile) else None
    constructed = is_scored and not is_new
    judged = JudgedRows(is_new, rows.observed, rows.predicted, None, None, holds, width, X, level, constructed)
    return judged._replace(at=at)


def _judged_classes(model: Any, rows: ScoredRows, X: Floats | None, is_new: bool) -> JudgedRows:
    kept = fitted_of(model).uncertainty
    assert isinstance(kept, ScoredUncertainty)
    p = rows.probabilities
    found, chosen = p.argmax(axis=1), p >= kept.least_probability(LEVEL)
    holds, sizes = chosen[np.arange(len(p)), rows.code], chosen.sum(axis=1).astype(np.float64)
    right, predicted = found == rows.code, found.astype(np.float64)
    return JudgedRows(is_new, rows.observed, predicted, right, p.max(axis=1), holds, sizes, X, None, not is_new)


def _normal_ends(rows: HeldOutRows) -> Floats | None:
    """Return the ends (n, 2) of normal intervals around leave-one-out predictions; None without deviations."""
    if rows.sd is None or not (rows.sd > 0).all():
        return None
    reach = norm.ppf(0.5 + 0.5 * LEVEL) * rows.sd
    return np.column_stack([rows.predicted - reach, rows.predicted + reach])


def _scored_ends(kept: ScoredUncertainty, rows: ScoredRows) -> Floats:
    ends: Floats = kept.ends(np.repeat(rows.f[..., None], 2, axis=-1), LEVEL)[:, 0]
    return ends
