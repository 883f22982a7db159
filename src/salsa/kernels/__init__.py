"""Kernels, and the protocol that solvers, learning and explanations rely on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from salsa._utils.arrays import Floats
    from salsa.kernels.additive import AdditiveKernel
    from salsa.kernels.marginals import Distribution

_HOMES = {
    "AdditiveKernel": "additive",
    "SumKernel": "sum",
    "BASE_KERNELS": "base",
    "rule_of_thumb_bandwidth": "bandwidths",
}


class Kernel(Protocol):
    """A positive definite function of two rows of D features: a sum of additive kernels, its terms.

    ``AdditiveKernel``, whose only term is the kernel itself, and ``SumKernel`` are such kernels. Solvers and
    uncertainty use the three calls. Learning uses the gradient of a term. Explanations, random features, files and the
    report's page go through the terms. Features are categories in all terms or in none.
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
    def bandwidth(self) -> Floats:
        """Bandwidths (D,); for a sum, a mean over the terms."""

    @property
    def distributions(self) -> tuple[Distribution, ...] | None:
        """The distributions that stand for missing values, equal in all terms."""

    @property
    def terms(self) -> tuple[AdditiveKernel, ...]: ...

    def __call__(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Floats:
        """Return K (n, m) of the rows of X (n, D) with the rows of Z (m, D), or with X itself."""

    def single(self, X: Any, Z: Any = None, *, n_threads: int | None = None) -> NDArray[np.float32]:
        """Return K in float32, with errors below 4e-7 of its diagonal."""

    def product(self, X: Any, Z: Any, V: Any, *, n_threads: int | None = None) -> Floats:
        """Return K(X, Z) V without forming K."""

    def diagonal(self, X: Any) -> Floats:
        """Return k(x_i, x_i) (n,)."""

    def checked(self, X: Any) -> Floats:
        """Return rows as the compiled core takes them (n, D); ValueError for other shapes and numbers."""


def __getattr__(name: str) -> Any:
    """Import on first use: the command line reads the table of base kernels, and its help must be quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'salsa.kernels' has no attribute {name!r}")
    return getattr(import_module(f"salsa.kernels.{_HOMES[name]}"), name)
