"""The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i). Every solver returns one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What a model file holds of it: a header for JSON, and arrays."""
        kernel = self.kernel
        header = {"base": kernel.base if isinstance(kernel.base, str) else list(kernel.base)}
        parameters = {
            "bandwidth": kernel.bandwidth,
            "relevance": kernel.relevance,
            "order_weights": kernel.order_weights,
        }
        return header, {**parameters, "anchors": self.anchors, "coef": self.coef, "offset": self.offset}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, Floats]) -> KernelExpansion:
        """The inverse of ``state``; refuses arrays that do not fit each other."""
        anchors, coef, offset = (arrays[name] for name in ("anchors", "coef", "offset"))
        kernel = AdditiveKernel(arrays["bandwidth"], arrays["relevance"], arrays["order_weights"], header["base"])
        if anchors.shape[1:] != (kernel.n_features,) or coef.shape != (len(anchors), len(offset)):
            raise ValueError("the model file's arrays do not fit each other")
        if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (anchors, coef, offset)):
            raise ValueError("the model file's arrays are not all finite float64 numbers")
        return cls(kernel, anchors, coef, offset)
