"""Figures of the experiments in ``theory_experiments``: each takes its data frame and returns a matplotlib figure.

Lines have their names at their right ends. Bars are one standard error over repetitions on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from salsa._utils.drawing import FAINT, LINE, check_matplotlib, label_ends, plain_log_axis
from salsa.paper.theory import sobolev_penalty
from salsa.paper.theory_experiments import FULL, FULL_WIDER, SMOOTHNESS, TRUE, best_orders, slopes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")  # of Okabe and Ito
MARKERS = "osD^v"
OF_D = len(COLOURS) - 1  # place of the colour and marker of order D
METHODS = {TRUE: ("order 1 (true)", 0), FULL: ("order D", OF_D), FULL_WIDER: ("order D, best width", 2)}
WIDTH, HEIGHT = 5.0, 3.8  # inches of one picture
BUBBLE = 60.0  # area in square points of one repetition


def draw_dimensions(table: pd.DataFrame) -> Figure:
    """Draw ``dimension_table``: the effective dimension against D, a curve for every order and one for order D."""
    figure, (ax,) = _panels(1)
    is_full = table["order"] == table["D"]
    lines = {
        f"order {order}": _curve(ax, rows, "D", "dimension", place)
        for place, (order, rows) in enumerate(table[~is_full].groupby("order"))
    }
    lines["order D"] = _curve(ax, table[is_full], "D", "dimension", OF_D)
    ax.set_ylabel("effective dimension")
    _finish(ax, table["D"], "features D", lines)
    return figure


def draw_rates(by_rows: pd.DataFrame, by_features: pd.DataFrame) -> Figure:
    """Draw ``rate_experiment`` and ``dimension_experiment``: mean excess risk against n, and against D."""
    figure, (left, right) = _panels(2)
    exponents = slopes(by_rows, "n")
    lines = {
        f"{METHODS[method][0]}: $n^{{{exponents[method]:.2f}}}$": line
        for method, line in _method_curves(left, by_rows, "n").items()
    }
    lines["Theorem 2: $n^{-0.80}$"] = _draw_reference(left, by_rows[by_rows["method"] == TRUE])
    left.set(title=f"D = {by_rows['D'].iloc[0]} features", ylabel="excess risk")
    _finish(left, by_rows["n"], "rows n", lines)
    lines = {METHODS[method][0]: line for method, line in _method_curves(right, by_features, "D").items()}
    _draw_level(right, 1.0, FAINT, "variance of the truth")
    right.set_title(f"n = {by_features['n'].iloc[0]} rows")
    _finish(right, by_features["D"], "features D", lines)
    return figure


def draw_orders(frame: pd.DataFrame) -> Figure:
    """Draw ``order_experiment``: mean excess risk of every order against n, and the best order.

    Circles have areas proportional to the numbers of repetitions in which an order is the best.
    """
    figure, (left, right) = _panels(2)
    lines = {}
    for place, (order, rows) in enumerate(frame.groupby("order")):
        lines[f"order {order}"] = _curve(left, rows, "n", "risk", place)
        if (beyond := rows["beyond"].iloc[0]) > rows["risk"].min() / 10:
            _draw_level(left, beyond, COLOURS[place], f"variance beyond order {order}")
    left.set_ylabel("excess risk")
    _finish(left, frame["n"], "rows n", lines)
    _draw_best_orders(right, frame)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(count * WIDTH, HEIGHT), layout="constrained")
    return figure, [figure.add_subplot(1, count, place + 1) for place in range(count)]


def _curve(ax: Axes, rows: pd.DataFrame, x: str, y: str, place: int) -> Line2D:
    """Draw means of y for every x, with a standard error where x has several rows."""
    groups = rows.groupby(x)[y]
    style: dict[str, Any] = {"marker": MARKERS[place], "color": COLOURS[place], "ms": 4.5, "lw": 1.6}
    bars: dict[str, Any] = {"yerr": groups.sem().fillna(0.0), "capsize": 2, "elinewidth": 0.9}
    line: Line2D = ax.errorbar(groups.mean().index, groups.mean(), **bars, **style).lines[0]
    return line


def _method_curves(ax: Axes, frame: pd.DataFrame, x: str) -> dict[str, Line2D]:
    """Draw the mean risk of every method against x."""
    places = {method: place for method, (_, place) in METHODS.items()}
    return {method: _curve(ax, frame[frame["method"] == method], x, "risk", places[method]) for method in places}


def _draw_level(ax: Axes, height: float, color: str, name: str) -> None:
    """Draw a horizontal line with its name below its left end."""
    ax.axhline(height, color=color, ls=":", lw=1.2, zorder=0)
    place: dict[str, Any] = {"xytext": (4, -3), "textcoords": "offset points", "va": "top", "fontsize": 9}
    ax.annotate(name, (0, height), xycoords=("axes fraction", "data"), **place)


def _draw_reference(ax: Axes, rows: pd.DataFrame) -> Line2D:
    """Draw the rate of Theorem 2 for order 1 through the first mean risk of these rows."""
    means = rows.groupby("n")["risk"].mean()
    rate = pd.Series({n: sobolev_penalty(n, 1, SMOOTHNESS) for n in means.index})
    return ax.plot(rate.index, rate * means.iloc[0] / rate.iloc[0], ls=":", color=LINE)[0]


def _draw_best_orders(ax: Axes, frame: pd.DataFrame) -> None:
    best = best_orders(frame)
    ax.plot(best.index, best, "o-", ms=4.5, color=COLOURS[0], label="of the mean risk")
    single = frame.loc[frame.groupby(["n", "repeat"])["risk"].idxmin(), ["n", "order"]].value_counts().reset_index()
    style: dict[str, Any] = {"facecolor": "none", "edgecolor": LINE, "lw": 1.0}
    ax.scatter(single["n"], single["order"], BUBBLE * single["count"], label="of single repetitions", **style)
    ax.set(ylabel="order of least risk", yticks=sorted({*best, *single["order"]}))
    ax.margins(0.12)
    ax.legend(loc="upper left", frameon=False, fontsize=9)
    _measured_ticks(ax, frame["n"], "rows n")


def _finish(ax: Axes, values: Iterable[float], x: str, lines: Mapping[str, Line2D]) -> None:
    """Make both axes logarithmic with plain numbers, and write the names of the lines."""
    plain_log_axis(ax, "y")
    _measured_ticks(ax, values, x)
    label_ends(ax, lines)


def _measured_ticks(ax: Axes, values: Iterable[float], name: str) -> None:
    """Make the axis of x logarithmic, with ticks at values that were measured, at most eight."""
    from matplotlib.ticker import NullLocator

    ax.set(xscale="log", xlabel=name)
    ticks = sorted(set(values))
    ticks = ticks[:: -(-len(ticks) // 8)]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.spines[["top", "right"]].set_visible(False)
