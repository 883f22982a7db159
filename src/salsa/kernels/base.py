"""The table of base kernels k(t) of single features, t = x_j - x'_j, of bandwidth h.

The compiled core computes the values (src/cpp/bases.hpp). A row has everything else that depends on the base kernel:
entries for random features, the report and its page, and the command line. docs/howto/base_kernel.md adds a kernel.

Every base kernel also exists on a circle of circumference 1, for features such as the time of year: its difference t
becomes the chord sin(pi t) / pi. A base kernel is positive definite in the plane, and so on any circle in the plane.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command line reads this table, and its help must be quick
    import numpy as np
    from numpy.random import RandomState
    from numpy.typing import NDArray

    Frequencies = Callable[[RandomState, int], NDArray[np.float64]]


class BaseKernel(NamedTuple):
    """A base kernel as Python sees it: names, formulas and properties."""

    name: str  # as in C++
    title: str  # name in the report
    formula: str  # in t and h
    page: str  # the formula as a function of JavaScript, for the report's page
    smoothness: float = 0  # how often the curves can be differentiated
    frequencies: Frequencies | None = None  # draws from the spectral density for h = 1; None for categories and circles
    for_categories: bool = False


#: Base kernels by name, in the order of the compiled core's codes
BASE_KERNELS = {
    row.name: row
    for row in (
        BaseKernel(
            name="gaussian",
            title="Gaussian",
            formula="exp(-t^2 / (2 h^2))",
            page="(t, h) => Math.exp(-0.5 * (t / h) * (t / h))",
            smoothness=inf,
            frequencies=lambda random_state, count: random_state.standard_normal(count),
        ),
        BaseKernel(
            name="laplace",
            title="Laplace",
            formula="exp(-|t| / h)",
            page="(t, h) => Math.exp(-Math.abs(t) / h)",
            smoothness=0,
            frequencies=lambda random_state, count: random_state.standard_t(1, count),
        ),
        BaseKernel(
            name="matern32",
            title="Matérn 3/2",
            formula="(1 + r) exp(-r), r = sqrt(3) |t| / h",
            page="(t, h) => decayed((Math.sqrt(3) * Math.abs(t)) / h, (r) => 1 + r)",
            smoothness=1,
            frequencies=lambda random_state, count: random_state.standard_t(3, count),
        ),
        BaseKernel(
            name="matern52",
            title="Matérn 5/2",
            formula="(1 + r + r^2/3) exp(-r), r = sqrt(5) |t| / h",
            page="(t, h) => decayed((Math.sqrt(5) * Math.abs(t)) / h, (r) => 1 + r + (r * r) / 3)",
            smoothness=2,
            frequencies=lambda random_state, count: random_state.standard_t(5, count),
        ),
        BaseKernel(
            name="equality",
            title="equality for categories",
            formula="1 if t = 0 else 0 (categories; no bandwidth)",
            page="(t) => (t === 0 ? 1 : 0)",
            for_categories=True,
        ),
    )
}

#: Begins the names of base kernels on a circle
CYCLIC = "cyclic_"


def cyclic(name: str) -> str:
    """Return the name of a base kernel on a circle."""
    return CYCLIC + name


def is_cyclic(name: str) -> bool:
    """Return whether a base kernel is one on a circle."""
    return name.startswith(CYCLIC)


def straight(name: str) -> str:
    """Return the name of a base kernel on a line."""
    return name.removeprefix(CYCLIC)


def replaced(base: str, name: str) -> str:
    """Return the base kernel `name` in the place of `base`: on a circle if `base` is; categories keep theirs."""
    if BASE_KERNELS[straight(base)].for_categories:
        return base
    return cyclic(name) if is_cyclic(base) else name


def _on_circle(row: BaseKernel) -> BaseKernel:
    return row._replace(
        name=cyclic(row.name),
        title=f"periodic {row.title}",
        formula=f"{row.formula}, with sin(pi t) / pi in the place of t",
        page=f"(t, h) => BASES.{row.name}(Math.sin(Math.PI * t) / Math.PI, h)",
        frequencies=None,
    )


#: Base kernels by name, on a line and on a circle
ALL_BASES = BASE_KERNELS | {
    cyclic(name): _on_circle(row) for name, row in BASE_KERNELS.items() if not row.for_categories
}

#: Names of the base kernels for numbers
NUMERIC_BASES = tuple(name for name, row in BASE_KERNELS.items() if not row.for_categories)
