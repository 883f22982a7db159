"""Drawing of the joint effect of two features: a surface, a line for every level, or a heat map."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.drawing import (
    BAND,
    FAINT,
    RUG_TICKS,
    SIDES,
    TEXT,
    diverging,
    draw_rug,
    label,
    name_ticks,
    number,
    write_in_cells,
)
from salsa.explain.displays.scales import Scale, name_missing, name_part, number_scale, set_apart
from salsa.explain.effects import Effect
from salsa.kernels.marginals import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D

#: Of two lines with equal dashes one is dark and one light
LINE_COLORS = ("#000000", "#0072b2", "#b34700", "#00543c", "#f5b26b", "#8ccbef", "#ecd000", "#e8a3c8")
LINE_STYLES = ("-", "--", ":", "-.") * 2
LINE_MARKERS = "osD^vP*X"
MOST_LINES, MOST_BANDS = len(LINE_COLORS), 3
BESIDE: dict[str, Any] = {
    "frameon": False,
    "loc": "upper left",
    "bbox_to_anchor": (1.0, 1.0),
    "fontsize": "small",
    "title_fontsize": "small",
}


def draw_surface(ax: Axes, effect: Effect) -> None:
    """Draw two numbers as contours, dashed below zero and dotted where unsure, with strips for missing values."""
    x, y = (number_scale(axis) for axis in effect.axes)
    levels, norm = _levels(effect.values)
    for (rows, x_edges), (columns, y_edges) in product(x.parts, y.parts):
        cells = np.ix_(rows, columns)
        Z, sd = effect.values[cells].T, None if effect.sd is None else effect.sd[cells].T
        if min(Z.shape) > 1:
            _draw_contours(ax, x.at, y.at, Z, sd, levels, norm)
        else:
            ax.pcolormesh(x_edges, y_edges, Z, norm=norm, cmap=diverging())
    for side, scale, axis in zip(SIDES, (x, y), effect.axes, strict=True):
        draw_rug(ax, side, *thinned(axis.rug, RUG_TICKS))
        if scale.missing is not None:
            set_apart(ax, side, scale)
            name_missing(ax, side, scale)
        name_part(ax, side, axis)
    ax.set(xlabel=label(effect.axes[0].title), ylabel=label(effect.axes[1].title))
    _draw_colorbar(ax, norm, _effect_name(effect, "dotted"))


def draw_lines(ax: Axes, effect: Effect) -> None:
    """Draw a category and a number as a line for each level, at most 8 of largest spread.

    Up to three lines have bands. More lines are thin where unsure.
    """
    flipped = effect.axes[0].labels is None
    quantity, category = effect.axes if flipped else effect.axes[::-1]
    scale, names = number_scale(quantity), category.labels or ()
    banded = effect.sd is not None and len(names) <= MOST_BANDS
    parts = (effect.values, _width(effect), _sure(effect) | banded)
    values, width, sure = (part.T if flipped else part for part in parts)
    shown = np.sort(np.argsort(-np.ptp(values, axis=1), kind="stable")[:MOST_LINES])
    ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
    styles = list(zip(LINE_COLORS, LINE_STYLES, LINE_MARKERS, strict=True))
    for k, (color, *_) in zip(shown if banded else (), styles, strict=False):
        _draw_band(ax, scale, values[k], width[k], color)
    lines = [_draw_line(ax, scale, values[k], sure[k], *style) for k, style in zip(shown, styles, strict=False)]
    if scale.missing is not None:
        set_apart(ax, "x", scale)
        name_missing(ax, "x", scale, values[shown, scale.missing])
    name_part(ax, "x", quantity)
    draw_rug(ax, "x", *thinned(quantity.rug, RUG_TICKS))
    name = f"{effect.name} ± {BAND:.0f} sd" if banded else _effect_name(effect, "thin")
    ax.set(xlabel=label(quantity.title), ylabel=name)
    ax.spines[["top", "right"]].set_visible(False)
    some = f"\n{len(shown)} of {len(names)} levels,\nof largest spread" if len(shown) < len(names) else ""
    legend = [f" {label(names[level])}" for level in shown]  # matplotlib leaves out names with a leading underscore
    ax.legend(lines, legend, title=label(category.name) + some, **BESIDE)


def _draw_band(ax: Axes, scale: Scale, y: Floats, width: Floats, color: str) -> None:
    """Draw `width` on either side of a line, with a bar for the missing value and for a single value."""
    low, high = y - width, y + width
    ax.fill_between(scale.at, low[scale.observed], high[scale.observed], color=color, alpha=0.18, lw=0.0)
    bars = [] if len(scale.at) > 1 else list(zip(scale.at, scale.observed, strict=True))
    for x, place in [*bars, *([] if scale.missing is None else [(scale.beyond, scale.missing)])]:
        ax.vlines(x, low[place], high[place], color=color, lw=1.2)


def _draw_line(ax: Axes, scale: Scale, y: Floats, sure: Any, color: str, style: str, marker: str) -> Line2D:
    """Draw a line, thin where unsure; missing values and single values are markers, hollow where unsure."""
    if not sure.all():
        ax.plot(scale.at, y[scale.observed], color=color, ls=style, lw=0.9)
    thick = np.where(sure, y, np.nan)[scale.observed]
    line = ax.plot(scale.at, thick, color=color, ls=style, lw=2.0)[0]
    dots = [] if len(scale.at) > 1 else [(x, place) for x, place in zip(scale.at, scale.observed, strict=True)]
    for x, place in [*dots, *([] if scale.missing is None else [(scale.beyond, scale.missing)])]:
        ax.plot(x, y[place], marker, color=color, ms=6, mfc=color if sure[place] else "white")
        line.set(marker=marker, markevery=[])
    return line


def draw_heat_map(ax: Axes, effect: Effect) -> None:
    """Draw two categories as a cell with its number for every pair of levels, in brackets where unsure."""
    values, (first, second) = effect.values, effect.axes
    _, norm = _levels(values)
    rows, columns = values.shape
    ax.pcolormesh(np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, values, norm=norm, cmap=diverging())
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xlabel=label(second.name), ylabel=label(first.name))
    texts = [
        number(v, 2) if sure else f"({number(v, 2)})" for v, sure in zip(values.flat, _sure(effect).flat, strict=True)
    ]
    write_in_cells(ax, np.array(texts, dtype=object).reshape(rows, columns), np.abs(norm(values) - 0.5) > 0.33)
    name_ticks(ax, "x", [label(level) for level in second.labels or ()])
    name_ticks(ax, "y", [label(level) for level in first.labels or ()])
    _draw_colorbar(ax, norm, _effect_name(effect, "in brackets"))


def _sure(effect: Effect) -> NDArray[np.bool_]:
    """Return where zero is outside the band of the effect; True everywhere if there is no band."""
    sure: NDArray[np.bool_] = np.abs(effect.values) >= _width(effect)
    return sure


def _width(effect: Effect) -> Floats:
    """Return half the width of the band; 0 everywhere if there is no band."""
    return np.zeros_like(effect.values) if effect.sd is None else BAND * effect.sd


def _effect_name(effect: Effect, unsure: str) -> str:
    return effect.name if effect.sd is None else f"{effect.name}\n({unsure}: within {BAND:.0f} sd of zero)"


def _draw_contours(
    ax: Axes, x: Floats, y: Floats, Z: Floats, sd: Floats | None, levels: Floats, norm: Normalize
) -> None:
    ax.contourf(x, y, Z, levels, cmap=diverging(), norm=norm)
    if sd is not None and (unsure := np.abs(Z) - BAND * sd).min() < 0:
        dots = ax.contourf(x, y, unsure, [2 * unsure.min(), 0.0], colors="none", hatches=[".."])
        dots.set(edgecolor="0.5", linewidth=0.0)
    inside = levels[(levels > Z.min()) & (levels < Z.max())]
    if len(inside):
        lines = ax.contour(x, y, Z, inside, colors=TEXT, linewidths=0.7)
        ax.clabel(lines, fmt=number, fontsize=7)


def _levels(values: Floats) -> tuple[Floats, Normalize]:
    """Return round contour levels that cover all values, symmetric about zero, and the norm of their colours."""
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    size = float(np.abs(values).max()) or 1.0
    levels = np.asarray(MaxNLocator(11, steps=[1, 2, 2.5, 5, 10]).tick_values(-size, size))
    return levels, Normalize(levels[0], levels[-1])


def _draw_colorbar(ax: Axes, norm: Normalize, text: str) -> None:
    from matplotlib.cm import ScalarMappable

    ax.figure.colorbar(ScalarMappable(norm, diverging()), ax=ax, label=text)
