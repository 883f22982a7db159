"""The 21 alternatives of the paper: each function makes an estimator, and the registry holds the grids to tune it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LarsCV, LassoCV, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR, NuSVR
from sklearn.tree import DecisionTreeRegressor

from salsa.baselines.tuning import SEED, centred, five_folds, near, scaled


def krr() -> Any:
    return centred(near(KernelRidge(kernel="rbf")))


def knn() -> Any:
    return scaled(KNeighborsRegressor())


def nadaraya_watson() -> Any:
    return _local_polynomial(0)


def locally_linear() -> Any:
    return _local_polynomial(1)


def locally_quadratic() -> Any:
    return _local_polynomial(2)


def _local_polynomial(degree: int) -> Any:
    from salsa.baselines.methods.localpoly import LocalPolynomialRegressor

    return LocalPolynomialRegressor(degree=degree, random_state=SEED)


def svr_epsilon() -> Any:
    return centred(near(SVR()))


def svr_nu() -> Any:
    return centred(near(NuSVR()))


def gp() -> Any:
    """Make a Gaussian process with one length scale and, as in GPML, one start. With D length scales, scikit-learn's
    gradient would take n^2 D numbers; ``gp_ard`` learns D length scales with our kernel."""
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, (1e-2, 1e3)) + WhiteKernel(0.1, (1e-8, 1e1))
    return centred(near(GaussianProcessRegressor(kernel, random_state=SEED)))


def regression_tree() -> Any:
    return DecisionTreeRegressor(random_state=SEED)


def gbrt() -> Any:
    return GradientBoostingRegressor(random_state=SEED)


def rbf_interpolation() -> Any:
    from salsa.baselines.methods.rbf import RBFInterpolationRegressor

    return centred(near(RBFInterpolationRegressor()))


def m5() -> Any:
    from salsa.baselines.methods.m5 import M5Regressor

    return M5Regressor()


def shepard() -> Any:
    from salsa.baselines.methods.shepard import ShepardRegressor

    return ShepardRegressor(random_state=SEED)


def backfitting() -> Any:
    from salsa.baselines.methods.backfitting import SplineBackfittingRegressor

    return SplineBackfittingRegressor(random_state=SEED)


def mars() -> Any:
    import pyearth  # noqa: F401  # a missing package is reported here, not in every fold

    from salsa.baselines.methods.mars import MARSRegressor

    return scaled(MARSRegressor())


def cosso() -> Any:
    from salsa.baselines.methods.cosso import COSSORegressor

    return COSSORegressor(order=2, random_state=SEED)


def spam() -> Any:
    from salsa.baselines.methods.spam import SpAMRegressor

    return SpAMRegressor(random_state=SEED)


def additive_gp() -> Any:
    from salsa.baselines.methods.additive_gp import AdditiveGPRegressor

    return AdditiveGPRegressor(random_state=SEED)


def ridge() -> Any:
    return scaled(RidgeCV(alphas=np.logspace(-3, 4, 15), cv=five_folds()))


def lasso() -> Any:
    """Make a lasso with penalties down to 1e-4 of the largest: 1e-3 was too large for the paper's propulsion set."""
    return scaled(LassoCV(cv=five_folds(), eps=1e-4, max_iter=10_000))


def lar() -> Any:
    return scaled(LarsCV(cv=five_folds()))
