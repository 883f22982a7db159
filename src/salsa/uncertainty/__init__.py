"""Uncertainty of predictions: standard deviations, intervals and leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

from salsa._utils.arrays import Floats
from salsa.data.rows import Observations


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The target of every training row and output, and the prediction of the model without that row.

    ``sd`` is the predictive standard deviation of an observation, noise included, in the Gaussian-process reading.
    """

    target: Floats  # (n, q)
    prediction: Floats  # (n, q)
    sd: Floats  # (n, q)
    weight: Floats  # (n,)


class Uncertainty(Protocol):
    """The uncertainty of a model's predictions, in the units of the target.

    k (m, r) are kernel values of m rows with the `points`, and prior (m,) is k(x, x).
    """

    @property
    def keeps_rows(self) -> bool:
        """Whether the training rows are kept, so that ``leave_one_out`` needs no rows."""

    @property
    def points(self) -> Floats:
        """The rows (r, D) that kernel values are wanted with."""

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        """Compute what predictions need, once; MemoryError before it would take more than the limit."""

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0) -> Floats:
        """Return the posterior standard deviation (m, q) of f at m rows.

        The same of m linear functionals of f: k is what each makes of the kernel with the points, prior of the kernel
        in both arguments, and constant of the constant 1.
        """

    def interval(self, prediction: Floats, k: Floats, prior: Floats, coverage: float) -> Floats:
        """Return lower and upper ends (m, q, 2) of intervals for new observations."""

    def leave_one_out(self, rows: Observations | None, prediction: Floats, k: Floats, prior: Floats) -> LeaveOneOut:
        """Return what the model without each row says of it; without rows, of the training rows that are kept."""


@dataclass(frozen=True)
class Unavailable:
    """Instead of an uncertainty: the reason why there is none. Every question raises it as a ValueError."""

    reason: str
    keeps_rows: bool = False

    @property
    def points(self) -> Floats:
        self._refuse()

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        self._refuse()

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0) -> Floats:
        self._refuse()

    def interval(self, prediction: Floats, k: Floats, prior: Floats, coverage: float) -> Floats:
        self._refuse()

    def leave_one_out(self, rows: Observations | None, prediction: Floats, k: Floats, prior: Floats) -> LeaveOneOut:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(self.reason)
