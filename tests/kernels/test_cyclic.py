"""Base kernels on a circle: the base kernel of the chord sin(pi t) / pi."""

from math import comb

import mpmath
import naive
import numpy as np
import pytest

from kernels.test_single import assert_accurate
from salsa import AdditiveKernel, SumKernel, _core
from salsa.kernels.base import ALL_BASES, cyclic, is_cyclic, replaced, straight
from salsa.kernels.marginals import distribution_of
from salsa.solvers.random_features import cyclic_frequencies, draw_features

every_base = pytest.mark.parametrize("base", naive.NUMERIC_BASES)
every_level = pytest.mark.parametrize("simd", _core.simd_levels())
RELEVANCE = np.array([1.0, 0.5, 2.0])


def chords(X, Z):
    return [np.sin(np.pi * (X[:, j, None] - Z[None, :, j])) / np.pi for j in range(X.shape[1])]


def twin(kernel, base, X, Z):
    """The additive kernel of chords, from its definition."""
    pairs = zip(kernel.relevance, chords(X, Z), kernel.bandwidth, strict=True)
    s = np.array([a * naive.base_kernel(base, chord, h) for a, chord, h in pairs])
    parts = [w * naive.elementary_symmetric(s, m) / comb(len(s), m) for m, w in enumerate(kernel.order_weights)]
    return sum(parts)


def places(n=60, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (n, 3))


@every_base
@pytest.mark.parametrize("weights", [[0.5, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]], ids=["additive", "product"])
@pytest.mark.parametrize("h", [1e-3, 0.05, 0.3, 3.0])
def test_kernel_is_the_base_kernel_of_the_chord(base, weights, h):
    X, Z, kernel = places(), places(40, 1), AdditiveKernel(np.full(3, h), RELEVANCE, weights, cyclic(base))
    np.testing.assert_allclose(kernel(X, Z), twin(kernel, base, X, Z), rtol=1e-12, atol=1e-14)


@every_base
def test_values_agree_with_many_digits(base):
    kernel = AdditiveKernel([0.07], [1.0], [0.0, 1.0], cyclic(base))
    t = np.array([0.0, 1e-9, 0.01, 0.2, 0.49999, 0.5, 0.50001, 0.9, 0.99, 1.0])
    with mpmath.workdps(40):
        exact = [
            naive.base_kernel(base, mpmath.sin(mpmath.pi * mpmath.mpf(v)) / mpmath.pi, mpmath.mpf(0.07), mpmath)
            for v in t
        ]
    np.testing.assert_allclose(kernel(t[:, None], [[0.0]])[:, 0], np.array(exact, dtype=float), rtol=3e-13)


@every_base
def test_whole_turns_change_nothing(base):
    X, kernel = np.round(64 * places()) / 64, AdditiveKernel([0.1, 0.2, 0.4], RELEVANCE, [0.0, 1.0, 1.0], cyclic(base))
    np.testing.assert_array_equal(kernel(X, X + np.array([1.0, -3.0, 17.0])), kernel(X, X))


@every_base
@pytest.mark.parametrize("h", [0.02, 0.2, 2.0])
def test_kernel_is_positive_definite_on_the_circle(base, h):
    grid = np.arange(64)[:, None] / 64
    K = AdditiveKernel([h], [1.0], [0.0, 1.0], cyclic(base))(grid)
    assert np.linalg.eigvalsh(K)[0] > -1e-12


@every_base
@pytest.mark.parametrize("weights", [[0.5, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]], ids=["additive", "product"])
def test_gradients_are_those_of_finite_differences(base, weights):
    X, h = places(30), np.array([0.1, 0.3, 1.0])
    kernel, G = AdditiveKernel(h, RELEVANCE, weights, cyclic(base)), np.random.default_rng(1).normal(size=(30, 30))

    def loss(log_h):
        return float(np.sum(G * AdditiveKernel(np.exp(log_h), RELEVANCE, weights, kernel.base)(X)))

    numeric = naive.finite_difference(loss, np.log(h), 1e-4) / h
    np.testing.assert_allclose(kernel.gradient(X, G).bandwidth, numeric, rtol=1e-6, atol=1e-8)


@every_level
@every_base
@pytest.mark.parametrize("scale", [3e-4, 0.02, 0.3, 3.0])
def test_float32_has_its_accuracy_where_the_circle_closes(base, scale, simd):
    rng = np.random.default_rng(0)
    ends = np.array([0.0, 1e-7, 1e-4, 0.4999999, 0.5, 0.9999, 1 - 1e-7])
    X = np.vstack([places(70), np.column_stack([ends] * 3)])
    product = np.array([0.0, 0.0, 0.0, 1.0])
    for weights in (np.array([0.0, 1.0, 1.0, 1.0]), product):
        kernel = AdditiveKernel(scale * rng.uniform(0.7, 1.4, 3), RELEVANCE, weights, cyclic(base))
        assert_accurate([kernel], X, simd=simd)


def test_missing_values_are_averaged_over_their_distribution():
    x, h = places(50)[:, :1], 0.2
    kernel = AdditiveKernel([h], [1.0], [0.0, 1.0], "cyclic_matern52", (distribution_of(x[:, 0], np.ones(50)),))
    found = kernel(x, np.full((1, 1), np.nan))[:, 0]
    np.testing.assert_allclose(found, kernel(x, x).mean(axis=1), rtol=1e-12)


@every_base
def test_frequencies_are_whole_and_give_the_kernel(base):
    """A base kernel on a circle is the mean of cos(omega t) over its frequencies omega."""
    kernel, t = AdditiveKernel([0.15], [1.0], [0.0, 1.0], cyclic(base)), np.linspace(0, 1, 21)
    omega = cyclic_frequencies(kernel, np.random.RandomState(0), 100_000)
    np.testing.assert_allclose(np.round(omega / (2 * np.pi)), omega / (2 * np.pi), rtol=1e-14)
    means = np.cos(np.outer(t, omega)).mean(axis=1)
    np.testing.assert_allclose(means, kernel(t[:, None], [[0.0]])[:, 0], atol=0.02)


def test_random_features_give_the_kernel_beside_numbers():
    kernel = AdditiveKernel([0.2, 1.0, 0.4], RELEVANCE, [0, 1, 1], ("cyclic_matern52", "matern52", "cyclic_gaussian"))
    X = places(20)
    phi = draw_features(kernel, 40_000, np.random.RandomState(0)).features(X)
    np.testing.assert_allclose(phi @ phi.T, kernel(X), atol=0.06)


def test_names_of_base_kernels_on_a_circle():
    assert [name for name in ALL_BASES if is_cyclic(name)] == [cyclic(name) for name in naive.NUMERIC_BASES]
    assert straight(cyclic("laplace")) == straight("laplace") == "laplace"
    assert replaced("cyclic_gaussian", "laplace") == "cyclic_laplace"
    assert replaced("gaussian", "laplace") == "laplace"
    assert replaced("equality", "laplace") == "equality"
    with pytest.raises(ValueError, match="unknown base kernel 'cyclic_equality'"):
        AdditiveKernel([1.0], [1.0], [0.0, 1.0], "cyclic_equality")


def test_sums_may_mix_base_kernels_of_one_circle():
    terms = [AdditiveKernel([0.2], [1.0], [0.0, 1.0], name) for name in ("cyclic_matern52", "cyclic_laplace")]
    X = places()[:, :1]
    np.testing.assert_allclose(SumKernel(terms)(X), terms[0](X) + terms[1](X), rtol=1e-14)
    assert [term.numeric_base for term in terms] == ["matern52", "laplace"]
    assert not terms[0].on_line.any()
