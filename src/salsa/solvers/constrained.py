"""Penalised losses under constraints on slopes, by a sequence of quadratic programs.

A function f = phi'theta + b of features phi minimises, with slopes of the right signs,

    J(theta, b) = sum_i w_i l(y_i, f_i) + alpha / 2 |theta|^2 + hold / 2 (b - centre)^2.

1. Newton's quadratic model of J at the current function has the curvature H = C + alpha I in theta: C are the centred
   second moments of phi, with the weights w h for curvatures h of the loss. The best b for every theta is inserted.
2. The least value of the model without constraints is one solve. ``cutting_planes`` corrects it: that is the step.
3. The step is halved until J lies below the model with 1.8 times its curvature. A start with slopes of the wrong sign
   has a lower J than any monotone function, so J alone could not judge a step.
4. The fit ends when half of the squared length of a whole step, step'H step / 2, is below the tolerance. This bounds by
   how much the model would lower J.

H is computed again only after a step that is not much shorter than the step before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from salsa._utils.arrays import Floats
from salsa._utils.linalg import positive_factor
from salsa._utils.sums import Sums
from salsa.losses import Likelihood
from salsa.solvers.cutting_planes import Correction, FreeFit

MOST_STEPS, MOST_HALVINGS = 50, 30
SHORTER = 0.1  # ratio of the squared lengths of two steps up to which they share a curvature
CURVED = 0.9  # J may lie above the slope of a step by this share of its squared length: 0.5 is the model itself
ROUNDING = 1e-12  # share of J by which rounding errors may exceed this


class Function(NamedTuple):
    """Parameters theta (r,) and offset of a function, and its values f (n,) at the rows."""

    theta: Floats
    offset: float
    f: Floats

    def along(self, step: Function, size: float) -> Function:
        """Return the function plus `size` times the step."""
        theta, offset, f = step
        return Function(self.theta + size * theta, self.offset + size * offset, self.f + size * f)


class Curvature(NamedTuple):
    """The curvature H = L L' (r, r) of a model, the weighted mean (r,) of phi, and the sum of all working weights."""

    L: Floats
    mean: Floats
    weight: float

    def solve(self, V: Floats) -> Floats:
        """Return H^-1 V for V (r, k)."""
        solved: Floats = cho_solve((self.L, True), V, check_finite=False)
        return solved

    def squared_length(self, step: Function) -> float:
        """Return the quadratic form of a step, which is twice what the curvature adds to the model."""
        along, level = self.L.T @ step.theta, step.offset + self.mean @ step.theta
        return float(along @ along + self.weight * level**2)


class Minimum(NamedTuple):
    """The function of least J with slopes of the right signs, its correction, and whether the steps converged."""

    function: Function
    correction: Correction
    converged: bool


@dataclass(frozen=True, eq=False)
class PenalisedLoss:
    """The penalised loss J of functions of features F (n, r), for one target Y (n, 1) with weights w (n,)."""

    loss: Likelihood
    F: Floats
    Y: Floats
    w: Floats
    alpha: float
    hold: float  # weight of an observation that holds the offset near the centre
    centre: float

    def function(self, theta: Floats, offset: float) -> Function:
        return Function(theta, offset, self.F @ theta + offset)

    def value(self, at: Function) -> float:
        held = self.hold * (at.offset - self.centre) ** 2
        loss = self.w @ self.loss.value(self.Y, at.f[:, None])
        return float(loss + 0.5 * self.alpha * at.theta @ at.theta + 0.5 * held)

    def slope(self, at: Function) -> tuple[Floats, float]:
        """Return the derivatives of J by theta (r,) and by the offset."""
        slope = self.w * self.loss.slope(self.Y, at.f[:, None])[:, 0]
        by_offset = float(slope.sum()) + self.hold * (at.offset - self.centre)
        return self.F.T @ slope + self.alpha * at.theta, by_offset

    def newton(self, at: Function, H: Curvature) -> Floats:
        """Return theta (r,) of the least value of the model at a function, without constraints."""
        slope, by_offset = self.slope(at)
        return at.theta - H.solve(slope - by_offset * H.mean)

    def span(self, at: Function) -> Floats:
        """Return the span (1,) over the rows of the least function of the model at a function, without constraints."""
        span: Floats = np.ptp(self.F @ self.newton(at, self.curvature(at))[:, None], axis=0)
        return span

    def curvature(self, at: Function) -> Curvature:
        """Return the curvature of Newton's model."""
        h = self.w * self.loss.curvature(self.Y, at.f[:, None])
        rows = Sums.of(self.F, np.zeros((len(h), 1)), h)
        weight = rows.weight + self.hold
        H = (rows.xx - np.outer(rows.x, rows.x / weight)).T
        H.flat[:: len(H) + 1] += self.alpha
        return Curvature(positive_factor(H), rows.x / weight, weight)


def minimise(
    J: PenalisedLoss, L: Floats, correct: Callable[[FreeFit], Correction], start: Function, tolerance: float
) -> Minimum:
    """Minimise J with the slopes that `correct` asks for; coefficients of anchors are L^-T theta.

    The result is always a corrected function, so that its signs are as `correct` has proven them. The tolerance is of
    the mean loss.
    """
    at, length, H = start, np.inf, J.curvature(start)
    for _ in range(MOST_STEPS):
        slope, by_offset = J.slope(at)
        newton = J.newton(at, H)
        coef = solve_triangular(L, newton[:, None], lower=True, trans=1, check_finite=False)
        correction = correct(FreeFit(coef, H.solve))
        theta = newton + correction.d[:, 0] - at.theta
        offset = -by_offset / H.weight - float(H.mean @ theta)
        step = Function(theta, offset, J.F @ theta + offset)
        before, length = length, H.squared_length(step)
        whole = at.along(step, 1.0)
        size = _step_size(J, at, step, float(slope @ theta) + by_offset * offset, length)
        if length <= 2.0 * tolerance * J.w.sum():
            return Minimum(whole, correction, True)
        at = at.along(step, size)
        if size < 1.0 or length > SHORTER * before:
            H = J.curvature(at)
    return Minimum(whole, correction, False)


def _step_size(J: PenalisedLoss, at: Function, step: Function, slope: float, squared_length: float) -> float:
    """Return the largest of 1, 1/2, 1/4, ... at which J is at most the model with more curvature."""
    value, size = J.value(at), 1.0
    for _ in range(MOST_HALVINGS):
        limit = value + size * slope + CURVED * size**2 * squared_length + ROUNDING * abs(value)
        if J.value(at.along(step, size)) <= limit:
            break
        size *= 0.5
    return size
