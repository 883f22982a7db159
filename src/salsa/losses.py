"""Losses: what is minimised on training rows, and what held-out rows are judged by."""

from __future__ import annotations

from typing import Protocol

from salsa._utils.arrays import Floats
from salsa._utils.weighted import target_variance


class Loss(Protocol):
    """The deviance of a prediction f(x) from a target y."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        """Return the mean deviance of the best constant (q,), and 1 for a constant target: errors are shares of it."""

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        """Return the deviance (n, q) of the predictions Y - residual.

        Residuals are what closed forms give; Y - (Y - residual) would lose digits where the fit is close.
        """


class SquaredError:
    """The loss (y - f)^2; its null deviance is the variance."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        return target_variance(Y, w)

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        squares: Floats = residual**2
        return squares
