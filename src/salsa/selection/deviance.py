"""The choice of kernel, order and alpha by held-out losses, where the loss is not the squared error.

1. Kernels are first learned on coded targets by squared error: these are the plan. The codes are in
   ``Likelihood.coded``; losses that limit gross errors have targets whose residuals are cut (`robust_targets`).
2. The order and alpha are those of least held-out loss, of fits that minimise the likelihood without each fold.
3. A learned kernel is learned again on the working response of the fit, with the working weights as precisions, and
   kept if its held-out loss is lower. This repeats while it helps.
4. If the race left a doubt, the held-out loss of all rows judges equal relevances again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.progress import NULL_LOSS, Progress
from salsa._utils.weighted import mean_and_standard_error
from salsa.data.noise import Noise
from salsa.data.rows import Observations
from salsa.kernels import Kernel
from salsa.learning import LearnedKernel, Problem
from salsa.learning.learn import drop_terms, learn_again
from salsa.losses import HUBER, Huber, Likelihood, Logistic, Softmax, robust_spread
from salsa.selection.order import smallest_good_order, tell
from salsa.selection.plan import Plan
from salsa.selection.race import DOUBT, TERM_ALLOWANCE, without_empty_orders
from salsa.selection.results import OrderResult, OrderSearch
from salsa.solvers.alpha import mean_diagonal
from salsa.solvers.anchored_likelihood import AnchoredTask, fit_on_anchors, in_memory
from salsa.solvers.iterated_likelihood import Iterated, IteratedFits
from salsa.solvers.likelihood import Candidate, LikelihoodTask, basis_of, cross_validate_alpha

ROUNDS = 2  # the most times that a kernel is learned again on the working response
LEARNING_ROWS = 2000  # rows that it is learned from
ANCHORED = 0.1  # anchors of all rows are chosen for this share of the sample's alpha
UNCONFIRMED = (
    "equal relevances are kept: learned ones do not lower the held-out log loss by more than its standard error"
)
OVERRULED = "equal relevances are kept: on all rows, their held-out loss is lower than that of learned ones"
EXPECTED = 1e-3  # anchors are chosen for at most this alpha, relative to the mean diagonal of the kernel matrix


class Choice(NamedTuple):
    """The task that the kernel was chosen on, with its final loss, the kernel with its fits, and the search."""

    task: LikelihoodTask
    candidate: Candidate
    search: OrderSearch


def choose_by_deviance(
    task: LikelihoodTask,
    problem: Problem,
    plan: Plan,
    progress: Progress,
    rescaled: Callable[[LikelihoodTask, Candidate], Likelihood | None],
) -> Choice:
    """Choose order, kernel and alpha; `rescaled` returns a loss whose scale follows from held-out residuals."""
    tried: dict[int, tuple[Candidate, OrderResult]] = {}

    def evaluate(kernel: Kernel, name: int) -> Candidate:
        begin = time.perf_counter()
        progress.step(f"order {name}, {len(task.rows.X)} rows")
        candidate = _evaluated(task, kernel, _neighbour(tried, name))
        result = OrderResult(name, candidate.path, candidate.degrees_of_freedom, time.perf_counter() - begin)
        tell(progress, result, NULL_LOSS)
        if name not in tried or candidate.path.error < tried[name][0].path.error:
            tried[name] = candidate, result
        return candidate

    def error_of(order: int) -> tuple[float, float]:
        if order not in tried:
            evaluate(plan.kernel_of(order), order)
        return tried[order][1].path[-2:]

    plan.rule(error_of)
    if (loss := rescaled(task, _best(tried)[0])) is not None:
        task = task._replace(loss=loss)
        tried.clear()
        plan.rule(error_of)
    learned = plan.learned
    for _ in range(ROUNDS if learned is not None else 0):
        assert learned is not None
        best = _best(tried)[0]
        learned = _learned_again(task, problem, learned, best)
        if evaluate(learned.kernel, learned.kernel.order) is not _best(tried)[0]:
            break
    candidate, result = _best(tried)
    if _equal_is_better(task, plan, candidate, progress):
        assert plan.appeal is not None
        found = choose_by_deviance(task, problem, plan.appeal.plan, progress, rescaled)
        return found._replace(search=found.search.with_notes(OVERRULED))
    results = tuple(found for _, found in tried.values())
    search = OrderSearch(results, result.order, candidate.path.alpha, contenders=plan.contenders)
    return Choice(task._replace(loss=candidate.loss), candidate, search)


def _equal_is_better(task: LikelihoodTask, plan: Plan, learned: Candidate, progress: Progress) -> bool:
    """Return whether the kernel of equal relevances that lost the race has a lower held-out loss on all rows.

    The race compares squared errors of coded targets on few rows, and removes features that these rows cannot tell from
    noise. Held-out losses of all rows favour the kernel that was learned from them: equal relevances with a lower loss
    are better all the same. Classes have been judged before, by ``confirmed``.
    """
    if plan.appeal is None or isinstance(task.loss, Logistic | Softmax):
        return False
    order = plan.appeal.equal.order
    progress.step(f"equal relevances, order {order}, {len(task.rows.X)} rows")
    return _evaluated(task, plan.appeal.plan.kernel_of(order)).path.error < learned.path.error


def confirmed(task: LikelihoodTask, plan: Plan, progress: Progress) -> Plan:
    """Return the plan, or the one with equal relevances unless learned ones have a clearly lower held-out log loss.

    Labels say less than numbers: kernels that are learned from few rows of them win the race, which squared errors
    judge, by chance. Each row is judged by the kernel that was learned on the half without it. Other losses than those
    of classes are not judged again.
    """
    if plan.appeal is None or not isinstance(task.loss, Logistic | Softmax):
        return plan
    raced, half, pair, equal, other = plan.appeal
    progress.step(f"judging learned relevances by the log loss of {len(raced)} rows")
    sample = task.some(raced)._replace(rank=None)
    first, *second, reference = (_held_out_losses(sample, kernel) for kernel in (*pair, equal))
    learned = np.where(half == 1, first, second[0] if second else np.nan)
    known, unit = ~np.isnan(learned + reference), sample.splits.unit
    gain, doubt = mean_and_standard_error(
        (reference - learned)[known], sample.rows.weight[known], None if unit is None else unit[known]
    )
    return plan if gain > DOUBT * doubt else other._replace(note=UNCONFIRMED)


def _held_out_losses(task: LikelihoodTask, kernel: Kernel) -> Floats:
    """Return the losses (n,) of held-out predictions, at the best alpha; NaN of rows that no fold tests."""
    held_out, rows = _evaluated(task, kernel).held_out, task.rows
    losses = np.full(len(rows.Y), np.nan)
    losses[held_out.row] = held_out.losses(task.loss, rows.Y, rows.weight, held_out.f)
    return losses


def fit_to_all_rows(task: AnchoredTask, sample: Observations, choice: Choice, progress: Progress) -> Choice:
    """Fit the kernel that was chosen on a sample to all rows of the task; the sample's alpha is near the best one."""
    begin, (small, sampled, search) = time.perf_counter(), choice
    alpha = sampled.path.alpha
    progress.begin(f"order {search.order} on all {len(task.known.Y)} rows")
    candidate = fit_on_anchors(task, sample, sampled.kernel, ANCHORED * alpha, alpha)
    result = OrderResult(search.order, candidate.path, candidate.degrees_of_freedom, time.perf_counter() - begin)
    tell(progress, result, NULL_LOSS)
    return Choice(small._replace(loss=candidate.loss), candidate, search.with_result(result))


def fit_exactly(task: AnchoredTask, low: Choice, progress: Progress) -> tuple[OrderSearch, Iterated]:
    """Fit all rows of the task by conjugate gradients on the kernel matrix, from the low-rank fit to them."""
    begin, (_, candidate, search) = time.perf_counter(), low
    progress.begin(f"order {search.order} on all {len(task.known.Y)} rows, exactly")
    found = IteratedFits(task, candidate).chosen()
    path, freedom = found.candidate.path, found.candidate.degrees_of_freedom
    result = OrderResult(search.order, path, freedom, time.perf_counter() - begin)
    tell(progress, result, NULL_LOSS)
    return search.with_result(result), found


def robust_targets(task: LikelihoodTask, kernel: Kernel) -> Floats:
    """Return targets (n, 1) whose residuals from a robust fit are cut: kernels are not learned from gross errors.

    The fit has the given kernel and Huber's loss, whose scale follows from the held-out residuals of a first fit.
    """
    Y, w = task.rows.Y, task.rows.weight
    spread = robust_spread(Y, w)
    for _ in range(2):
        loss = Huber(HUBER * spread)
        found = _evaluated(task._replace(loss=loss, alphas=None), kernel)
        row, f, *_ = found.held_out
        spread = robust_spread(Y[row] - f, w[row]) if len(row) else spread
    return loss.working(Y, found.f)[0]


def _best(tried: dict[int, tuple[Candidate, OrderResult]]) -> tuple[Candidate, OrderResult]:
    return tried[smallest_good_order([result for _, result in tried.values()])]


def _neighbour(tried: dict[int, tuple[Candidate, OrderResult]], order: int) -> Candidate | None:
    """Return the candidate of the order nearest to this one; None if there is none."""
    return tried[min(tried, key=lambda other: abs(other - order))][0] if tried else None


def _evaluated(task: LikelihoodTask, kernel: Kernel, neighbour: Candidate | None = None) -> Candidate:
    """Cross-validate alpha; its search begins at that of a similar kernel, relative to the mean diagonals."""
    near = np.inf
    if neighbour is not None:
        near = mean_diagonal(kernel, task.rows.X) / mean_diagonal(neighbour.kernel, task.rows.X) * neighbour.path.alpha
    if task.rank is None:
        return cross_validate_alpha(task, basis_of(task, kernel), near)
    expected = EXPECTED * float(kernel.diagonal(task.rows.X[:1])[0])
    return fit_on_anchors(in_memory(task, task.rank), task.rows, kernel, expected, near)


def _learned_again(task: LikelihoodTask, problem: Problem, learned: LearnedKernel, best: Candidate) -> LearnedKernel:
    """Learn the kernel again from the working response of the best fit; working weights are one on average."""
    z, h = best.loss.working(task.rows.Y, best.f)
    weight = problem.weight * h
    working = problem._replace(Y=z, noise=Noise(weight / weight.mean()))
    sample = working.rows(problem.splits.sample(problem.Y, LEARNING_ROWS))
    found, _ = learn_again(sample, learned)
    found = drop_terms(sample, found, TERM_ALLOWANCE)
    return found._replace(kernel=without_empty_orders(found.kernel))
