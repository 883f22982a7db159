"""Rival methods (the paper's 21 alternatives and today's usual ones), and a leaderboard of them on your own data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salsa.baselines.additive_gp import AdditiveGPRegressor
    from salsa.baselines.backfitting import SplineBackfittingRegressor
    from salsa.baselines.cosso import COSSORegressor
    from salsa.baselines.leaderboard import Comparison, compare
    from salsa.baselines.localpoly import LocalPolynomialRegressor
    from salsa.baselines.m5 import M5Regressor
    from salsa.baselines.registry import BASELINES, make_baseline
    from salsa.baselines.shepard import ShepardRegressor
    from salsa.baselines.spam import SpAMRegressor

__all__ = [
    "BASELINES",
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
    "AdditiveGPRegressor": "additive_gp",
    "BASELINES": "registry",
    "COSSORegressor": "cosso",
    "Comparison": "leaderboard",
    "LocalPolynomialRegressor": "localpoly",
    "M5Regressor": "m5",
    "ShepardRegressor": "shepard",
    "SpAMRegressor": "spam",
    "SplineBackfittingRegressor": "backfitting",
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
