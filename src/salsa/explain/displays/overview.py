"""Display of a decomposition: the importance of features and the strongest effects, on one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from salsa._utils.drawing import Display, new_axes
from salsa._utils.threads import parse_threads
from salsa.explain.displays.effect import EffectDisplay
from salsa.explain.displays.variance import ImportanceDisplay
from salsa.fitted import fitted_of
from salsa.uncertainty import Unavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.anova import Anova

WIDTH, HEIGHT = 5.5, 3.8  # inches of a picture: four fit on A4 or letter paper across


@dataclass(frozen=True, eq=False)
class AnovaDisplay(Display):
    """Display of the variance shares of features and of the strongest effects; `axes_` are the axes of all pictures."""

    importance: ImportanceDisplay  #: the first picture
    effects: tuple[EffectDisplay, ...]  #: the other pictures

    @classmethod
    def from_anova(cls, anova: Anova, effects: int = 3) -> AnovaDisplay:
        """Take the importance of all features, and so many effects of one or two features of largest variance share.

        Effects have bands unless the model has no posterior, or memory is too small for it.
        """
        band = _has_bands(anova.model)
        strongest = (anova.effect(*S, band=band) for S in anova.strongest(effects))
        return cls(ImportanceDisplay.from_anova(anova), tuple(map(EffectDisplay, strongest)))

    def plot(self, axes: Any = None, most: int = 12) -> Self:
        """Draw the importance of the `most` features of largest share, then the effects, on axes (one for each).

        axes=None draws on a new figure.
        """
        count = 1 + len(self.effects)
        if axes is not None:
            return self._draw(self._checked(axes, count), most)
        columns = min(count, 2)
        rows = -(-count // columns)
        with new_axes(count, rows, columns * [WIDTH], rows * HEIGHT) as new:
            return self._draw(new, most)

    def _draw(self, axes: Sequence[Axes], most: int) -> Self:
        self.importance.plot(axes[0], most)
        for ax, effect in zip(axes[1:], self.effects, strict=True):
            effect.plot(ax)
        return self._drawn(axes[0], axes_=np.array(axes, dtype=object))

    def _checked(self, axes: Any, count: int) -> list[Axes]:
        given = list(np.asarray(axes, dtype=object).ravel())
        if len(given) != count:
            raise ValueError(f"axes: {count} are needed, one for each picture, and {len(given)} were given")
        return given


def _has_bands(model: Any) -> bool:
    uncertainty = fitted_of(model).uncertainty
    if isinstance(uncertainty, Unavailable):
        return False
    try:
        uncertainty.prepare(model.memory_limit, parse_threads(model.n_jobs))
    except MemoryError:
        return False
    return True
