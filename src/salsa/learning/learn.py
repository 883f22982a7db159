"""Learning of kernels: relevances, bandwidths, order weights and noise by the maximum of their posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa.kernels import Kernel
from salsa.learning import LearnedKernel, Problem, Structure
from salsa.learning.evidence import Evidence
from salsa.learning.parameters import NOISE_RANGE, AdditiveParameters
from salsa.losses import Loss

FEW = 16  # with at most so many features, the removal of each is tried
PRUNING_ROUNDS, PRUNING_ITERATIONS = 3, 10
LOG_NOISE_RANGE = tuple(np.log(NOISE_RANGE).tolist())
LOG_SCALE_RANGE = (float(np.log(1e-4)), float(np.log(1e4)))  # variance of the function / variance of the target
START_RHO, LOG_RHO_RANGE = 0.3, (float(np.log(1e-4)), float(np.log(1e4)))  # variance of a group's level / noise
SNAP = 0.01  # learned logarithms are rounded to multiples of this: rounding errors do not change the kernel


def learn_kernel(
    problem: Problem, structure: Structure, *, start: Floats | None = None, iterations: int = 30
) -> LearnedKernel:
    """Return the most probable kernel of these orders, searched from `start` (any theta) or equal relevances."""
    posterior = Posterior(problem, structure)
    theta = posterior.parameters.start() if start is None else posterior.parameters.adapt(start)
    with one_blas_thread():  # matrices are small: a second pool of threads would only compete
        return posterior.result(posterior.minimise(theta, iterations))


def prune_kernel(problem: Problem, learned: LearnedKernel, allowance: float) -> LearnedKernel:
    """Remove features that cost at most `allowance` of log likelihood, learn again, and repeat while features go."""
    posterior, theta = Posterior(problem, learned.structure, learned.rho), learned.theta
    with one_blas_thread():
        for _ in range(PRUNING_ROUNDS):
            pruned = posterior.prune(theta, allowance)
            if pruned is theta:
                break
            theta = posterior.minimise(pruned, PRUNING_ITERATIONS)
        return posterior.result(theta)


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

    def __init__(self, problem: Problem, structure: Structure, rho: float | None = None) -> None:
        self.problem, self.structure, self.grouped = problem, structure, problem.noise.group is not None
        self.parameters, self.evidence = AdditiveParameters(problem, structure), Evidence(problem.Y, problem.noise)
        start = problem.noise.rho or START_RHO
        self.rho = (start if rho is None else rho) if self.grouped else 0.0

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Take theta and, with groups, log rho."""
        theta, rho = (vector[:-1], float(np.exp(vector[-1]))) if self.grouped else (vector, 0.0)
        s2, kernel = float(np.exp(theta[-1])), self.parameters.kernel(theta)
        found = self.evidence.factorise(kernel(self.problem.X, n_threads=self.problem.threads), s2, rho)
        value, slope = self.evidence.value(found), self.evidence.slope(found)
        prior, pull = self.parameters.prior(theta)
        gradient = np.append(self.parameters.pull_back(theta, kernel, slope.K), slope.s2 * s2) + pull
        return value + prior, np.append(gradient, slope.rho * rho) if self.grouped else gradient

    def fit_of(self, theta: Floats) -> float:
        """Return minus the log likelihood, without the prior."""
        K = self.parameters.kernel(theta)(self.problem.X, n_threads=self.problem.threads)
        return self.evidence.value(self.evidence.factorise(K, float(np.exp(theta[-1])), self.rho))

    def minimise(self, theta: Floats, iterations: int) -> Floats:
        """Return the most probable theta near this one, and set `rho` to its most probable value."""
        start, bounds = theta, self.parameters.bounds(theta)
        if self.grouped:
            start, bounds = np.append(theta, np.log(self.rho)), [*bounds, LOG_RHO_RANGE]
        settings: Any = {"jac": True, "bounds": bounds, "options": {"maxiter": iterations, "maxcor": 20}}
        found = minimize(self, start, method="L-BFGS-B", **settings)
        snapped: Floats = np.round(np.asarray(found.x) / SNAP) * SNAP
        if not self.grouped:
            return snapped
        self.rho = float(np.exp(snapped[-1]))
        return snapped[:-1]

    def prune(self, theta: Floats, allowance: float) -> Floats:
        """Remove as many of the least relevant features as the likelihood allows, found by halving.

        Each may cost `allowance` units of log likelihood. The importance of a feature is how much a_j k_j varies over
        pairs of rows; ``AdditiveParameters.without`` says what becomes of its mean.
        """
        a, level = self.parameters.relevance(theta), self.parameters.mean_base_kernels(theta)
        order = self._removal_order(theta, a, level)
        fit = self.fit_of(theta)
        low, high = 0, len(order) - 1
        while low < high:
            count = (low + high + 1) // 2
            if self.fit_of(self.parameters.without(theta, order[:count], a * level)) <= fit + allowance * count:
                low = count
            else:
                high = count - 1
        return self.parameters.without(theta, order[:low], a * level) if low else theta

    def _removal_order(self, theta: Floats, a: Floats, level: Floats) -> Places:
        """Return the present features, the least useful first: each is tried alone if there are few."""
        present = np.flatnonzero(a > 0)
        if len(present) > FEW:
            return present[np.argsort((a * (1 - level))[present], kind="stable")]
        fits = [self.fit_of(self.parameters.without(theta, np.array([j]), a * level)) for j in present]
        return present[np.argsort(fits, kind="stable")]

    def result(self, theta: Floats) -> LearnedKernel:
        evidence = -self.fit_of(theta) - self.parameters.prior(theta)[0]
        kernel, s2 = self.parameters.kernel(theta), float(np.exp(theta[-1]))
        return LearnedKernel(kernel, s2, evidence, theta, self.structure, self.rho)
