"""Small problems for tests of learning."""

import naive
import numpy as np

from salsa.data.noise import Noise
from salsa.data.splits import drawn_splits
from salsa.learning import Form, Problem

GROUP = np.random.default_rng(2).permutation(np.repeat(np.arange(9), [1, 1, 1, 2, 3, 3, 4, 5, 5]))


def problem_of(X, Y, base="gaussian", weight=None, group=None, rho=0.0, **others):
    bases = (base,) * X.shape[1] if isinstance(base, str) else base
    noise = Noise(np.ones(len(X)) if weight is None else weight, group, rho)
    splits = drawn_splits(len(X), 5, group, np.random.RandomState(0))
    return Problem(X, Y if Y.ndim == 2 else Y[:, None], noise, splits, bases, **others)


def small_problem(base="gaussian", q=2, weighted=True, D=4, group=None, rho=0.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, D))
    if naive.BASE_KERNELS[base].for_categories:
        X = np.round(X)
    weight = rng.integers(1, 4, 25).astype(float) if weighted else None
    weight = None if weight is None else weight / weight.mean()
    return problem_of(X, rng.normal(size=(25, q)), base, weight, group, rho)


def low(lowest, highest, base="gaussian"):
    """Return the forms of a kernel of one term, of these orders."""
    return (Form(base, lowest, highest),)
