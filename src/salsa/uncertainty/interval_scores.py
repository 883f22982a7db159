"""The choice between scales of intervals: the least interval score on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from salsa._utils.arrays import Floats

PLAIN, POSTERIOR, LOCAL = "constant", "posterior", "local"
LEVELS = (0.5, 0.8, 0.9, 0.95)  # coverages at which scales are compared


def rank_of(coverage: float, count: Floats, units: int = 0) -> float:
    """Return how many of the counts an end must reach: the coverage of all, and of one more unit of average size."""
    total = float(count.sum())
    return coverage * total * (1.0 + 1.0 / (units or total)) * (1.0 - 1e-12)  # 0.9 * 10 is 9, whatever rounding says


def best_scale(size: Floats, scales: Mapping[str, Floats], count: Floats, units: int = 0) -> tuple[str, ...]:
    """Return the scale of least score for every output; sizes (n, q) of residuals, scales (n, 1) or (n, q)."""
    if not np.isfinite(size).all():  # a single row, which tells nothing
        return tuple([PLAIN] * size.shape[1])
    chosen = []
    for j, residual in enumerate(size.T):
        columns = {name: scale[:, min(j, scale.shape[1] - 1)] for name, scale in scales.items()}
        score = {name: interval_score(residual, scale, count, units) for name, scale in columns.items()}
        chosen.append(min(score, key=score.__getitem__))
    return tuple(chosen)


def interval_score(size: Floats, scale: Floats, count: Floats, units: int = 0) -> float:
    """Return the mean interval score (Winkler, 1972) over LEVELS of intervals f +- q scale for residuals of this size.

    The score of an interval is its width, plus 2 / (1 - coverage) times the distance by which it misses. It is weighted
    by (1 - coverage) / 2, so that no level dominates.
    """
    standard = size / scale
    order = np.argsort(standard)
    reached = np.cumsum(count[order])
    total = 0.0
    for level in LEVELS:
        if (need := rank_of(level, count, units)) > reached[-1]:
            continue
        q = standard[order[int(np.searchsorted(reached, need))]]
        half = q * scale
        total += float(count @ ((1 - level) * half + np.maximum(size - half, 0.0)) / reached[-1])
    return total
