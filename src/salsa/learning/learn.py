"""Learning of kernels: relevances, bandwidths, order weights and noise by the maximum of their posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.threads import max_threads
from salsa.data.rows import mapped
from salsa.kernels import Kernel, pair_loops
from salsa.kernels.sum import SumKernel, sum_of
from salsa.learning import Form, LearnedKernel, Problem
from salsa.learning.evidence import Evidence, Part
from salsa.learning.parameters import NOISE_RANGE, SumParameters, completed, without_features
from salsa.losses import Loss

T = TypeVar("T")
Forms = tuple[Form, ...]
Objective = Callable[[Floats], tuple[float, Floats]]  # value and gradient
Start = tuple[float, float]  # noise variance, and bandwidths in units of the usual ones

#: Starts of a sum: smooth with much noise, and rough with little noise
STARTS: tuple[Start, ...] = ((0.1, 3.0), (0.001, 0.3))
START: Start = (0.01, 1.0)  # start of a single term
CONVERGED, PATIENCE = 5e-4, 5  # learning ends when so many iterations gain less than this log posterior per row
MOST_ROWS = 3000  # more rows do not loosen this
STEEP = 1.0  # derivative of the log posterior by a logarithm, at which learning does not end
NOISE_GRID = np.geomspace(1e-6, 2.0, 9)  # noise variances that are tried first when the rows change
FEW = 16  # with at most so many features or terms, the removal of each is tried
FEW_TERMS = 3  # with at most so many terms, each removal is followed by new tries
PRUNING_ROUNDS = 3
LOG_NOISE_RANGE = tuple(np.log(NOISE_RANGE).tolist())
LOG_SCALE_RANGE = (float(np.log(1e-4)), float(np.log(1e4)))  # variance of the function / variance of the target
START_RHO, LOG_RHO_RANGE = 0.3, (float(np.log(1e-4)), float(np.log(1e4)))  # variance of a group's level / noise
SNAP = 0.01  # learned logarithms are rounded to multiples of this: rounding errors do not change the kernel


def learn_kernel(
    problem: Problem,
    forms: Forms,
    start: Start = START,
    features: NDArray[np.bool_] | None = None,
    tolerance: float = CONVERGED,
) -> LearnedKernel:
    """Return the most probable kernel with terms of these forms near the start, of all features or of these (D,)."""
    posterior = Posterior(problem, forms)
    with one_blas_thread():  # matrices are small: a second pool of threads would only compete
        return posterior.result(posterior.minimise(posterior.parameters.start(*start, features), tolerance))


def learn_again(problem: Problem, *learned: LearnedKernel) -> tuple[LearnedKernel, float]:
    """Return the most probable kernel near the best of some that were learned from other rows, and what this gained.

    Of each the noise variance is searched first; learning starts at the one that is then most probable. The gain is in
    log posterior per row.
    """
    posteriors = [Posterior(problem, one.forms, one.rho) for one in learned]
    with one_blas_thread():
        fitted = [posterior.with_own_noise(one.theta) for posterior, one in zip(posteriors, learned, strict=True)]
        best = int(np.argmax([one.evidence for one in fitted]))
        before, posterior = fitted[best], posteriors[best]
        found = posterior.result(posterior.minimise(posterior.parameters.revived(before.theta)))
        return found, (found.evidence - before.evidence) / len(problem.X)


def only_features(learned: LearnedKernel, features: NDArray[np.bool_]) -> LearnedKernel:
    """Return the parameters to learn again from, without the features that are not among these (D,)."""
    return learned._replace(theta=without_features(learned.theta, learned.forms, ~features))


def completed_kernel(problem: Problem, learned: LearnedKernel) -> LearnedKernel:
    """Return the kernel with features that vary in these rows but not in the rows that it was learned from.

    Their parameters have the values at which learning starts.
    """
    parameters = SumParameters(problem, learned.forms)
    theta = completed(learned.theta, parameters.start(*START))
    return learned._replace(theta=theta, kernel=sum_of(parameters.kernel(theta).terms))


def prune_kernel(
    problem: Problem, learned: LearnedKernel, allowance: float, rounds: int = PRUNING_ROUNDS
) -> LearnedKernel:
    """Remove features that cost at most `allowance` of log likelihood, learn again, and repeat while features go.

    Features that cost nothing go first: what they save is not spent on others.
    """
    posterior, theta = Posterior(problem, learned.forms, learned.rho), learned.theta
    with one_blas_thread():
        for cost in dict.fromkeys((0.0, allowance)):
            for _ in range(rounds):
                pruned = posterior.prune(theta, cost)
                if pruned is theta:
                    break
                theta = posterior.minimise(pruned)
        return posterior.result(theta)


def drop_terms(problem: Problem, learned: LearnedKernel, allowance: float) -> LearnedKernel:
    """Remove terms that cost at most `allowance` of log likelihood each; the others stay as they are."""
    posterior = Posterior(problem, learned.forms, learned.rho)
    with one_blas_thread():
        return posterior.result(posterior.drop_terms(learned.theta, allowance))


def held_out_losses(problem: Problem, kernel: Kernel, alpha: float, rho: float, loss: Loss) -> Floats:
    """Return the losses (n,) of the standardised targets of held-out rows, averaged over outputs; NaN if never tested.

    The folds are those that judge (``Splits.judges``): given ones, or one per unit.
    """
    evidence, judges = Evidence(problem.Y, problem.noise), problem.splits.judges
    K = kernel(problem.X, n_threads=problem.threads)
    if judges is None:
        losses: Floats = np.mean(loss.deviance(evidence.Y, evidence.leave_one_out(K, alpha, rho)), axis=1)
        return losses
    total, times = np.zeros(len(K)), np.zeros(len(K))
    for fold, residual in zip(judges, evidence.held_out(K, alpha, rho, judges), strict=True):
        total[fold.tested] += np.mean(loss.deviance(evidence.Y[fold.tested], residual), axis=1)
        times[fold.tested] += 1
    mean: Floats = np.divide(total, times, out=np.full(len(K), np.nan), where=times > 0)
    return mean


def learn_rho(problem: Problem, kernel: Kernel) -> float:
    """Return the most probable variance of a group's level over the noise, for a kernel up to its scale."""
    evidence, K = Evidence(problem.Y, problem.noise), kernel(problem.X, n_threads=problem.threads)
    K /= K.diagonal().mean()

    def objective(log: Floats) -> tuple[float, Floats]:
        scale, s2, rho = np.exp(log).tolist()
        found = evidence.factorise(scale * K, s2, rho)
        value, slope = evidence.value(found), evidence.slope(found)
        return value, np.array([scale * np.vdot(slope.K, K), slope.s2 * s2, slope.rho * rho])

    bounds: Any = [LOG_SCALE_RANGE, LOG_NOISE_RANGE, LOG_RHO_RANGE]
    with one_blas_thread():
        found = minimize(objective, np.log([1.0, 0.5, START_RHO]), jac=True, bounds=bounds, method="L-BFGS-B")
    return float(np.exp(found.x[-1]))


class Posterior:
    """The objective of learning: theta -> minus log posterior and its gradient."""

    def __init__(self, problem: Problem, forms: Forms, rho: float | None = None) -> None:
        self.problem, self.forms, self.grouped = problem, forms, problem.noise.group is not None
        self.parameters, evidence = SumParameters(problem, forms), Evidence(problem.Y, problem.noise)
        self.parts = [Part(problem, evidence, block) for block in problem.blocks or (None,)]
        start = problem.noise.rho or START_RHO
        self.rho = (start if rho is None else rho) if self.grouped else 0.0

    def __call__(self, theta: Floats, log_rho: float | None = None) -> tuple[float, Floats]:
        """Return minus the log posterior and its gradient by theta and, with groups, by log rho."""
        rho = self.rho if log_rho is None else float(np.exp(log_rho))
        s2, kernel = float(np.exp(theta[-1])), self.parameters.kernel(theta)

        def derivative(part: Part, threads: int | None) -> tuple[float, Floats]:
            value, slope = part.value_and_slope(_matrix(kernel, part, threads), s2, rho)
            by_theta = self.parameters.pull_back(theta, kernel, part.X, slope.K, threads)
            by_theta[-1] = slope.s2 * s2
            return value, np.append(by_theta, slope.rho * rho) if self.grouped else by_theta

        self.problem.told()
        values, gradients = zip(*self._each_part(derivative), strict=True)
        prior, gradient = self.parameters.prior(theta)
        slope = sum(gradients) + (np.append(gradient, 0.0) if self.grouped else gradient)
        return float(sum(values)) + prior, slope

    def fit_of(self, theta: Floats) -> float:
        """Return minus the log likelihood, without the prior."""
        return float(self._fits(theta, (float(np.exp(theta[-1])),))[0])

    def _fits(self, theta: Floats, variances: Sequence[float]) -> Floats:
        """Return minus the log likelihoods of a kernel with some noise variances, which share its matrices."""
        kernel = self.parameters.kernel(theta)

        def values(part: Part, threads: int | None) -> Floats:
            K = _matrix(kernel, part, threads)
            *others, last = variances
            return np.array([*(part.value(K.copy(), s2, self.rho) for s2 in others), part.value(K, last, self.rho)])

        self.problem.told()
        fits: Floats = sum(self._each_part(values), np.zeros(len(variances)))
        return fits

    def _each_part(self, function: Callable[[Part, int | None], T]) -> Iterator[T]:
        """Call the function of a part and its number of threads for every part; one has all threads, many one each."""
        threads = self.problem.threads
        if len(self.parts) == 1:
            yield function(self.parts[0], threads)
        else:
            workers = min(len(self.parts), max_threads() if threads is None else threads)

            def alone(part: Part) -> T:
                with one_blas_thread():  # a BLAS built on OpenMP has one limit per thread
                    return function(part, 1)

            yield from mapped(alone, self.parts, workers)

    def minimise(self, theta: Floats, tolerance: float = CONVERGED) -> Floats:
        """Return the most probable theta near this one, and set `rho` to its most probable value."""
        free, bounds = np.isfinite(theta), self.parameters.bounds()
        start, limits = theta[free], bounds[free]
        if self.grouped:
            start, limits = np.append(start, np.log(self.rho)), np.vstack([limits, LOG_RHO_RANGE])

        def objective(vector: Floats) -> tuple[float, Floats]:
            moved = theta.copy()
            moved[free] = vector[: int(free.sum())]
            value, gradient = self(moved, float(vector[-1]) if self.grouped else None)
            return value, gradient[np.append(free, True) if self.grouped else free]

        vector = _minimum(objective, start, limits, tolerance * min(self.parameters.n, MOST_ROWS))
        snapped: Floats = np.round(vector / SNAP) * SNAP
        if self.grouped:
            self.rho, snapped = float(np.exp(snapped[-1])), snapped[:-1]
        found = theta.copy()
        found[free] = snapped
        return found

    def with_own_noise(self, theta: Floats) -> LearnedKernel:
        """Return the kernel theta of other rows with the most probable noise variance for these: its own or of a grid.

        All variances share one kernel matrix. Features that do not vary in these rows are left out.
        """
        theta = without_features(theta, self.forms, self.parameters.constant)
        variances = np.append(NOISE_GRID, np.exp(theta[-1]))
        values = self._fits(theta, variances.tolist())
        best = int(np.argmin(values))
        return self.result(np.append(theta[:-1], np.log(variances[best])), values[best])

    def prune(self, theta: Floats, allowance: float) -> Floats:
        """Remove as many of the least relevant features as the likelihood allows, found by halving.

        Each may cost `allowance` units of log likelihood. ``SumParameters.without`` says what becomes of the mean of a
        removed base kernel.
        """
        levels = self.parameters.levels(theta)
        order = self._removal_order(theta, levels)

        def fit_without(count: int) -> float:
            return self.fit_of(self.parameters.without(theta, order[:count], levels))

        count = _most_removed(self.fit_of(theta), fit_without, len(order) - 1, allowance)
        return self.parameters.without(theta, order[:count], levels) if count else theta

    def _removal_order(self, theta: Floats, levels: Floats) -> Places:
        """Return the present features, the least useful first: each is tried alone if there are few."""
        present = np.flatnonzero(self.parameters.present(theta))
        if len(present) > FEW:
            return present[np.argsort(self.parameters.variation(theta, levels)[present], kind="stable")]
        fits = [self.fit_of(self.parameters.without(theta, np.array([j]), levels)) for j in present]
        return present[np.argsort(fits, kind="stable")]

    def drop_terms(self, theta: Floats, allowance: float) -> Floats:
        """Remove terms that cost at most `allowance` of log likelihood, the cheapest first; one term stays.

        Many terms are tried in the order of what each costs alone, or of their prior variances, and their number is
        found by halving.
        """
        places = self.parameters.present_terms(theta)
        if len(places) > FEW_TERMS:
            order = self._removal_order_of_terms(theta, places)

            def fit_without(count: int) -> float:
                return self.fit_of(self._without_terms(theta, order[:count]))

            count = _most_removed(self.fit_of(theta), fit_without, len(order) - 1, allowance)
            theta = self._without_terms(theta, order[:count])
            places = self.parameters.present_terms(theta)
        limit = self.fit_of(theta)
        while FEW_TERMS >= len(places) > 1:
            limit += allowance
            fits = {place: self.fit_of(self.parameters.without_term(theta, place)) for place in places}
            cheapest = min(fits, key=lambda place: fits[place])
            if fits[cheapest] > limit:
                break
            theta = self.parameters.without_term(theta, cheapest)
            places = self.parameters.present_terms(theta)
        return theta

    def _removal_order_of_terms(self, theta: Floats, places: list[int]) -> list[int]:
        """Return the terms, the least useful first: each is tried alone if there are few."""
        if len(places) > FEW:
            return sorted(places, key=self.parameters.variances(theta).__getitem__)
        return sorted(places, key=lambda place: self.fit_of(self.parameters.without_term(theta, place)))

    def _without_terms(self, theta: Floats, places: Sequence[int]) -> Floats:
        for place in places:
            theta = self.parameters.without_term(theta, place)
        return theta

    def result(self, theta: Floats, fit: float | None = None) -> LearnedKernel:
        """Return the kernel theta; `fit` is minus its log likelihood, if known."""
        evidence = -(self.fit_of(theta) if fit is None else fit) - self.parameters.prior(theta)[0]
        kernel, s2 = sum_of(self.parameters.kernel(theta).terms), float(np.exp(theta[-1]))
        return LearnedKernel(kernel, s2, evidence, theta, self.forms, self.rho)


def _most_removed(fit: float, fit_without: Callable[[int], float], most: int, allowance: float) -> int:
    """Return how many of at most `most` can be removed at `allowance` of log likelihood each, found by halving.

    `fit` is minus the log likelihood with all of them.
    """
    low, high = 0, most
    while low < high:
        count = (low + high + 1) // 2
        low, high = (count, high) if fit_without(count) <= fit + allowance * count else (low, count - 1)
    while low and fit_without(low) - fit_without(low - 1) > allowance:  # the last one is not worth its price
        low -= 1
    return low


def _matrix(kernel: SumKernel, part: Part, threads: int | None) -> Floats:
    """Return the kernel matrix of the rows of a part, without checking them again."""
    return pair_loops.block(kernel.terms, part.X, None, threads)


def _minimum(objective: Objective, start: Floats, limits: Floats, least: float) -> Floats:
    """Return a local minimum by L-BFGS-B, which is done when PATIENCE iterations together gain less than `least`.

    Curvatures that were remembered from far away can stop it on a slope. So it forgets them and goes on while the slope
    is steep and going on pays.
    """
    vector, value = start, np.inf
    settings: Any = {"jac": True, "bounds": limits, "options": {"maxcor": 20, "ftol": 0.0, "maxiter": 10_000}}
    while True:
        found = minimize(objective, vector, method="L-BFGS-B", callback=_Convergence(least), **settings)
        inside = (found.x > limits[:, 0]) & (found.x < limits[:, 1])
        gain, vector, value = value - found.fun, found.x, found.fun
        if gain < least or np.abs(found.jac[inside]).max(initial=0.0) < STEEP:
            return vector


class _Convergence:
    """A callback that ends an optimisation when PATIENCE iterations together gain less than `least`."""

    def __init__(self, least: float) -> None:
        self.least, self.values = least, list[float]()

    def __call__(self, intermediate_result: Any) -> None:
        self.values.append(float(intermediate_result.fun))
        if len(self.values) > PATIENCE and self.values[-1 - PATIENCE] - self.values[-1] < self.least:
            raise StopIteration
