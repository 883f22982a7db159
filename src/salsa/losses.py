"""Losses, which are minimised on training rows and judge held-out rows."""

from __future__ import annotations

from typing import Protocol

from salsa._utils.arrays import Floats
from salsa._utils.weighted import target_variance


class Loss(Protocol):
    """The deviance of a prediction f(x) from a target y."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        """Return the mean deviance (q,) of the best constant, the unit of errors; 1 for a constant target."""

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        """Return the deviance (n, q) of the predictions Y - residual.

        Closed forms give residuals; computing them again from predictions would lose digits where the fit is close.
        """


class SquaredError:
    """The loss (y - f)^2; its null deviance is the variance."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        return target_variance(Y, w)

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        squares: Floats = residual**2
        return squares
