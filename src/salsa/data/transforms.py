"""Transforms of a target: the model is learned on z = g(y), and predictions, intervals and errors are shown as y.

The conditional mean of y is not g^-1 of the mean of z. It is estimated by smearing (Duan, 1983): the mean of
g^-1(f(x) + r) over held-out residuals r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats

SKEWED, FEWEST = 1.5, 50  # skewness from which a logarithm is tried, with at least so many rows
SMEARED = 512  # the most residuals that a mean is taken over: evenly spaced quantiles of more
BLOCK = 2**20  # numbers that are computed at a time


class Rule(NamedTuple):
    """A transform g with its inverse, the derivative of the inverse, and the targets that it takes."""

    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    least: float  # targets are at least this, or above it
    attained: bool  # whether the least target is allowed


def _square(z: Floats) -> Floats:
    return np.maximum(z, 0.0) ** 2


def _square_slope(z: Floats) -> Floats:
    return 2.0 * np.maximum(z, 0.0)


TRANSFORMS = {
    "log": Rule(np.log, np.exp, np.exp, 0.0, False),
    "log1p": Rule(np.log1p, np.expm1, np.exp, -1.0, False),
    "sqrt": Rule(np.sqrt, _square, _square_slope, 0.0, True),
}


def transformed(name: str | None, Y: Floats) -> Floats:
    """Return g(Y); ValueError with a value outside the domain, its place and a way out."""
    if name is None:
        return Y
    rule = TRANSFORMS[name]
    outside = ~(rule.least <= Y) if rule.attained else ~(rule.least < Y)
    if outside.any():
        row = int(np.flatnonzero(outside.any(axis=1))[0])
        value, limit = Y[row][outside[row]][0], f"{'at least' if rule.attained else 'above'} {rule.least:g}"
        advice = "choose another transform, shift the target, or leave such rows out"
        raise ValueError(f"target_transform={name!r} needs targets {limit}; row {row} has {value:g}: {advice}")
    with np.errstate(all="raise"):
        return rule.forward(Y)


def skewed_outputs(Y: Floats) -> dict[int, float]:
    """Return the skewness of every output of Y (n, q) that is positive and skewed, and much less so as a logarithm."""
    from scipy.stats import skew  # here, because a loaded model predicts without SciPy

    positive = {j: y for j, y in enumerate(Y.T) if len(y) >= FEWEST and 0 < y.min() < y.max()}
    pairs = {j: (float(skew(y)), float(skew(np.log(y)))) for j, y in positive.items()}
    return {j: raw for j, (raw, log) in pairs.items() if raw > SKEWED and abs(log) < 0.5 * raw}


@dataclass(frozen=True, eq=False)
class TargetTransform:
    """The way back from the scale of learning to the target's own, with the residuals (k, q) for smearing."""

    name: str
    residual: Floats

    def inverse(self, z: Floats) -> Floats:
        """Return g^-1(z): quantiles, such as the ends of intervals, go back as they are."""
        with np.errstate(over="ignore"):
            return TRANSFORMS[self.name].inverse(z)

    def mean(self, f: Floats) -> Floats:
        """Return the conditional mean (m, q) of the target where the model's prediction is f (m, q)."""
        return self._smeared(TRANSFORMS[self.name].inverse, f)

    def sd(self, f: Floats, sd: Floats) -> Floats:
        """Return the standard deviation (m, q) of the mean, by its slope where the prediction is f."""
        return self._smeared(TRANSFORMS[self.name].slope, f) * sd

    def _smeared(self, function: Callable[[Floats], Floats], f: Floats) -> Floats:
        out = np.empty_like(f)
        step = max(1, BLOCK // len(self.residual))
        with np.errstate(over="ignore"):
            for start in range(0, len(f), step):
                rows = slice(start, start + step)
                for j, residual in enumerate(self.residual.T):
                    out[rows, j] = function(f[rows, j, None] + residual).mean(axis=1)
        return out


def smearing(name: str | None, residual: Floats | None) -> TargetTransform | None:
    """Return the way back, from held-out residuals (n, q) on the scale of learning; None without a transform."""
    if name is None:
        return None
    assert residual is not None  # every solver holds rows out
    residual = residual[np.isfinite(residual).all(axis=1)]
    if len(residual) == 0:
        residual = np.zeros((1, residual.shape[1]))
    if len(residual) > SMEARED:
        residual = np.quantile(residual, (np.arange(SMEARED) + 0.5) / SMEARED, axis=0)
    return TargetTransform(name, residual)
