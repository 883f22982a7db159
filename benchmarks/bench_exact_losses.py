"""Exact fits of classes and counts to many rows against low-rank fits: held-out loss on new rows, and CPU seconds.

    python benchmarks/bench_exact_losses.py [6000 12000] [smooth rough] [--out FILE]

The log odds, and twice the logarithms of means of counts, are a smooth function of 8 features (a sine, a product and a
line) or a rough one (steps, a product of steps and a kink). Kernels of equal relevances and order 2 are smooth or rough
as the function is, so that nothing is learned. The first loss is that of the true probabilities or means. The
arguments are numbers of rows and names of functions; fits use one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from conditions import ARGUMENTS, Figures, size
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from salsa import SalsaClassifier, SalsaRegressor

FIGURES = Figures()
D, NEW = 8, size(10_000, 200)
Floats = NDArray[np.float64]
Truth = Callable[[Floats], Floats]


def smooth(X: Floats) -> Floats:
    """Return a smooth function of order 2."""
    return 2 * np.sin(3 * X[:, 0]) + 3 * X[:, 1] * X[:, 2] + X[:, 3]


def rough(X: Floats) -> Floats:
    """Return a function of order 2 with many steps."""
    steps = np.sign(np.sin(9 * X))
    return steps[:, 0] + 1.5 * steps[:, 1] * steps[:, 2] + np.abs(X[:, 3])


KERNELS = {smooth: "gaussian", rough: "laplace"}


def log_loss(y: Floats, p: Floats) -> float:
    return -float(np.mean(xlogy(y, p) + xlogy(1 - y, 1 - p)))


def deviance(y: Floats, mu: Floats) -> float:
    return 2 * float(np.mean(xlogy(y, y / mu) - y + mu))


def table(n: int, seed: int, truth: Truth, target: str) -> tuple[Floats, Floats, Floats]:
    """Return features, targets and the true probabilities or means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    f = truth(X)
    mean = expit(f) if target == "classes" else np.exp(0.5 * f)
    y = (rng.random(n) < mean).astype(float) if target == "classes" else rng.poisson(mean).astype(float)
    return X, y, mean


def compare(n: int, truth: Truth, target: str) -> None:
    X, y, _ = table(n, 0, truth, target)
    new_X, new_y, mean = table(NEW, 1, truth, target)
    judge, classes = (log_loss, True) if target == "classes" else (deviance, False)
    settings = {"order": 2, "relevance": "equal", "kernel": KERNELS[truth], "random_state": 0, "n_jobs": 1}
    case, best = f"{n} rows, {target}, {truth.__name__}", judge(new_y, mean)
    print(f"{case}: loss of the truth {best:.4f}")
    for solver in ("lowrank", "pcg"):
        begin = time.process_time()
        model = SalsaClassifier(**settings) if classes else SalsaRegressor(loss="poisson", **settings)
        model.set_params(solver=solver, rank=min(2000, n // 2)).fit(X, y)
        seconds = time.process_time() - begin
        found = judge(new_y, model.predict_proba(new_X)[:, 1] if classes else model.predict(new_X))
        anchors = len(model.expansion_.anchors)
        print(
            f"  {solver:7} {found:.4f}, {seconds:5.1f} CPU s, alpha {model.alpha_:.2g}, {anchors} anchors", flush=True
        )
        costs = {"CPU s": seconds, "alpha": model.alpha_, "anchors": anchors}
        FIGURES.add(case=case, solver=solver, loss=found, best=best, **costs)


if __name__ == "__main__":
    for n in [int(word) for word in ARGUMENTS if word.isdigit()] or size((6000, 12_000), (150,)):
        for target in ("classes", "counts"):
            for truth in [one for one in (smooth, rough) if one.__name__ in ARGUMENTS] or (smooth, rough):
                compare(n, truth, target)
