"""The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i). Every solver returns one of these."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.marginals import Distribution, marginal_of


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """f(x) = offset + sum_i coef_i k(x, anchor_i); one column of coef and one offset per output.

    anchors (r, D), coef (r, q), offset (q,). ``marginals``: of the training table, feature by feature, missing values
    included; None: the anchors are its rows, each counting once.
    """

    kernel: AdditiveKernel
    anchors: Floats
    coef: Floats
    offset: Floats
    marginals: tuple[Distribution, ...] | None = None

    @property
    def parts(self) -> tuple[AdditiveKernel, Floats, Floats, Floats]:
        """kernel, anchors, coef, offset."""
        return self.kernel, self.anchors, self.coef, self.offset

    @property
    def background(self) -> tuple[Distribution, ...]:
        """The marginal of every feature in the training table; explanations compare with their product."""
        return self.marginals or tuple(marginal_of(x, np.ones(len(x))) for x in self.anchors.T)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and largest values (D,) of the training table, as far as remembered; NaN where all are missing."""
        low, high = np.fmin.reduce(self.anchors, axis=0), np.fmax.reduce(self.anchors, axis=0)
        if self.marginals is None:
            return low, high
        points = [marginal.points for marginal in self.marginals]
        return np.fmin(low, [np.fmin.reduce(x) for x in points]), np.fmax(high, [np.fmax.reduce(x) for x in points])

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be computed again: a model that has predicted is pickled as one that has not."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def predict(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """f(X) (n, q). No kernel block is formed: memory is that of the result, whatever the number of anchors."""
        return self.offset + self.kernel.product(X, self.anchors, self.coef, n_threads=n_threads)

    def times(self, unit: Floats) -> KernelExpansion:
        """The function whose outputs are unit (q,) times those of this one."""
        return replace(self, coef=unit * self.coef, offset=unit * self.offset)
