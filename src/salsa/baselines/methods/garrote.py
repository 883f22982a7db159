"""The non-negative lasso, min |target - G theta|^2 / 2 + penalty sum(theta) with theta >= 0, for all penalties at once.

The path of theta is piecewise linear in the penalty. As the penalty falls, the sum M of theta rises, and the theta of a
penalty is also the best theta >= 0 with sum(theta) <= M.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats

SMALLEST_PENALTY = 1e-4  # end of the path, relative to the largest penalty, at which theta is 0
MOST_CORNERS, RCOND = 2000, 1e-10


class GarrotePath(NamedTuple):
    """The path of weights theta >= 0 that minimise |target - G theta|^2 for every sum M of the weights."""

    penalties: Floats  # (k,), falling
    corners: Floats  # (k, p): theta at the corners of the path, which is linear between them

    @classmethod
    def of(cls, G: Floats, target: Floats) -> GarrotePath:
        """Follow the path: a component joins when G'(target - G theta) reaches the penalty, and leaves at theta 0."""
        theta, slope = np.zeros(G.shape[1]), G.T @ target
        penalty = float(slope.max(initial=0.0))
        end, active = SMALLEST_PENALTY * penalty, slope >= penalty
        penalties, corners = [penalty], [theta]
        while penalty > end and len(corners) < MOST_CORNERS:
            direction, fall = _along(G, active)
            step, j = _next_corner(theta, direction, penalty - slope, 1.0 - fall, active)
            active[j] ^= step < penalty - end
            step = min(step, penalty - end)
            theta = np.where(active, np.maximum(theta + step * direction, 0.0), 0.0)
            slope, penalty = slope - step * fall, penalty - step
            penalties.append(penalty)
            corners.append(theta)
        return cls(np.array(penalties), np.array(corners))

    def sums_at(self, share: Floats) -> Floats:
        """Return M at the points of the path where the penalty is this share of the largest penalty."""
        sums: Floats = np.interp(-share * self.penalties[0], -self.penalties, self.corners.sum(axis=1))
        return sums

    def weights(self, M: float) -> Floats:
        """Return theta (p,) with sum M, or the end of the path if its sum is less than M."""
        sums = self.corners.sum(axis=1)
        after = min(int(np.searchsorted(sums, M)), len(sums) - 1)
        before = max(after - 1, 0)
        step = sums[after] - sums[before]
        t = min((M - sums[before]) / step, 1.0) if step > 0 else 1.0
        theta: Floats = (1 - t) * self.corners[before] + t * self.corners[after]
        return theta


def _along(G: Floats, active: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the change of theta and the fall of G'(target - G theta) per unit of penalty; the fall is 1 if active."""
    direction, A = np.zeros(G.shape[1]), G[:, active]
    direction[active] = np.linalg.lstsq(A.T @ A, np.ones(A.shape[1]), rcond=RCOND)[0]
    return direction, G.T @ (G @ direction)


def _next_corner(
    theta: Floats, direction: Floats, below: Floats, closing: Floats, active: NDArray[np.bool_]
) -> tuple[float, int]:
    """Return how far the penalty falls until a component joins or leaves, and the number of the component."""
    steps = np.full(len(theta), np.inf)
    joins, leaves = ~active & (closing > RCOND), active & (direction < 0)
    steps[joins] = below[joins] / closing[joins]
    steps[leaves] = -theta[leaves] / direction[leaves]
    j = int(np.argmin(steps))
    return max(float(steps[j]), 0.0), j
