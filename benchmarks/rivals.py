"""The methods that accuracy.py compares: salsa, and today's rivals, each with one thread.

    python benchmarks/rivals.py

Run by itself, this file fits every installed method to one small table and prints the squared error (1 is the error of
the mean) and the CPU seconds. A method is a function that takes X (n, D) and a standardised y (n,), tunes and fits, and
returns its predict function. Seconds leave out the import of the package.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from conditions import installed, size
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from salsa import SalsaRegressor

Predict = Callable[[np.ndarray], np.ndarray]
ROUNDS, LEARNING_RATE, PATIENCE = size(2000, 20), 0.05, 50  # boosted trees with tuned rounds
SEARCH_STEPS = size(10, 1)  # random settings that tuned xRFM tries
EPOCHS = size(None, 2)  # training length of neural networks; None is the default of the package


@dataclass(frozen=True)
class Method:
    """A function that fits rows and returns their predict function, and the package that it needs."""

    fit: Callable[[np.ndarray, np.ndarray], Predict]
    package: str = "sklearn"


def salsa(X: np.ndarray, y: np.ndarray, relevance: str = "learned", order: Any = "auto") -> Predict:
    return SalsaRegressor(order, relevance=relevance, random_state=0, n_jobs=1).fit(X, y).predict


def catboost(X: np.ndarray, y: np.ndarray) -> Predict:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(verbose=0, thread_count=1, allow_writing_files=False, random_seed=0).fit(X, y).predict


def catboost_tuned(X: np.ndarray, y: np.ndarray) -> Predict:
    """Choose the rounds by five-fold cross-validation with early stopping, and fit all rows with so many."""
    from catboost import CatBoost, Pool, cv

    settings = {"loss_function": "RMSE", "learning_rate": LEARNING_RATE, "thread_count": 1, "random_seed": 0}
    settings |= {"allow_writing_files": False, "logging_level": "Silent"}
    rows = Pool(X, y)
    with tempfile.TemporaryDirectory() as folder:  # cross-validation writes files in any case
        search = settings | {"train_dir": folder}
        curve = cv(rows, search, iterations=ROUNDS, fold_count=5, early_stopping_rounds=PATIENCE)
    rounds = int(curve["test-RMSE-mean"].argmin()) + 1
    return CatBoost(settings | {"iterations": rounds}).fit(rows).predict


def lightgbm(X: np.ndarray, y: np.ndarray) -> Predict:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbose=-1, n_jobs=1, random_state=0).fit(X, y).predict


def lightgbm_tuned(X: np.ndarray, y: np.ndarray) -> Predict:
    """Choose the rounds by five-fold cross-validation with early stopping, and fit all rows with so many."""
    from lightgbm import Dataset, cv, early_stopping, train

    settings = {"objective": "l2", "learning_rate": LEARNING_RATE, "verbose": -1, "num_threads": 1, "seed": 0}
    stop = early_stopping(PATIENCE, verbose=False)
    curve = cv(settings, Dataset(X, y), ROUNDS, nfold=5, stratified=False, callbacks=[stop])
    return train(settings, Dataset(X, y), len(curve["valid l2-mean"])).predict


def xgboost(X: np.ndarray, y: np.ndarray) -> Predict:
    from xgboost import XGBRegressor

    return XGBRegressor(n_jobs=1, random_state=0).fit(X, y).predict


def hist_gradient_boosting(X: np.ndarray, y: np.ndarray) -> Predict:
    return HistGradientBoostingRegressor(random_state=0).fit(X, y).predict


def random_forest(X: np.ndarray, y: np.ndarray) -> Predict:
    return RandomForestRegressor(n_estimators=300, random_state=0).fit(X, y).predict


def ebm(X: np.ndarray, y: np.ndarray) -> Predict:
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(outer_bags=size(14, 1), n_jobs=1, random_state=0).fit(X, y).predict


def gpgam(X: np.ndarray, y: np.ndarray) -> Predict:
    from imodels import GPGamRegressor

    return GPGamRegressor().fit(X, y).predict


def pygam(X: np.ndarray, y: np.ndarray) -> Predict:
    """Fit a spline of every feature; the penalty, one for all features, minimises the GCV score on pyGAM's grid."""
    from pygam import LinearGAM

    return LinearGAM().gridsearch(X, y, progress=False).predict


def cubist(X: np.ndarray, y: np.ndarray) -> Predict:
    from cubist import Cubist

    return Cubist(n_committees=10, random_state=0).fit(X, y).predict


def xrfm(X: np.ndarray, y: np.ndarray) -> Predict:
    """Fit xRFM at its defaults; it needs scaled features and rows to validate on, here a fifth."""
    import torch
    from xrfm import xRFM

    torch.set_num_threads(1)
    scaler = StandardScaler().fit(X)
    X_train, X_valid, y_train, y_valid = train_test_split(
        scaler.transform(X), y[:, None], test_size=0.2, random_state=0
    )
    model = xRFM(device="cpu", random_state=0, n_threads=1, verbose=False)
    model.fit(X_train, y_train, X_valid, y_valid)
    return lambda X_new: model.predict(scaler.transform(X_new))


def xrfm_tuned(X: np.ndarray, y: np.ndarray) -> Predict:
    """Fit xRFM with the best of some random settings, judged on a fifth of the rows."""
    from pytabkit import XRFM_HPO_Regressor

    search = XRFM_HPO_Regressor(device="cpu", random_state=0, n_threads=1, n_hyperopt_steps=SEARCH_STEPS)
    return search.fit(X, y).predict


def realmlp(X: np.ndarray, y: np.ndarray) -> Predict:
    """Fit RealMLP with its tuned defaults; it stops by a fifth of the rows."""
    from pytabkit import RealMLP_TD_Regressor

    return RealMLP_TD_Regressor(device="cpu", random_state=0, n_threads=1, n_epochs=EPOCHS).fit(X, y).predict


def tabm(X: np.ndarray, y: np.ndarray) -> Predict:
    """Fit TabM with its defaults; it stops by a fifth of the rows, and takes minutes on large tables."""
    from pytabkit import TabM_D_Regressor

    return TabM_D_Regressor(device="cpu", random_state=0, n_threads=1, n_epochs=EPOCHS).fit(X, y).predict


def ridge(X: np.ndarray, y: np.ndarray) -> Predict:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 30))).fit(X, y).predict


def tuned(model: Any, grid: dict[str, Any]) -> Any:
    return make_pipeline(StandardScaler(), GridSearchCV(model, grid, cv=5, scoring="neg_mean_squared_error"))


def gammas(D: int) -> np.ndarray:
    return np.array([0.03, 0.1, 0.3, 1.0, 3.0]) / D


def krr(X: np.ndarray, y: np.ndarray) -> Predict:
    grid = {"gamma": gammas(X.shape[1]), "alpha": np.logspace(-4, 1, 6)}
    return tuned(KernelRidge(kernel="rbf"), grid).fit(X, y).predict


def svr(X: np.ndarray, y: np.ndarray) -> Predict:
    grid = {"gamma": gammas(X.shape[1]), "C": [1.0, 10.0, 100.0], "epsilon": [0.03, 0.1]}
    return tuned(SVR(), grid).fit(X, y).predict


def gp_ard(X: np.ndarray, y: np.ndarray) -> Predict:
    kernel = ConstantKernel() * RBF(np.full(X.shape[1], 3.0)) + WhiteKernel(0.1)
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True)).fit(X, y).predict


METHODS = {
    "salsa": Method(salsa),
    "salsa-equal": Method(partial(salsa, relevance="equal")),
    "salsa-pairs": Method(partial(salsa, order=2)),
    "catboost": Method(catboost, "catboost"),
    "catboost tuned": Method(catboost_tuned, "catboost"),
    "lightgbm": Method(lightgbm, "lightgbm"),
    "lightgbm tuned": Method(lightgbm_tuned, "lightgbm"),
    "xgboost": Method(xgboost, "xgboost"),
    "hist gradient boosting": Method(hist_gradient_boosting),
    "random forest": Method(random_forest),
    "cubist": Method(cubist, "cubist"),
    "xrfm": Method(xrfm, "xrfm"),
    "xrfm tuned": Method(xrfm_tuned, "pytabkit"),
    "realmlp": Method(realmlp, "pytabkit"),
    "tabm": Method(tabm, "pytabkit"),
    "krr": Method(krr),
    "svr": Method(svr),
    "ridge": Method(ridge),
    "gp ard": Method(gp_ard),
    "ebm": Method(ebm, "interpret"),
    "pygam": Method(pygam, "pygam"),
    "gpgam": Method(gpgam, "imodels"),
}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings, progress bars and printed lines, but no exceptions."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


def judge(name: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> tuple[float, float]:
    """Return the mean squared error of a method on the test rows, and the CPU seconds of its fit."""
    method = METHODS[name]
    with quiet():
        import_module(method.package)
        start = time.process_time()
        predict = method.fit(X, y)
        seconds = time.process_time() - start
        error = np.ravel(predict(X_test)) - y_test
    return float(np.mean(error**2)), seconds


def main() -> None:
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, (y - y.mean()) / y.std(), train_size=size(300, 100), random_state=0)
    for name, method in METHODS.items():
        if installed(method.package):
            mse, seconds = judge(name, X, y, X_test, y_test)
            print(f"{name:22s} squared error {mse:.3f}, {seconds:6.1f} CPU seconds", flush=True)


if __name__ == "__main__":
    main()
