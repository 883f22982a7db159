"""Draw figure 1: error against rows, a line per method, in one picture or in several with one legend."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from salsa._utils.atomic import replacing
from salsa._utils.drawing import check_matplotlib, label_ends, plain_log_axis
from salsa.baselines.processes import OK
from salsa.baselines.registry import RIVALS
from salsa.paper.figures import FIGURES, Point, fixed_order
from salsa.paper.figures import points as mean_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH, HEIGHT, DPI = 7.0, 4.3, 130  # inches of one picture, and dots per inch of a file
PAPER, OURS = "#0072b2", "#d55e00"  # the SALSA of the paper, and salsa with default parameters
#: The other colours of Okabe and Ito without yellow, which is too light for lines, and four of other lightness
RIVAL_COLOURS = ("#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#9e9e9e", "#5e3c99", "#5c3a00", "#8a8a00")
MARKERS, FIXED_MARKERS = "svD^<>pPX*hd", "os^Dv"
DASHES = ("--", "-.", ":")
TOGETHER = ("fig1c", "fig1d", "fig1e", "fig1f")  # parts with equal axes and methods
ERROR = "mean squared error / variance of the truth"


def draw_parts_of(folder: Path, trials: int) -> dict[str, Figure]:
    """Draw all parts that have rows in a folder, those of ``TOGETHER`` in one figure; return name -> figure."""
    found = {name: some for name, experiment in FIGURES.items() if (some := mean_points(experiment, folder, trials))}
    if not found:
        raise ValueError(f"{folder} has none of {', '.join(f'{name}.csv' for name in FIGURES)}: name another folder")
    drawn = {name: draw_figure(found[name], FIGURES[name].title) for name in found if name not in TOGETHER}
    parts = {f"{name[-1]}: D = {FIGURES[name].D} features": found[name] for name in TOGETHER if name in found}
    return drawn | ({f"{TOGETHER[0]}_to_{TOGETHER[-1][-1]}": draw_parts(parts)} if parts else {})


def draw_figure(points: Sequence[Point], title: str) -> Figure:
    """Draw a line for every method through its finished points, and write the name of the method at its right end.

    Errors are shares of the variance of the test target: a constant prediction has an error of about 1. Bars are one
    standard error over trials on either side.
    """
    figure = _new_figure(WIDTH, HEIGHT)
    ax = figure.add_subplot()
    lines = _draw_lines(ax, points, _styles(_drawn_methods(points)))
    ax.set(title=title, xlabel="rows n", ylabel=ERROR)
    label_ends(ax, {name_of(method): line for method, line in lines.items()})
    _write_note(figure, points)
    return figure


def draw_parts(parts: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw parts of the figure (title -> points), two in a row, with the same axes and one legend for all."""
    rows, points = -(-len(parts) // 2), list(chain(*parts.values()))
    figure = _new_figure(1.15 * WIDTH, 0.68 * HEIGHT * rows)
    axes = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
    styles = _styles(_drawn_methods(points))
    lines: dict[str, Line2D] = {}
    for ax, (title, some) in zip(axes.flat, parts.items(), strict=False):
        lines |= _draw_lines(ax, some, styles)
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel("rows n")
    for ax in axes.flat[len(parts) :]:
        ax.set_axis_off()
    figure.supylabel(ERROR, fontsize="medium")
    ranking = sorted(lines, key=lambda method: -_last_error(points, method))
    beside: dict[str, Any] = {"loc": "outside right center", "frameon": False}
    figure.legend([lines[method] for method in ranking], [name_of(method) for method in ranking], **beside)
    _write_note(figure, points)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG file of 256 colours, which is small; it takes its name when it is complete."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    with replacing(path) as temporary:
        image.save(temporary, format="PNG", optimize=True)


def name_of(method: str) -> str:
    """Return the name of a method in the pictures: SALSA is the method of the paper, salsa is this library."""
    if (order := fixed_order(method)) is not None:
        return f"SALSA, d = {order}"
    own = {"salsa-paper": "SALSA, d by CV", "salsa": "salsa"}
    return own.get(method) or RIVALS[method].in_paper or RIVALS[method].title


def _new_figure(width: float, height: float) -> Figure:
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _drawn_methods(points: Sequence[Point]) -> list[str]:
    methods = list(dict.fromkeys(point["method"] for point in points if point["status"] == OK))
    if not methods:
        raise ValueError("there is nothing to draw: no method has finished all trials at any number of rows")
    return methods


def _last_error(points: Sequence[Point], method: str) -> float:
    """Return the sum of the errors at the largest n that the method finished, over all parts."""
    own = [point for point in points if point["method"] == method and point["status"] == OK]
    return sum(point["share"] or 0.0 for point in own if point["n"] == max(each["n"] for each in own))


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


def _draw_lines(ax: Axes, points: Sequence[Point], styles: Mapping[str, dict[str, Any]]) -> dict[str, Line2D]:
    """Draw the finished points on logarithmic axes with plain numbers; return the line of every method."""
    from matplotlib.ticker import NullLocator

    plain_log_axis(ax, "y")
    ax.set_xscale("log")
    sizes = sorted({point["n"] for point in points})
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return {
        method: _draw_line(ax, [point for point in points if point["method"] == method], styles[method])
        for method in _drawn_methods(points)
    }


def _draw_line(ax: Axes, points: Sequence[Point], style: dict[str, Any]) -> Line2D:
    done = [point for point in points if point["status"] == OK]
    container = ax.errorbar(
        [point["n"] for point in done],
        [point["share"] or 0.0 for point in done],
        yerr=[point["share_se"] or 0.0 for point in done],
        label=name_of(done[0]["method"]),
        markersize=4.5,
        capsize=2,
        elinewidth=0.9,
        **style,
    )
    line: Line2D = container.lines[0]
    return line


def _write_note(figure: Figure, points: Sequence[Point]) -> None:
    """Write the number of trials and the points that are not drawn below the axes."""
    trials = sorted({point["trials"] for point in points if point["status"] == OK})
    many = f"{trials[0]} to {trials[-1]} trials" if len(trials) > 1 else f"{trials[0]} trial{'s' * (trials[0] > 1)}"
    several = len({point["figure"] for point in points}) > 1
    missing = [
        f"{name_of(point['method'])} at n = {point['n']}{several * (' in ' + point['figure'][-1])} ({point['status']})"
        for point in points
        if point["status"] != OK
    ]
    left_out = f" Not drawn: {', '.join(missing)}." if missing else ""
    note = f"Mean of {many}; bars: one standard error on either side. Predicting the mean has an error of 1.{left_out}"
    letters = int(15 * figure.get_figwidth())
    figure.supxlabel(textwrap.fill(note, letters), fontsize="x-small", x=0.01, ha="left")
