"""Fits with interaction_cst against free fits, where the truth has no forbidden interactions.

    python benchmarks/bench_constraints.py [--out FILE]

Errors are mean squared differences from the truth on 2000 new rows, as shares of its variance: geometric means over the
seeds. The ratio of errors and of CPU seconds is constrained over free.
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

N, SEEDS = size((500, 5), (100, 1))
NOISE = 0.3  # standard deviation, relative to the truth
Floats = NDArray[np.float64]


def two_sets(X: Floats) -> Floats:
    """Return an interaction of two features, one of three, and three curves."""
    curves = np.sin(3 * X[:, 5]) + X[:, 6] ** 2 + np.abs(X[:, 7])
    return np.sin(4 * X[:, 0] * X[:, 1]) + 4 * X[:, 2] * X[:, 3] * X[:, 4] + curves


def pairs(X: Floats) -> Floats:
    """Return interactions of three pairs."""
    return np.sin(4 * X[:, 0] * X[:, 1]) + 2 * X[:, 2] * X[:, 3] + np.maximum(X[:, 4], X[:, 5])


def smooth_pairs(X: Floats) -> Floats:
    """Return interactions of three pairs without an edge."""
    return np.sin(4 * X[:, 0] * X[:, 1]) + 2 * X[:, 2] * X[:, 3] + X[:, 4] * X[:, 5]


def curves(X: Floats) -> Floats:
    """Return curves of four features."""
    return np.sin(4 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2] ** 3 + np.exp(X[:, 3])


def in_pairs(D: int) -> list[set[int]]:
    return [{j, j + 1} for j in range(0, D, 2)]


CASES: dict[str, tuple[Any, int, Any]] = {
    "sets of 2, 3 and 5": (two_sets, 10, [{0, 1}, {2, 3, 4}]),
    "overlapping sets": (two_sets, 10, [{0, 1, 5}, {2, 3, 4}, {4, 5, 6, 7}, {7, 8, 9}]),
    "5 pairs": (pairs, 10, in_pairs(10)),
    "10 pairs": (pairs, size(20, 6), in_pairs(size(20, 6))),
    "50 pairs": (pairs, size(100, 8), in_pairs(size(100, 8))),
    "pairwise": (pairs, 10, "pairwise"),
    "pairwise, no edge": (smooth_pairs, 10, "pairwise"),
    "no_interactions": (curves, 10, "no_interactions"),
}


def trial(truth: Any, D: int, allowed: Any, seed: int) -> tuple[float, float, int]:
    """Return the error, the CPU seconds and the number of terms of a fit."""
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(-1, 1, (N, D)), rng.uniform(-1, 1, (2000, D))
    f, g = truth(X), truth(Z)
    y = f + NOISE * f.std() * rng.normal(size=N)
    start = time.process_time()
    model = SalsaRegressor(interaction_cst=allowed, random_state=0, n_jobs=1).fit(X, y)
    seconds = time.process_time() - start
    return float(np.mean((model.predict(Z) - g) ** 2) / g.var()), seconds, len(model.expansion_.kernel.terms)


def main() -> None:
    figures = Figures()
    print(f"n = {N}, {SEEDS} seeds, noise {NOISE} sd of the truth")
    print(
        f"{'constraint':20s} {'D':>4s} {'free':>8s} {'with sets':>9s} {'ratio':>6s} {'CPU s':>7s} {'ratio':>6s} terms"
    )
    for name, (truth, D, allowed) in CASES.items():
        free, ours = ([trial(truth, D, cst, seed) for seed in range(SEEDS)] for cst in (None, allowed))
        errors = [float(np.exp(np.mean(np.log([one[0] for one in fits])))) for fits in (free, ours)]
        seconds = [sum(one[1] for one in fits) / SEEDS for fits in (free, ours)]
        terms = sorted(one[2] for one in ours)
        ratios = errors[1] / errors[0], seconds[1] / seconds[0]
        print(f"{name:20s} {D:4d} {errors[0]:8.5f} {errors[1]:9.5f} {ratios[0]:6.2f}", end="")
        print(f" {seconds[1]:7.2f} {ratios[1]:6.2f} {terms[0]} to {terms[-1]}", flush=True)
        shown = {"free": errors[0], "constrained": errors[1], "ratio of errors": ratios[0]}
        figures.add(constraint=name, D=D, **shown, **{"CPU s": seconds[1], "ratio of CPU seconds": ratios[1]})


if __name__ == "__main__":
    main()
