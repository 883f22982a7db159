"""One-dimensional DIRECT as the authors' program runs it: the published digits need the same sequence of evaluations.

An interval has a centre, a level l (the number of its divisions) and a size Z = 3^-l / 2 (1 at level 0).
``scipy.optimize.direct`` divides in another order within a round, which moves two of the twelve published results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_EVALUATIONS = 30  # checked before a division, which adds two evaluations
TIE = 1e-13
EPSILON = 1e-4


@dataclass
class _Interval:
    centre: float
    value: float
    level: int = 0

    @property
    def size(self) -> float:
        return 1.0 if self.level == 0 else 3.0**-self.level / 2


def direct_minimum(f: Callable[[float], float]) -> tuple[float, float]:
    """Return the position and the value of the best of 31 evaluations of f on [0, 1]."""
    intervals = [_Interval(0.5, f(0.5))]
    while len(intervals) < MAX_EVALUATIONS:
        least = min(interval.value for interval in intervals)
        for chosen in _potentially_optimal(intervals, least):
            if len(intervals) >= MAX_EVALUATIONS:
                break
            intervals += _divide(chosen, f)
    best = min(intervals, key=lambda interval: interval.value)
    return best.centre, best.value


def _potentially_optimal(intervals: list[_Interval], least: float) -> list[_Interval]:
    """Return the lowest intervals of every size that may hold the minimum for some Lipschitz bound, largest first."""
    candidates: list[_Interval] = []
    for level in sorted({interval.level for interval in intervals}):
        same = [interval for interval in intervals if interval.level == level]
        lowest = min(interval.value for interval in same)
        candidates += [interval for interval in same if interval.value <= lowest + TIE]
    return [interval for interval in candidates if _may_hold_minimum(interval, candidates, least)]


def _may_hold_minimum(i: _Interval, candidates: list[_Interval], least: float) -> bool:
    huge = 1e300
    upper = min([(j.value - i.value) / (j.size - i.size) for j in candidates if j.size > i.size], default=huge)
    lower = max([(i.value - j.value) / (i.size - j.size) for j in candidates if j.size < i.size], default=-huge)
    gain = (least - i.value + i.size * upper) / abs(least) if least else huge
    return lower <= upper and gain >= EPSILON


def _divide(interval: _Interval, f: Callable[[float], float]) -> list[_Interval]:
    interval.level += 1
    step = 3.0**-interval.level
    centres = (interval.centre - step, interval.centre + step)
    return [_Interval(centre, f(centre), interval.level) for centre in centres]
