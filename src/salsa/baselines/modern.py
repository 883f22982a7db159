"""Methods that one would try today, and this package's own models: each function makes an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from salsa.baselines.tuning import SEED, centred, named, scaled


def gp_ard() -> Any:
    from salsa.baselines.methods.additive_gp import AdditiveGPRegressor

    return AdditiveGPRegressor("all", random_state=SEED)


def random_forest() -> Any:
    return RandomForestRegressor(300, n_jobs=1, random_state=SEED)


def hist_gbrt() -> Any:
    return HistGradientBoostingRegressor(learning_rate=0.05, early_stopping=False, random_state=SEED)


def lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(learning_rate=0.05, n_jobs=1, verbosity=-1, random_state=SEED)


def xgboost() -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(learning_rate=0.05, n_jobs=1, verbosity=0, random_state=SEED)


def catboost() -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(thread_count=1, verbose=False, allow_writing_files=False, random_seed=SEED)


def ebm() -> Any:
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(n_jobs=1, random_state=SEED)


def gpgam() -> Any:
    from imodels import GPGamRegressor

    return GPGamRegressor()


def xrfm() -> Any:
    import xrfm  # noqa: F401 - a missing package is reported here, not when the model is fitted

    from salsa.baselines.methods.rfm import XRFMRegressor

    return centred(scaled(XRFMRegressor(random_state=SEED)))


def cubist() -> Any:
    from cubist import Cubist

    return named(Cubist(random_state=SEED))


def salsa() -> Any:
    from salsa.regressor import SalsaRegressor

    return SalsaRegressor(n_jobs=1, random_state=SEED)


def salsa_paper() -> Any:
    from salsa.regressor import SalsaRegressor

    return SalsaRegressor(
        relevance="equal",
        interactions="exact",
        kernel="gaussian",
        bandwidth="rule_of_thumb",
        n_jobs=1,
        random_state=SEED,
    )
