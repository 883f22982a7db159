"""The section on sets of classes: how often they hold the true class, over all classes and in each."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.explain.report.class_quality import Sets
from salsa.explain.report.held_out_rows import coverage_of
from salsa.explain.report.phrases import listed, percent
from salsa.explain.report.scored_rows import ScoredRows
from salsa.uncertainty.scored import ScoredUncertainty

LEVELS = (0.8, 0.9, 0.95)
FEWEST_ROWS = 10  # a coverage needs at least this many rows
TITLE = "Can the sets of classes be trusted?"
NOTE = (
    "Sets are those of predict_set. Held-out training rows set the least probability of a class in a set: over all of"
    " them, coverage is as intended by construction. Coverage of new rows, and coverage of a single class, is not."
    " Coverage counts rows, without weights."
)


def class_set_section(
    kept: ScoredUncertainty, names: list[str], training: ScoredRows | None, new: ScoredRows | None
) -> dict[str, Any]:
    """Return coverage and sizes of sets of classes on held-out training rows and on new rows."""
    sets: Sets = {}
    if training is not None and len(training.f) >= FEWEST_ROWS:
        sets["Held-out training rows"] = training
    if new is not None and len(new.f) >= FEWEST_ROWS:
        sets["New rows"] = new
    section = {"title": TITLE, "curves": [], "note": NOTE if sets else ""}
    if not sets:
        return {**section, "sentence": "The held-out rows do not suffice to check sets of classes.", "tables": []}
    found = {name: [_covered(kept, rows, level, len(names)) for level in LEVELS] for name, rows in sets.items()}
    return {**section, "sentence": _sentence(found), "tables": [_table(*part, names) for part in found.items()]}


def _covered(kept: ScoredUncertainty, rows: ScoredRows, level: float, classes: int) -> dict[str, Any]:
    """Return the share of rows whose set holds their class, over all rows and by class, and the sizes of sets."""
    chosen = rows.probabilities >= kept.least_probability(level)
    holds, w = chosen[np.arange(len(chosen)), rows.code], rows.counts
    by_class = [_share(holds[rows.code == k], w[rows.code == k]) for k in range(classes)]
    size = chosen.sum(axis=1)
    error = float(coverage_of(np.array([level]), holds[:, None], w, rows.unit).error[0])
    means = {"covered": _share(holds, w), "size": _share(size, w), "empty": _share(size == 0, w)}
    return {"level": level, "error": error, "by_class": by_class, **means}


def _share(values: Any, w: Floats) -> float | None:
    return float(np.average(values, weights=w)) if len(w) else None


def _table(title: str, levels: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Return a table with one column per level of coverage."""
    by_class = [[f"rows of {name}", *(_words(c["by_class"][k]) for c in levels)] for k, name in enumerate(names)]
    rows = [
        ["all rows", *(_words(c["covered"]) for c in levels)],
        *by_class,
        ["classes in a set", *(f"{c['size']:.2f}" for c in levels)],
        ["empty sets", *(_words(c["empty"]) for c in levels)],
    ]
    return {"title": f"{title}: share of sets that hold the true class", "head": _head(levels), "rows": rows}


def _head(levels: list[dict[str, Any]]) -> list[str]:
    return ["intended", *(percent(c["level"]) for c in levels)]


def _words(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _sentence(found: dict[str, list[dict[str, Any]]]) -> str:
    if "New rows" not in found:
        return (
            "Sets of classes are set by the held-out training rows, so that only their coverage of single classes can"
            " be checked here; give new rows, X and y, to check their coverage over all classes."
        )
    levels = found["New rows"]
    meant, held = (listed(percent(c[key]) for c in levels) for key in ("level", "covered"))
    gaps = [c["covered"] - c["level"] for c in levels if abs(c["covered"] - c["level"]) > max(0.02, 2 * c["error"])]
    verdict = "as intended" if not gaps else "more than intended" if min(gaps) > 0 else "less than intended"
    return f"Sets meant to hold the class of {meant} of the new rows held {held}: {verdict}."
