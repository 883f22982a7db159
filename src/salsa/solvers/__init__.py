"""Solvers of ridge regression with a kernel; every solver returns a ``KernelExpansion``.

A solver is a module with an object ``SOLVER``, and a row in the table below; modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from numpy.random import RandomState

from salsa._utils.arrays import Floats
from salsa._utils.progress import SILENT, Steps
from salsa.data.noise import Noise
from salsa.data.rows import Observations, Rows
from salsa.data.splits import Splits, TableSplits
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.losses import Loss
from salsa.solvers.alpha import AlphaPath
from salsa.solvers.slopes import Monotone
from salsa.solvers.tiles import TileHolder
from salsa.uncertainty import Unavailable, Uncertainty

#: Solvers by the name that users give, and the module of each
SOLVERS = {
    "exact": "exact",
    "lowrank": "lowrank",
    "pcg": "pcg",
    "features": "random_features",
    "divide": "divide",
}

SAMPLE_ROWS = 20_000  # rows of a task's sample: kernels are learned from them, and anchors chosen


class RidgeTask(NamedTuple):
    """A ridge fit with a chosen kernel; solvers work with targets divided by `unit`, minus `level`."""

    rows: Rows  # all rows, in memory, in a file or on a cluster
    sample: Observations  # some or all rows, with targets divided by `unit`
    kernel: Kernel
    alpha: float  # chosen on a part of the sample, or on all rows
    alphas: tuple[float, ...] | None  # the user's candidates; None: alpha is searched
    rank: int  # the most anchors, random features or rows of a part
    unit: Floats  # (q,)
    level: Floats  # (q,), after division by `unit`
    random_state: RandomState
    threads: int | None
    loss: Loss
    rho: float = 0.0  # variance of a group's level, in units of the noise
    splits: Splits | None = None  # the splits of the sample, if it is all rows
    counts: Floats | None = None  # how many new observations a row of the sample stands for; None: one
    table: TableSplits | None = None  # the splits of all rows, if there are more
    two_valued: bool = False  # a target of two values: the size of a residual is no scale, it follows the prediction
    mean_weight: float = 1.0  # the mean of the weights as given, which the weights of the rows are divided by
    error: float = 1.0  # held-out error of alpha on a part of the sample, as a share of the variance; 1 if unknown
    memory: int = 0  # bytes that the solver may take in this process
    cluster: TileHolder | None = None  # workers that hold the kernel matrix; None: this process does
    steps: Steps = SILENT  # told how far the solver is
    monotone: Monotone | None = None  # which features are monotone; None: the fit is free

    @property
    def noise(self) -> Noise:
        """The noise of the sample."""
        return Noise(self.sample.weight, self.sample.group, self.rho)


class Solution(NamedTuple):
    """The fitted function, its uncertainty and the choice of alpha, in the units of the target."""

    expansion: KernelExpansion
    uncertainty: Uncertainty | Unavailable
    path: AlphaPath | None = None  # None: the task's alpha was used
    degrees_of_freedom: float = 0.0  # at the alpha of the path
    notes: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()  # the scale of the intervals of every output
    residual: Floats | None = None  # (k, q) some held-out residuals


class Solver(NamedTuple):
    """A way to solve a task, and its need of rows and memory."""

    needs_all_rows: bool  # whether all rows must be in the memory of this process
    #: n, D, outputs, rank, folds, threads -> peak memory in bytes, without the table
    bytes: Callable[[int, int, int, int, int, int], int]
    solve: Callable[[RidgeTask], Solution]


def find_solver(name: str) -> Solver:
    """Return the solver of this name."""
    solver: Solver = import_module(f"salsa.solvers.{SOLVERS[name]}").SOLVER
    return solver
