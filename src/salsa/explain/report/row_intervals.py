"""The intervals, or sets of classes, of the rows that the what-if panel starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from salsa.explain.report.judging_rows import Given
from salsa.explain.subject import interval_ends
from salsa.fitted import fitted_of

LEVEL = 0.9


def with_intervals(examples: list[dict[str, Any]], model: Any, given: Given, output: int) -> list[dict[str, Any]]:
    """Add to each given row its interval [low, high], or its set of classes: the page cannot compute them itself."""
    count = 0 if given.X is None else len(examples) - 1  # the first example is no row
    if given.X is None or not count:
        return examples
    rows = given.table if count == len(given.X) else _safe_indexing(given.table, np.arange(count))
    known = [{}, *_known(model, rows, output)]
    return [{**example, **found} for example, found in zip(examples, known, strict=True)]


def _known(model: Any, rows: Any, output: int) -> list[dict[str, Any]]:
    if (classes := fitted_of(model).classes) is not None:
        chosen = model.predict_set(rows, LEVEL)
        return [{"set": [str(label) for label in classes[holds]]} for holds in chosen]
    ends = interval_ends(model, rows, [LEVEL])[0, :, output]
    return [{"interval": [float(low), float(high)]} for low, high in ends]
