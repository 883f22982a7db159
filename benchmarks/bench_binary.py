"""What classes cost: binary fits against regressions on the same features, and a fit to many rows.

    python benchmarks/bench_binary.py [100000]

The log odds are 2 sin(3 x1) + 3 x2 x3 + x4, of 20 features. The first table has CPU seconds of both fits and their
ratio, by one thread. The second is a binary fit by all threads: seconds, the log loss on 20 000 new rows, and that of
the true probabilities. The argument is its number of rows.
"""

from __future__ import annotations

import time

import numpy as np
from conditions import number, size
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import log_loss

from salsa import SalsaClassifier, SalsaRegressor

D, NEW = 20, size(20_000, 200)
Floats = NDArray[np.float64]


def table(n: int, seed: int) -> tuple[Floats, Floats, np.random.Generator]:
    """Return features and log odds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, 2 * np.sin(3 * X[:, 0]) + 3 * X[:, 1] * X[:, 2] + X[:, 3], rng


def against_regression(n: int) -> None:
    X, f, rng = table(n, 0)
    targets = (SalsaRegressor, f + rng.normal(size=n)), (SalsaClassifier, rng.random(n) < expit(f))
    seconds = []
    for kind, y in targets:
        begin = time.process_time()
        kind(random_state=0, n_jobs=1).fit(X, y)
        seconds.append(time.process_time() - begin)
    regression, binary = seconds
    print(f"{n:7} rows: regression {regression:6.1f} CPU s, binary {binary:6.1f}, ratio {binary / regression:.2f}")


def many_rows(n: int) -> None:
    X, f, rng = table(n, 0)
    wall, cpu = time.perf_counter(), time.process_time()
    model = SalsaClassifier(random_state=0).fit(X, rng.random(n) < expit(f))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    X, f, rng = table(NEW, 1)
    y = rng.random(NEW) < expit(f)
    losses = [log_loss(y, p) for p in (model.predict_proba(X)[:, 1], expit(f))]
    anchors = len(model.expansion_.anchors)
    print(
        f"{n:7} rows: {wall:.1f} s, {cpu:.1f} CPU s, {anchors} anchors, log loss {losses[0]:.4f}, truth {losses[1]:.4f}"
    )


if __name__ == "__main__":
    for rows in size((500, 1500), (60, 120)):
        against_regression(rows)
    many_rows(number(100_000, 300))
