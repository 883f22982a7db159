"""Display of one prediction as steps from the mean prediction, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.drawing import (
    DARK,
    LIGHT,
    LINE,
    TEXT,
    Display,
    axes_or_new,
    label,
    name_ticks,
    number,
    others_name,
    signed,
    strongest,
    write_beside,
)
from salsa.explain.effects import MISSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.shapley import Shapley

LONGEST_VALUE = 18


@dataclass(frozen=True, eq=False)
class WaterfallDisplay(Display):
    """Display of the Shapley values of one prediction: what each feature adds to the mean prediction."""

    features: tuple[str, ...]  #: D names
    values: tuple[str | float, ...]  #: values of the features: label, number or NaN
    contributions: Floats  #: (D,) Shapley values
    base_value: float  #: the mean prediction
    target: str = "prediction"  #: the name of the sum of all values

    @classmethod
    def from_shapley(cls, shapley: Shapley, row: int = 0, output: Any = 0) -> WaterfallDisplay:
        """Take one of the explained rows and one output, by its number or the label of its class."""
        n, place = len(shapley.rows), shapley.subject.output_number(output)
        if not -n <= row < n:
            raise ValueError(f"row={row}: {n} rows were explained, numbered from 0")
        subject, encoded = shapley.subject, shapley.rows[[row]]
        values = tuple(subject.shown(j, x)[0] for j, x in enumerate(encoded.T))
        base = float(shapley.subject.base_value[place])
        return cls(subject.columns.names, values, shapley.all_values[row, :, place], base, shapley.subject.target)

    @property
    def prediction(self) -> float:
        """The prediction: the base value plus all contributions."""
        return self.base_value + float(self.contributions.sum())

    def steps(self, most: int) -> tuple[list[str], Floats]:
        """Return names and sizes of the `most` largest contributions, then the sum of all further nonzero ones."""
        shown = strongest(self.contributions, most)
        others = np.setdiff1d(np.flatnonzero(self.contributions), shown)
        names, sizes = [self._name(j) for j in shown], self.contributions[shown]
        if not len(others):
            return names, sizes
        return [*names, others_name(len(others))], np.append(sizes, self.contributions[others].sum())

    def plot(self, ax: Axes | None = None, most: int = 10) -> Self:
        """Draw arrows from the mean prediction at the top to this prediction at the bottom, the largest first."""
        names, sizes = self.steps(most)
        rows = len(names) + 2
        with axes_or_new(ax, 6.0, 0.8 + 0.32 * rows) as ax:
            levels = self.base_value + np.r_[0.0, np.cumsum(sizes)]  # the end of every row
            ax.vlines(levels, np.arange(rows - 1), np.arange(1, rows), color=LINE, lw=0.7)
            ax.plot([self.base_value, self.prediction], [0, rows - 1], "D", color=TEXT, ms=6)
            self._draw_arrows(ax, levels)
            texts = [number(self.base_value), *map(signed, sizes), number(self.prediction)]
            ends = [self.base_value, *np.maximum(levels[:-1], levels[1:]), self.prediction]
            write_beside(ax, texts, ends, size=name_ticks(ax, "y", ["mean prediction", *names, "this prediction"]))
            ax.set(ylim=(rows - 0.4, -0.6), xlabel=self.target)
            ax.margins(x=0.1)
            ax.spines[["top", "right", "left"]].set_visible(False)
        return self._drawn(ax)

    def _draw_arrows(self, ax: Axes, levels: Floats) -> None:
        """Draw dark arrows to the right for positive and light arrows to the left for negative contributions."""
        from matplotlib.patches import Polygon

        tip = 0.02 * np.ptp(levels)
        for row, (start, end) in enumerate(pairwise(levels), start=1):
            neck = end - np.sign(end - start) * min(tip, abs(end - start))
            corners = [(start, -0.32), (neck, -0.32), (end, 0.0), (neck, 0.32), (start, 0.32)]
            color = DARK if end >= start else LIGHT
            ax.add_patch(Polygon([(x, row + y) for x, y in corners], facecolor=color, edgecolor=TEXT, lw=0.5))

    def _name(self, j: int) -> str:
        value = self.values[j]
        text = value if isinstance(value, str) else MISSING if np.isnan(value) else number(value)
        return f"{label(self.features[j])} = {label(text, LONGEST_VALUE)}"
