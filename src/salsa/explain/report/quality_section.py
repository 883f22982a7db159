"""The sections on quality: R2, the search, predicted against observed values, and the coverage of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.explain.report import held_out_rows
from salsa.explain.report.held_out_groups import folds_of_units
from salsa.explain.report.held_out_rows import R2, Coverage, HeldOutRows
from salsa.explain.report.judging_rows import Evidence, Given
from salsa.explain.report.phrases import amount, count, listed, percent, quantised
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.selection.results import Contender
from salsa.uncertainty.jackknife import ExactUncertainty

SCATTER_POINTS = 2000
WIDE, NARROW = "wider than needed", "too narrow"
DASHED_NOTE = "Above the dashed line, intervals are wider than needed; below it, they are too narrow."
COVERAGE_NOTE = (
    f"{DASHED_NOTE} Normal intervals come from the prediction and its standard deviation. Intervals of predict_interval"
    " assume no normal distribution."
)
RACE_NOTE = (
    "Error on held-out rows, ± 2 standard errors; the filled kernel was kept. A learned kernel is pruned if its error"
    " hardly grows. Equal relevances are kept only if they are clearly better."
)
LEARNED_NOTE = "The kept kernel was learned again on all rows, which can change its order and features."
EQUAL_NOTE = "They are: relevances are equal, and the order was then searched on all rows."
ORDERS_NOTE = "Cross-validation error at the best penalty, ± 2 standard errors; the filled order was chosen."
MEASURE = {
    "caption": "Share of the target's variance explained, R², with ± 2 standard errors",
    "axis": "R²",
    "name": "R²",
}


Scores = list[dict[str, Any]]


def all_scores(model: Any, subject: Subject, given: Given, evidence: Evidence) -> Scores:
    """Return R2 of the model and of a linear model; scores on new rows come first."""
    columns, X, training = subject.columns, subject.expansion.anchors, _plain(evidence.training)
    rows = _search_scores(model, training)
    fold = _folds(model)
    if training is not None and fold is not None:
        linear = held_out_rows.linear_cross_validated(columns, X, training, fold)
        rows.append(_entry("linear model, cross-validation", held_out_rows.score(linear)))
    if (new := _plain(evidence.new)) is not None and given.X is not None:
        rows.insert(0, _entry("salsa, new rows", held_out_rows.score(new), strong=True))
        where, new_X = "cross-validation on new rows", given.X[evidence.places]
        if training is not None and len(training.observed) == len(X):
            where, linear = "new rows", held_out_rows.linear_on_new(columns, X, training, new_X, new)
        else:
            linear = held_out_rows.linear_cross_validated(columns, new_X, new, folds_of_units(new.unit, len(new_X)))
        rows.append(_entry(f"linear model, {where}", held_out_rows.score(linear)))
    found = [row for row in rows if row is not None]
    return [*found, {"name": "always the mean", "explained": 0.0, "error": None, "strong": False}] if found else []


def _plain(rows: HeldOutRows | ScoredRows | None) -> HeldOutRows | None:
    """Return rows that are judged by squared errors; None for other losses, which have sections of their own."""
    return rows if isinstance(rows, HeldOutRows) else None


def _folds(model: Any) -> Places | None:
    """Return the folds of the fit that judge an exact model's training rows (n,); None if later rows judge."""
    kept = fitted_of(model).uncertainty
    return kept.judged.fold if isinstance(kept, ExactUncertainty) else None


def _search_scores(model: Any, training: HeldOutRows | None) -> list[dict[str, Any] | None]:
    """Return R2 of the model from the race and cross-validation, or by leave-one-out if nothing was searched."""
    if training is not None and not training.varies:
        return []
    if fitted_of(model).transform is not None:  # errors of the search are on another scale than the target's
        return [_entry("salsa, leave-one-out", held_out_rows.score(training), strong=True)]
    table, race = model.search_.table, model.search_.race
    learned = race[race["won"]] if len(race) and not _equal_won(model) else race[:0]
    rows = [
        *(("salsa, kernel learned from other rows", 1 - r.error, r.standard_error) for r in learned.itertuples()),
        *(("salsa, cross-validation", 1 - r.cv_error, r.standard_error) for r in table[table["chosen"]].itertuples()),
    ]
    if not rows:
        return [_entry("salsa, leave-one-out", held_out_rows.score(training), strong=True)]
    return [_entry(name, R2(r2, error), strong=True) for name, r2, error in rows]


def _entry(name: str, score: R2 | None, strong: bool = False) -> dict[str, Any] | None:
    return None if score is None else score_entry(name, score.r2, score.error, strong=strong)


def score_entry(name: str, explained: float, error: float, *, strong: bool) -> dict[str, Any] | None:
    """Return one row of the chart of scores; None for a score that is not finite."""
    if not np.isfinite(explained):
        return None
    return {"name": name, "explained": float(explained), "error": float(error), "strong": strong}


def quality_section(model: Any, evidence: Evidence, scores: Scores) -> dict[str, Any]:
    training = f"Training rows, each predicted without {evidence.alone}"
    shown = {"New rows": _plain(evidence.new), training: _plain(evidence.training)}
    return {
        "sentence": _quality_sentence(scores, evidence),
        "measure": MEASURE,
        "scores": scores,
        "searches": searches(model, "error / variance", "error / variance"),
        "scatters": [_scatter(title, rows) for title, rows in shown.items() if rows is not None],
        "panels": [],
        "classes": None,
        "notes": evidence.notes,
    }


def _quality_sentence(scores: Scores, evidence: Evidence) -> str:
    if evidence.training is not None and not evidence.training.varies:
        return "The target is constant: there is no variance to explain."
    if not scores:
        return "There are too few rows to say how good the model is."
    best = scores[0]
    where = {"salsa, new rows": "On the new rows", "salsa, cross-validation": "In cross-validation"}
    place = where.get(best["name"], "On held-out rows")
    if best["explained"] <= 0:
        return f"{place} the model predicts no better than the mean of the target."
    noise = f" (standard error {percent(best['error'])})" if best["error"] else ""
    words = f"{place} the model explains {percent(best['explained'])} of the target's variance{noise}"
    kind = "new rows" if best["name"] == "salsa, new rows" else "cross-validation"
    rivals = [row for row in scores if row["name"] == f"linear model, {kind}"]
    return words + (f"; {_against(best, rivals[0])}." if rivals else ".")


def _against(best: dict[str, Any], linear: dict[str, Any]) -> str:
    if linear["explained"] <= 0:
        return "a linear model explains nothing of it"
    gap, noise = best["explained"] - linear["explained"], np.hypot(best["error"], linear["error"])
    comparison = "about as much" if abs(gap) < noise else "less" if gap > 0 else "more"
    return f"a linear model explains {comparison}, {percent(linear['explained'])}"


def searches(model: Any, axis: str, race_axis: str, race_note: str = "") -> list[dict[str, Any]]:
    """Return the kernels that competed and the orders that were tried; the axes name their errors."""
    return [*_race(model, race_axis, race_note), *_orders(model, axis)]


def _race(model: Any, axis: str, more: str) -> list[dict[str, Any]]:
    """Return the kernels that competed, the best first, with a note on the kernel that was kept."""
    race = sorted(model.search_.contenders, key=lambda contender: contender.error)
    rows = [(_contender_name(r), r.error, r.standard_error, r.won) for r in race]
    note = f"{RACE_NOTE} {EQUAL_NOTE if _equal_won(model) else _learned_note(model)} {more}".rstrip()
    return [_search("Kernels that competed", axis, note, rows)] if rows else []


def _learned_note(model: Any) -> str:
    """Say that the kept kernel was learned again, and what this changed."""
    changed = model.search_.after_race(int(np.count_nonzero(model.relevance_)))
    return f"{LEARNED_NOTE} Now it has {changed}." if changed else LEARNED_NOTE


def _orders(model: Any, axis: str) -> list[dict[str, Any]]:
    """Return the orders that were tried with the kernel of the model."""
    table = model.search_.table
    rows = [(f"order {r.order}", r.cv_error, r.standard_error, r.chosen) for r in table.itertuples()]
    title = "Orders that were tried, with equal relevances" if _equal_won(model) else "Orders that were tried"
    return [_search(title, axis, ORDERS_NOTE, rows)] if len(rows) > 1 else []


def _equal_won(model: Any) -> bool:
    winner = model.search_.winner
    return winner is not None and winner.origin == "equal"


def _search(title: str, axis: str, note: str, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    names = ("name", "value", "error", "strong")
    return {"title": title, "axis": axis, "note": note, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def _contender_name(row: Contender) -> str:
    features = f", {count(row.features, 'feature')}" if row.origin == "pruned" else ""
    return f"{row.kernel}, order {row.order}{features}"


def _scatter(title: str, rows: HeldOutRows) -> dict[str, Any]:
    residual = rows.observed - rows.predicted
    rmse, mae = (float(np.average(np.abs(residual) ** p, weights=rows.weight) ** (1 / p)) for p in (2, 1))
    n = count(len(residual), "row")
    note = f"Root mean squared error {amount(rmse)}, mean absolute error {amount(mae)}, {n}."
    return scatter_of(title, rows.observed, rows.predicted, note)


def scatter_of(title: str, observed: Floats, predicted: Floats, note: str) -> dict[str, Any]:
    """Return targets and predictions (n,), or a sample of them, for drawing."""
    n = len(observed)
    if n > SCATTER_POINTS:
        shown = np.sort(np.random.default_rng(0).choice(n, SCATTER_POINTS, replace=False))
        observed, predicted = observed[shown], predicted[shown]
        note = f"{note.removesuffix('.')} ({SCATTER_POINTS} drawn)."
    return {"title": title, "observed": quantised(observed), "predicted": quantised(predicted), "note": note}


def interval_section(model: Any, given: Given, evidence: Evidence, output: int) -> dict[str, Any]:
    curves: dict[str, Coverage] = {}
    training = evidence.training
    if isinstance(training, HeldOutRows) and (found := held_out_rows.normal_coverage(training)) is not None:
        curves[f"normal intervals, training rows each predicted without {evidence.alone}"] = found
    if evidence.new is not None and evidence.no_bands is None:
        found = held_out_rows.interval_coverage(model, given.table, evidence.places, evidence.new, output)
        if found is not None:
            curves["predict_interval, new rows"] = found
    if not curves:
        none = f"There are no intervals: {evidence.no_bands}."
        few = "The held-out rows do not suffice to check intervals."
        return {"sentence": none if evidence.no_bands else few, "note": "", "curves": []}
    new = "" if evidence.new is None else _new_rows_words(len(evidence.new.observed))
    wheres = ("the training rows" if "training" in name else new for name in curves)
    sentence = " ".join(map(_coverage_sentence, wheres, curves.values()))
    drawn = [{"name": name, **coverage._asdict()} for name, coverage in curves.items()]
    return {"sentence": sentence, "note": COVERAGE_NOTE, "curves": drawn}


def _new_rows_words(n: int) -> str:
    """Name the new rows whose intervals were computed."""
    drawn = len(held_out_rows.interval_rows(n))
    return "the new rows" if drawn == n else f"{drawn:,} of the {n:,} new rows"


def _coverage_sentence(where: str, coverage: Coverage) -> str:
    places = [int(np.argmin(np.abs(coverage.nominal - level))) for level in (0.5, 0.9)]
    meant, held = (listed(percent(shares[at]) for at in places) for shares in (coverage.nominal, coverage.actual))
    return f"Intervals meant to hold {meant} of {where} held {held}: {_verdict(coverage, places)}."


def _verdict(coverage: Coverage, places: list[int]) -> str:
    gaps = [coverage.actual[at] - coverage.nominal[at] for at in places]
    limits = [max(0.02, 2 * coverage.error[at]) for at in places]
    found = ["" if abs(gap) <= limit else WIDE if gap > 0 else NARROW for gap, limit in zip(gaps, limits, strict=True)]
    if found[0] == found[1]:
        return f"both are {found[0]}" if found[0] else "as intended"
    names = [percent(coverage.nominal[at]) for at in places]
    return listed(f"the {name} intervals are {word or 'as intended'}" for name, word in zip(names, found, strict=True))
