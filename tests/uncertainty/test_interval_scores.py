"""The choice of a scale by the interval score, and the local scale of the noise against its definition."""

from math import ceil

import naive
import numpy as np
import pytest

from salsa.data.noise import Noise
from salsa.expansion import KernelExpansion
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.kernels.sum import SumKernel
from salsa.uncertainty.cvplus import _END, CLASSES, LARGEST, _class, _interval_score
from salsa.uncertainty.interval_scores import LEVELS, LOCAL, PLAIN, POSTERIOR, best_scale, interval_score
from salsa.uncertainty.jackknife import Judged, learn_jackknife
from salsa.uncertainty.local_scale import LEAST, PENALTIES, SMOOTHNESS, learn_local_scale


def naive_interval_score(size, scale):
    """Winkler's score, width + 2 / (1 - coverage) times the miss, times (1 - coverage) / 2, summed over LEVELS."""
    total = 0.0
    for coverage in LEVELS:
        rank = ceil(coverage * (len(size) + 1) - 1e-9)
        half = np.sort(size / scale)[rank - 1] * scale
        winkler = 2 * half + 2 / (1 - coverage) * np.maximum(size - half, 0.0)
        total += np.mean((1 - coverage) / 2 * winkler)
    return total


class TestIntervalScore:
    def test_score_is_winkler_over_all_levels(self):
        rng = np.random.default_rng(0)
        size, scale = np.abs(rng.normal(size=40)), rng.uniform(0.5, 2, 40)
        assert interval_score(size, scale, np.ones(40)) == pytest.approx(naive_interval_score(size, scale))

    def test_counts_are_repeated_rows(self):
        rng = np.random.default_rng(0)
        size, scale, count = np.abs(rng.normal(size=40)), rng.uniform(0.5, 2, 40), rng.integers(1, 4, 40)
        once = interval_score(size, scale, count.astype(float))
        again = naive_interval_score(np.repeat(size, count), np.repeat(scale, count))
        assert once == pytest.approx(again)

    def test_score_from_counts_in_classes_agrees(self):
        rng = np.random.default_rng(0)
        size, scale = np.abs(rng.normal(size=3000)), rng.uniform(0.5, 2, 3000)
        place = _class(size / scale)
        counts = np.bincount(place, minlength=CLASSES).astype(float)
        scales = np.bincount(place, weights=scale, minlength=CLASSES)
        total = _interval_score(counts, scales) / 3000
        assert total == pytest.approx(interval_score(size, scale, np.ones(3000)), rel=0.01)
        assert (np.diff(_END) > 0).all()
        assert _END[-2] == pytest.approx(LARGEST)

    def test_a_scale_in_any_unit_has_the_same_score(self):
        rng = np.random.default_rng(1)
        size, scale = np.abs(rng.normal(size=40)), rng.uniform(0.5, 2, 40)
        assert interval_score(size, scale, np.ones(40)) == pytest.approx(interval_score(size, 7 * scale, np.ones(40)))

    def test_the_true_scale_is_preferred_for_every_output(self):
        rng = np.random.default_rng(2)
        true = np.exp(rng.normal(size=(500, 2)))
        true[:, 1] = 1.0
        size = np.abs(rng.normal(size=(500, 2))) * true
        scales = {PLAIN: np.ones((500, 1)), POSTERIOR: np.exp(rng.normal(size=(500, 1))), LOCAL: true[:, [0, 0]]}
        assert best_scale(size, scales, np.ones(500)) == (LOCAL, PLAIN)

    def test_residuals_that_are_not_known_choose_the_constant_scale(self):
        assert best_scale(np.array([[np.inf]]), {PLAIN: np.ones((1, 1))}, np.ones(1)) == (PLAIN,)


def noisy(seed, sd_of, n=250):
    """Return rows, a smooth target and noise with a standard deviation that depends on the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (np.sin(2 * X[:, 1]) + sd_of(X[:, 0]) * rng.normal(size=n))[:, None]


def chosen_scale(X, Y, alpha=1.0):
    kernel = AdditiveKernel([1.0, 1.0], [1.0, 1.0], [0.0, 1.0])
    coef, offset = naive.ridge(kernel(X), Y, alpha)
    fold = np.random.default_rng(0).permutation(len(X)) % 5
    expansion = KernelExpansion(kernel, X, coef, offset)
    noise, judged = Noise(np.ones(len(X))), Judged(fold=fold)
    return learn_jackknife(kernel(X), Y, coef, alpha, noise, judged, expansion)


class TestChoice:
    def test_a_funnel_chooses_the_local_scale(self):
        scales = [chosen_scale(*noisy(seed, lambda x: np.exp(1.2 * x))).scale[0] for seed in range(12)]
        assert scales.count(LOCAL) >= 11

    def test_equal_noise_seldom_chooses_the_local_scale(self):
        scales = [chosen_scale(*noisy(seed, np.ones_like)).scale[0] for seed in range(24)]
        assert scales.count(LOCAL) <= 8
        assert scales.count(PLAIN) + scales.count(POSTERIOR) >= 16

    def test_intervals_of_a_funnel_follow_the_noise(self):
        """The ratio of the widths at x = 0.8 and -0.8 is exp(1.2 * 1.6) = 6.8 in truth."""
        X, Y = noisy(0, lambda x: np.exp(1.2 * x), n=600)
        found = chosen_scale(X, Y)
        Z = np.array([[0.8, 0.0], [-0.8, 0.0]])
        kernel = AdditiveKernel([1.0, 1.0], [1.0, 1.0], [0.0, 1.0])
        coef, offset = naive.ridge(kernel(X), Y, 1.0)
        k = kernel(Z, X)
        ends = found.interval(offset + k @ coef, k.copy(), kernel.diagonal(Z), 0.9, Z)
        width = np.diff(ends[:, 0])[:, 0]
        assert 4 < width[0] / width[1] < 11


class TestLocalScale:
    def test_the_scale_equals_its_definition(self):
        """Ridge fits of log sizes on main effects: the penalty of least held-out error, and fits without each fold."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (60, 2))
        size = np.exp(X[:, :1] * [[1.0, -0.5]]) * np.abs(rng.normal(size=(60, 2)))
        fold, count = np.arange(60) % 4, rng.integers(1, 3, 60).astype(float)
        kernel = AdditiveKernel([0.3, 0.3], [1.0, 5.0], [0.0, 0.0, 1.0], "laplace")
        found = learn_local_scale(kernel, X, size, fold, count)
        bandwidth = rule_of_thumb_bandwidth(X, SMOOTHNESS)

        def main(A, B):
            return naive.additive_kernel(A, B, bandwidth, np.ones(2), [0.0, 1.0], "laplace")

        Z = np.log(np.maximum(size, LEAST * np.median(size, axis=0)))
        Z = Z - Z.mean(axis=0)
        K, R = main(X, X), np.diag(1 / count)
        held = [np.flatnonzero(fold == k) for k in range(4)]

        def error(alpha):
            residuals = [naive.held_out_residuals(K, Z, alpha, rows, R) for rows in held]
            return sum((count[rows] @ r**2).sum() for rows, r in zip(held, residuals, strict=True))

        errors = [error(alpha) for alpha in PENALTIES]
        alpha = PENALTIES[int(np.argmin(errors))]
        coef, offset = naive.ridge(K, Z, alpha, R)
        new = rng.uniform(-1.2, 1.2, (9, 2))
        np.testing.assert_allclose(found(new), np.exp(offset + main(new, X) @ coef), rtol=1e-5)
        expected = np.empty_like(Z)
        for rows in held:
            expected[rows] = Z[rows] - naive.held_out_residuals(K, Z, alpha, rows, R)
        np.testing.assert_allclose(found.held_out(X, fold), np.exp(expected), rtol=1e-5)

    def test_a_sum_of_kernels_has_the_local_scale_of_its_first_term(self):
        rng = np.random.default_rng(0)
        X, size, fold = rng.uniform(-1, 1, (60, 2)), rng.uniform(size=(60, 1)), np.arange(60) % 4
        first = AdditiveKernel([0.3, 0.3], [1.0, 5.0], [0.0, 0.0, 1.0], "laplace")
        kernel = SumKernel([first, AdditiveKernel([1.0, 1.0], [1.0, 1.0], [0.0, 1.0])])
        found, expected = (learn_local_scale(k, X, size, fold)(X) for k in (kernel, first))
        np.testing.assert_array_equal(found, expected)

    def test_equal_sizes_give_a_constant_scale(self):
        X = np.random.default_rng(0).uniform(size=(50, 2))
        found = learn_local_scale(AdditiveKernel([1, 1], [1, 1], [0, 1]), X, np.full((50, 1), 3.0), np.arange(50) % 5)
        np.testing.assert_allclose(found(X), 1.0)

    def test_counts_of_any_size_give_scales_in_range(self):
        rng = np.random.default_rng(0)
        X, size = rng.uniform(size=(6, 2)), np.array([[0.1], [1e3], [0.3], [1e-9], [1.0], [2.0]])
        for count in (np.array([1.0, 1e24, 1.0, 1.0, 1e11, 1.0]), np.array([1e24, 1e24, 1.0, 1.0, 1.0, 1.0])):
            found = learn_local_scale(AdditiveKernel([1, 1], [1, 1], [0, 1]), X, size, np.arange(6) % 2, count)
            for scale in (found(X), found.held_out(X, np.arange(6) % 2)):
                assert (scale >= 1e-6).all()
                assert (scale <= 1e6).all()

    def test_sizes_of_zero_are_allowed(self):
        X = np.random.default_rng(0).uniform(size=(50, 2))
        for size in (np.zeros((50, 1)), np.where(np.arange(50) % 2, 1.0, 0.0)[:, None]):
            found = learn_local_scale(AdditiveKernel([1, 1], [1, 1], [0, 1]), X, size, np.arange(50) % 5)
            assert np.isfinite(found(X)).all()
            assert (found(X) > 0).all()
