"""One fit of figure 1, and its result as a row."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from salsa.baselines.processes import OK, failure
from salsa.baselines.registry import find_rival, make_baseline
from salsa.paper.functions import Sample
from salsa.paper.measuring import fit_and_predict
from salsa.regressor import SalsaRegressor

Draw = Callable[[int, int], Sample]  # (n, trial) -> rows


class Job(NamedTuple):
    """One fit of a method to n rows in a trial."""

    method: str
    n: int
    trial: int


class Row(NamedTuple):
    """The result of a job. A failed job has no error; the `seconds` of a job that timed out are its limit."""

    method: str
    n: int
    trial: int
    mse: float | None
    variance: float | None  # variance of the test target
    order: int | None
    seconds: float
    status: str  # "ok", "timed out" or "failed: " and the reason

    @property
    def job(self) -> Job:
        return Job(self.method, self.n, self.trial)

    @property
    def limit(self) -> float:
        """The limit in CPU seconds of a job that timed out."""
        return self.seconds


def make(method: str) -> Any:
    """Make an estimator: "salsa-d3" is the paper's SALSA of order 3; ``make_baseline`` knows the other names."""
    if (order := fixed_order(method)) is None:
        return make_baseline(method)
    return SalsaRegressor(
        order, relevance="equal", interactions="exact", bandwidth="rule_of_thumb", random_state=0, n_jobs=1
    )


def fixed_order(method: str) -> int | None:
    """Return d for a name such as "salsa-d3", and None for other known names; unknown names are refused."""
    if (named := re.fullmatch(r"salsa-d([1-9]\d*)", method)) is not None:
        return int(named[1])
    find_rival(method)
    return None


def measure(job: Job, draw: Draw, *, start_clock: Callable[[], None] = lambda: None) -> Row:
    """Fit the rows of ``draw(n, trial)`` and predict its test rows; an error becomes the status."""
    begin = time.process_time()
    try:
        sample = draw(job.n, job.trial)
        model, mse, seconds, _ = fit_and_predict(partial(make, job.method), sample, start_clock)
    except Exception as error:  # an error in one method must not stop the other methods
        return Row(*job, None, None, None, time.process_time() - begin, failure(error))
    order = getattr(model, "order_", None)
    return Row(*job, mse, float(np.var(sample.y_test)), None if order is None else int(order), seconds, OK)
