"""MARS finds hinges, and has at most two terms per feature."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods.mars import MARSRegressor

pytest.importorskip("pyearth")


@parametrize_with_checks([MARSRegressor()])
def test_sklearn_contract(estimator, check):
    check(estimator)


def test_a_hinge_is_found():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    y = np.maximum(0.0, X[:, 1] - 0.2)
    assert np.abs(MARSRegressor().fit(X, y).predict(X) - y).max() < 0.02


def test_a_product_needs_degree_two():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    y = X[:, 0] * X[:, 1]
    assert MARSRegressor(max_degree=1).fit(X, y).score(X, y) < 0.2
    assert MARSRegressor(max_degree=2).fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize(("D", "most"), [(2, 21), (15, 31), (40, 61)])
def test_the_number_of_terms_is_bounded(D, most):
    """The limit is a parameter of the forward pass, which may exceed it by one pair before pruning."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, D)), rng.normal(size=120)
    assert MARSRegressor(max_degree=2).fit(X, y).earth_.max_terms == most
