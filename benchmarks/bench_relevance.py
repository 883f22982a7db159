"""Five relevant features of a hundred, n = 300, ten seeds: are they the top ones, and what do the others carry?

    python benchmarks/bench_relevance.py

The share of the irrelevant features is half the variance of the change in predictions when they are drawn anew.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time

import numpy as np
from conditions import size

from salsa import SalsaRegressor

N, D, SEEDS = size((300, 100, 10), (100, 10, 1))

FUNCTIONS = {
    "friedman 1": lambda X: (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    ),
    "mixed": lambda X: np.sin(4 * X[:, 0]) + 4 * X[:, 1] * X[:, 2] + 8 * (X[:, 3] - 0.5) ** 2 + np.exp(X[:, 4]),
    "step and triple": lambda X: 3 * (X[:, 0] > 0.5) * X[:, 1] + 8 * X[:, 2] * X[:, 3] * X[:, 4],
}


def trial(f, seed: int) -> tuple[bool, int, float]:
    """Whether the top five are right, how many features are used, and the share of the irrelevant ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N, D))
    truth = f(X)
    y = truth + 0.2 * truth.std() * rng.normal(size=N)
    model = SalsaRegressor(random_state=0, n_jobs=1).fit(X, y)
    Z, redrawn = rng.uniform(size=(2, 1000, D))
    redrawn[:, :5] = Z[:, :5]
    before, after = model.predict(Z), model.predict(redrawn)
    top = set(np.argsort(-model.relevance_)[:5]) == {0, 1, 2, 3, 4}
    return top, int(np.count_nonzero(model.relevance_)), 0.5 * np.var(before - after) / np.var(before)


def main() -> None:
    for name, f in FUNCTIONS.items():
        start = time.process_time()
        top, used, share = zip(*(trial(f, seed) for seed in range(SEEDS)), strict=True)
        seconds = (time.process_time() - start) / SEEDS
        print(f"{name:16s} top five right {sum(top)} of {SEEDS}; used {list(used)}; ", end="")
        print(f"worst share of the irrelevant {max(share):.2%}; {seconds:.1f} s per fit   target: all, below 1 %")


if __name__ == "__main__":
    main()
