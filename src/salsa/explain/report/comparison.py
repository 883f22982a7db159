"""The comparison of two models on one page: errors on the same rows, importance, and effects drawn together."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error
from salsa.explain.anova import Anova, decompose
from salsa.explain.report.comparable import (
    NAMES,
    check_columns,
    check_pair,
    check_targets,
    check_training_targets,
    common_rows,
)
from salsa.explain.report.compared_effects import compared_effects, compared_shares
from salsa.explain.report.fitted_section import fitted_section, kernel_words
from salsa.explain.report.function_scale import FunctionScale, scale_of
from salsa.explain.report.held_out_groups import new_words
from salsa.explain.report.held_out_rows import HeldOutRows
from salsa.explain.report.judged_rows import LEVEL, JudgedRows, chosen_rows, judged_rows
from salsa.explain.report.judging_rows import ANCHORS_ALONE, Evidence, Given, evidence_of, given_rows
from salsa.explain.report.phrases import amount, count, percent
from salsa.explain.report.scored_rows import ScoredRows, measure_of
from salsa.explain.subject import subject_of

CLEAR = 2.0  # standard errors from which a difference is called clear


class Compared(NamedTuple):
    """One of the two models, and its predictions of the rows that neither model has seen."""

    anova: Anova
    given: Given
    evidence: Evidence  # its new rows are those that neither model has seen
    judged: JudgedRows
    scale: FunctionScale

    @property
    def rows(self) -> HeldOutRows | ScoredRows:
        assert self.evidence.new is not None
        return self.evidence.new


def comparison_payload(models: Any, X: Any, y: Any, output: Any, groups: Any = None) -> dict[str, Any]:
    """Return all that the page of two models shows; ValueError if they cannot be compared."""
    one, other = check_pair(models, X, y)
    subjects = subject_of(one), subject_of(other)
    check_columns(subjects[0].columns, subjects[1].columns)
    check_targets(one, other)
    number = subjects[0].output_number(output)
    given = [given_rows(model, _as_fitted(X, model), y, number, groups) for model in (one, other)]
    parts = zip((one, other), subjects, given, strict=True)
    found = [evidence_of(model, subject, rows, number) for model, subject, rows in parts]
    check_training_targets((one, other), subjects, found)
    places = common_rows(found)
    pair = [
        _compared(model, rows, evidence, number, places)
        for model, rows, evidence in zip((one, other), given, found, strict=True)
    ]
    return {
        "title": f"Two models{'' if given[0].title == 'A salsa model' else f' of {given[0].target}'}",
        "comparison": {
            "names": NAMES,
            "models": [_facts(compared) for compared in pair],
            "sentence": _verdict(pair),
            "table": {"head": ["measure", *NAMES], "rows": _measures(pair)},
            "note": " ".join([_note(len(places), found), *_more_notes(pair)]),
            "shares": compared_shares(*(compared.anova for compared in pair)),
            **compared_effects([(c.anova, c.scale, c.evidence.no_bands is None) for c in pair]),
        },
    }


def _as_fitted(X: Any, model: Any) -> Any:
    """Return a data frame with its columns in the order of the model's training table, other tables unchanged."""
    frame, names = nw.from_native(X, pass_through=True), list(getattr(model, "feature_names_in_", ()))
    if not isinstance(frame, nw.DataFrame) or set(frame.columns) != set(names):
        return X  # given_rows has the errors
    return frame.select(names).to_native()


def _compared(model: Any, given: Given, evidence: Evidence, output: int, places: Places) -> Compared:
    anova = decompose(model, output=output)
    assert evidence.new is not None
    at = np.searchsorted(evidence.places, places)
    groups = None if evidence.new_groups is None else evidence.new_groups[at]
    evidence = evidence._replace(new=chosen_rows(evidence.new, at), places=places, new_groups=groups)
    judged = judged_rows(model, anova.subject, given, evidence, output)
    assert judged is not None
    return Compared(anova, given, evidence, judged, scale_of(model, anova.subject, output))


def _facts(compared: Compared) -> dict[str, Any]:
    anova = compared.anova
    used = [j for j in anova.subject.active if len(anova.subject.background[j].points) > 1]
    section = fitted_section(anova, used, compared.given, compared.evidence, [], compared.scale)
    facts = [*section["facts"], ("Kernel", kernel_words(anova.subject, used))]
    return {"summary": section["summary"], "facts": facts}


def _losses(pair: list[Compared]) -> tuple[str, list[Floats]]:
    """Return the name of the loss that decides, and the losses (m,) of both models: their own if they have the same."""
    rows = [compared.rows for compared in pair]
    scored = [part for part in rows if isinstance(part, ScoredRows)]
    if len(scored) == 2 and type(scored[0].loss) is type(scored[1].loss):
        measure = measure_of(scored[0].loss)
        return measure.loss, [measure.factor * part.losses for part in scored]
    return "squared error", [(part.observed - part.predicted) ** 2 for part in rows]


def _verdict(pair: list[Compared]) -> str:
    """Say which model has the smaller loss on the same rows, and whether the difference is clear."""
    name, (one, other) = _losses(pair)
    even = np.ones(len(one))
    difference, error = mean_and_standard_error(one - other, even, pair[0].rows.unit)
    better, worse = (0, 1) if difference < 0 else (1, 0)
    means = [float(one.mean()), float(other.mean())]
    seen = "recognises" if any(compared.evidence.anchored for compared in pair) else "has seen"
    where = f"On {count(len(one), 'row')} that neither model {seen}"
    if difference == 0:
        return f"{where}, both models have the {name} {amount(means[0])}."
    gap = f"the {name} of {NAMES[better]} is {percent(1 - means[better] / means[worse])} below that of {NAMES[worse]}"
    numbers = f"{amount(means[better])} against {amount(means[worse])}"
    clear = abs(difference) > CLEAR * error
    doubt = "a clear difference" if clear else "no clear difference"
    size = f"{abs(difference) / error:.1f} standard errors of the paired difference" if error > 0 else "in all rows"
    return f"{where}, {gap} ({numbers}): {doubt}, {size}."


def _measures(pair: list[Compared]) -> list[list[str]]:
    """Return a row per measure: its name, and its value for each model."""
    name, losses = _losses(pair)
    even = np.ones(len(losses[0]))
    spreads = (_spread(*mean_and_standard_error(part, even, pair[0].rows.unit)) for part in losses)
    rows = [[f"{name}, mean ± standard error", *spreads]]
    own = _class_measures if pair[0].judged.right is not None else _number_measures
    columns = [own(compared) for compared in pair]
    return rows + [[measure, *(column[measure] for column in columns)] for measure in columns[0]]


def _spread(value: float, error: float) -> str:
    return f"{amount(value)} ± {error:.2g}"


def _number_measures(compared: Compared) -> dict[str, str]:
    rows, judged = compared.rows, compared.judged
    off = np.abs(rows.observed - rows.predicted)
    squared = float(np.mean(off**2))
    variance = float(np.var(rows.observed))
    found = {
        "R²": f"{1 - squared / variance:.3f}" if variance > 0 else "–",
        "root mean squared error": amount(float(np.sqrt(squared))),
        "off by, on average": amount(float(off.mean())),
        "half of the predictions are off by less than": amount(float(np.median(off))),
    }
    if judged.holds is None or judged.width is None:
        return {**found, **dict.fromkeys(_INTERVALS, "–")}
    width = float(np.median(judged.width))
    held = (percent(judged.holds.mean()), amount(width) if np.isfinite(width) else "unlimited")
    return {**found, **dict(zip(_INTERVALS, held, strict=True))}


_INTERVALS = (f"{percent(LEVEL)} interval holds", "half of the intervals are shorter than")


def _class_measures(compared: Compared) -> dict[str, str]:
    judged = compared.judged
    assert judged.right is not None
    assert judged.holds is not None
    assert judged.width is not None
    return {
        "the most probable class is right": percent(judged.right.mean()),
        f"{percent(LEVEL)} set of classes holds": percent(judged.holds.mean()),
        "classes in a set": f"{judged.width.mean():.2f}",
    }


def _more_notes(pair: list[Compared]) -> list[str]:
    """Say how many intervals were computed, if not all, and whether standard errors know the groups of the rows."""
    at, rows = pair[0].judged.at, len(pair[0].rows.observed)
    drawn = [] if at is None else [f"Intervals are judged on {len(at):,} of the {rows:,} rows."]
    return [*drawn, *new_words(pair[0].evidence.new_groups, max(compared.evidence.groups for compared in pair))]


def _note(rows: int, found: list[Evidence]) -> str:
    left_out = found[0].known + len(found[0].places) - rows
    out = f" Left out, because a model was fitted to them: {count(left_out, 'row')}." if left_out else ""
    doubt = f" {ANCHORS_ALONE}" if any(evidence.anchored for evidence in found) else ""
    return (
        f"Both models predict the same {count(rows, 'row')}, which count equally.{out}{doubt} A difference is called"
        f" clear from {CLEAR:.0f} standard errors on."
    )
