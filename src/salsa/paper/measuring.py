"""Measurement of one fit on one thread: its error on the test rows, and its times."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from salsa.paper.datasets import Dataset
from salsa.paper.functions import Sample


class Measured(NamedTuple):
    model: Any
    mse: float
    seconds: float  # CPU time of the fit, with all its tuning
    wall_seconds: float


def fit_and_predict(make: Callable[[], Any], data: Dataset | Sample, start_clock: Callable[[], None]) -> Measured:
    """Measure one fit; raise ValueError if its error is not finite. `start_clock` is called after all imports."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model = make()
        start_clock()
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(data.X_train, data.y_train)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        mse = float(np.mean((np.ravel(model.predict(data.X_test)) - data.y_test) ** 2))
    if not np.isfinite(mse):
        raise ValueError(f"the mean squared error is {mse}")
    return Measured(model, mse, cpu, wall)
