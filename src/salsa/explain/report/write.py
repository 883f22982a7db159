"""A report of a fitted model in one HTML file, which works offline and predicts for values that its reader changes."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from salsa._utils.atomic import checked_path
from salsa._utils.jsonable import jsonable
from salsa._version import __version__
from salsa.explain.anova import Anova, decompose
from salsa.explain.report.data_section import data_section
from salsa.explain.report.effect_section import effect_list, effects_note, importance_section, interaction_section
from salsa.explain.report.fitted_section import fitted_section
from salsa.explain.report.page import render, write_whole
from salsa.explain.report.quality_section import (
    Given,
    all_scores,
    calibration_section,
    evidence_of,
    given_rows,
    quality_section,
)
from salsa.explain.report.shares_over_rows import rows_lead, with_rows
from salsa.explain.report.whatif_section import what_if_section
from salsa.fitted import fitted_of

CITATION = (
    "Kirthevasan Kandasamy and Yaoliang Yu. Additive Approximations in High Dimensional Nonparametric Regression via"
    " the SALSA. Proceedings of the 33rd International Conference on Machine Learning, 2016."
)
METHOD = (
    "The model is kernel ridge regression with an additive kernel: a sum over features, pairs and larger groups of"
    " features of products of one-dimensional kernels. Relevances, bandwidths, order and penalty are chosen on"
    " held-out rows.",
    "Effects and their shares of the variance are the functional ANOVA of the fitted function. Every feature is"
    " distributed as in the training table, independently of the other features. Shares over rows are covariances of"
    " effects and predictions over the rows as they are, divided by the variance of the predictions. Contributions are"
    " Shapley values over the distribution of independent features. All are closed forms. They describe the model, not"
    " causes.",
    "Leave-one-out predictions use the kernel and the penalty that were chosen on all rows. Bands are posterior"
    " standard deviations of the Gaussian process whose mean is the model. This page loads nothing and sends nothing.",
    "This page holds rows of the training table, from which it draws and predicts: share it as you would share the"
    " table.",
)


def write_report(model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, output: int = 0) -> Path:
    """Write a self-contained HTML report of a fitted model and return its path.

    Parameters
    ----------
    model : fitted SalsaRegressor.
    path : path of the HTML file. The file is written completely or not at all.
    X : table like the training table, default=None
        Rows to look at: the first five rows are examples in the what-if panel. If the model does not keep its training
        rows and X has 100 rows or more, shares of the variance over rows refer to X.
    y : array of shape (n_rows,) or (n_rows, n_outputs), default=None
        Targets of the rows of X. With y, the report shows how good predictions and intervals are on these rows.
    output : int, default=0
        Which target of a multi-output model to report on, counted from 0.
    """
    anova = decompose(model, output=output)
    if fitted_of(model).classes is not None:
        advice = "decompose and shapley explain it, and held_out_proba() returns its held-out probabilities"
        raise TypeError(f"{type(model).__name__}: there is no report for classes; {advice}")
    path, given = checked_path(path), given_rows(model, X, y, output)
    write_whole(path, render(report_payload(with_rows(anova, given.X), given)))
    return path


def report_payload(anova: Anova, given: Given) -> dict[str, Any]:
    """Return all that the page shows, as plain lists, texts and numbers."""
    model, subject, output = anova.model, anova.subject, anova.output
    evidence, used = evidence_of(model, subject, given, output), _used(anova)
    scores, effects = all_scores(model, subject, given, evidence), effect_list(anova, used, evidence.no_bands is None)
    importance = importance_section(anova, used, effects)
    payload: dict[str, Any] = jsonable(
        {
            "title": given.title,
            "byline": f"{datetime.now().astimezone():%d %B %Y, %H:%M} · salsa {__version__}",
            "fitted": fitted_section(anova, used, given, evidence, scores),
            "quality": quality_section(model, evidence, scores),
            "importance": importance,
            "effects": effects,
            "effectsNote": effects_note(effects, importance["orders"], evidence.no_bands, subject.target),
            "interactions": interaction_section(anova, used),
            "whatIf": what_if_section(subject, used, given, output),
            "calibration": calibration_section(model, given, evidence, output),
            "data": data_section(subject, used, given.target, evidence),
            "about": {"cite": CITATION, "method": METHOD},
        }
    )
    return payload


def _used(anova: Anova) -> list[int]:
    """Return the features of positive relevance that are not constant in the training table, strongest first.

    The strength is the share over rows if these shares come first, else the total variance share.
    """
    subject = anova.subject
    active = np.array([j for j in subject.active if len(subject.background[j].points) > 1], dtype=np.intp)
    strength = anova.sobol()["share_over_rows" if rows_lead(anova) else "total"].to_numpy()[active]
    order: list[int] = active[np.argsort(-np.abs(strength), kind="stable")].tolist()
    return order
