"""CPU time of the default fit against CatBoost's, and of the learning step alone as the table grows; one thread.

    python benchmarks/bench_learning.py [--out FILE]

D = 20 features, 6 of which matter. The learning step is the CPU time of a fit with few anchors, less the time of a fit
with equal relevances, which learns nothing. Needs: pip install catboost
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from conditions import Figures, installed, size

from salsa import SalsaRegressor

D = size(20, 8)
FIT_ROWS = size({500: "target: 1", 1000: "", 1500: "target: 2"}, {100: ""})  # with target ratios
FEW_ROWS, MANY_ROWS = size((2000, 20_000), (100, 200))
RANK = 50  # anchors of the fits that the learning step is measured with


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + 0.2 * rng.normal(size=n)
    return X, y


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def learning_step(n: int) -> float:
    """The race and the learning of its winner, without the fit to all rows."""
    X, y = table(n)
    given = {"rank": RANK, "random_state": 0, "n_jobs": 1}
    whole = cpu_seconds(lambda: SalsaRegressor(**given).fit(X, y))
    return whole - cpu_seconds(lambda: SalsaRegressor(order=2, relevance="equal", **given).fit(X, y))


def catboost() -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(verbose=0, thread_count=1, allow_writing_files=False, random_seed=0)


def main() -> None:
    figures = Figures()
    SalsaRegressor(order=1, n_jobs=1).fit(*table(100))  # imports and pages
    compared = installed("catboost")
    for n, target in FIT_ROWS.items():
        X, y = table(n)
        ours = cpu_seconds(lambda X=X, y=y: SalsaRegressor(random_state=0, n_jobs=1).fit(X, y))
        line = f"n = {n:5d}   salsa {ours:5.1f} s"
        if compared:
            theirs = cpu_seconds(lambda X=X, y=y: catboost().fit(X, y))
            line += f"   CatBoost {theirs:4.1f} s   ratio {ours / theirs:4.1f}"
            figures.add(what="fit", rows=n, salsa=ours, CatBoost=theirs, ratio=ours / theirs)
        print(f"{line}   {target}", flush=True)
    small, large = learning_step(FEW_ROWS), learning_step(MANY_ROWS)
    print(f"learning   n = {FEW_ROWS} {small:.1f} s   n = {MANY_ROWS} {large:.1f} s", end="   ")
    print(f"ratio {large / small:.2f}   target: about 1")
    for n, step in ((FEW_ROWS, small), (MANY_ROWS, large)):
        figures.add(what="learning", rows=n, salsa=step, CatBoost="", ratio="")


if __name__ == "__main__":
    main()
