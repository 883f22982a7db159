"""From a problem and the user's choices to a function: the kernels to try, order and alpha, and the fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import RandomState

from salsa import parameters
from salsa.cvplus import CVPlus
from salsa.expansion import KernelExpansion
from salsa.folds import make_folds
from salsa.guard import RACE_ROWS, ROUGHER, SMOOTHER, USUAL_BASE, finish, race, stratified_rows
from salsa.kernels import AdditiveKernel, Floats, largest_order, marginal_of, observed_spread
from salsa.learning import Problem
from salsa.moments import weights_or_ones
from salsa.progress import Progress
from salsa.selection import (
    ALPHA_FLOOR,
    Contender,
    OrderResult,
    OrderRule,
    OrderSearch,
    given,
    increasing,
    search_order,
)
from salsa.solvers import Fold, exact_factor, solve_once

LEARNING_MINIMUM = 80  # rows below which relevances are not learned
LADDER = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)  # orders of the equal-relevance kernel in the race
DIAGONAL_LIMITS = (1e-100, 1e100)  # of the kernel: beyond these, coefficients may leave the range of float64


class Choices(Protocol):
    """The parameters of ``SalsaRegressor`` that concern the kernel and its penalty."""

    order: Any
    alpha: Any
    relevance: Any
    interactions: str
    kernel: str
    bandwidth: Any


class Plan(NamedTuple):
    """The kernel of every order, how orders are tried, and what the race between kernels said."""

    kernel_of: Callable[[int], AdditiveKernel]
    rule: OrderRule
    contenders: tuple[Contender, ...] = ()
    note: str | None = None


class Fit(NamedTuple):
    """What a solver returns: what it chose, the function, and what it kept of rows that the function does not hold."""

    search: OrderSearch
    expansion: KernelExpansion
    uncertainty: CVPlus | None = None
    weight: Floats | None = None  # of the anchors, where these are the rows of an exact fit and weights were given
    averaged: bool = False  # a mean of fits, whose coefficients are not those of a ridge fit to all rows


def make_plan(choices: Choices, problem: Problem, random_state: RandomState, progress: Progress) -> Plan:
    """Which kernels are to be tried: those of equal or given relevances, or a learned one that proved better."""
    D = problem.X.shape[1]
    rule, kernel_of = parameters.order_rule(choices.order, D), _kernel_family(choices, problem)
    if not parameters.is_text(choices.relevance, "learned"):
        return Plan(kernel_of, rule)
    weight = weights_or_ones(problem.weight, len(problem.X))
    varying = int(np.sum(~observed_spread(problem.X, weight)[2]))
    total = weight.sum()
    if total < LEARNING_MINIMUM or varying == 0:
        reason = "no column varies" if varying == 0 else f"fewer than {LEARNING_MINIMUM} rows"
        return Plan(kernel_of, rule, note=f"{reason}: relevances are equal, not learned")
    given_bandwidth = None if parameters.is_text(choices.bandwidth, "auto") else kernel_of(1).bandwidth
    problem = problem._replace(bandwidth=given_bandwidth)
    sample = problem.rows(stratified_rows(problem, RACE_ROWS, random_state))
    equal, alpha = _equal_contender(choices, sample)
    structures = parameters.structures(choices.order, choices.interactions, D, varying)
    other_bases: tuple[Sequence[str], ...] = ()
    if parameters.is_text(choices.kernel, "auto") and set(sample.base) != {"equality"}:
        sample, other_bases = sample.with_base(USUAL_BASE), (SMOOTHER, ROUGHER)
    contenders, winner, allowance = race(
        sample, structures, equal, alpha, random_state, other_bases, progress.contender
    )
    if winner is None:
        note = "equal relevances are kept: the learned kernel, after pruning, does not predict better"
        return Plan(kernel_of, rule, contenders, note)
    kernel = finish(problem, winner, allowance, random_state).kernel
    return Plan(lambda order: kernel, given([kernel.order]), contenders)


def _equal_contender(choices: Choices, sample: Problem) -> tuple[AdditiveKernel, float]:
    """The equal-relevance kernel and its alpha by cross-validation on these rows, over a ladder of orders."""
    D = sample.X.shape[1]
    kernel_of = _kernel_family(choices, sample)
    rule = parameters.order_rule(choices.order, D)
    if isinstance(choices.order, str):
        rule = increasing([d for d in LADDER if d <= largest_order(D)], 1, parameters.WORTHWHILE)
    folds = make_folds(5, sample.X, sample.Y, np.ones(len(sample.X), dtype=bool), 0)
    search = _cross_validate(choices, sample, Plan(kernel_of, rule), folds)
    return kernel_of(search.order), search.alpha


def _kernel_family(choices: Choices, problem: Problem) -> Callable[[int], AdditiveKernel]:
    """order -> kernel of given or equal relevances."""
    bandwidth = parameters.bandwidths(choices.bandwidth, problem.X, problem.weight, problem.total)
    relevance = parameters.relevances(choices.relevance, problem.X.shape[1])

    def kernel_of(order: int) -> AdditiveKernel:
        weights = np.zeros(order + 1)
        weights[1 if choices.interactions == "up_to" else order :] = 1.0
        kernel = AdditiveKernel(bandwidth, relevance, weights, problem.base, problem.distributions)
        low, high = DIAGONAL_LIMITS
        if not low <= (diagonal := mean_diagonal(kernel, problem.X)) <= high:
            cause = f"they give the kernel of order {order} a diagonal of {diagonal:.3g}"
            raise ValueError(f"relevance: {cause}, not between {low:.0e} and {high:.0e}; rescale them")
        return kernel

    return kernel_of


def search(
    choices: Choices, problem: Problem, plan: Plan, folds: Callable[[], list[Fold]], progress: Progress
) -> OrderSearch:
    """Order and alpha by cross-validation, unless both are given or there is a single row."""
    order = parameters.single_order(choices.order, problem.X.shape[1])
    alphas = parameters.alpha_candidates(choices.alpha)
    if len(problem.X) > 1 and (order is None or alphas is None or len(alphas) > 1):
        return _cross_validate(choices, problem, plan, folds(), progress.order)
    note = "order and alpha were given, or there is one row: nothing to search"
    return OrderSearch((), plan.kernel_of(order or 1).order, alphas[0] if alphas else 1.0, (note,))


def _cross_validate(
    choices: Choices,
    problem: Problem,
    plan: Plan,
    folds: list[Fold],
    report: Callable[[OrderResult], None] | None = None,
) -> OrderSearch:
    return search_order(
        lambda order: exact_factor(plan.kernel_of(order)(problem.X, n_threads=problem.threads), problem.weight),
        problem.Y,
        folds,
        plan.rule,
        scale=lambda order: mean_diagonal(plan.kernel_of(order), problem.X),
        alphas=parameters.alpha_candidates(choices.alpha),
        sample_weight=problem.weight,
        report=report,
    )


def fit_exact(
    choices: Choices, problem: Problem, plan: Plan, folds: Callable[[], list[Fold]], progress: Progress
) -> Fit:
    """Order and alpha on all rows; then one Cholesky factor at that alpha, so that no eigenvectors need be kept."""
    found = search(choices, problem, plan, folds, progress)
    kernel, (X, Y, weight) = plan.kernel_of(found.order), problem[:3]
    coef, offset, note = solve_once(kernel(X, n_threads=problem.threads), Y, penalty(kernel, X, found.alpha), weight)
    marginals = None if weight is None else tuple(marginal_of(x, weight) for x in X.T)
    return Fit(found.with_notes(note), KernelExpansion(kernel, X, coef, offset, marginals), weight=weight)


def penalty(kernel: AdditiveKernel, X: Floats, alpha: float) -> float:
    """What is added to the diagonal for this alpha: at least as much as rounding asks for."""
    return max(alpha, ALPHA_FLOOR * mean_diagonal(kernel, X))


def mean_diagonal(kernel: AdditiveKernel, X: Floats) -> float:
    """Of K; 1 for a kernel that vanishes. Not of W K: a row of weight 2 is two rows on the diagonal."""
    return float(kernel.diagonal(X).mean()) or 1.0
