"""Random features: unbiased for every kernel, subsets with exact probabilities, and a fit that becomes an expansion."""

from dataclasses import replace
from itertools import combinations
from math import prod

import naive
import numpy as np
import pytest
from conftest import additive_truth
from scipy.stats import chisquare

from salsa import AdditiveKernel, SumKernel
from salsa._utils.sums import RidgePath, Sums
from salsa.kernels.base import BASE_KERNELS
from salsa.kernels.marginals import Distribution, distribution_of
from salsa.solvers import random_features as module
from salsa.solvers.anchors import choose_anchors
from salsa.solvers.random_features import (
    draw_features,
    draw_subsets,
    draw_term_features,
    inclusion,
    interpolation,
    log_prefix_polynomials,
    shared_out,
)
from salsa.solvers.ridge import solve_once

MIXED = ("gaussian", "laplace", "equality", "matern32", "matern52", "equality")


def seeded(seed=0):
    return np.random.RandomState(seed)


def table(base, holes=0.0, n=9, seed=0):
    """Rows (n, 6), codes where the base kernel asks for them, this share of them missing, and the distributions."""
    rng = np.random.default_rng(seed)
    names = (base,) * 6 if isinstance(base, str) else base
    columns = [rng.integers(0, 4, n) if BASE_KERNELS[name].for_categories else rng.normal(size=n) for name in names]
    X = np.where(rng.random((n, 6)) < holes, np.nan, np.column_stack(columns))
    return X, tuple(distribution_of(x, rng.uniform(1, 2, n), None) for x in X.T)


def kernel_of(base="gaussian", distributions=None, *, relevance=(1.0, 0.5, 2.0, 0.0, 0.7, 1.5)):
    bandwidth = np.array([0.5, 1.0, 2.0, 0.7, 1.5, np.inf])
    return AdditiveKernel(bandwidth, np.array(relevance), np.array([0.3, 1.0, 0.0, 0.5, 0.2]), base, distributions)


def sum_of(distributions=None):
    """Return a sum of rough main effects, smooth interactions and the product of all features in use."""
    rough = replace(kernel_of(("laplace",) * 2 + MIXED[2:], distributions), order_weights=np.array([0.2, 1.0]))
    product = replace(kernel_of(MIXED, distributions), order_weights=np.eye(6)[5])
    return SumKernel([rough, kernel_of(MIXED, distributions), product])


def standardised_errors(features_of, kernel, X, draws=250, count=200):
    """Return errors (n, n) of the mean phi'phi over many draws, relative to k - w_0, in standard errors."""
    found = np.empty((draws, len(X), len(X)))
    for seed in range(draws):
        F = draw_features(features_of, count, seeded(seed)).features(X)
        found[seed] = F @ F.T
    error = found.mean(axis=0) - (kernel(X) - sum(term.order_weights[0] for term in kernel.terms))
    return error / (found.std(axis=0, ddof=1) / np.sqrt(draws))


class TestUnbiased:
    @pytest.mark.parametrize("base", [*BASE_KERNELS, MIXED])
    def test_features_are_unbiased_for_every_base_kernel(self, base):
        X, _ = table(base)
        kernel = kernel_of(base)
        assert np.abs(standardised_errors(kernel, kernel, X)).max() < 5

    @pytest.mark.parametrize("base", BASE_KERNELS)
    def test_features_of_one_column_are_unbiased_to_a_thousandth(self, base):
        """Standard errors are 0.001, small enough to tell Student's t with 5 degrees of freedom from 4."""
        kernel = AdditiveKernel([0.7], [1.0], [0.0, 1.0], base)
        X = np.array([[0.0], [0.3], [0.8], [1.5], [3.0]])
        assert np.abs(standardised_errors(kernel, kernel, X, count=2000)).max() < 5

    @pytest.mark.parametrize("base", [*BASE_KERNELS, MIXED])
    def test_features_are_unbiased_for_missing_values(self, base):
        X, distributions = table(base, holes=0.3)
        kernel = kernel_of(base, distributions)
        assert np.isnan(X[:, kernel.relevance > 0]).any(axis=0).all()
        assert np.abs(standardised_errors(kernel, kernel, X)).max() < 5

    @pytest.mark.parametrize("holes", [0.0, 0.3])
    def test_features_of_a_sum_are_unbiased(self, holes):
        X, distributions = table(MIXED, holes)
        kernel = sum_of(distributions)
        assert np.abs(standardised_errors(kernel, kernel, X)).max() < 5

    @pytest.mark.parametrize("missing_term", [0, 1, 2])
    def test_a_missing_term_of_a_sum_is_detected(self, missing_term):
        X, distributions = table(MIXED, 0.3)
        kernel = sum_of(distributions)
        others = SumKernel(term for place, term in enumerate(kernel.terms) if place != missing_term)
        assert np.abs(standardised_errors(others, kernel, X)).max() > 8

    @pytest.mark.parametrize("weights", [[0, 1], [2, 0, 1], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1]])
    def test_features_are_unbiased_for_all_order_weights(self, weights):
        X, _ = table("gaussian")
        kernel = replace(kernel_of(relevance=(1, 0.5, 2, 0.1, 0.7, 1.5)), order_weights=np.array(weights, dtype=float))
        assert np.abs(standardised_errors(kernel, kernel, X)).max() < 5

    @pytest.mark.parametrize(
        ("drawn", "other"),
        [("gaussian", "matern52"), ("matern52", "matern32"), ("matern32", "laplace"), ("laplace", "matern32")],
    )
    def test_another_spectral_density_is_detected(self, drawn, other):
        X, _ = table(drawn)
        assert np.abs(standardised_errors(kernel_of(drawn), kernel_of(other), X)).max() > 8

    def test_other_relevances_orders_and_distributions_are_detected(self):
        X, distributions = table("gaussian", holes=0.3)
        kernel = kernel_of("gaussian", distributions)
        others = (
            replace(kernel, relevance=np.array([1.0, 0.5, 1.7, 0.0, 0.7, 1.5])),
            replace(kernel, order_weights=np.array([0.3, 1.0, 0.0, 0.6, 0.2])),
            replace(kernel, distributions=tuple(Distribution(p + 0.7, w) for p, w in distributions)),
        )
        for other in others:
            assert np.abs(standardised_errors(other, kernel, X)).max() > 8

    def test_error_falls_with_the_root_of_their_number(self):
        X, _ = table("matern52", n=40)
        kernel = kernel_of("matern52")
        K = kernel(X) - 0.3
        errors = []
        for count in (1000, 16_000):
            F = [draw_features(kernel, count, seeded(seed)).features(X) for seed in range(5)]
            errors.append(np.mean([np.linalg.norm(f @ f.T - K) / np.linalg.norm(K) for f in F]))
        assert errors[1] < 0.03
        assert errors[0] / errors[1] == pytest.approx(4, rel=0.4)


class TestShares:
    def test_one_term_gets_all_random_features(self):
        assert shared_out(kernel_of(), 17) == [17]
        X, _ = table(MIXED)
        both = kernel_of(MIXED), SumKernel([kernel_of(MIXED)])
        one, as_sum = (draw_features(kernel, 50, seeded()).features(X) for kernel in both)
        np.testing.assert_array_equal(one, as_sum)

    @pytest.mark.parametrize("count", [3, 4, 10, 999, 100_000])
    def test_shares_follow_the_prior_variance_without_order_0(self, count):
        kernel = sum_of()
        variance = np.array([term.diagonal(np.zeros((1, 6)))[0] - term.order_weights[0] for term in kernel.terms])
        numbers = np.array(shared_out(kernel, count))
        assert numbers.sum() == count
        assert np.abs(numbers - 1 - (count - 3) * variance / variance.sum()).max() < 1

    def test_every_term_has_a_random_feature(self):
        assert shared_out(sum_of(), 1) == [1, 1, 1]
        zero = kernel_of(relevance=np.zeros(6))
        assert shared_out(SumKernel([zero, kernel_of()]), 40) == [1, 39]
        assert shared_out(SumKernel([zero, zero]), 40) == [20, 20]
        assert draw_features(SumKernel([zero, kernel_of()]), 40, seeded()).features(np.ones((3, 6))).shape == (3, 40)


def subset_probability(share, subset):
    """Return the probability of choosing this subset, feature by feature from the last to the first."""
    left, probability = len(subset), 1.0
    for j in reversed(range(len(share))):
        probability *= share[j, left] if j in subset else 1 - share[j, left]
        left -= j in subset
    return probability


class TestSubsets:
    @pytest.mark.parametrize("a", [(1.0, 0.5, 2.0, 0.3, 4.0), (1.0, 0.0, 2.0, 0.0, 4.0), (1e9, 1e-9, 1.0, 0.0, 1e5)])
    def test_probabilities_of_subsets_equal_enumeration(self, a):
        with np.errstate(divide="ignore"):
            log_a = np.log(a)
        share = inclusion(log_a, log_prefix_polynomials(log_a, 5))
        for m in range(1, np.count_nonzero(a) + 1):
            total = sum(prod(a[j] for j in subset) for subset in combinations(range(5), m))
            for subset in combinations(range(5), m):
                expected = prod(a[j] for j in subset) / total
                assert subset_probability(share, subset) == pytest.approx(expected, rel=1e-12, abs=1e-14)

    def test_frequencies_of_subsets_match_their_probabilities(self):
        a, w = np.array([1.0, 0.5, 2.0, 0.3, 4.0]), np.array([0.7, 0.5, 0.0, 1.0, 0.0, 2.0])
        kernel = AdditiveKernel(np.ones(5), a, w)
        subsets, T = draw_subsets(kernel, 40_000, seeded())
        assert pytest.approx(kernel.diagonal(np.zeros((1, 5)))[0] - 0.7) == T
        every = [subset for m in (1, 3, 5) for subset in combinations(range(5), m)]
        weight = np.array([w[len(s)] * kernel.normaliser[len(s)] * a[list(s)].prod() for s in every])
        codes = 2 ** np.arange(5) @ subsets
        count = np.array([np.sum(codes == sum(2**j for j in s)) for s in every])
        assert count.sum() == 40_000  # and so no subset of an order without weight
        assert weight.sum() == pytest.approx(T)
        assert chisquare(count, 40_000 * weight / weight.sum()).pvalue > 1e-3

    def test_polynomials_of_prefixes_equal_exact_ones(self):
        a = np.geomspace(1e-3, 1e4, 9)
        log_e = log_prefix_polynomials(np.log(a), 6)
        for j in range(10):
            exact = [float(e) for e in naive.exact_elementary_symmetric(a[:j], 6)] if j else [1.0] + [0.0] * 6
            np.testing.assert_allclose(np.exp(log_e[j]), exact, rtol=1e-13)

    def test_features_without_relevance_are_never_drawn(self):
        found = draw_term_features(kernel_of(MIXED), 5000, seeded())
        assert found.columns.tolist() == [0, 1, 2, 4, 5]
        assert set(found.inside.sum(axis=0)) == {1, 3, 4}

    @pytest.mark.parametrize("order", [1, 5, 300])
    @pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
    def test_subsets_of_300_features_are_finite_and_right(self, order, unit):
        D = 300
        unit = unit if order < D else 1.0
        relevance = unit * np.where(np.arange(D) == 7, 1e3, 1.0)
        kernel = AdditiveKernel(np.full(D, 50.0), relevance, np.eye(order + 1)[order])
        X = np.random.default_rng(0).normal(size=(20, D))
        found = draw_term_features(kernel, 4000, seeded())
        assert (found.inside.sum(axis=0) == order).all()
        # how often feature 7 is chosen: a_7 dk/da_7 / k, of x with itself
        assert np.mean(found.inside[7]) == pytest.approx(
            kernel.gradient(X[:1], [[1.0]]).relevance[7] * 1e3 * unit / found.total, abs=0.03
        )
        phi = found.features(X)
        np.testing.assert_allclose(phi @ phi.T, kernel(X), atol=0.1 * found.total)

    def test_a_kernel_of_zeros_has_features_of_zero(self):
        for kernel in (kernel_of(relevance=np.zeros(6)), replace(kernel_of(), order_weights=np.array([1.0, 0.0]))):
            phi = draw_features(kernel, 10, seeded()).features(np.ones((3, 6)))
            np.testing.assert_array_equal(phi, np.zeros((3, 10)))


def sign(code, key):
    return (-1.0) ** bin(int(np.float64(code).view(np.uint64)) & int(key)).count("1")


def by_definition(found, X):
    """Return phi (m, R) = sqrt(2 T / R) Re(exp(i b) prod z_j), number by number."""
    R = len(found.angle)
    phi = np.empty((len(X), R))
    for r in range(R):
        for i, x in enumerate(X):
            z = np.exp(1j * found.angle[r])
            for c in np.flatnonzero(found.inside[:, r]):
                j = found.columns[c]

                def unit(v, c=c, j=j, r=r):
                    equality = found.kernel.bases[j] == "equality"
                    return sign(v, found.key[c, r]) if equality else np.exp(1j * v * found.frequency[c, r])

                if np.isnan(x[j]):
                    mu = sum(w * unit(p) for p, w in zip(*found.kernel.distributions[j], strict=True))
                    z *= mu + found.eps[c, r] * np.sqrt(max(0.0, 1 - abs(mu) ** 2))
                else:
                    z *= unit(x[j])
            phi[i, r] = np.sqrt(2 * found.total / R) * z.real
    return phi


class TestFeatures:
    @pytest.mark.parametrize("holes", [0.0, 0.3])
    def test_features_in_blocks_equal_their_definition(self, holes, monkeypatch):
        X, distributions = table(MIXED, holes, n=30)
        found = draw_term_features(kernel_of(MIXED, distributions), 40, seeded())
        expected = by_definition(found, X)
        np.testing.assert_allclose(found.features(X), expected, atol=2e-7)  # sqrt(1 - |mu|^2) of a constant k_j
        monkeypatch.setattr(module, "BLOCK", 7 * 40)
        np.testing.assert_allclose(found.features(X), expected, atol=2e-7)

    def test_a_single_value_is_unlike_a_missing_one(self):
        """The distribution of a column with one value and gaps has weight 0."""
        x = np.array([[1.0], [np.nan]])
        kernel = AdditiveKernel([1.0], [1.0], [0.0, 1.0], "gaussian", (distribution_of(x[:, 0], np.ones(2)),))
        phi = draw_features(kernel, 4000, seeded()).features(x)
        np.testing.assert_allclose(phi @ phi.T, np.eye(2), atol=0.08)

    def test_codes_may_be_any_numbers(self):
        kernel = AdditiveKernel([1.0], [1.0], [0.0, 1.0], "equality")
        X = np.array([[0.0], [-0.0], [1.0], [-1.0], [0.5], [1e300]])
        found = draw_features(kernel, 6000, seeded())
        phi = found.features(X)
        np.testing.assert_array_equal(found.features(X[1:]), phi[1:])  # -0.0 without 0.0 beside it
        np.testing.assert_array_equal(phi[0], phi[1])
        np.testing.assert_allclose(phi @ phi.T, kernel(X), atol=0.08)

    def test_features_depend_on_the_seed_and_not_on_threads(self):
        X, distributions = table(MIXED, 0.2, n=20_000)
        kernel = kernel_of(MIXED, distributions)
        first, same, other = (draw_features(kernel, 100, seeded(seed)) for seed in (0, 0, 1))
        one = first.features(X, n_threads=1)
        np.testing.assert_array_equal(one, same.features(X, n_threads=3))
        assert not np.array_equal(one, other.features(X))

    def test_no_rows_give_no_features(self):
        assert draw_features(kernel_of(), 5, seeded()).features(np.empty((0, 6))).shape == (0, 5)

    def test_invalid_input_is_refused_with_advice(self):
        found = draw_features(kernel_of(), 50, seeded())
        with pytest.raises(ValueError, match="a column for each of the 6 features"):
            found.features(np.ones((3, 5)))
        with pytest.raises(ValueError, match="distributions of its features"):
            found.features(np.full((3, 6), np.nan))
        for value in (np.inf, -np.inf, 1.7e308):
            with pytest.raises(ValueError, match="feature 0 of X is infinite, or too large"):
                found.features(np.array([[value, 0.0, 0.0, 0.0, 0.0, 0.0]]))
        with pytest.raises(ValueError, match="at least one random feature"):
            draw_features(kernel_of(), 0, seeded())


class TestFit:
    def problem(self):
        X, y = additive_truth(n=150)
        kernel = AdditiveKernel(np.full(6, 1.0), np.ones(6), np.array([0.5, 1.0, 1.0]), "matern52")
        return kernel, X, np.column_stack([y, 5 + X[:, 0] ** 2])

    def test_many_random_features_approach_the_exact_fit(self):
        """Errors fall with the root of the number of features; order 0 is left to the intercept."""
        kernel, X, Y = self.problem()
        new = additive_truth(n=60, seed=5)[0]
        coef, offset, _ = solve_once(kernel(X), Y, 3.0)
        exact, errors = offset + kernel(new, X) @ coef, []
        for count in (500, 8000):
            found = [draw_features(kernel, count, seeded(seed)) for seed in range(6)]
            fits = [(phi.features(X), phi.features(new)) for phi in found]
            solved = [(F, G, solve_once(F @ F.T, Y, 3.0)) for F, G in fits]
            predictions = np.array([offset + G @ (F.T @ coef) for F, G, (coef, offset, _) in solved])
            errors.append(np.sqrt(np.mean((predictions - exact) ** 2, axis=(0, 1))) / exact.std(axis=0))
        np.testing.assert_allclose(errors[0] / errors[1], 4, rtol=0.4)

    def test_the_fit_is_interpolated_at_the_anchors(self):
        """The expansion equals the fit at the anchors; more anchors bring it closer elsewhere."""
        kernel, X, Y = self.problem()
        found = draw_features(kernel, 300, seeded())
        theta, offset = RidgePath(Sums.of(found.features(X), Y, np.ones(len(X)))).solution(0.3)
        new = additive_truth(n=60, seed=5)[0]
        errors = []
        for rank in (20, 140):
            anchors = choose_anchors(kernel, X, rank, 0.0, seeded())
            expansion = anchors.expansion(interpolation(found, anchors) @ theta, offset)
            at_anchors = offset + found.features(anchors.points) @ theta
            np.testing.assert_allclose(expansion.predict(anchors.points), at_anchors, atol=1e-8)
            errors.append(np.abs(expansion.predict(new) - offset - found.features(new) @ theta).max())
        assert errors[1] < 0.3 * errors[0]
