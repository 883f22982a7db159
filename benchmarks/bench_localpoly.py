"""Local polynomial regression against a loop over queries with np.linalg.lstsq on the weighted design.

    python benchmarks/bench_localpoly.py

CPU seconds of one thread, best of a few runs, both sides in the same process; the targets stand beside the ratios.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time
from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from conditions import size

from salsa.baselines.methods.localpoly import LocalPolynomialRegressor

N, D, REPEATS = size((2000, 5, 4), (200, 3, 1))
WIDE = size((700, 50), (200, 6))


def cpu_seconds(f: Callable[[], object], repeats: int) -> float:
    def once() -> float:
        start = time.process_time()
        f()
        return time.process_time() - start

    return min(once() for _ in range(repeats))


def loop(X: np.ndarray, y: np.ndarray, queries: np.ndarray, h: np.ndarray, degree: int) -> np.ndarray:
    """The definition, query by query."""
    sets = [list(s) for k in range(1, degree + 1) for s in combinations_with_replacement(range(X.shape[1]), k)]
    out = np.empty(len(queries))
    for i, x in enumerate(queries):
        u = (X - x) / h
        root = np.exp(-np.sum(u**2, axis=1) / 4)
        design = np.column_stack([np.ones(len(u)), *(u[:, s].prod(axis=1) for s in sets)])
        out[i] = np.linalg.lstsq(root[:, None] * design, root * y, rcond=None)[0][0]
    return out


def data(n: int, D: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def compare(degree: int, target: str) -> None:
    X, y = data(N, D)
    model = LocalPolynomialRegressor(degree, 1.0).fit(X, y)
    ours = cpu_seconds(lambda: model.predict(X), REPEATS)
    theirs = cpu_seconds(lambda: loop(X, y, X, model.bandwidth_, degree), REPEATS)
    difference = np.max(np.abs(model.predict(X[:200]) - loop(X, y, X[:200], model.bandwidth_, degree)))
    ratio = f"ratio {theirs / ours:6.1f}   {target:12s}   largest difference {difference:.0e}"
    print(f"degree {degree}, {N} predictions   ours {ours:7.3f} s   loop {theirs:7.3f} s   {ratio}")


def one_fit(n: int, D: int, degree: int) -> None:
    X, y = data(n, D)
    model = LocalPolynomialRegressor(degree, random_state=0)
    fit = cpu_seconds(lambda: model.fit(X, y), 1)
    predict = cpu_seconds(lambda: model.predict(X[:200]), 1)
    sizes = f"n = {n}, D = {D}, degree {degree}"
    print(f"{sizes:32s} bandwidth by cross-validation {fit:7.2f} s   200 predictions {predict:7.3f} s")


def main() -> None:
    print(f"n = {N}, D = {D}; CPU seconds of one thread")
    for degree, target in enumerate(("", "target >= 20", "target >= 20")):
        compare(degree, target)
    for sizes in ((N, D, 1), (N, D, 2), (*WIDE, 1), (*WIDE, 2)):
        one_fit(*sizes)


if __name__ == "__main__":
    main()
