"""The race: learned kernels and the equal-relevance kernel compete on rows that they did not learn from.

Learning fits up to two numbers per feature, which cross-validation with a fixed kernel does not see. So every learned
structure is learned twice, on either half of the rows, and judged by held-out residuals on the other half: the
coefficients may use all rows but the held-out unit (a row, a group, a given fold), the kernel only the half that does
not hold the row. Where rows are ordered in time, kernels are learned on the earlier half and judged on the later one.
The winner is then learned again on all rows, from where it stands. No constant contender is needed: with a large alpha
every kernel predicts the mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import Progress
from salsa._utils.weighted import mean_and_standard_error
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.symmetric import elementary_symmetric, largest_order
from salsa.learning import LearnedKernel, Problem, Structure
from salsa.learning.learn import held_out_losses, learn_kernel, prune_kernel
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
Pair = tuple[LearnedKernel, ...]  # one kernel learned on each half; on the earlier half alone if rows are ordered


class Race(NamedTuple):
    """The contenders, the winner as learned on half the rows (None: equal relevances), and its pruning allowance."""

    contenders: tuple[Contender, ...]
    winner: LearnedKernel | None
    allowance: float | None = None


class _Entry(NamedTuple):
    contender: Contender
    losses: Floats  # (n,) held-out losses, NaN of rows that judge nothing
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
    loss: Loss,
    other_bases: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
) -> Race:
    """Let the structures compete with the equal-relevance kernel; the least held-out loss wins.

    The best structure then tries the other base kernels, along each of the given sequences until the error rises.
    Finally features are removed, with larger and larger allowances.
    """
    half, sides = sample.splits.halves(sample.Y), (0,) if sample.splits.ordered else (0, 1)
    contenders: list[Contender] = []

    def judge(name: str, kernel: AdditiveKernel, losses: Floats, begin: float) -> Contender:
        contenders.append(_contender(name, kernel, losses, sample, begin))
        if progress is not None:
            _tell(progress, contenders[-1])
        return contenders[-1]

    def enter(problem: Problem, structure: Structure, start: Pair | None) -> _Entry:
        begin = time.perf_counter()
        pair = _learn_halves(problem, half, sides, structure, start)
        losses = _losses_on_other_half(sample, half, pair, loss)
        return _Entry(judge("learned", pair[0].kernel, losses, begin), losses, pair)

    def prune(entry: _Entry, allowance: float) -> _Entry:
        begin = time.perf_counter()
        problem = sample._replace(base=entry.pair[0].kernel.bases)
        pair = tuple(prune_kernel(problem.rows(half == h), entry.pair[h], allowance) for h in sides)
        if all(np.array_equal(new.theta, old.theta) for new, old in zip(pair, entry.pair, strict=True)):
            return entry._replace(allowance=allowance)  # no further feature can be removed at this allowance
        losses = _losses_on_other_half(sample, half, pair, loss)
        return _Entry(judge("pruned", pair[0].kernel, losses, begin), losses, pair, allowance)

    begin = time.perf_counter()
    losses = held_out_losses(sample, equal, alpha, sample.noise.rho, loss)
    losses = np.where(half == 1, losses, np.nan) if sample.splits.ordered else losses
    reference = judge("equal", equal, losses, begin)
    first = enter(sample, structures[0], None)
    entries = [first, *(enter(sample, structure, first.pair) for structure in structures[1:])]
    best = min(entries, key=lambda entry: entry.error)
    walked = [_walk(enter, sample, best, bases) for bases in other_bases]
    best = min([best, *walked], key=lambda entry: entry.error)
    prunings = [best]
    for allowance in ALLOWANCES:
        prunings.append(prune(prunings[-1], allowance))
    best = _pruned(best, prunings[1:], sample)
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


def _pruned(entry: _Entry, prunings: Sequence[_Entry], sample: Problem) -> _Entry:
    """Return the entry, or a pruning that is better or hardly worse; of equally good prunings, the strongest.

    Pruning is one more choice made from the data: where the signal is weak it would keep one feature of many that
    matter a little. So the increase of the loss plus its standard error must be at most AFFORDABLE of the error and of
    the explained variance.
    """
    affordable = AFFORDABLE * min(entry.error, 1 - entry.error)

    def loss(new: _Entry, old: _Entry) -> tuple[float, float]:
        """Return the mean of the paired differences, and its standard error."""
        return _mean(new.losses - old.losses, sample)

    worth_it = [pruning for pruning in prunings if sum(loss(pruning, entry)) <= max(affordable, 0.0)]
    best = min(worth_it, key=lambda pruning: pruning.error, default=entry)
    as_good = [pruning for pruning in worth_it if np.subtract(*loss(pruning, best)) <= 0]
    return as_good[-1] if as_good else entry


def finish(problem: Problem, winner: LearnedKernel, allowance: float | None) -> LearnedKernel:
    """Learn the winner again on up to LEARNING_ROWS rows, prune it, and remove high orders of negligible variance."""
    sample = problem.rows(problem.splits.sample(problem.Y, LEARNING_ROWS))._replace(base=winner.kernel.bases)
    learned = learn_kernel(sample, winner.structure, start=winner.theta, iterations=LAST)
    if allowance is not None:
        learned = prune_kernel(sample, learned, allowance)
    return learned._replace(kernel=_without_empty_orders(learned.kernel))


def _learn_halves(
    sample: Problem, half: Places, sides: Sequence[int], structure: Structure, start: Pair | None
) -> Pair:
    """Return the structure as learned on each of these halves.

    Learning starts from other kernels of the same halves, unless only one of the two structures is a product of
    several features: relevances have another meaning there.
    """
    usable = start is not None and (structure.lowest > 1) == (start[0].structure.lowest > 1)
    thetas = [kernel.theta for kernel in start] if start is not None and usable else [None, None]
    iterations = NEXT if usable else FIRST
    halves = [sample.rows(half == h) for h in sides]
    return tuple(
        learn_kernel(rows, structure, start=theta, iterations=iterations)
        for rows, theta in zip(halves, thetas, strict=False)
    )


def _losses_on_other_half(sample: Problem, half: Places, pair: Pair, loss: Loss) -> Floats:
    """Return the losses (n,) of each row under the kernel that was learned on the half without it."""
    found = [held_out_losses(sample, learned.kernel, learned.noise, learned.rho, loss) for learned in pair]
    return np.where(half == 1, found[0], found[1] if len(found) == 2 else np.nan)


def _mean(losses: Floats, sample: Problem) -> tuple[float, float]:
    """Return the mean of the losses (n,) that are known, and its standard error."""
    known, unit = ~np.isnan(losses), sample.splits.unit
    return mean_and_standard_error(losses[known], sample.weight[known], None if unit is None else unit[known])


def _contender(origin: str, kernel: AdditiveKernel, losses: Floats, sample: Problem, begin: float) -> Contender:
    error, spread = _mean(losses, sample)
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
