"""Shepard interpolation: its formula, its interpolation of the data, and its limits."""

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods.shepard import POWERS, ShepardRegressor


def naive(X, y, queries, power, weight=None):
    """Compute the definition, for queries that are not rows of X."""
    weight = np.ones(len(X)) if weight is None else weight
    out = []
    for x in queries:
        w = weight / np.linalg.norm(X - x, axis=1) ** power
        out.append(w @ y / w.sum())
    return np.array(out)


def noisy(n=60, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


@parametrize_with_checks([ShepardRegressor(), ShepardRegressor(power=2.0)])
def test_scikit_learn_estimator_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without this, one check skips itself
    check(estimator)


@pytest.mark.parametrize("power", [0.5, 2, 7.0, 60.0])
def test_predictions_equal_the_formula(power):
    X, y = noisy()
    queries, weight = noisy(seed=1)[0], np.random.default_rng(2).uniform(0.1, 3, len(X))
    found = ShepardRegressor(power).fit(X, y, sample_weight=weight).predict(queries)
    np.testing.assert_allclose(found, naive(X, y, queries, power, weight), rtol=1e-10)


@settings(max_examples=examples(50))
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 999), st.floats(0.1, 100), st.floats(-250, 250))
def test_predictions_interpolate_and_stay_between_the_extremes(D, n, seed, power, log_unit):
    rng = np.random.default_rng(seed)
    X, y, queries = (10**log_unit * rng.normal(size=(n, D)), rng.normal(size=n), 10**log_unit * rng.normal(size=(9, D)))
    model = ShepardRegressor(power).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
    found = model.predict(queries)
    assert (found >= y.min() - 1e-12).all()
    assert (found <= y.max() + 1e-12).all()


def test_equal_rows_predict_their_weighted_mean():
    X = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    model = ShepardRegressor(2.0).fit(X, [1.0, 2.0, 5.0, 4.0], sample_weight=[3.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(model.predict(X), [2.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(ShepardRegressor(2.0).fit(X, [1.0, 2.0, 5.0, 4.0]).predict(X), [3.0] * 4)


@pytest.mark.parametrize("power", [3.0, "auto"])
def test_weights_equal_repeated_rows(power):
    X, y = noisy()
    weight, queries = np.random.default_rng(0).integers(0, 4, len(X)), noisy(seed=1)[0]
    model = ShepardRegressor(power, random_state=0)
    found = model.fit(X, y, sample_weight=weight).predict(queries)
    again = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(queries)
    np.testing.assert_allclose(found, again, rtol=1e-10)


def test_distant_queries_predict_the_mean_and_close_ones_the_target_of_the_row():
    X, y = noisy()
    model = ShepardRegressor(4.0).fit(X, y)
    np.testing.assert_allclose(model.predict([[1e9, 0, 0], [-1e300, 1e300, 0]]), y.mean(), rtol=1e-6)
    np.testing.assert_allclose(model.predict(X + 1e-9), y, rtol=1e-6)


def test_a_large_power_predicts_the_nearest_neighbour():
    X, y = noisy()
    queries = noisy(seed=1)[0]
    nearest = np.argmin(np.linalg.norm(queries[:, None] - X, axis=2), axis=1)
    np.testing.assert_allclose(ShepardRegressor(1e5).fit(X, y).predict(queries), y[nearest], rtol=1e-9)


def test_several_outputs_equal_separate_fits():
    X, y = noisy()
    queries = noisy(seed=1)[0]
    found = ShepardRegressor(3.0).fit(X, np.column_stack([y, X[:, 0]])).predict(queries)
    for k, target in enumerate((y, X[:, 0])):
        np.testing.assert_allclose(found[:, k], ShepardRegressor(3.0).fit(X, target).predict(queries))


class TestChoiceOfPower:
    def test_cv_errors_equal_the_errors_of_refits(self):
        X, y = noisy()
        folds = list(KFold(4, shuffle=True, random_state=0).split(X))
        model = ShepardRegressor(cv=folds).fit(X, y)
        assert tuple(model.cv_errors_) == POWERS
        assert model.cv_errors_[model.power_] == min(model.cv_errors_.values())
        for power in (2.0, 6.0):
            squares = [(naive(X[a], y[a], X[b], power) - y[b]) ** 2 for a, b in folds]
            assert model.cv_errors_[power] == pytest.approx(np.concatenate(squares).mean() / y.var())

    def test_noise_chooses_a_small_power_and_a_step_function_a_large_one(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (300, 2))
        assert ShepardRegressor(random_state=0).fit(X, rng.normal(size=300)).power_ == POWERS[0]
        assert ShepardRegressor(random_state=0).fit(X, np.sign(X[:, 0])).power_ >= 4

    def test_given_candidates_are_tried_and_the_seed_decides_the_folds(self):
        X, y = noisy()
        first, same, other = (ShepardRegressor([1, 5], random_state=s).fit(X, y).cv_errors_ for s in (0, 0, 1))
        assert list(first) == [1.0, 5.0]
        assert first == same != other


@pytest.mark.parametrize("power", [0, -1.0, np.inf, np.nan, "large", [], [2.0, -1.0], None])
def test_powers_must_be_positive_and_finite(power):
    with pytest.raises(ValueError, match="positive finite numbers"):
        ShepardRegressor(power).fit(*noisy())


def test_weights_that_are_all_zero_are_refused():
    X, y = noisy()
    with pytest.raises(ValueError, match="zero"):
        ShepardRegressor().fit(X, y, sample_weight=np.zeros(len(X)))
