"""Where the values of a number go on an axis, with a place of its own for the missing value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salsa._utils.arrays import Floats
from salsa._utils.drawing import LINE, Side, number, room_per_cell
from salsa.explain.effects import Axis
from salsa.explain.subject import MISSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 0.08  # between the largest value and the missing one, as a share of their range


class Scale(NamedTuple):
    """Values of one number from small to large."""

    at: Floats  # (P,) the values that are not missing
    observed: NDArray[np.intp]  # (P,) where they are among the points
    missing: int | None  # where the missing value is
    beyond: float  # where to draw it: right of the others
    gap: float  # half the width of its place

    @property
    def parts(self) -> list[tuple[NDArray[np.intp], Floats]]:
        """The observed values and the missing one, as far as there are any: places among the points, edges of cells."""
        parts = [(self.observed, _edges(self.at, self.gap))] if len(self.at) else []
        if self.missing is not None:
            parts.append((np.array([self.missing]), self.beyond + self.gap * np.array([-0.8, 0.8])))
        return parts


def number_scale(axis: Axis) -> Scale:
    """Of the points of a number."""
    order = np.argsort(axis.points, kind="stable")  # NaN last
    observed = order[~np.isnan(axis.points[order])]
    missing = int(order[-1]) if len(observed) < len(order) else None
    at = axis.points[observed]
    low, high = (at[0], at[-1]) if len(at) else (0.0, 0.0)
    gap = GAP * float((high - low) or abs(high) or 1.0)
    return Scale(at, observed, missing, float(high) + gap, gap / 2)


def _edges(centres: Floats, width: float) -> Floats:
    """Where cells around ascending centres (P,) begin and end (P+1,); a single one extends by `width` either side."""
    edges: Floats = np.r_[centres[0], (centres[1:] + centres[:-1]) / 2, centres[-1]]
    return edges + width * np.array([-1.0, 1.0]) if len(centres) == 1 else edges


def set_apart(ax: Axes, side: Side, scale: Scale) -> None:
    """Keep ticks to the observed values, and the missing one behind a line."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    if scale.missing is None:
        return
    axis, wall = (ax.xaxis, ax.axvline) if side == "x" else (ax.yaxis, ax.axhline)
    ticks = MaxNLocator(5).tick_values(scale.at[0], scale.at[-1]) if len(scale.at) else np.empty(0)
    axis.set_major_locator(FixedLocator([t for t in ticks if scale.at[0] <= t <= scale.at[-1]]))
    if len(scale.at):
        wall(scale.beyond - scale.gap, color=LINE, lw=0.8, ls=":")


def mark_values(ax: Axes, scale: Scale) -> None:
    """A tick along the bottom at each of the observed values, if all of their numbers have room."""
    names = [number(value) for value in scale.at]
    closest = np.diff(scale.at).min(initial=np.inf) / (np.ptp(scale.at) or 1.0) if len(names) else 0.0
    if closest * room_per_cell(ax, "x", 1) > 8 * max(map(len, names), default=0):
        ax.set_xticks(scale.at, names)


def name_missing(ax: Axes, side: Side, scale: Scale, away_from: ArrayLike = ()) -> None:
    """Write "missing" over its place, half way up or else where it is farthest from these values."""
    low, high = ax.get_ylim()
    taken = (np.asarray(away_from, dtype=np.float64).ravel() - low) / (high - low)
    height = max((0.5, 0.15, 0.85, 0.3, 0.7), key=lambda h: np.abs(taken - h).min(initial=1.0))
    transform = ax.get_xaxis_transform() if side == "x" else ax.get_yaxis_transform()
    place = (scale.beyond, height) if side == "x" else (height, scale.beyond)
    back = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    font: dict[str, Any] = {"fontsize": "small", "rotation": 90 if side == "x" else 0, "ha": "center", "va": "center"}
    ax.text(*place, MISSING, transform=transform, bbox=back, **font)
