"""Kernel blocks in float32 against float64: accuracy for all kernels and coordinates, equal bits, refused input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.test_core import BASES, LEVELS, WRONG_VALUES, codes, cycled, kernel_arguments, valid
from salsa import AdditiveKernel, SumKernel, _core
from salsa.kernels.pair_loops import core_call

ACCURACY = 4e-7  # relative to the diagonal; the largest error in a search over random kernels is 3.4e-7
SIZES = (1, 31, 63, 64, 65, 130)  # panels have 64 rows

every_level = pytest.mark.parametrize("simd", LEVELS)


def both(terms, X, Z=None, simd=None, threads=1):
    """Return the block in float32, the block in float64 and the diagonal."""
    call = core_call(terms, X, Z)
    arguments = (call.X, call.Z, *call.plan.arguments, threads, simd)
    diagonal = sum(term.diagonal(X[:1])[0] for term in terms) - call.plan.constant
    return _core.block32(*arguments, **call.plan.layout), _core.block(*arguments, **call.plan.layout), diagonal


def assert_accurate(terms, X, Z=None, simd=None):
    K, exact, diagonal = both(terms, X, Z, simd)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, exact, rtol=0, atol=ACCURACY * diagonal)


def additive(rng, D, weights, base="gaussian", scale=1.0) -> AdditiveKernel:
    return AdditiveKernel(scale * rng.uniform(0.7, 1.4, D), rng.uniform(0.2, 2.0, D), weights, base)


def learned(rng, D, scale=2.0) -> list[AdditiveKernel]:
    """The three terms of the kernel that is learned by default."""
    product = np.eye(D + 1)[D]
    parts = ((np.array([0.0, 1.0, 1.0, 1.0]), "matern52"), (product, "matern52"), (product, "laplace"))
    return [additive(rng, D, weights, base, scale) for weights, base in parts]


# --- accuracy -----------------------------------------------------------------------------------------


@every_level
@pytest.mark.parametrize("base", [*BASES, "mixed"])
@pytest.mark.parametrize("D", [1, 4, 20])
def test_blocks_are_float64_to_the_accuracy_of_float32(D, base, simd):
    rng = np.random.default_rng(D)
    for scale in (0.3, 3.0, 30.0):
        for d in sorted({1, min(2, D), min(3, D), min(6, D), D}):
            for weights in (rng.uniform(0.1, 1.0, d + 1), np.eye(d + 1)[d]):
                X, Z = np.round(rng.normal(size=(70, D)), 1), np.round(rng.normal(size=(40, D)), 1)
                kernel = additive(rng, D, weights, cycled(D) if base == "mixed" else base, scale)
                assert_accurate([kernel], X, Z, simd)


@every_level
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_errors_do_not_grow_with_100_features(scale, simd):
    rng = np.random.default_rng(0)
    D = 100
    X = rng.normal(size=(70, D))
    for kernel in learned(rng, D, scale):
        assert_accurate([kernel], X, simd=simd)
    assert_accurate(learned(rng, D, scale), X, simd=simd)


@every_level
@pytest.mark.parametrize("offset", [2000.0, -1e6, 1.7e9, 1e15])
def test_a_large_offset_of_coordinates_costs_no_accuracy(offset, simd):
    rng = np.random.default_rng(1)
    X = offset + np.round(rng.uniform(-5, 5, (70, 3)), 3)
    assert_accurate([additive(rng, 3, np.ones(3), "matern52", 3.0)], X, simd=simd)
    assert_accurate(learned(rng, 3), X, simd=simd)


@every_level
@pytest.mark.parametrize("outlier", [1e3, 1e7, 1e12, 1e30, 1e200, -1.7e308])
def test_outliers_cost_no_accuracy(outlier, simd):
    """Neither for the other rows, nor among outliers that are near each other."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70, 3))
    X[[0, 35, 69]] += outlier
    X[1] = X[0]
    assert_accurate(learned(rng, 3), X, simd=simd)
    assert_accurate(learned(rng, 3), X[2:34], X, simd=simd)


@every_level
@pytest.mark.parametrize("unit", [1e-140, 1e-30, 1e30, 1e140])
def test_units_do_not_matter(unit, simd):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    kernel = AdditiveKernel(np.full(2, 0.7 * unit), np.ones(2), np.ones(3), "matern32")
    assert_accurate([kernel], X * unit, simd=simd)


@every_level
@pytest.mark.parametrize(
    ("relevance", "weights"),
    [
        ([1e-30, 2e-30, 3e-30, 1e-30], [0.0, 0.0, 0.0, 1e90]),
        ([1e30, 1e-20, 1e-20, 1e-20], [0.0, 0.0, 1.0, 1e20]),
        ([1e20, 1e20, 1e20, 3e20], [0.0, 0.0, 0.0, 1e-60]),
        ([1e-60, 1e10, 1e20, 1e30], [0.0, 0.0, 0.0, 0.0, 1.0]),
        ([1e-20, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]),
    ],
)
def test_numbers_beyond_float32_on_the_way_cost_no_accuracy(relevance, weights, simd):
    X = np.random.default_rng(4).normal(size=(40, 4))
    assert_accurate([AdditiveKernel(np.ones(4), relevance, weights, "matern52")], X, simd=simd)


@every_level
def test_bandwidths_of_a_column_may_differ_in_all_terms(simd):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 2))
    for wide in (1e3, 1e12, 1e20, np.inf):
        terms = [AdditiveKernel([h, 1.0], np.ones(2), np.ones(3), "laplace") for h in (0.5, 1.0, wide)]
        assert_accurate(terms, X, simd=simd)


@every_level
def test_categories_are_compared_exactly(simd):
    big = 2.0**53
    X = np.array([[0.0], [1.0], [big], [big - 1], [1e200], [1e200], [-0.0], [0.1], [np.nextafter(0.1, 1)]])
    K, exact, _ = both([AdditiveKernel([1.0], [1.0], [0.0, 1.0], "equality")], X, simd=simd)
    np.testing.assert_array_equal(K, exact)


@every_level
@pytest.mark.parametrize("d", [1, 3, 6])
def test_missing_values_keep_their_means(d, simd):
    rng = np.random.default_rng(6)
    D = 6
    X = np.round(rng.normal(size=(70, D)), 1)
    values = tuple(
        (np.unique(X[:, j]), np.full(len(np.unique(X[:, j])), 1 / len(np.unique(X[:, j])))) for j in range(D)
    )
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = 1.0
    terms = [
        AdditiveKernel(rng.uniform(0.5, 2, D), rng.uniform(0.5, 2, D), np.ones(d + 1), base, values)
        for base in ("matern52", "gaussian")
    ]
    assert_accurate(terms, X, simd=simd)
    assert_accurate(terms, X[:5], X, simd=simd)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_sum_of_terms_is_accurate(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    D = data.draw(st.integers(1, 12))
    scale, offset = (10.0 ** data.draw(st.floats(-3, 3)) for _ in range(2))
    X, Z = (offset + scale * np.round(rng.normal(size=(n, D)), 2) for n in (9, 66))
    terms = []
    for _ in range(data.draw(st.integers(1, 3))):
        d = data.draw(st.integers(1, D))
        weights = rng.uniform(0, 1, d + 1) * (rng.random(d + 1) < 0.7)
        weights[d] = 1.0
        width = scale * 10.0 ** data.draw(st.floats(-1, 2))
        terms.append(additive(rng, D, weights, list(rng.choice(BASES[:4], D)), width))
    assert_accurate(terms, X, Z)


# --- bits ---------------------------------------------------------------------------------------------


@every_level
@pytest.mark.parametrize("n", SIZES)
def test_symmetric_block_is_the_full_block_bit_for_bit(n, simd):
    rng = np.random.default_rng(n)
    X, terms = rng.normal(size=(n, 7)), learned(rng, 7)
    half, full = both(terms, X, None, simd)[0], both(terms, X, X.copy(), simd)[0]
    np.testing.assert_array_equal(half, half.T)
    np.testing.assert_array_equal(half, full)


@every_level
def test_threads_and_other_rows_change_no_bit(simd):
    rng = np.random.default_rng(7)
    X, Z, terms = rng.normal(size=(150, 5)), rng.normal(size=(97, 5)), learned(rng, 5)
    K = both(terms, X, Z, simd)[0]
    for threads in (2, 3):
        np.testing.assert_array_equal(both(terms, X, Z, simd, threads)[0], K)
        np.testing.assert_array_equal(both(terms, X, None, simd, threads)[0], both(terms, X, None, simd)[0])
    np.testing.assert_array_equal(both(terms, X[70:90], Z, simd)[0], K[70:90])


# --- arguments ----------------------------------------------------------------------------------------


def test_out_takes_rows_of_a_wider_matrix():
    rng = np.random.default_rng(8)
    X, Z, arguments = rng.normal(size=(5, 3)), rng.normal(size=(70, 3)), kernel_arguments(rng, 3, 2)
    wide = np.full((8, 80), -1.0, dtype=np.float32)
    out = wide[2:7, 3:73]
    assert _core.block32(X, Z, *arguments, out=out) is out
    np.testing.assert_array_equal(out, _core.block32(X, Z, *arguments))
    out[...] = -1.0
    assert (wide == -1.0).all()


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (TypeError, np.empty((5, 4))),
        (TypeError, np.empty(20, dtype=np.float32)),
        (TypeError, [[0.0]]),
        (ValueError, np.empty((4, 5), dtype=np.float32)),
        (ValueError, np.empty((4, 5), dtype=np.float32).T),
        (ValueError, np.empty((5, 8), dtype=np.float32)[:, ::2]),
        (ValueError, np.lib.stride_tricks.as_strided(np.empty(8, dtype=np.float32), (5, 4), (4, 4))),
    ],
)
def test_an_out_of_another_kind_is_refused(error, out):
    arguments = valid()
    with pytest.raises(error):
        _core.block32(*(arguments[name] for name in ("X", "Z", "base", "bandwidth", "relevance", "weights")), out=out)


def test_read_only_out_is_refused():
    rng = np.random.default_rng(9)
    out = np.empty((4, 4), dtype=np.float32)
    out.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        _core.block32(rng.normal(size=(4, 2)), None, *kernel_arguments(rng, 2, 1), out=out)


@pytest.mark.parametrize("change", [c for c in WRONG_VALUES.values() if not {"V", "G"} & set(c)])
def test_wrong_values_are_refused_as_in_block(change):
    arguments = valid() | change
    names = ("X", "Z", "base", "bandwidth", "relevance", "weights", "n_threads", "simd")
    with pytest.raises((TypeError, ValueError)):
        _core.block32(*(arguments[name] for name in names))


def test_no_rows_give_empty_blocks():
    arguments = codes(["gaussian"] * 3), np.ones(3), np.ones(3), np.ones(3)
    some, none = np.ones((4, 3)), np.empty((0, 3))
    for X, Z, shape in [(none, some, (0, 4)), (some, none, (4, 0)), (none, None, (0, 0))]:
        K = _core.block32(X, Z, *arguments)
        assert (K.shape, K.dtype) == (shape, np.float32)


def test_kernels_return_single_precision():
    rng = np.random.default_rng(10)
    X, Z = rng.normal(size=(20, 4)), rng.normal(size=(9, 4))
    constant = AdditiveKernel(np.ones(4), np.zeros(4), [2.0, 1.0])
    for kernel in (*learned(rng, 4), SumKernel(learned(rng, 4)), SumKernel([*learned(rng, 4), constant]), constant):
        for second in (None, Z):
            K = kernel.single(X, second)
            assert K.dtype == np.float32
            np.testing.assert_allclose(K, kernel(X, second), rtol=0, atol=ACCURACY * kernel.diagonal(X[:1])[0])
