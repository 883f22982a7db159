"""Intervals of counts, amounts and other numbers: their coverage on held-out training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa.explain.report.phrases import percent
from salsa.explain.report.quality_section import DASHED_NOTE
from salsa.explain.report.scored_rows import ScoredRows
from salsa.uncertainty.scored import ScoredUncertainty

LEVELS = (0.8, 0.9, 0.95)
FEWEST_ROWS = 30  # ten rows in each third
NOTE = (
    "Scores of the held-out training rows set the ends of intervals: over all of these rows, coverage is as intended by"
    " construction. Coverage of low, medium and high predictions (a third of the rows each) is not. Coverage counts"
    " rows, without weights."
)
SENTENCE = (
    "Over all held-out training rows, intervals cover as intended by construction: give new rows, X and y, to check"
    " them. The table has their coverage for low, medium and high predictions."
)


def scored_intervals(section: dict[str, Any], kept: ScoredUncertainty, rows: ScoredRows | None) -> dict[str, Any]:
    """Return the section on intervals of new rows with a table of the held-out training rows."""
    dashed = DASHED_NOTE if section["curves"] else ""
    if rows is None or len(rows.f) < FEWEST_ROWS:
        return {**section, "note": dashed}
    columns = [_shares(kept, rows, level) for level in LEVELS]
    names = ("all rows", "low predictions", "medium predictions", "high predictions")
    cells = [[name, *map(percent, shares)] for name, shares in zip(names, zip(*columns, strict=True), strict=True)]
    title = "Held-out training rows: share of intervals that hold the target"
    table = {"title": title, "head": ["intended", *map(percent, LEVELS)], "rows": cells}
    sentence = section["sentence"] if section["curves"] else SENTENCE
    return {**section, "sentence": sentence, "note": f"{dashed} {NOTE}".lstrip(), "tables": [table]}


def _shares(kept: ScoredUncertainty, rows: ScoredRows, level: float) -> list[float]:
    """Return the share of rows whose interval holds the target: of all rows, and of each third by the prediction."""
    low, high = np.moveaxis(kept.ends(np.repeat(rows.f[..., None], 2, axis=-1), level)[:, 0], -1, 0)
    holds, w = (low <= rows.observed) & (rows.observed <= high), rows.counts
    thirds = np.array_split(np.argsort(rows.predicted, kind="stable"), 3)
    return [float(np.average(holds[part], weights=w[part])) for part in (np.arange(len(w)), *thirds)]
