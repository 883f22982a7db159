"""Display of one effect: a curve, dots for a category, or a picture of two features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from salsa._utils.drawing import (
    BAND,
    DARK,
    FAINT,
    RUG_TICKS,
    Display,
    axes_or_new,
    draw_rug,
    label,
    name_ticks,
    percent,
)
from salsa.explain.displays.pairs import draw_heat_map, draw_lines, draw_surface
from salsa.explain.displays.scales import mark_values, name_missing, name_part, number_scale, set_apart
from salsa.explain.effects import FEW_VALUES, Effect
from salsa.kernels.marginals import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS: dict[str, Any] = {"fmt": "o", "color": DARK, "ms": 5, "capsize": 2.5, "elinewidth": 1.2}


@dataclass(frozen=True, eq=False)
class EffectDisplay(Display):
    """Display of the effect of one feature, or of the joint effect of two features beyond their main effects.

    A number is drawn as a curve with a band of two standard deviations on either side and a rug of the data. A
    category, or a number with few values, is drawn as dots. Two numbers give a surface, two categories a heat map,
    and a number with a category one line per level, with bands for up to three levels.
    """

    effect: Effect  #: the effect that is drawn

    def __post_init__(self) -> None:
        if len(self.effect.axes) > 2:
            names = ", ".join(self.effect.features)
            advice = "plot one or two features, or take the numbers from effect.frame()"
            raise ValueError(f"an effect of {len(self.effect.axes)} features ({names}) cannot be drawn: {advice}")

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the effect; the title gives its share of the variance."""
        with axes_or_new(ax, *self._size()) as ax:
            draw = {0: draw_curve, 1: draw_dots, 2: draw_surface, 3: draw_lines, 4: draw_heat_map}[self._kind]
            draw(ax, self.effect)
            names = " × ".join(map(label, self.effect.features))
            ax.set_title(f"{names}: {percent(self.effect.variance_share)} of the variance", fontsize="medium")
        return self._drawn(ax)

    @property
    def _kind(self) -> int:
        """Number of categories among the features, plus 2 if there are two features: the kind of picture."""
        categories = sum(axis.labels is not None for axis in self.effect.axes)
        return categories + (2 if len(self.effect.axes) == 2 else 0)

    def _size(self) -> tuple[float, float]:
        """Return width and height in inches, which grow with the number of levels of categories."""
        levels = [len(axis.points) for axis in self.effect.axes if axis.labels is not None]
        if self._kind == 1:
            return 5.0, 1.2 + 0.25 * levels[0]
        if self._kind == 4:
            return 3.0 + 0.45 * levels[1], max(3.0, 1.8 + 0.3 * levels[0])
        return 5.0 + 0.8 * (self._kind > 1), 3.4


def draw_curve(ax: Axes, effect: Effect) -> None:
    """Draw the effect of one number as a curve with its band, or as dots with error bars if it has few values."""
    axis, sd = effect.axes[0], np.zeros_like(effect.values) if effect.sd is None else effect.sd
    scale = number_scale(axis)
    x, y, width = scale.at, effect.values[scale.observed], BAND * sd[scale.observed]
    ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
    few = len(x) <= FEW_VALUES
    if few:
        ax.plot(x, y, color=DARK, lw=0.8)
        ax.errorbar(x, y, width, **DOTS)
    else:
        ax.fill_between(x, y - width, y + width, color=DARK, alpha=0.2, lw=0)
        ax.plot(x, y, color=DARK, lw=1.8)
    if scale.missing is not None:
        ax.errorbar(scale.beyond, effect.values[scale.missing], BAND * sd[scale.missing], **DOTS)
        name_missing(ax, "x", scale, effect.values[scale.missing])
        set_apart(ax, "x", scale)
    if few and axis.part is None:
        mark_values(ax, scale)
    name_part(ax, "x", axis)
    draw_rug(ax, "x", *thinned(axis.rug, RUG_TICKS))
    ax.set(xlabel=label(axis.title), ylabel=_with_band(effect))
    ax.spines[["top", "right"]].set_visible(False)


def _with_band(effect: Effect) -> str:
    """Return the name of the values of an effect on an axis, with the scale of the function."""
    return effect.name if effect.sd is None else f"{effect.name} ± {BAND:.0f} sd"


def draw_dots(ax: Axes, effect: Effect) -> None:
    """Draw the effect of one category as a dot for every level, from top to bottom."""
    axis = effect.axes[0]
    names = [label(level) for level in axis.labels or ()]
    rows = np.arange(len(names))
    ax.axvline(0.0, color=FAINT, lw=0.8, zorder=0)
    ax.errorbar(effect.values, rows, xerr=None if effect.sd is None else BAND * effect.sd, **DOTS)
    name_ticks(ax, "y", names)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlabel=_with_band(effect))
    ax.set_ylabel(label(axis.name))
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
