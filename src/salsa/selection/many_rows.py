"""Kernels of tables with many rows, which judge again what the race has decided on a few hundred of them.

1. The pruned sum and the sum of all features are both learned from some thousand rows.
2. The conditional likelihood of blocks of more rows (``salsa.learning.conditional``) chooses between them, and the sum
   is learned on. Terms and features whose removal costs no more than their allowance are removed.
3. Equal relevances that won the race must win again, on rows that neither learned nor raced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Places
from salsa._utils.progress import SILENT, Steps
from salsa.kernels import Kernel
from salsa.learning import LearnedKernel, Problem
from salsa.learning.conditional import in_blocks
from salsa.learning.learn import completed_kernel, drop_terms, held_out_losses, learn_again, prune_kernel
from salsa.losses import Loss
from salsa.selection.race import (
    AGAIN,
    ALLOWANCES,
    ROWS,
    TERM_ALLOWANCE,
    Winner,
    clearly_better,
    features_of,
    pruned_pair,
    tell_gain,
    telling,
    without_empty_orders,
)

MANY = 3000  # more rows judge again what the race has decided
BLOCK_ROWS = 8000
BLOCKS = "learning again on blocks of {} rows"
JUDGING_ROWS, FEWEST = 4000, 500  # the most and the fewest rows that judge equal relevances a second time


class Finalists(NamedTuple):
    """The learned sum of all features, and the pruned sum, if there is one."""

    whole: LearnedKernel | None
    pruned: LearnedKernel | None

    @property
    def present(self) -> list[LearnedKernel]:
        return [one for one in self if one is not None]


def learn_many(problem: Problem, winner: Winner, steps: Steps = SILENT) -> LearnedKernel:
    """Learn from some thousand rows, then from blocks of more; pruning and terms are decided at the end."""
    return settle(problem, find_finalists(problem, winner, steps), steps)


def find_finalists(problem: Problem, winner: Winner, steps: Steps = SILENT) -> Finalists:
    """Learn the winner from the first and second number of ROWS and, if it lacks features, the sum of all features."""
    first, second = (_sample(problem, size, steps) for size in ROWS[:2])
    learned, gain = learn_again(first, *pruned_pair(first, winner))
    tell_gain(first, AGAIN, gain, steps)
    learned, gain = learn_again(second, learned)
    tell_gain(second, AGAIN, gain, steps)
    pair = [completed_kernel(second, one) for one in winner.whole]
    if not np.any([features_of(one) & ~features_of(learned) for one in pair]):
        return Finalists(learned, None)
    whole, gain = learn_again(second, *pair)
    tell_gain(second, AGAIN, gain, steps)
    return Finalists(whole, learned)


def settle(problem: Problem, finalists: Finalists, steps: Steps = SILENT) -> LearnedKernel:
    """Learn the finalist that is more probable on blocks of BLOCK_ROWS, and remove what carries nothing."""
    nearest = max(finalists.present, key=lambda one: one.evidence).kernel
    sample = problem.rows(problem.splits.sample(problem.Y, BLOCK_ROWS))
    sample = telling(in_blocks(sample, nearest), BLOCKS, steps)
    if finalists.whole is not None:
        finalists = finalists._replace(whole=completed_kernel(sample, finalists.whole))
    learned, gain = learn_again(sample, *finalists.present)
    learned = drop_terms(sample, learned, TERM_ALLOWANCE)
    learned = prune_kernel(sample, learned, ALLOWANCES[0], rounds=1)
    tell_gain(sample, BLOCKS, gain, steps)
    return learned._replace(kernel=without_empty_orders(learned.kernel))


def second_judgement(
    problem: Problem,
    raced: Places,
    winner: Winner,
    equal_of: Callable[[Problem], tuple[Kernel, float]],
    loss: Loss,
    steps: Steps = SILENT,
) -> LearnedKernel | None:
    """Return the learned kernel, unless equal relevances, which won the race, are clearly better once more.

    Half of the units learn the sum, and choose order and alpha of the equal-relevance kernel (`equal_of`). The units of
    the other half that did not take part in the race judge both by held-out losses. Given splits allow no such halves:
    the result of the race stands.
    """
    if problem.splits.given:
        return None
    half, unit = problem.splits.halves(problem.Y), problem.splits.unit
    unit = np.arange(len(half)) if unit is None else unit
    others = problem.rows((half == 1) & ~np.isin(unit, unit[raced]))
    if len(others.X) < FEWEST:
        return None
    learning = problem.rows(half == 0)._replace(total=problem.total)
    learned = learn_many(learning, winner, steps)
    equal, alpha = equal_of(_sample(learning, ROWS[1], steps)._replace(total=problem.total))
    judging = others.rows(others.splits.sample(others.Y, JUDGING_ROWS))
    losses = held_out_losses(judging, equal, alpha, judging.noise.rho, loss)
    if clearly_better(losses, held_out_losses(judging, learned.kernel, learned.noise, learned.rho, loss), judging):
        return None
    return settle(problem, Finalists(None, learned), steps)


def _sample(problem: Problem, size: int, steps: Steps) -> Problem:
    return telling(problem.rows(problem.splits.sample(problem.Y, size)), AGAIN, steps)
