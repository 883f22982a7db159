"""One loss of every kind, and targets for each: data of the tests of likelihood fits."""

import numpy as np
import pytest
from conftest import additive_truth

from salsa.losses import Gamma, Huber, Logistic, Poisson, Quantile, Softmax

LOSSES = {
    "logistic": Logistic(),
    "softmax": Softmax(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "huber": Huber(0.5),
    "quantile": Quantile(0.7, 0.2),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def table_for(name, n=300, seed=0):
    """Return rows of three features, targets and weights."""
    rng = np.random.default_rng(seed)
    X, f = additive_truth(n=n, D=3, seed=seed, noise=0.0)
    made = {
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-2 * f))).astype(float),
        "softmax": np.digitize(f + 0.5 * rng.normal(size=n), [-0.5, 0.5]),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(f)),
    }
    y = made.get(name, f + 0.5 * rng.standard_t(2, n))
    return X, (np.eye(3)[y] if name == "softmax" else y[:, None]), rng.uniform(0.5, 2.0, n)
