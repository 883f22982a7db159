"""The first table of docs/trust_measured.md: real and claimed R2, and coverage at 90 %, where claims used to be wrong.

    python benchmarks/bench_claims.py

Run it with an older salsa on the Python path for the column "before". Groups are not given to versions that take none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import trust_cases
from conditions import size
from judged import Table, by_quarter, claimed_error, fitted, inside, missing_option
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import TimeSeriesSplit, train_test_split
from trust_cases import Pair

Change = Callable[[Table, np.random.Generator], Table]
LEVEL = 0.9


def diabetes(change: Change, splits: int) -> Iterable[Pair]:
    """Yield overlapping splits of the diabetes table, of which only the training rows are changed."""
    X, y = load_diabetes(return_X_y=True)
    for seed in range(splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
        yield change(Table(X_train, y_train), np.random.default_rng(seed)), Table(X_test, y_test)


def as_it_is(table: Table, _: np.random.Generator) -> Table:
    return table


def weighted_by_two(table: Table, _: np.random.Generator) -> Table:
    return Table(table.X, table.y, weight=np.full(len(table.y), 2.0))


def half_twice(table: Table, _: np.random.Generator) -> Table:
    n = len(table.y)
    return table.some(np.r_[np.arange(n), np.arange(n // 2)])


def weighted_at_random(table: Table, rng: np.random.Generator) -> Table:
    return Table(table.X, table.y, weight=rng.choice([1.0, 2.0], len(table.y)))


def friedman() -> Iterable[Pair]:
    X, y = make_friedman1(1300, noise=1.0, random_state=0)
    yield weighted_by_two(Table(X[:300], y[:300]), np.random.default_rng(0)), Table(X[300:], y[300:])


def simulated(draw: Callable[..., Pair], repetitions: int, *sizes: int) -> Iterable[Pair]:
    for seed in range(repetitions):
        yield draw(np.random.default_rng(seed), *sizes)


def line_of(name: str, tables: Iterable[Pair], **parameters: object) -> str:
    """Return means over the tables: R2, claimed R2, coverage, and coverage in quarters of the prediction."""
    found, quarters = [], []
    for train, new in tables:
        with_groups = train.groups is not None and not missing_option((), True)
        model = fitted(train, parameters, with_groups)
        prediction, covered = model.predict(new.X), inside(model.predict_interval(new.X, LEVEL), new.y)
        real = 1 - np.mean((prediction - new.y) ** 2) / new.y.var()
        found.append((real, 1 - claimed_error(model), covered.mean()))
        quarters.append(list(by_quarter("", covered, prediction).values()))
    real, claimed, coverage = np.mean(found, axis=0)
    text = ", ".join(f"{share:.2f}" for share in np.mean(quarters, axis=0))
    return f"{name:45s} R2 {real:5.2f}, claimed {claimed:5.2f}; coverage {coverage:.2f}; by quarters {text}"


def beyond_the_line() -> str:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 1))
    model = fitted(Table(X, 3 * X[:, 0] + 0.1 * rng.normal(size=200)), {}, with_groups=False)
    ends = model.predict_interval([[1.25], [1.9]], LEVEL).round(3).tolist()
    return f"y = 3x + noise on [0, 1]: intervals at 1.25 and 1.9: {ends}"


def main() -> None:
    warnings.simplefilter("ignore")  # rows outside the range: the figures show their effect
    splits, people, series, skewed = size((5, 3, 20, 6), (1, 1, 1, 1))
    later = {"cv": TimeSeriesSplit(5)}
    walks = [partial(trust_cases.drifting, level=trust_cases.walk, with_time=time) for time in (False, True)]
    of_six = trust_cases.twice(partial(trust_cases.people, each=6))
    print(line_of("diabetes", diabetes(as_it_is, splits)))
    print(line_of("diabetes, all weights 2", diabetes(weighted_by_two, splits)))
    print(line_of("Friedman's first function, all weights 2", friedman()))
    print(line_of("diabetes, half the rows twice", diabetes(half_twice, splits)))
    print(line_of("diabetes, weights 1 or 2 at random", diabetes(weighted_at_random, splits)))
    print(line_of("people with 6 rows each", simulated(of_six, people, *size((720, 1800), (96, 96)))))
    print(line_of("walk", simulated(walks[0], series, *size((600, 100), (90, 15))), **later))
    print(line_of("walk, the row number a feature", simulated(walks[1], series, *size((600, 100), (90, 15))), **later))
    log_normal = trust_cases.twice(trust_cases.log_normal)
    print(line_of("log-normal noise", simulated(log_normal, skewed, *size((400, 2000), (90, 90)))))
    print(beyond_the_line())


if __name__ == "__main__":
    main()
