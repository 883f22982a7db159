"""The rivals as functions that make an estimator: the paper's 21 alternatives, then methods that one would try today.

The registry holds the grids that tune them. A class is imported when its first estimator is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from salsa.baselines.tuning import SEED, centred, five_folds, named, near, scaled

Maker = Callable[[], Any]


def maker(path: str, *wrappers: Callable[[Any], Any], **parameters: Any) -> Maker:
    """Return a function that imports the class at `path`, and makes an estimator inside the wrappers, innermost first.

    A path that starts with a dot is a class of ``salsa.baselines.methods``.
    """
    module, _, name = path.rpartition(".")

    def make() -> Any:
        method = getattr(import_module(module, "salsa.baselines.methods"), name)(**parameters)
        return reduce(lambda estimator, wrap: wrap(estimator), wrappers, method)

    return make


krr = maker("sklearn.kernel_ridge.KernelRidge", near, centred, kernel="rbf")
knn = maker("sklearn.neighbors.KNeighborsRegressor", scaled)
nadaraya_watson = maker(".localpoly.LocalPolynomialRegressor", degree=0, random_state=SEED)
locally_linear = maker(".localpoly.LocalPolynomialRegressor", degree=1, random_state=SEED)
locally_quadratic = maker(".localpoly.LocalPolynomialRegressor", degree=2, random_state=SEED)
svr_epsilon = maker("sklearn.svm.SVR", near, centred)
svr_nu = maker("sklearn.svm.NuSVR", near, centred)
regression_tree = maker("sklearn.tree.DecisionTreeRegressor", random_state=SEED)
gbrt = maker("sklearn.ensemble.GradientBoostingRegressor", random_state=SEED)
rbf_interpolation = maker(".rbf.RBFInterpolationRegressor", near, centred)
m5 = maker(".m5.M5Regressor")
shepard = maker(".shepard.ShepardRegressor", random_state=SEED)
backfitting = maker(".backfitting.SplineBackfittingRegressor", random_state=SEED)
cosso = maker(".cosso.COSSORegressor", order=2, random_state=SEED)
spam = maker(".spam.SpAMRegressor", random_state=SEED)
additive_gp = maker(".additive_gp.AdditiveGPRegressor", random_state=SEED)
ridge = maker("sklearn.linear_model.RidgeCV", scaled, alphas=np.logspace(-3, 4, 15), cv=five_folds())
# penalties down to 1e-4 of the largest: 1e-3 was too large for the paper's propulsion set
lasso = maker("sklearn.linear_model.LassoCV", scaled, cv=five_folds(), eps=1e-4, max_iter=10_000)
lar = maker("sklearn.linear_model.LarsCV", scaled, cv=five_folds())


def gp() -> Any:
    """Make a Gaussian process with one length scale and, as in GPML, one start. With D length scales, scikit-learn's
    gradient would take n^2 D numbers; ``gp_ard`` learns D length scales with our kernel."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, (1e-2, 1e3)) + WhiteKernel(0.1, (1e-8, 1e1))
    path = "sklearn.gaussian_process.GaussianProcessRegressor"
    return maker(path, near, centred, kernel=kernel, random_state=SEED)()


def mars() -> Any:
    import pyearth  # noqa: F401  # a missing package is reported here, not in every fold

    return maker(".mars.MARSRegressor", scaled)()


gp_ard = maker(".additive_gp.AdditiveGPRegressor", max_order="all", random_state=SEED)
random_forest = maker("sklearn.ensemble.RandomForestRegressor", n_estimators=300, n_jobs=1, random_state=SEED)
_SLOW_STEPS = {"learning_rate": 0.05, "random_state": SEED}
hist_gbrt = maker("sklearn.ensemble.HistGradientBoostingRegressor", early_stopping=False, **_SLOW_STEPS)
lightgbm = maker("lightgbm.LGBMRegressor", n_jobs=1, verbosity=-1, **_SLOW_STEPS)
xgboost = maker("xgboost.XGBRegressor", n_jobs=1, verbosity=0, **_SLOW_STEPS)
catboost = maker(
    "catboost.CatBoostRegressor", thread_count=1, verbose=False, allow_writing_files=False, random_seed=SEED
)
ebm = maker("interpret.glassbox.ExplainableBoostingRegressor", n_jobs=1, random_state=SEED)
gpgam = maker("imodels.GPGamRegressor")
cubist = maker("cubist.Cubist", named, random_state=SEED)


def xrfm() -> Any:
    import xrfm  # noqa: F401  # a missing package is reported here, not when the model is fitted

    return maker(".rfm.XRFMRegressor", scaled, centred, random_state=SEED)()


salsa = maker("salsa.regressor.SalsaRegressor", n_jobs=1, random_state=SEED)
_PAPER = {"relevance": "equal", "interactions": "exact", "kernel": "gaussian", "bandwidth": "rule_of_thumb"}
salsa_paper = maker("salsa.regressor.SalsaRegressor", n_jobs=1, random_state=SEED, **_PAPER)
