"""The record of a search: what was tried, and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from salsa.solvers.alpha import AlphaPath

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.kernels import Kernel
    from salsa.kernels.additive import AdditiveKernel
    from salsa.selection.display import SearchDisplay


class OrderResult(NamedTuple):
    """One order that was tried: errors along alpha, degrees of freedom at the best alpha, and the seconds it took."""

    order: int
    path: AlphaPath
    degrees_of_freedom: float
    seconds: float


class Contender(NamedTuple):
    """One kernel of the race between learned and equal relevances: its error on rows that it did not learn from."""

    origin: str  # "learned", "pruned" or "equal"
    base: str
    is_product: bool  # a product of features, without lower orders
    order: int
    features: int  # number of features with positive relevance
    error: float
    standard_error: float
    seconds: float
    won: bool = False

    @property
    def kernel(self) -> str:
        """The kernel in words: origin, base kernel and whether it is a product."""
        return f"{self.origin} {self.base}{' product' if self.is_product else ''}"


class Component(NamedTuple):
    """One term of the fitted kernel, in words and numbers; its fields are the columns of ``OrderSearch.components``."""

    kernel: str  # base kernel of the numbers
    orders: str  # "2", "1 to 3", or "all 8" for the product of all features in use
    features: int  # number of features in use
    share: float  # share of the variance of f
    positions: tuple[int, ...] = ()  # the features in use


def components_of(kernel: Kernel, shares: Sequence[float]) -> tuple[Component, ...]:
    """Describe the terms of a kernel, whose parts have these shares of the variance of f."""
    used = [tuple(np.flatnonzero(term.relevance > 0).tolist()) for term in kernel.terms]
    return tuple(
        Component(term.numeric_base, _orders_in_words(term), len(positions), share, positions)
        for term, share, positions in zip(kernel.terms, shares, used, strict=True)
    )


def _orders_in_words(term: AdditiveKernel) -> str:
    """Return the orders with a weight; orders above the number of features in use are empty."""
    used = int(np.sum(term.relevance > 0))
    orders = np.flatnonzero(term.order_weights[: used + 1] > 0).tolist()
    if orders == [used] and used > 1:
        return f"all {used}"
    if len(orders) > 1 and orders == list(range(orders[0], orders[-1] + 1)):
        return f"{orders[0]} to {orders[-1]}"
    return ", ".join(map(str, orders)) or "none"


@dataclass(frozen=True, repr=False)
class OrderSearch:
    """A search and its result. Errors are fractions of the target's variance: 1 is as good as predicting the mean."""

    results: tuple[OrderResult, ...]  #: rows of `table`, in the order in which they were tried
    order: int  #: the chosen order
    alpha: float  #: the chosen penalty
    notes: tuple[str, ...] = field(default=())  #: remarks on anything unusual
    contenders: tuple[Contender, ...] = field(default=())  #: rows of `race`; empty if nothing was learned
    rho: float = 0.0  #: variance of the groups' levels, in units of the noise variance; 0 without groups
    interval_scale: tuple[str, ...] = ()  #: per output what intervals scale with: "constant", "posterior" or "local"
    terms: tuple[Component, ...] = ()  #: rows of `components`; empty until the kernel is fitted
    groups: int = 0  #: number of groups, which were held out whole; 0 without groups
    copies: int = 0  #: number of rows that were merged, because they are copies of others

    def __repr__(self) -> str:
        tried = f"{len(self.contenders)} kernels" if self.contenders else f"{len(self.results)} orders"
        return f"OrderSearch of {tried}: order {self.order}, alpha {self.alpha:.4g}; see table, race, notes and plot()"

    def with_result(self, result: OrderResult) -> OrderSearch:
        """Return the search that has chosen this result, which takes the place of the one of its order."""
        others = (other for other in self.results if other.order != result.order)
        return replace(self, results=(*others, result), order=result.order, alpha=result.path.alpha)

    def with_notes(self, *notes: str | None) -> OrderSearch:
        """Return the search with more notes, where there are any."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))

    @property
    def winner(self) -> Contender | None:
        """The kernel that won the race; None if nothing was learned."""
        return next((contender for contender in self.contenders if contender.won), None)

    def after_race(self, used: int) -> str:
        """Say which order and features the fit has, which uses so many, that the kernel of the race had not.

        The kernel is learned again from all rows, and features that were pruned can come back. "" if nothing changed;
        fewer features are not mentioned.
        """
        if (won := self.winner) is None:
            return ""
        changed = [f"order {self.order}"] if won.order != self.order else []
        if (more := used - won.features) > 0:
            changed.append(f"{used} features: {more} that the race had left out came back")
        return " and ".join(changed)

    @property
    def table(self) -> pd.DataFrame:
        """One row per order tried: order, alpha, cv_error, standard_error, degrees_of_freedom, seconds, chosen."""
        rows = [
            (r.order, *r.path[2:], r.degrees_of_freedom, r.seconds, r.order == self.order) for r in sorted(self.results)
        ]
        names = ["order", "alpha", "cv_error", "standard_error", "degrees_of_freedom", "seconds", "chosen"]
        return pd.DataFrame(rows, columns=names)

    @property
    def race(self) -> pd.DataFrame:
        """One row per contender: kernel, order, features, error, standard_error, seconds, won."""
        names = ["kernel", "order", "features", "error", "standard_error", "seconds", "won"]
        rows = [tuple(getattr(contender, name) for name in names) for contender in self.contenders]
        return pd.DataFrame(rows, columns=names)

    @property
    def components(self) -> pd.DataFrame:
        """One row per term of the fitted kernel: kernel, orders, features, share (of the variance of f).

        Where terms have different features, as with ``interaction_cst``, positions are the numbers of the features.
        """
        table = pd.DataFrame(self.terms, columns=Component._fields)
        same = len({component.positions for component in self.terms}) <= 1
        return table.drop(columns="positions") if same else table

    def plot(self, ax: Axes | None = None) -> SearchDisplay:
        """Draw held-out errors with one standard error on either side: of the kernels or orders tried, and along alpha.

        On given axes, only what was tried is drawn. The display that is returned has the axes (`ax_`, `axes_`) and the
        figure (`figure_`).
        """
        from salsa.selection.display import SearchDisplay

        return SearchDisplay(self).plot(ax)
