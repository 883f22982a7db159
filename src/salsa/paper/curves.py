"""Draw a part of figure 1: error against rows, a line per method."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from salsa._utils.atomic import replacing
from salsa.baselines.processes import OK
from salsa.baselines.registry import RIVALS
from salsa.paper.figures import Point, fixed_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, DPI = 7.0, 4.3, 150  # inches, and dots per inch of a file
PAPER, OURS = "#08519c", "#d55e00"  # the SALSA of the paper, and this package with default parameters
#: Distinct for colour-blind readers; lines of equal colour differ in markers and dashes
RIVAL_COLOURS = ("#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
MARKERS, FIXED_MARKERS = "svD^<>pPX*hd", "os^Dv"
DASHES = ("--", "-.", ":")


def draw_figure(points: Sequence[Point], title: str) -> Figure:
    """Draw a line for every method through its finished points; bars are one standard error over trials either side.

    Errors are shares of the variance of the test target: a constant prediction has an error of about 1.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'salsa-learn[plots]'") from None
    drawn = [point for point in points if point["status"] == OK]
    if not drawn:
        raise ValueError("there is nothing to draw: no method has finished all trials at any number of rows")
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    ax = figure.add_subplot()
    methods = list(dict.fromkeys(point["method"] for point in drawn))
    for method, style in _styles(methods).items():
        _draw_line(ax, [point for point in drawn if point["method"] == method], style)
    _finish(ax, drawn, title)
    figure.supxlabel(textwrap.fill(_note(points), 105), fontsize="x-small", x=0.01, ha="left")
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG file, which takes its name when it is complete."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI, format="png")


def name_of(method: str) -> str:
    """Return the name of a method in the legend."""
    if (order := fixed_order(method)) is not None:
        return f"SALSA, d = {order}"
    own = {"salsa-paper": "SALSA, d by CV", "salsa": "this package"}
    return own.get(method) or RIVALS[method].in_paper or RIVALS[method].title


def _styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return line styles: the paper's SALSA in blue, lighter for lower orders, and other methods in other colours."""
    from matplotlib import colormaps

    fixed = [method for method in methods if fixed_order(method) is not None]
    rivals = [method for method in methods if method not in fixed and not method.startswith("salsa")]
    styles: dict[str, dict[str, Any]] = {
        "salsa-paper": {"color": PAPER, "lw": 2.2, "marker": "o", "zorder": 4},
        "salsa": {"color": OURS, "lw": 1.8, "marker": "d", "ls": (0, (4, 1.5)), "zorder": 4},
    }
    for k, method in enumerate(fixed):
        shade = colormaps["Blues"](1.0 - 0.6 * (len(fixed) - 1 - k) / max(1, len(fixed) - 1))
        styles[method] = {"color": shade, "lw": 2.2, "marker": FIXED_MARKERS[k % len(FIXED_MARKERS)], "zorder": 3}
    for k, method in enumerate(rivals):
        line = DASHES[(k + k // len(RIVAL_COLOURS)) % len(DASHES)]
        styles[method] = {
            **{"color": RIVAL_COLOURS[k % len(RIVAL_COLOURS)], "ls": line},
            **{"lw": 1.2, "marker": MARKERS[k % len(MARKERS)], "zorder": 2},
        }
    return {method: styles[method] for method in methods}


def _draw_line(ax: Axes, points: Sequence[Point], style: dict[str, Any]) -> None:
    ax.errorbar(
        [point["n"] for point in points],
        [point["share"] or 0.0 for point in points],
        yerr=[point["share_se"] or 0.0 for point in points],
        label=name_of(points[0]["method"]),
        markersize=4.5,
        capsize=2,
        elinewidth=0.9,
        **style,
    )


def _finish(ax: Axes, points: Sequence[Point], title: str) -> None:
    from matplotlib.ticker import NullFormatter

    ax.set(xscale="log", yscale="log", xlabel="rows n", ylabel="mean squared error / variance of the truth")
    sizes = sorted({point["n"] for point in points})
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)
    ax.set_title(title, fontsize="medium")
    ax.grid(axis="y", color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    # The legend lists the methods from top to bottom at the right end of the lines.
    last = {name_of(point["method"]): point["share"] or 0.0 for point in points}
    order = sorted(range(len(labels)), key=lambda k: -last[labels[k]])
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False}
    ax.legend([handles[k] for k in order], [labels[k] for k in order], fontsize="small", **beside)


def _note(points: Sequence[Point]) -> str:
    """Return a note with the number of trials and the points that are not drawn."""
    trials = sorted({point["trials"] for point in points if point["status"] == OK})
    many = f"{trials[0]} to {trials[-1]} trials" if len(trials) > 1 else f"{trials[0]} trial{'s' * (trials[0] > 1)}"
    missing = [
        f"{name_of(point['method'])} at n = {point['n']} ({point['status']})"
        for point in points
        if point["status"] != OK
    ]
    left_out = f" Not drawn: {', '.join(missing)}." if missing else ""
    return f"Mean of {many}; bars: one standard error either side.{left_out}"
