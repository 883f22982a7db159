"""The section on the training table: kind, range, missing values and distribution of each feature and the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.explain.report.held_out_rows import HeldOutRows
from salsa.explain.report.judging_rows import Evidence
from salsa.explain.report.phrases import count
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import Subject

BINS, MOST_BINS = 20, 40


def data_section(
    subject: Subject, used: list[int], target: str, evidence: Evidence, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a row per feature, and the distribution of the target, or the shares of the classes with these labels."""
    features = [_data_row(subject, j, j in used) for j in range(subject.kernel.n_features)]
    gaps = sum(feature["missing"] > 0 for feature in features)
    words = f"{count(gaps, 'feature')} had missing values." if gaps else "No value was missing."
    rows = "" if evidence.anchored else f"{count(len(subject.expansion.anchors), 'row')}, "
    sentence = f"The training table: {rows}{count(len(features), 'feature')}. {words}"
    shown = class_shares(evidence.training, labels) if labels else _target_histogram(evidence.training, target)
    return {"sentence": sentence, "target": shown, "features": features}


def class_shares(rows: HeldOutRows | ScoredRows | None, labels: Sequence[str]) -> dict[str, Any] | None:
    """Return the number of rows of each class, and its share of the weights."""
    if not isinstance(rows, ScoredRows):
        return None
    counts, weights = (np.bincount(rows.code, w, minlength=len(labels)) for w in (rows.counts, rows.weight))
    parts = zip(labels, counts.tolist(), (weights / weights.sum()).tolist(), strict=True)
    classes = [{"name": name, "count": number, "share": share} for name, number, share in parts]
    return {"classes": classes, "weighted": rows.is_weighted}


def _data_row(subject: Subject, j: int, used: bool) -> dict[str, Any]:
    levels, marginal = subject.columns.levels[j], subject.background[j]
    observed = ~np.isnan(marginal.points)
    points, weights = marginal.points[observed], marginal.weights[observed]
    missing = 0.0 if observed.all() else 1.0 - float(weights.sum())
    row = {"name": subject.columns.names[j], "missing": missing, "used": used}
    if levels is None:
        ends = [float(points[0]), float(points[-1])] if len(points) else []
        return {**row, "kind": "number", "range": ends, "levels": None, "counts": _histogram(points, weights)}
    counts = np.bincount(points.astype(np.intp), weights=weights, minlength=len(levels))[:MOST_BINS]
    kind = f"{'ordered ' if subject.columns.ordered[j] else ''}category, {len(levels)}"
    return {**row, "kind": kind, "range": [], "levels": _some_levels(levels), "counts": _heights(counts)}


def _some_levels(levels: Sequence[Any], most: int = 12) -> list[str]:
    shown = [str(level) for level in levels[:most]]
    return shown if len(levels) <= most else [*shown, f"and {len(levels) - most} more"]


def _target_histogram(rows: HeldOutRows | ScoredRows | None, name: str) -> dict[str, Any] | None:
    if rows is None or not rows.varies:
        return None
    low, high = float(rows.observed.min()), float(rows.observed.max())
    return {"name": name, "low": low, "high": high, "counts": _histogram(rows.observed, rows.weight, 2 * BINS)}


def _histogram(points: Floats, weights: Floats, bins: int = BINS) -> Floats:
    if len(points) == 0 or points.min() == points.max():
        return np.full(min(len(points), 1), 100.0)
    low, high = points.min(), points.max()
    place = np.minimum(((points - low) / (high - low) * bins).astype(np.intp), bins - 1)
    return _heights(np.bincount(place, weights=weights, minlength=bins))


def _heights(counts: Any) -> Floats:
    """Return bar heights in percent of the largest count, to one decimal: heights are only drawn."""
    heights: Floats = np.round(100.0 * counts / (counts.max() or 1.0), 1)
    return heights
