"""Displays of a fitted model: each holds numbers and draws them by ``plot(ax=None)``, which imports matplotlib."""

from salsa.explain.displays.effect import EffectDisplay
from salsa.explain.displays.overview import AnovaDisplay
from salsa.explain.displays.predictions import CalibrationDisplay, PredictionDisplay
from salsa.explain.displays.variance import ImportanceDisplay, InteractionsDisplay
from salsa.explain.displays.waterfall import WaterfallDisplay

__all__ = [
    "AnovaDisplay",
    "CalibrationDisplay",
    "EffectDisplay",
    "ImportanceDisplay",
    "InteractionsDisplay",
    "PredictionDisplay",
    "WaterfallDisplay",
]
