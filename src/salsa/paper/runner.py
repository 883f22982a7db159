"""One experiment of Table 1: data set x method -> a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import mean, mode, pstdev
from typing import Any, NamedTuple, TypedDict

import numpy as np

from salsa.paper.datasets import Dataset, load_dataset
from salsa.paper.protocol import AuthorsProtocol

NOISE_SEEDS = 5  # draws of the noise columns of airfoil and ccpp, which the authors' program did not keep

#: method -> a new estimator. "salsa" is the authors' program, "salsa-5fold" the same with all five folds.
METHODS: dict[str, Callable[[], Any]] = {"salsa": AuthorsProtocol, "salsa-5fold": lambda: AuthorsProtocol(folds_used=5)}


class Row(TypedDict):
    """Over `seeds` draws of noise columns: mse and seconds are means, mse_sd the spread, order the most frequent."""

    dataset: str
    method: str
    protocol: str
    n: int
    D: int
    mse: float
    mse_sd: float
    seeds: int
    order: int
    seconds: float
    published_mse: float | None
    published_order: int | None


class Trial(NamedTuple):
    mse: float
    order: int
    seconds: float


def run(dataset: str, method: str, protocol: str = "authors") -> Row:
    """Fit on the training rows, mean squared error on the test rows; over several draws of noise columns, if any."""
    data = load_dataset(dataset, protocol)
    has_noise = data.feature_names[-1].startswith("noise_")
    draws = [
        data,
        *(load_dataset(dataset, protocol, noise_seed=seed) for seed in range(1, NOISE_SEEDS if has_noise else 1)),
    ]
    trials = [_trial(draw, METHODS[method]()) for draw in draws]
    errors = [trial.mse for trial in trials]
    return Row(
        dataset=dataset,
        method=method,
        protocol=protocol,
        n=len(data.X_train),
        D=data.X_train.shape[1],
        mse=mean(errors),
        mse_sd=pstdev(errors),
        seeds=len(trials),
        order=mode(trial.order for trial in trials),
        seconds=mean(trial.seconds for trial in trials),
        published_mse=data.published_mse,
        published_order=data.published_order,
    )


def _trial(data: Dataset, model: Any) -> Trial:
    start = time.process_time()
    model.fit(data.X_train, data.y_train)
    seconds = time.process_time() - start
    return Trial(float(np.mean((model.predict(data.X_test) - data.y_test) ** 2)), int(model.order_), seconds)
