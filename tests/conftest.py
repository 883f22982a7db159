"""Data shared by the tests."""

import os

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

mpl.use("Agg")

# Chosen by --hypothesis-profile or HYPOTHESIS_PROFILE. None of them looks at a clock, which a busy machine would fail:
# neither deadlines nor the health check of slow data.
TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", **TIMELESS, max_examples=100)
settings.register_profile("ci", **TIMELESS, max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("thorough", **TIMELESS, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

needs_data = pytest.mark.skipif(
    not os.environ.get("SALSA_DATA"), reason="SALSA_DATA is not set: the paper's data sets are not at hand"
)


def examples(count: int) -> int:
    """`count` in a quick run, as many times more in a thorough one as the profile says."""
    return count * settings.default.max_examples // 100


def additive_truth(n=150, D=6, seed=0, noise=0.1):
    """Order 2 in three features of D, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


@pytest.fixture
def data():
    return additive_truth()
