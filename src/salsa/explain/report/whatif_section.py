"""The what-if section: the fitted function in the form in which the page predicts, and a control for every feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from salsa._utils.arrays import Floats
from salsa.data.columns import Level
from salsa.data.date_parts import DURATION, WEEK, WEEKDAYS, Part
from salsa.data.transforms import TargetTransform
from salsa.explain.anova import Anova
from salsa.explain.closed_forms import unit_rule
from salsa.explain.kernel_term import KernelTerm
from salsa.explain.report.function_scale import FunctionScale
from salsa.explain.report.judging_rows import Given
from salsa.explain.report.phrases import base64
from salsa.explain.report.row_intervals import with_intervals
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.marginals import Distribution

MODEL_NUMBERS = 60_000  # the page predicts if anchors times used features, added up over terms, are at most this many
EXAMPLES, GIVEN_EXAMPLES = 5, 20  # training rows, and given rows, to start from
SENTENCE = (
    "Change a value: the prediction and the contribution of each feature (Shapley values) are updated at once."
    " The page computes them as exactly as Python does. The address in “Link to this row” opens these values as a page"
    " of their own, which can be printed."
)


def what_if_section(
    anova: Anova, used: list[int], given: Given, scale: FunctionScale, *, has_intervals: bool
) -> dict[str, Any]:
    """Return the function in the form in which the page predicts, with rows to start from and their intervals."""
    subject, output = anova.subject, anova.output
    n, active = len(subject.expansion.anchors), [*used, *(j for j in subject.active if j not in used)]
    numbers = sum(len(term.active) for term in subject.terms)
    if not used:
        return {"sentence": "The model uses no feature: no value changes the prediction.", "model": None}
    if n * numbers > MODEL_NUMBERS:
        of_terms = "" if len(subject.terms) == 1 else f" of {len(subject.terms)} kernels"
        size = f"{n:,} rows times {numbers} features{of_terms} exceed the limit of {MODEL_NUMBERS:,} numbers for a page"
        return {"sentence": f"This panel is left out: {size}.", "model": None}
    stored = _stored_model(subject, active, given, output, scale)
    examples = stored["examples"]
    if has_intervals:
        examples = with_intervals(examples, anova.model, given, output)
    transform = fitted_of(anova.model).transform
    way_back = _smearing(transform, output) if isinstance(transform, TargetTransform) else {}
    shown = {**stored, "response": _response(subject, output, scale) | way_back, "examples": examples}
    return {"sentence": SENTENCE + scale.sentence, "model": shown}


def _response(subject: Subject, output: int, scale: FunctionScale) -> dict[str, Any]:
    """Return how the page shows a prediction; for several classes, with the functions of all classes."""
    known = {"link": scale.link, "name": scale.response, "scale": scale.name, "labels": scale.labels, "output": output}
    if scale.link != "softmax":
        return known
    _, _, coef, offset = subject.expansion.parts
    return {**known, "coefs": [base64(column) for column in coef.T], "offsets": offset.tolist()}


def _smearing(transform: TargetTransform, output: int) -> dict[str, Any]:
    """Return what the page needs for the mean of the target: the transform, and residuals on its scale."""
    return {"transform": transform.name, "residual": base64(transform.residual[:, output])}


def _stored_model(
    subject: Subject, active: list[int], given: Given, output: int, scale: FunctionScale
) -> dict[str, Any]:
    """Return the function in the form in which the page predicts; `active` lists its features, strongest first."""
    _, anchors, coef, offset = subject.expansion.parts
    return {
        "rows": len(anchors),
        "offset": float(offset[output]),
        "coef": base64(coef[:, output]),
        "anchors": base64(anchors[:, active].T),
        "features": [_control(subject, j) for j in active],
        "terms": [_stored_term(term, active) for term in subject.terms],
        "examples": _examples(subject, active, given, output, scale),
    }


def _stored_term(term: KernelTerm, active: list[int]) -> dict[str, Any]:
    """Return one term of the kernel; `place` is the place of a feature among the active features of the function."""
    features = [(place, j) for place, j in enumerate(active) if j in term.active]
    return {
        "weights": term.weights.tolist(),
        "nodes": np.stack(unit_rule(len(term.weights) - 2), axis=1),
        "background": base64(term.means[:, [j for _, j in features]].T),
        "features": [{"place": place, **_stored_base(term.kernel, j)} for place, j in features],
    }


def _stored_base(kernel: AdditiveKernel, j: int) -> dict[str, Any]:
    """Return a_j k_j: its parameters, and the distribution that stands for a missing value."""
    missing = kernel.distributions[j] if kernel.distributions is not None else Distribution(np.empty(0), np.empty(0))
    return {
        "base": kernel.bases[j],
        "bandwidth": float(kernel.bandwidth[j]) if np.isfinite(kernel.bandwidth[j]) else None,
        "relevance": float(kernel.relevance[j]),
        "points": base64(missing.points),
        "masses": base64(missing.weights),
    }


def _control(subject: Subject, j: int) -> dict[str, Any]:
    levels, points = subject.columns.levels[j], subject.background[j].points
    observed = points[~np.isnan(points)]
    low, high = (float(observed[0]), float(observed[-1])) if len(observed) else (0.0, 0.0)
    part = subject.columns.all_parts[j]
    if part is not None and part.is_cyclic:
        low, high = 0.0, 1.0
    return {
        "name": subject.columns.names[j],
        **({} if part is None else _part_control(part)),
        "low": low,
        "high": high,
        "whole": bool((observed % 1 == 0).all()),
        "levels": list(WEEKDAYS) if part is not None and part.name == WEEK else _choices(levels, observed),
        "missing": len(observed) < len(points),
        "fixed": len(points) < 2,
    }


def _part_control(part: Part) -> dict[str, Any]:
    """Return how the page writes values of a part of a date, the step between days of the week, or a unit."""
    if part.name == DURATION:
        return {"name": f"{part.column} ({part.detail})"}
    return {"part": part.name, "step": 1 / len(WEEKDAYS)} if part.name == WEEK else {"part": part.name}


def _choices(levels: Sequence[Level] | None, observed: Floats) -> list[str] | None:
    """Return the levels to choose from; None for a number, except a number with the values 0 and 1 only."""
    if levels is None:
        return ["0", "1"] if np.array_equal(observed, [0, 1]) else None
    return [str(level) for level in levels]


def _examples(
    subject: Subject, active: list[int], given: Given, output: int, scale: FunctionScale
) -> list[dict[str, Any]]:
    """Return a typical row, then the first rows of the given table or, without one, training rows by prediction."""
    typical = [_typical(subject.background[j], bool(subject.columns.categorical[j])) for j in active]
    if given.X is not None:
        rows = given.X[:GIVEN_EXAMPLES]
        names = [f"row {i + 1} of the table" for i in range(len(rows))]
    else:
        anchors = subject.expansion.anchors
        f = subject.expansion.predict(anchors)
        order = np.argsort((softmax(f, axis=1) if scale.link == "softmax" else f)[:, output], kind="stable")
        rows = anchors[order[np.linspace(0, len(order) - 1, EXAMPLES).astype(np.intp)]]
        what = "probability" if scale.labels else "prediction"
        names = [f"training row with {place} {what}" for place in ("lowest", "low", "medium", "high", "highest")]
    chosen = [{"name": name, "values": row[active]} for name, row in zip(names, rows, strict=True)]
    return [{"name": "median of every feature", "values": typical}, *chosen]


def _typical(marginal: Distribution, categorical: bool) -> float:
    """Return the median of a number or the most frequent level of a category; NaN if no value was observed."""
    observed = ~np.isnan(marginal.points)
    points, weights = marginal.points[observed], marginal.weights[observed]
    if len(points) == 0:
        return float("nan")
    if categorical:
        return float(points[weights.argmax()])
    return float(points[np.searchsorted(np.cumsum(weights), 0.5 * weights.sum())])
