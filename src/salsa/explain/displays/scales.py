"""Positions of the values of a number on an axis, with a separate place for the missing value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salsa._utils.arrays import Floats
from salsa._utils.drawing import LINE, Side, number, room_per_cell
from salsa.explain.effects import MISSING, Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 0.08  # gap between the largest value and the missing value, as a share of the range of values


class Scale(NamedTuple):
    """Positions of the values of one number, from small to large."""

    at: Floats  # (P,) the values that are not missing
    observed: NDArray[np.intp]  # (P,) places of these values among the points
    missing: int | None  # place of the missing value among the points
    beyond: float  # position of the missing value on the axis, right of all values
    gap: float  # half the width of the place of the missing value

    @property
    def parts(self) -> list[tuple[NDArray[np.intp], Floats]]:
        """Places among the points and edges of cells: of the observed values, then of the missing value, if any."""
        parts = [(self.observed, _edges(self.at, self.gap))] if len(self.at) else []
        if self.missing is not None:
            parts.append((np.array([self.missing]), self.beyond + self.gap * np.array([-0.8, 0.8])))
        return parts


def number_scale(axis: Axis) -> Scale:
    """Return the scale of the points of a number."""
    order = np.argsort(axis.points, kind="stable")  # NaN last
    observed = order[~np.isnan(axis.points[order])]
    missing = int(order[-1]) if len(observed) < len(order) else None
    at = axis.points[observed]
    low, high = (at[0], at[-1]) if len(at) else (0.0, 0.0)
    gap = GAP * float((high - low) or abs(high) or 1.0)
    return Scale(at, observed, missing, float(high) + gap, gap / 2)


def _edges(centres: Floats, width: float) -> Floats:
    """Return the edges (P+1,) of cells around ascending centres (P,); a single cell is `width` wide on either side."""
    edges: Floats = np.r_[centres[0], (centres[1:] + centres[:-1]) / 2, centres[-1]]
    return edges + width * np.array([-1.0, 1.0]) if len(centres) == 1 else edges


def set_apart(ax: Axes, side: Side, scale: Scale) -> None:
    """Draw a line before the missing value, and keep ticks to the range of the observed values."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    if scale.missing is None:
        return
    axis, wall = (ax.xaxis, ax.axvline) if side == "x" else (ax.yaxis, ax.axhline)
    ticks = MaxNLocator(5).tick_values(scale.at[0], scale.at[-1]) if len(scale.at) else np.empty(0)
    axis.set_major_locator(FixedLocator([t for t in ticks if scale.at[0] <= t <= scale.at[-1]]))
    if len(scale.at):
        wall(scale.beyond - scale.gap, color=LINE, lw=0.8, ls=":")


def name_part(ax: Axes, side: Side, axis: Axis) -> None:
    """Put ticks at round dates, months or hours if the axis shows a part of a date."""
    if (ticks := axis.ticks) is not None:
        set_ticks = ax.set_xticks if side == "x" else ax.set_yticks
        set_ticks([value for value, _ in ticks], [name for _, name in ticks])


def mark_values(ax: Axes, scale: Scale) -> None:
    """Put a tick at each observed value along the bottom, if all labels fit."""
    names = [number(value) for value in scale.at]
    closest = np.diff(scale.at).min(initial=np.inf) / (np.ptp(scale.at) or 1.0) if len(names) else 0.0
    if closest * room_per_cell(ax, "x", 1) > 8 * max(map(len, names), default=0):
        ax.set_xticks(scale.at, names)


def name_missing(ax: Axes, side: Side, scale: Scale, away_from: ArrayLike = ()) -> None:
    """Write "missing" at the place of the missing value, at one of five heights, farthest from `away_from`."""
    low, high = ax.get_ylim()
    taken = (np.asarray(away_from, dtype=np.float64).ravel() - low) / (high - low)
    height = max((0.5, 0.15, 0.85, 0.3, 0.7), key=lambda h: np.abs(taken - h).min(initial=1.0))
    transform = ax.get_xaxis_transform() if side == "x" else ax.get_yaxis_transform()
    place = (scale.beyond, height) if side == "x" else (height, scale.beyond)
    back = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    font: dict[str, Any] = {"fontsize": "small", "rotation": 90 if side == "x" else 0, "ha": "center", "va": "center"}
    ax.text(*place, MISSING, transform=transform, bbox=back, **font)
