"""The plot of a search."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from salsa.selection.results import OrderSearch

POINTS: dict[str, Any] = {"fmt": "o-", "color": "0.35", "capsize": 3, "ms": 5}
CHOSEN: dict[str, Any] = {"marker": "D", "ls": "none", "color": "C1", "ms": 9, "zorder": 3}
LEGEND: dict[str, Any] = {"frameon": False, "loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0}


def plot_search(search: OrderSearch, ax: Axes | None) -> Axes:
    """Draw the errors of the race, or of the orders if there was none; the legend is above, never on the data."""
    if not search.results and not search.contenders:
        raise ValueError("order and alpha were given, so nothing was searched: there is no search to plot")
    size = (8, 1.2 + 0.28 * len(search.contenders)) if search.contenders else (5, 3.2)
    ax = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
    draw = _plot_race if search.contenders else _plot_orders
    draw(search, ax)
    ax.legend(**LEGEND)
    return ax


def _plot_orders(search: OrderSearch, ax: Axes) -> None:
    table = search.table
    best = table[table["chosen"]]
    ax.errorbar(table["order"], table["cv_error"], yerr=table["standard_error"], **POINTS)
    ax.plot(best["order"], best["cv_error"], label=f"chosen: order {search.order}", **CHOSEN)
    ax.set(xlabel="interaction order d", ylabel="cross-validation error / variance")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plot_race(search: OrderSearch, ax: Axes) -> None:
    race = search.race.sort_values("error", ascending=False).reset_index(drop=True)
    best = race[race["won"]]
    ax.errorbar(race["error"], race.index, xerr=race["standard_error"], **{**POINTS, "fmt": "o"})
    ax.plot(best["error"], best.index, label="chosen, on rows not learned from", **CHOSEN)
    names = [f"{row.kernel}, order {row.order}, {row.features} features" for row in race.itertuples()]
    ax.set_yticks(race.index, names)
    ax.set(xlabel="held-out error / variance")
