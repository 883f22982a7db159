"""A report of a fitted model in one HTML file, which works offline and predicts for values that its reader changes."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from salsa._utils.atomic import checked_path
from salsa._utils.jsonable import jsonable
from salsa._version import __version__
from salsa.explain.anova import Anova, decompose
from salsa.explain.report.about_section import about_section
from salsa.explain.report.comparison import comparison_payload
from salsa.explain.report.data_section import data_section
from salsa.explain.report.effect_section import effect_list, effects_note, importance_section, interaction_section
from salsa.explain.report.fitted_section import fitted_section, kernel_words
from salsa.explain.report.function_scale import scale_of
from salsa.explain.report.judged_rows import judged_rows
from salsa.explain.report.judging_rows import Evidence, Given, evidence_of, given_rows
from salsa.explain.report.page import render, write_whole
from salsa.explain.report.plain_words import plain_section
from salsa.explain.report.quality_section import Scores, all_scores, interval_section, quality_section
from salsa.explain.report.scored_quality import kept_of, scored_quality_section, scored_scores, sets_or_intervals
from salsa.explain.report.shares_over_rows import rows_lead, with_rows
from salsa.explain.report.whatif_section import what_if_section
from salsa.explain.subject import subject_of
from salsa.fitted import fitted_of


def write_report(
    model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, groups: Any = None, output: Any = 0
) -> Path:
    """Write a self-contained HTML report of a fitted model and return its path.

    Parameters
    ----------
    model : fitted SalsaRegressor or SalsaClassifier, or a list of two of them
        Two models are compared side by side on the rows of X that neither has seen, which need their targets y.
    path : path of the HTML file. The file is written completely or not at all.
    X : table like the training table, default=None
        Rows to look at: the first 20 rows are examples in the what-if panel, with their intervals, and have pages of
        their own (``report.html#row=1``). If the model does not keep its training rows and X has 100 rows or more,
        shares of the variance over rows refer to X.
    y : array of shape (n_rows,) or (n_rows, n_outputs), default=None
        Targets of the rows of X. With y, the report shows how good predictions and intervals are on these rows.
    groups : array of shape (n_rows,), default=None
        Labels of the groups of the rows of X, such as persons, as in ``fit``. Rows of a group may depend on each other:
        standard errors and tests of the rows of X then take groups as the independent units.
    output : int or label, default=0
        Which target of a multi-output model to report on, counted from 0. For three classes and more: the class whose
        effects and contributions are shown, by its position in ``classes_`` or by its label (whole numbers are always
        positions). Two classes have one function, the log odds of the second class.
    """
    if isinstance(model, list | tuple):
        compared = jsonable({**comparison_payload(model, X, y, output, groups), "byline": _byline()})
        write_whole(path := checked_path(path), render(compared))
        return path
    subject_of(model)  # raises for estimators that are not fitted, or cannot be explained
    anova = decompose(model, output=output)
    path, given = checked_path(path), given_rows(model, X, y, anova.output, groups)
    write_whole(path, render(report_payload(with_rows(anova, given.X), given)))
    return path


def report_payload(anova: Anova, given: Given) -> dict[str, Any]:
    """Return all that the page shows, as plain lists, texts and numbers."""
    model, subject, output = anova.model, anova.subject, anova.output
    evidence, used = evidence_of(model, subject, given, output), _used(anova)
    effects, scale = effect_list(anova, used, evidence.no_bands is None), scale_of(model, subject, output)
    importance, judged = importance_section(anova, used, effects, scale.values), _judged(anova, given, evidence)
    classes = fitted_of(model).classes
    rows = judged_rows(model, subject, given, evidence, output)
    payload: dict[str, Any] = jsonable(
        {
            "title": given.title,
            "byline": _byline(),
            "fitted": fitted_section(anova, used, given, evidence, judged.scores, scale),
            "quality": judged.quality,
            "plain": plain_section(rows, subject, used, scale.labels),
            "importance": importance,
            "effects": effects,
            "effectName": f"effect on the {scale.name}",
            "effectsNote": effects_note(effects, importance["orders"], evidence.no_bands, scale.name),
            "interactions": interaction_section(anova, used),
            "whatIf": what_if_section(anova, used, given, scale, has_intervals=evidence.no_bands is None),
            "calibration": judged.calibration,
            "data": data_section(model, subject, used, given.target, evidence, scale.labels),
            "about": about_section(
                fitted_of(model).uncertainty, kernel_words(subject, used), classes=classes is not None
            ),
        }
    )
    return payload


def _byline() -> str:
    return f"{datetime.now().astimezone():%d %B %Y, %H:%M} · salsa {__version__}"


class _Judged(NamedTuple):
    """The sections on held-out rows, and the scores that they begin with."""

    scores: Scores
    quality: dict[str, Any]
    calibration: dict[str, Any]


def _judged(anova: Anova, given: Given, evidence: Evidence) -> _Judged:
    """Judge a model by its own loss: the squared error, or the loss of a likelihood."""
    model, subject, output = anova.model, anova.subject, anova.output
    if kept_of(model) is None:
        scores = all_scores(model, subject, given, evidence)
        return _Judged(
            scores, quality_section(model, evidence, scores), interval_section(model, given, evidence, output)
        )
    scores = scored_scores(model, subject, given, evidence)
    quality = scored_quality_section(model, evidence, scores, output)
    return _Judged(scores, quality, sets_or_intervals(model, given, evidence))


def _used(anova: Anova) -> list[int]:
    """Return the features of positive relevance that are not constant in the training table, strongest first.

    The strength is the share over rows if these shares come first, else the total variance share.
    """
    subject = anova.subject
    active = np.array([j for j in subject.active if len(subject.background[j].points) > 1], dtype=np.intp)
    strength = anova.sobol()["share_over_rows" if rows_lead(anova) else "total"].to_numpy()[active]
    order: list[int] = active[np.argsort(-np.abs(strength), kind="stable")].tolist()
    return order
