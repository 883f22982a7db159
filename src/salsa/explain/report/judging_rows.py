"""The evidence of a report: held-out predictions of training rows, and of given rows that the fit did not see."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.threads import parse_threads
from salsa.data.copies import row_hashes
from salsa.data.targets import checked_groups
from salsa.data.training_range import encoded
from salsa.explain.report import held_out_rows
from salsa.explain.report.held_out_groups import TRAINING_UNKNOWN, group_count, new_words, telling_units
from salsa.explain.report.held_out_rows import HeldOutRows
from salsa.explain.report.phrases import count, some
from salsa.explain.report.scored_rows import ScoredRows, held_out_rows_of, new_rows
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
from salsa.uncertainty import Unavailable
from salsa.uncertainty.scored import ScoredUncertainty

UNNAMED = "the target"
ANCHORS_ALONE = "A low-rank model recognises only its anchors: other training rows would count as new rows."


class Given(NamedTuple):
    """The rows and targets that the caller gave for the report, if any."""

    table: Any
    X: Floats | None  # encoded
    y: Floats | None
    target: str
    groups: Places | None = None  # (n,) of the rows

    @property
    def title(self) -> str:
        return "A salsa model" if self.target == UNNAMED else f"A model of {self.target}"


class Evidence(NamedTuple):
    """Predictions of rows that the predicting model did not see; None where they are not available."""

    training: HeldOutRows | ScoredRows | None = None
    new: HeldOutRows | ScoredRows | None = None  # the given rows that are not training rows
    places: Places = np.empty(0, dtype=np.intp)  # places of the new rows among the given rows
    known: int = 0  # number of given rows that are training rows
    reason: str | None = None  # why leave-one-out predictions are not available
    anchored: bool = False  # a low-rank model: its anchors stand for the training rows
    no_bands: str | None = None  # why there are neither bands nor intervals
    groups: int = 0  # number of groups that the fit held out whole; 0 without groups
    new_groups: Places | None = None  # of the new rows, if the caller gave groups

    @property
    def alone(self) -> str:
        """What is left out when a training row is predicted."""
        return "its group" if self.groups else "itself"

    @property
    def notes(self) -> list[str]:
        """Notes on the rows for the reader of the page."""
        notes = [] if self.reason is None else [f"The training rows have no leave-one-out predictions: {self.reason}."]
        if self.known and self.new is None:
            notes.append(f"This page was given no new rows: all {self.known:,} are in the training table.")
        elif self.known:
            notes.append(f"Left out because they are training rows: {count(self.known, 'given row')}.")
        if self.new is not None and self.anchored:
            notes.append(ANCHORS_ALONE)
        if self.groups and self.training is not None and self.training.unit is None:
            notes.append(TRAINING_UNKNOWN)
        return notes if self.new is None else [*notes, *new_words(self.new_groups, self.groups)]


def given_rows(model: Any, X: Any, y: Any, output: int, groups: Any = None) -> Given:
    if groups is not None and y is None:
        raise ValueError("groups were given without y: give the targets whose errors the groups are for")
    target = str(getattr(y, "name", None) or UNNAMED)
    if X is None:
        if y is not None:
            raise ValueError("y was given without X: give the rows that these targets belong to")
        return Given(None, None, None, target)
    rows = encoded(model, X)
    labels = checked_groups(groups, len(rows))
    code = None if labels is None else labels.code
    return Given(X, rows, None if y is None else _targets(model, y, len(rows), output), target, code)


def _targets(model: Any, y: Any, n: int, output: int) -> Floats:
    if (classes := fitted_of(model).classes) is not None:
        return _codes(classes, y, n)
    values = np.asarray(y, dtype=np.float64)
    outputs = model.expansion_.coef.shape[1]
    if values.shape not in {(n,), (n, outputs)} or (values.ndim == 1 and outputs > 1):
        wanted = f"({n},)" if outputs == 1 else f"({n}, {outputs})"
        raise ValueError(f"y has the shape {values.shape}; {n} rows of X and {outputs} outputs need {wanted}")
    values = values.reshape(n, outputs)[:, output]
    if not np.isfinite(values).all():
        raise ValueError("y has missing or infinite values: remove these rows from X and y")
    return values


def _codes(classes: NDArray[Any], y: Any, n: int) -> Floats:
    """Return the numbers (n,) of the classes of labels; ValueError for a label that is no class of the model."""
    labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if labels.shape not in {(n,), (n, 1)}:
        raise ValueError(f"y has the shape {labels.shape}; {n} rows of X need ({n},)")
    number = {label: code for code, label in enumerate(classes.tolist())}
    found = labels.ravel().tolist()
    unknown = list(dict.fromkeys(label for label in found if label not in number))
    if unknown:
        known = some([repr(label) for label in number], 10)
        raise ValueError(f"y has the label {unknown[0]!r}, which is no class of the model ({known}): leave it out")
    return np.array([number[label] for label in found], dtype=np.float64)


def evidence_of(model: Any, subject: Subject, given: Given, output: int) -> Evidence:
    evidence = _training_evidence(model, subject, output)._replace(groups=group_count(model))
    if given.X is None or given.y is None:
        return evidence
    known = _known(subject, evidence, kept_targets(model, subject, evidence), given.X, given.y)
    places = np.flatnonzero(~known)
    evidence = evidence._replace(places=places, known=int(known.sum()))
    if not len(places):
        return evidence
    groups = None if given.groups is None else given.groups[places]
    unit = None if groups is None else telling_units(groups)
    new = _new(model, given.y[places], subject.expansion.predict(given.X[places]), output, unit)
    return evidence._replace(new=new, new_groups=groups)


def _new(model: Any, y: Floats, f: Floats, output: int, unit: Places | None) -> HeldOutRows | ScoredRows:
    fitted = fitted_of(model)
    if isinstance(fitted.uncertainty, ScoredUncertainty):
        return new_rows(model, fitted.uncertainty.loss, y, f, fitted.classes, unit)
    return HeldOutRows(y, _in_units(model, f)[:, output], np.ones(len(y)), unit=unit)


def _in_units(model: Any, f: Floats) -> Floats:
    transform = fitted_of(model).transform
    return f if transform is None else transform.mean(f)


def _training_evidence(model: Any, subject: Subject, output: int) -> Evidence:
    """Return leave-one-out predictions, or the reason for their absence."""
    kept = fitted_of(model).uncertainty
    if isinstance(kept, Unavailable):
        return Evidence(reason=kept.reason, no_bands=kept.reason)
    if isinstance(kept, ScoredUncertainty):
        return _scored_evidence(model, kept)
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


def _scored_evidence(model: Any, kept: ScoredUncertainty) -> Evidence:
    """Return the predictions of the fits without each fold, and whether there is memory for bands."""
    try:
        kept.prepare(model.memory_limit, parse_threads(model.n_jobs))
        no_bands = None
    except MemoryError as error:
        no_bands = str(error).rstrip(".")
    return Evidence(held_out_rows_of(kept), anchored=not kept.keeps_rows, no_bands=no_bands)


def kept_targets(model: Any, subject: Subject, evidence: Evidence) -> Floats:
    """Return the targets (n,) of the training rows, for classes their numbers; NaN where they are not kept."""
    kept, unknown = fitted_of(model).uncertainty, np.full(len(subject.expansion.anchors), np.nan)
    if isinstance(kept, ScoredUncertainty):
        target = kept.target[:, 0] if kept.target.shape[1] == 1 else np.argmax(kept.target, axis=1)
        return target.astype(np.float64) if kept.keeps_rows else unknown
    if evidence.training is None or len(evidence.training.observed) != len(unknown):
        return unknown  # the first rows have no held-out prediction if later rows judge
    return evidence.training.observed


def _known(subject: Subject, evidence: Evidence, targets: Floats, X: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return which rows are training rows, by features and target, or by features alone if targets are not kept.

    A low-rank model knows its anchors only: a table that contains all anchors is taken for the training table.
    """
    anchors = subject.expansion.anchors
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
