"""Importance and effects of two models, feature by feature, on the same values."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa.data.date_parts import DURATION, DURATION_UNITS
from salsa.explain.anova import Anova
from salsa.explain.effects import Axis
from salsa.explain.report.effect_section import drawn_axis
from salsa.explain.report.function_scale import FunctionScale
from salsa.explain.report.phrases import quantised

MOST_EFFECTS, MOST_SHARES = 12, 20
NO_EFFECTS = "Their effects are not drawn together, because they are on different scales: {} and {}."
NOTE = (
    "Each effect is relative to its model's own mean prediction. Features are those of the largest total share in"
    " either model."
)


def compared_shares(one: Anova, other: Anova) -> list[dict[str, Any]]:
    """Return the total share of the variance of every feature in both models, the largest first."""
    totals = [dict(zip(anova.features, anova.sobol()["total"].tolist(), strict=True)) for anova in (one, other)]
    names = list(dict.fromkeys([*one.features, *other.features]))
    rows = [{"name": name, "shares": [total.get(name, 0.0) for total in totals]} for name in names]
    return sorted(rows, key=lambda row: -max(row["shares"]))


def compared_effects(pair: list[tuple[Anova, FunctionScale, bool]]) -> dict[str, Any]:
    """Return the effects of the features that matter most, on the values that both models know; `pair` has bands."""
    (one, scale, _), (other, other_scale, _) = pair
    if scale.name != other_scale.name:
        return {"effects": [], "effectName": "", "effectsNote": NO_EFFECTS.format(scale.name, other_scale.name)}
    shared = [row["name"] for row in compared_shares(one, other) if max(row["shares"]) > 0]
    names = [name for name in shared if name in one.features and name in other.features][:MOST_EFFECTS]
    effects = [effect for name in names if (effect := _effect(pair, name)) is not None]
    return {"effects": effects, "effectName": f"effect on the {scale.name}", "effectsNote": NOTE}


def _effect(pair: list[tuple[Anova, FunctionScale, bool]], name: str) -> dict[str, Any] | None:
    """Return the effect of a feature in both models; None if they know no value in common."""
    lengths = [_unit_length(anova, name) for anova, _, _ in pair]
    ratio = lengths[1] / lengths[0]
    values = _values(pair[0][0], pair[1][0], name, ratio)
    if not len(values):
        return None
    points = values, values if ratio == 1 else np.divide(values, ratio)
    effects = [anova.effect(name, points=[at], band=band) for (anova, _, band), at in zip(pair, points, strict=True)]
    span = float(max(np.ptp(effect.values) for effect in effects)) or 1.0
    axis: Axis = effects[0].axes[0]
    curves = [
        {
            "values": quantised(effect.values, span),
            "sd": None if effect.sd is None else quantised(effect.sd, span),
        }
        for effect in effects
    ]
    ordered = pair[0][0].subject.columns.ordered[pair[0][0].subject.index(name)]
    return {"term": name, "axis": drawn_axis(axis, ordered), "curves": curves}


def _unit_length(anova: Anova, name: str) -> float:
    """Return the unit of a duration in seconds, which depends on the training rows; 1 for other features."""
    part = anova.subject.columns.all_parts[anova.subject.index(name)]
    return 1.0 if part is None or part.name != DURATION else DURATION_UNITS[part.detail or "seconds"]


def _values(one: Anova, other: Anova, name: str, ratio: float) -> list[Any]:
    """Return the levels that both models know, or a grid of numbers over the training range of both.

    Numbers are in the unit of the first model, of which the unit of the other model is a multiple by `ratio`.
    """
    levels = [anova.subject.columns.levels[anova.subject.index(name)] for anova in (one, other)]
    axes = [anova.effect(name, band=False).axes[0] for anova in (one, other)]
    if levels[0] is not None and levels[1] is not None:
        return [level for level in levels[0] if level in levels[1]]
    points = [unit * axis.points[~np.isnan(axis.points)] for unit, axis in zip((1.0, ratio), axes, strict=True)]
    few = all(len(axis.rug.points) == len(axis.points) for axis in axes)  # shown at exactly these values
    if few or not all(map(len, points)):
        return list(np.unique(np.concatenate(points)))
    low, high = min(float(p[0]) for p in points), max(float(p[-1]) for p in points)
    return list(np.linspace(low, high, max(map(len, points))))
