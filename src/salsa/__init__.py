"""Accurate, smooth and readable models of tables: additive kernels of any interaction order."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from salsa._version import __version__

if TYPE_CHECKING:
    from salsa.classifier import SalsaClassifier
    from salsa.expansion import KernelExpansion
    from salsa.kernels.additive import AdditiveKernel
    from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
    from salsa.kernels.sum import SumKernel
    from salsa.loading import load
    from salsa.regressor import SalsaRegressor
    from salsa.selection.results import OrderSearch

__all__ = [
    "AdditiveKernel",
    "KernelExpansion",
    "OrderSearch",
    "SalsaClassifier",
    "SalsaRegressor",
    "SumKernel",
    "__version__",
    "explain",
    "load",
    "rule_of_thumb_bandwidth",
]

_HOMES = {
    "AdditiveKernel": "salsa.kernels.additive",
    "KernelExpansion": "salsa.expansion",
    "OrderSearch": "salsa.selection.results",
    "SalsaClassifier": "salsa.classifier",
    "SalsaRegressor": "salsa.regressor",
    "SumKernel": "salsa.kernels.sum",
    "load": "salsa.loading",
    "rule_of_thumb_bandwidth": "salsa.kernels.bandwidths",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `salsa --help` does not wait for SciPy and scikit-learn."""
    if name == "explain":
        return import_module("salsa.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'salsa' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
