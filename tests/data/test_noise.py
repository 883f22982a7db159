"""The noise structure against dense matrices: T = R^-1/2 up to a rotation, for any weights, groups and level."""

import pickle

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.data.noise import Noise


@st.composite
def noises(draw, *, smallest=1):
    """Draw weights over six decades, groups that are not in order, or none, and a level of 0 to 1e4."""
    n = draw(st.integers(smallest, 12))
    weight = 10.0 ** np.array(draw(st.lists(st.floats(-3, 3), min_size=n, max_size=n)))
    group = draw(st.none() | st.lists(st.integers(0, 4), min_size=n, max_size=n))
    group = None if group is None else np.unique(group, return_inverse=True)[1]
    rho = 0.0 if group is None else draw(st.sampled_from([0.0, 1e-4, 0.3, 1.0, 25.0, 1e4]))
    return Noise(weight, group, rho)


def dense(noise):
    return naive.noise_covariance(noise.weight, noise.group, noise.rho)


def whitener(noise):
    """Return T (n, n), column by column."""
    return noise.whiten(np.eye(len(noise.weight)))


def vectors(noise, m=3):
    return np.random.default_rng(0).normal(size=(len(noise.weight), m))


@given(noises())
def test_whitened_noise_is_white(noise):
    T, R = whitener(noise), dense(noise)
    np.testing.assert_allclose(T @ R @ T.T, np.eye(len(R)), atol=1e-9 * np.linalg.cond(R) ** 0.5)
    np.testing.assert_allclose(T.T @ T @ R, np.eye(len(R)), atol=1e-9 * np.linalg.cond(R))


@given(noises())
def test_every_product_is_the_dense_one(noise):
    T, R, V = whitener(noise), dense(noise), vectors(noise)
    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(T).max() * 10}
    np.testing.assert_allclose(noise.whiten(V), T @ V, **close)
    np.testing.assert_allclose(noise.transposed(V), T.T @ V, **close)
    np.testing.assert_allclose(noise.whiten_rows(V.T), V.T @ T.T, **close)
    np.testing.assert_allclose(noise.transpose_rows(V.T.copy()), V.T @ T, **close)
    K = V @ V.T
    np.testing.assert_allclose(
        noise.whiten_both(K.copy()), T @ K @ T.T, rtol=1e-9, atol=1e-9 * np.abs(T).max() ** 2 * 10
    )
    np.testing.assert_allclose(noise.times(V), R @ V, rtol=1e-9, atol=1e-9 * np.abs(R).max())
    np.testing.assert_allclose(noise.unwhiten(noise.whiten(V)), V, rtol=1e-6, atol=1e-7)


@given(noises(), st.floats(0.01, 100))
def test_adding_noise_to_a_matrix_is_the_dense_sum(noise, s2):
    V, R = vectors(noise), dense(noise)
    C = V @ V.T
    noise.add_to(C, s2)
    np.testing.assert_allclose(C, V @ V.T + s2 * R, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(noise.variance(), np.diag(R), rtol=1e-12)
    assert noise.plain == np.array_equal(R, np.eye(len(R)))


@given(noises())
def test_generalised_means_are_those_of_the_inverse_covariance(noise):
    inverse = np.linalg.inv(dense(noise))
    one = np.ones(len(inverse))
    expected = inverse @ one / (one @ inverse @ one)
    np.testing.assert_allclose(noise.mean_weight, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(noise.ones, whitener(noise) @ one, rtol=1e-9, atol=1e-9 * np.abs(noise.root).max())


@given(noises(smallest=2), st.data())
def test_some_rows_have_the_marginal_covariance(noise, data):
    """Rows that are not whole groups work as well: a level that is shared stays shared."""
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(noise.weight) - 1), min_size=1))))
    np.testing.assert_allclose(dense(noise.some(rows)), dense(noise)[np.ix_(rows, rows)])


def test_groups_of_single_rows_are_more_noise_of_every_row():
    weight = np.array([1.0, 2.0, 0.5])
    alone = Noise(weight, np.arange(3), 0.7)
    np.testing.assert_allclose(whitener(alone), np.diag(1 / np.sqrt(1 / weight + 0.7)), rtol=1e-12)


def test_pairs_are_all_pairs_of_every_group():
    group = np.array([1, 0, 1, 2, 1, 0])
    pairs = set(zip(*(places.tolist() for places in Noise(np.ones(6), group, 1.0).pairs), strict=True))
    assert pairs == {(2, 0), (4, 0), (4, 2), (5, 1)}


def test_pickles_hold_no_cached_values():
    noise = Noise(np.ones(500), np.arange(500) // 2, 0.3)
    size = len(pickle.dumps(noise))
    noise.whiten(np.ones((500, 3)))
    assert noise.mean_weight.sum() == pytest.approx(1.0)
    again = pickle.loads(pickle.dumps(noise))
    assert len(pickle.dumps(noise)) == size
    np.testing.assert_array_equal(again.whiten(np.ones((500, 1))), noise.whiten(np.ones((500, 1))))


def test_another_level_is_another_noise():
    noise = Noise(np.ones(4), np.array([0, 0, 1, 1]), 0.5)
    noise.whiten(np.ones((4, 1)))
    np.testing.assert_allclose(dense(noise.with_rho(2.0)) - np.eye(4), 4 * (dense(noise) - np.eye(4)))
    T = whitener(noise.with_rho(2.0))
    np.testing.assert_allclose(T @ dense(noise.with_rho(2.0)) @ T.T, np.eye(4), atol=1e-12)
