"""Rival methods (the paper's 21 alternatives and today's usual ones), and a leaderboard of them on your own data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salsa.baselines.leaderboard import Comparison, compare
    from salsa.baselines.methods.additive_gp import AdditiveGPRegressor
    from salsa.baselines.methods.backfitting import SplineBackfittingRegressor
    from salsa.baselines.methods.cosso import COSSORegressor
    from salsa.baselines.methods.localpoly import LocalPolynomialRegressor
    from salsa.baselines.methods.m5 import M5Regressor
    from salsa.baselines.methods.shepard import ShepardRegressor
    from salsa.baselines.methods.spam import SpAMRegressor
    from salsa.baselines.registry import BASELINES, CLASSIFIERS, make_baseline

__all__ = [
    "BASELINES",
    "CLASSIFIERS",
    "AdditiveGPRegressor",
    "COSSORegressor",
    "Comparison",
    "LocalPolynomialRegressor",
    "M5Regressor",
    "ShepardRegressor",
    "SpAMRegressor",
    "SplineBackfittingRegressor",
    "compare",
    "make_baseline",
]

_HOMES = {
    "AdditiveGPRegressor": "methods.additive_gp",
    "BASELINES": "registry",
    "CLASSIFIERS": "registry",
    "COSSORegressor": "methods.cosso",
    "Comparison": "leaderboard",
    "LocalPolynomialRegressor": "methods.localpoly",
    "M5Regressor": "methods.m5",
    "ShepardRegressor": "methods.shepard",
    "SpAMRegressor": "methods.spam",
    "SplineBackfittingRegressor": "methods.backfitting",
    "compare": "leaderboard",
    "make_baseline": "registry",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because most names import large parts of scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module 'salsa.baselines' has no attribute {name!r}")
    return getattr(import_module(f"salsa.baselines.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
