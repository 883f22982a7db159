"""Figures of the experiments in ``theory_experiments``: each takes its data frame and returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from salsa.paper.theory import sobolev_penalty
from salsa.paper.theory_experiments import FULL, FULL_WIDER, SMOOTHNESS, TRUE, best_orders, slopes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#08519c", "#f5b26b", "#6baed6", "#b35806", "#525252")
MARKERS = "osD^v"
METHODS = (TRUE, FULL, FULL_WIDER)
SIZE = (8.5, 3.4)


def draw_dimensions(table: pd.DataFrame) -> Figure:
    """Draw ``dimension_table``: the effective dimension against D, a curve for every order and one for order D."""
    figure, (ax,) = _panels(1)
    is_full = table["order"] == table["D"]
    for place, (order, rows) in enumerate(table[~is_full].groupby("order")):
        _curve(ax, rows["D"], rows["dimension"], f"order {order}", place)
    _curve(ax, table["D"][is_full], table["dimension"][is_full], "order D", 4)
    _finish(ax, table["D"], "features D", "effective dimension, kernels of diagonal 1")
    return figure


def draw_rates(by_rows: pd.DataFrame, by_features: pd.DataFrame) -> Figure:
    """Draw ``rate_experiment`` and ``dimension_experiment``: excess risk against n, and against D."""
    figure, (left, right) = _panels(2)
    exponents = slopes(by_rows, "n")
    for place, method in enumerate(METHODS):
        for ax, frame, by in ((left, by_rows, "n"), (right, by_features, "D")):
            means = frame[frame["method"] == method].groupby(by)["risk"].mean()
            name = f"{method}: $n^{{{exponents[method]:.2f}}}$" if by == "n" else method
            _curve(ax, means.index, means, name, place)
    _draw_reference(left, by_rows)
    _finish(left, by_rows["n"], f"rows n (D = {by_rows['D'].iloc[0]})", "excess risk")
    _finish(right, by_features["D"], f"features D (n = {by_features['n'].iloc[0]})", "")
    right.axhline(1.0, color="0.7", linewidth=0.8)
    right.annotate("variance of the truth", (0.02, 0.8), xycoords=("axes fraction", "data"), fontsize=7)
    return figure


def draw_orders(frame: pd.DataFrame) -> Figure:
    """Draw ``order_experiment``: excess risk of every order against n, and the best order."""
    figure, (left, right) = _panels(2)
    for place, (order, rows) in enumerate(frame.groupby("order")):
        means = rows.groupby("n")["risk"].mean()
        _curve(left, means.index, means, f"order {order}", place)
        if rows["beyond"].iloc[0] > means.min() / 10:
            left.axhline(rows["beyond"].iloc[0], color=COLOURS[place], linestyle=":", linewidth=1)
    _finish(left, frame["n"], "rows n", "excess risk (dotted: beyond the order)")
    best = best_orders(frame)
    right.plot(best.index, best, "o-", color=COLOURS[0])
    right.set(xscale="log", ylabel="order of least risk", yticks=sorted(set(best)))
    _ticks(right, frame["n"], "rows n")
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE if count > 1 else (4.6, 3.4), layout="constrained", dpi=110)
    return figure, [figure.add_subplot(1, count, place + 1) for place in range(count)]


def _curve(ax: Axes, x: pd.Index | pd.Series[int], y: pd.Series[float], name: str, place: int) -> None:
    ax.loglog(x, y, marker=MARKERS[place], markersize=4, color=COLOURS[place], label=name)


def _draw_reference(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the rate of Theorem 2 for order 1 through the first point of the true order."""
    means = frame[frame["method"] == TRUE].groupby("n")["risk"].mean()
    rate = pd.Series({n: sobolev_penalty(n, 1, SMOOTHNESS) for n in means.index})
    ax.loglog(rate.index, rate * means.iloc[0] / rate.iloc[0], ":", color="0.3", label="$n^{-4/5}$, Theorem 2")


def _finish(ax: Axes, values: Iterable[float], x: str, y: str) -> None:
    ax.set_ylabel(y)
    ax.legend(fontsize=7, frameon=False)
    _ticks(ax, values, x)


def _ticks(ax: Axes, values: Iterable[float], name: str) -> None:
    """Label the points with plain numbers instead of powers of ten."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    ticks = sorted(set(values))
    ax.set_xticks(ticks[:: 1 + len(ticks) // 8])
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(name)
