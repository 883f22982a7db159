"""Kernels: what solvers, learning and explanations ask of one."""

from __future__ import annotations

from typing import Any, Protocol

from salsa._utils.arrays import Floats
from salsa.kernels.additive import AdditiveKernel, KernelGradient
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.kernels.base import BASE_KERNELS
from salsa.kernels.marginals import Distribution

__all__ = ["BASE_KERNELS", "AdditiveKernel", "Distribution", "Kernel", "KernelGradient", "rule_of_thumb_bandwidth"]


class Kernel(Protocol):
    """A positive definite function of two rows of D features: a sum of additive kernels, its terms.

    Solvers and uncertainty use the three calls only. Learning uses the gradient of a term. Explanations, random
    features, files and the report's page go through the terms.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def order(self) -> int:
        """The largest order of interaction."""

    @property
    def relevance(self) -> Floats:
        """Relevances (D,); 0 exactly where no term depends on the feature."""

    @property
    def terms(self) -> tuple[AdditiveKernel, ...]: ...

    def __call__(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Floats:
        """Return K (n, m) of the rows of X (n, D) with the rows of Z (m, D), or with X itself."""

    def product(self, X: Any, Z: Any, V: Any, *, n_threads: int | None = None) -> Floats:
        """Return K(X, Z) V without forming K."""

    def diagonal(self, X: Any) -> Floats:
        """Return k(x_i, x_i) (n,)."""
