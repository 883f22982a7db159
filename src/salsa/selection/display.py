"""The pictures of a search: what was tried, and the error along alpha."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from salsa._utils.drawing import (
    DARK,
    FAINT,
    LIGHT,
    LINE,
    Display,
    axes_or_new,
    label,
    name_ticks,
    new_axes,
    number,
    plain_log_axis,
)
from salsa.selection.results import OrderSearch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ERROR = "held-out error (of a constant: 1)"
POINTS: dict[str, Any] = {"color": LINE, "capsize": 3, "ms": 5, "elinewidth": 1.0}
CHOSEN: dict[str, Any] = {"marker": "D", "ls": "none", "mfc": LIGHT, "mec": DARK, "ms": 8, "zorder": 3}
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "loc": "lower left", "bbox_to_anchor": (0, 1)}
WIDE_RANGE = 5.0  # errors along alpha beyond this ratio are drawn on a log scale
WIDTH, HEIGHT = 4.6, 3.4  # inches of a picture
RACE_WIDTH, ROW = 6.4, 0.28  # inches of the race, and of a kernel in it


@dataclass(frozen=True, eq=False)
class SearchDisplay(Display):
    """Display of a search: errors of the kernels of the race or of the orders tried, and errors along alpha.

    Errors are held-out, with one standard error on either side. `axes_` are the axes of all pictures.
    """

    search: OrderSearch

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw all pictures side by side on a new figure, or the first one on given axes."""
        pictures = self._pictures()
        if ax is not None or len(pictures) == 1:
            with axes_or_new(ax, *self._size()) as ax:
                pictures[0](ax)
            return self._drawn(ax, axes_=np.array([ax], dtype=object))
        width, height = self._size()
        with new_axes(len(pictures), 1, [width, WIDTH], height) as axes:
            for draw, each in zip(pictures, axes, strict=True):
                draw(each)
        return self._drawn(axes[0], axes_=np.array(axes, dtype=object))

    def _size(self) -> tuple[float, float]:
        """Return the width and height in inches of the first picture."""
        race = self.search.contenders
        return (RACE_WIDTH if race else WIDTH), max(HEIGHT, 1.2 + ROW * len(race))

    def _pictures(self) -> list[Callable[[Axes], None]]:
        """Return what can be drawn: what was tried comes first, unless there was one order only."""
        search = self.search
        along_alpha = [self._draw_alphas] if any(len(result.path.alphas) > 1 for result in search.results) else []
        if search.contenders:
            return [self._draw_race, *along_alpha]
        if not search.results:
            raise ValueError("order and alpha were given, so nothing was searched: there is no search to plot")
        return [self._draw_orders, *along_alpha] if len(search.results) > 1 or not along_alpha else [*along_alpha]

    def _draw_orders(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        table = self.search.table
        best = table[table["chosen"]]
        ax.errorbar(table["order"], table["cv_error"], yerr=table["standard_error"], fmt="o-", **POINTS)
        ax.plot(best["order"], best["cv_error"], label=f"chosen: order {self.search.order}", **CHOSEN)
        ax.set(xlabel="interaction order d", ylabel=ERROR)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(ax)

    def _draw_race(self, ax: Axes) -> None:
        race = self.search.race.sort_values("error", ascending=False).reset_index(drop=True)
        best = race[race["won"]]
        ax.errorbar(race["error"], race.index, xerr=race["standard_error"], fmt="o", **POINTS)
        ax.plot(best["error"], best.index, label="chosen, on rows not learned from", **CHOSEN)
        ax.set(ylim=(-0.6, len(race) - 0.4), xlabel=ERROR)
        names = (f"{row.kernel}, order {row.order}, {row.features} features" for row in race.itertuples())
        name_ticks(ax, "y", [label(name, longest=60) for name in names])
        _finish(ax)

    def _draw_alphas(self, ax: Axes) -> None:
        """Draw the errors of every order along alpha; the chosen order is dark, with its standard error."""
        chosen, others = self._paths()
        for path in others:
            ax.plot(path.alphas, path.errors, color=FAINT, lw=1.0)
        if others:
            ax.plot([], [], color=FAINT, lw=1.0, label="other orders")
        ax.set_xscale("log")
        if chosen is not None:
            name = "chosen kernel" if self.search.contenders else f"order {self.search.order}"
            ax.plot(chosen.alphas, chosen.errors, color=DARK, lw=1.8, label=name)
            ax.errorbar([chosen.alpha], [chosen.error], yerr=[chosen.standard_error], **POINTS)
            ax.plot([chosen.alpha], [chosen.error], label=f"chosen: alpha {number(chosen.alpha, 3)}", **CHOSEN)
        errors = np.concatenate([path.errors for path in (chosen, *others) if path is not None])
        if errors.min() > 0 and errors.max() > WIDE_RANGE * errors.min():
            plain_log_axis(ax, "y")
        ax.set(xlabel="penalty alpha", ylabel=ERROR)
        _finish(ax)

    def _paths(self) -> tuple[Any, list[Any]]:
        """Return the errors along alpha of the chosen order, None if it has none, and of all other orders."""
        paths = {result.order: result.path for result in self.search.results if len(result.path.alphas) > 1}
        return paths.pop(self.search.order, None), list(paths.values())


def _finish(ax: Axes) -> None:
    """Put the legend above the axes, never on the data."""
    ax.legend(**LEGEND, ncols=3, borderaxespad=0, columnspacing=1.2, handlelength=1.6)
    ax.spines[["top", "right"]].set_visible(False)
