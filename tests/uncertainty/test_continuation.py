"""Intervals beyond the range of the training rows."""

import numpy as np
import pytest
from sums import use_kernel

from salsa import SalsaRegressor
from salsa.uncertainty.continuation import find_outside

pytestmark = pytest.mark.filterwarnings("ignore:.*far outside the range")


def fitted(function, n=200, noise=0.1, **settings):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 1))
    return SalsaRegressor(random_state=0, **settings).fit(x, function(x[:, 0]) + noise * rng.normal(size=n))


def line(x):
    return 3 * x


@pytest.mark.parametrize("settings", [{}, {"solver": "lowrank", "rank": 50}])
def test_intervals_hold_the_line_that_goes_on(settings):
    low, high = fitted(line, **settings).predict_interval([[1.25], [1.9], [-0.4]]).T
    truth = np.array([3.75, 5.7, -1.2])
    assert (low < truth).all()
    assert (truth < high).all()


def test_rows_inside_the_range_are_as_without_the_rows_outside():
    model, inside = fitted(line), np.linspace(0.1, 0.9, 5)[:, None]
    both = model.predict_interval(np.vstack([inside, [[2.0]]]))
    np.testing.assert_array_equal(both[:5], model.predict_interval(inside))


def test_intervals_widen_with_the_distance():
    widths = np.diff(fitted(np.sin).predict_interval([[1.0], [1.1], [1.25], [1.5], [2.0]])).ravel()
    assert (np.diff(widths) > 0).all()


def test_straight_lines_and_parabolas_are_continued_exactly():
    """Without noise and with a smooth kernel, the moves are those of the function itself."""
    model = fitted(lambda x: 1 + 2 * x - x**2, noise=0.0, kernel="gaussian", order=1, relevance="equal")
    outside = find_outside(model.expansion_, np.array([[1.3]]))
    low, high = model.expansion_.ends
    distance = (1.3 - high[0]) / (high[0] - low[0])
    assert outside.distance == pytest.approx(distance)
    change = (1 + 2 * 1.3 - 1.3**2) - (1 + 2 * high[0] - high[0] ** 2)
    assert outside.moves.min() <= change + 1e-3
    assert outside.moves.max() >= change - 1e-3


def test_features_without_relevance_and_missing_values_are_inside():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 2))
    model = SalsaRegressor(random_state=0, order=1, relevance=[1.0, 0.0]).fit(X, X[:, 0])
    assert find_outside(model.expansion_, np.array([[0.5, 9.0], [np.nan, 0.5]])) is None


@pytest.mark.parametrize("settings", [{}, {"solver": "lowrank", "rank": 50}])
def test_sums_of_kernels_are_continued_in_the_numbers_that_a_term_uses(settings, monkeypatch):
    """The second feature is a category, and no term uses the last one."""
    use_kernel(monkeypatch)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=150), rng.integers(0, 3, 150), rng.uniform(size=150)])
    model = SalsaRegressor(random_state=0, categorical_features=[1], **settings).fit(X, 3 * X[:, 0])
    assert find_outside(model.expansion_, np.array([[0.5, 9.0, 0.5], [0.5, 1.0, 9.0]])) is None
    rows = np.array([[0.5, 1.0, 0.5], [1.25, 1.0, 0.5]])
    assert find_outside(model.expansion_, rows).rows.tolist() == [False, True]
    low, high = model.predict_interval(rows)[1]
    assert low < 3.75 < high


@pytest.mark.parametrize("settings", [{}, {"solver": "lowrank", "rank": 50}])
def test_an_interval_far_outside_is_no_wider_than_the_function_allows(settings):
    model = fitted(lambda x: np.sin(6 * x), **settings)
    near, far = (np.diff(model.predict_interval([[x]]))[0, 0] for x in (1.0, 9.0))
    span = model.expansion_.span[0]
    assert span == pytest.approx(2.0, abs=0.2)
    assert near + span < far < near + 2.5 * span


def test_the_span_of_very_many_anchors_is_that_of_some(monkeypatch):
    expansion = fitted(np.sin, relevance="equal", order=1).expansion_
    expected = np.ptp(expansion.predict(expansion.anchors[::7]), axis=0)
    monkeypatch.setattr("salsa.expansion.SPAN_ROWS", 30)  # of 200
    np.testing.assert_allclose(expansion.span, expected)
