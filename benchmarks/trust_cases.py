"""Simulated tables with a known truth, in which rows are weighted, copied, grouped, ordered, skewed or distant.

    python benchmarks/trust_cases.py

Prints for every case its rows, features and the share of the variance that the true function explains on new rows.
``bench_trust.py`` fits the cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from conditions import TINY
from judged import Figures, Table, fitted, inside, judge, weighted_mse, weighted_variance
from numpy.random import Generator
from sklearn.model_selection import TimeSeriesSplit

ROWS, NEW, NOISE = 400, 2000, 2.0  # training rows, new rows, standard deviation of the noise
TINY_SHARE = 4  # --tiny divides the numbers of rows by this
Pair = tuple[Table, Table]  # training rows and new rows
DISTANCES = (0.1, 0.25, 0.5)  # beyond the range, as shares of the range


def friedman(X: np.ndarray) -> np.ndarray:
    """Return Friedman's first function: five of the features matter, its standard deviation is about 4.9."""
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def independent(rng: Generator, n: int) -> Table:
    X = rng.uniform(size=(n, 8))
    return Table(X, friedman(X) + NOISE * rng.normal(size=n), friedman(X))


def equal_weights(rng: Generator, n: int, m: int) -> Pair:
    """Weight all training rows by one number, 2 or 0.1 by chance."""
    train = independent(rng, n)
    return Table(train.X, train.y, train.truth, np.full(n, rng.choice([2.0, 0.1]))), independent(rng, m)


def precisions(rng: Generator, n: int) -> Table:
    """Draw rows whose weight w is their precision: noise of standard deviation NOISE / sqrt(w), w from 1/4 to 4."""
    table = independent(rng, n)
    weight = np.exp(rng.uniform(np.log(0.25), np.log(4.0), n))
    return Table(table.X, table.truth + (table.y - table.truth) / np.sqrt(weight), table.truth, weight)


def half_copied(rng: Generator, n: int, m: int) -> Pair:
    """Draw 2/3 n rows and write half of them twice, with their targets."""
    distinct = 2 * n // 3
    rows = rng.permutation(np.r_[np.arange(distinct), np.arange(distinct // 2)])
    return independent(rng, distinct).some(rows), independent(rng, m)


def bootstrap(rng: Generator, n: int, m: int) -> Pair:
    return independent(rng, n).some(rng.integers(n, size=n)), independent(rng, m)


def doses(rng: Generator, n: int) -> np.ndarray:
    return rng.uniform(size=(n, 2))


def probability(X: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(6 * X[:, 0] - 3 + np.sin(2 * np.pi * X[:, 1]))))


def trials(rng: Generator, X: np.ndarray, each: int) -> Table:
    """Draw 0/1 trials at every dose, one row each."""
    X = np.repeat(X, each, axis=0)
    return Table(X, (rng.uniform(size=len(X)) < probability(X)).astype(float), probability(X))


def binomial_rows(rng: Generator, n: int, m: int, each: int = 8) -> Pair:
    """Draw trials as rows; new rows are new trials at the doses of the training rows, which stand on both sides."""
    X = doses(rng, n // each)
    return trials(rng, X, each), trials(rng, X, m // len(X))


def binomial_counts(rng: Generator, n: int, m: int, each: int = 8) -> Pair:
    """Draw trials as two rows for each dose, weighted by counts; new rows are trials at new doses."""
    X = doses(rng, n // each)
    successes = rng.binomial(each, probability(X))
    weight = np.r_[successes, each - successes].astype(float)
    y = np.repeat([1.0, 0.0], len(X))
    table = Table(np.r_[X, X], y, probability(np.r_[X, X]), weight)
    return table.some(np.flatnonzero(weight)), trials(rng, doses(rng, m), 1)


def people(rng: Generator, n: int, each: int) -> Table:
    """Draw people of `each` rows with levels u of their own: y = f(x) + u + e, Var u = 0.6 and Var e = 0.2 of Var f.

    Three features belong to the person and are constant in its rows, three belong to the row.
    """
    persons = max(n // each, 8)
    group = np.repeat(np.arange(persons), each)
    X = np.c_[rng.uniform(size=(persons, 3))[group], rng.uniform(size=(len(group), 3))]
    f = 3.0 * X[:, 0] + np.sin(4.0 * X[:, 1]) + 3.0 * X[:, 3] + np.sin(4.0 * X[:, 4])
    scale = np.sqrt(2.03)  # standard deviation of f
    u = np.sqrt(0.6) * scale * rng.normal(size=persons)[group]
    return Table(X, f + u + np.sqrt(0.2) * scale * rng.normal(size=len(group)), f, groups=group)


def walk(rng: Generator, n: int) -> np.ndarray:
    return 0.05 * np.cumsum(rng.normal(size=n))


def season(rng: Generator, n: int) -> np.ndarray:
    """Draw a wave with a phase by chance; its 100 rows are the length of a fold, so that all folds are alike."""
    return np.sin(2 * np.pi * (np.arange(n) / 100 + rng.uniform()))


def drifting(rng: Generator, n: int, m: int, level: Callable[[Generator, int], np.ndarray], with_time: bool) -> Pair:
    """Draw n rows in order and judge the n / 6 rows that follow, as many as a fold of TimeSeriesSplit(5) tests."""
    total = n + min(n // 6, m)
    X = rng.uniform(size=(total, 4))
    f = 2 * X[:, 0] + np.sin(5 * X[:, 1]) + 2 * X[:, 2] * X[:, 3]
    y = f + level(rng, total) + 0.5 * rng.normal(size=total)
    table = Table(np.c_[np.arange(total), X] if with_time else X, y)
    return table.some(np.arange(n)), table.some(np.arange(n, total))


def log_normal(rng: Generator, n: int) -> Table:
    """Draw y = exp(g(x) + 0.5 e): the noise grows with the level."""
    X = rng.uniform(size=(n, 5))
    g = np.sin(3 * X[:, 0]) + 1.5 * X[:, 1] + X[:, 2] * X[:, 3]
    truth = np.exp(g + 0.125)  # the mean of y
    return Table(X, np.exp(g + 0.5 * rng.normal(size=n)), truth, noise=truth * np.sqrt(np.exp(0.25) - 1))


def funnel(rng: Generator, n: int) -> Table:
    """Draw rows whose noise grows with the first feature, from 0.4 to 4.4."""
    X = rng.uniform(size=(n, 8))
    noise = 0.4 + 4.0 * X[:, 0]
    return Table(X, friedman(X) + noise * rng.normal(size=n), friedman(X), noise=noise)


def heavy_tails(rng: Generator, n: int) -> Table:
    X = rng.uniform(size=(n, 8))
    return Table(X, friedman(X) + NOISE / np.sqrt(3.0) * rng.standard_t(3, size=n), friedman(X))


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "line": lambda x: 3 * x,
    "curve": lambda x: np.sin(4 * x) + x**2,
    "step": lambda x: 2.0 * (x > 0.5),
}


def shaped(rng: Generator, n: int, shape: str, distance: float | None = None) -> Table:
    """Draw a shape of the first feature on [0, 1], or `distance` beyond either end, plus a line in the second."""
    X = rng.uniform(size=(n, 3))
    if distance is not None:
        X[:, 0] = np.where(rng.uniform(size=n) < 0.5, -distance, 1.0 + distance)
    f = SHAPES[shape](X[:, 0]) + X[:, 1]
    return Table(X, f + 0.3 * rng.normal(size=n), f)


def twice(draw: Callable[..., Table]) -> Callable[..., Pair]:
    """Draw the new rows in the same way as the training rows."""
    return lambda rng, n, m, **options: (draw(rng, n, **options), draw(rng, m, **options))


@dataclass(frozen=True)
class Case:
    """One simulation: how rows are drawn, how they are fitted, and the bars that its figures should keep."""

    name: str
    draw: Callable[..., Pair]  # (rng, rows, new rows) -> training rows, new rows
    points: float  # bar of the coverage, in percentage points
    rows: int = ROWS
    new: int = NEW
    repetitions: int = 24
    parameters: dict[str, Any] = field(default_factory=dict)
    with_groups: bool = False
    by_quarter: bool = True  # whether quarters of the prediction have a bar; 0/1 targets cannot keep it
    judged: bool = True  # False: for comparison only
    data: str = ""  # cases with the same word here draw the same rows
    shape: str = ""  # name in SHAPES: the case is judged outside the range

    def sizes(self) -> tuple[int, int]:
        return (max(self.rows // TINY_SHARE, 80), 200) if TINY else (self.rows, self.new)

    def generator(self, repetition: int) -> Generator:
        return np.random.default_rng([repetition, zlib.crc32((self.data or self.name).encode())])


def measure(case: Case, repetition: int) -> Figures:
    """Draw, fit and judge one repetition."""
    rng = case.generator(repetition)
    train, new = case.draw(rng, *case.sizes())
    model = fitted(train, case.parameters, case.with_groups)
    if case.shape:
        return outside_figures(model, new, partial(shaped, rng, len(new.y), case.shape))
    found = judge(model, train, new)
    if new.weight is not None:  # the interval of an observation of weight 1
        y = new.truth + np.sqrt(new.weight) * (new.y - new.truth)
        found["90% at weight 1"] = float(inside(model.predict_interval(new.X, 0.9), y).mean())
    return found


def outside_figures(model: Any, near: Table, draw: Callable[[float], Table]) -> Figures:
    """Return coverage at 90 % inside the range and at each distance, and the widths relative to those inside."""
    interval = model.predict_interval(near.X, 0.9)
    width = np.median(np.diff(interval))
    found = {"inside": float(inside(interval, near.y).mean())}
    for distance in DISTANCES:
        far = draw(distance)
        interval = model.predict_interval(far.X, 0.9)
        found[f"coverage {distance:.0%}"] = float(inside(interval, far.y).mean())
        found[f"width {distance:.0%}"] = float(np.median(np.diff(interval)) / width)
    return found


def people_cases() -> list[Case]:
    """List the cases of people with 2, 6 and 30 rows each, with groups and without.

    Their numbers of people leave room for the bar: a Gaussian process with an additive kernel, a level for every person
    and hyperparameters by maximum likelihood has 0.96, 0.94 and 0.95 of the R2 of the truth (3 to 6 repetitions).
    """
    cases = []
    for each, *sizes in ((2, 400, 800, 24), (6, 600, 1800, 24), (30, 1800, 3000, 20)):  # rows, new rows, repetitions
        data, draw = f"people of {each} rows", partial(twice(people), each=each)
        cases.append(Case(data, draw, 3, *sizes, with_groups=True, data=data))
        cases.append(Case(f"{data}, groups not given", draw, 3, *sizes, judged=False, data=data))
    return cases


def time_cases() -> list[Case]:
    """List the cases of a drifting level: a walk and a season, with the row number as a feature and without."""
    return [
        Case(
            f"{level.__name__}, {'time a feature' if with_time else 'no time feature'}",
            partial(drifting, level=level, with_time=with_time),
            5,
            rows=600,
            repetitions=60,  # all rows of a repetition share one level
            parameters={"cv": TimeSeriesSplit(5)},
            data=level.__name__,
        )
        for level in (walk, season)
        for with_time in (False, True)
    ]


def large_cases() -> list[Case]:
    """List some cases again with so many rows that the fit is low-rank; few repetitions, which suffice there."""
    cases = []
    for rows, repetitions in ((4000, 6), (50_000, 4)):
        sizes = {"rows": rows, "new": 4000, "repetitions": repetitions}
        cases += [
            Case(f"independent, {rows} rows", twice(independent), 2, **sizes),
            Case(f"true precisions, {rows} rows", twice(precisions), 2, **sizes),
            Case(f"half copied, {rows} rows", half_copied, 2, **sizes),
            Case(f"people of 6, {rows} rows", partial(twice(people), each=6), 3, with_groups=True, **sizes),
            Case(f"funnel, {rows} rows", twice(funnel), 3, **sizes),
        ]
    return cases


CASES = [
    Case("independent", twice(independent), 2),
    Case("all weights c", equal_weights, 2),
    Case("true precisions", twice(precisions), 2),
    Case("half copied", half_copied, 2, rows=450),
    Case("bootstrap", bootstrap, 2),
    Case("binomial, rows", binomial_rows, 2, by_quarter=False),
    Case("binomial, counts", binomial_counts, 2, by_quarter=False),
    *people_cases(),
    *time_cases(),
    Case("log-normal", twice(log_normal), 3, repetitions=40, data="log"),
    Case("log-normal, target_transform", twice(log_normal), 3, parameters={"target_transform": "log"}, data="log"),
    Case("funnel", twice(funnel), 3),
    Case("heavy tails", twice(heavy_tails), 2, repetitions=60),
    *(Case(f"outside, {s}", partial(twice(shaped), shape=s), 5, rows=200, new=500, shape=s) for s in SHAPES),
    *([] if TINY else large_cases()),
]


def main() -> None:
    for case in CASES:
        train, new = case.draw(case.generator(0), *case.sizes())
        text = f"{case.name:35s} rows {train.X.shape}, new rows {new.X.shape}"
        if new.truth is not None:
            share = 1 - weighted_mse(new.truth, new) / weighted_variance(new.y, new.weight)
            text += f", R2 of the truth {share:.2f}"
        print(text)


if __name__ == "__main__":
    main()
