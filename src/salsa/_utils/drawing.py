"""Helpers of all displays: axes, names and numbers that fit, and colours that differ in greyscale."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice, product
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Side = Literal["x", "y"]
SIDES: tuple[Side, Side] = ("x", "y")
#: Dark blue and light orange differ for colour-blind readers and in greyscale
DARK, LIGHT = "#08519c", "#f5b26b"
#: Colours from negative (orange) to positive (blue) values, as in a waterfall
DIVERGING = ("#b35806", LIGHT, "#f7f7f7", "#6baed6", DARK)
LINE, FAINT, TEXT = "0.35", "0.75", "0.15"
BAND = 2.0  # standard deviations on either side of an effect
LONGEST_NAME = 28
SMALLEST_FONT, USUAL_FONT = 5.0, 10.0
LARGEST, GROWING_STEPS = 80.0, 4  # inches of a figure, at most; steps by which a figure is enlarged, at most
RUG_TICKS, RUG_HEIGHT = 100, 0.035
LINE_HEIGHT = 1.3  # distance between lines of text, in font sizes
PAD = 0.12  # inches around each of several pictures
_UNKNOWN = "□"


class Display:
    """A picture of numbers: `plot` draws it and returns the display, with the axes `ax_` and the figure `figure_`."""

    ax_: Axes
    figure_: Figure

    def _drawn(self, ax: Axes, **others: Any) -> Self:
        vars(self).update(ax_=ax, figure_=ax.figure, **others)  # also where a display is a frozen dataclass
        return self

    def __getattr__(self, name: str) -> Any:
        """Find attributes of the axes, which `plot` returned in earlier versions; a warning says what to write."""
        ax, kind = vars(self).get("ax_"), type(self).__name__
        if ax is None and name in ("ax_", "axes_", "figure_"):
            raise AttributeError(f"this {kind} has no {name} before it is drawn: call plot() first")
        if ax is None or name.startswith("_") or not hasattr(ax, name):
            raise AttributeError(f"{kind} has no attribute {name!r}")
        advice = f"plot() returns the {kind}, not its axes: write .ax_.{name}, which version 1.1 will demand"
        warnings.warn(advice, FutureWarning, stacklevel=2)
        return getattr(ax, name)


@contextmanager
def axes_or_new(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """Give `ax`, or axes of a new figure that grows until all texts fit; sizes are in inches for font size 10."""
    if ax is not None:
        yield ax
        return
    with new_axes(1, 1, [width], height) as (new,):
        yield new


@contextmanager
def new_axes(count: int, rows: int, widths: Sequence[float], height: float) -> Iterator[list[Axes]]:
    """Give `count` axes, in columns of these widths and in rows, of a new figure that grows until all texts fit.

    Widths of columns and the height of the figure are in inches for font size 10.
    """
    check_matplotlib()
    from matplotlib import pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    larger = max(1.0, plt.rcParams["font.size"] / USUAL_FONT)
    pad = PAD if count > 1 else PAD / 3
    size = np.minimum([larger * sum(widths), larger * height], LARGEST)
    figure = plt.figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=pad, h_pad=pad))
    cells = product(range(rows), range(len(widths)))
    grid = figure.add_gridspec(rows, len(widths), width_ratios=widths)
    yield [figure.add_subplot(grid[cell]) for cell in islice(cells, count)]
    _grow(figure)


def _grow(figure: Figure) -> None:
    """Enlarge a figure until all texts fit; by twice the missing length, as titles and names are centred on axes."""
    for _ in range(GROWING_STEPS):
        figure.draw_without_rendering()
        box, size = figure.get_tightbbox(), figure.get_size_inches()
        beyond = np.maximum([-box.x0, -box.y0], [box.x1, box.y1] - size)
        if beyond.max() <= 0:
            return
        figure.set_size_inches(np.minimum(size + 2 * np.maximum(beyond, 0), LARGEST))


def diverging() -> LinearSegmentedColormap:
    """Return a colour map: orange below zero, pale at zero, blue above, different for colour-blind readers."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("salsa", DIVERGING)


def check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from None


def strongest(sizes: Floats, most: int) -> NDArray[np.intp]:
    """Return the places of the `most` sizes of largest absolute value, largest first, without zeros."""
    if most < 1:
        raise ValueError(f"most={most}: give at least 1, the number of rows to show")
    ranking = np.argsort(-np.abs(sizes), kind="stable")
    return ranking[: min(most, np.count_nonzero(sizes))]


def others_name(count: int) -> str:
    return f"{count} other{'s' if count > 1 else ''}"


def label(text: object, longest: int = LONGEST_NAME) -> str:
    """Return a name for matplotlib: one line, shortened in the middle, without math mode and unknown glyphs."""
    name = " ".join(str(text).split())
    if len(name) > longest:
        tail = (longest - 1) // 2
        name = f"{name[: longest - 1 - tail]}…{name[-tail:]}"
    known = _glyphs(_font_files())
    return "".join(letter if ord(letter) in known else _UNKNOWN for letter in name).replace("$", r"\$")


def _font_files() -> tuple[str, ...]:
    """Return the font files of the families that matplotlib is set to draw with."""
    check_matplotlib()
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont

    return tuple(findfont(FontProperties(family=[family])) for family in rcParams["font.family"])


@lru_cache
def _glyphs(files: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that these fonts can draw."""
    from matplotlib.font_manager import get_font

    return frozenset().union(*(get_font(file).get_charmap() for file in files))


def number(value: float, digits: int = 4) -> str:
    """Format a number with so many significant digits, and an exponent for very large and small numbers only."""
    whole = 10 ** (digits - 1) <= abs(value) < 999999.5
    text = f"{value:.0f}" if whole else f"{value + 0.0:.{digits}g}"
    mantissa, e, exponent = text.partition("e")
    return (f"{mantissa}e{int(exponent)}" if e else text).replace("-", "−")


def signed(value: float) -> str:
    """Format a difference with its sign and three significant digits."""
    text = number(value, 3)
    return text if text.startswith("−") else f"+{text}"


def percent(share: float) -> str:
    """Format a share of one as a percentage, with more decimals for small shares."""
    size = abs(share)
    if 0 < size < 1e-4:
        return "< 0.01 %" if share > 0 else "> −0.01 %"
    digits = 0 if size == 0 or size >= 0.0995 else 1 if size >= 0.00995 else 2
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def percent_axis(ax: Axes, side: Side) -> None:
    """Label an axis of shares in percent, with as many ticks as fit."""
    from matplotlib.ticker import MaxNLocator

    axis, width = (ax.xaxis, 55.0) if side == "x" else (ax.yaxis, 25.0)
    ticks = int(np.clip(room_per_cell(ax, side, 1) / width, 2, 6))
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(lambda share, _: f"{100 * share:.10g} %")


def plain_log_axis(ax: Axes, side: Side) -> None:
    """Make an axis logarithmic, with ticks at 1, 2 and 5 times powers of ten, written without exponents."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    set_scale, axis = (ax.set_xscale, ax.xaxis) if side == "x" else (ax.set_yscale, ax.yaxis)
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 3)))
    axis.set_minor_formatter(NullFormatter())


def label_ends(ax: Axes, lines: Mapping[str, Line2D], size: float = 9.0) -> None:
    """Write the name of each line to the right of the axes, joined to the last point of the line.

    Names keep the order of the last points, and move as little as possible to be a line of text apart. The limits of
    the axes must not change afterwards.
    """
    from sklearn.isotonic import isotonic_regression

    ax.autoscale_view()
    last = {name: np.asarray(line.get_xydata(), dtype=np.float64)[-1] for name, line in lines.items()}
    names = sorted(last, key=lambda name: float(last[name][1]))
    ends = np.array([last[name] for name in names])
    heights = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    steps = LINE_HEIGHT * size / room_per_cell(ax, "y", 1) * np.arange(len(ends))
    for name, end, height in zip(names, ends, isotonic_regression(heights - steps) + steps, strict=True):
        arrow: dict[str, Any] = {"arrowstyle": "-", "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5), "lw": 0.9}
        arrow["color"] = lines[name].get_color()
        place: dict[str, Any] = {"xytext": (1.05, height), "textcoords": "axes fraction", "annotation_clip": False}
        ax.annotate(name, end, **place, arrowprops=arrow, va="center", fontsize=size, color=TEXT)


def name_ticks(ax: Axes, side: Side, names: Sequence[str]) -> float | None:
    """Write names at 0, 1, 2, ... of an axis. If room is short, letters become smaller, then names are left out.

    Return the font size in points, or None if names were left out.
    """
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    axis, room = ax.xaxis if side == "x" else ax.yaxis, room_per_cell(ax, side, len(names))
    usual = FontProperties(size=rcParams["xtick.labelsize" if side == "x" else "ytick.labelsize"])
    size = min(usual.get_size_in_points(), 0.75 * room)
    step = max(1, ceil(SMALLEST_FONT / size))
    places = range(0, len(names), step)
    axis.set_ticks(places, labels=[names[place] for place in places], fontsize=max(size, SMALLEST_FONT))
    axis.set_tick_params(length=0)
    if side == "x" and max(map(len, names)) * 0.7 * size > room:
        axis.set_tick_params(rotation=90)
    return size if step == 1 else None


def room_per_cell(ax: Axes, side: Side, cells: int) -> float:
    """Return the length of one of `cells` equal cells along a side of the axes, in points (1/72 inch)."""
    box = ax.get_window_extent()
    return float(box.width if side == "x" else box.height) * 72 / ax.figure.dpi / cells


def draw_rug(ax: Axes, side: Side, points: Floats, weights: Floats) -> None:
    """Draw ticks at values of the data; ticks of frequent values are longer."""
    from matplotlib.collections import LineCollection

    points, weights = points[~np.isnan(points)], weights[~np.isnan(points)]
    if not len(points):
        return
    height = RUG_HEIGHT * np.maximum(weights / weights.max(), 0.25)
    along, across = np.repeat(points, 2), np.column_stack([np.zeros_like(height), height]).ravel()
    ends = np.column_stack([along, across] if side == "x" else [across, along]).reshape(-1, 2, 2)
    transform = ax.get_xaxis_transform() if side == "x" else ax.get_yaxis_transform()
    ax.add_collection(LineCollection(list(ends), colors=TEXT, linewidths=0.6, transform=transform), autolim=False)


def write_beside(ax: Axes, texts: Sequence[str], ends: Sequence[float], size: float | None) -> None:
    """Write a text to the right of the end of each row, smaller than font size `size`; nothing if `size` is None."""
    for row, (text, end) in enumerate(zip(texts, ends, strict=True) if size else ()):
        ax.annotate(text, (end, row), (8, 0), textcoords="offset points", va="center", fontsize=0.85 * (size or 0.0))


def write_in_cells(ax: Axes, texts: Any, dark: Any) -> None:
    """Write texts (rows, columns) into unit cells, white on dark cells; nothing if the longest text does not fit."""
    rows, columns = texts.shape
    longest = max(map(len, texts.ravel())) or 1
    size = min(8.5, 0.45 * room_per_cell(ax, "y", rows), room_per_cell(ax, "x", columns) / (0.7 * longest))
    if size < SMALLEST_FONT:
        return
    for (row, column), text in np.ndenumerate(texts):
        if text:
            color = "white" if dark[row, column] else TEXT
            ax.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
