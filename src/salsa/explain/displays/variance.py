"""Displays of the variance shares of features and of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.drawing import (
    DARK,
    LIGHT,
    TEXT,
    Display,
    axes_or_new,
    label,
    name_ticks,
    others_name,
    percent,
    percent_axis,
    strongest,
    write_beside,
    write_in_cells,
)
from salsa.explain.report.phrases import THIN, adding_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.anova import Anova


@dataclass(frozen=True, eq=False)
class ImportanceDisplay(Display):
    """Display of the variance share of every feature: by itself, and in all interactions that include the feature.

    These shares refer to independent features. If rows are known, a mark shows the share over the rows as they are.
    """

    features: tuple[str, ...]  #: D names
    first_order: Floats  #: (D,): share of each feature by itself
    total: Floats  #: (D,): share of all effects that include the feature
    orders: Floats  #: (d,): shares of all effects of order 1..d; empty if the function is constant
    over_rows: Floats | None = None  #: (D,): shares over the rows as they are; None if the rows are not known

    @classmethod
    def from_anova(cls, anova: Anova) -> ImportanceDisplay:
        """Take the Sobol indices, the variance share of every order, and the shares over the rows if rows are known."""
        first, total, rows = (anova.sobol()[name].to_numpy() for name in ("first_order", "total", "share_over_rows"))
        orders = anova.orders()["variance_share"].to_numpy()
        return cls(anova.features, first, total, orders, None if anova.rows is None else rows)

    def plot(self, ax: Axes | None = None, most: int = 20) -> Self:
        """Draw bars, largest first. An interaction counts for each of its features: bars can add up to more than 100 %.

        The legend gives the share of all features by themselves, and of the interactions of every order. The marks of
        the shares over rows add up to 100 %, and one left of zero offsets other features.
        """
        shown = strongest(self.total, most)
        names, ends, texts = self._rows(shown)
        low, high = self._reach(shown)
        with axes_or_new(ax, 6.0, 1.5 + 0.25 * len(names)) as ax:
            self._draw_bars(ax, shown)
            write_beside(ax, texts, ends, size=name_ticks(ax, "y", names))
            ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(low, high))
            ax.set_xlabel(
                "share of the variance" + (" (bars: features independent)" if self.over_rows is not None else "")
            )
            percent_axis(ax, "x")
            ax.spines[["top", "right"]].set_visible(False)
        return self._drawn(ax)

    def _rows(self, shown: NDArray[np.intp]) -> tuple[list[str], list[float], list[str]]:
        """Return names, ends of bars or marks, and texts, for the features shown and one row for all other features."""
        totals = self.total[shown]
        ends = (totals if self.over_rows is None else np.maximum(totals, self.over_rows[shown])).tolist()
        names, texts = [label(self.features[j]) for j in shown], [percent(share) for share in totals]
        if self.over_rows is not None:
            marks = map(percent, self.over_rows[shown])
            texts = [f"{text} (rows: {mark})" for text, mark in zip(texts, marks, strict=True)]
        others = np.delete(self.total, shown)
        if not len(others):
            return names, ends, texts
        text = f"each {percent(others.max())} or less" if others.any() else "no share"
        return [*names, others_name(len(others))], [*ends, 0.0], [*texts, text]

    def _reach(self, shown: NDArray[np.intp]) -> tuple[float, float]:
        """Return the ends of the axis of shares, with room for texts on the right."""
        high = self.total.max() or 1.0
        if self.over_rows is None:
            return 0.0, 1.14 * high
        low, high = self.over_rows[shown].min(initial=0.0), self.over_rows[shown].max(initial=high)
        return low - 0.05 * (high - low) * (low < 0), high + 0.35 * (high - low)

    def _draw_bars(self, ax: Axes, shown: NDArray[np.intp]) -> None:
        y, main, rest = np.arange(len(shown)), self.first_order[shown], (self.total - self.first_order)[shown]
        by_itself, *interactions = self._legend()
        ax.barh(y, main, height=0.7, color=DARK, label=by_itself)
        if interactions:
            ax.barh(y, rest, left=main, height=0.7, color=LIGHT, edgecolor=TEXT, lw=0.4, label=interactions[0])
        handles: list[Any] = [*ax.containers]
        if self.over_rows is not None and len(shown):
            style: dict[str, Any] = {"ms": 5, "mfc": "white", "mec": TEXT, "mew": 1.2, "ls": ""}
            handles += ax.plot(self.over_rows[shown], y, "D", **style, label="over the rows as they are")
            ax.axvline(0.0, color=TEXT, lw=0.8)
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
        ax.legend(handles=handles, frameon=False, fontsize="small", **place)

    def _legend(self) -> list[str]:
        """Return the names of the two parts of a bar, with the shares of the orders."""
        if not len(self.orders):
            return ["the function is constant"]
        sums = [*self.orders[:2], *([self.orders[2:].sum()] if len(self.orders) > 2 else [])]
        single, *rest = (words.replace(THIN, " ") for words in adding_up(sums))
        text, names = (
            f"by itself (all features: {single} of the variance)",
            ("2", f"3{' and more' * (len(self.orders) > 3)}"),
        )
        shares = [f"order {name}: {words}" for name, words in zip(names, rest, strict=False)]
        return [text, f"in interactions ({', '.join(shares)})"] if shares else [text]


@dataclass(frozen=True, eq=False)
class InteractionsDisplay(Display):
    """Display of the variance share of every pair of features, with the shares of single features on the diagonal.

    All shares refer to independent features.
    """

    features: tuple[str, ...]  #: D names
    shares: Floats  #: (D, D), symmetric
    total: Floats  #: (D,): share of all effects that include the feature

    @classmethod
    def from_anova(cls, anova: Anova) -> InteractionsDisplay:
        """Take the variance shares of all single features and pairs."""
        sobol, shares = anova.sobol(), np.zeros((len(anova.features), len(anova.features)))
        shares[np.triu_indices_from(shares, k=1)] = anova.interactions()["variance_share"]
        shares += shares.T
        np.fill_diagonal(shares, sobol["first_order"])
        return cls(anova.features, shares, sobol["total"].to_numpy())

    def plot(self, ax: Axes | None = None, most: int = 30) -> Self:
        """Draw a triangle of cells, darker for larger shares, for the `most` features of largest total share."""
        from matplotlib.colors import PowerNorm

        shown = strongest(self.total, most)
        shown = shown if len(shown) else np.arange(min(most, len(self.features)))
        n = len(shown)
        with axes_or_new(ax, 3.6 + 0.3 * n, 2.4 + 0.3 * n) as ax:
            shares = self.shares[np.ix_(shown, shown)]
            norm = PowerNorm(0.5, vmin=0.0, vmax=shares.max() or 1.0)
            lower = np.where(np.tri(n, dtype=bool), shares, np.nan)
            mesh = ax.pcolormesh(np.arange(n + 1) - 0.5, np.arange(n + 1) - 0.5, lower, norm=norm, cmap="Blues")
            ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
            ax.set_title(self._title(n), fontsize="medium")
            self._outline_diagonal(ax, n)
            texts = np.array(
                [[percent(v).removesuffix(" %") if v >= 1e-4 else "" for v in row] for row in lower], dtype=object
            )
            write_in_cells(ax, texts, norm(shares) > 0.55)
            names = [label(self.features[j]) for j in shown]
            name_ticks(ax, "x", names)
            name_ticks(ax, "y", names)
            ax.spines[:].set_visible(False)
            bar = ax.figure.colorbar(mesh, ax=ax, shrink=0.8, label="share of the variance")
            percent_axis(bar.ax, "y")
        return self._drawn(ax)

    def _title(self, shown: int) -> str:
        left_out = f"{shown} of {len(self.features)} features, " if shown < len(self.features) else ""
        return f"{left_out}single ones on the diagonal"

    def _outline_diagonal(self, ax: Axes, n: int) -> None:
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        cells = [Rectangle((j - 0.5, j - 0.5), 1, 1) for j in range(n)]
        ax.add_collection(
            PatchCollection(cells, facecolor="none", edgecolor=TEXT, linewidth=min(0.8, 4 / n), clip_on=False)
        )
