"""How good the model is: scores, the search, predicted against observed, and the coverage of intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from salsa.explain.background import Subject, encoded
from salsa.explain.reporting import held_out
from salsa.explain.reporting.held_out import Coverage, Rows, Score
from salsa.explain.reporting.words import count, listed, percent, quantised
from salsa.kernels import Floats

SCATTER_POINTS = 2000
UNNAMED = "the target"
WIDE, NARROW = "wider than needed", "too narrow"
COVERAGE_NOTE = (
    "Above the dashed line intervals are wider than needed, below it too narrow. Normal intervals come from the"
    " prediction and its standard deviation; those of predict_interval assume no normal distribution."
)


class Given(NamedTuple):
    """The rows that came with the request, if any."""

    table: Any
    X: Floats | None  # encoded
    y: Floats | None
    target: str

    @property
    def title(self) -> str:
        return "A salsa model" if self.target == UNNAMED else f"A model of {self.target}"


class Evidence(NamedTuple):
    """What is known of rows that the model did not see; each None where it could not be had."""

    training: Rows | None
    new: Rows | None
    known: int  # of the given rows that are training rows
    reason: str | None  # why there is nothing of the training rows


def given_rows(model: Any, X: Any, y: Any, output: int) -> Given:
    target = str(getattr(y, "name", None) or UNNAMED)
    if X is None:
        if y is not None:
            raise ValueError("y without X: give the rows that these targets belong to")
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
        raise ValueError("y has missing or infinite values: leave these rows out of X and y")
    return values


def evidence_of(model: Any, subject: Subject, given: Given, output: int) -> Evidence:
    reason = None
    try:
        training = held_out.training_rows(model, output)
    except MemoryError as error:
        training, reason = None, f"Nothing is said of the training rows by leave-one-out: {error}"
    if given.X is None or given.y is None:
        return Evidence(training, None, 0, reason)
    known = _known(subject, training, given.X, given.y)
    if known == len(given.y):
        return Evidence(training, None, known, reason)
    predicted = subject.expansion.predict(given.X)[:, output]
    return Evidence(training, Rows(given.y, predicted, np.ones(len(predicted))), known, reason)


def _known(subject: Subject, training: Rows | None, X: Floats, y: Floats) -> int:
    """How many of these rows are among the training rows, features and target."""
    if training is None:
        return 0
    close = 1e-6 * np.ptp(training.observed)
    seen: dict[bytes, list[float]] = {}
    for row, target in zip(_keys(subject.expansion.anchors), training.observed, strict=True):
        seen.setdefault(row, []).append(target)
    return sum(
        any(abs(other - target) <= close for other in seen.get(row, ()))
        for row, target in zip(_keys(X), y, strict=True)
    )


def _keys(X: Floats) -> list[bytes]:
    return [row.tobytes() for row in np.where(np.isnan(X), np.nan, X + 0.0)]  # one NaN, one zero


def all_scores(model: Any, subject: Subject, given: Given, evidence: Evidence) -> list[dict[str, Any]]:
    """R2 of the model and of a linear one, the most telling first."""
    columns, X = subject.columns, subject.expansion.anchors
    training, new = evidence.training, evidence.new
    rows = _search_scores(model, training)
    if training is not None:
        rows.append(
            _entry("linear model, cross-validation", _score(held_out.linear_cross_validated(columns, X, training)))
        )
    if new is not None:
        rows.insert(0, _entry("salsa, new rows", _score(new), strong=True))
        assert given.X is not None
        if training is not None:
            linear = held_out.linear_on_new(columns, X, training, given.X, new)
            rows.append(_entry("linear model, new rows", _score(linear)))
        else:
            linear = held_out.linear_cross_validated(columns, given.X, new)
            rows.append(_entry("linear model, cross-validation on new rows", _score(linear)))
    found = [row for row in rows if row is not None]
    return [*found, {"name": "always the mean", "r2": 0.0, "error": None, "strong": False}] if found else []


def _search_scores(model: Any, training: Rows | None) -> list[dict[str, Any] | None]:
    """Of the model itself: from the race and cross-validation, or by leave-one-out where nothing was searched."""
    if training is not None and not training.varies:
        return []
    table, race = model.search_.table, model.search_.race
    learned = race[race["won"] & ~race["kernel"].str.startswith("equal")] if len(race) else race
    rows = [
        *(("salsa, kernel learned from other rows", 1 - r.error, r.standard_error) for r in learned.itertuples()),
        *(("salsa, cross-validation", 1 - r.cv_error, r.standard_error) for r in table[table["chosen"]].itertuples()),
    ]
    if not rows:
        return [_entry("salsa, leave-one-out", _score(training), strong=True)]
    return [_entry(name, Score(r2, error), strong=True) for name, r2, error in rows]


def _score(rows: Rows | None) -> Score | None:
    return None if rows is None else held_out.score(rows)


def _entry(name: str, score: Score | None, strong: bool = False) -> dict[str, Any] | None:
    if score is None or not np.isfinite(score.r2):
        return None
    return {"name": name, "r2": float(score.r2), "error": float(score.error), "strong": strong}


def quality_section(model: Any, evidence: Evidence, scores: list[dict[str, Any]]) -> dict[str, Any]:
    scatters = []
    if evidence.new is not None:
        scatters.append(_scatter("New rows", evidence.new, _overlap(evidence)))
    if evidence.training is not None:
        scatters.append(_scatter("Training rows, each predicted without itself", evidence.training))
    return {
        "sentence": _quality_sentence(scores, evidence),
        "scores": scores,
        "search": _search(model),
        "scatters": scatters,
        "reason": evidence.reason,
    }


def _overlap(evidence: Evidence) -> str:
    if evidence.known == 0:
        return ""
    return f" {count(evidence.known, 'row')} of these were in the training table, which flatters the model."


def _quality_sentence(scores: list[dict[str, Any]], evidence: Evidence) -> str:
    if evidence.training is not None and not evidence.training.varies:
        return "The target is constant: there is no variance to explain."
    if not scores:
        return "There are too few rows to say how good the model is."
    best = scores[0]
    where = {"salsa, new rows": "On the new rows", "salsa, cross-validation": "In cross-validation"}
    place = where.get(best["name"], "On rows that it did not see")
    if best["r2"] <= 0:
        return f"{place} the model predicts no better than the mean of the target does."
    words = f"{place} the model explains {percent(best['r2'])} of the target's variance"
    if best["error"]:
        words += f" (standard error {percent(best['error'])})"
    kind = "new rows" if best["name"] == "salsa, new rows" else "cross-validation"
    rivals = [row for row in scores if row["name"] == f"linear model, {kind}"]
    return words + (f"; {_against(best, rivals[0])}." if rivals else ".")


def _against(best: dict[str, Any], linear: dict[str, Any]) -> str:
    if linear["r2"] <= 0:
        return "a linear model explains nothing of it"
    gap, noise = best["r2"] - linear["r2"], np.hypot(best["error"], linear["error"])
    comparison = "about as much" if abs(gap) < noise else "less" if gap > 0 else "more"
    return f"a linear model explains {comparison}, {percent(linear['r2'])}"


def _search(model: Any) -> dict[str, Any] | None:
    """The race between kernels, or the orders that were tried."""
    race, table = model.search_.race, model.search_.table
    if len(race):
        ranked = race.sort_values("error", kind="stable")
        rows = [(_contender_name(r), r.error, r.standard_error, r.won) for r in ranked.itertuples()]
        title, note = (
            "Kernels that competed",
            "Judged on rows that they did not learn from, ± 2 standard errors; the filled one was chosen.",
        )
    elif len(table) > 1:
        rows = [(f"order {r.order}", r.cv_error, r.standard_error, r.chosen) for r in table.itertuples()]
        title, note = (
            "Orders that were tried",
            "Cross-validation at the best penalty, ± 2 standard errors; the filled one was chosen.",
        )
    else:
        return None
    names = ("name", "value", "error", "strong")
    return {"title": title, "note": note, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def _contender_name(row: Any) -> str:
    features = f", {count(row.features, 'feature')}" if row.kernel.startswith("pruned") else ""
    return f"{row.kernel}, order {row.order}{features}"


def _scatter(title: str, rows: Rows, more: str = "") -> dict[str, Any]:
    n = len(rows.observed)
    shown = np.arange(n) if n <= SCATTER_POINTS else np.sort(np.random.default_rng(0).choice(n, SCATTER_POINTS, False))
    residual = rows.observed - rows.predicted
    rmse, mae = (float(np.average(np.abs(residual) ** p, weights=rows.weight) ** (1 / p)) for p in (2, 1))
    note = f"Root mean squared error {rmse:.3g}, mean absolute error {mae:.3g}, {count(n, 'row')}"
    note += f" ({SCATTER_POINTS} drawn)." if n > SCATTER_POINTS else "."
    observed, predicted = (quantised(values[shown]) for values in (rows.observed, rows.predicted))
    return {"title": title, "observed": observed, "predicted": predicted, "note": note + more}


def calibration_section(model: Any, given: Given, evidence: Evidence, output: int) -> dict[str, Any]:
    curves: list[tuple[str, str, Coverage]] = []
    if evidence.training is not None and (found := held_out.normal_coverage(evidence.training)) is not None:
        curves.append(("normal intervals, training rows each predicted without itself", "training rows", found))
    if evidence.new is not None and evidence.reason is None:
        found = held_out.interval_coverage(model, given.table, evidence.new.observed, output)
        if found is not None:
            curves.append(("predict_interval, new rows", "new rows", found))
    drawn = [{"name": name, **coverage._asdict()} for name, _, coverage in curves]
    if not curves:
        return {"sentence": "There is too little to check intervals with.", "note": "", "curves": []}
    sentence = " ".join(_coverage_sentence(where, coverage) for _, where, coverage in curves)
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
    return listed(f"those of {name} are {word or 'as intended'}" for name, word in zip(names, found, strict=True))
