"""Where not to use salsa: small simulated tables that it is not made for, with what to use instead (docs/limits.md).

python benchmarks/bench_limits.py [extrapolation steps parity wide weak yes-no] [--out FILE]
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import time
import warnings

import numpy as np
from conditions import ARGUMENTS, Figures, size
from lightgbm import LGBMRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LassoCV, LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from salsa import SalsaRegressor

TEST_ROWS = size(2000, 200)
FIGURES = Figures(resumes=True)


def trees():
    return LGBMRegressor(n_jobs=1, verbosity=-1, random_state=0)


def ridge():
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))


def salsa():
    return SalsaRegressor(random_state=0, n_jobs=1)


def show(experiment, case, train, test, **rivals):
    """R2 on new rows and CPU seconds of a fit."""
    print(f"{experiment}: {case}")
    for method, make in {"salsa": salsa, "LightGBM": trees, "ridge": ridge, **rivals}.items():
        if FIGURES.has(experiment=experiment, case=case, method=method):
            continue
        begin = time.process_time()
        model = make().fit(*train)
        seconds, r2 = time.process_time() - begin, model.score(*test)
        order = model.order_ if method == "salsa" else ""
        print(f"  {method:10} R2 {r2:7.3f}  {seconds:7.1f} s  {f'order {order}' if order else ''}", flush=True)
        FIGURES.add(experiment=experiment, case=case, method=method, R2=r2, seconds=seconds, order=order)


def drawn(f, n, D, noise, seed=0, low=-1.0, high=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, D))
    return X, f(X) + noise * rng.standard_normal(n)


def extrapolation():
    def line(X):
        return 3 * X[:, 0] + np.sin(4 * X[:, 1])

    train = drawn(line, size(500, 100), 5, 0.1)
    near, far = drawn(line, TEST_ROWS, 5, 0.1, 1), drawn(line, TEST_ROWS, 5, 0.1, 1)
    far[0][:, 0] += 2.0
    show("extrapolation", "in range", train, near)
    show("extrapolation", "one range further", train, (far[0], far[1] + 6.0))


def steps():
    def tree(X):
        """A tree of depth 4 on eight features."""
        return np.where(X[:, 0] > 0.2, np.where(X[:, 1] > 0, 2, -1), np.where(X[:, 2] > -0.3, 1, -2)) * np.where(
            (X[:, 3] > 0.1) & (X[:, 4] < 0.5), 2.0, 1.0
        )

    for n in size((500, 3000), (100,)):  # rows
        show("steps", n, drawn(tree, n, 8, 0.3), drawn(tree, TEST_ROWS, 8, 0.3, 1))


def parity():
    n = size(1000, 100)
    for k in size((2, 3, 4, 6), (2,)):  # features of the product, out of 10

        def sign(X, k=k):
            return np.sign(np.prod(X[:, :k], axis=1))

        show("parity", k, drawn(sign, n, 10, 0.1), drawn(sign, TEST_ROWS, 10, 0.1, 1))


def wide():
    def few(X):
        return 2 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3] + X[:, 4]

    def lasso():
        return make_pipeline(StandardScaler(), LassoCV(random_state=0))

    n = size(400, 100)
    for D in size((100, 500), (10,)):  # features, 5 of which matter
        show("wide", D, drawn(few, n, D, 0.3), drawn(few, TEST_ROWS, D, 0.3, 1), lasso=lasso)


def weak():
    """Each of 40 features adds a curve or a step of its own; all together are a tenth of the variance."""
    rng = np.random.default_rng(7)
    rate, shift, cut = rng.uniform(1, 4, 40), rng.uniform(0, 6, 40), rng.uniform(-0.8, 0.8, 40)

    def many(X):
        curves, stairs = np.sin(rate * X + shift), np.where(cut < X, 1.0, -1.0)
        return np.where(np.arange(40) < 20, curves, stairs).sum(axis=1)

    sd = 3 * many(drawn(many, 20_000, 40, 0.0)[0]).std()
    test = drawn(many, size(50_000, 1000), 40, sd, 1)
    for n in size((2000, 20_000), (100,)):  # rows
        show("weak", n, drawn(many, n, 40, sd), test)


def yes_no():
    X, y = load_breast_cancer(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, train_size=size(369, 100), test_size=200, random_state=0, stratify=y)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(X, y)
    value, probability = salsa().fit(X, y).predict(X_new), logistic.predict_proba(X_new)[:, 1]
    print("0 or 1, as if it were a number")
    print(f"  salsa     AUC {roc_auc_score(y_new, value):.4f}  Brier {np.mean((value - y_new) ** 2):.4f}")
    print(f"  logistic  AUC {roc_auc_score(y_new, probability):.4f}  Brier {np.mean((probability - y_new) ** 2):.4f}")
    outside = np.mean((value < 0) | (value > 1))
    print(f"  predictions outside [0, 1]: {outside:.0%}, from {value.min():.2f} to {value.max():.2f}")


EXPERIMENTS = {
    "extrapolation": extrapolation,
    "steps": steps,
    "parity": parity,
    "wide": wide,
    "weak": weak,
    "yes-no": yes_no,
}

if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    for name in ARGUMENTS or EXPERIMENTS:
        EXPERIMENTS[name]()
