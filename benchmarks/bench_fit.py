"""A complete fit against its own eigen-decompositions, and against GridSearchCV over KernelRidge on the same kernels.

    python benchmarks/bench_fit.py [--out FILE]

CPU seconds of one thread, both sides in one process, over the same orders, folds and number of alphas.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import time
from collections.abc import Callable

import numpy as np
from conditions import Figures, size
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

from salsa import AdditiveKernel, SalsaRegressor, rule_of_thumb_bandwidth

N, D = size((2000, 20), (150, 5))


def timed(f: Callable[[], object]) -> tuple[object, float]:
    start = time.process_time()
    result = f()
    return result, time.process_time() - start


def grid_search(X: np.ndarray, y: np.ndarray, order: int, alphas: np.ndarray, cv: KFold) -> tuple[float, float]:
    """Best error and its alpha on the same kernel matrix; y is centred, as KernelRidge has no intercept."""
    weights = np.r_[0.0, np.ones(order)]
    K = AdditiveKernel(rule_of_thumb_bandwidth(X), np.ones(X.shape[1]), weights)(X, n_threads=1)
    search = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": alphas}, cv=cv, scoring="neg_mean_squared_error")
    search.fit(K, y - y.mean())
    return -search.best_score_ / y.var(), search.best_params_["alpha"]


def main() -> None:
    figures = Figures()
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D))
    y = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + X[:, 3] ** 2 + 0.3 * rng.normal(size=N)
    cv = KFold(5, shuffle=True, random_state=0)

    model, fit = timed(lambda: SalsaRegressor(relevance="equal", cv=cv, n_jobs=1).fit(X, y))
    table, paths = model.search_.table, {r.order: r.path for r in model.search_.results}
    K = AdditiveKernel(model.bandwidth_, np.ones(D), [0.0, 1.0, 1.0])(X, n_threads=1)
    eigh = min(timed(lambda: np.linalg.eigh(K))[1] for _ in range(3))
    tried = len(table)
    print(table.to_string(index=False))
    print(f"alphas per order: {[len(p.alphas) for p in paths.values()]}")
    allowed = tried * eigh
    print(f"fit {fit:.2f} s; {tried} orders x eigh {eigh:.2f} s   ratio {fit / allowed:.2f}   target <= 3")
    figures.add(ratio_of="fit / eigh of every order", ratio=fit / allowed)

    found = {}
    start = time.process_time()
    for order, path in paths.items():
        grid = np.geomspace(path.alphas[0], path.alphas[-1], len(path.alphas))
        found[order] = grid_search(X, y, order, grid, cv)
    searched = time.process_time() - start
    best = min(found, key=lambda order: found[order][0])
    print(f"GridSearchCV {searched:.2f} s / fit {fit:.2f} s   ratio {searched / fit:.2f}   target >= 3")
    figures.add(ratio_of="GridSearchCV / fit", ratio=searched / fit)
    print(f"order: ours {model.order_}, GridSearchCV {best}")
    print(f"error at it: ours {paths[model.order_].error:.5f} at alpha {model.alpha_:.3g}", end=", ")
    print(f"GridSearchCV {found[best][0]:.5f} at alpha {found[best][1]:.3g}")


if __name__ == "__main__":
    main()
