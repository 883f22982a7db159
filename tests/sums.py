"""Fits with sums of kernels: learning does not propose them, so these plans take the place of learned ones."""

import numpy as np

from salsa import AdditiveKernel, SumKernel
from salsa.selection.order import given
from salsa.selection.plan import Plan


def sum_kernel(bases, distributions=None):
    """Return a sum of smooth interactions, rough main effects and a product; no term uses the last feature."""
    D = len(bases)
    used = np.append(np.ones(D - 1), 0.0)

    def term(base, bandwidth, relevance, weights):
        names = tuple("equality" if name == "equality" else base for name in bases)
        return AdditiveKernel(np.full(D, bandwidth), relevance * used, weights, names, distributions)

    smooth = term("matern52", 1.0, np.linspace(1.0, 2.0, D), [0.0, 1.0, 1.0])
    return SumKernel([smooth, term("laplace", 0.5, 0.3, [0.1, 1.0]), term("gaussian", 2.0, 1.0, np.eye(D)[D - 1])])


def plan_with(kernel_of):
    """Return a plan in the place of ``make_plan``, with the kernel kernel_of(bases, distributions)."""

    def plan(options, problem, loss, progress):
        kernel = kernel_of(problem.base, problem.distributions)
        return Plan(lambda order: kernel, given([kernel.order]))

    return plan


def use_kernel(monkeypatch, kernel_of=sum_kernel):
    """Make all fits of a test use this kernel."""
    monkeypatch.setattr("salsa.fitting.make_plan", plan_with(kernel_of))
