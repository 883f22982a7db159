"""The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i). Every solver returns one of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from salsa.kernels import AdditiveKernel, Distribution, Floats


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
    def parts(self) -> tuple[AdditiveKernel, Floats, Floats, Floats]:
        """kernel, anchors, coef, offset."""
        return self.kernel, self.anchors, self.coef, self.offset

    def predict(self, X: Floats, *, n_threads: int | None = None) -> Floats:
        """f(X) (n, q). No kernel block is formed: memory is that of the result, whatever the number of anchors."""
        return self.offset + self.kernel.product(X, self.anchors, self.coef, n_threads=n_threads)

    def times(self, unit: Floats) -> KernelExpansion:
        """The function whose outputs are unit (q,) times those of this one."""
        return replace(self, coef=unit * self.coef, offset=unit * self.offset)

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What a model file holds of it: a header for JSON, and arrays."""
        kernel = self.kernel
        header = {"base": kernel.base if isinstance(kernel.base, str) else list(kernel.base)}
        parameters = {
            "bandwidth": kernel.bandwidth,
            "relevance": kernel.relevance,
            "order_weights": kernel.order_weights,
        }
        if kernel.distributions is not None:
            points, weights = zip(*kernel.distributions, strict=True)
            parameters["distribution_sizes"] = np.array([len(p) for p in points], dtype=np.float64)
            parameters["distribution_points"] = np.concatenate(points)
            parameters["distribution_weights"] = np.concatenate(weights)
        return header, {**parameters, "anchors": self.anchors, "coef": self.coef, "offset": self.offset}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, Floats]) -> KernelExpansion:
        """The inverse of ``state``; refuses arrays that do not fit each other."""
        anchors, coef, offset = (arrays[name] for name in ("anchors", "coef", "offset"))
        bandwidth, relevance, weights = (arrays[name] for name in ("bandwidth", "relevance", "order_weights"))
        kernel = AdditiveKernel(bandwidth, relevance, weights, header["base"], _distributions(arrays))
        if anchors.shape[1:] != (kernel.n_features,) or coef.shape != (len(anchors), len(offset)):
            raise ValueError("the model file's arrays do not fit each other")
        observed = anchors if kernel.distributions is None else anchors[~np.isnan(anchors)]
        if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (observed, coef, offset)):
            raise ValueError("the model file's arrays are not all finite float64 numbers")
        return cls(kernel, anchors, coef, offset)


def _distributions(arrays: dict[str, Floats]) -> tuple[Distribution, ...] | None:
    if "distribution_sizes" not in arrays:
        return None
    points, weights = arrays["distribution_points"], arrays["distribution_weights"]
    ends = np.cumsum(arrays["distribution_sizes"]).astype(np.intp)
    if (np.diff(ends, prepend=0) < 1).any() or ends[-1:] != [len(points)] or points.shape != weights.shape:
        raise ValueError("the model file's distributions do not fit each other")
    if not np.isfinite(points).all() or not ((weights >= 0) & (weights < np.inf)).all():
        raise ValueError("the model file's distributions are not finite")
    parts = zip(np.split(points, ends[:-1]), np.split(weights, ends[:-1]), strict=True)
    return tuple(Distribution(*part) for part in parts)
