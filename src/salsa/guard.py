"""The guard: learned kernels and the equal-relevance kernel compete on rows that learned nothing.

Learning fits up to two numbers per feature, which cross-validation with a fixed kernel does not see. So every learned
structure is learned twice, on either half of the rows, and judged by its leave-one-out residuals on the other half: the
coefficients may use all rows but one, the kernel only the half that does not hold the row. The winner is then learned
again on all rows, from where it stands. The constant has no place of its own: every kernel becomes it for large alpha.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from salsa.kernels import AdditiveKernel, Floats, elementary_symmetric, largest_order
from salsa.learning import LearnedKernel, Problem, Structure, learn_kernel, leave_one_out_losses, refine_kernel
from salsa.moments import mean_and_standard_error, weights_or_ones
from salsa.selection import Contender

RACE_ROWS = 800  # rows that decide the race, half of them for each learning
LEARNING_ROWS = 2000  # rows that the winner is learned from
FIRST, NEXT, LAST = 25, 12, 15  # iterations: from scratch, from another structure's kernel, of the winner on all rows
NEGLIGIBLE = 1e-4  # share of the prior variance below which an order at the end is cut off

Pair = tuple[LearnedKernel, LearnedKernel]  # learned on either half


class Race(NamedTuple):
    """Who ran, and the winning structure as learned on one half; None where equal relevances win."""

    contenders: tuple[Contender, ...]
    winner: LearnedKernel | None


def race_structures(D: int, interactions: str) -> list[Structure]:
    """Orders 1..2 (where the others start), 1, 1..3, up to 12 together, and all features at once (if not too many)."""
    pairs = [(1, 2), (1, 1), (1, 3), (1, 12), (D, D)] if interactions == "up_to" else [(d, d) for d in (2, 1, 3, 4, D)]
    structures = dict.fromkeys(Structure(min(low, D), min(high, D)) for low, high in pairs)
    return [structure for structure in structures if structure.highest <= largest_order(D)]


def race(
    sample: Problem,
    structures: Sequence[Structure],
    equal: AdditiveKernel,
    alpha: float,
    random_state: RandomState,
    other_base: tuple[str, ...] | None = None,
) -> Race:
    """Let the structures compete with the equal-relevance kernel; the least held-out loss wins.

    The best structure runs once more with `other_base`, from where it stands.
    """
    half = stratified_halves(sample, random_state)
    begin = time.perf_counter()
    losses = leave_one_out_losses(sample, equal, alpha)
    entries: list[tuple[Contender, Pair | None]] = [(_contender("equal", equal, losses, sample.weight, begin), None)]

    def enter(problem: Problem, structure: Structure, start: Pair | None) -> Pair:
        begin = time.perf_counter()
        pair, losses = _learn_halves(problem, half, structure, start)
        entries.append((_contender("learned", pair[0].kernel, losses, sample.weight, begin), pair))
        return pair

    first = enter(sample, structures[0], None)
    for structure in structures[1:]:
        enter(sample, structure, first)
    best = _least_error(entries[1:]) or first
    if other_base is not None:
        enter(sample._replace(base=other_base), best[0].structure, best)
    winner = _least_error(entries)
    return Race(tuple(contender for contender, _ in entries), winner and winner[0])


def _least_error(entries: Sequence[tuple[Contender, Pair | None]]) -> Pair | None:
    """The kernels of the best entry; None: those of equal relevances."""
    return min(entries, key=lambda entry: entry[0].error)[1]


def finish(problem: Problem, winner: LearnedKernel, random_state: RandomState) -> LearnedKernel:
    """The winner, learned again on all rows or on as many as pay, without the orders that came to nothing."""
    rows = stratified_rows(problem, LEARNING_ROWS, random_state)
    sample = problem.rows(rows)._replace(base=winner.kernel.bases)
    learned = refine_kernel(sample, winner.structure, winner.theta, LAST)
    return learned._replace(kernel=_without_empty_orders(learned.kernel))


def stratified_rows(problem: Problem, limit: int, random_state: RandomState) -> NDArray[np.intp]:
    """At most `limit` rows, one at random from each of as many slices of the target's range."""
    n = len(problem.X)
    if n <= limit:
        return np.arange(n)
    slices = np.array_split(_by_target(problem, random_state), limit)
    return np.sort([rows[random_state.randint(len(rows))] for rows in slices])


def stratified_halves(problem: Problem, random_state: RandomState) -> NDArray[np.intp]:
    """0 or 1 for every row: of two neighbours in the order of the target, one at random goes to either half."""
    order = _by_target(problem, random_state)
    half = np.empty(len(order), dtype=np.intp)
    first = random_state.randint(2, size=(len(order) + 1) // 2)
    half[order] = np.column_stack([first, 1 - first]).ravel()[: len(order)]
    return half


def _learn_halves(
    sample: Problem, half: NDArray[np.intp], structure: Structure, start: Pair | None
) -> tuple[Pair, Floats]:
    """The structure learned on either half, and its losses on the rows of the other.

    It starts from other kernels of the same halves, unless one is a product of many features and the other is not:
    relevances mean something else there.
    """
    usable = start is not None and (structure.lowest > 1) == (start[0].structure.lowest > 1)
    thetas = [kernel.theta for kernel in start] if start is not None and usable else [None, None]
    iterations = NEXT if usable else FIRST
    first, second = (
        learn_kernel(sample.rows(half == h), structure, start=thetas[h], iterations=iterations) for h in (0, 1)
    )
    on_1 = leave_one_out_losses(sample, first.kernel, first.noise)
    on_0 = leave_one_out_losses(sample, second.kernel, second.noise)
    return (first, second), np.where(half == 1, on_1, on_0)


def _by_target(problem: Problem, random_state: RandomState) -> NDArray[np.intp]:
    """Rows in the order of the first output, ties in random order."""
    shuffle = random_state.permutation(len(problem.Y))
    return shuffle[np.argsort(problem.Y[shuffle, 0], kind="stable")]


def _contender(name: str, kernel: AdditiveKernel, losses: Floats, weight: Floats | None, begin: float) -> Contender:
    error, spread = mean_and_standard_error(losses, weights_or_ones(weight, len(losses)))
    base = next((base for base in kernel.bases if base != "equality"), "equality")
    product = " product" if kernel.order > 1 and not kernel.order_weights[:-1].any() else ""  # of that many features
    return Contender(f"{name} {base}{product}", kernel.order, error, spread, time.perf_counter() - begin)


def _without_empty_orders(kernel: AdditiveKernel) -> AdditiveKernel:
    """The kernel without its highest orders as far as they hold next to nothing of the variance."""
    e = elementary_symmetric(kernel.relevance, kernel.order)
    share = kernel.order_weights * e * kernel.normaliser
    order = int(np.flatnonzero(share >= NEGLIGIBLE * share.sum())[-1])
    return AdditiveKernel(kernel.bandwidth, kernel.relevance, kernel.order_weights[: max(order, 1) + 1], kernel.base)
