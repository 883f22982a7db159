"""The section on the training table: what the model took each column and the target for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa.explain.report.column_rows import BINS, histogram, understood_columns
from salsa.explain.report.held_out_rows import HeldOutRows
from salsa.explain.report.judging_rows import UNNAMED, Evidence
from salsa.explain.report.phrases import count, short, some, with_copies
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import Subject

MOST_NAMED = 8  # classes in a sentence


def data_section(
    model: Any, subject: Subject, used: list[int], target: str, evidence: Evidence, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what the model took each column for, and the distribution of the target, or the shares of its classes."""
    rows = understood_columns(model, subject, used)
    columns = len(subject.columns.table)
    gaps = sum(row["missing"] > 0 for row in rows if not row["part"])
    words = f"{count(gaps, 'column')} had missing values." if gaps else "No value was missing."
    copies = model.search_.copies
    rows_words = with_copies(count(len(subject.expansion.anchors) + copies, "row"), copies)
    known = "" if evidence.anchored else f"{rows_words}, "
    sentence = f"The training table: {known}{count(columns, 'column')} besides the target. {words}"
    shown = class_shares(evidence.training, labels) if labels else _target_histogram(evidence.training, target)
    return {"sentence": f"{sentence} {_target_words(subject, target, labels)}", "target": shown, "features": rows}


def _target_words(subject: Subject, target: str, labels: Sequence[str]) -> str:
    """Say what the target was taken for."""
    name = "The target" if target == UNNAMED else f"The target {short(target)}"
    if labels:
        return f"{name} holds {len(labels)} classes: {some([short(label) for label in labels], MOST_NAMED)}."
    learned = "" if subject.transform is None else f", learned as its {subject.transform}"
    return f"{name} holds numbers{learned}."


def class_shares(rows: HeldOutRows | ScoredRows | None, labels: Sequence[str]) -> dict[str, Any] | None:
    """Return the number of rows of each class, and its share of the weights."""
    if not isinstance(rows, ScoredRows):
        return None
    counts, weights = (np.bincount(rows.code, w, minlength=len(labels)) for w in (rows.counts, rows.weight))
    parts = zip(labels, counts.tolist(), (weights / weights.sum()).tolist(), strict=True)
    classes = [{"name": name, "count": number, "share": share} for name, number, share in parts]
    return {"classes": classes, "weighted": rows.is_weighted}


def _target_histogram(rows: HeldOutRows | ScoredRows | None, name: str) -> dict[str, Any] | None:
    if rows is None or not rows.varies:
        return None
    low, high = float(rows.observed.min()), float(rows.observed.max())
    return {"name": name, "low": low, "high": high, "counts": histogram(rows.observed, rows.weight, 2 * BINS)}
