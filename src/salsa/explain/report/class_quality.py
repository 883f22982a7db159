"""The quality of class probabilities on held-out rows: scores, confusions, calibration, ROC and precision-recall."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from salsa._utils.arrays import Floats
from salsa.explain.report.phrases import count, percent
from salsa.explain.report.scored_rows import ScoredRows

MOST_BINS, FEWEST_IN_BIN = 10, 20  # a reliability curve has at most so many bins, of at least so many rows
CURVE_POINTS = 150  # a drawn curve has at most so many points
MOST_CLASSES = 20  # a confusion matrix shows at most so many classes, the most frequent ones
NORMAL_95 = 1.96  # a normal number is within so many standard deviations in 95 % of cases
WEIGHTS_NOTE = "Rows have weights: scores are weighted means, and counts are sums of weights, which are one on average."
UNITS_NOTE = (
    "Standard errors of scores count rows that belong together, such as a group, as one unit; bars of the calibration,"
    " and what it says of chance, treat rows as independent."
)

Sets = dict[str, ScoredRows]


def class_panels(classes: NDArray[Any], sets: Sets, chosen: int) -> dict[str, Any]:
    """Return all that the page shows about probabilities, for every set of rows; `chosen` is the class shown first."""
    names = [str(label) for label in classes]
    shown = [1] if len(names) == 2 else range(len(names))
    return {
        "labels": names,
        "chosen": 0 if len(names) == 2 else chosen,
        "table": score_table(names, sets),
        "confusions": [_confusion(title, rows, names) for title, rows in sets.items()],
        "curves": [
            {"label": names[k], "sets": [_class_curves(title, rows, k) for title, rows in sets.items()]} for k in shown
        ],
        "note": _rows_note(sets),
    }


def _rows_note(sets: Sets) -> str:
    weighted = any(rows.is_weighted for rows in sets.values())
    grouped = any(rows.unit is not None for rows in sets.values())
    return " ".join([*([WEIGHTS_NOTE] if weighted else []), *([UNITS_NOTE] if grouped else [])])


# Scores ---------------------------------------------------------------------------------------------------------------


def score_table(names: list[str], sets: Sets) -> dict[str, Any]:
    """Return one row per score, with a cell for each set of rows."""
    columns = [scores_of(rows, names) for rows in sets.values()]
    rows = [{"name": name, "cells": [column[name] for column in columns]} for name in columns[0]] if columns else []
    head = [f"{title} ({len(found.f):,})" for title, found in sets.items()]
    return {"head": head, "rows": rows}


def scores_of(rows: ScoredRows, names: list[str]) -> dict[str, dict[str, float | None]]:
    """Return the scores by their names, each with the score of the class shares where there is one."""
    p, onehot = rows.probabilities, np.eye(len(names))[rows.code]
    shares = rows.weight @ onehot / rows.weight.sum()
    log_loss, brier = rows.mean(rows.losses), rows.mean(brier_scores(onehot, p))
    accuracy = rows.mean(p.argmax(axis=1) == rows.code)
    found = {
        "Log loss": _cell(*log_loss, rows.constant_loss),
        "Brier score": _cell(*brier, rows.mean(brier_scores(onehot, shares))[0]),
        "Accuracy": _cell(*accuracy, float(shares.max())),
    }
    if len(names) == 2:
        return {**found, "AUC": _cell(area(rows, 1), None, 0.5)}
    return found | {f"AUC of {name} against the rest": _cell(area(rows, k), None, 0.5) for k, name in enumerate(names)}


def _cell(value: float | None, error: float | None, constant: float | None) -> dict[str, float | None]:
    return {"value": value, "error": error, "constant": constant}


def brier_scores(onehot: Floats, p: Floats) -> Floats:
    """Return the squared distance (n,) of probabilities and classes; half of it for two classes, as is usual."""
    distance: Floats = np.sum((p - onehot) ** 2, axis=1)
    return 0.5 * distance if onehot.shape[1] == 2 else distance


def area(rows: ScoredRows, k: int) -> float | None:
    """Return the area under the ROC curve of class k against the rest; None without rows of both kinds."""
    is_k = rows.code == k
    if is_k.all() or not is_k.any():
        return None
    return float(roc_auc_score(is_k, rows.probabilities[:, k], sample_weight=rows.weight))


# Confusions -----------------------------------------------------------------------------------------------------------


def _confusion(title: str, rows: ScoredRows, names: list[str]) -> dict[str, Any]:
    """Return counts (C, C) of true classes (rows) and predicted ones (columns), and their shares of the true class."""
    places = np.arange(len(names))
    counts = confusion_matrix(rows.code, rows.probabilities.argmax(axis=1), labels=places, sample_weight=rows.weight)
    totals = counts.sum(axis=1)
    kept = np.sort(np.argsort(-totals, kind="stable")[:MOST_CLASSES])
    note = "" if len(kept) == len(names) else f"The {MOST_CLASSES} most frequent of {len(names)} classes are shown."
    shares = counts / np.where(totals > 0, totals, 1.0)[:, None]
    block = np.ix_(kept, kept)
    labels = [names[k] for k in kept]
    return {
        "title": title,
        "labels": labels,
        "counts": np.round(counts[block], 1),
        "shares": shares[block],
        "note": note,
    }


# Curves ---------------------------------------------------------------------------------------------------------------


def _class_curves(title: str, rows: ScoredRows, k: int) -> dict[str, Any]:
    """Return calibration, ROC and precision-recall curves of class k against the rest."""
    is_k, p = rows.code == k, rows.probabilities[:, k]
    found: dict[str, Any] = {"name": title, "reliability": None, "roc": None, "recall": None}
    if len(p) >= 2 * FEWEST_IN_BIN:
        found["reliability"] = _drawn_reliability(reliability(is_k, p, rows.weight))
    if is_k.any() and not is_k.all():
        false, true, _ = roc_curve(is_k, p, sample_weight=rows.weight)
        precision, recall, _ = precision_recall_curve(is_k, p, sample_weight=rows.weight)
        found["roc"] = {**_thinned(false, true), "area": area(rows, k)}
        mean = float(average_precision_score(is_k, p, sample_weight=rows.weight))
        found["recall"] = {**_thinned(recall[::-1], precision[::-1]), "mean": mean, "share": rows.mean(is_k)[0]}
    return found


def _thinned(x: Floats, y: Floats) -> dict[str, Floats]:
    """Return at most CURVE_POINTS points of a curve, both ends included, evenly spaced along it."""
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    places = np.searchsorted(along, np.linspace(0.0, along[-1], CURVE_POINTS))
    kept = np.unique(np.concatenate([[0, len(x) - 1], np.minimum(places, len(x) - 1)]))
    return {"x": np.round(x[kept], 4), "y": np.round(y[kept], 4)}


class Reliability(NamedTuple):
    """Bins of equal numbers of rows: mean probability, observed frequency with its 95 % interval, share of weight."""

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    share: Floats
    error: float  # expected calibration error
    chance: float  # the calibration error that calibrated probabilities have on average, by chance
    spread: float  # standard deviation of the calibration error of calibrated probabilities


def reliability(is_k: NDArray[np.bool_], p: Floats, w: Floats) -> Reliability:
    """Compare probabilities p (n,) with frequencies, in bins of the sorted probabilities."""
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, max(2, min(MOST_BINS, len(p) // FEWEST_IN_BIN)))
    weight = np.array([w[part].sum() for part in parts])
    predicted = np.array([w[part] @ p[part] for part in parts]) / weight
    observed = np.array([w[part] @ is_k[part] for part in parts]) / weight
    rows = weight**2 / np.array([w[part] @ w[part] for part in parts])
    noise = np.sqrt([float(np.sum(w[part] ** 2 * p[part] * (1.0 - p[part]))) for part in parts]) / weight
    share = weight / weight.sum()
    mean = np.sqrt(2.0 / np.pi)  # the mean absolute value of a normal number
    error, chance = float(share @ np.abs(observed - predicted)), mean * float(share @ noise)
    spread = float(np.sqrt((1.0 - mean**2) * np.sum((share * noise) ** 2)))
    return Reliability(predicted, observed, *wilson(observed, rows), share, error, float(chance), spread)


def wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of a binomial share of n rows: it is not empty where the share is 0 or 1."""
    z2 = NORMAL_95**2
    middle = (share + 0.5 * z2 / n) / (1.0 + z2 / n)
    reach = NORMAL_95 * np.sqrt(share * (1.0 - share) / n + 0.25 * z2 / n**2) / (1.0 + z2 / n)
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def _drawn_reliability(found: Reliability) -> dict[str, Any]:
    return {**{name: np.round(value, 5) for name, value in found._asdict().items()}, "words": calibration_words(found)}


def calibration_words(found: Reliability) -> str:
    """Describe the expected calibration error, against what chance alone gives."""
    found_in = f"Expected calibration error {percent(found.error)} in {count(len(found.share), 'bin')}"
    by_chance = f"calibrated probabilities have about {percent(found.chance)} by chance"
    if found.error > found.chance + 2.0 * found.spread:
        return f"{found_in}, more than chance explains: {by_chance}."
    return f"{found_in}, which chance can explain: {by_chance}."
