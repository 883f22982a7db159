"""The error in plain words: how far off predictions are, how often intervals hold, and for which rows they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from salsa._utils.arrays import Floats
from salsa.explain.report.held_out_groups import in_groups, units_in
from salsa.explain.report.held_out_rows import coverage_of
from salsa.explain.report.judged_rows import LEVEL, JudgedRows, Truths
from salsa.explain.report.phrases import amount, count, listed, percent, short
from salsa.explain.subject import Subject

FEWEST_IN_GROUP = 20  # smaller groups of rows are not judged
MOST_FEATURES, MOST_LEVELS = 5, 6  # groups are formed by so many features, and so many levels of each
CHANCE = 0.05  # the probability that chance alone makes a group stand out, over all groups
GAP = 0.03  # smaller differences from the intended coverage are not mentioned
SURE = 0.9
FEWEST_UNITS = 10  # the spread of fewer units, such as persons, says too little
UNITS_NOTE = (
    "Groups of the table, such as persons, are something else: in this test they count as the independent units, and a"
    f" group of rows by value is tested if it has rows of {FEWEST_UNITS} of them."
)
THIRDS = ("low", "medium", "high")


class Group(NamedTuple):
    """Some of the judged rows, by their predictions or by the values of one feature."""

    name: str
    rows: Truths  # (n,)


def plain_section(
    judged: JudgedRows | None, subject: Subject, used: Sequence[int], labels: Sequence[str]
) -> dict[str, Any] | None:
    """Return statements, and a table of groups of rows; None if there are too few held-out rows."""
    if judged is None:
        return None
    groups = [] if judged.holds is None else list(_groups(judged, subject, used, labels))
    statements = _class_words(judged, labels) if labels else _number_words(judged)
    whom = [] if judged.holds is None else [_whom_words(judged, groups, bool(labels))]
    return {"statements": [*statements, *whom], "table": _table(judged, groups, bool(labels)), "note": _note(judged)}


def _number_words(judged: JudgedRows) -> Iterator[str]:
    """Say how far predictions of numbers are off, and how often their intervals hold."""
    unseen = _rows_words(judged)
    if judged.level is not None:
        below = np.mean(judged.observed <= judged.predicted)
        yield (
            f"The model predicts a value that {_of_100(judged.level)} rows should not exceed. Of {unseen},"
            f" {_of_100(below)} did not exceed it."
        )
    else:
        half, most = (amount(float(np.quantile(judged.off, level))) for level in (0.5, LEVEL))
        yield f"For {unseen}, half of the predictions are off by less than {half}, and 9 of 10 by less than {most}."
        mean = float(np.abs(judged.observed - judged.observed.mean()).mean())
        off = float(judged.off.mean())
        yield f"On average a prediction is off by {amount(off)}; always predicting the mean is off by {amount(mean)}."
    if judged.holds is not None and judged.width is not None:
        yield f"{_held_words(judged, 'interval')} {_width_words(judged.width)}".rstrip()


def _class_words(judged: JudgedRows, labels: Sequence[str]) -> Iterator[str]:
    """Say how often the most probable class is right, and how often sets of classes hold the true one."""
    right, sure = judged.right, judged.sure
    assert right is not None
    assert sure is not None
    shares = np.bincount(judged.observed.astype(np.intp), minlength=len(labels)) / len(right)
    most = int(shares.argmax())
    unseen = _rows_words(judged)
    always = f"always saying “{short(labels[most])}” is right for {_of_100(shares[most])}"
    yield f"For {unseen}, the most probable class is right for {_of_100(right.mean())} rows; {always}."
    confident = sure >= SURE
    if confident.sum() >= FEWEST_IN_GROUP:
        found = f"{_of_100(right[confident].mean())} such rows ({confident.sum():,} in all)"
        yield f"Where the model gives a class a probability of {percent(SURE)} or more, it is right for {found}."
    if judged.width is not None:
        size = f"A set holds {judged.width.mean():.2f} of the {len(labels)} classes on average."
        yield f"{_held_words(judged, 'set of classes')} {size}"


def _held_words(judged: JudgedRows, what: str) -> str:
    """Say how often intervals or sets held, and whether these rows could have told otherwise."""
    assert judged.holds is not None
    held = f"held the truth for {_of_100(judged.holds.mean())} rows, and should for {round(100 * LEVEL)}"
    drawn = "" if judged.at is None else f" (checked on {len(judged.at):,} of the {len(judged.off):,} rows)"
    said = f"The {percent(LEVEL)} {what} {held}{drawn}."
    if not judged.by_construction:
        return said
    return f"{said} These rows set its ends, so that only groups of them and new rows can check it."


def _width_words(width: Floats) -> str:
    middle = float(np.median(width))
    return f"Half of the intervals are shorter than {amount(middle)}." if np.isfinite(middle) else ""


def _rows_words(judged: JudgedRows) -> str:
    """Return the number of rows, in how many groups they are, and why they can judge."""
    return f"{count(len(judged.off), 'row')}{in_groups(judged.unit)} that {_unseen(judged)}"


def _unseen(judged: JudgedRows) -> str:
    if not judged.is_new:
        return f"the model was tested on without having seen {'their groups' if judged.grouped else 'them'}"
    return "the model does not recognise" if judged.anchored else "the model has never seen"


def _of_100(share: Any) -> str:
    return f"{round(100 * float(share))} of 100"


# For whom it holds ----------------------------------------------------------------------------------------------------


def _groups(judged: JudgedRows, subject: Subject, used: Sequence[int], labels: Sequence[str]) -> Iterator[Group]:
    """Yield groups of enough rows: by the prediction, then by the values of the strongest features."""
    found = _class_groups(judged, labels) if labels else _thirds("prediction", judged.predicted)
    by_feature = [] if judged.X is None else [_feature_groups(subject, j, judged.X[:, j]) for j in used[:MOST_FEATURES]]
    for groups in (found, *by_feature):
        checked = ((group, judged.checked(group.rows)) for group in groups)
        yield from (group for group, rows in checked if rows.sum() >= FEWEST_IN_GROUP and not rows.all())


def _class_groups(judged: JudgedRows, labels: Sequence[str]) -> Iterator[Group]:
    for k in range(min(len(labels), MOST_LEVELS)):
        yield Group(f"true class {short(labels[k])}", judged.observed == k)


def _feature_groups(subject: Subject, j: int, values: Floats) -> Iterator[Group]:
    """Yield the rows of each frequent level, or of each third of a number; and the rows without a value."""
    name, part = short(subject.columns.names[j]), subject.columns.all_parts[j]
    missing = np.isnan(values)
    distinct = np.unique(values[~missing])
    if subject.columns.levels[j] is not None or len(distinct) <= MOST_LEVELS:
        sizes = [np.sum(values == value) for value in distinct]
        kept = np.sort(np.argsort(sizes, kind="stable")[::-1][:MOST_LEVELS])
        for value in distinct[kept]:
            shown = subject.shown(j, np.array([value]))[0]
            yield Group(f"{name} = {shown if isinstance(shown, str) else f'{shown:.6g}'}", values == value)
    elif part is None or not part.is_cyclic:
        yield from _thirds(name, values)
    yield Group(f"{name} missing", missing)


def _thirds(name: str, values: Floats) -> Iterator[Group]:
    """Yield the rows with low, medium and high values."""
    present = values[~np.isnan(values)]
    ends = np.quantile(present, [1 / 3, 2 / 3])
    low, high = values <= ends[0], values > ends[1]
    for word, rows in zip(THIRDS, (low, ~low & ~high & ~np.isnan(values), high), strict=True):
        yield Group(f"{word} {name}", rows)


def _whom_words(judged: JudgedRows, groups: list[Group], is_classes: bool) -> str:
    """Say for which groups intervals or sets hold less often than intended, by more than chance."""
    what = "set" if is_classes else "interval"
    if not groups or judged.holds is None:
        return f"There are too few rows to say for whom the {what} holds."
    groups = [group for group in groups if _has_units(judged, group)]
    if not groups:
        return f"The rows are in too few groups to say for whom the {what} holds."
    shares = np.array([judged.holds[judged.checked(group.rows)].mean() for group in groups])
    lowest, highest = (round(100 * float(share)) for share in (shares.min(), shares.max()))
    weak = [
        (share, group)
        for share, group in zip(shares, groups, strict=True)
        if _falls_short(judged, group.rows, len(groups))
    ]
    if not weak:
        checked = f"No group of rows falls short by more than chance ({len(groups)} were checked)"
        return f"{checked}: the {what} held for {lowest} to {highest} of 100 rows of each."
    named = listed([f"{group.name} ({_of_100(share)})" for share, group in sorted(weak, key=lambda pair: pair[0])[:4]])
    return f"The {what} holds less often than intended for {named}. Be careful there."


def _has_units(judged: JudgedRows, group: Group) -> bool:
    """Return whether the rows of a group are in enough of the units that rows may depend in."""
    return judged.unit is None or units_in(judged.checked(judged.unit)[judged.checked(group.rows)]) >= FEWEST_UNITS


def _falls_short(judged: JudgedRows, rows: Truths, groups: int) -> bool:
    """Return whether the coverage of some rows is below the intended one by more than chance in any of the groups."""
    assert judged.holds is not None
    inside = judged.checked(rows)
    holds, unit = judged.holds[inside], None if judged.unit is None else judged.checked(judged.unit)[inside]
    _, (share,), (error,) = coverage_of(np.array([LEVEL]), holds[:, None], np.ones(len(holds)), unit)
    limit = norm.isf(CHANCE / groups) if unit is None else t.isf(CHANCE / groups, units_in(unit) - 1)
    return bool(LEVEL - share > max(GAP, limit * error))


def _table(judged: JudgedRows, groups: list[Group], is_classes: bool) -> dict[str, Any] | None:
    """Return a table with a row per group: rows, how far off predictions are, and how often intervals hold."""
    if not groups:
        return None
    holds = judged.holds
    assert holds is not None
    every = [Group("all rows", np.ones(len(judged.off), dtype=bool)), *groups]
    off = "wrong" if is_classes else "off by, on average"
    rows = [
        [
            group.name,
            f"{group.rows.sum():,}",
            percent(judged.off[group.rows].mean()) if is_classes else amount(float(judged.off[group.rows].mean())),
            percent(holds[judged.checked(group.rows)].mean()),
        ]
        for group in every
    ]
    held = f"{percent(LEVEL)} {'set' if is_classes else 'interval'} holds"
    return {"title": "Groups that were checked", "head": ["group", "rows", off, held], "rows": rows}


def _note(judged: JudgedRows) -> str:
    """Say which rows were judged, and how groups are formed."""
    new = "given rows, new unless they are training rows that are no anchors" if judged.anchored else "new rows"
    without = "its group" if judged.grouped else "it"
    rows = new if judged.is_new else f"training rows, each predicted by a fit without {without}"
    drawn = "" if judged.at is None else f" Intervals were computed for {len(judged.at):,} of them, evenly spaced."
    units = "" if judged.unit is None else f" {UNITS_NOTE}"
    return (
        f"All statements are about held-out rows: {rows}. All rows count equally.{drawn}"
        f" Groups have {FEWEST_IN_GROUP} rows or more; low, medium and high are a third of the rows each."
        " A group is named if its coverage falls short by"
        f" more than {100 * GAP:.0f} points and by more than chance would in {percent(1 - CHANCE)} of such tables."
        f"{units}"
    )
