"""What settings of SalsaRegressor cost in time and accuracy, by rows and features; one thread.

    python benchmarks/bench_parameters.py

The truth has a wave, a parabola, an edge, an interaction of two features and one of three: eight relevant features. The
noise has 0.3 standard deviations of the truth. Errors are mean squared differences from the truth on 2000 new rows, as
shares of its variance: geometric means over the seeds. Seconds are CPU seconds of a fit, means over the seeds.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time
from typing import Any

import numpy as np
from conditions import Figures, size
from numpy.typing import NDArray

from salsa import SalsaRegressor

NOISE = 0.3  # standard deviation, relative to the truth
TEST_ROWS = 2000
SIZES = size([(500, 10, 3), (500, 50, 3), (2000, 10, 2), (10_000, 10, 1)], [(100, 8, 1)])  # n, D, seeds
ANY_ROWS: list[dict[str, Any]] = [
    {},
    {"order": 2},
    {"order": 1},
    {"relevance": "equal"},
    {"relevance": "equal", "order": 2},
    {"kernel": "matern52"},
]
MANY_ROWS: list[dict[str, Any]] = [{"solver": "lowrank"}, {"solver": "lowrank", "rank": 500}]
Floats = NDArray[np.float64]


def truth(X: Floats) -> Floats:
    curves = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + np.abs(X[:, 2])
    return curves + np.sin(3 * X[:, 3] * X[:, 4]) + 2 * X[:, 5] * X[:, 6] * X[:, 7]


def trial(n: int, D: int, setting: dict[str, Any], seed: int) -> tuple[float, float]:
    """Return the error and the CPU seconds of a fit."""
    rng = np.random.default_rng(seed)
    X, new = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (TEST_ROWS, D))
    f, g = truth(X), truth(new)
    y = f + NOISE * f.std() * rng.normal(size=n)
    start = time.process_time()
    model = SalsaRegressor(random_state=0, n_jobs=1, **setting).fit(X, y)
    seconds = time.process_time() - start
    return float(np.mean((model.predict(new) - g) ** 2) / g.var()), seconds


def main() -> None:
    figures = Figures()
    print(f"{'rows':>6s} {'features':>8s}  {'setting':38s} {'error':>8s} {'CPU s':>7s}")
    for n, D, seeds in SIZES:
        for setting in ANY_ROWS + (MANY_ROWS if n > 3000 else []):
            errors, seconds = np.transpose([trial(n, D, setting, seed) for seed in range(seeds)])
            name = ", ".join(f"{key}={value!r}" for key, value in setting.items()) or "the defaults"
            error, mean_seconds = float(np.exp(np.log(errors).mean())), float(seconds.mean())
            figures.add(rows=n, features=D, setting=name, error=f"{error:.4g}", seconds=f"{mean_seconds:.4g}")
            print(f"{n:6d} {D:8d}  {name:38s} {error:8.4f} {mean_seconds:7.1f}", flush=True)


if __name__ == "__main__":
    main()
