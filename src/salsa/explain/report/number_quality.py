"""The checks of counts, amounts and quantiles on held-out rows, by bins of the prediction and by counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import poisson

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error
from salsa.explain.report.class_quality import wilson
from salsa.explain.report.held_out_groups import units_in
from salsa.explain.report.phrases import count, percent
from salsa.explain.report.scored_rows import ScoredRows
from salsa.losses import Gamma, Poisson, Quantile

MOST_BINS, FEWEST_IN_BIN = 10, 10  # bins of the prediction, and rows in each
MOST_COUNTS = 30  # a rootogram has at most so many bars
COVERED_COUNTS = 0.99  # counts beyond this share of the rows are one bar
ROOTOGRAM_NOTE = (
    "Bars are observed, dots expected, with ± 2 standard deviations of Poisson counts. Heights are on a square-root"
    " scale."
)
OVER = 1.1  # a smaller dispersion is not called overdispersion, however sure


def number_panels(title: str, rows: ScoredRows, *, fitted: bool) -> list[dict[str, Any]]:
    """Return the pictures that fit the loss; `fitted`: the level of a quantile was set by these rows."""
    if len(rows.f) < 2 * FEWEST_IN_BIN:
        return []
    if isinstance(rows.loss, Quantile):
        return [share_below(title, rows, rows.loss.level, fitted=fitted)]
    if isinstance(rows.loss, Gamma):
        return [means_by_bins(title, rows, log=True)]
    if isinstance(rows.loss, Poisson):
        return [means_by_bins(title, rows, log=False), *rootogram(title, rows)]
    return []


def _bins(rows: ScoredRows) -> list[Places]:
    """Return the places of the rows in each bin: equal numbers of rows, by ascending prediction."""
    order = np.argsort(rows.predicted, kind="stable")
    return np.array_split(order, max(2, min(MOST_BINS, len(order) // FEWEST_IN_BIN)))


def _mean_of(rows: ScoredRows, part: Places) -> tuple[float, float]:
    """Return the weighted mean target of a bin and its standard error, by the spread of rows, or of groups."""
    unit = None if rows.unit is None or units_in(rows.unit[part]) == 1 else rows.unit[part]
    n = len(part) if unit is None else units_in(unit)
    mean, error = mean_and_standard_error(rows.observed[part], rows.weight[part], unit)
    return mean, float(np.sqrt(n / max(1, n - 1))) * error


def means_by_bins(title: str, rows: ScoredRows, *, log: bool) -> dict[str, Any]:
    """Return the mean prediction and the mean target of each bin, with standard errors."""
    parts, w = _bins(rows), rows.weight
    expected = [float(np.average(rows.predicted[part], weights=w[part])) for part in parts]
    found = [_mean_of(rows, part) for part in parts]
    scale = ", on log scales" if log else ""
    note = f"{count(len(parts), 'bin')} of equal numbers of rows by their prediction; bars: ± 2 standard errors{scale}."
    observed, error = (list(column) for column in zip(*found, strict=True))
    return {
        "kind": "means",
        "title": f"{title}: observed against expected means",
        "expected": expected,
        "observed": observed,
        "error": error,
        "log": log,
        "note": note,
    }


def dispersion(rows: ScoredRows) -> tuple[float, float]:
    """Return the mean of (y - mu)^2 / mu over held-out rows, 1 for Poisson counts, and its standard error."""
    return rows.mean((rows.observed - rows.predicted) ** 2 / rows.predicted)


def _is_whole(rows: ScoredRows) -> bool:
    return bool((np.floor(rows.observed) == rows.observed).all()) and getattr(rows.loss, "whole", False)


def dispersion_words(rows: ScoredRows) -> str:
    """Say whether the counts vary more than Poisson counts."""
    if not _is_whole(rows):
        return (
            "The targets are rates, not whole numbers: the dispersion of their counts is not known, because the fit"
            " keeps exposures (weights) only up to a factor."
        )
    found, error = dispersion(rows)
    words = f"held-out Pearson dispersion {found:.2f} (standard error {error:.2f}); it is 1 for Poisson counts"
    if found > max(OVER, 1.0 + 2.0 * error):
        return f"The counts are overdispersed: {words}. predict_interval does not assume Poisson counts."
    if found < 1.0 - 2.0 * error:
        return f"The counts vary less than Poisson counts: {words}."
    return f"The counts vary about as much as Poisson counts: {words}."


def rootogram(title: str, rows: ScoredRows) -> list[dict[str, Any]]:
    """Return how many rows have the counts 0, 1, 2, ..., and how many Poisson counts with these means would have."""
    if not _is_whole(rows):
        return []
    starts = _starts(rows.observed)
    below: Floats = np.asarray(poisson.cdf(starts - 1, rows.predicted[:, None]))  # (n, B)
    shares = np.diff(np.column_stack([below, np.ones(len(below))]), axis=1)
    w, place = rows.weight, np.searchsorted(starts, rows.observed, side="right") - 1
    spread = np.sqrt(w**2 @ (shares * (1.0 - shares)))
    ends = [*(starts[1:] - 1).astype(int).tolist(), None]
    return [
        {
            "kind": "rootogram",
            "title": f"{title}: how often each count occurs",
            "labels": [_range_words(int(start), end) for start, end in zip(starts, ends, strict=True)],
            "observed": np.bincount(place, w, minlength=len(starts)),
            "expected": w @ shares,
            "error": spread,
            "note": ROOTOGRAM_NOTE,
        }
    ]


def _starts(counts: Floats) -> Floats:
    """Return the first counts of the bars; the last bar has no end."""
    most = int(np.quantile(counts, COVERED_COUNTS, method="higher"))
    width = -(-(most + 1) // MOST_COUNTS)
    return np.arange(0, most + 2, width, dtype=np.float64)


def _range_words(start: int, end: int | None) -> str:
    if end is None:
        return f"{start}+"
    return str(start) if end == start else f"{start}–{end}"


def share_below(title: str, rows: ScoredRows, level: float, *, fitted: bool) -> dict[str, Any]:
    """Return the share of targets up to the predicted quantile, in each bin of the prediction."""
    parts, w, is_below = _bins(rows), rows.weight, rows.observed <= rows.predicted
    share = np.array([float(np.average(is_below[part], weights=w[part])) for part in parts])
    number = np.array([w[part].sum() ** 2 / (w[part] @ w[part]) for part in parts])
    low, high = wilson(share, number)
    independent = "" if rows.unit is None else ", as if rows were independent"
    note = f"Over all rows, {percent(rows.mean(is_below)[0])} of the targets are at or below it."
    if fitted:
        note = f"{note} The quantile was shifted so that this holds over all of these rows; in a bin it need not."
    return {
        "kind": "below",
        "title": f"{title}: share of targets at or below the predicted {percent(level)} quantile",
        "predicted": [float(np.average(rows.predicted[part], weights=w[part])) for part in parts],
        "share": share,
        "low": low,
        "high": high,
        "level": level,
        "note": f"{note} Bars: 95 % intervals of {count(len(parts), 'bin')} of equal numbers of rows{independent}.",
    }
