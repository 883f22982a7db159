"""Ridge regression with an additive kernel; every solver returns a ``KernelExpansion``."""

from salsa.solvers.factor import Factor, exact_bytes, exact_factor
from salsa.solvers.ridge import Fold, HeldOut, coefficients, degrees_of_freedom, expansion, held_out, solve_once

__all__ = [
    "Factor",
    "Fold",
    "HeldOut",
    "coefficients",
    "degrees_of_freedom",
    "exact_bytes",
    "exact_factor",
    "expansion",
    "held_out",
    "solve_once",
]
