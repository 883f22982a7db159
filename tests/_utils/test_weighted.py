"""Weighted moments and their standard errors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from salsa._utils.weighted import mean_and_standard_error, target_variance


def test_weights_weigh_means_and_variances():
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=(20, 2)), rng.integers(1, 4, 20)
    repeated = np.repeat(y, w, axis=0)
    np.testing.assert_allclose(target_variance(y, w.astype(float)), repeated.var(axis=0))
    mean, _ = mean_and_standard_error(y[:, 0], w.astype(float))
    assert abs(mean - repeated[:, 0].mean()) < 1e-15


def test_a_constant_output_has_no_variance_to_divide_by():
    assert target_variance(np.full((5, 1), 0.1), np.ones(5)).tolist() == [1.0]


@given(st.integers(2, 30), st.integers(0, 99), st.floats(1e-3, 1e3))
def test_standard_errors_do_not_depend_on_the_scale_of_weights(n, seed, factor):
    rng = np.random.default_rng(seed)
    losses, w, unit = rng.normal(size=n), rng.uniform(0.1, 3, n), rng.integers(0, 4, n)
    for units in (None, unit):
        one, other = (mean_and_standard_error(losses, c * w, units) for c in (1.0, factor))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)


def test_the_standard_error_is_the_spread_of_weighted_means():
    """Over many tables with precisions as weights, and with levels that units share."""
    rng = np.random.default_rng(0)
    w, unit = rng.uniform(0.3, 3, 300), np.arange(300) // 3
    for units, level in ((None, 0.0), (unit, 1.0)):
        tables = (rng.normal(size=(1500, 300)) / np.sqrt(w)) + level * rng.normal(size=(1500, 100))[:, unit]
        means, errors = np.array([mean_and_standard_error(table, w, units) for table in tables]).T
        assert abs(errors.mean() / means.std() - 1) < 0.07


def test_copies_within_a_unit_do_not_shrink_the_standard_error():
    losses, unit = np.random.default_rng(0).normal(size=40), np.arange(40)
    once = mean_and_standard_error(losses, np.ones(40))
    twice = mean_and_standard_error(np.tile(losses, 2), np.ones(80), np.tile(unit, 2))
    np.testing.assert_allclose(twice, once, rtol=1e-12)
