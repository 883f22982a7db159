"""The uncertainty of predictions: standard deviations, intervals and leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from salsa._utils.arrays import Floats


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

    Methods take k (m, r), the kernel between m rows and the r `points` (of intervals) or `sd_points` (of standard
    deviations), and prior (m,), the values k(x, x). For leave-one-out predictions, an exact fit, which stores its rows,
    has ``training_rows()``; a low-rank fit, which does not, has ``leave_one_out(rows, ...)``.
    """

    @property
    def keeps_rows(self) -> bool: ...

    @property
    def points(self) -> Floats:
        """The rows (r, D) that kernel values are wanted with for intervals."""

    @property
    def sd_points(self) -> Floats:
        """The rows (r, D) that kernel values are wanted with for standard deviations."""

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        """Compute what predictions need, once; MemoryError before it would take more than the limit."""

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        """Return the posterior standard deviation (m, q) of f at m rows, or of m linear functionals of f.

        For functionals, k is what each makes of the kernel with the points, prior of the kernel in both arguments, and
        constant of the constant 1.
        """

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        """Return lower and upper ends (m, q, 2) of intervals for new observations at the rows X (m, D)."""


class Unavailable(NamedTuple):
    """Instead of an uncertainty: the reason why there is none."""

    reason: str
