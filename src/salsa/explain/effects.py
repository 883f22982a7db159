"""One effect of one, two or more features on a grid of their values, with its band."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from salsa._utils.arrays import Floats
from salsa.kernels.marginals import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Numbers with at most so many values are shown at these
FEW_VALUES = 12


@dataclass(frozen=True, eq=False, repr=False)
class Axis:
    """The values of one feature at which an effect is shown; the last is NaN where values are missing."""

    name: str
    points: Floats  #: (P,), of a category the codes
    labels: tuple[str, ...] | None  #: what the codes of a category stand for; None: numbers
    rug: Distribution  #: of the feature in the background

    def __repr__(self) -> str:
        return f"Axis {self.name} of {len(self.points)} points"

    @property
    def values(self) -> list[Any]:
        """Labels, or numbers."""
        return self.points.tolist() if self.labels is None else list(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """f_S on the grid of its features' values: what they do together beyond what fewer of them do; its mean is zero."""

    axes: tuple[Axis, ...]  #: one for every feature
    values: Floats  #: (len(axis 1), len(axis 2), ...)
    sd: Floats | None  #: posterior standard deviation, of the same shape; None: not asked for
    variance_share: float  #: of the whole function's

    def __repr__(self) -> str:
        shape = " x ".join(str(len(axis.points)) for axis in self.axes)
        return f"Effect of {term(*self.features)} on {shape} points: {self.variance_share:.2%} of the variance"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(axis.name for axis in self.axes)

    def frame(self) -> pd.DataFrame:
        """One row per point of the grid: the features' values, `effect` and `sd`."""
        rows = pd.DataFrame(list(product(*(axis.values for axis in self.axes))), columns=list(self.features))
        for name, values in (("effect", self.values), ("sd", self.sd)):
            if values is not None:
                rows.insert(rows.shape[1], name, values.ravel(), allow_duplicates=True)  # a feature may be called so
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """A curve with its band and the data's rug, dots for categories, or a surface for two features."""
        from salsa.explain.displays import EffectDisplay

        return EffectDisplay(self).plot(ax)


def term(*names: str) -> str:
    """What an effect is called."""
    return " × ".join(names)


def grid(rug: Distribution, size: int, levels: int | None) -> Floats:
    """Values at which to show an effect: numbers over the range of the background, or all of them if few.

    levels: None for numbers; of a category, how many of its most frequent levels are wanted. Where values are missing
    in the background, a missing one comes last.
    """
    is_missing = np.isnan(rug.points)
    points, weights = rug.points[~is_missing], rug.weights[~is_missing]
    if levels is not None:
        points = np.sort(points[np.argsort(-weights, kind="stable")[:levels]])
    elif len(points) > FEW_VALUES:
        points = np.linspace(points[0], points[-1], size)
    return np.append(points, rug.points[is_missing])
