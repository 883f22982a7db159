"""One effect of one, two or more features on a grid of their values, with its band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from salsa.kernels import Distribution, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Axis:
    """The values of one feature at which an effect is shown; the last is NaN where values are missing."""

    name: str
    points: Floats  # (P,)
    labels: tuple[str, ...] | None  # what the codes of a category stand for; None: numbers
    rug: Distribution  # of the feature in the background

    @property
    def values(self) -> list[Any]:
        """Labels, or numbers."""
        return self.points.tolist() if self.labels is None else list(self.labels)


@dataclass(frozen=True, eq=False)
class Effect:
    """f_S on the grid of its features' values: what they do together beyond what fewer of them do; its mean is zero."""

    axes: tuple[Axis, ...]
    values: Floats  # (len(axis 1), len(axis 2), ...)
    sd: Floats | None  # posterior standard deviation, of the same shape; None: not asked for
    variance_share: float  # of the whole function's

    @property
    def features(self) -> tuple[str, ...]:
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


def make_axis(
    name: str, labels: Callable[[Floats], tuple[str, ...] | None], rug: Distribution, points: int | Sequence[float]
) -> Axis:
    """These points, or so many numbers over the range of the background: then all levels of a category instead.

    Where values are missing in the background, a missing one is the last point. labels(points) is what they stand for.
    """
    if isinstance(points, int):
        observed = rug.points[~np.isnan(rug.points)]
        is_number = len(observed) > 0 and labels(observed) is None
        grid = np.unique(np.linspace(observed[0], observed[-1], points)) if is_number else observed
        points = np.append(grid, rug.points[np.isnan(rug.points)]).tolist()
    values = np.array(points, dtype=np.float64)
    return Axis(name, values, labels(values), rug)
