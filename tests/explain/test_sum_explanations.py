"""Tests of explanations of sums of kernels: every number equals enumeration, as for a kernel of one term."""

from dataclasses import replace
from itertools import combinations

import naive
import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from explain import test_anova, test_shapley
from explain.test_anova import coarse, fixed
from salsa import AdditiveKernel, SalsaRegressor, SumKernel, _core, explain
from salsa.fitted import assign, fitted_of
from salsa.uncertainty.jackknife import ExactUncertainty


def refitted(model, terms):
    """Return an exact model with the sum of these kernels instead of its own kernel, fitted to the same rows."""
    fitted = fitted_of(model)
    (_, X, coef, _), noise, alpha = fitted.expansion.parts, fitted.uncertainty.noise, fitted.uncertainty.penalty
    Y = fitted.expansion.predict(X) + alpha * noise.times(coef)
    kernel = SumKernel(terms)
    coef, offset = naive.ridge(kernel(X), Y, alpha, naive.noise_covariance(noise.weight))
    expansion = replace(fitted.expansion, kernel=kernel, coef=coef, offset=offset)
    assign(model, fitted._replace(expansion=expansion, uncertainty=ExactUncertainty(expansion, alpha, noise)))
    return model


def varied(model, seed=0):
    """Return three kernels: orders 0..3 of all but one feature, the product of all, and the product of a subset.

    Categories keep the base kernel "equality", and missing values their distributions.
    """
    kernel, rng = model.expansion_.kernel, np.random.default_rng(seed)
    D = kernel.n_features
    subset = np.arange(D) % 2 == 0 if D > 4 else np.arange(D) != 1

    def term(base, used, order_weights):
        bases = tuple(own if own == "equality" else base for own in kernel.bases)
        relevance, bandwidth = rng.uniform(0.4, 2.0, D) * used, kernel.bandwidth * rng.uniform(0.4, 1.5, D)
        return AdditiveKernel(bandwidth, relevance, order_weights, bases, kernel.distributions)

    return (
        term("matern52", np.arange(D) != D - 1, [0.3, 1.0, 2.0, 1.5]),
        term("matern52", np.ones(D), 3.0 * np.eye(D + 1)[D]),
        term("laplace", subset, np.eye(subset.sum() + 1)[-1] * 20.0),
    )


def with_sum(make):
    model = make()
    return refitted(model, varied(model))


def three():
    X, y = coarse(D=5, values=3)
    return with_sum(lambda: fixed(X, y, 3, "equal"))


def low_orders():
    """Orders up to 2: the terms share pairs of features only."""
    X, y = coarse()
    first = AdditiveKernel(np.full(4, 2.0), [1.0, 0.5, 2.0, 0.0], [0.0, 1.0, 1.0], "gaussian")
    second = AdditiveKernel(np.full(4, 1.0), [0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 1.0], "laplace")
    return refitted(fixed(X, y, 2, "equal"), (first, second))


def unused():
    """No term uses the feature 4, and one term is constant."""
    X, y = coarse(D=5, values=3)
    bandwidth = np.full(5, 1.5)
    constant = AdditiveKernel(bandwidth, np.zeros(5), [0.7, 1.0])
    up_to_4 = AdditiveKernel(bandwidth, [1.0, 0.5, 2.0, 0.7, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0], "gaussian")
    exactly_3 = AdditiveKernel(2 * bandwidth, [0.5, 1.5, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 5.0], "matern32")
    return refitted(fixed(X, y, 3, "equal"), (constant, up_to_4, exactly_3))


def categories():
    return with_sum(test_anova.categories)


def missing():
    return with_sum(test_anova.missing)


MODELS = [three, low_orders, unused, categories, missing]


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def model(request):
    return request.param()


@pytest.fixture(scope="module")
def case(model):
    """Return a model, its decomposition, the training marginals, and the effects by brute force on their grid."""
    marginals = [naive.marginal(x) for x in model.expansion_.anchors.T]
    effects = naive.functional_anova(lambda rows: model.expansion_.predict(rows)[:, 0], marginals)
    return model, explain.decompose(model), marginals, effects


class TestAgainstBruteForce(test_anova.TestAgainstBruteForce):
    """Effects, variances, shares over rows and bands, as for a kernel of one term."""

    def test_bands_of_three_features_equal_the_posterior_standard_deviation(self, case):
        model, anova, marginals, _ = case
        S = (0, 1, 2)
        points = [test_anova.values_of(model, j, marginals[j][0]) for j in S]
        expected = test_anova.naive_band(model, marginals, S)
        np.testing.assert_allclose(anova.effect(*S, points=points).sd.ravel(), expected, rtol=1e-5, atol=1e-7)

    def test_variances_of_all_larger_sets_equal_brute_force(self, case):
        _, anova, marginals, effects = case
        total = sum(naive.variance_on_grid(effect, marginals) for S, effect in effects.items() if S)
        for S in [S for S in effects if len(S) > 3]:
            points = [marginals[j][0][:1] for j in S]
            if not any(anova.subject.columns.categorical[j] for j in S):
                found = anova.effect(*S, points=points, band=False).variance_share
                assert found == pytest.approx(naive.variance_on_grid(effects[S], marginals) / total, abs=1e-10)


class TestShapleyValues(test_shapley.TestAgainstEnumeration):
    """Shapley values and interactions, as for a kernel of one term."""


class TestOneTerm:
    def test_a_sum_of_one_term_has_the_bits_of_the_term(self):
        model, twin = test_anova.missing(), test_anova.missing()
        expansion = replace(fitted_of(twin).expansion, kernel=SumKernel(model.expansion_.kernel.terms))
        assign(twin, fitted_of(twin)._replace(expansion=expansion))
        table = test_anova.model_table(model)
        for one, other in zip(numbers_of(model, table), numbers_of(twin, table), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_halves_of_a_kernel_have_the_numbers_of_the_whole(self):
        """The order weights are split at random: orders 3 and more have covariances between both terms."""
        model, twin = test_anova.equal(), test_anova.equal()
        kernel = model.expansion_.kernel
        share = np.array([0.1, 0.7, 0.2, 0.6, 0.5])
        halves = [replace(kernel, order_weights=part * kernel.order_weights) for part in (share, 1.0 - share)]
        expansion = replace(fitted_of(twin).expansion, kernel=SumKernel(halves))
        assign(twin, fitted_of(twin)._replace(expansion=expansion))
        table = test_anova.model_table(model)
        for one, other in zip(numbers_of(model, table), numbers_of(twin, table), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


def numbers_of(model, table):
    """Return numbers of every explanation of a model."""
    anova, values = explain.decompose(model), explain.shapley(model, table)
    effect = anova.effect(0, 3)
    return (
        *(anova.sobol().iloc[:, 1:], anova.importance().sort_values("term").iloc[:, 1:], anova.orders()),
        *(anova.interactions()["variance_share"], anova.mean, anova.effect(0, 1, 3, band=False).variance_share),
        *(effect.values, effect.sd, anova.evaluate_orders(table)),
        *(values.values, values.base_value, values.interactions(1)),
    )


class TestWeightsAndOutputs:
    def test_every_output_of_a_weighted_model_equals_brute_force(self):
        X, y = coarse(D=4, values=4)
        weight = np.arange(len(X)) % 3 + 1.0
        splits = [(np.arange(20), np.arange(20, 40))]  # given splits keep the rows apart
        options = {"order": 3, "alpha": 0.1, "relevance": "equal", "cv": splits}
        model = SalsaRegressor(**options).fit(X, np.column_stack([y, X[:, 3] ** 2 + y]), weight)
        refitted(model, varied(model))
        rows, weight = model.expansion_.anchors, fitted_of(model).uncertainty.noise.weight
        marginals = [naive.marginal(x, weight) for x in rows.T]
        for output in range(2):
            f = lambda x, o=output: model.expansion_.predict(x)[:, o]  # noqa: E731
            effects, anova = naive.functional_anova(f, marginals), explain.decompose(model, output=output)
            variance = {S: naive.variance_on_grid(effect, marginals) for S, effect in effects.items() if S}
            total = sum(variance.values())
            assert anova.variance == pytest.approx(total, rel=1e-9)
            concerning = [sum(v for S, v in variance.items() if j in S) / total for j in range(4)]
            np.testing.assert_allclose(anova.sobol()["total"], concerning, atol=1e-10)
            share = naive.shares_over_rows(effects, marginals, rows, weight)
            found = anova.importance().set_index("term")["share_over_rows"]
            for S in combinations(range(4), 2):
                assert found[" × ".join(anova.features[j] for j in S)] == pytest.approx(share[S], abs=1e-10)
            values = explain.shapley(model, X[:2]).all_values[:, :, output]
            np.testing.assert_allclose(values, [naive.shapley_values(f, x, marginals) for x in X[:2]], atol=1e-10)

    def test_bands_are_in_proportion_to_the_unit_of_an_output(self):
        X, y = coarse(D=4, values=4)
        model = SalsaRegressor(3, alpha=0.1, relevance="equal").fit(X, np.column_stack([y, 3 * y]))
        refitted(model, varied(model))
        one, three_times = (explain.decompose(model, output=output).effect(1).sd for output in range(2))
        np.testing.assert_allclose(three_times, 3 * one, rtol=1e-6)


class TestMergedValues:
    def test_values_are_merged_within_a_share_of_the_smallest_bandwidth(self):
        """A term of bandwidth 0.02 beside a term of bandwidth 5: pairs of the narrow term vary between near values."""
        X = np.random.default_rng(0).normal(size=(250, 2))
        wide, narrow = (AdditiveKernel(np.full(2, h), np.ones(2), [0.0, 1.0, 1.0], "gaussian") for h in (5.0, 0.02))
        model = refitted(fixed(X, X[:, 0] * X[:, 1] + X[:, 0], 2, "equal"), (wide, narrow))
        anova, marginals = explain.decompose(model), [naive.marginal(x) for x in X.T]
        values = anova.effect(0, 1, points=[points for points, _ in marginals], band=False).values
        exact = naive.mean_over(values**2, marginals, [0, 1]).item() / anova.variance
        assert anova.interactions()["variance_share"][0] == pytest.approx(exact, rel=2e-3)


class TestManyFeatures:
    def test_indices_of_16_features_equal_enumeration_over_two_rows(self):
        """A product of all 16 features beside orders up to 3, and beside a product of 10: the grid has 2^16 points."""
        rng, D = np.random.default_rng(0), 16
        X = rng.normal(size=(30, D))
        model = fixed(X, rng.normal(size=30), 1, "equal")
        ten = np.arange(D) < 10
        terms = (
            AdditiveKernel(np.full(D, 3.0), np.ones(D), [0.0, 1.0, 1.0, 1.0], "matern52"),
            AdditiveKernel(np.full(D, 9.0), np.ones(D), np.eye(D + 1)[D], "matern52"),
            AdditiveKernel(np.full(D, 9.0), 2.0 * ten, np.eye(11)[10], "laplace"),
        )
        refitted(model, terms)
        background = rng.normal(size=(2, D))
        marginals = [naive.marginal(x) for x in background.T]
        f = model.predict(naive.product_grid([points for points, _ in marginals])).reshape((2,) * D)
        sobol = explain.decompose(model, background).sobol()
        first = [np.var(f.mean(axis=tuple(k for k in range(D) if k != j))) / f.var() for j in range(D)]
        np.testing.assert_allclose(sobol["first_order"], first, atol=1e-10)
        total = [np.mean(np.var(f, axis=j)) / f.var() for j in range(D)]
        np.testing.assert_allclose(sobol["total"], total, atol=1e-10)


class TestCompiled:
    @pytest.mark.parametrize("simd", _core.simd_levels())
    @settings(max_examples=examples(25))
    @given(st.data())
    def test_covariances_of_two_kernels_equal_the_sum_over_sets(self, simd, data):
        """The naive sum runs over every pair of rows and every set of three or more features."""
        D = data.draw(st.integers(3, 6), "D")
        sides = [Side(data, D, name) for name in "xz"]
        (x, z), d = sides, min(side.d for side in sides)
        rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
        products, coef = rng.normal(size=(D, x.n, z.n)), rng.normal(size=z.n)
        found = _core.cross_covariances(products, x.means, z.means, coef, x.weights, z.weights, 2, simd)
        expected = np.zeros((x.n, d - 2 + D))
        for S in naive.subsets(range(D)):
            if 3 <= len(S) <= d:
                part = (np.prod(products[list(S)], axis=0) * np.outer(x.outside(S), z.outside(S))) @ coef
                expected[:, [len(S) - 3, *(d - 2 + j for j in S)]] += part[:, None]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max(initial=1e-300))

    def test_results_are_bit_identical_for_any_number_of_threads(self):
        rng = np.random.default_rng(0)
        moments = rng.normal(size=(5, 90, 100)), rng.random((5, 90)), rng.random((5, 100)), rng.normal(size=100)
        arguments = *moments, rng.random((5, 90)), rng.random((6, 100))
        one, two = (_core.cross_covariances(*arguments, threads) for threads in (1, 2))
        np.testing.assert_array_equal(one, two)

    def test_wrong_shapes_raise_errors(self):
        good = {
            **{"products": np.ones((3, 2, 4)), "x_means": np.ones((3, 2)), "z_means": np.ones((3, 4))},
            **{"coef": np.ones(4), "x_weights": np.ones((4, 2)), "z_weights": np.ones((4, 4))},
        }
        _core.cross_covariances(**good)
        for name, bad in [
            ("x_weights", np.ones((3, 2))),
            ("z_weights", np.ones((5, 4))),
            ("x_weights", np.ones((4, 4))),
            ("z_means", np.ones((3, 2))),
            ("x_means", np.ones((2, 2))),
            ("coef", np.ones(2)),
        ]:
            with pytest.raises(ValueError, match="needed"):
                _core.cross_covariances(**{**good, name: bad})


class Side:
    """Anchors of one kernel: means (D, n), and weights (d+1, n) of which the lowest orders may be zero."""

    def __init__(self, data, D, name):
        self.d, self.n = data.draw(st.integers(3, D), f"d of {name}"), data.draw(st.integers(1, 40), f"n of {name}")
        rng = np.random.default_rng(data.draw(st.integers(0, 99), f"seed of {name}"))
        self.means, self.weights = rng.random((D, self.n)), rng.random((self.d + 1, self.n))
        self.weights[: data.draw(st.integers(0, self.d), f"lowest of {name}")] = 0.0

    def outside(self, S):
        others, orders = np.delete(self.means, S, axis=0), range(len(S), self.d + 1)
        return sum(self.weights[m] * naive.elementary_symmetric(others, m - len(S)) for m in orders)
