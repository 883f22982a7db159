"""The kernels that a fit tries: kernels of equal or given relevances, or a learned kernel that won its race."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import Progress
from salsa.data.interaction_sets import Sets, disjoint_layers, lone_features, maximal
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import observed_spread, rule_of_thumb_bandwidth
from salsa.kernels.sum import sum_of
from salsa.kernels.symmetric import largest_order, weights_within
from salsa.learning import Form, LearnedKernel, Problem
from salsa.learning.learn import Forms, learn_rho
from salsa.learning.parameters import products_fit
from salsa.losses import Loss
from salsa.options import MONOTONE_ORDER, Options
from salsa.selection.many_rows import MANY, learn_many, second_judgement
from salsa.selection.order import WORTHWHILE, KernelOf, OrderRule, cross_validate, given, increasing, rule_of
from salsa.selection.race import (
    HIGHEST,
    RACE_ROWS,
    SMOOTH,
    finish,
    monotone_forms,
    monotone_set_forms,
    race,
    set_forms,
    sum_forms,
)
from salsa.selection.results import Contender, OrderSearch
from salsa.solvers.alpha import mean_diagonal

RHO_ORDER = 2  # order of the equal-relevance kernel with which the variance of groups' levels is first learned
LEARNING_MINIMUM = 80  # rows below which relevances are not learned
LADDER = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)  # orders of the equal-relevance kernel in the race
EQUAL = "equal relevances are kept: on held-out rows they are clearly better than learned ones"
OVERTAKEN = "relevances are learned: equal ones were clearly better with {} rows, but not on held-out ones of more rows"
DIAGONAL_LIMITS = (1e-100, 1e100)  # beyond these diagonals of a kernel, coefficients may leave the range of float64


class Appeal(NamedTuple):
    """What another loss needs to judge the race again: rows, either half's winner, and the kernel it has beaten."""

    raced: Places  # rows of the race
    half: Places  # (m,) of these rows
    pair: tuple[Kernel, ...]  # learned on either half
    equal: Kernel
    plan: Plan  # if equal relevances win


class Plan(NamedTuple):
    """The kernel of every order, how orders are tried, the result of the race, and the variance of groups' levels."""

    kernel_of: KernelOf
    rule: OrderRule
    rho: float = 0.0
    contenders: tuple[Contender, ...] = ()
    note: str | None = None
    learned: LearnedKernel | None = None  # the winner of the race, if its relevances are learned
    appeal: Appeal | None = None  # against this winner, unless there is no doubt


def make_plan(options: Options, problem: Problem, loss: Loss, progress: Progress) -> Plan:
    """Return the kernels to try: one per order, with equal or given relevances, or the learned winner of the race."""
    n, most = len(problem.X), _largest_order(options, problem)
    rule, kernel_of = rule_of(options.order, most), _kernel_family(options, problem)
    raced = problem.splits.sample(problem.Y, RACE_ROWS)
    sample = problem.rows(raced)
    rho = 0.0 if problem.noise.group is None else learn_rho(sample, kernel_of(min(RHO_ORDER, most)))
    if not options.kernel.learned:
        return Plan(kernel_of, rule, rho)
    varying = ~observed_spread(problem.X, problem.weight)[2]
    if n < LEARNING_MINIMUM or not varying.any():
        reason = f"fewer than {LEARNING_MINIMUM} rows" if varying.any() else "no column varies"
        return Plan(kernel_of, rule, rho, note=f"{reason}: relevances are equal, not learned")
    bandwidth = None if options.kernel.learned_bandwidth else _bandwidths(options, problem)
    problem, sample = (rows._replace(bandwidth=bandwidth).with_rho(rho) for rows in (problem, sample))
    equal, alpha = _equal_contender(options, sample, loss)
    total = float(n) if problem.total is None else problem.total
    found = race(sample, _candidates(options, sample, varying), equal, alpha, loss, progress)
    learned, note = None, None
    if not found.equal_won:
        learned = (finish if total <= MANY else learn_many)(problem, found.winner, progress)
    elif total > MANY:
        learned = second_judgement(
            problem, raced, found.winner, lambda rows: _equal_contender(options, rows, loss), loss, progress
        )
        note = OVERTAKEN.format(len(raced))
    contenders = found.record(equal_won=learned is None)
    if learned is None:
        return Plan(kernel_of, rule, rho, contenders, EQUAL)
    pair, simple = tuple(half.kernel for half in found.winner.pair), found.record(equal_won=True)
    doubtful = not found.certain and total <= MANY  # more rows teach far more than the race has shown
    appeal = Appeal(raced, found.half, pair, equal, Plan(kernel_of, rule, rho, simple)) if doubtful else None
    rule, kernel = given([learned.kernel.order]), learned.kernel
    return Plan(lambda order: kernel, rule, learned.rho, contenders, note, learned, appeal)


def equal_kernel(options: Options, problem: Problem, order: int) -> Kernel:
    """Return the kernel of this order with equal or given relevances."""
    return _kernel_family(options, problem)(order)


def choose_order(options: Options, problem: Problem, plan: Plan, loss: Loss, progress: Progress) -> OrderSearch:
    """Choose order and alpha by cross-validation, unless both are given or there is a single observation."""
    candidates, alphas = options.order.candidates, options.alphas
    if problem.splits.folds and (len(candidates) != 1 or alphas is None or len(alphas) > 1):
        problem = problem.with_rho(plan.rho)
        return cross_validate(problem, plan.kernel_of, plan.rule, alphas, loss, progress)
    note = "order and alpha were given, or there is one row or group: nothing to search"
    order = candidates[0] if len(candidates) == 1 else 1
    return OrderSearch((), plan.kernel_of(order).order, alphas[0] if alphas else 1.0, (note,))


def _equal_contender(options: Options, sample: Problem, loss: Loss) -> tuple[Kernel, float]:
    """Return the equal-relevance kernel and its alpha by cross-validation on these rows, over a ladder of orders."""
    most = _largest_order(options, sample)
    kernel_of, rule = _kernel_family(options, sample), rule_of(options.order, most)
    if not options.order.candidates:
        rule = increasing([d for d in LADDER if d <= most], 1, WORTHWHILE)
    search = cross_validate(sample, kernel_of, rule, options.alphas, loss)
    return kernel_of(search.order), search.alpha


def _largest_order(options: Options, problem: Problem) -> int:
    """Return the largest order that is allowed, and whose number of products is a float64."""
    D, allowed = problem.X.shape[1], options.kernel.allowed
    most = min(allowed.most(D) if any(allowed) else D, largest_order(D))
    return most if options.sign is None else min(most, MONOTONE_ORDER)


def _candidates(options: Options, problem: Problem, varying: NDArray[np.bool_]) -> list[Forms]:
    """Return the sums to learn: one of all orders, or one of each order that is given or alone.

    `varying` (D,) are the features that vary. A set that holds all of them is no constraint.
    """
    D, choice, orders = problem.X.shape[1], options.kernel, options.order.candidates
    base = SMOOTH if set(problem.base) == {"equality"} else choice.base  # terms of other base kernels would be the same
    highest, sets = choice.allowed
    if sets:
        sets = maximal([j for j in S if varying[j]] for S in sets)
    count = max(map(len, sets), default=int(varying.sum()))
    sets = sets if len(sets) > 1 else ()
    if choice.up_to and not orders and highest is None:
        if options.sign is not None:
            monotone = options.sign != 0
            return [monotone_set_forms(sets, monotone, base) if sets else monotone_forms(varying, monotone, base)]
        return [set_forms(sets, D, base) if sets else sum_forms(count, D, base)]
    if not orders and choice.up_to and highest is not None:
        orders = (highest,)
    most = min(HIGHEST, _largest_order(options, problem))
    single = dict.fromkeys(min(d, count) for d in orders or range(1, most + 1))
    if choice.up_to:
        of_order = partial(set_forms, sets, D, base)
        return [of_order(d) if sets and d > 1 else (Form(base or SMOOTH, 1, d),) for d in single]
    return [_exact_forms(d, sets if d > 1 else (), D, count, base or SMOOTH) for d in single]


def _exact_forms(order: int, sets: Sets, D: int, varying: int, base: str) -> Forms:
    """Return the terms of this order alone; a set of fewer features has the product of its features.

    The product of all features that vary is a product: pruning makes it the product of fewer.
    """
    if not sets:
        return (Form(base) if 1 < order == varying and products_fit(D, D) else Form(base, order, order),)
    layers = [(layer, min(order, len(layer[0]))) for layer in disjoint_layers(sets)]
    forms = [
        Form(base, sets=layer) if d == len(layer[0]) and products_fit(d, D) else Form(base, d, d, layer)
        for layer, d in layers
    ]
    lone = lone_features(sets)
    return (*forms, Form(base, 1, 1, (lone,))) if lone else tuple(forms)


def _bandwidths(options: Options, problem: Problem) -> Floats:
    """Return the bandwidths (D,): given ones, or the rule of thumb."""
    given_ones, factor = options.kernel.bandwidth, options.kernel.factor
    if given_ones is not None:
        return given_ones
    return rule_of_thumb_bandwidth(problem.X, factor, sample_weight=problem.weight, total=problem.total)


def _kernel_family(options: Options, problem: Problem) -> KernelOf:
    """Return the function order -> kernel, with given or equal relevances.

    With sets of features, the kernel is the sum of the kernels of every set. A set of fewer features than the order has
    the order of all its features.
    """
    choice, D = options.kernel, problem.X.shape[1]
    bandwidth, relevance = _bandwidths(options, problem), np.ones(D) if choice.relevance is None else choice.relevance
    shared = problem.base, problem.distributions
    sets = [(S, len(S)) for S in choice.allowed.sets if len(S) > 1]
    if len(sets) < len(choice.allowed.sets):
        sets.append((lone_features(choice.allowed.sets), 1))  # one term for all: order 1 is the sum over features

    def weights_of(order: int) -> Floats:
        weights = np.zeros(order + 1)
        weights[1 if choice.up_to else order :] = 1.0
        return weights

    def of_set(S: tuple[int, ...], size: int, order: int) -> AdditiveKernel:
        own = np.where(np.isin(np.arange(D), S), relevance, 0.0)
        return AdditiveKernel(bandwidth, own, weights_within(D, size, weights_of(min(order, size))), *shared)

    def kernel_of(order: int) -> Kernel:
        whole = [] if sets else [AdditiveKernel(bandwidth, relevance, weights_of(order), *shared)]
        kernel = sum_of(whole or [of_set(S, size, order) for S, size in sets])
        low, high = DIAGONAL_LIMITS
        if not low <= (diagonal := mean_diagonal(kernel, problem.X)) <= high:
            cause = f"they give the kernel of order {order} a diagonal of {diagonal:.3g}"
            raise ValueError(f"relevance: {cause}, not between {low:.0e} and {high:.0e}; rescale them")
        return kernel

    return kernel_of
