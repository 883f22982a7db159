"""The additive Gaussian process: the posterior mean of its kernel, learned orders, limits."""

import numpy as np
import pytest
from conftest import additive_truth
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines import AdditiveGPRegressor


@parametrize_with_checks([AdditiveGPRegressor()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_predictions_are_the_posterior_mean():
    """The mean is offset + k' (K + s2 I)^-1 (y - offset), with the offset by generalised least squares."""
    X, y = additive_truth(80, 4)
    model = AdditiveGPRegressor().fit(X, y)
    C = model.kernel_(X) + model.noise_ * np.eye(len(X))
    ones = np.linalg.solve(C, np.ones(len(X)))
    offset = ones @ y / ones.sum()
    mean = offset + model.kernel_(X[:5], X) @ np.linalg.solve(C, y - offset)
    assert_allclose(model.predict(X[:5]), mean, rtol=1e-8)


def test_a_truth_with_main_effects_and_one_pair_is_recovered():
    X, y = additive_truth(300, 4)
    model = AdditiveGPRegressor().fit(X, y)
    assert model.kernel_.order == 4
    X_new, y_new = additive_truth(500, 4, seed=1, noise=0.0)
    assert np.mean((model.predict(X_new) - y_new) ** 2) < 0.005 * y_new.var()


def test_the_product_of_all_features_is_the_usual_gaussian_process():
    X, y = additive_truth(120, 3)
    ours = AdditiveGPRegressor("all").fit(X, y)
    kernel = ConstantKernel() * RBF(np.ones(3)) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    X_new, _ = additive_truth(200, 3, seed=1)
    assert not ours.kernel_.order_weights[:-1].any()
    assert_allclose(ours.predict(X_new), theirs.predict(X_new), atol=0.1 * y.std())


def test_the_kernel_is_learned_on_a_sample_and_the_mean_uses_all_rows():
    X, y = additive_truth(300, 3)
    model = AdditiveGPRegressor(learning_rows=100, random_state=0).fit(X, y)
    assert len(model.expansion_.anchors) == 300
    assert np.array_equal(AdditiveGPRegressor(learning_rows=100, random_state=0).fit(X, y).predict(X), model.predict(X))
    assert not np.array_equal(AdditiveGPRegressor(random_state=0).fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("order", [10, "all"])
def test_constant_features_predict_the_mean(order):
    model = AdditiveGPRegressor(order).fit(np.ones((20, 3)), np.arange(20.0))
    assert_allclose(model.predict(np.zeros((2, 3))), 9.5)


@pytest.mark.parametrize("settings", [{"max_order": 0}, {"max_order": "some"}, {"learning_rows": 1}])
def test_errors_name_the_invalid_parameter(settings):
    (name, value), *_ = settings.items()
    with pytest.raises(ValueError, match=f"{name}={value!r} must be"):
        AdditiveGPRegressor(**settings).fit(*additive_truth(20))


def test_the_product_of_too_many_features_is_refused():
    with pytest.raises(ValueError, match="at most 1000 features, not 1001"):
        AdditiveGPRegressor("all").fit(np.eye(5, 1001), np.arange(5.0))
