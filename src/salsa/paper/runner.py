"""One experiment of Table 1: data set x method x seed -> a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from salsa.paper.datasets import load_dataset
from salsa.paper.protocol import AuthorsProtocol
from salsa.regressor import SalsaRegressor

#: method -> a new estimator. "salsa" runs as the authors' program; "salsa-5fold" is the paper's text: all five folds, with intercept.
METHODS: dict[str, Callable[[], Any]] = {
    "salsa": AuthorsProtocol,
    "salsa-5fold": lambda: SalsaRegressor(relevance="equal", interactions="exact", bandwidth="rule_of_thumb", random_state=0),
}


class Row(TypedDict):
    dataset: str
    method: str
    protocol: str
    n: int
    D: int
    mse: float
    order: int
    seconds: float
    published_mse: float | None
    published_order: int | None


def run(dataset: str, method: str, protocol: str = "authors", *, noise_seed: int = 0) -> Row:
    """Fit on the training rows, and the mean squared error on the test rows."""
    data = load_dataset(dataset, protocol, noise_seed=noise_seed)
    start = time.process_time()
    model = METHODS[method]().fit(data.X_train, data.y_train)
    seconds = time.process_time() - start
    return Row(
        dataset=dataset,
        method=method,
        protocol=protocol,
        n=len(data.X_train),
        D=data.X_train.shape[1],
        mse=float(np.mean((model.predict(data.X_test) - data.y_test) ** 2)),
        order=int(model.order_),
        seconds=seconds,
        published_mse=data.published_mse,
        published_order=data.published_order,
    )
