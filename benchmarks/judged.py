"""The figures of a fit on new rows, the ledger that keeps them, and their means over repetitions.

Shared by bench_trust.py, bench_panels.py and bench_intervals.py. Every finished repetition is one line of JSON in a
file, so that a stopped run resumes where it ended; failed repetitions run again.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import argparse
import inspect
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from conditions import ARGUMENTS, TINY, size

from salsa import SalsaRegressor

LEVELS = (0.5, 0.8, 0.9, 0.95)
Figures = dict[str, float]
Task = tuple[str, int]  # case and repetition


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to fit or to judge: X (n, D), y (n,), and where known f(X), weights, groups and noise deviations (n,)."""

    X: Any
    y: np.ndarray
    truth: np.ndarray | None = None
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    noise: np.ndarray | None = None

    def some(self, rows: np.ndarray) -> Table:
        parts = (self.y, self.truth, self.weight, self.groups, self.noise)
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return Table(X, *(None if part is None else part[rows] for part in parts))


def missing_option(parameters: Iterable[str], with_groups: bool) -> str:
    """Return the name of an option that this version of salsa does not have; empty if it has all."""
    known = inspect.signature(SalsaRegressor).parameters
    unknown = [name for name in parameters if name not in known]
    if with_groups and "groups" not in inspect.signature(SalsaRegressor.fit).parameters:
        unknown.append("groups")
    return unknown[0] if unknown else ""


def fitted(table: Table, parameters: dict[str, Any], with_groups: bool) -> SalsaRegressor:
    options = {"sample_weight": table.weight} | ({"groups": table.groups} if with_groups else {})
    return SalsaRegressor(random_state=0, n_jobs=1, **parameters).fit(table.X, table.y, **options)


def claimed_error(model: SalsaRegressor) -> float:
    """Return the cross-validated error of the chosen order, a fraction of the variance of the training target."""
    table = model.search_.table
    return float(table.loc[table["chosen"], "cv_error"].iloc[0])


def weighted_variance(y: np.ndarray, weight: np.ndarray | None = None) -> float:
    return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))


def inside(interval: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (interval[:, 0] <= y) & (y <= interval[:, 1])


def judge(model: SalsaRegressor, train: Table, new: Table) -> Figures:
    """Return the claimed error, the error on new rows in its unit, coverage at LEVELS and by quarters, and R2."""
    predicted = model.predict(new.X)
    found = {
        "claimed": claimed_error(model),
        "error": weighted_mse(predicted, new) / weighted_variance(train.y, train.weight),
        "R2": 1.0 - weighted_mse(predicted, new) / weighted_variance(new.y, new.weight),
    }
    if new.truth is not None:
        found["R2 of the truth"] = 1.0 - weighted_mse(new.truth, new) / weighted_variance(new.y, new.weight)
        found |= matched_errors(predicted, train, new, found["claimed"])
    if getattr(model, "target_transform", None) == "log":
        found["error on the log scale"] = log_error(predicted, new.y) / weighted_variance(np.log(train.y))
    for level in LEVELS:
        interval = model.predict_interval(new.X, level)
        covered = inside(interval, new.y)
        found[f"{level:.0%}"] = float(covered.mean())
        if level == 0.9:
            found |= by_quarter("quarter", covered, predicted)
            if new.noise is not None:
                found |= by_quarter("noise quarter", covered, new.noise)
            found["width"] = float(np.median(interval[:, 1] - interval[:, 0]) / train.y.std())
            found["score"] = winkler(interval, new.y, level) / train.y.std()
            if new.weight is not None:
                found["90% by weight"] = float(np.average(covered, weights=new.weight))
    return found


def matched_errors(predicted: np.ndarray, train: Table, new: Table, claimed: float) -> Figures:
    """Return the claimed error and the error of f on new rows plus the noise of the training rows, as squared errors.

    Both hold the same draws of the noise, so that their ratio varies less than the ratio to the error on new rows; the
    expectation is the same.
    """
    error = np.average((predicted - new.truth) ** 2, weights=new.weight) + weighted_mse(train.truth, train)
    return {"matched claim": claimed * weighted_variance(train.y, train.weight), "matched error": float(error)}


def weighted_mse(predicted: np.ndarray, new: Table) -> float:
    return float(np.average((predicted - new.y) ** 2, weights=new.weight))


def log_error(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the error of log(predicted) about its mean: predictions of the mean lie above exp(mean of log y)."""
    return float(np.var(np.log(y) - np.log(np.maximum(predicted, np.finfo(float).tiny))))


def winkler(interval: np.ndarray, y: np.ndarray, level: float) -> float:
    """Return the mean interval score: width + 2 / (1 - level) times the distance of y from the interval."""
    low, high = interval.T
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - level) * outside))


def by_quarter(name: str, covered: np.ndarray, sorted_by: np.ndarray) -> Figures:
    """Return the coverage in each quarter of the rows, from the lowest values of `sorted_by` to the highest."""
    quarters = np.array_split(np.argsort(sorted_by, kind="stable"), 4)
    return {f"{name} {number}": float(covered[rows].mean()) for number, rows in enumerate(quarters, start=1)}


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over repetitions and its standard error; NaN for a single repetition."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> tuple[float, float]:
    """Return mean(above) / mean(below) over paired repetitions, and its standard error by linearisation."""
    a, b = np.asarray(above), np.asarray(below)
    ratio = a.mean() / b.mean()
    return float(ratio), mean_and_error((a - ratio * b) / b.mean())[1]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Ledger:
    """The finished repetitions in a file of JSON lines; without a path they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done: dict[Task, Figures] = {}
        if path is not None and path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]  # an interrupted run may leave an incomplete last line
            path.write_bytes(whole + b"\n" if whole else b"")
            for line in whole.splitlines():
                row = json.loads(line)
                self.done[row["case"], row["repetition"]] = row["figures"]

    def add(self, task: Task, figures: Figures) -> None:
        self.done[task] = figures
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"case": task[0], "repetition": task[1], "figures": figures}) + "\n")

    def columns(self, case: str, repetitions: int) -> dict[str, list[float]]:
        """Return the figures of a case, a list over its finished repetitions each."""
        rows = [self.done[case, number] for number in range(repetitions) if (case, number) in self.done]
        names = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
        return {name: [row[name] for row in rows] for name in names}


def timed(work: Callable[[str, int], Figures], task: Task) -> Figures:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows outside the range, few rows: the figures show their effect
        figures = work(*task)
    return figures | {"seconds": time.perf_counter() - start}


def run(work: Callable[[str, int], Figures], tasks: Sequence[Task], ledger: Ledger, workers: int) -> Iterator[Task]:
    """Do the tasks that the ledger lacks in worker processes; yield every task when its figures are in the ledger.

    With several workers a task that fails is reported and not entered; a single process stops there.
    """
    yield from (task for task in tasks if task in ledger.done)
    todo = [task for task in tasks if task not in ledger.done]
    if workers == 1:
        for task in todo:
            ledger.add(task, timed(work, task))
            yield task
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        started = {pool.submit(timed, work, task): task for task in todo}
        for future in as_completed(started):
            task = started[future]
            if future.exception() is None:
                ledger.add(task, future.result())
                yield task
            else:
                print(f"{task[0]}, repetition {task[1]} failed: {future.exception()}", flush=True)
    finally:  # a stopped run does not start the tasks that wait
        pool.shutdown(cancel_futures=True)


def options(description: str, ledger: str, **others: dict[str, Any]) -> argparse.Namespace:
    """Parse the options of a benchmark, and others; its ledger lies in benchmarks/results, or nowhere if tiny."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = None if TINY else Path(__file__).parent / "results" / ledger
    parser.add_argument("--ledger", type=Path, default=default, help="file of finished repetitions")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--only", default="", help="cases whose name contains one of these texts, split by commas")
    parser.add_argument("--repetitions", type=int, help="at most this many for each case")
    parser.add_argument("--workers", type=int, default=size(2, 1))
    parser.add_argument("--print", action="store_true", help="print what the ledger has, without running anything")
    for name, settings in others.items():
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args(ARGUMENTS)


def publish(text: str, out: Path | None) -> None:
    print(f"\n{text}")
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")
