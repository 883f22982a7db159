"""Missing values: the mean embedding of a feature's distribution, in the kernel, its gradient and the regressor."""

from dataclasses import replace

import naive
import numpy as np
import pytest
from conftest import additive_truth

from salsa import AdditiveKernel, SalsaRegressor, _core
from salsa.data.noise import Noise
from salsa.data.splits import Splits
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.kernels.base import BASE_KERNELS
from salsa.kernels.marginals import distribution_of
from salsa.kernels.pair_loops import core_call
from salsa.learning import Form, Problem
from salsa.learning.learn import Posterior


def with_holes(X, share, seed=0):
    holes = np.random.default_rng([seed, 7]).uniform(size=X.shape) < share
    return np.where(holes, np.nan, X)


def kernel_with_holes(base="gaussian", n=13, D=4, share=0.4):
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(n, D)), 0 if naive.BASE_KERNELS[base].for_categories else 1)
    X = with_holes(X, share)
    distributions = tuple(distribution_of(X[:, j], rng.uniform(1, 2, n), None) for j in range(D))
    bandwidth, relevance = rng.uniform(0.5, 2, D), rng.uniform(0.5, 2, D)
    return AdditiveKernel(bandwidth, relevance, np.array([0.3, 1.0, 0.5, 0.2]), base, distributions), X


def naive_with_means(kernel, X, Z):
    """Every base kernel written out: the mean over the distribution on the side that is missing, 1 if both are."""
    K = np.empty((kernel.n_features, len(X), len(Z)))
    for j, (points, weights) in enumerate(kernel.distributions):
        one = {"relevance": [1.0], "order_weights": [0.0, 1.0], "base": kernel.bases[j]}
        for i, x in enumerate(X[:, j]):
            for c, z in enumerate(Z[:, j]):
                xs, ws = (points, weights) if np.isnan(x) else ([x], [1.0])
                zs, vs = (points, weights) if np.isnan(z) else ([z], [1.0])
                pairs = naive.additive_kernel(np.c_[xs], np.c_[zs], [kernel.bandwidth[j]], **one)
                K[j, i, c] = 1.0 if np.isnan(x) and np.isnan(z) else np.asarray(ws) @ pairs @ np.asarray(vs)
    e = [naive.elementary_symmetric(kernel.relevance[:, None, None] * K, m) for m in range(kernel.order + 1)]
    return np.tensordot(kernel.order_weights * kernel.normaliser, np.array(e), axes=1)


class TestKernel:
    @pytest.mark.parametrize("base", BASE_KERNELS)
    def test_block_is_the_mean_over_the_distribution(self, base):
        kernel, X = kernel_with_holes(base)
        expected = naive_with_means(kernel, X, X)
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)
        np.testing.assert_allclose(kernel(X, X[:5]), expected[:, :5], rtol=1e-13)
        np.testing.assert_allclose(kernel.diagonal(X), expected.diagonal(), rtol=1e-13)
        np.testing.assert_array_equal(kernel(X), kernel(X).T)
        np.testing.assert_allclose(kernel.product(X, X, np.eye(len(X))), expected, rtol=1e-13)

    @pytest.mark.parametrize("simd", _core.simd_levels())
    def test_every_instruction_set_agrees(self, simd):
        kernel, X = kernel_with_holes("matern52", n=70)
        call = core_call(kernel.terms, X, None)
        block = _core.block(call.X, None, *call.plan.arguments, 1, simd, **call.plan.layout)
        np.testing.assert_allclose(block, kernel(X, X), rtol=1e-13)
        x = np.linspace(-2, 2, 9)
        for base in range(len(BASE_KERNELS)):
            mean = _core.embed(x, *kernel.distributions[0], base, 0.7, simd)
            np.testing.assert_allclose(mean, _core.embed(x, *kernel.distributions[0], base, 0.7), rtol=1e-13)

    @pytest.mark.parametrize("base", BASE_KERNELS)
    def test_kernel_with_missing_values_is_positive_definite(self, base):
        kernel, X = kernel_with_holes(base, n=60, share=0.5)
        K = kernel(X)
        assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)

    @pytest.mark.parametrize("base", BASE_KERNELS)
    def test_gradient_agrees_with_finite_differences(self, base):
        kernel, X = kernel_with_holes(base)
        G = np.random.default_rng(2).normal(size=(len(X), len(X)))
        gradient = kernel.gradient(X, G)
        for name in ("relevance", "bandwidth", "order_weights"):
            at = getattr(kernel, name)
            numeric = naive.finite_difference(
                lambda v, name=name: np.sum(G * replace(kernel, **{name: v})(X)), at, 1e-4
            )
            np.testing.assert_allclose(getattr(gradient, name), numeric, rtol=1e-6, atol=1e-7)

    def test_complete_rows_give_the_plain_kernel_bit_for_bit(self):
        kernel, _ = kernel_with_holes()
        X = np.random.default_rng(0).normal(size=(40, 4))
        plain = replace(kernel, distributions=None)
        np.testing.assert_array_equal(kernel(X), plain(X))
        np.testing.assert_array_equal(kernel.diagonal(X), plain.diagonal(X))

    def test_missing_values_are_refused_without_distributions(self):
        kernel, X = kernel_with_holes()
        with pytest.raises(ValueError, match="NaN"):
            replace(kernel, distributions=None)(X)

    def test_features_of_no_relevance_may_be_missing(self):
        kernel, X = kernel_with_holes()
        kernel = replace(kernel, relevance=np.array([1.0, 0.0, 2.0, 0.0]))
        np.testing.assert_allclose(kernel(X, X), naive_with_means(kernel, X, X), rtol=1e-13)


class TestDistribution:
    def test_few_values_keep_their_shares(self):
        points, weights = distribution_of(np.array([2.0, np.nan, 1.0, 2.0]), np.array([1.0, 5.0, 1.0, 2.0]))
        assert points.tolist() == [1.0, 2.0]
        assert weights.tolist() == [0.25, 0.75]

    def test_many_values_keep_mean_and_nearly_their_spread(self):
        x = np.random.default_rng(0).normal(3, 2, 5000)
        points, weights = distribution_of(x, np.ones(5000))
        assert len(points) == 128
        assert weights @ points == pytest.approx(x.mean(), rel=1e-12)
        assert weights @ (points - 3) ** 2 == pytest.approx(4, rel=0.05)

    def test_bandwidths_follow_the_observed_values(self):
        X = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan], [2.0, np.nan]])
        h = rule_of_thumb_bandwidth(X, 1.0)
        assert h[0] == pytest.approx(np.std([1, 3, 2], ddof=1) * 4**-0.2)
        assert h[1] == np.inf


class TestLearning:
    @pytest.mark.parametrize("base", ["matern52", "equality"])
    def test_gradient_of_the_posterior_agrees_with_finite_differences(self, base):
        kernel, X = kernel_with_holes(base, n=25)
        Y = np.random.default_rng(0).normal(size=(25, 1))
        splits = Splits(25, (), np.random.RandomState(0))
        problem = Problem(X, Y, Noise(np.ones(25)), splits, (base,) * 4, kernel.distributions)
        posterior = Posterior(problem, (Form(base, 1, 3), Form("laplace")))
        theta = posterior.parameters.start(0.1, 1.0) + 0.1
        numeric = naive.finite_difference(lambda t: posterior(t)[0], theta, 1e-3)
        gradient = posterior(theta)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


class TestRegressor:
    @pytest.fixture
    def data(self):
        X, y = additive_truth(n=200)
        return with_holes(X, 0.15), y

    def test_regressor_predicts_better_than_with_imputed_means(self):
        """The features are correlated, as in real tables."""
        rng = np.random.default_rng(0)
        common = rng.normal(size=(700, 1))
        full = common + 0.5 * rng.normal(size=(700, 5))
        target = np.sin(full[:, 0]) + full[:, 1] + 0.5 * full[:, 2] ** 2 + 0.1 * rng.normal(size=700)
        X, holes = with_holes(full[:200], 0.2), with_holes(full[200:], 0.2, 1)
        y, y_test = target[:200], target[200:]
        model = SalsaRegressor(random_state=0).fit(X, y)
        means = np.nanmean(X, axis=0)
        imputed = SalsaRegressor(random_state=0).fit(np.where(np.isnan(X), means, X), y)
        ours = np.mean((model.predict(holes) - y_test) ** 2)
        theirs = np.mean((imputed.predict(np.where(np.isnan(holes), means, holes)) - y_test) ** 2)
        assert ours < theirs

    def test_a_value_missing_at_prediction_is_averaged_over_its_distribution(self):
        X, y = additive_truth(n=150)
        model = SalsaRegressor(random_state=0).fit(X, y)
        one = X[:1].copy()
        one[0, 0] = np.nan
        distribution = model.expansion_.kernel.distributions[0]
        rows = np.repeat(one, len(distribution.points), axis=0)
        rows[:, 0] = distribution.points
        np.testing.assert_allclose(model.predict(one), distribution.weights @ model.predict(rows), rtol=1e-10)

    def test_rows_and_columns_without_values_give_finite_predictions(self, data):
        X, y = data
        X = np.column_stack([X, np.full(len(X), np.nan)])
        X[3] = np.nan
        model = SalsaRegressor(random_state=0).fit(X, y)
        assert model.relevance_[-1] == 0 or np.isinf(model.bandwidth_[-1])
        assert np.isfinite(model.predict(np.full((1, X.shape[1]), np.nan))).all()

    @pytest.mark.parametrize("relevance", ["learned", "equal"])
    def test_weights_are_repeated_rows(self, data, relevance):
        X, y = data
        weight = np.random.default_rng(0).integers(0, 3, len(y))
        model = SalsaRegressor(relevance=relevance, random_state=0)
        weighted = model.fit(X, y, sample_weight=weight).predict(X)
        repeated = np.repeat(np.arange(len(y)), weight)
        np.testing.assert_array_equal(weighted, model.fit(X[repeated], y[repeated]).predict(X))

    def test_a_saved_model_predicts_the_same_for_missing_values(self, data, tmp_path):
        from salsa import load

        X, y = data
        model = SalsaRegressor(relevance="equal", order=2).fit(X, y)
        model.save(tmp_path / "model.salsa")
        np.testing.assert_array_equal(load(tmp_path / "model.salsa").predict(X), model.predict(X))
