"""Displays of the variance shares of features and of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.drawing import (
    DARK,
    LIGHT,
    TEXT,
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
class ImportanceDisplay:
    """Display of the variance share of every feature: by itself, and in all interactions that include the feature."""

    features: tuple[str, ...]
    first_order: Floats  # (D,)
    total: Floats  # (D,)
    orders: Floats  # (d,): shares of all effects of order 1..d; empty if the function is constant

    @classmethod
    def from_anova(cls, anova: Anova) -> ImportanceDisplay:
        """Take the first-order and total Sobol indices, and the variance share of every order."""
        sobol = anova.sobol()
        orders = anova.orders()["variance_share"].to_numpy()
        return cls(anova.features, sobol["first_order"].to_numpy(), sobol["total"].to_numpy(), orders)

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw bars, largest first. An interaction counts for each of its features: bars can add up to more than 100 %.

        The legend gives the share of all features by themselves, and of the interactions of every order.
        """
        shown = strongest(self.total, most)
        names, ends, texts = self._rows(shown)
        with axes_or_new(ax, 6.0, 1.5 + 0.25 * len(names)) as ax:
            self._draw_bars(ax, shown)
            write_beside(ax, texts, ends, size=name_ticks(ax, "y", names))
            ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(0.0, 1.14 * (self.total.max() or 1.0)))
            ax.set_xlabel("share of the variance")
            percent_axis(ax, "x")
            ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _rows(self, shown: NDArray[np.intp]) -> tuple[list[str], list[float], list[str]]:
        """Return names, ends of bars and their texts, for the features shown and one row for all other features."""
        ends = self.total[shown].tolist()
        names, texts = [label(self.features[j]) for j in shown], [percent(share) for share in ends]
        others = np.delete(self.total, shown)
        if not len(others):
            return names, ends, texts
        text = f"each {percent(others.max())} or less" if others.any() else "no share"
        return [*names, others_name(len(others))], [*ends, 0.0], [*texts, text]

    def _draw_bars(self, ax: Axes, shown: NDArray[np.intp]) -> None:
        y, main, rest = np.arange(len(shown)), self.first_order[shown], (self.total - self.first_order)[shown]
        by_itself, *interactions = self._legend()
        ax.barh(y, main, height=0.7, color=DARK, label=by_itself)
        if interactions:
            ax.barh(y, rest, left=main, height=0.7, color=LIGHT, edgecolor=TEXT, lw=0.4, label=interactions[0])
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, fontsize="small")

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
class InteractionsDisplay:
    """Display of the variance share of every pair of features, with the shares of single features on the diagonal."""

    features: tuple[str, ...]
    shares: Floats  # (D, D), symmetric
    total: Floats  # (D,): share of all effects that include the feature

    @classmethod
    def from_anova(cls, anova: Anova) -> InteractionsDisplay:
        """Take the variance shares of all single features and pairs."""
        sobol, shares = anova.sobol(), np.zeros((len(anova.features), len(anova.features)))
        shares[np.triu_indices_from(shares, k=1)] = anova.interactions()["variance_share"]
        shares += shares.T
        np.fill_diagonal(shares, sobol["first_order"])
        return cls(anova.features, shares, sobol["total"].to_numpy())

    def plot(self, ax: Axes | None = None, most: int = 30) -> Axes:
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
        return ax

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
