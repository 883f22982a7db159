"""The sections on quality: R2, the search, predicted against observed values, and the coverage of intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa.data.copies import row_hashes
from salsa.data.training_range import encoded
from salsa.explain.report import held_out_rows
from salsa.explain.report.held_out_rows import FOLDS, R2, Coverage, HeldOutRows
from salsa.explain.report.phrases import count, listed, percent, quantised
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.selection.results import Contender
from salsa.uncertainty import Unavailable
from salsa.uncertainty.jackknife import ExactUncertainty

SCATTER_POINTS = 2000
UNNAMED = "the target"
WIDE, NARROW = "wider than needed", "too narrow"
COVERAGE_NOTE = (
    "Above the dashed line, intervals are wider than needed; below it, they are too narrow. Normal intervals come from"
    " the prediction and its standard deviation. Intervals of predict_interval assume no normal distribution."
)
RACE_NOTE = (
    "Error on held-out rows, ± 2 standard errors; the filled kernel was kept. A learned kernel is pruned if its error"
    " hardly grows. Equal relevances are kept only if they are clearly better."
)
LEARNED_NOTE = "The kept kernel was learned again on all rows, which can change its order and features."
EQUAL_NOTE = "They are: relevances are equal, and the order was then searched on all rows."
ORDERS_NOTE = "Cross-validation error at the best penalty, ± 2 standard errors; the filled order was chosen."


Scores = list[dict[str, Any]]


class Given(NamedTuple):
    """The rows and targets that the caller gave for the report, if any."""

    table: Any
    X: Floats | None  # encoded
    y: Floats | None
    target: str

    @property
    def title(self) -> str:
        return "A salsa model" if self.target == UNNAMED else f"A model of {self.target}"


class Evidence(NamedTuple):
    """Predictions of rows that the predicting model did not see; None where they are not available."""

    training: HeldOutRows | None = None
    new: HeldOutRows | None = None  # the given rows that are not training rows
    places: Places = np.empty(0, dtype=np.intp)  # places of the new rows among the given rows
    known: int = 0  # number of given rows that are training rows
    reason: str | None = None  # why leave-one-out predictions are not available
    anchored: bool = False  # a low-rank model: its anchors stand for the training rows
    no_bands: str | None = None  # why there are neither bands nor intervals

    @property
    def notes(self) -> list[str]:
        """Notes on the rows for the reader of the page."""
        notes = [] if self.reason is None else [f"The training rows have no leave-one-out predictions: {self.reason}."]
        if self.known and self.new is None:
            notes.append(f"This page was given no new rows: all {self.known:,} are in the training table.")
        elif self.known:
            notes.append(f"Left out because they are training rows: {count(self.known, 'given row')}.")
        if self.new is not None and self.anchored:
            notes.append("A low-rank model recognises only its anchors: other training rows would count as new rows.")
        return notes


def given_rows(model: Any, X: Any, y: Any, output: int) -> Given:
    target = str(getattr(y, "name", None) or UNNAMED)
    if X is None:
        if y is not None:
            raise ValueError("y was given without X: give the rows that these targets belong to")
        return Given(None, None, None, target)
    rows = encoded(model, X)
    return Given(X, rows, None if y is None else _targets(model, y, len(rows), output), target)


def _targets(model: Any, y: Any, n: int, output: int) -> Floats:
    values = np.asarray(y, dtype=np.float64)
    outputs = model.expansion_.coef.shape[1]
    if values.shape not in {(n,), (n, outputs)} or (values.ndim == 1 and outputs > 1):
        wanted = f"({n},)" if outputs == 1 else f"({n}, {outputs})"
        raise ValueError(f"y has the shape {values.shape}; {n} rows of X and {outputs} outputs need {wanted}")
    values = values.reshape(n, outputs)[:, output]
    if not np.isfinite(values).all():
        raise ValueError("y has missing or infinite values: remove these rows from X and y")
    return values


def evidence_of(model: Any, subject: Subject, given: Given, output: int) -> Evidence:
    evidence = _training_evidence(model, subject, output)
    if given.X is None or given.y is None:
        return evidence
    known = _known(subject, evidence, given.X, given.y)
    new, places = None, np.flatnonzero(~known)
    if len(places):
        predicted = _in_units(model, subject.expansion.predict(given.X[places]))[:, output]
        new = HeldOutRows(given.y[places], predicted, np.ones(len(places)))
    return evidence._replace(new=new, places=places, known=int(known.sum()))


def _in_units(model: Any, f: Floats) -> Floats:
    transform = fitted_of(model).transform
    return f if transform is None else transform.mean(f)


def _training_evidence(model: Any, subject: Subject, output: int) -> Evidence:
    """Return leave-one-out predictions, or the reason for their absence."""
    kept = fitted_of(model).uncertainty
    if isinstance(kept, Unavailable):
        return Evidence(reason=kept.reason, no_bands=kept.reason)
    if not kept.keeps_rows:
        anchored = len(kept.points) == len(subject.expansion.anchors)
        origin = "" if anchored else "the uncertainty of so many rows comes from a low-rank model: "
        return Evidence(reason=f"{origin}a low-rank model keeps no training rows", anchored=anchored)
    try:
        training = held_out_rows.training_rows(model, output)
        return Evidence(training if len(training.observed) > 1 else None)
    except MemoryError as error:
        reason = str(error).rstrip(".")
        return Evidence(reason=reason, no_bands=reason)


def _known(subject: Subject, evidence: Evidence, X: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return which rows are training rows, by features and target, or by features alone if targets are not kept.

    A low-rank model knows its anchors only: a table that contains all anchors is taken for the training table.
    """
    anchors = subject.expansion.anchors
    targets = np.full(len(anchors), np.nan) if evidence.training is None else evidence.training.observed
    if len(targets) != len(anchors):  # later rows judge: the first ones have no held-out prediction
        targets = np.full(len(anchors), np.nan)
    close = 1e-6 * np.ptp(targets)
    seen: dict[int, list[float]] = {}
    for row, target in zip(row_hashes(anchors).tolist(), targets, strict=True):
        seen.setdefault(row, []).append(target)
    keys = row_hashes(X).tolist()
    if evidence.anchored and seen.keys() <= set(keys):
        return np.ones(len(X), dtype=bool)
    same = [
        any(not abs(other - target) > close for other in seen.get(row, ()))  # a NaN target equals every target
        for row, target in zip(keys, y, strict=True)
    ]
    return np.array(same, dtype=bool)


def all_scores(model: Any, subject: Subject, given: Given, evidence: Evidence) -> Scores:
    """Return R2 of the model and of a linear model; scores on new rows come first."""
    columns, X, training = subject.columns, subject.expansion.anchors, evidence.training
    rows = _search_scores(model, training)
    fold = _folds(model)
    if training is not None and fold is not None:
        linear = held_out_rows.linear_cross_validated(columns, X, training, fold)
        rows.append(_entry("linear model, cross-validation", held_out_rows.score(linear)))
    if (new := evidence.new) is not None and given.X is not None:
        rows.insert(0, _entry("salsa, new rows", held_out_rows.score(new), strong=True))
        where, new_X = "cross-validation on new rows", given.X[evidence.places]
        if training is not None and len(training.observed) == len(X):
            where, linear = "new rows", held_out_rows.linear_on_new(columns, X, training, new_X, new)
        else:
            linear = held_out_rows.linear_cross_validated(columns, new_X, new, np.arange(len(new_X)) % FOLDS)
        rows.append(_entry(f"linear model, {where}", held_out_rows.score(linear)))
    found = [row for row in rows if row is not None]
    return [*found, {"name": "always the mean", "r2": 0.0, "error": None, "strong": False}] if found else []


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
    if score is None or not np.isfinite(score.r2):
        return None
    return {"name": name, "r2": float(score.r2), "error": float(score.error), "strong": strong}


def quality_section(model: Any, evidence: Evidence, scores: Scores) -> dict[str, Any]:
    shown = {"New rows": evidence.new, "Training rows, each predicted without itself": evidence.training}
    return {
        "sentence": _quality_sentence(scores, evidence),
        "scores": scores,
        "searches": [*_race(model), *_orders(model)],
        "scatters": [_scatter(title, rows) for title, rows in shown.items() if rows is not None],
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
    if best["r2"] <= 0:
        return f"{place} the model predicts no better than the mean of the target."
    noise = f" (standard error {percent(best['error'])})" if best["error"] else ""
    words = f"{place} the model explains {percent(best['r2'])} of the target's variance{noise}"
    kind = "new rows" if best["name"] == "salsa, new rows" else "cross-validation"
    rivals = [row for row in scores if row["name"] == f"linear model, {kind}"]
    return words + (f"; {_against(best, rivals[0])}." if rivals else ".")


def _against(best: dict[str, Any], linear: dict[str, Any]) -> str:
    if linear["r2"] <= 0:
        return "a linear model explains nothing of it"
    gap, noise = best["r2"] - linear["r2"], np.hypot(best["error"], linear["error"])
    comparison = "about as much" if abs(gap) < noise else "less" if gap > 0 else "more"
    return f"a linear model explains {comparison}, {percent(linear['r2'])}"


def _race(model: Any) -> list[dict[str, Any]]:
    """Return the kernels that competed, the best first, with a note on the kernel that was kept."""
    race = sorted(model.search_.contenders, key=lambda contender: contender.error)
    rows = [(_contender_name(r), r.error, r.standard_error, r.won) for r in race]
    note = f"{RACE_NOTE} {EQUAL_NOTE if _equal_won(model) else LEARNED_NOTE}"
    return [_search("Kernels that competed", note, rows)] if rows else []


def _orders(model: Any) -> list[dict[str, Any]]:
    """Return the orders that were tried with the kernel of the model."""
    table = model.search_.table
    rows = [(f"order {r.order}", r.cv_error, r.standard_error, r.chosen) for r in table.itertuples()]
    title = "Orders that were tried, with equal relevances" if _equal_won(model) else "Orders that were tried"
    return [_search(title, ORDERS_NOTE, rows)] if len(rows) > 1 else []


def _equal_won(model: Any) -> bool:
    winner = model.search_.winner
    return winner is not None and winner.origin == "equal"


def _search(title: str, note: str, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    names = ("name", "value", "error", "strong")
    return {"title": title, "note": note, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def _contender_name(row: Contender) -> str:
    features = f", {count(row.features, 'feature')}" if row.origin == "pruned" else ""
    return f"{row.kernel}, order {row.order}{features}"


def _scatter(title: str, rows: HeldOutRows) -> dict[str, Any]:
    n = len(rows.observed)
    shown = np.arange(n) if n <= SCATTER_POINTS else np.sort(np.random.default_rng(0).choice(n, SCATTER_POINTS, False))
    residual = rows.observed - rows.predicted
    rmse, mae = (float(np.average(np.abs(residual) ** p, weights=rows.weight) ** (1 / p)) for p in (2, 1))
    drawn = f" ({SCATTER_POINTS} drawn)" if n > SCATTER_POINTS else ""
    note = f"Root mean squared error {rmse:.3g}, mean absolute error {mae:.3g}, {count(n, 'row')}{drawn}."
    observed, predicted = (quantised(values[shown]) for values in (rows.observed, rows.predicted))
    return {"title": title, "observed": observed, "predicted": predicted, "note": note}


def calibration_section(model: Any, given: Given, evidence: Evidence, output: int) -> dict[str, Any]:
    curves: dict[str, Coverage] = {}
    if evidence.training is not None and (found := held_out_rows.normal_coverage(evidence.training)) is not None:
        curves["normal intervals, training rows each predicted without itself"] = found
    if evidence.new is not None and evidence.no_bands is None:
        found = held_out_rows.interval_coverage(model, given.table, evidence.places, evidence.new.observed, output)
        if found is not None:
            curves["predict_interval, new rows"] = found
    if not curves:
        none = f"There are no intervals: {evidence.no_bands}."
        few = "The held-out rows do not suffice to check intervals."
        return {"sentence": none if evidence.no_bands else few, "note": "", "curves": []}
    wheres = ("training rows" if "training" in name else "new rows" for name in curves)
    sentence = " ".join(map(_coverage_sentence, wheres, curves.values()))
    drawn = [{"name": name, **coverage._asdict()} for name, coverage in curves.items()]
    return {"sentence": sentence, "note": COVERAGE_NOTE, "curves": drawn}


def _coverage_sentence(where: str, coverage: Coverage) -> str:
    places = [int(np.argmin(np.abs(coverage.nominal - level))) for level in (0.5, 0.9)]
    meant, held = (listed(percent(shares[at]) for at in places) for shares in (coverage.nominal, coverage.actual))
    return f"Intervals meant to hold {meant} of the {where} held {held}: {_verdict(coverage, places)}."


def _verdict(coverage: Coverage, places: list[int]) -> str:
    gaps = [coverage.actual[at] - coverage.nominal[at] for at in places]
    limits = [max(0.02, 2 * coverage.error[at]) for at in places]
    found = ["" if abs(gap) <= limit else WIDE if gap > 0 else NARROW for gap, limit in zip(gaps, limits, strict=True)]
    if found[0] == found[1]:
        return f"both are {found[0]}" if found[0] else "as intended"
    names = [percent(coverage.nominal[at]) for at in places]
    return listed(f"the {name} intervals are {word or 'as intended'}" for name, word in zip(names, found, strict=True))
