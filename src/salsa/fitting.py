"""The steps of every fit, in order:

1. table         the types of columns; rows, targets and weights as numbers             ``data``
2. splits        the held-out rows and samples for all choices and errors               ``data.splits``
3. learn         the kernels to try; learned kernels race against equal relevances      ``selection.plan``
4. choose        the order, and alpha, by cross-validation                              ``selection.order``
5. solve         the coefficients, and alpha again if there are many rows               ``solvers``
6. uncertainty   the basis of intervals and standard deviations, from the solver        ``uncertainty``

With few rows, all of them go through every step. With many, the kernel is learned from a sample, the order is chosen
on a smaller one, and only the solver sees all rows.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.memory import memory_limit_bytes, require_memory, tiled_bytes
from salsa._utils.progress import NULL_LOSS, Progress, rows_counted
from salsa._utils.threads import thread_count
from salsa._utils.user_warning import warn_user
from salsa._utils.weighted import power_of_two
from salsa.data.blocks import RawBlock, Reading, Source, Survey, Table, read_parts, read_table, survey
from salsa.data.columns import Columns
from salsa.data.copies import Hashes, row_hashes
from salsa.data.interaction_sets import resolved
from salsa.data.noise import Noise
from salsa.data.observing import Judgeable, judged, judged_stream, numbered
from salsa.data.rows import SLICE, Block, Observations, Rows, StreamedRows, Total, array_rows, mean_weight, no_folds
from salsa.data.signs import monotone_signs
from salsa.data.splits import (
    DEFAULT_FOLDS,
    Fold,
    Given,
    Splits,
    TableSplits,
    drawn_splits,
    fold_numbers,
    given_splits,
    is_number,
    systematic_splits,
    table_splits,
)
from salsa.data.targets import check_total_weight, telling_groups
from salsa.data.text_columns import doubts, empty_columns
from salsa.data.transforms import skewed_outputs, smearing
from salsa.fitted import Fitted
from salsa.kernels.base import cyclic
from salsa.kernels.marginals import distribution_of
from salsa.learning import Problem
from salsa.losses import IDENTITY, Likelihood, SquaredError, check_targets, link_of, named_loss, robust_spread
from salsa.options import LossChoice, Options
from salsa.selection.deviance import (
    Choice,
    choose_by_deviance,
    confirmed,
    fit_exactly,
    fit_to_all_rows,
    robust_targets,
)
from salsa.selection.order import tell
from salsa.selection.plan import Plan, choose_order, equal_kernel, make_plan
from salsa.selection.race import SMOOTH
from salsa.selection.results import OrderResult, OrderSearch, components_of
from salsa.selection.transform import suggest_logarithm
from salsa.solvers import SAMPLE_ROWS, RidgeTask, Solution, Solver, find_solver
from salsa.solvers.anchored_likelihood import AllRows, AnchoredTask, anchored_bytes, finish_on_anchors
from salsa.solvers.cutting_planes import import_clarabel
from salsa.solvers.iterated_likelihood import finish_on_matrix, iterated_bytes
from salsa.solvers.likelihood import (
    LIKELIHOOD_ADVICE,
    Candidate,
    LikelihoodSolution,
    LikelihoodTask,
    finish,
    likelihood_bytes,
)
from salsa.solvers.monotone import FREE, constrain_exact, monotone_bytes
from salsa.solvers.monotone_likelihood import constrain_likelihood, monotone_likelihood_bytes
from salsa.solvers.need import DEFAULT_RANK, SEARCH_ROWS, Size, check_memory, choice_bytes
from salsa.solvers.slopes import Monotone

EXACT_ROWS = 3000  # with at most so many rows, solver="auto" has the exact fit by matrix factors
ITERATED_ROWS = 60_000  # with at most so many rows and one output, it has the exact fit by conjugate gradients
ROBUST_ORDER = 2  # order of the kernel of a first fit that finds gross errors
MISSING_POINTS = 128  # points of the distribution that stands for a missing number
LOSS = SquaredError()


def fit_table(options: Options, X: Any, y: Any, sample_weight: Any, groups: Any, progress: Progress) -> Fitted:
    """Fit a table in memory."""
    table = read_table(RawBlock(X, y, sample_weight, groups), options.categorical_features, options.transform).settled()
    seen, rows = table
    check_total_weight(seen.rows)
    used = rows.weight > 0
    check_targets(options.loss.name, rows.Y, used)
    _check_rank(options, int(used.sum()))
    seen.columns.check_spans(rows.X[used])
    options = _for_columns(options, seen.columns)
    options = _with_signs(options, seen.columns)
    return _fit_in_memory(options, table, _column_notes(seen), progress)


def fit_source(options: Options, source: Source, progress: Progress) -> Fitted:
    """Fit rows that are read in blocks, again and again."""
    seen = survey(rows_counted(source(), progress), options.categorical_features, options.transform)
    threads = thread_count(options.resources.threads, seen.rows, DEFAULT_RANK, len(seen.low))
    check_total_weight(seen.rows)
    reading = Reading.after(seen, options.transform)
    rows = StreamedRows(partial(read_parts, source, reading, seen.rows), seen.rows, threads)
    return fit_rows(options, rows, seen, progress)


def fit_rows(options: Options, rows: Rows, seen: Survey, progress: Progress) -> Fitted:
    """Fit rows whose columns and ranges a first pass (`Survey`) has found; their weights are one on average."""
    seen.columns.check_limits(seen.low, seen.high)
    n, D = seen.rows, len(seen.low)
    _check_rank(options, n)
    options = _for_columns(options, seen.columns)
    options = _with_signs(options, seen.columns)
    notes, (name, rank) = _column_notes(seen), _solver(options, n, D, seen.outputs)
    limit, gathered = memory_limit_bytes(options.resources.memory_limit), 24 * n * (D + seen.outputs)
    if options.loss.squared and find_solver(name).needs_all_rows:
        size = _size(options, n, D, seen.outputs, n if name == "pcg" else rank)._replace(table=gathered)
        check_memory(name, rank, size, limit)
        return _fit_in_memory(options, _gathered(rows, seen), notes, progress)
    if not options.loss.squared:
        _check_classes(name, seen.outputs)
        gathers = find_solver(name).needs_all_rows
        whole = gathers or options.sign is not None  # the rows are gathered
        folds = options.cv if is_number(options.cv) else DEFAULT_FOLDS
        need = _likelihood_bytes(options, n, D, seen.outputs, folds) + gathered * whole
        require_memory(need, limit, "this fit", LIKELIHOOD_ADVICE)
        if gathers:
            table = _gathered(rows, seen)
            check_targets(options.loss.name, table.rows.Y, np.ones(n, dtype=bool))
            return _fit_in_memory(options, table, notes, progress)
    (unit, counts, copies), groups = judged_stream(seen), seen.groups
    random_state = check_random_state(options.random_state)
    given = Given(seen.used, groups=None if groups is None else _of_all_rows(groups.code, seen.used))
    raw = given_splits(options.cv, given, random_state)
    mean = mean_weight(seen.prints.weight)
    options = _for_weights(options, mean)
    if not options.loss.squared:
        known = _known(options, rows, raw, unit, random_state, grouped=groups is not None)
        check_targets(options.loss.name, known.Y, np.ones(n, dtype=bool))
        notes = [*notes, *copies, *_order_notes(known.splits.ordered)]
        return _counted(_fit_likelihood(options, known._replace(counts=counts), seen, notes, progress), seen)
    splits = table_splits(raw, options.cv, n, unit, random_state, grouped=groups is not None)
    notes = [*notes, *copies, *_order_notes(splits.forward)]
    return _counted(_fit_many(options, rows, mean, seen, splits, notes, progress), seen)


def _counted(fitted: Fitted, seen: Survey, copies: int = 0) -> Fitted:
    """Return the fit with the number of groups that were held out whole, and of copies that were merged."""
    groups = telling_groups(seen.groups)
    number = 0 if groups is None else len(np.unique(groups.code))
    return fitted._replace(search=replace(fitted.search, groups=number, copies=copies))


def _of_all_rows(code: Places, used: NDArray[np.bool_]) -> Places:
    """Return the groups of all rows, for splitters: a row of weight zero has the group of the used row before it."""
    place: Places = np.maximum(np.cumsum(used) - 1, 0)
    return code[place]


def _gathered(rows: Rows, seen: Survey) -> Table:
    """Return the whole table, with the weights as given."""
    whole = rows.take(np.arange(seen.rows))
    return Table(seen, whole._replace(weight=whole.weight * mean_weight(seen.prints.weight)))


def _known(
    options: Options,
    rows: Rows,
    raw: Splits | None,
    unit: Places | None,
    random_state: RandomState,
    *,
    grouped: bool,
    exact: bool = False,
) -> AllRows:
    """Return the rows with what stays of them in memory, and their splits: the given ones, or own ones.

    If the fit is not exact, own splits and samples follow from the rank of every row, by target and fingerprint: they
    do not depend on the order of the rows, and are the same for rows in memory and in a file.
    """
    Y, weight, hashes = rows.total(Total(_of_block, _joined, no_folds, SLICE))
    order = np.arange(len(Y)) if exact else np.lexsort((hashes, *Y.T[::-1]))
    if raw is not None:
        splits = raw.with_units(unit, grouped=grouped)
        exact = exact or splits.ordered
    else:
        splits = _own_splits(options, Y[order], None if unit is None else numbered(unit[order]), random_state)
        folds = tuple(Fold(order[fold.held_out], fold.test) for fold in splits.folds)
        target = None if splits.target is None else Y[:, :1]
        splits = replace(splits, folds=folds, unit=unit, target=target)
    return AllRows(rows, Y, weight, splits, rank=None if exact else np.argsort(order))


def _of_block(block: Block) -> tuple[Floats, Floats, Hashes]:
    """Return targets, weights and fingerprints."""
    return np.array(block.Y), np.array(block.weight), row_hashes(block.X)


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))


def _fit_in_memory(options: Options, table: Table, notes: list[str], progress: Progress) -> Fitted:
    seen, rows = table
    used, random_state = rows.weight > 0, check_random_state(options.random_state)
    kept, grouped = rows if used.all() else rows.some(used), telling_groups(seen.groups) is not None
    kept = kept if grouped else kept._replace(group=None)
    raw = given_splits(options.cv, Given(used, rows.X, rows.Y, rows.group), random_state)
    whole = judged(kept, None if raw is None else row_hashes(raw.patterns().astype(np.float64)))
    notes, n, copies = [*notes, *whole.notes], len(whole.rows.X), len(kept.X) - len(whole.rows.X)
    name, rank = _solver(options, n, rows.X.shape[1], seen.outputs)
    options = _for_weights(options, whole.mean_weight)
    if not options.loss.squared:
        whole = whole if raw is not None and raw.ordered else whole.ascending()
        raw = None if raw is None else raw.at(whole.places)
        threads = thread_count(options.resources.threads, n, rank, rows.X.shape[1])
        streamed = array_rows(whole.rows._replace(group=None), threads)
        known = _known(options, streamed, raw, whole.unit, random_state, grouped=grouped, exact=name == "exact")
        notes = [*notes, *_order_notes(known.splits.ordered)]
        known = known._replace(counts=whole.counts)
        return _counted(_fit_likelihood(options, known, seen, notes, progress), seen, copies)
    if name == "exact":
        whole = whole if raw is not None and raw.ordered else whole.ascending()
        if raw is None:
            splits = _own_splits(options, whole.rows.Y, whole.unit, random_state)
        else:
            splits = raw.at(whole.places).with_units(whole.unit, grouped=grouped)
            if options.sign is not None:
                _check_splits(splits)
        notes += _order_notes(splits.ordered)
        return _counted(_fit_all(options, whole, seen, splits, notes, progress), seen, copies)
    raw = None if raw is None else raw.at(whole.places)
    many = table_splits(raw, options.cv, n, whole.unit, random_state, grouped=grouped)
    threads = thread_count(options.resources.threads, n, rank, rows.X.shape[1])
    streamed, notes = array_rows(whole.rows, threads), [*notes, *_order_notes(many.forward)]
    return _counted(_fit_many(options, streamed, whole.mean_weight, seen, many, notes, progress), seen, copies)


def _own_splits(options: Options, Y: Floats, unit: Places | None, random_state: RandomState) -> Splits:
    """Return drawn folds for the paper's estimator, and systematic ones for learned kernels."""
    if options.kernel.learned:
        return systematic_splits(Y, options.cv, unit, random_state)
    return drawn_splits(len(Y), options.cv, unit, random_state)


def _fit_all(
    options: Options, whole: Judgeable, seen: Survey, splits: Splits, notes: list[str], progress: Progress
) -> Fitted:
    """Take all rows through every step."""
    solver, limit = find_solver("exact"), memory_limit_bytes(options.resources.memory_limit)
    rows, (n, D) = whole.rows, whole.rows.X.shape
    check_memory("exact", n, _size(options, n, D, seen.outputs, n), limit)
    unit = power_of_two(rows.Y)
    rows = rows._replace(Y=rows.Y / unit)
    problem = _problem(options, seen.columns, rows, splits)
    with one_blas_thread():  # LAPACK's last bits depend on its number of threads
        plan = make_plan(options, problem, LOSS, progress)
        found = choose_order(options, problem, plan, LOSS, progress)
        kernel, choices = plan.kernel_of(found.order), (found.alpha, options.alphas, n)
        draws, judges = (splits.random_state, options.resources.threads, LOSS), (plan.rho, splits, whole.counts)
        task = RidgeTask(array_rows(rows, 1), rows, kernel, *choices, unit, np.zeros_like(unit), *draws, *judges)
        task = task._replace(two_valued=seen.targets.two_valued, steps=progress)
        solution = solver.solve(task)
        if (monotone := _monotone(options, seen)) is not None:
            found, solution = _constrained(task, monotone, solution, found, progress)
    return _fitted(options, seen, problem, plan, found.with_notes(*solution.notes), solution, notes)


def _fit_likelihood(options: Options, known: AllRows, seen: Survey, notes: list[str], progress: Progress) -> Fitted:
    """Take all rows through every step, for a loss that is not the squared error."""
    _check_classes(_solver(options, len(known.Y), len(seen.low), seen.outputs)[0], seen.outputs)
    need = _likelihood_bytes(options, len(known.Y), len(seen.low), seen.outputs, len(known.splits.folds))
    require_memory(need, memory_limit_bytes(options.resources.memory_limit), "this fit", LIKELIHOOD_ADVICE)
    with one_blas_thread():
        task = _likelihood_task(options, known, progress)
        plan, search, solution = _solve_likelihood(options, task, seen, progress)
    expansion, uncertainty, more = solution
    shares = expansion.shares_of_terms(n_threads=options.resources.threads)
    search = replace(search, terms=components_of(expansion.kernel, shares))
    search = search.with_notes(plan.note, *notes, *more)
    parts = expansion, search, uncertainty, link_of(uncertainty.loss)
    return Fitted(seen.columns, seen.feature_names, seen.flat, *parts)


def _likelihood_task(options: Options, known: AllRows, progress: Progress) -> AnchoredTask:
    """Return the task of all rows; losses whose link is the identity have targets in a unit of about their size."""
    (name, level, _), resources, (n, q) = options.loss, options.resources, known.Y.shape
    scaled = named_loss(name, level, known.Y).link == IDENTITY
    known = known.over(power_of_two(known.Y) if scaled else np.ones(q))
    loss = named_loss(name, level, known.Y, robust_spread(known.Y, known.weight) if scaled else 1.0)
    rank = DEFAULT_RANK if options.rank is None else options.rank
    limit = memory_limit_bytes(resources.memory_limit)
    return AnchoredTask(known, loss, options.alphas, min(rank, n), resources.threads, limit, progress)


def _solve_likelihood(
    options: Options, task: AnchoredTask, seen: Survey, progress: Progress
) -> tuple[Plan, OrderSearch, LikelihoodSolution]:
    """Learn kernels on coded targets, choose one by held-out losses, and fit all rows.

    The noise has no levels of groups, which are held out whole. If the fit is not exact, samples choose the kernel:
    only the last step sees all rows.
    """
    known, loss, (n, q), D = task.known, task.loss, task.known.Y.shape, len(seen.low)
    name, _ = _solver(options, n, D, q)
    exact = name == "exact"

    def problem_of(task: LikelihoodTask, Y: Floats) -> Problem:
        return _problem(options, seen.columns, task.rows._replace(Y=Y / power_of_two(Y)), task.splits)

    sample = task.sample(None)._replace(rank=None) if exact else task.sample(SAMPLE_ROWS)
    problem = problem_of(sample, loss.coded(sample.rows.Y))
    if loss.link == IDENTITY:
        equal = equal_kernel(options, problem, min(ROBUST_ORDER, D))
        problem = problem_of(sample, robust_targets(sample, equal))
    plan = confirmed(sample, make_plan(options, problem, LOSS, progress), progress)
    rescaled = partial(_rescaled, options.loss)
    if exact:
        choice = choose_by_deviance(sample, problem, plan, progress, rescaled)
        solution = finish(choice.task, choice.candidate, known.units)
    else:
        places = sample.splits.sample(problem.Y, SEARCH_ROWS)
        small = sample.some(places)._replace(rank=None)
        choice = choose_by_deviance(small, problem.rows(places), plan, progress, rescaled)
        task = task._replace(loss=choice.task.loss)
        choice = fit_to_all_rows(task, sample.rows, choice, progress)
        if name == "pcg":
            search, found = fit_exactly(task, choice, progress)
            return plan, search, finish_on_matrix(found, known)
        solution = finish_on_anchors(choice.candidate, known, sample.rows)
    if (monotone := _monotone(options, seen)) is None:
        return plan, choice.search, solution
    if not exact:
        choice = choice._replace(task=task.sample(None)._replace(loss=choice.task.loss))
    return plan, *_constrained_likelihood(choice, monotone, solution, known.units, progress)


def _rescaled(choice: LossChoice, task: LikelihoodTask, found: Candidate) -> Likelihood | None:
    """Return the loss whose scale follows from the held-out residuals of a fit; None if it judges without a scale."""
    row, f, *_ = found.held_out
    if choice.name != "huber" or len(row) == 0:
        return None
    return named_loss(choice.name, None, task.rows.Y, robust_spread(task.rows.Y[row] - f, task.rows.weight[row]))


def _likelihood_bytes(options: Options, n: int, D: int, outputs: int, folds: int) -> int:
    """Return the least memory that a fit of n rows needs which minimises a likelihood."""
    name, rank = _solver(options, n, D, outputs)
    if name == "exact":
        size = likelihood_bytes(n, D, outputs, folds)
    else:
        threads = thread_count(options.resources.threads, n, rank, folds + 1)
        learning = choice_bytes(n, searched=True, learned=options.kernel.learned)
        size = max(learning, anchored_bytes(n, D, outputs, rank, folds, threads))
        if name == "pcg":
            size = max(size, iterated_bytes(n, D, rank, folds, thread_count(options.resources.threads, n, n, D)))
    return size if options.sign is None else max(size, monotone_likelihood_bytes(n, D, rank, folds))


def _check_classes(name: str, outputs: int) -> None:
    """Refuse several classes for a solver that fits one function."""
    if name == "pcg" and outputs > 1:
        advice = "give solver='auto' or 'lowrank', or 'exact' for some thousand rows"
        raise ValueError(f"solver='pcg' fits two classes, and y has {outputs}: {advice}")


def _with_signs(options: Options, columns: Columns) -> Options:
    """Return the options with the signs of monotone features, for which a solver must be installed."""
    if options.monotonic_cst is None:
        return options
    sign = monotone_signs(options.monotonic_cst, columns)
    if sign is not None:
        import_clarabel()
    return replace(options, sign=sign)


def _check_splits(splits: Splits) -> None:
    """Refuse given splits from which the intervals of a monotone fit cannot follow."""
    try:
        fold_numbers(splits)
    except ValueError:
        rule = "splits that test every row exactly once, or that train on all rows before the tested ones"
        advice = "give a number of folds, or splits such as those of GroupKFold or TimeSeriesSplit"
        raise ValueError(f"cv: with monotonic_cst, intervals need {rule}: {advice}") from None


def _monotone(options: Options, seen: Survey) -> Monotone | None:
    """Return the monotone features and the box of the training range; None if all features are free."""
    if options.sign is None:
        return None
    columns = zip(seen.columns.levels, seen.columns.categorical, strict=True)
    levels = [len(levels or ()) if is_category else 0 for levels, is_category in columns]
    around = seen.columns.cyclic
    low, high = np.where(around, 0.0, seen.low), np.where(around, 1.0, seen.high)  # all places of a circle
    return Monotone(options.sign, low, high, np.array(levels, dtype=np.intp))


def _constrained(
    task: RidgeTask, monotone: Monotone, free: Solution, found: OrderSearch, progress: Progress
) -> tuple[OrderSearch, Solution]:
    """Return the monotone fit to all rows; its alpha takes the place of the free fit's."""
    begin, solution = time.perf_counter(), constrain_exact(task, monotone, free)
    if solution.path is None:
        return found, solution
    seconds = time.perf_counter() - begin
    result = OrderResult(found.order, solution.path, solution.degrees_of_freedom, seconds)
    tell(progress, result)
    return found.with_result(result), solution


def _constrained_likelihood(
    choice: Choice, monotone: Monotone, free: LikelihoodSolution, unit: Floats, progress: Progress
) -> tuple[OrderSearch, LikelihoodSolution]:
    """Return the monotone fit that minimises a likelihood; its alpha takes the place of the free fit's."""
    task, chosen, search = choice
    begin, found = time.perf_counter(), constrain_likelihood(task, monotone, chosen, free.expansion)
    if found is None:
        return search, free._replace(notes=(*free.notes, FREE))
    candidate, solution = found.candidate, finish(task, found.candidate, unit)
    seconds = time.perf_counter() - begin
    result = OrderResult(search.order, candidate.path, candidate.degrees_of_freedom, seconds)
    tell(progress, result, NULL_LOSS)
    return search.with_result(result), solution._replace(notes=(*solution.notes, *found.notes))


def _fit_many(
    options: Options,
    rows: Rows,
    mean: float,
    seen: Survey,
    splits: TableSplits,
    notes: list[str],
    progress: Progress,
) -> Fitted:
    """Learn from samples; only the solver sees all rows, wherever they are."""
    n, D = len(rows), len(seen.low)
    name, rank = _solver(options, n, D, seen.outputs)
    solver, limit = find_solver(name), memory_limit_bytes(options.resources.memory_limit)
    size = _size(options, n, D, seen.outputs, n if name == "pcg" else rank)
    check_memory(name, rank, size._replace(folds=splits.n_folds), limit)
    if name == "pcg" and (cluster := options.resources.cluster) is not None:
        cluster.require(n, D, splits.n_folds * seen.outputs)
    with one_blas_thread():
        places = splits.places(SAMPLE_ROWS)
        sample = rows.take(places)
        unit = power_of_two(sample.Y)
        sample = sample._replace(Y=sample.Y / unit)
        problem = _problem(options, seen.columns, sample, splits.at(places), n)
        plan = make_plan(options, problem, LOSS, progress)
        begin, smaller = time.perf_counter(), problem.rows(problem.splits.sample(problem.Y, SEARCH_ROWS))
        found = choose_order(options, smaller, plan, LOSS, progress)
        kernel, choices = plan.kernel_of(found.order), (found.alpha, options.alphas, rank)
        draws, level = (splits.random_state, options.resources.threads, LOSS), sample.Y.mean(axis=0)
        task = RidgeTask(rows, sample, kernel, *choices, unit, level, *draws, plan.rho, table=splits)
        task = task._replace(mean_weight=mean, two_valued=seen.targets.two_valued, memory=limit)
        task = task._replace(error=_error(found), cluster=options.resources.cluster, steps=progress)
        task = task._replace(monotone=_monotone(options, seen))
        progress.begin(f"order {task.kernel.order} on all {n} rows")
        found, solution = _solved(solver, task, found, begin, progress)
    return _fitted(options, seen, problem, plan, found, solution, notes)


def _solved(
    solver: Solver, task: RidgeTask, found: OrderSearch, begin: float, progress: Progress
) -> tuple[OrderSearch, Solution]:
    """Solve for all rows; the solver's alpha takes the place of the sample's."""
    solution = solver.solve(task)
    assert solution.path is not None  # solvers of many rows choose alpha
    result = OrderResult(task.kernel.order, solution.path, solution.degrees_of_freedom, time.perf_counter() - begin)
    tell(progress, result)
    return found.with_result(result).with_notes(*solution.notes), solution


def _error(found: OrderSearch) -> float:
    """Return the held-out error of the chosen order, as a share of the variance; 1 if nothing was searched."""
    return next((result.path.error for result in found.results if result.order == found.order), 1.0)


def _fitted(
    options: Options,
    seen: Survey,
    problem: Problem,
    plan: Plan,
    search: OrderSearch,
    solution: Solution,
    notes: list[str],
) -> Fitted:
    expansion = solution.expansion
    search = replace(search, contenders=plan.contenders, rho=plan.rho, interval_scale=solution.scale)
    shares = expansion.shares_of_terms(n_threads=options.resources.threads)
    search = replace(search, terms=components_of(expansion.kernel, shares))
    if options.transform is None and (skewed := skewed_outputs(problem.Y)):
        notes = [*notes, *suggest_logarithm(problem.with_rho(plan.rho), expansion.kernel, skewed)]
    search = search.with_notes(plan.note, *notes, *seen.targets.notes)
    parts = expansion, search, solution.uncertainty, smearing(options.transform, solution.residual)
    return Fitted(seen.columns, seen.feature_names, seen.flat, *parts)


def _for_weights(options: Options, mean: float) -> Options:
    """Return the options for weights divided by their mean: given penalties act as alpha / w on the diagonal."""
    return options if options.alphas is None else replace(options, alphas=tuple(a / mean for a in options.alphas))


def _solver(options: Options, n: int, D: int, outputs: int) -> tuple[str, int]:
    """Return the solver for n rows, and its rank; with no more rows than the rank, the fit is exact.

    A rank above n does not limit the automatic choice.
    """
    name, rank = options.solver, DEFAULT_RANK if options.rank is None else options.rank
    automatic = name is None and (options.rank is None or rank > n)
    if automatic:
        rank = DEFAULT_RANK
    if name == "exact" or rank >= n or (automatic and n <= EXACT_ROWS):
        return "exact", n
    if automatic and options.loss.squared and options.sign is None and _matrix_fits(options, n, D, outputs):
        return "pcg", rank
    return name or "lowrank", rank


def _check_rank(options: Options, n: int) -> None:
    """Refuse a rank above the number of rows of the table, copies included, for a solver that is given."""
    if options.solver is not None and options.rank is not None and options.rank > n:
        above = f"rank={options.rank} is above the number of rows, n_samples={n}"
        raise ValueError(f"{above}: give at most {n}, or solver='exact'")


def _matrix_fits(options: Options, n: int, D: int, outputs: int) -> bool:
    """Return whether the kernel matrix of n rows fits into memory, and all outputs are not too much work.

    Every worker of a cluster adds its memory, and may have as much work as one process.
    """
    size, cluster = _size(options, n, D, outputs, n), options.resources.cluster
    need, work = size.need("pcg", DEFAULT_RANK), n * n * outputs
    limit = memory_limit_bytes(options.resources.memory_limit)
    if cluster is None:
        return work <= ITERATED_ROWS**2 and need + tiled_bytes(n) <= limit
    return work <= cluster.workers * ITERATED_ROWS**2 and need <= limit and cluster.fits(n, D, size.folds * outputs)


def _size(options: Options, n: int, D: int, outputs: int, columns: int) -> Size:
    """Return the size of a fit to n rows with kernel matrices of so many columns, for estimates of memory."""
    folds = options.cv if is_number(options.cv) else DEFAULT_FOLDS
    searched = len(options.order.candidates) != 1 or options.alphas is None or len(options.alphas) > 1
    choices = choice_bytes(n, searched=searched, learned=options.kernel.learned)
    if options.sign is not None:
        choices = max(choices, monotone_bytes(n, D, columns, folds))
    return Size(n, D, outputs, folds, thread_count(options.resources.threads, n, columns, D), choices)


def _problem(
    options: Options, columns: Columns, rows: Observations, splits: Splits, total: float | None = None
) -> Problem:
    """Return the problem that a kernel is learned from, with the base kernel and distribution of every feature."""
    categorical, base = columns.categorical, options.kernel.base or (SMOOTH if options.kernel.learned else "gaussian")
    w, noise = rows.weight, Noise(rows.weight, rows.group)
    limits = [None if is_category else MISSING_POINTS for is_category in categorical]
    distributions = tuple(distribution_of(x, w, limit) for x, limit in zip(rows.X.T, limits, strict=True))
    numeric = [cyclic(base) if on_circle else base for on_circle in columns.cyclic]
    bases = tuple("equality" if held else name for held, name in zip(categorical, numeric, strict=True))
    threads = options.resources.threads
    return Problem(rows.X, rows.Y, noise, splits, bases, distributions, threads=threads, total=total)


def _column_notes(seen: Survey) -> list[str]:
    """Return notes on odd columns; warn about likely mistakes at once, before a long fit."""
    doubtful = list(doubts(seen.columns, seen.counts))
    for doubt in doubtful:
        warn_user(doubt)
    return [*doubtful, *empty_columns(seen.columns, seen.counts), *seen.notes]


def _order_notes(ordered: bool) -> list[str]:
    """Return what is said of rows that later rows judge."""
    if not ordered:
        return []
    return ["later rows judge: every choice and interval is for rows that follow; a trend in time is not continued"]


def _for_columns(options: Options, columns: Columns) -> Options:
    """Return the options for a table with these columns: sets of features hold positions, orders are possible ones.

    Refuse orders above the number of features, and relevances or bandwidths that are not one per feature. Relevances
    may be one per column of the table: all parts of a date then have the relevance of their column.
    """
    D, choice = len(columns.names), options.kernel
    if choice.relevance is not None and choice.relevance.shape == (len(columns.table),):
        choice = choice._replace(relevance=choice.relevance[columns.source])
        options = replace(options, kernel=choice)
    for d in options.order.candidates:
        if d > D:
            raise ValueError(f"order={d!r}: an order is an integer from 1 to {D}, the number of features")
    for name in ("relevance", "bandwidth"):
        values = getattr(choice, name)
        if values is not None and values.shape != (D,):
            raise ValueError(f"{name} has {len(values)} values: an array of {D} numbers is needed, one per feature")
    if not choice.allowed.sets:
        return options
    choice = choice._replace(allowed=resolved(choice.allowed, columns))
    most = choice.allowed.most(D)
    if not choice.up_to and (above := [d for d in options.order.candidates if d > most]):
        advice = f"the largest set of interaction_cst has {most} features; give an order of at most {most}"
        raise ValueError(f"order={above[0]} with interactions='exact': {advice}")
    order = options.order._replace(candidates=tuple(dict.fromkeys(min(d, most) for d in options.order.candidates)))
    return replace(options, order=order, kernel=choice)
