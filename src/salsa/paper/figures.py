"""The experiments of figure 1, from fits to means over trials; ``curves`` draws them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, mode
from typing import Any, TypedDict

import numpy as np

from salsa.baselines.leaderboard import standard_error
from salsa.baselines.processes import OK
from salsa.baselines.registry import find_rival, make_baseline
from salsa.paper.experiments import measure, run_all
from salsa.paper.functions import LogBumps, Sample, draw, log_bumps
from salsa.paper.ledger import Job, Layout, Row, open_ledger, read_rows
from salsa.regressor import SalsaRegressor

# The paper compares with "some non-additive methods", and its text does not name them.
RIVALS = ("krr", "gp", "svr-eps", "rbf", "lq", "ll", "nw", "knn", "tree")
SIZES = (100, 200, 400, 800)
TIME_LIMIT = 120.0  # limit of a fit in CPU seconds
SYNTHETIC = "synthetic"  # protocol of the jobs
# The columns of a file, and the fields of ``Row`` that they hold.
COLUMNS = {"method": "method", "n": "n", "trial": "seed"} | {
    name: name for name in ("mse", "variance", "order", "seconds", "status")
}


@dataclass(frozen=True)
class Experiment:
    """One part of the figure: errors of methods against the number n of rows."""

    name: str
    title: str
    D: int  # features
    order: int  # d of the truth, which is summed over all subsets of d features
    spread: float  # side of the cube that holds the centres of the bumps
    methods: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def truth(self) -> LogBumps:
        return log_bumps(self.order, self.spread)

    @property
    def layout(self) -> Layout:
        """The columns of its file."""
        return Layout(COLUMNS, {"dataset": self.name, "protocol": SYNTHETIC, "D": self.D}, missing="")

    def load(self, job: Job) -> Sample:
        """Draw the rows of a job."""
        return draw(self.truth, self.D, job.n, job.seed)

    def jobs(self, trials: int, methods: Iterable[str], sizes: Iterable[int]) -> list[Job]:
        """Return the jobs trial by trial, so that an interrupted run leaves whole trials; large n come first."""
        names, descending = tuple(methods), sorted(sizes, reverse=True)
        return [
            Job(self.name, method, SYNTHETIC, trial, n, self.D)
            for trial in range(trials)
            for n in descending
            for method in names
        ]


class Point(TypedDict):
    """The means over trials of one method at one n; there is no error if a trial was not finished."""

    figure: str
    method: str
    n: int
    trials: int  # number of finished trials
    mse: float | None
    share: float | None  # mse as a share of the variance of the test target
    share_se: float | None  # its standard error over trials
    order: int | None  # the most frequent order
    seconds: float | None  # CPU time of a fit with its tuning
    status: str


# Low orders win with few rows and lose with many if the truth is almost of order 1. With centres in the whole cube,
# interactions are 38 % of the variance of f_15, and order 15 always wins; with centres in a fifth of its side, 4 %.
# The sum over triples can have wide centres: 97 % of its variance is of order 1, as main effects of 455 terms add up.
WIDE, NARROW = 1.0, 0.2


def _non_additive(name: str, D: int) -> Experiment:
    title = f"D = {D}, not additive: order by cross-validation"
    return Experiment(name, title, D, D, NARROW, ("salsa-paper", "salsa", *RIVALS), SIZES)


_EXPERIMENTS = (
    Experiment("fig1a", "D = 15, additive of order 3: order known", 15, 3, WIDE, ("salsa-d3", "salsa", *RIVALS), SIZES),
    Experiment(
        *("fig1b", "D = 15, not additive: which order?", 15, 15, NARROW),
        methods=("salsa-d1", "salsa-d2", "salsa-d4", "salsa-d8", "salsa-d15", "salsa"),
        sizes=(50, 70, 100, 200, 400, 800, 1200),
    ),
    _non_additive("fig1c", 20),
    _non_additive("fig1d", 30),
    _non_additive("fig1e", 40),
    _non_additive("fig1f", 50),
)
FIGURES: dict[str, Experiment] = {experiment.name: experiment for experiment in _EXPERIMENTS}


def make(method: str) -> Any:
    """Make an estimator: "salsa-d3" is the paper's SALSA of order 3; ``make_baseline`` knows the other names."""
    if (order := fixed_order(method)) is None:
        return make_baseline(method)
    return SalsaRegressor(
        order, relevance="equal", interactions="exact", bandwidth="rule_of_thumb", random_state=0, n_jobs=1
    )


def fixed_order(method: str) -> int | None:
    """Return d for a name such as "salsa-d3", and None for other known names; unknown names are refused."""
    if (named := re.fullmatch(r"salsa-d([1-9]\d*)", method)) is not None:
        return int(named[1])
    find_rival(method)
    return None


def run_figure(
    experiment: Experiment,
    folder: Path,
    *,
    trials: int = 10,
    methods: Sequence[str] = (),
    sizes: Sequence[int] = (),
    time_limit: float = TIME_LIMIT,
    n_jobs: int = 1,
) -> Iterator[tuple[Row, int]]:
    """Fit the jobs that are missing in NAME.csv of the folder; yield every row and the number of jobs still to run."""
    names = list(methods or experiment.methods)
    for name in names:
        if (order := fixed_order(name)) is not None and order > experiment.D:
            raise ValueError(f"{name}: the order is at most the number of features, {experiment.D}")
    path = folder / f"{experiment.name}.csv"
    with open_ledger(path, experiment.layout) as ledger:
        _check_same_truth(experiment, ledger.rows.values(), path)
        jobs = experiment.jobs(trials, names, sizes or experiment.sizes)
        jobs = [job for job in jobs if not ledger.is_done(job, time_limit)]
        measured = partial(measure, load=experiment.load, make=make)
        with closing(run_all(jobs, measured, ledger, limit=time_limit, n_jobs=n_jobs)) as rows:
            yield from zip(rows, reversed(range(len(jobs))), strict=True)


def _check_same_truth(experiment: Experiment, rows: Iterable[Row], path: Path) -> None:
    """Refuse rows of an older version whose truth had other constants, by the variance of a test target."""
    for row in [row for row in rows if row.status == OK][:1]:
        if not np.isclose(row.variance, np.var(experiment.load(row.job._replace(n=1)).y_test), rtol=1e-6):
            problem = f"holds errors for another truth than {experiment.name} has now"
            raise ValueError(f"{path} {problem}: move the file away")


def points(experiment: Experiment, folder: Path, trials: int) -> list[Point]:
    """Return means over the first `trials` trials in NAME.csv; methods outside the experiment come last."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in read_rows(folder / f"{experiment.name}.csv", experiment.layout):
        if row.seed < trials:
            groups.setdefault((row.method, row.n), []).append(row)
    return [_point(experiment.name, groups[key]) for key in sorted(groups, key=lambda key: _place(experiment, *key))]


def _place(experiment: Experiment, method: str, n: int) -> tuple[int, str, int]:
    known = method in experiment.methods
    return experiment.methods.index(method) if known else len(experiment.methods), "" if known else method, n


def _point(figure: str, rows: Sequence[Row]) -> Point:
    done = [row for row in rows if row.status == OK]
    failed, whole = [row.status for row in rows if row.status != OK], len(done) == len(rows)
    shares = [row.mse / row.variance for row in done]
    orders = [row.order for row in done if row.order is not None]
    se = standard_error(shares)
    return Point(
        figure=figure,
        method=rows[0].method,
        n=rows[0].n,
        trials=len(done),
        mse=fmean(row.mse for row in rows) if whole else None,
        share=fmean(shares) if whole else None,
        share_se=None if np.isnan(se) or not whole else se,
        order=mode(orders) if orders else None,
        seconds=fmean(row.seconds for row in rows) if whole else None,
        status=OK if whole else f"{len(failed)} of {len(rows)} trials {failed[0]}",
    )
