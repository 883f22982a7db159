"""The kernels that a fit tries: kernels of equal or given relevances, or a learned kernel that won its race."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.progress import Progress
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import observed_spread, rule_of_thumb_bandwidth
from salsa.kernels.symmetric import largest_order
from salsa.learning import Form, Problem
from salsa.learning.learn import learn_rho
from salsa.learning.parameters import PRODUCT_LIMIT
from salsa.losses import Loss
from salsa.options import MONOTONE_ORDER, Options
from salsa.selection.many_rows import MANY, learn_many, second_judgement
from salsa.selection.order import WORTHWHILE, KernelOf, OrderRule, cross_validate, given, increasing, rule_of
from salsa.selection.race import HIGHEST, RACE_ROWS, SMOOTH, finish, monotone_forms, race, sum_forms
from salsa.selection.results import Contender, OrderSearch
from salsa.solvers.alpha import mean_diagonal

RHO_ORDER = 2  # order of the equal-relevance kernel with which the variance of groups' levels is first learned
LEARNING_MINIMUM = 80  # rows below which relevances are not learned
LADDER = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)  # orders of the equal-relevance kernel in the race
EQUAL = "equal relevances are kept: on held-out rows they are clearly better than learned ones"
OVERTAKEN = "relevances are learned: equal ones were clearly better with {} rows, but not on held-out ones of more rows"
DIAGONAL_LIMITS = (1e-100, 1e100)  # beyond these diagonals of a kernel, coefficients may leave the range of float64


class Plan(NamedTuple):
    """The kernel of every order, how orders are tried, the result of the race, and the variance of groups' levels."""

    kernel_of: KernelOf
    rule: OrderRule
    rho: float = 0.0
    contenders: tuple[Contender, ...] = ()
    note: str | None = None


def make_plan(options: Options, problem: Problem, loss: Loss, progress: Progress) -> Plan:
    """Return the kernels to try: one per order, with equal or given relevances, or the learned winner of the race."""
    n, D = problem.X.shape
    rule, kernel_of = rule_of(options.order, _highest(options, D)), _kernel_family(options, problem)
    raced = problem.splits.sample(problem.Y, RACE_ROWS)
    sample = problem.rows(raced)
    rho = 0.0 if problem.noise.group is None else learn_rho(sample, kernel_of(min(RHO_ORDER, D)))
    if not options.kernel.learned:
        return Plan(kernel_of, rule, rho)
    varying = ~observed_spread(problem.X, problem.weight)[2]
    if n < LEARNING_MINIMUM or not varying.any():
        reason = f"fewer than {LEARNING_MINIMUM} rows" if varying.any() else "no column varies"
        return Plan(kernel_of, rule, rho, note=f"{reason}: relevances are equal, not learned")
    bandwidth = None if options.kernel.learned_bandwidth else kernel_of(1).bandwidth
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
    rule, kernel = given([learned.kernel.order]), learned.kernel
    return Plan(lambda order: kernel, rule, learned.rho, contenders, note)


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
    highest = largest_order(_highest(options, sample.X.shape[1]))
    kernel_of, rule = _kernel_family(options, sample), rule_of(options.order, highest)
    if not options.order.candidates:
        rule = increasing([d for d in LADDER if d <= highest], 1, WORTHWHILE)
    search = cross_validate(sample, kernel_of, rule, options.alphas, loss)
    return kernel_of(search.order), search.alpha


def _highest(options: Options, D: int) -> int:
    """Return the highest order that may be tried: monotone features are in terms of order one and two only."""
    return D if options.sign is None else min(D, MONOTONE_ORDER)


def _candidates(options: Options, problem: Problem, varying: NDArray[np.bool_]) -> list[tuple[Form, ...]]:
    """Return the sums to learn: one of all orders, or a single term of each order that is given or alone."""
    D, base, orders, count = problem.X.shape[1], options.kernel.base, options.order.candidates, int(varying.sum())
    if set(problem.base) == {"equality"}:
        base = SMOOTH  # terms of different base kernels would be the same
    if options.kernel.up_to and not orders:
        monotone = None if options.sign is None else options.sign != 0
        return [sum_forms(count, D, base) if monotone is None else monotone_forms(varying, monotone, base)]
    single = dict.fromkeys(min(d, count) for d in orders or range(1, _highest(options, HIGHEST) + 1))
    if options.kernel.up_to:
        return [(Form(base or SMOOTH, 1, d),) for d in single]
    product = count if D <= PRODUCT_LIMIT else 0  # of all features: pruning makes it the product of fewer
    return [(Form(base or SMOOTH) if 1 < d == product else Form(base or SMOOTH, d, d),) for d in single]


def _kernel_family(options: Options, problem: Problem) -> KernelOf:
    """Return the function order -> kernel, with given or equal relevances."""
    choice, D = options.kernel, problem.X.shape[1]
    bandwidth, relevance = choice.bandwidth, np.ones(D) if choice.relevance is None else choice.relevance
    if bandwidth is None:
        bandwidth = rule_of_thumb_bandwidth(problem.X, choice.factor, sample_weight=problem.weight, total=problem.total)

    def kernel_of(order: int) -> AdditiveKernel:
        weights = np.zeros(order + 1)
        weights[1 if choice.up_to else order :] = 1.0
        kernel = AdditiveKernel(bandwidth, relevance, weights, problem.base, problem.distributions)
        low, high = DIAGONAL_LIMITS
        if not low <= (diagonal := mean_diagonal(kernel, problem.X)) <= high:
            cause = f"they give the kernel of order {order} a diagonal of {diagonal:.3g}"
            raise ValueError(f"relevance: {cause}, not between {low:.0e} and {high:.0e}; rescale them")
        return kernel

    return kernel_of
