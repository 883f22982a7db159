"""The race: learned kernels and the equal-relevance kernel compete on rows that they did not learn from.

Learning fits up to two numbers per feature, which cross-validation with a fixed kernel does not see. So every learned
structure is learned twice, on either half of the rows, and judged by its leave-one-out residuals on the other half: the
coefficients may use all rows but one, the kernel only the half that does not hold the row. The winner is then learned
again on all rows, from where it stands. No constant contender is needed: with a large alpha every kernel predicts the
mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import Progress
from salsa._utils.weighted import mean_and_standard_error, weights_or_ones
from salsa.data.splits import Splits
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.symmetric import elementary_symmetric, largest_order
from salsa.learning import LearnedKernel, Problem, Structure
from salsa.learning.learn import learn_kernel, leave_one_out_losses, prune_kernel
from salsa.learning.parameters import either_half
from salsa.losses import Loss
from salsa.selection.results import Contender

RACE_ROWS = 800  # rows that decide the race, half of them for each learning
LEARNING_ROWS = 2000  # rows that the winner is learned from
FIRST, NEXT, LAST = 25, 12, 15  # iterations: from scratch, from another structure's kernel, of the winner on all rows
USUAL_BASE = "matern52"
SMOOTHER, ROUGHER = ("gaussian",), ("matern32", "laplace")  # base kernels that the best structure tries next
#: Log likelihood that removing a feature may cost: 0, its two parameters (AIC), or log n for n = 400 (BIC)
ALLOWANCES = (0.0, 2.0, 6.0)
AFFORDABLE = 0.025  # share of the error, and of the explained variance, that pruning may cost
NEGLIGIBLE = 1e-4  # highest orders with less than this share of the prior variance are removed
Pair = tuple[LearnedKernel, LearnedKernel]  # one kernel learned on each half


class Race(NamedTuple):
    """The contenders, the winner as learned on half the rows (None: equal relevances), and its pruning allowance."""

    contenders: tuple[Contender, ...]
    winner: LearnedKernel | None
    allowance: float | None = None


class _Entry(NamedTuple):
    contender: Contender
    losses: Floats  # (n,) held-out losses
    pair: Pair
    allowance: float | None = None

    @property
    def error(self) -> float:
        return self.contender.error


def race_structures(D: int, up_to: bool) -> list[Structure]:
    """Return orders 1..2 (the start of the others), 1, 1..3, 1..12, and the product of all features if not too many."""
    pairs = [(1, 2), (1, 1), (1, 3), (1, 12), (D, D)] if up_to else [(d, d) for d in (2, 1, 3, 4, D)]
    structures = dict.fromkeys(Structure(min(low, D), min(high, D)) for low, high in pairs)
    return [structure for structure in structures if structure.highest <= largest_order(D)]


def race(
    sample: Problem,
    structures: Sequence[Structure],
    equal: AdditiveKernel,
    alpha: float,
    splits: Splits,
    loss: Loss,
    other_bases: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
) -> Race:
    """Let the structures compete with the equal-relevance kernel; the least held-out loss wins.

    The best structure then tries the other base kernels, along each of the given sequences until the error rises.
    Finally features are removed, with larger and larger allowances.
    """
    half = splits.halves(sample.Y)
    contenders: list[Contender] = []

    def judge(name: str, kernel: AdditiveKernel, losses: Floats, begin: float) -> Contender:
        contenders.append(_contender(name, kernel, losses, sample.weight, begin))
        if progress is not None:
            _tell(progress, contenders[-1])
        return contenders[-1]

    def enter(problem: Problem, structure: Structure, start: Pair | None) -> _Entry:
        begin = time.perf_counter()
        pair = _learn_halves(problem, half, structure, start)
        losses = _losses_on_other_half(sample, half, pair, loss)
        return _Entry(judge("learned", pair[0].kernel, losses, begin), losses, pair)

    def prune(entry: _Entry, allowance: float) -> _Entry:
        begin = time.perf_counter()
        problem = sample._replace(base=entry.pair[0].kernel.bases)
        first, second = (prune_kernel(problem.rows(half == h), entry.pair[h], allowance) for h in (0, 1))
        if all(np.array_equal(new.theta, old.theta) for new, old in zip((first, second), entry.pair, strict=True)):
            return entry._replace(allowance=allowance)  # no further feature can be removed at this allowance
        losses = _losses_on_other_half(sample, half, (first, second), loss)
        return _Entry(judge("pruned", first.kernel, losses, begin), losses, (first, second), allowance)

    begin = time.perf_counter()
    reference = judge("equal", equal, leave_one_out_losses(sample, equal, alpha, loss), begin)
    first = enter(sample, structures[0], None)
    entries = [first, *(enter(sample, structure, first.pair) for structure in structures[1:])]
    best = min(entries, key=lambda entry: entry.error)
    walked = [_walk(enter, sample, best, bases) for bases in other_bases]
    best = min([best, *walked], key=lambda entry: entry.error)
    prunings = [best]
    for allowance in ALLOWANCES:
        prunings.append(prune(prunings[-1], allowance))
    best = _pruned(best, prunings[1:], sample.weight)
    won = best.contender if best.error < reference.error else reference
    record = tuple(contender._replace(won=contender is won) for contender in contenders)
    return Race(record, None if won is reference else either_half(best.pair), best.allowance)


def _walk(
    enter: Callable[[Problem, Structure, Pair], _Entry], sample: Problem, entry: _Entry, bases: Sequence[str]
) -> _Entry:
    """Return the best entry along a sequence of base kernels, which ends where the error rises."""
    for base in bases:
        other = enter(sample.with_base(base), entry.pair[0].structure, entry.pair)
        if other.error >= entry.error:
            break
        entry = other
    return entry


def _pruned(entry: _Entry, prunings: Sequence[_Entry], weight: Floats | None) -> _Entry:
    """Return the entry, or a pruning that is better or hardly worse; of equally good prunings, the strongest.

    Pruning is one more choice made from the data: where the signal is weak it would keep one feature of many that
    matter a little. So the increase of the loss plus its standard error must be at most AFFORDABLE of the error and of
    the explained variance.
    """
    w = weights_or_ones(weight, len(entry.losses))
    affordable = AFFORDABLE * min(entry.error, 1 - entry.error)

    def loss(new: _Entry, old: _Entry) -> tuple[float, float]:
        """Return the mean of the paired differences, and its standard error."""
        return mean_and_standard_error(new.losses - old.losses, w)

    worth_it = [pruning for pruning in prunings if sum(loss(pruning, entry)) <= max(affordable, 0.0)]
    best = min(worth_it, key=lambda pruning: pruning.error, default=entry)
    as_good = [pruning for pruning in worth_it if np.subtract(*loss(pruning, best)) <= 0]
    return as_good[-1] if as_good else entry


def finish(problem: Problem, winner: LearnedKernel, allowance: float | None, splits: Splits) -> LearnedKernel:
    """Learn the winner again on up to LEARNING_ROWS rows, prune it, and remove high orders of negligible variance."""
    sample = problem.rows(splits.sample(problem.Y, LEARNING_ROWS))._replace(base=winner.kernel.bases)
    learned = learn_kernel(sample, winner.structure, start=winner.theta, iterations=LAST)
    if allowance is not None:
        learned = prune_kernel(sample, learned, allowance)
    return learned._replace(kernel=_without_empty_orders(learned.kernel))


def _learn_halves(sample: Problem, half: Places, structure: Structure, start: Pair | None) -> Pair:
    """Return the structure as learned on each half.

    Learning starts from other kernels of the same halves, unless only one of the two structures is a product of
    several features: relevances have another meaning there.
    """
    usable = start is not None and (structure.lowest > 1) == (start[0].structure.lowest > 1)
    thetas = [kernel.theta for kernel in start] if start is not None and usable else [None, None]
    iterations = NEXT if usable else FIRST
    first, second = (
        learn_kernel(sample.rows(half == h), structure, start=thetas[h], iterations=iterations) for h in (0, 1)
    )
    return first, second


def _losses_on_other_half(sample: Problem, half: Places, pair: Pair, loss: Loss) -> Floats:
    """Return the losses (n,) of each row under the kernel that was learned on the half without it."""
    on_1, on_0 = (leave_one_out_losses(sample, learned.kernel, learned.noise, loss) for learned in pair)
    return np.where(half == 1, on_1, on_0)


def _contender(origin: str, kernel: AdditiveKernel, losses: Floats, weight: Floats | None, begin: float) -> Contender:
    error, spread = mean_and_standard_error(losses, weights_or_ones(weight, len(losses)))
    is_product = kernel.order > 1 and not kernel.order_weights[:-1].any()
    features, seconds = int(np.sum(kernel.relevance > 0)), time.perf_counter() - begin
    return Contender(origin, kernel.numeric_base, is_product, kernel.order, features, error, spread, seconds)


def _tell(progress: Progress, tried: Contender) -> None:
    name = f"{tried.kernel} relevances, order {tried.order}"
    progress.tried(name, tried.error, tried.standard_error, tried.seconds)


def _without_empty_orders(kernel: AdditiveKernel) -> AdditiveKernel:
    """Return the kernel without highest orders of a negligible share of the prior variance."""
    e = elementary_symmetric(kernel.relevance, kernel.order)
    share = kernel.order_weights * e * kernel.normaliser
    order = int(np.flatnonzero(share >= NEGLIGIBLE * share.sum())[-1])
    return replace(kernel, order_weights=kernel.order_weights[: max(order, 1) + 1])
