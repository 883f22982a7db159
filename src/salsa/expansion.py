"""The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i). Every solver returns one of these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from salsa.kernels import AdditiveKernel, Floats


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """f(x) = offset + sum_i coef_i k(x, anchor_i); one column of coef and one offset per output.

    anchors (r, D), coef (r, q), offset (q,).
    """

    kernel: AdditiveKernel
    anchors: Floats
    coef: Floats
    offset: Floats

    @property
    def n_outputs(self) -> int:
        return len(self.offset)

    def predict(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """f(X) (n, q). No kernel block is formed: memory is that of the result, whatever the number of anchors."""
        return self.offset + self.kernel.product(X, self.anchors, self.coef, n_threads=n_threads)


def constant_expansion(kernel: AdditiveKernel, offset: Floats) -> KernelExpansion:
    """The constant function, written with no anchors."""
    return KernelExpansion(kernel, np.empty((0, kernel.n_features)), np.empty((0, len(offset))), offset)
