"""Explanations of a fitted model: effects, variance shares, Shapley values, plots and an HTML report."""

from salsa.explain.anova import Anova, decompose
from salsa.explain.displays import (
    AnovaDisplay,
    CalibrationDisplay,
    EffectDisplay,
    ImportanceDisplay,
    InteractionsDisplay,
    PredictionDisplay,
    WaterfallDisplay,
)
from salsa.explain.effects import Axis, Effect
from salsa.explain.report.write import write_report
from salsa.explain.shapley import Shapley, shapley

__all__ = [
    "Anova",
    "AnovaDisplay",
    "Axis",
    "CalibrationDisplay",
    "Effect",
    "EffectDisplay",
    "ImportanceDisplay",
    "InteractionsDisplay",
    "PredictionDisplay",
    "Shapley",
    "WaterfallDisplay",
    "decompose",
    "shapley",
    "write_report",
]
