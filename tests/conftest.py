"""Data shared by the tests."""

import os

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

needs_data = pytest.mark.skipif(
    not os.environ.get("SALSA_DATA"), reason="SALSA_DATA is not set: the paper's data sets are not at hand"
)


def additive_truth(n=150, D=6, seed=0, noise=0.1):
    """Order 2 in three features of D, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


@pytest.fixture
def data():
    return additive_truth()
