"""The fitted function f(x) = offset + sum_i coef_i k(x, anchor_i), which every solver returns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats, for_the_core
from salsa._utils.cached import cached_property
from salsa.kernels import Kernel
from salsa.kernels.marginals import Distribution, marginal_of
from salsa.kernels.pair_loops import Anchored

SPAN_ROWS = 3000  # an exact fit has at most so many anchors; iterated fits have as many as rows
SHARE_ROWS = 1000  # the variance of f is split among the terms of the kernel over at most so many anchors


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """The function f(x) = offset + sum_i coef_i k(x, anchor_i), with one column of coef and one offset per output.

    The shapes are anchors (r, D), coef (r, q) and offset (q,). ``marginals`` are the distributions of the features in
    the training table, missing values included; None: the anchors are the training rows, and each counts once.
    """

    kernel: Kernel  #: an ``AdditiveKernel`` or a ``SumKernel``
    anchors: Floats  #: (r, D)
    coef: Floats  #: (r, q)
    offset: Floats  #: (q,)
    marginals: tuple[Distribution, ...] | None = None  #: None: each anchor counts once

    @property
    def parts(self) -> tuple[Kernel, Floats, Floats, Floats]:
        """The tuple of kernel, anchors, coef and offset."""
        return self.kernel, self.anchors, self.coef, self.offset

    @property
    def background(self) -> tuple[Distribution, ...]:
        """The distribution of every feature in the training table; explanations compare with their product."""
        return self.marginals or tuple(marginal_of(x, np.ones(len(x))) for x in self.anchors.T)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and largest values (D,) of the training table, as far as kept; NaN where all are missing."""
        low, high = np.fmin.reduce(self.anchors, axis=0), np.fmax.reduce(self.anchors, axis=0)
        if self.marginals is None:
            return low, high
        points = [marginal.points for marginal in self.marginals]
        return np.fmin(low, [np.fmin.reduce(x) for x in points]), np.fmax(high, [np.fmax.reduce(x) for x in points])

    @cached_property
    def span(self) -> Floats:
        """The difference (q,) between the largest and the least prediction at the anchors, or at some of very many."""
        some = self.anchors[:: -(-len(self.anchors) // SPAN_ROWS)]
        span: Floats = np.ptp(self.predict(some, n_threads=1), axis=0)
        return span

    def shares_of_terms(self, *, n_threads: int | None = None) -> tuple[float, ...]:
        """Return the share Cov(f_t, f) / Var f of the part f_t of every term of the kernel, over the anchors.

        The outputs are added up, and some of very many anchors are looked at. All shares are 0 if f is constant there;
        otherwise they sum to one.
        """
        if len(self.kernel.terms) == 1:
            return (float(self.kernel.relevance.any()),)
        rows = self.anchors[:: -(-len(self.anchors) // SHARE_ROWS)]
        terms = self.kernel.terms
        parts = np.array([term.product(rows, self.anchors, self.coef, n_threads=n_threads) for term in terms])
        parts -= parts.mean(axis=1, keepdims=True)
        f = parts.sum(axis=0)
        return tuple((np.sum(parts * f, axis=(1, 2)) / (np.sum(f**2) or np.inf)).tolist())

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: pickles do not depend on cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def predict(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """Return f(X) (n, q) without forming a kernel block: memory does not depend on the number of anchors."""
        return self.offset + self._anchored.product(self.kernel.checked(X), self._coef, n_threads)

    def block(self, X: Floats, points: Floats, *, n_threads: int | None = None) -> Floats:
        """Return the kernel (n, r) between rows X and points; it is quickest if the points are the anchors.

        The bits of a row do not depend on the rows beside it.
        """
        kernel = self.kernel
        anchored = self._anchored if points is self.anchors else Anchored(kernel.terms, kernel.checked(points))
        return anchored.block(kernel.checked(X), n_threads)

    @cached_property
    def _anchored(self) -> Anchored:
        return Anchored(self.kernel.terms, self.kernel.checked(self.anchors))

    @cached_property
    def _coef(self) -> Floats:
        return for_the_core(self.coef)

    def times(self, unit: Floats) -> KernelExpansion:
        """Return the function with outputs multiplied by unit (q,)."""
        return replace(self, coef=unit * self.coef, offset=unit * self.offset)
