"""CPU time of the default fit against CatBoost's, and of the learning step alone as the table grows; one thread.

    python benchmarks/bench_learning.py

D = 20 features, 6 of which matter. Needs: pip install catboost
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from catboost import CatBoostRegressor

from salsa import SalsaRegressor
from salsa._utils.progress import Progress
from salsa.selection.plan import make_plan


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 20))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + 0.2 * rng.normal(size=n)
    return X, y


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def learning_step(n: int) -> float:
    """The race and the learning of its winner, without the fit to all rows."""
    X, y = table(n)
    model = SalsaRegressor(random_state=0, n_jobs=1)
    X, y = model._learn_columns(X, y)
    problem = model._problem(X, y[:, None], None)
    return cpu_seconds(lambda: make_plan(model, problem, np.random.RandomState(0), Progress(model, X, y)))


def main() -> None:
    SalsaRegressor(order=1, n_jobs=1).fit(*table(100))  # imports and pages
    for n, target in ((500, "below 3 s"), (1000, ""), (1500, "at most 4 times CatBoost")):
        X, y = table(n)
        settings = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0}
        ours = cpu_seconds(lambda X=X, y=y: SalsaRegressor(random_state=0, n_jobs=1).fit(X, y))
        theirs = cpu_seconds(lambda X=X, y=y, s=settings: CatBoostRegressor(**s).fit(X, y))
        print(f"n = {n:5d}   salsa {ours:5.1f} s   CatBoost {theirs:4.1f} s   ratio {ours / theirs:4.1f}   {target}")
    small, large = learning_step(2000), learning_step(20_000)
    print(f"learning   n = 2000 {small:.1f} s   n = 20000 {large:.1f} s   ratio {large / small:.2f}   target: about 1")


if __name__ == "__main__":
    main()
