"""Learned kernels: the problem that they are learned from, and the protocol of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa._utils.progress import unheard
from salsa._utils.weighted import power_of_two
from salsa.data.interaction_sets import Sets
from salsa.data.noise import Noise
from salsa.data.splits import Splits
from salsa.kernels import Kernel
from salsa.kernels.base import replaced
from salsa.kernels.marginals import Distribution


class Form(NamedTuple):
    """The form of a term of a learned kernel: the base kernel of its numbers, and its orders lowest..highest.

    Without orders the term is the product of all features. With sets there is such a term for the features of each set;
    the terms of all sets share one prior of their bandwidths.
    """

    base: str
    lowest: int = 0
    highest: int = 0
    sets: Sets = ()  # disjoint sets of as many features each; none: one set of all features

    @property
    def is_product(self) -> bool:
        return self.highest == 0


class Block(NamedTuple):
    """A block of rows, and the earlier rows that its likelihood is conditional on (``salsa.learning.conditional``)."""

    given: Places
    rows: Places


class Problem(NamedTuple):
    """The rows that a kernel is learned from, and the parts of the kernel that are fixed."""

    X: Floats  # (n, D)
    Y: Floats  # (n, q)
    noise: Noise
    splits: Splits
    base: tuple[str, ...]
    distributions: tuple[Distribution, ...] | None = None  # one per feature, for missing values
    bandwidth: Floats | None = None  # (D,) if bandwidths are given and not learned
    threads: int | None = 1
    total: float | None = None  # number of all rows, if these are a sample of a table
    told: Callable[[], None] = unheard  # called for every kernel whose likelihood is computed
    blocks: tuple[Block, ...] | None = None  # None: the likelihood of all rows at once

    @property
    def weight(self) -> Floats:
        """The weights (n,), which are one on average."""
        return self.noise.weight

    def rows(self, index: Places | NDArray[np.bool_]) -> Problem:
        """Return some of the rows, with outputs divided by their own size: learning does not depend on units."""
        places = np.arange(len(self.X))[index]
        X, Y = np.ascontiguousarray(self.X[places]), self.Y[places]
        noise, splits = self.noise.some(places), self.splits.at(places)
        return self._replace(X=X, Y=Y / power_of_two(Y), noise=noise, splits=splits, total=None, blocks=None)

    def with_rho(self, rho: float) -> Problem:
        return self._replace(noise=self.noise.with_rho(rho))

    def bases(self, name: str) -> tuple[str, ...]:
        """Return the base kernel of every feature if numbers have this one; categories keep theirs."""
        return tuple(replaced(base, name) for base in self.base)


class LearnedKernel(NamedTuple):
    """A learned kernel, its noise variance, and their log posterior."""

    kernel: Kernel
    noise: float  # s2 in units of the target's variance: the alpha that goes with the kernel
    evidence: float  # log posterior, up to a constant
    theta: Floats
    forms: tuple[Form, ...]
    rho: float = 0.0  # variance of a group's level, in units of the noise variance


class Parameters(Protocol):
    """Logarithms theta of a kernel's parameters, the noise last, with their start, bounds, prior and gradient.

    An infinite logarithm is fixed: it removes a feature (relevance 0, bandwidth infinite) or a term (weight 0).
    """

    def start(self, noise: float, width: float, features: NDArray[np.bool_] | None = None) -> Floats:
        """Return theta of equal relevances, with this noise variance, and bandwidths `width` times the usual ones."""

    def bounds(self) -> Floats:
        """Return the range of every parameter (., 2)."""

    def prior(self, theta: Floats) -> tuple[float, Floats]:
        """Return minus the log prior density, up to a constant, and its gradient."""

    def kernel(self, theta: Floats) -> Kernel: ...

    def pull_back(self, theta: Floats, kernel: Kernel, X: Floats, dK: Floats, threads: int | None) -> Floats:
        """Turn dL/dK (m, m) for the kernel matrix of rows X (m, D) into dL/dtheta, 0 for the noise."""
