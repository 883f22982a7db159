"""The race: the learned sum of kernels and the equal-relevance kernel compete on rows that they did not learn from.

Learning fits several numbers per feature, which cross-validation with a fixed kernel does not see. So the sum is
learned twice, on either half of the rows, and judged by held-out residuals on the other half: the coefficients may use
all rows but the held-out unit (a row, a group, a given fold), the kernel only the half that does not hold the row.
Where rows are ordered in time, kernels are learned on the earlier half and judged on the later one. The winner is then
learned again on more and more rows, from where it stands. No constant contender is needed: with a large alpha every
kernel predicts the mean.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import SILENT, Progress, Steps
from salsa._utils.weighted import mean_and_standard_error
from salsa.data.interaction_sets import Sets, disjoint_layers, lone_features, maximal
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.sum import sum_of
from salsa.kernels.symmetric import elementary_symmetric
from salsa.learning import Form, LearnedKernel, Problem
from salsa.learning.learn import (
    STARTS,
    Forms,
    Start,
    drop_terms,
    held_out_losses,
    learn_again,
    learn_kernel,
    only_features,
    prune_kernel,
)
from salsa.learning.parameters import completed, products_fit
from salsa.losses import Loss
from salsa.selection.results import Contender

RACE_ROWS = 800  # rows that decide the race, half of them for each learning
ROWS = (800, 2000, 3000)  # rows that the winner is learned from, one after the other while more rows matter
STEADY = 0.02  # log posterior per row that more rows must gain to be worth learning from even more
AGAIN = "learning again on {} rows"
SMOOTH, ROUGH = "matern52", "laplace"
HIGHEST = 3  # order of the term of low orders
#: Log likelihood that removing a feature may cost: its two parameters (AIC), or log n for n = 400 (BIC)
ALLOWANCES = (2.0, 6.0)
TERM_ALLOWANCE = 1.0  # log likelihood that removing a term may cost
DOUBT, CERTAIN = 1.0, 3.0  # standard errors that count in a comparison, and beyond which there is no doubt
MATERIAL = 0.05  # share of the error, and of the explained variance, below which a difference does not matter
NEGLIGIBLE = 1e-4  # highest orders with less than this share of the prior variance are removed
Pair = tuple[LearnedKernel, ...]  # one kernel learned on each half; on the earlier half alone if rows are ordered
Features = NDArray[np.bool_]  # (D,)


class Winner(NamedTuple):
    """The best learned sum, and the sum of all features, each learned on either half of the rows.

    The best sum may be pruned, by its terms of low orders and with some allowance.
    """

    pair: Pair
    whole: Pair
    low: Pair = ()
    allowance: float = 0.0


class Race(NamedTuple):
    """All contenders, the ones with equal and with learned relevances, and whether equal ones are clearly better."""

    contenders: tuple[Contender, ...]
    equal: Contender
    learned: Contender
    winner: Winner
    equal_won: bool
    half: Places  # (n,) the half of every row
    certain: bool  # learned relevances are better beyond all doubt

    def record(self, *, equal_won: bool) -> tuple[Contender, ...]:
        """Return the contenders, of whom one has won."""
        won = self.equal if equal_won else self.learned
        return tuple(contender._replace(won=contender is won) for contender in self.contenders)


class _Entry(NamedTuple):
    contender: Contender
    losses: Floats  # (n,) held-out losses, NaN of rows that judge nothing
    pair: Pair = ()
    start: Start = STARTS[0]
    low: Pair = ()  # the terms of low orders alone, where they tell which features matter
    allowance: float = 0.0

    @property
    def error(self) -> float:
        return self.contender.error


def sum_forms(varying: int, D: int, base: str | None) -> Forms:
    """Return the terms of the learned sum: low orders, and a smooth and a rough product of all features.

    A given base kernel takes the place of both. With very many features the sum has no products.
    """
    low = Form(base or SMOOTH, 1, min(HIGHEST, varying))
    if varying == 1:
        return (low,) if base else (low, Form(ROUGH, 1, 1))
    if not products_fit(D, D):
        return (low,)
    return low, *(Form(name) for name in ((base,) if base else (SMOOTH, ROUGH)))


def set_forms(sets: Sets, D: int, base: str | None, highest: int | None = None) -> Forms:
    """Return the terms of the learned sum for sets of features: for each set the terms that ``sum_forms`` has for all.

    Disjoint sets of one size share a form. A given highest order leaves out the products. Features that are a set by
    themselves share one term of order 1.
    """
    forms, names = list[Form](), (base,) if base else (SMOOTH, ROUGH)
    for layer in disjoint_layers(sets):
        size = len(layer[0])
        forms.append(Form(base or SMOOTH, 1, min(highest or HIGHEST, size), layer))
        if highest is None and products_fit(size, D):
            forms += [Form(name, sets=layer) for name in names]
    if lone := lone_features(sets):
        forms.append(Form(base or SMOOTH, 1, 1, (lone,)))
    return tuple(forms)


def low_forms(forms: Forms) -> Forms:
    """Return the terms of low orders: without sets the first form.

    With sets, a product of features that no other term has in low orders is kept, too.
    """
    if not forms[0].sets:
        return forms[:1]
    low = {S for form in forms if not form.is_product for S in form.sets}

    def told(S: tuple[int, ...]) -> bool:
        return S in low or any(set(S) <= set(T) for T in low)

    return tuple(form for form in forms if not (form.is_product and all(map(told, form.sets))))


def monotone_forms(varying: Features, monotone: Features, base: str | None) -> Forms:
    """Return the terms of the learned sum if some features are monotone: these are in terms of order one and two only.

    The products have the other features. A product of one feature is a curve, which the first term has already unless
    it is a rough one.
    """
    low, free = Form(base or SMOOTH, 1, min(2, int(varying.sum()))), varying & ~monotone
    if not free.any() or not products_fit(int(free.sum()), len(varying)):
        return (low,)
    bases = ((base,) if base else (SMOOTH, ROUGH))[0 if free.sum() > 1 else 1 :]
    products = (tuple(np.flatnonzero(free).tolist()),)
    return low, *(Form(name, sets=products) for name in bases)


def monotone_set_forms(sets: Sets, monotone: Features, base: str | None) -> Forms:
    """Return the terms for sets of features of which some are monotone: low orders of every set, as ``set_forms`` has.

    The products have the other features of every set. Those of sets within other sets are left out.
    """
    low, D = set_forms(sets, len(monotone), base, 2), len(monotone)
    free = maximal([j for j in S if not monotone[j]] for S in sets)
    layers = [layer for layer in disjoint_layers(free) if products_fit(len(layer[0]), D)]
    return *low, *(Form(name, sets=layer) for layer in layers for name in ((base,) if base else (SMOOTH, ROUGH)))


def race(
    sample: Problem,
    candidates: Sequence[Forms],
    equal: Kernel,
    alpha: float,
    loss: Loss,
    progress: Progress | None = None,
) -> Race:
    """Let sums of the given forms compete with the equal-relevance kernel, which wins only if it is clearly better.

    The best sum is also learned with fewer features: those that its terms of low orders need, at larger and larger
    allowances.
    """
    court = _Court(sample, loss, progress)
    reference = court.equal(equal, alpha)
    whole = min((court.learned(forms) for forms in candidates), key=lambda entry: entry.error)
    best = _pruned(whole, court.prunings(whole), sample)
    winner = Winner(_joined(best.pair), _joined(whole.pair), _joined(best.low), best.allowance)
    contenders, equal_won = tuple(court.contenders), clearly_better(reference.losses, best.losses, sample)
    gain, doubt = _mean(reference.losses - best.losses, sample)
    return Race(contenders, reference.contender, best.contender, winner, equal_won, court.half, gain > CERTAIN * doubt)


def clearly_better(equal: Floats, learned: Floats, sample: Problem) -> bool:
    """Return whether the losses (n,) of equal relevances are materially smaller, by more than the standard error."""
    excess, doubt = _mean(learned - equal, sample)
    return excess > max(DOUBT * doubt, _material(_mean(equal, sample)[0]))


class _Court:
    """Learns kernels on halves of the rows, judges them on the other half, and keeps the record."""

    def __init__(self, sample: Problem, loss: Loss, progress: Progress | None) -> None:
        self.sample, self.loss, self.progress = sample, loss, progress
        self.half = sample.splits.halves(sample.Y)
        heard = telling(sample, "learning on either half of {} rows", progress or SILENT)
        self.halves = [heard.rows(self.half == side) for side in ((0,) if sample.splits.ordered else (0, 1))]
        self.contenders: list[Contender] = []

    def equal(self, kernel: Kernel, alpha: float) -> _Entry:
        """Judge the equal-relevance kernel on all rows that judge."""
        begin, sample = time.perf_counter(), self.sample
        losses = held_out_losses(sample, kernel, alpha, sample.noise.rho, self.loss)
        losses = np.where(self.half == 1, losses, np.nan) if sample.splits.ordered else losses
        return self._enter(_Entry(_contender("equal", kernel, losses, sample, begin), losses))

    def learned(self, forms: Forms) -> _Entry:
        """Learn from every start; the start whose kernels predict the other half best counts."""
        begin = time.perf_counter()
        tried = []
        for start in STARTS:
            pair = tuple(learn_kernel(rows, forms, start) for rows in self.halves)
            tried.append(self._judged("learned", pair, begin)._replace(start=start))
        return self._enter(min(tried, key=lambda entry: entry.error))

    def prunings(self, entry: _Entry) -> list[_Entry]:
        """Learn again without the features that the terms of low orders do not need, for each allowance.

        These terms alone have few parameters per feature: they tell which features matter better than a product of all
        features, in which each of many irrelevant ones has a small part.
        """
        forms, entries = entry.pair[0].forms, [entry]
        first, kept = low_forms(forms), [features_of(kernel) for kernel in entry.pair]
        low = tuple(learn_kernel(rows, first) for rows in self.halves)
        for allowance in ALLOWANCES:
            begin = time.perf_counter()
            low = tuple(prune_kernel(rows, kernel, allowance) for rows, kernel in zip(self.halves, low, strict=True))
            features = [features_of(kernel) for kernel in low]
            if np.array_equal(features, kept):  # no further feature can be removed at this allowance
                entries.append(entries[-1]._replace(low=low, allowance=allowance))
                continue
            both, kept = zip(self.halves, features, strict=True), features
            pair = tuple(learn_kernel(rows, forms, entry.start, some) for rows, some in both)
            entries.append(self._enter(self._judged("pruned", pair, begin)._replace(low=low, allowance=allowance)))
        return entries[1:]

    def _judged(self, origin: str, pair: Pair, begin: float) -> _Entry:
        """Judge each row by the kernel that was learned on the half without it."""
        sample, loss = self.sample, self.loss
        found = [held_out_losses(sample, learned.kernel, learned.noise, learned.rho, loss) for learned in pair]
        losses = np.where(self.half == 1, found[0], found[1] if len(found) == 2 else np.nan)
        return _Entry(_contender(origin, pair[0].kernel, losses, sample, begin), losses, pair)

    def _enter(self, entry: _Entry) -> _Entry:
        tried = entry.contender
        self.contenders.append(tried)
        if self.progress is not None:
            name = f"{tried.kernel} relevances, order {tried.order}"
            self.progress.tried(name, tried.error, tried.standard_error, tried.seconds)
        return entry


def _pruned(entry: _Entry, prunings: Sequence[_Entry], sample: Problem) -> _Entry:
    """Return the entry, or a pruning that is better or hardly worse; of equally good prunings, the strongest.

    Pruning is one more choice made from the data: where the signal is weak it would keep one feature of many that
    matter a little. So the increase of the loss plus its standard error must be immaterial.
    """

    def loss(new: _Entry, old: _Entry) -> tuple[float, float]:
        """Return the mean of the paired differences, and its standard error."""
        return _mean(new.losses - old.losses, sample)

    worth_it = [pruning for pruning in prunings if sum(loss(pruning, entry)) <= _material(entry.error)]
    best = min(worth_it, key=lambda pruning: pruning.error, default=entry)
    as_good = [pruning for pruning in worth_it if np.subtract(*loss(pruning, best)) <= 0]
    return as_good[-1] if as_good else entry


def _material(error: float) -> float:
    """Return the difference in loss that matters: a share of the error or of the explained variance, if smaller."""
    return max(0.0, MATERIAL * min(error, 1 - error))


def finish(problem: Problem, winner: Winner, steps: Steps = SILENT) -> LearnedKernel:
    """Learn the winner again on more rows, prune it, and remove terms and orders that carry nothing.

    Learning starts from the half whose kernel explains these rows better. If it gains less than STEADY log posterior
    per row, more rows have not changed what matters, and even more are not learned from.
    """
    first, *more = ROWS
    sample = telling(problem.rows(problem.splits.sample(problem.Y, first)), AGAIN, steps)
    learned, gain = learn_again(sample, *pruned_pair(sample, winner))
    learned = drop_terms(sample, learned, TERM_ALLOWANCE)
    tell_gain(sample, AGAIN, gain, steps)
    for size in more:
        if len(sample.X) == len(problem.X) or gain <= STEADY:
            break
        sample = telling(problem.rows(problem.splits.sample(problem.Y, size)), AGAIN, steps)
        learned, gain = learn_again(sample, learned)
        tell_gain(sample, AGAIN, gain, steps)
    return learned._replace(kernel=without_empty_orders(learned.kernel))


def pruned_pair(sample: Problem, winner: Winner) -> Pair:
    """Return the kernels of the winner with the features that its terms of low orders need on these rows."""
    if not winner.low:
        return winner.pair
    low, _ = learn_again(sample, *winner.low)
    features = features_of(prune_kernel(sample, low, winner.allowance))
    return tuple(only_features(learned, features) for learned in winner.pair)


def tell_gain(sample: Problem, phase: str, gain: float, steps: Steps) -> None:
    steps.done(phase.format(len(sample.X)), f"gained {gain:.2g} log posterior per row")


def telling(problem: Problem, phase: str, steps: Steps) -> Problem:
    """Return the problem, which tells how many kernels were tried to learn from it."""
    return problem._replace(told=steps.counting(phase.format(len(problem.X)), "kernels"))


def features_of(learned: LearnedKernel) -> Features:
    """Return which features (D,) the kernel depends on."""
    features: Features = learned.kernel.relevance > 0
    return features


def _joined(pair: Pair) -> Pair:
    """Return the kernels of either half, each with the features and terms that only the other one has."""
    thetas = [learned.theta for learned in pair]
    return tuple(
        learned._replace(theta=completed(learned.theta, other))
        for learned, other in zip(pair, reversed(thetas), strict=True)
    )


def _mean(losses: Floats, sample: Problem) -> tuple[float, float]:
    """Return the mean of the losses (n,) that are known, and its standard error."""
    known, unit = ~np.isnan(losses), sample.splits.unit
    return mean_and_standard_error(losses[known], sample.weight[known], None if unit is None else unit[known])


def _contender(origin: str, kernel: Kernel, losses: Floats, sample: Problem, begin: float) -> Contender:
    error, spread = _mean(losses, sample)
    bases = dict.fromkeys(term.numeric_base for term in kernel.terms)
    is_product = kernel.order > 1 and not any(term.order_weights[:-1].any() for term in kernel.terms)
    features, seconds = int(np.sum(kernel.relevance > 0)), time.perf_counter() - begin
    order = max(1, min(kernel.order, features))  # orders above the number of features are empty
    return Contender(origin, "+".join(bases), is_product, order, features, error, spread, seconds)


def without_empty_orders(kernel: Kernel) -> Kernel:
    """Return the kernel without highest orders of a negligible share of the prior variance of their term."""
    return sum_of([_shortened(term) for term in kernel.terms])


def _shortened(term: AdditiveKernel) -> AdditiveKernel:
    e = elementary_symmetric(term.relevance, term.order)
    share = term.order_weights * e * term.normaliser
    order = int(np.flatnonzero(share >= NEGLIGIBLE * share.sum())[-1])
    return replace(term, order_weights=term.order_weights[: max(order, 1) + 1])
