"""One row per column of the training table: its kind, missing values, an example, and what was done with its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.data.column_words import CONSTANT, DATE, DURATION, EXAMPLE, marks_words, parts_words, unit_words
from salsa.data.date_parts import WEEK, Part
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of

BINS, MOST_BINS = 20, 40
NO_VALUES = "it has no values: it has no effect"
ORDERED = "levels are ranks, in their order"
UNORDERED = "levels without an order"
AVERAGED = "missing: averaged over its distribution"
UNUSED = "predictions do not depend on it"


def understood_columns(model: Any, subject: Subject, used: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row per column; below a date, a row per part that is a feature."""
    source = subject.columns.source.tolist()
    runs = [list(run) for _, run in groupby(range(len(source)), key=source.__getitem__)]
    return [row for run in runs for row in _column_rows(model, subject, run, used)]


def _column_rows(model: Any, subject: Subject, run: list[int], used: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the row of the column with the features `run`, then the rows of the parts of a date."""
    first, part = run[0], subject.columns.all_parts[run[0]]
    is_used = any(j in used for j in run)
    row = {**_described(subject, first), "example": _example(subject, first), "part": False, "used": is_used}
    done = "; ".join(_done(model, subject, run, is_used))
    if part is None or part.name == DURATION:
        yield {**row, "done": done}
        return
    yield {**row, "name": part.column, "kind": DATE, "done": done}
    for j in run:
        yield {**_described(subject, j), "example": "", "part": True, "used": j in used, "done": ""}


def _done(model: Any, subject: Subject, run: list[int], is_used: bool) -> Iterator[str]:
    """Yield what was done with the values of the column with the features `run`."""
    first, columns = run[0], subject.columns
    name, part, points = columns.names[first], columns.all_parts[first], subject.background[first].points
    format_ = (fitted_of(model).formats or {}).get(name)
    if format_ is not None:
        yield from filter(None, [marks_words("" if format_.decimal == "." else format_.decimal, format_.thousands)])
        yield from unit_words(format_.before, format_.after)
    if part is not None and part.name == DURATION:
        yield f"taken as a number of {part.detail}"
    elif part is not None:
        parts = [columns.all_parts[j] for j in run]
        yield parts_words([one.name for one in parts if one is not None])
        notes = (note.removeprefix(f"column {part.column!r}: ") for note in model.search_.notes)
        yield from (note for note in notes if note.startswith("no "))
    elif columns.levels[first] is not None:
        yield ORDERED if columns.ordered[first] else UNORDERED
    if len(run) == 1 and len(points) < 2:
        yield NO_VALUES if np.isnan(points).all() else CONSTANT
        return
    if np.isnan(points).any():
        yield AVERAGED
    if not is_used:
        yield UNUSED


def _example(subject: Subject, j: int) -> str:
    """Return the value of a feature in the first row that has one, as people write it."""
    column = subject.expansion.anchors[:, j]
    present = column[~np.isnan(column)][:1]
    if not len(present):
        return ""
    value, part = subject.shown(j, present)[0], subject.columns.all_parts[j]
    if isinstance(value, str):
        return value
    return EXAMPLE.format(float(value)) if part is None else part.written(float(value))


def _described(subject: Subject, j: int) -> dict[str, Any]:
    """Return name, kind, share of missing values, range or levels, and distribution of a feature."""
    levels, marginal = subject.columns.levels[j], subject.background[j]
    observed = ~np.isnan(marginal.points)
    points, weights = marginal.points[observed], marginal.weights[observed]
    missing = 0.0 if observed.all() else 1.0 - float(weights.sum())
    row = {"name": subject.columns.names[j], "missing": missing}
    if (part := subject.columns.all_parts[j]) is not None:
        return {**row, **_part_row(part, points), "counts": histogram(points, weights)}
    if levels is None:
        ends = [float(points[0]), float(points[-1])] if len(points) else []
        return {**row, "kind": "number", "range": ends, "levels": None, "counts": histogram(points, weights)}
    counts = np.bincount(points.astype(np.intp), weights=weights, minlength=len(levels))[:MOST_BINS]
    kind = f"{'ordered ' if subject.columns.ordered[j] else ''}category, {len(levels)}"
    return {**row, "kind": kind, "range": [], "levels": _some_levels(levels), "counts": _heights(counts)}


def _part_row(part: Part, points: Floats) -> dict[str, Any]:
    """Describe a part of a date, or a duration, by its first and last value, or by its days of the week."""
    named = [part.written(point) for point in points] if part.name == WEEK else []
    if len(points) and not named:
        named = [" – ".join(part.written(end) for end in (points[0], points[-1]))]
    return {"kind": DURATION if part.name == DURATION else "part of a date", "range": [], "levels": named}


def _some_levels(levels: Sequence[Any], most: int = 12) -> list[str]:
    shown = [str(level) for level in levels[:most]]
    return shown if len(levels) <= most else [*shown, f"and {len(levels) - most} more"]


def histogram(points: Floats, weights: Floats, bins: int = BINS) -> Floats:
    """Return the heights of bins of equal width, in percent of the largest."""
    if len(points) == 0 or points.min() == points.max():
        return np.full(min(len(points), 1), 100.0)
    low, high = points.min(), points.max()
    place = np.minimum(((points - low) / (high - low) * bins).astype(np.intp), bins - 1)
    return _heights(np.bincount(place, weights=weights, minlength=bins))


def _heights(counts: Any) -> Floats:
    """Return bar heights in percent of the largest count, to one decimal: heights are only drawn."""
    heights: Floats = np.round(100.0 * counts / (counts.max() or 1.0), 1)
    return heights
