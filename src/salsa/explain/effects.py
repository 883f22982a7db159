"""The effect of one or more features on a grid of their values, with its posterior standard deviation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from salsa._utils.arrays import Floats
from salsa._utils.cached import cached_property
from salsa.data.date_parts import DAY, DURATION, TREND, YEAR, Part, as_dates
from salsa.explain.part_ticks import Ticks, part_ticks
from salsa.kernels.marginals import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.displays import EffectDisplay


MISSING = "missing"
#: A numeric feature with at most this many distinct values is shown at exactly these values
FEW_VALUES = 12


@dataclass(frozen=True, eq=False, repr=False)
class Axis:
    """Values of one feature at which an effect is shown; NaN stands for a missing value."""

    name: str  #: name of the feature
    points: Floats  #: (P,): numbers, the codes of a category, days since 1970, or places on a circle from 0 to 1
    labels: tuple[str, ...] | None  #: (P,) labels of the codes of a category, or days of the week; None for a number
    rug: Distribution  #: distribution of the feature in the background
    part: Part | None = None  #: the part of a date that the feature is, or the duration
    unit: str = ""  #: the unit that a file had behind the numbers, or a currency

    def __repr__(self) -> str:
        return f"Axis {self.name} of {len(self.points)} points"

    @property
    def values(self) -> list[Any]:
        """Points as labels for a category, dates in UTC for a trend, days since 1 January, hours, or other floats."""
        if self.part is not None and self.part.name == TREND:
            return list(as_dates(self.points))
        scale = 1.0 if self.part is None else {YEAR: 365.0, DAY: 24.0}.get(self.part.name, 1.0)
        return (scale * self.points).tolist() if self.labels is None else list(self.labels)

    @property
    def names(self) -> list[str] | None:
        """Points of a part of a date as people write them; None for other features."""
        if self.part is None or self.part.name == DURATION:
            return None
        return [MISSING if np.isnan(point) else self.part.written(point) for point in self.points]

    @property
    def title(self) -> str:
        """The name of the feature, with the unit of a duration or of the numbers in a file."""
        unit = self.part.detail if self.part is not None and self.part.name == DURATION else self.unit
        return f"{self.name} ({unit})" if unit and self.labels is None else self.name

    @property
    def ticks(self) -> Ticks | None:
        """Round values of a part of a date, with their names; None for other features."""
        seen = self.points[~np.isnan(self.points)]
        return part_ticks(self.part, float(seen.min()), float(seen.max())) if len(seen) else None


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """f_S on a grid of its features' values: the joint effect of the features S beyond the effects of fewer of them."""

    axes: tuple[Axis, ...]  #: one for every feature
    values: Floats  #: (len(axis 1), len(axis 2), ...)
    sd: Floats | None  #: posterior standard deviation, shaped like values; None if not requested
    compute_share: Callable[[], float]  #: returns ``variance_share``
    name: str = "effect"  #: what the values are: "effect", or "effect on log of the target"

    def __repr__(self) -> str:
        shape = " x ".join(str(len(axis.points)) for axis in self.axes)
        return f"Effect of {term(*self.features)} on {shape} points: {self.variance_share:.2%} of the variance"

    @cached_property
    def variance_share(self) -> float:
        """Share of the variance of the whole function, computed on first use: it needs the variances of all effects."""
        return self.compute_share()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of the effect."""
        return tuple(axis.name for axis in self.axes)

    def frame(self) -> pd.DataFrame:
        """Return one row per grid point: the values of the features, `effect`, and `sd` unless sd is None."""
        rows = pd.DataFrame(list(product(*(axis.values for axis in self.axes))), columns=list(self.features))
        for name, values in (("effect", self.values), ("sd", self.sd)):
            if values is not None:
                rows.insert(rows.shape[1], name, values.ravel(), allow_duplicates=True)  # a feature may have this name
        return rows

    def plot(self, ax: Axes | None = None) -> EffectDisplay:
        """Draw a curve with its band and a rug of the data, dots for a category, or a picture of two features."""
        from salsa.explain.displays import EffectDisplay

        return EffectDisplay(self).plot(ax)


def term(*names: str) -> str:
    """Return the name of an effect: the names of its features, joined by ×."""
    return " × ".join(names)


def grid(rug: Distribution, size: int, levels: int | None, part: Part | None = None) -> Floats:
    """Return the values at which to show an effect: `size` numbers over the background's range, or all values if few.

    levels is None for a number; for a category it is how many of the most frequent levels to show. Parts of dates that
    repeat go once around their circle. If the background has missing values, the last point is NaN.
    """
    is_missing = np.isnan(rug.points)
    points, weights = rug.points[~is_missing], rug.weights[~is_missing]
    if levels is not None:
        points = np.sort(points[np.argsort(-weights, kind="stable")[:levels]])
    elif len(points) > FEW_VALUES:
        around = part is not None and part.is_cyclic
        points = np.linspace(0.0, 1.0, size) if around else np.linspace(points[0], points[-1], size)
    return np.append(points, rug.points[is_missing])
