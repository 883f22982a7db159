"""Sums of kernels: the terms added up, in one sweep, with their gradients; one term is the special case."""

import pickle
from dataclasses import replace

import mpmath
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salsa import AdditiveKernel, SumKernel, _core
from salsa._core import simd_levels
from salsa.kernels.marginals import Distribution, distribution_of
from salsa.kernels.pair_loops import core_call


def random_terms(seed, D=5, count=3, *, missing=False):
    """Return terms of any order and base, some features unused, and rows for them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(23, D))
    X[:, D - 1] = np.round(X[:, D - 1])
    if missing:
        X[rng.uniform(size=X.shape) < 0.2] = np.nan
    distributions = tuple(distribution_of(x, np.ones(len(x))) for x in X.T) if missing else None
    terms = []
    for _ in range(count):
        bases = [*rng.choice(naive.NUMERIC_BASES, D - 1), "equality"]
        d = int(rng.integers(1, D + 1))
        weights = rng.uniform(size=d + 1) if rng.uniform() < 0.5 else np.eye(d + 1)[d] * 0.7
        relevance = rng.uniform(0.2, 1.5, D) * (rng.uniform(size=D) < 0.8)
        terms.append(AdditiveKernel(rng.uniform(0.5, 3, D), relevance, weights, tuple(bases), distributions))
    return terms, X


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_a_sum_is_its_terms_added_up(seed, count, missing):
    terms, X = random_terms(seed, count=count, missing=missing)
    kernel, Z, V = SumKernel(terms), X[:7], np.random.default_rng(seed).normal(size=(7, 2))
    np.testing.assert_allclose(kernel(X), sum(term(X) for term in terms), rtol=1e-13)
    np.testing.assert_array_equal(kernel(X), kernel(X).T)
    np.testing.assert_allclose(kernel(X, Z), sum(term(X, Z) for term in terms), rtol=1e-13)
    np.testing.assert_allclose(kernel.product(X, Z, V), kernel(X, Z) @ V, atol=1e-12)
    np.testing.assert_allclose(kernel.product(X, Z, V[:, 0]), kernel(X, Z) @ V[:, 0], atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), kernel(X).diagonal(), rtol=1e-13)
    assert kernel.order == max(term.order for term in terms)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_gradients_are_those_of_the_terms(seed, of_zeros, missing):
    terms, X = random_terms(seed, missing=missing)
    G = np.random.default_rng(seed).normal(size=(23, 23))
    for Z in (None, X[::-1].copy()):
        found = SumKernel(terms).gradient(X, G, Z, of_zeros=of_zeros)
        for term, gradient in zip(terms, found, strict=True):
            for one, other in zip(gradient, term.gradient(X, G, Z, of_zeros=of_zeros), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("base", [*naive.NUMERIC_BASES, ("gaussian", "laplace", "equality", "matern32")])
def test_gradients_of_a_product_are_differences(base):
    """A product of all features is computed by one exponential a pair."""
    rng = np.random.default_rng(0)
    X, G = np.round(rng.normal(size=(20, 4)), 1), rng.normal(size=(20, 20))
    point = np.log(np.r_[rng.uniform(0.5, 2, 4), rng.uniform(0.5, 2, 4), 0.7])

    def kernel(log):
        a, h, w = np.split(np.exp(log), [4, 8])
        return AdditiveKernel(h, a, np.r_[np.zeros(4), w], base)

    found = kernel(point).gradient(X, G, of_zeros=False)
    analytic = np.r_[found.relevance, found.bandwidth, found.order_weights[-1]] * np.exp(point)
    for place in range(9):
        step = 1e-5 * np.eye(9)[place]
        difference = np.sum(G * (kernel(point + step)(X) - kernel(point - step)(X))) / 2e-5
        assert analytic[place] == pytest.approx(difference, rel=1e-6, abs=1e-8)
    everything = kernel(point).gradient(X, G)
    np.testing.assert_allclose(found.relevance, everything.relevance, rtol=1e-9)
    np.testing.assert_allclose(found.bandwidth, everything.bandwidth, rtol=1e-9)
    assert found.order_weights[-1] == pytest.approx(everything.order_weights[-1], rel=1e-9)


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("distance", [1.0, 100.0, 1e4, 1e300])
def test_products_of_many_features_fall_to_zero_and_not_to_nan(simd, distance):
    D = 500
    X = np.vstack([np.zeros(D), np.full(D, distance), np.eye(D)[0] * distance])
    for base in naive.NUMERIC_BASES:
        kernel = AdditiveKernel(np.full(D, 5.0), np.ones(D), np.r_[np.zeros(D), 1.0], base)
        call = core_call(kernel.terms, X, None)
        K = _core.block(call.X, None, *call.plan.arguments, 1, simd, **call.plan.layout)
        gradient = _core.gradient(
            call.X, None, np.ones((3, 3)), *call.plan.arguments, 1, simd, False, **call.plan.layout
        )
        assert np.isfinite(K).all()
        assert all(np.isfinite(part).all() for part in gradient)
        np.testing.assert_allclose(K.diagonal(), 1.0)
        expected = float(naive.base_kernel(base, mpmath.mpf(distance), 5, mpmath) ** D)
        np.testing.assert_allclose(K[0, 1], expected, rtol=1e-10, atol=1e-290)


def test_relevance_is_zero_exactly_where_no_term_uses_the_feature():
    a = AdditiveKernel(np.ones(3), [1.0, 0.0, 0.0], [0.0, 1.0])
    b = AdditiveKernel([2.0, 4.0, 1.0], [0.5, 2.0, 0.0], [0.0, 1.0, 1.0])
    kernel = SumKernel([a, b])
    np.testing.assert_allclose(kernel.relevance, [1 / 3 + 0.5 / 3 + 1 / 3, 2 / 3 + 1 / 3, 0.0])
    assert not kernel.relevance.flags.writeable
    assert not kernel.bandwidth.flags.writeable
    assert kernel.bandwidth[2] == np.inf
    assert kernel.bandwidth[1] == pytest.approx(4.0)
    assert kernel.bandwidth[0] == pytest.approx(np.exp((0.5 * np.log(2)) / (1 / 3 + 0.5)))
    np.testing.assert_allclose(a.variance_with_each, [1 / 3, 0, 0])


def test_copies_and_pickles_are_the_same_kernel():
    terms, X = random_terms(3)
    kernel = SumKernel(terms)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel))(X), kernel(X))


def test_a_sum_of_constants_is_constant():
    term = AdditiveKernel(np.ones(2), np.zeros(2), [0.5, 1.0])
    np.testing.assert_array_equal(SumKernel([term, term])(np.zeros((3, 2))), np.ones((3, 3)))
    used = AdditiveKernel(np.ones(2), np.ones(2), [0.0, 1.0])
    np.testing.assert_allclose(SumKernel([term, used])(np.zeros((3, 2))), 1.5)
    found = SumKernel([term, used]).gradient(np.zeros((3, 2)), np.ones((3, 3)), of_zeros=False)
    np.testing.assert_array_equal(found[0].order_weights, [9.0, 0.0])


class TestBadInput:
    def test_a_sum_needs_terms_of_one_kind(self):
        one = AdditiveKernel(np.ones(2), np.ones(2), [0.0, 1.0])
        with pytest.raises(ValueError, match="at least one term"):
            SumKernel([])
        with pytest.raises(ValueError, match="number 1 has 3 features, the first has 2"):
            SumKernel([one, AdditiveKernel(np.ones(3), np.ones(3), [0.0, 1.0])])
        with pytest.raises(TypeError, match="number 1 is of type str"):
            SumKernel([one, "laplace"])
        with_missing = AdditiveKernel(
            np.ones(2), np.ones(2), [0.0, 1.0], "gaussian", random_terms(0, 2, missing=True)[0][0].distributions
        )
        with pytest.raises(ValueError, match="number 1 and the first has distributions"):
            SumKernel([one, with_missing])
        others = tuple(Distribution(points + 1, weights) for points, weights in with_missing.distributions)
        with pytest.raises(ValueError, match="number 1 has other distributions"):
            SumKernel([with_missing, replace(with_missing, distributions=others)])
        equal = tuple(Distribution(points.copy(), weights) for points, weights in with_missing.distributions)
        SumKernel([with_missing, replace(with_missing, distributions=equal)])
        with pytest.raises(ValueError, match="in only one of number 1 and the first, feature 1 is a category"):
            SumKernel([one, replace(one, base=("gaussian", "equality"))])

    def test_rows_are_checked(self):
        kernel = SumKernel(random_terms(0)[0])
        with pytest.raises(ValueError, match="X has 4 features, this kernel has 5"):
            kernel(np.zeros((2, 4)))
        with pytest.raises(ValueError, match="V has 3 rows, Z has 2"):
            kernel.product(np.zeros((2, 5)), np.zeros((2, 5)), np.zeros(3))

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("terms", [[5, 2], [1, 2]], "more features or weights"),
            ("terms", [[1, 2]], "fewer features or weights"),
            ("terms", [[0, 2], [2, 2]], "more features or weights"),
            ("terms", [[-1, 2], [2, 2]], "more features or weights"),
            ("terms", [[2, 4], [0, 0]], "orders 0..d"),
            ("columns", [0, 2], "one value per feature"),
            ("columns", [0, -1], "one value per feature"),
            ("columns", [0, 2**31 - 1], "one value per feature"),
            ("columns", [0], "one value per feature"),
        ],
    )
    def test_the_core_refuses_layouts_that_do_not_fit(self, name, value, message):
        arguments = np.zeros(2, np.int8), np.ones(2), np.ones(2), np.ones(4)
        layout = {"terms": np.array([[1, 2], [1, 2]], np.int32), "columns": np.array([0, 1], np.int32)}
        assert _core.block(np.zeros((3, 2)), None, *arguments, **layout).shape == (3, 3)
        with pytest.raises(ValueError, match=message):
            _core.block(np.zeros((3, 2)), None, *arguments, **layout | {name: np.array(value, np.int32)})
