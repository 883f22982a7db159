"""The choice of interaction order d and ridge alpha by exact cross-validation: no refits, one factor per order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from salsa.archive import entry
from salsa.kernels import Floats
from salsa.moments import mean_and_standard_error, target_variance, weights_or_ones
from salsa.solvers import Factor, Fold, degrees_of_freedom, held_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: alpha relative to the mean diagonal of K: half decades, refined to eighths, widened by two decades up to the limits.
LOG10_GRID = np.arange(-8.0, 4.1, 0.5)
LOG10_LIMITS = (-14.0, 8.0)
REFINEMENTS = (0.25, 0.125)
#: Errors closer than this share of their standard error, or than this share of the target's variance, count as equal:
#: where the error is flat (a noise-free target as alpha falls) rounding must not decide.
INDIFFERENCE = 0.01
INDIFFERENCE_OF_VARIANCE = 1e-10
#: alpha = 0 means this share of the mean diagonal: as little as rounding allows
ALPHA_FLOOR = 1e-14

_NUMBER = {int, float}  # in the header of a model file

POINTS: dict[str, Any] = {"fmt": "o-", "color": "0.35", "capsize": 3, "ms": 5}
CHOSEN: dict[str, Any] = {"marker": "D", "ls": "none", "color": "C1", "ms": 9, "zorder": 3}


class AlphaPath(NamedTuple):
    """Cross-validation error of one order along alpha, ascending; `error` and `standard_error` of the best."""

    alphas: Floats
    errors: Floats
    alpha: float
    error: float
    standard_error: float


class OrderResult(NamedTuple):
    order: int
    path: AlphaPath
    degrees_of_freedom: float
    seconds: float


class Contender(NamedTuple):
    """One kernel of the race between learned and equal relevances: its error on rows that it did not learn from."""

    kernel: str  # "learned", "pruned" or "equal", the base kernel, and "product" where it has no order below
    order: int
    features: int  # of positive relevance
    error: float
    standard_error: float
    seconds: float
    won: bool = False


@dataclass(frozen=True, repr=False)
class OrderSearch:
    """What was tried and found. Errors are fractions of the target's variance: 1 is as good as predicting the mean."""

    results: tuple[OrderResult, ...]  # in the order in which they were tried
    order: int  #: the chosen one
    alpha: float  #: the chosen one
    notes: tuple[str, ...] = field(default=())  #: what was unusual
    contenders: tuple[Contender, ...] = field(default=())  # empty where nothing was learned

    def __repr__(self) -> str:
        tried = f"{len(self.contenders)} kernels" if self.contenders else f"{len(self.results)} orders"
        return f"OrderSearch of {tried}: order {self.order}, alpha {self.alpha:.4g}; see table, race, notes and plot()"

    def with_notes(self, *notes: str | None) -> OrderSearch:
        """The same search with more notes, where there are any."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))

    @property
    def table(self) -> pd.DataFrame:
        """One row per order tried: order, alpha, cv_error, standard_error, degrees_of_freedom, seconds, chosen."""
        rows = [
            (
                r.order,
                r.path.alpha,
                r.path.error,
                r.path.standard_error,
                r.degrees_of_freedom,
                r.seconds,
                r.order == self.order,
            )
            for r in sorted(self.results)
        ]
        names = ["order", "alpha", "cv_error", "standard_error", "degrees_of_freedom", "seconds", "chosen"]
        return pd.DataFrame(rows, columns=names)

    @property
    def race(self) -> pd.DataFrame:
        """One row per contender: kernel, order, features, error, standard_error, seconds, won."""
        return pd.DataFrame(self.contenders, columns=list(Contender._fields))

    def state(self) -> dict[str, Any]:
        """What a model file holds of it, for JSON."""
        results = [
            [r.order, r.path.alphas.tolist(), r.path.errors.tolist(), *r.path[2:], r.degrees_of_freedom, r.seconds]
            for r in self.results
        ]
        return {
            "results": results,
            "order": self.order,
            "alpha": self.alpha,
            "notes": list(self.notes),
            "contenders": [list(contender) for contender in self.contenders],
        }

    @classmethod
    def from_state(cls, state: Any) -> OrderSearch:
        """The inverse of ``state``."""
        rows = entry(state, "results", [({int}, [_NUMBER], [_NUMBER], *5 * [_NUMBER])])
        contenders = entry(state, "contenders", [({str}, {int}, {int}, *3 * [_NUMBER], {bool})])
        order, alpha = entry(state, "order", {int}), entry(state, "alpha", _NUMBER)
        tried = [row[0] for row in rows]
        if alpha < 0 or len(set(tried)) < len(tried) or (tried and order not in tried):
            raise ValueError(
                f"its search of order {order} and alpha {alpha} among the orders {tried} contradicts itself"
            )
        if any(len(alphas) != len(errors) for _, alphas, errors, *_ in rows):
            raise ValueError("its search does not have one error for each alpha")
        results = tuple(
            OrderResult(order, AlphaPath(np.array(alphas, float), np.array(errors, float), *best), dof, seconds)
            for order, alphas, errors, *best, dof, seconds in rows
        )
        notes = tuple(entry(state, "notes", [{str}]))
        return cls(results, order, alpha, notes, tuple(Contender(*contender) for contender in contenders))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Error with one standard error either side: of every kernel of the race, or of every order without one."""
        if not self.results and not self.contenders:
            raise ValueError("order and alpha were given, so nothing was searched: there is no search to plot")
        from matplotlib import pyplot as plt

        size = (8, 1.2 + 0.28 * len(self.contenders)) if self.contenders else (5, 3.2)
        ax = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
        return self._plot_race(ax) if self.contenders else self._plot_orders(ax)

    def _plot_orders(self, ax: Axes) -> Axes:
        from matplotlib.ticker import MaxNLocator

        table = self.table
        best = table[table["chosen"]]
        ax.errorbar(table["order"], table["cv_error"], yerr=table["standard_error"], **POINTS)
        ax.plot(best["order"], best["cv_error"], label=f"chosen: order {self.order}", **CHOSEN)
        ax.set(xlabel="interaction order d", ylabel="cross-validation error / variance")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)  # above: never on the data
        return ax

    def _plot_race(self, ax: Axes) -> Axes:
        race = self.race.sort_values("error", ascending=False).reset_index(drop=True)
        best = race[race["won"]]
        ax.errorbar(race["error"], race.index, xerr=race["standard_error"], **{**POINTS, "fmt": "o"})
        ax.plot(best["error"], best.index, label="chosen, on rows not learned from", **CHOSEN)
        names = [f"{row.kernel}, order {row.order}, {row.features} features" for row in race.itertuples()]
        ax.set_yticks(race.index, names)
        ax.set(xlabel="held-out error / variance")
        ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
        return ax


class Score:
    """Mean squared held-out residual relative to each output's variance, averaged over outputs.

    Weighted, and pooled over all scored rows; its standard error treats the rows' losses as a sample.
    """

    def __init__(self, Y: Floats, folds: Sequence[Fold], sample_weight: Floats | None = None) -> None:
        w = weights_or_ones(sample_weight, len(Y))
        self.scale = target_variance(Y, w)
        self.folds = folds
        self.weight = np.concatenate([w[fold.held_out[fold.test]] for fold in folds])

    def __call__(self, residuals: Sequence[Floats]) -> tuple[float, float]:
        r = np.concatenate([part[fold.test] for part, fold in zip(residuals, self.folds, strict=True)])
        return mean_and_standard_error(np.mean(r**2 / self.scale, axis=1), self.weight)


Loss = Callable[[float], tuple[float, float]]  # alpha -> cross-validation error and its standard error
OrderRule = Callable[[Callable[[int], tuple[float, float]]], None]  # asks for the losses of the orders it wants tried


def search_alpha(loss: Loss, scale: float) -> AlphaPath:
    """The alpha of least loss, to an eighth of a decade; of equally good ones the largest.

    1. A log grid relative to `scale`, the mean diagonal of K. 2. Widened while the best lies at its edge.
    3. Refined by halving the step around the best.
    """
    tried: dict[float, tuple[float, float]] = {}  # log10(alpha / scale) -> loss

    def evaluate(logs: Sequence[float]) -> float:
        tried.update({t: loss(scale * 10.0**t) for t in logs if t not in tried})
        return _best(tried)

    best = evaluate(LOG10_GRID.tolist())
    while best in (min(tried), max(tried)) and LOG10_LIMITS[0] < best < LOG10_LIMITS[1]:
        outwards = 0.5 if best == max(tried) else -0.5
        best = evaluate([best + k * outwards for k in (1, 2, 3, 4)])
    for step in REFINEMENTS:
        best = evaluate([best - step, best + step])
    return _path({scale * 10.0**t: value for t, value in tried.items()})


def try_alphas(loss: Loss, alphas: Sequence[float]) -> AlphaPath:
    """Exactly these candidates."""
    return _path({alpha: loss(alpha) for alpha in alphas})


def _best(tried: dict[float, tuple[float, float]]) -> float:
    """The largest of the equally good."""
    limit = _indifference_limit(tried.values())
    return max(t for t, (error, _) in tried.items() if error <= limit)


def _indifference_limit(losses: Iterable[tuple[float, float]]) -> float:
    """Errors up to this count as equal to the least of (error, standard error)."""
    error, standard_error = min(losses)
    return error + INDIFFERENCE * standard_error + INDIFFERENCE_OF_VARIANCE


def _path(tried: dict[float, tuple[float, float]]) -> AlphaPath:
    alphas = sorted(tried)
    best = _best(tried)
    return AlphaPath(np.array(alphas), np.array([tried[a][0] for a in alphas]), best, *tried[best])


def increasing(orders: Sequence[int], patience: int, worthwhile: float = 0.0) -> OrderRule:
    """Ascending orders until `patience` in a row have not improved on the best by `worthwhile` standard errors."""

    def rule(loss: Callable[[int], tuple[float, float]]) -> None:
        best, waited = np.inf, 0
        for d in orders:
            error, standard_error = loss(d)
            waited = 0 if error < best - worthwhile * standard_error else waited + 1
            best = min(best, error)
            if waited == patience:
                return

    return rule


def bisecting(D: int) -> OrderRule:
    """The paper's binary-search-like procedure on 1..D, for an error that falls and then rises."""

    def rule(loss: Callable[[int], tuple[float, float]]) -> None:
        low, high = 1, D
        while low < high:
            middle = (low + high) // 2
            if loss(middle + 1)[0] < loss(middle)[0]:
                low = middle + 1
            else:
                high = middle
        loss(low)

    return rule


def given(orders: Sequence[int]) -> OrderRule:
    """Exactly these orders."""

    def rule(loss: Callable[[int], tuple[float, float]]) -> None:
        for d in orders:
            loss(d)

    return rule


def search_order(
    factor_of: Callable[[int], Factor],
    Y: Floats,
    folds: Sequence[Fold],
    rule: OrderRule,
    *,
    scale: Callable[[int], float],
    alphas: Sequence[float] | None = None,
    sample_weight: Floats | None = None,
    report: Callable[[OrderResult], None] | None = None,
) -> OrderSearch:
    """Cross-validate the orders that `rule` asks for.

    factor_of(d) is the factor of the order-d kernel matrix, scale(d) its mean diagonal. Of equals the smallest wins.
    """
    score = Score(Y, folds, sample_weight)
    results: dict[int, OrderResult] = {}
    notes: set[str] = set()

    def loss_of(order: int) -> tuple[float, float]:
        if order not in results:
            start = time.perf_counter()
            factor = factor_of(order)
            held = held_out(factor, Y, folds)
            path = search_or_try(lambda alpha: score(held.residuals(alpha)), scale(order), alphas)
            dof = degrees_of_freedom(factor, path.alpha)
            results[order] = OrderResult(order, path, dof, time.perf_counter() - start)
            notes.update(held.notes)
            if report is not None:
                report(results[order])
        return results[order].path[-2:]

    rule(loss_of)
    order = _smallest_good_order(tuple(results.values()))
    return OrderSearch(tuple(results.values()), order, results[order].path.alpha, tuple(sorted(notes)))


def search_or_try(loss: Loss, scale: float, alphas: Sequence[float] | None) -> AlphaPath:
    """Search, or exactly the candidates where there are some."""
    if alphas is None:
        return search_alpha(loss, scale)
    return try_alphas(loss, [max(alpha, ALPHA_FLOOR * scale) for alpha in alphas])


def _smallest_good_order(results: Sequence[OrderResult]) -> int:
    limit = _indifference_limit([(r.path.error, r.path.standard_error) for r in results])
    return min(r.order for r in results if r.path.error <= limit)
