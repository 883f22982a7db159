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
from salsa.learning.parameters import AdditiveParameters
from salsa.losses import Loss

FEW = 16  # with at most so many features, the removal of each is tried
PRUNING_ROUNDS, PRUNING_ITERATIONS = 3, 10
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
    posterior, theta = Posterior(problem, learned.structure), learned.theta
    with one_blas_thread():
        for _ in range(PRUNING_ROUNDS):
            pruned = posterior.prune(theta, allowance)
            if pruned is theta:
                break
            theta = posterior.minimise(pruned, PRUNING_ITERATIONS)
        return posterior.result(theta)


def leave_one_out_losses(problem: Problem, kernel: Kernel, alpha: float, loss: Loss) -> Floats:
    """Return leave-one-out losses (n,) of the standardised targets, averaged over outputs."""
    evidence = Evidence(problem.Y, problem.weight)
    residual = evidence.leave_one_out(kernel(problem.X, n_threads=problem.threads), alpha)
    losses: Floats = np.mean(loss.deviance(evidence.Y, residual), axis=1)
    return losses


class Posterior:
    """The objective of learning: theta -> minus log posterior and its gradient."""

    def __init__(self, problem: Problem, structure: Structure) -> None:
        self.problem, self.structure = problem, structure
        self.parameters, self.evidence = AdditiveParameters(problem, structure), Evidence(problem.Y, problem.weight)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        noise, kernel = float(np.exp(theta[-1])), self.parameters.kernel(theta)
        found = self.evidence.factorise(kernel(self.problem.X, n_threads=self.problem.threads), noise)
        value = self.evidence.value(found)
        dK, dnoise = self.evidence.slope(found)
        gradient = np.append(self.parameters.pull_back(theta, kernel, dK), dnoise * noise)
        prior, slope = self.parameters.prior(theta)
        return value + prior, gradient + slope

    def fit_of(self, theta: Floats) -> float:
        """Return minus the log likelihood, without the prior."""
        K = self.parameters.kernel(theta)(self.problem.X, n_threads=self.problem.threads)
        return self.evidence.value(self.evidence.factorise(K, float(np.exp(theta[-1]))))

    def minimise(self, theta: Floats, iterations: int) -> Floats:
        bounds = self.parameters.bounds(theta)
        settings: Any = {"jac": True, "bounds": bounds, "options": {"maxiter": iterations, "maxcor": 20}}
        found = minimize(self, theta, method="L-BFGS-B", **settings)
        snapped: Floats = np.round(np.asarray(found.x) / SNAP) * SNAP
        return snapped

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
        return LearnedKernel(self.parameters.kernel(theta), float(np.exp(theta[-1])), evidence, theta, self.structure)
