"""Explanations on one thread: Shapley values against shap's KernelExplainer, and the indices of all pairs.

    python benchmarks/bench_explain.py [rows for KernelExplainer] [--out FILE]     (default 3)

Seconds are CPU time. KernelExplainer has another value function (rows of the background instead of the product of its
columns); its exact values are the mean of ours with one row of the background after the other, and its error is
measured against these.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import time
import warnings

import numpy as np
from conditions import Figures, number, size

from salsa import SalsaRegressor, explain

N, D, BACKGROUND = size((1000, 20, 100), (100, 8, 10))
PAIRS = size(((1000, 50, 2), (1000, 50, 3), (1000, 20, 4), (2000, 20, 3)), ((100, 8, 2), (100, 8, 3)))  # n, D, order


FIGURES = Figures()


def seconds(run):
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def fitted(n, D, order, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] * X[:, 5] + rng.normal(scale=0.1, size=n)
    return SalsaRegressor(order=order, alpha=0.1, relevance="equal", kernel="gaussian").fit(X, y), X


def compare_shapley(rows: int) -> None:
    model, X = fitted(N, D, 3)
    ours, time_ours = seconds(lambda: explain.shapley(model, X))
    gap = np.abs(ours.predictions - model.predict(X)).max()
    print(f"Shapley values of {N} rows, {N} anchors, D = {D}, d = 3: {time_ours:.2f} s (bar: 5 s)")
    FIGURES.add(what="Shapley values", order=3, seconds=time_ours)
    print(f"  largest gap between their sum and prediction - base value: {gap:.1e}")
    try:
        import shap
    except ImportError:
        print("  shap is not installed: pip install shap")
        return
    background = X[:BACKGROUND]
    explainer = shap.KernelExplainer(model.predict, background)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, time_theirs = seconds(lambda: explainer.shap_values(X[:rows], silent=True))
    exact = np.mean([explain.shapley(model, X[:rows], b[None]).values for b in background], axis=0)
    ratio = (time_theirs / rows) / (time_ours / N)
    print(f"  KernelExplainer, {BACKGROUND} background rows, its default of samples: {time_theirs / rows:.1f} s a row")
    print(f"  its largest error: {np.abs(theirs - exact).max():.1e}; times ours: {ratio:.0f} (bar: 1000)")
    FIGURES.add(what="KernelExplainer", order=3, seconds=time_theirs / rows * N)


def time_pairs() -> None:
    for n, D, order in PAIRS:
        model, _ = fitted(n, D, order)
        anova = explain.decompose(model)
        table, time_all = seconds(anova.interactions)
        bar = " (bar: 20 s)" if (n, D) == (1000, 50) else ""
        print(f"all {len(table)} pairs, totals and orders at n = {n}, D = {D}, d = {order}: {time_all:.2f} s{bar}")
        FIGURES.add(what=f"all pairs of {D} features, {n} rows", order=order, seconds=time_all)
        _, time_effect = seconds(lambda anova=anova: anova.effect(0))
        print(f"  first curve with its band: {time_effect:.2f} s")
        FIGURES.add(what=f"a curve of {D} features, {n} rows", order=order, seconds=time_effect)


if __name__ == "__main__":
    compare_shapley(number(3, 1))
    time_pairs()
