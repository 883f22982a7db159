"""Rows that the predicting model did not see: how far off each prediction is, and whether its interval held."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils import _safe_indexing

from salsa._utils.arrays import Floats, Places
from salsa.explain.report.held_out_rows import INTERVAL_ROWS, HeldOutRows
from salsa.explain.report.judging_rows import Evidence, Given
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import Subject, interval_ends
from salsa.fitted import fitted_of
from salsa.losses import Quantile
from salsa.uncertainty.scored import ScoredUncertainty

LEVEL = 0.9  # the intended coverage of intervals and sets of classes
FEWEST_ROWS = 10

Truths = NDArray[np.bool_]


class JudgedRows(NamedTuple):
    """Held-out rows of one kind, with equal weights: n rows with targets and predictions in the target's units."""

    is_new: bool
    observed: Floats  # (n,), or the numbers of the classes
    predicted: Floats  # (n,), or the numbers of the most probable classes
    right: Truths | None  # (n,) whether the most probable class is the true one; None for numbers
    sure: Floats | None  # (n,) the largest probability of a class; None for numbers
    holds: Truths | None  # (n,) whether the interval, or the set of classes, holds the target; None without intervals
    width: Floats | None  # (n,) lengths of the intervals, or numbers of classes in the sets
    X: Floats | None  # (n, D), encoded; None if the rows are not known
    level: float | None = None  # the model predicts this quantile; None: a mean, or classes
    by_construction: bool = False  # these rows set the ends of the intervals
    anchored: bool = False  # a low-rank model: new rows may be training rows that are no anchors

    @property
    def off(self) -> Floats:
        """The distance (n,) of predictions from targets; for classes, 1 where the predicted class is wrong."""
        return np.abs(self.observed - self.predicted) if self.right is None else np.where(self.right, 0.0, 1.0)


def judged_rows(model: Any, subject: Subject, given: Given, evidence: Evidence, output: int) -> JudgedRows | None:
    """Return the new rows if there are ten or more, else the training rows, predicted by fits without them."""
    new, training = evidence.new, evidence.training
    if new is not None and _count(new) >= FEWEST_ROWS:
        return _new_rows(model, given, evidence, output)
    if training is None or _count(training) < FEWEST_ROWS:
        return None
    kept, X = fitted_of(model).uncertainty, subject.expansion.anchors
    if isinstance(training, ScoredRows):
        assert isinstance(kept, ScoredUncertainty)
        rows = X[kept.held_out.row] if kept.keeps_rows else None
        ends = None if training.is_classes else _scored_ends(kept, training)
        return _judged(model, training, rows, ends, is_new=False)
    rows = X if len(X) == _count(training) else None  # the first rows have no prediction if later rows judge
    return _judged(model, training, rows, _normal_ends(training), is_new=False)


def _count(rows: HeldOutRows | ScoredRows) -> int:
    return len(rows.f if isinstance(rows, ScoredRows) else rows.observed)


def _new_rows(model: Any, given: Given, evidence: Evidence, output: int) -> JudgedRows:
    """Judge the new rows, at most INTERVAL_ROWS of them, by the intervals of ``predict_interval``."""
    rows = evidence.new
    assert rows is not None
    assert given.X is not None
    at = np.unique(np.linspace(0, _count(rows) - 1, INTERVAL_ROWS).astype(np.intp))
    places = evidence.places[at]
    ends = None
    if evidence.no_bands is None and fitted_of(model).classes is None:
        ends = interval_ends(model, _safe_indexing(given.table, places), [LEVEL])[0, :, output]
    judged = _judged(model, chosen_rows(rows, at), given.X[places], ends, is_new=True)
    return judged._replace(anchored=evidence.anchored)


def chosen_rows(rows: HeldOutRows | ScoredRows, at: Places) -> HeldOutRows | ScoredRows:
    """Return some of these rows."""
    if isinstance(rows, ScoredRows):
        parts = (rows.target[at], rows.f[at], rows.weight[at], rows.counts[at])
        return ScoredRows(rows.loss, *parts)
    return HeldOutRows(rows.observed[at], rows.predicted[at], rows.weight[at])


def _judged(
    model: Any, rows: HeldOutRows | ScoredRows, X: Floats | None, ends: Floats | None, *, is_new: bool
) -> JudgedRows:
    """Judge rows with the ends (n, 2) of their intervals; classes have sets instead."""
    if isinstance(rows, ScoredRows) and rows.is_classes:
        return _judged_classes(model, rows, X, is_new)
    holds = None if ends is None else (ends[:, 0] <= rows.observed) & (rows.observed <= ends[:, 1])
    width = None if ends is None else ends[:, 1] - ends[:, 0]
    is_scored = isinstance(rows, ScoredRows)
    level = rows.loss.level if isinstance(rows, ScoredRows) and isinstance(rows.loss, Quantile) else None
    constructed = is_scored and not is_new
    return JudgedRows(is_new, rows.observed, rows.predicted, None, None, holds, width, X, level, constructed)


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
