"""The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i). Every solver returns one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from salsa.archive import entry
from salsa.kernels import AdditiveKernel, Distribution, Floats, marginal_of

MOST_ORDERS = 1030  # with more, C(D, d) is beyond float64 for some of them


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

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What a model file holds of it: a header for JSON, and arrays."""
        kernel = self.kernel
        header = {"base": kernel.base if isinstance(kernel.base, str) else list(kernel.base)}
        parameters = {
            "bandwidth": kernel.bandwidth,
            "relevance": kernel.relevance,
            "order_weights": kernel.order_weights,
        }
        parameters |= _flattened("distribution", kernel.distributions) | _flattened("marginal", self.marginals)
        return header, {**parameters, "anchors": self.anchors, "coef": self.coef, "offset": self.offset}

    @classmethod
    def from_state(cls, header: Any, arrays: Mapping[str, Floats]) -> KernelExpansion:
        """The inverse of ``state``; refuses arrays that do not fit each other."""
        anchors, coef, offset = (arrays[name] for name in ("anchors", "coef", "offset"))
        bandwidth, relevance, weights = (arrays[name] for name in ("bandwidth", "relevance", "order_weights"))
        if anchors.shape[1:] != bandwidth.shape or coef.shape != (len(anchors), *offset.shape):
            raise ValueError("its arrays do not fit each other")
        if len(weights) > MOST_ORDERS:  # before the kernel counts its terms, which would take long
            raise ValueError(f"its kernel has {len(weights)} order weights, more than {MOST_ORDERS}")
        base = entry(header, "base", {str, list})
        kernel = AdditiveKernel(bandwidth, relevance, weights, base, _distributions("distribution", arrays))
        observed = anchors if kernel.distributions is None else anchors[~np.isnan(anchors)]
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.abs(offset) + kernel.diagonal(anchors[:1]) * np.abs(coef).sum(axis=0)  # no |f(x)| is beyond
        if not np.isfinite(observed).all() or not np.isfinite(largest).all():
            raise ValueError("its arrays are not all finite, or give predictions that are not")
        marginals = _distributions("marginal", arrays, may_miss=True)
        if marginals is not None and len(marginals) != kernel.n_features:
            raise ValueError("its marginals do not fit its features")
        return cls(kernel, anchors, coef, offset, marginals)


def _flattened(kind: str, distributions: tuple[Distribution, ...] | None) -> dict[str, Floats]:
    if distributions is None:
        return {}
    points, weights = zip(*distributions, strict=True)
    sizes = np.array([len(p) for p in points], dtype=np.float64)
    return {
        f"{kind}_sizes": sizes,
        f"{kind}_points": np.concatenate(points),
        f"{kind}_weights": np.concatenate(weights),
    }


def _distributions(
    kind: str, arrays: Mapping[str, Floats], *, may_miss: bool = False
) -> tuple[Distribution, ...] | None:
    if f"{kind}_sizes" not in arrays:
        return None
    sizes, points, weights = (arrays[f"{kind}_{part}"] for part in ("sizes", "points", "weights"))
    n = len(points)
    if not ((sizes >= 1) & (sizes <= n)).all() or sizes.sum() != n or weights.shape != (n,):
        raise ValueError(f"its {kind}s do not fit each other")
    ends = np.cumsum(sizes).astype(np.intp)
    finite = np.isfinite(points) | (np.isnan(points) & may_miss)
    shares = ((weights >= 0) & (weights < 2)).all() and (np.add.reduceat(weights, [0, *ends[:-1]]) < 1 + 1e-6).all()
    if not finite.all() or not shares:
        raise ValueError(f"its {kind}s are not finite points of positive weights that sum to one")
    parts = zip(np.split(points, ends[:-1]), np.split(weights, ends[:-1]), strict=True)
    return tuple(Distribution(*part) for part in parts)
