"""The sections on quality of fits that minimise a likelihood: classes, counts, amounts, quantiles, gross errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.explain.report import linear_rivals
from salsa.explain.report.class_quality import class_panels
from salsa.explain.report.class_sets import class_set_section
from salsa.explain.report.held_out_groups import folds_of_units
from salsa.explain.report.judging_rows import Evidence, Given
from salsa.explain.report.number_quality import dispersion_words, number_panels
from salsa.explain.report.phrases import count, percent
from salsa.explain.report.quality_section import Scores, interval_section, scatter_of, score_entry, searches
from salsa.explain.report.scored_intervals import scored_intervals
from salsa.explain.report.scored_rows import Measure, ScoredRows, measure_of
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.losses import Poisson, Quantile
from salsa.uncertainty.jackknife import ExactUncertainty
from salsa.uncertainty.scored import ScoredUncertainty

TRAINING, NEW = "Held-out training rows", "New rows"
HELD_OUT_NOTE = (
    "Held-out training rows are predicted by fits without their fold. Kernel and penalty were chosen on all rows, which"
    " makes these scores somewhat too good; scores of new rows are not."
)
RACE_NOTE = "Kernels compete by squared error on coded targets: errors are shares of their variance."


def kept_of(model: Any) -> ScoredUncertainty | None:
    """Return the uncertainty of a fit that minimises a likelihood; None for squared errors."""
    kept = fitted_of(model).uncertainty
    return kept if isinstance(kept, ScoredUncertainty) else None


def _sets(evidence: Evidence) -> dict[str, ScoredRows]:
    """Return the held-out rows by their titles, new rows first."""
    found = {NEW: evidence.new, TRAINING: evidence.training}
    return {title: rows for title, rows in found.items() if isinstance(rows, ScoredRows)}


def scored_scores(model: Any, subject: Subject, given: Given, evidence: Evidence) -> Scores:
    """Return the shares of a constant's loss that the model and a linear model save; new rows come first."""
    sets, kept = _sets(evidence), kept_of(model)
    assert kept is not None
    rows = []
    if (new := sets.get(NEW)) is not None:
        rows.append(_entry("salsa, new rows", new, strong=True))
    if (training := sets.get(TRAINING)) is not None:
        rows.append(_entry("salsa, cross-validation", training, strong=True))
    rows.extend(_linear_entries(kept, subject, given.X, evidence, new))
    found = [row for row in rows if row is not None]
    constant = f"always {measure_of(kept.loss).constant}"
    return [*found, {"name": constant, "explained": 0.0, "error": None, "strong": False}] if found else []


def _entry(name: str, rows: ScoredRows | None, *, strong: bool = False) -> dict[str, Any] | None:
    found = None if rows is None else rows.explained()
    return None if found is None else score_entry(name, found.share, found.error, strong=strong)


def _linear_entries(
    kept: ScoredUncertainty, subject: Subject, given_X: Floats | None, evidence: Evidence, new: ScoredRows | None
) -> list[dict[str, Any] | None]:
    """Return the scores of a linear model with the same loss, for every set of rows that it can be fitted for."""
    columns, X, whole = subject.columns, subject.expansion.anchors, _whole_table(kept)
    found, fold = [], _folds(kept)
    if whole is not None and fold is not None:
        linear = linear_rivals.linear_cross_validated(columns, X, whole, fold)
        found.append(_entry("linear model, cross-validation", linear))
    if new is None or given_X is None:
        return found
    new_X = given_X[evidence.places]
    if whole is not None:
        found.append(_entry("linear model, new rows", linear_rivals.linear_on_new(columns, X, whole, new_X, new)))
    else:
        linear = linear_rivals.linear_cross_validated(columns, new_X, new, folds_of_units(new.unit, len(new_X)))
        found.append(_entry("linear model, cross-validation on new rows", linear))
    return found


def _whole_table(kept: ScoredUncertainty) -> ScoredRows | None:
    """Return all training rows in the order of the anchors, without predictions; None if they are not kept."""
    if not kept.keeps_rows:
        return None
    n = len(kept.target)
    return ScoredRows(kept.loss, kept.target, np.zeros_like(kept.target), kept.weight, np.ones(n))


def _folds(kept: ScoredUncertainty) -> Places | None:
    return kept.inner.judged.fold if isinstance(kept.inner, ExactUncertainty) else None


def scored_quality_section(model: Any, evidence: Evidence, scores: Scores, output: int) -> dict[str, Any]:
    kept, classes, sets = kept_of(model), fitted_of(model).classes, _sets(evidence)
    assert kept is not None
    measure = measure_of(kept.loss)
    return {
        "sentence": _sentence(scores, sets, measure),
        "measure": {"caption": measure.caption, "axis": measure.axis, "name": "share saved"},
        "scores": scores,
        "searches": searches(model, measure.error_axis, "squared error / variance", RACE_NOTE),
        "scatters": [] if classes is not None else [_scatter(title, rows, measure) for title, rows in sets.items()],
        "panels": [
            panel for title, rows in sets.items() for panel in number_panels(title, rows, fitted=title == TRAINING)
        ],
        "classes": class_panels(classes, sets, output) if classes is not None and sets else None,
        "notes": [*evidence.notes, *_loss_notes(kept, sets), *([HELD_OUT_NOTE] if TRAINING in sets else [])],
    }


def _loss_notes(kept: ScoredUncertainty, sets: dict[str, ScoredRows]) -> list[str]:
    if isinstance(kept.loss, Poisson):
        return [f"{title}. {dispersion_words(rows)}" for title, rows in sets.items()]
    if isinstance(kept.loss, Quantile):
        return [f"The model predicts the {percent(kept.loss.level)} quantile, not the mean."]
    return []


def _sentence(scores: Scores, sets: dict[str, ScoredRows], measure: Measure) -> str:
    """Return the loss on the first set of rows, against the constant and a linear model."""
    if sets and not any(rows.varies for rows in sets.values()):
        return "All held-out targets are equal: there is nothing to explain."
    if not scores:
        return "There are too few rows to say how good the model is."
    best, is_new = scores[0], scores[0]["name"] == "salsa, new rows"
    rows, place = (sets[NEW], "On the new rows") if is_new else (sets[TRAINING], "On held-out training rows")
    loss, constant_loss = (measure.factor * value for value in (rows.mean(rows.losses)[0], rows.constant_loss))
    value, constant = f"{place} the {measure.loss} is {loss:.3g}", measure.error_of_constant
    if best["explained"] <= 0:
        return f"{value}, no better than {constant}, {constant_loss:.3g}."
    spread = f" (standard error {percent(best['error'])})" if best["error"] else ""
    kind = "new rows" if is_new else "cross-validation"
    rivals = [row for row in scores if row["name"] == f"linear model, {kind}"]
    words = f"{value}. This is {percent(best['explained'])}{spread} below {constant}, {constant_loss:.3g}"
    return words + (f"; a linear model is {_below(rivals[0])}." if rivals else ".")


def _below(linear: dict[str, Any]) -> str:
    return f"{percent(linear['explained'])} below it" if linear["explained"] > 0 else "not below it"


def _scatter(title: str, rows: ScoredRows, measure: Measure) -> dict[str, Any]:
    loss, error = (measure.factor * value for value in rows.mean(rows.losses))
    note = f"Mean {measure.loss} {loss:.3g} (standard error {error:.2g}), {count(len(rows.f), 'row')}."
    return scatter_of(title, rows.observed, rows.predicted, note)


def sets_or_intervals(model: Any, given: Given, evidence: Evidence) -> dict[str, Any]:
    """Return the section on sets of classes, or on intervals of numbers."""
    kept, sets, classes = kept_of(model), _sets(evidence), fitted_of(model).classes
    assert kept is not None
    if classes is not None:
        return class_set_section(kept, [str(label) for label in classes], sets.get(TRAINING), sets.get(NEW))
    return scored_intervals(interval_section(model, given, evidence, 0), kept, sets.get(TRAINING))
