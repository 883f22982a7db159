"""M5' compared with splits by brute force, models by least squares and smoothing by its formula."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines import M5Regressor
from salsa.baselines.methods.model_tree import SMALLEST_CHILD, best_split, grow, linear_model, prune


def naive_split(X, y):
    """Try every cut of every feature, by the definition."""
    best = None
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        for threshold in (values[1:] + values[:-1]) / 2:
            left, right = y[X[:, j] <= threshold], y[X[:, j] > threshold]
            if min(len(left), len(right)) >= SMALLEST_CHILD:
                gain = y.std() - (len(left) * left.std() + len(right) * right.std()) / len(y)
                if best is None or gain > best[2] + 1e-12:
                    best = j, threshold, gain
    return best


def naive_prediction(nodes, k, x):
    """Smooth one prediction from the leaf up, node by node."""
    path = [nodes[0]]
    while (split := path[-1].split) is not None:
        path.append(nodes[path[-1].left if x[split.feature] <= split.threshold else path[-1].right])
    values = [node.model.vector[:-1] @ x + node.model.vector[-1] for node in path]
    p = values[-1]
    for node, q in zip(path[:0:-1], values[-2::-1], strict=True):
        p = (len(node.rows) * p + k * q) / (len(node.rows) + k)
    return p


def wavy(n=300, D=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


@parametrize_with_checks([M5Regressor()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_split_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(int(rng.integers(4, 40)), 3)), 1)  # with ties
    y = X[:, 1] ** 2 + rng.normal(size=len(X))
    feature, threshold, gain = naive_split(X, y)
    found = best_split(X, y)
    assert (found.feature, pytest.approx(found.threshold), pytest.approx(found.gain)) == (feature, threshold, gain)


def test_equal_rows_and_equal_targets_are_not_split():
    assert best_split(np.ones((10, 2)), np.arange(10.0)) is None
    assert best_split(np.arange(10.0)[:, None], np.ones(10)) is None


def test_adjacent_float64_numbers_are_separated():
    x = np.array([1.0, 1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 2)])
    split = best_split(x[:, None], np.array([0.0, 0.0, 1.0, 1.0]))
    assert (x <= split.threshold).tolist() == [True, True, False, False]


def test_a_linear_truth_gives_a_single_leaf_with_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1, 10, 0.1, 1] + 5
    y = X @ [1.0, 0.2, 30.0, -1.0] + 3 + 0.1 * rng.normal(size=300)
    model, ols = M5Regressor().fit(X, y), LinearRegression().fit(X, y)
    assert model.n_leaves_ == 1
    assert_allclose(model.tree_.models[0], [*ols.coef_, ols.intercept_], rtol=1e-6)


def test_a_piecewise_linear_truth_is_recovered():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (600, 2))
    truth = np.where(X[:, 0] <= 0.2, 3 * X[:, 1], 10 - 2 * X[:, 1])
    model = M5Regressor(smoothing=0).fit(X, truth + 0.01 * rng.normal(size=600))
    assert model.n_leaves_ == 2
    assert model.tree_.feature[0] == 0
    assert model.tree_.threshold[0] == pytest.approx(0.2, abs=0.02)
    assert_allclose(model.tree_.models[1:], [[0, 3, 0], [0, -2, 10]], atol=0.02)


def test_features_are_dropped_if_the_estimated_error_falls():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 8))
    y = X[:, 0] + rng.normal(size=60)
    found = linear_model(X, y, list(range(8)), 1.0)
    kept = np.flatnonzero(found.vector[:-1])

    def error(features):
        model = LinearRegression().fit(X[:, features], y)
        n, v = len(y), len(features) + 1
        return np.abs(y - model.predict(X[:, features])).mean() * (n + v) / (n - v)

    assert 0 in kept
    assert len(kept) < 8
    assert found.estimate.error(1.0) == pytest.approx(error(kept))
    assert found.estimate.error(1.0) <= error(np.arange(8))


def test_one_of_two_equal_columns_is_dropped():
    rng = np.random.default_rng(3)
    x = rng.normal(size=50)
    found = linear_model(np.column_stack([x, x]), 2 * x + 0.01 * rng.normal(size=50), [0, 1], 1.0)
    assert np.count_nonzero(found.vector[:-1]) == 1
    assert found.vector[:-1].sum() == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("k", [0.0, 15.0, 100.0])
def test_smoothing_equals_its_formula(k):
    X, y = wavy()
    nodes = grow(X, y, 4, 0.05 * y.std())
    prune(nodes, X, y, 1.0)
    model = M5Regressor(smoothing=k).fit(X, y)
    assert model.n_leaves_ > 5
    assert_allclose(model.predict(X), [naive_prediction(nodes, k, x) for x in X], rtol=1e-10)


def test_units_do_not_change_predictions():
    """Units are powers of two, which rounding does not change: ties between splits remain ties."""
    (X, y), unit = wavy(), np.array([1024, 1 / 512, 8, 1])
    scaled = M5Regressor().fit(X * unit, 4096 * y)
    assert_allclose(scaled.predict(X * unit), 4096 * M5Regressor().fit(X, y).predict(X), rtol=1e-9)


def test_more_pruning_leaves_fewer_leaves():
    X, y = wavy(1000)
    leaves = [M5Regressor(pruning=c).fit(X, y).n_leaves_ for c in (1.0, 2.0, 8.0)]
    assert leaves[0] > leaves[1] > leaves[2]


def test_memory_for_20_000_rows_stays_below_50_mb():
    """Memory must not grow like n^2, which would be 3.2 GB here."""
    X, y = wavy(20_000)
    tracemalloc.start()
    model = M5Regressor(min_samples_split=200).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_samples_split": 3}, "min_samples_split=3 must be at least 4"),
        ({"smoothing": -1.0}, "smoothing=-1.0 must be a number"),
        ({"min_spread": np.nan}, "min_spread=nan"),
    ],
)
def test_errors_name_the_invalid_parameter(settings, words):
    with pytest.raises(ValueError, match=words):
        M5Regressor(**settings).fit(*wavy(20))
