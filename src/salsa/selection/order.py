"""The choice of the interaction order d by exact cross-validation: no refits, one factor per order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import VARIANCE, Progress
from salsa.data.splits import Fold
from salsa.kernels import Kernel
from salsa.kernels.symmetric import largest_order
from salsa.learning import Problem
from salsa.losses import Loss
from salsa.options import OrderChoice
from salsa.selection.results import OrderResult, OrderSearch
from salsa.solvers.alpha import Score, choose_alpha, indifference_limit, mean_diagonal
from salsa.solvers.factor import Factor, exact_factor
from salsa.solvers.ridge import degrees_of_freedom, held_out, held_out_error

PATIENCE = 3  # orders without improvement before the search stops, as in the authors' program
WORTHWHILE = 0.1  # an improvement counts from so many standard errors on: steps within the noise end the search

KernelOf = Callable[[int], Kernel]  # order -> kernel
OrderRule = Callable[[Callable[[int], tuple[float, float]]], None]  # asks for the error of each order to try


def rule_of(order: OrderChoice, D: int) -> OrderRule:
    """Return the rule that decides which of the orders 1..D are tried."""
    if order.candidates:
        return given(order.candidates)
    highest = largest_order(D)
    return bisecting(highest) if order.bisect else increasing(range(1, highest + 1), PATIENCE, WORTHWHILE)


def increasing(orders: Sequence[int], patience: int, worthwhile: float = 0.0) -> OrderRule:
    """Try ascending orders until `patience` in a row have not improved on the best by `worthwhile` standard errors."""

    def rule(error_of: Callable[[int], tuple[float, float]]) -> None:
        best, waited = np.inf, 0
        for d in orders:
            error, standard_error = error_of(d)
            waited = 0 if error < best - worthwhile * standard_error else waited + 1
            best = min(best, error)
            if waited == patience:
                return

    return rule


def bisecting(D: int) -> OrderRule:
    """Follow the paper's binary-search-like procedure on 1..D, for an error that falls and then rises."""

    def rule(error_of: Callable[[int], tuple[float, float]]) -> None:
        low, high = 1, D
        while low < high:
            middle = (low + high) // 2
            if error_of(middle + 1)[0] < error_of(middle)[0]:
                low = middle + 1
            else:
                high = middle
        error_of(low)

    return rule


def given(orders: Sequence[int]) -> OrderRule:
    """Try exactly these orders."""

    def rule(error_of: Callable[[int], tuple[float, float]]) -> None:
        for d in orders:
            error_of(d)

    return rule


def search_order(
    factor_of: Callable[[int], Factor],
    Y: Floats,
    folds: Sequence[Fold],
    rule: OrderRule,
    loss: Loss,
    *,
    scale: Callable[[int], float],
    alphas: Sequence[float] | None = None,
    sample_weight: Floats | None = None,
    unit: Places | None = None,
    progress: Progress | None = None,
) -> OrderSearch:
    """Cross-validate the orders that `rule` asks for; of equally good orders the smallest wins.

    factor_of(d) is the factor of the order-d kernel matrix, scale(d) its mean diagonal, unit (n,) what is held out
    together.
    """
    score = Score(Y, folds, sample_weight, loss, unit)
    results: dict[int, OrderResult] = {}
    notes: set[str] = set()

    def error_of(order: int) -> tuple[float, float]:
        if order not in results:
            start = time.perf_counter()
            if progress is not None:
                progress.step(f"order {order}, exact fits to {len(Y)} rows")
            factor = factor_of(order)
            held = held_out(factor, Y, folds)
            path = choose_alpha(partial(held_out_error, score, held), scale(order), alphas)
            dof = degrees_of_freedom(factor, path.alpha)
            results[order] = OrderResult(order, path, dof, time.perf_counter() - start)
            notes.update(held.notes)
            if progress is not None:
                tell(progress, results[order])
        return results[order].path[-2:]

    rule(error_of)
    order = smallest_good_order(tuple(results.values()))
    return OrderSearch(tuple(results.values()), order, results[order].path.alpha, tuple(sorted(notes)))


def cross_validate(
    problem: Problem,
    kernel_of: KernelOf,
    rule: OrderRule,
    alphas: Sequence[float] | None,
    loss: Loss,
    progress: Progress | None = None,
) -> OrderSearch:
    """Choose order and alpha by the cross-validation error of exact fits to the rows of the problem."""
    return search_order(
        lambda order: exact_factor(kernel_of(order)(problem.X, n_threads=problem.threads), problem.noise),
        problem.Y,
        problem.splits.folds,
        rule,
        loss,
        scale=lambda order: mean_diagonal(kernel_of(order), problem.X),
        alphas=alphas,
        sample_weight=problem.weight,
        unit=problem.splits.unit,
        progress=progress,
    )


def tell(progress: Progress, result: OrderResult, unit: str = VARIANCE) -> None:
    """Report an order that was tried; `unit` is the unit of its error."""
    progress.tried(f"order {result.order}", result.path.error, result.path.standard_error, result.seconds, unit)


def smallest_good_order(results: Sequence[OrderResult]) -> int:
    limit = indifference_limit([(r.path.error, r.path.standard_error) for r in results])
    return min(r.order for r in results if r.path.error <= limit)
