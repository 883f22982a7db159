"""The truths of figure 1: slow twins, values at the bumps and far away, and interaction orders."""

from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

from salsa.paper import functions
from salsa.paper.functions import TEST_ROWS, LogBumps, draw, log_bumps


def slow_sum(truth, X):
    """Sum as the paper writes it, by subset and row, with 400 digits because the exponentials underflow otherwise."""
    mpmath.mp.dps = 400
    d = truth.centres.shape[1]
    h = mpmath.mpf("0.01") * mpmath.sqrt(d)

    def f(x):
        bumps = [
            mpmath.mpf(a)
            / h**d
            * mpmath.exp(-sum((mpmath.mpf(p) - q) ** 2 for p, q in zip(x, v, strict=True)) / (2 * h**2))
            for a, v in zip(truth.weights, truth.centres, strict=True)
        ]
        return mpmath.log(sum(bumps))

    return np.array([float(sum(f(row[list(S)]) for S in combinations(range(len(row)), d))) for row in X])


def rows(n, D, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, D))


def differences(f, D, places):
    """Return the mixed difference of f over a box in these features: zero if the features do not interact."""
    low, high = 0.1 * rows(2, D) + [[0.0], [0.9]]
    total = 0.0
    for corner in product((0, 1), repeat=len(places)):
        x = low.copy()
        x[list(places)] = np.where(corner, high[list(places)], low[list(places)])
        total += (-1) ** sum(corner) * f(x[None])[0]
    return total


class TestValues:
    @pytest.mark.parametrize(("d", "D"), [(1, 4), (2, 5), (3, 5), (4, 4)])
    def test_values_equal_the_slow_twin(self, d, D):
        truth, X = log_bumps(d, seed=d), rows(4, D)
        np.testing.assert_allclose(truth(X), slow_sum(truth, X), rtol=1e-12)

    def test_sum_over_all_triples_of_15_features_equals_scipy(self):
        truth, X = log_bumps(3), rows(7, 15)
        h = 0.01 * np.sqrt(3)

        def f(Z):
            return logsumexp(-((Z[:, None] - truth.centres) ** 2).sum(2) / (2 * h**2), b=truth.weights / h**3, axis=1)

        expected = sum(f(X[:, S]) for S in combinations(range(15), 3))
        np.testing.assert_allclose(truth(X), expected, rtol=1e-12)

    def test_blocks_do_not_change_values(self, monkeypatch):
        truth, X = log_bumps(3), rows(50, 8)
        whole = truth(X)
        monkeypatch.setattr(functions, "BLOCK", 1000)
        np.testing.assert_allclose(truth(X), whole, rtol=1e-13)
        assert truth(X[:0]).shape == (0,)

    def test_values_far_from_all_bumps_follow_the_nearest_bump(self):
        truth = log_bumps(2)
        X = np.array([[1e3, -1e3]])
        nearest = ((X - truth.centres) ** 2).sum(1).min()
        assert truth(X)[0] == pytest.approx(-nearest / (4 * 0.01**2), rel=1e-6)

    def test_too_few_columns_and_too_many_subsets_are_refused(self):
        with pytest.raises(ValueError, match="3 features, but X has 2"):
            log_bumps(3)(rows(2, 2))
        with pytest.raises(ValueError, match="subsets of 25 of 50 features are too many"):
            log_bumps(25)(rows(1, 50))


class TestBumps:
    def test_the_height_at_a_centre_is_the_height_of_its_bump(self):
        """The other bumps vanish at a centre, where the height is log(a_i / h^d)."""
        truth = log_bumps(15)
        heights = np.log(truth.weights) - 15 * np.log(0.01 * np.sqrt(15))
        np.testing.assert_allclose(truth(truth.centres), heights, rtol=1e-12)

    def test_the_centres_are_local_maxima(self):
        truth, step = log_bumps(5), 1e-4
        for v in truth.centres:
            around = np.vstack([v + step * np.eye(5), v - step * np.eye(5)])
            up, down = np.split(truth(around), 2)
            np.testing.assert_allclose(up - down, 0, atol=1e-8)
            np.testing.assert_allclose((up + down - 2 * truth(v[None])) / step**2, -1 / (0.01**2 * 5), rtol=1e-4)

    def test_distant_centres_give_a_square_plus_the_largest_of_linear_functions(self):
        truth, X = log_bumps(6), rows(200, 6)
        h2 = 0.01**2 * 6
        linear = X @ truth.centres.T / h2 - (truth.centres**2).sum(1) / (2 * h2) + np.log(truth.weights)
        expected = linear.max(1) - (X**2).sum(1) / (2 * h2) - 6 * np.log(np.sqrt(h2))
        assert np.quantile(np.abs(truth(X) - expected), 0.9) < 1e-3 < np.std(truth(X))

    def test_spread_scales_the_centres_about_the_middle(self):
        wide, narrow = log_bumps(15), log_bumps(15, 0.2)
        np.testing.assert_allclose(narrow.centres - 0.5, 0.2 * (wide.centres - 0.5))
        assert wide.centres.min() >= 0
        assert wide.centres.max() <= 1
        assert sum(wide.weights) == pytest.approx(1)


class TestOrders:
    def test_a_sum_over_triples_has_interactions_of_three_but_not_of_four_features(self):
        truth = log_bumps(3)
        size = np.std(truth(rows(500, 6)))
        assert abs(differences(truth, 6, (0, 2, 4))) > 0.01 * size
        assert abs(differences(truth, 6, (0, 2, 4, 5))) < 1e-9 * size

    @pytest.mark.parametrize(("spread", "low", "high"), [(1.0, 0.35, 0.42), (0.2, 0.03, 0.06)])
    def test_interactions_have_the_documented_share_of_the_variance(self, spread, low, high):
        """The share is the residual of f_15 after its best sum of polynomials of one feature each."""
        truth, X = log_bumps(15, spread), 2 * rows(6000, 15) - 1
        y = truth((X + 1) / 2)
        powers = np.hstack([np.ones((len(X), 1)), *(X**k for k in range(1, 7))])
        left = y - powers @ np.linalg.lstsq(powers, y, rcond=None)[0]
        assert low < np.var(left) / np.var(y) < high


class TestDraw:
    def test_training_rows_are_nested_and_test_rows_are_shared(self):
        truth = log_bumps(2)
        few, many, other = draw(truth, 4, 20, 0), draw(truth, 4, 50, 0), draw(truth, 4, 20, 1)
        np.testing.assert_array_equal(few.X_train, many.X_train[:20])
        np.testing.assert_array_equal(few.X_test, many.X_test)
        assert not np.isin(few.X_train, other.X_train).any()

    def test_rows_are_uniform_on_the_unit_cube_and_targets_have_no_noise(self):
        truth = LogBumps(np.full((1, 3), 0.5), np.ones(1))
        sample = draw(truth, 3, 30, 0)
        assert sample.X_test.shape == (TEST_ROWS, 3)
        assert 0 <= sample.X_test.min() < 0.01 < 0.99 < sample.X_test.max() <= 1
        expected = -((sample.X_train - 0.5) ** 2).sum(1) / (2 * 3e-4) - 3 * np.log(0.01 * np.sqrt(3))
        np.testing.assert_allclose(sample.y_train, expected, rtol=1e-12)
        np.testing.assert_array_equal(sample.y_test, truth(sample.X_test))
