"""Accurate, smooth and readable regression on tables: additive kernels of any interaction order."""

from salsa.expansion import KernelExpansion
from salsa.kernels import AdditiveKernel, rule_of_thumb_bandwidth
from salsa.regressor import SalsaRegressor, load
from salsa.selection import OrderSearch

__version__ = "0.1.0.dev0"

__all__ = [
    "AdditiveKernel",
    "KernelExpansion",
    "OrderSearch",
    "SalsaRegressor",
    "__version__",
    "load",
    "rule_of_thumb_bandwidth",
]
