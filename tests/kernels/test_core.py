"""The compiled core: every instruction set, size and thread count against the naive twins, and input it must refuse."""

import platform
import re
import subprocess
import sys
from fractions import Fraction
from math import comb
from pathlib import Path

import children
import mpmath
import naive
import numpy as np
import pytest

from salsa import _core

LEVELS = _core.simd_levels()
BASES = naive.BASES
SIZES = (1, 2, 31, 32, 33, 65)  # the core works on panels of 32 rows
FLOOR = 1e-290  # base kernels end near 1e-301 instead of zero

every_level = pytest.mark.parametrize("simd", LEVELS)
every_base = pytest.mark.parametrize("base", BASES)


def codes(base) -> np.ndarray:
    return np.array([BASES.index(name) for name in base], dtype=np.int8)


def cycled(D: int) -> list[str]:
    """Base kernels for D features: all of them in turn."""
    return [BASES[j % len(BASES)] for j in range(D)]


def points(rng, n: int, D: int) -> np.ndarray:
    """Rows on a coarse grid: some values coincide, as the equality kernel needs."""
    return np.round(rng.normal(size=(n, D)) * 2) / 2


def parameters(rng, D: int) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidths and relevances."""
    return rng.uniform(0.5, 3.0, D), rng.uniform(0.2, 2.0, D)


def kernel_arguments(rng, D: int, d: int, base=None):
    """Return base, bandwidth, relevance and weights of a random kernel."""
    return codes(base or cycled(D)), *parameters(rng, D), rng.uniform(0.1, 1.0, d + 1)


def one_hot(d: int) -> np.ndarray:
    """Weights (d+1,) that pick e_d itself."""
    return np.eye(d + 1)[d]


CPUINFO = Path("/proc/cpuinfo")


@pytest.mark.skipif(
    not CPUINFO.exists() or "x86_64" not in platform.machine(), reason="Linux on x86 tells its instruction sets"
)
def test_levels_are_those_of_the_processor():
    flags = set(re.search(r"^flags\s*: (.*)$", CPUINFO.read_text(encoding="ascii"), re.MULTILINE)[1].split())
    needs = {"avx512": {"avx512f", "avx512dq", "fma"}, "avx2": {"avx2", "fma"}, "portable": set()}
    assert [level for level, need in needs.items() if need <= flags] == LEVELS


def test_base_kernels_equal_the_naive_twins():
    assert _core.base_kernels() == list(BASES)


FORCED = """
import os, numpy as np
from salsa import _core
X = np.random.default_rng(0).normal(size=(40, 3))
arguments = np.zeros(3, np.int8), np.ones(3), np.ones(3), np.ones(3)
block = lambda simd=None: _core.block(X, None, *arguments, 1, simd).tobytes()
chosen = block()
os.environ["SALSA_SIMD"] = "none"  # it was read before
assert block() == chosen
print(*[level for level in _core.simd_levels() if block(level) == chosen])
"""


class TestForcedLevel:
    """The environment variable SALSA_SIMD, in processes of their own."""

    @pytest.mark.parametrize("value", ["", *LEVELS])
    def test_the_level_is_the_one_asked_for_or_the_best(self, value):
        assert (value or LEVELS[0]) in children.run(FORCED, SALSA_SIMD=value).split()

    @pytest.mark.skipif(LEVELS == ["portable"], reason="there is one level only")
    def test_levels_can_be_told_by_their_bits(self):
        """Otherwise the test above would prove nothing."""
        assert children.run(FORCED, SALSA_SIMD="portable") != children.run(FORCED, SALSA_SIMD=LEVELS[0])

    @pytest.mark.parametrize("value", ["avx1024", "AVX2", " "])
    def test_a_level_that_is_not_there_is_an_error_where_it_is_needed(self, value):
        code = (
            "import numpy as np, salsa; from salsa import _core, AdditiveKernel\n"
            "try: AdditiveKernel(np.ones(1), np.ones(1), [0.0, 1.0])(np.ones((2, 1)))\n"
            "except ValueError as error: print(error)"
        )
        message = f"SALSA_SIMD={value} is not among the instruction sets of this machine: {', '.join(LEVELS)}\n"
        assert children.run(code, SALSA_SIMD=value) == message

    def test_an_argument_counts_more(self):
        code = (
            "import numpy as np; from salsa import _core\n"
            "print(_core.times(np.ones((1, 2)), np.ones((1, 2)), False, 1, 'portable'), _core.simd_levels())"
        )
        assert children.run(code, SALSA_SIMD="avx1024") == f"[[2.]] {LEVELS}\n"

    def test_the_command_line_says_it_in_one_line(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{i % 7}\n" for i in range(20)))
        code = "import sys; from salsa.cli import main; main()"
        command = [sys.executable, "-c", code, "fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m"]
        done = subprocess.run(command, capture_output=True, text=True, env=children.environment(SALSA_SIMD="mmx"))
        assert done.returncode == 2
        assert done.stdout.startswith("data ")  # what was understood of the table, which comes before the fit
        assert not (tmp_path / "m").exists()
        assert re.fullmatch("salsa: SALSA_SIMD=mmx is not among the instruction sets of .*\n", done.stderr)


# --- values -------------------------------------------------------------------------------------------


def weight_patterns(rng, d: int) -> list[np.ndarray]:
    """All orders; every number of leading zeros up to order d alone; zeros in between; nothing at all."""
    dense = rng.uniform(0.1, 1.0, d + 1)
    leading = [np.where(np.arange(d + 1) < zeros, 0.0, dense) for zeros in range(1, d + 1)]
    return [dense, *leading, np.where(np.arange(d + 1) % 2, 0.0, dense), np.zeros(d + 1)]


@pytest.mark.parametrize("D", range(1, 10))
@pytest.mark.parametrize(("n", "m"), [*zip(SIZES, reversed(SIZES), strict=True), (33, 33), (65, 65)])
def test_block_sums_products_over_subsets(n, m, D):
    rng = np.random.default_rng([n, m, D])
    X, Z = points(rng, n, D), points(rng, m, D)
    bandwidth, relevance = parameters(rng, D)
    s = naive.scaled_bases(X, Z, bandwidth, relevance, cycled(D))
    e = np.array([naive.elementary_symmetric(s, order) for order in range(D + 1)])
    for d in range(1, D + 1):
        for weights in weight_patterns(rng, d):
            expected = np.tensordot(weights, e[: d + 1], axes=1)
            for simd in LEVELS:
                K = _core.block(X, Z, codes(cycled(D)), bandwidth, relevance, weights, 1, simd)
                np.testing.assert_allclose(K, expected, rtol=1e-13, atol=FLOOR, err_msg=f"{simd}, {weights}")


@every_level
@every_base
@pytest.mark.parametrize("d", [1, 3, 6])
def test_block_of_one_base_kernel_equals_the_naive_twin(base, d, simd):
    rng = np.random.default_rng(d)
    D = 6
    X, Z = points(rng, 40, D), points(rng, 35, D)
    bandwidth, relevance = parameters(rng, D)
    order_weights = rng.uniform(0.1, 1.0, d + 1)
    weights = order_weights / [comb(D, order) for order in range(d + 1)]
    K = _core.block(X, Z, codes([base] * D), bandwidth, relevance, weights, 1, simd)
    expected = naive.additive_kernel(X, Z, bandwidth, relevance, order_weights, base)
    np.testing.assert_allclose(K, expected, rtol=1e-13, atol=FLOOR)


@every_level
@pytest.mark.parametrize("n", SIZES)
def test_symmetric_block_is_the_full_block_bit_for_bit(n, simd):
    rng = np.random.default_rng(n)
    for D in range(1, 10):
        X = rng.normal(size=(n, D))
        for d in range(1, D + 1):
            arguments = kernel_arguments(rng, D, d)
            half = _core.block(X, None, *arguments, 1, simd)
            np.testing.assert_array_equal(half, half.T)
            np.testing.assert_array_equal(half, _core.block(X, X.copy(), *arguments, 1, simd))


@every_level
@pytest.mark.parametrize("n", SIZES)
def test_orders_add_up_to_the_block(n, simd):
    rng = np.random.default_rng(n)
    for D, d in [(1, 1), (4, 2), (6, 5), (9, 9)]:
        X, Z = points(rng, n, D), points(rng, 33, D)
        base, bandwidth, relevance, weights = kernel_arguments(rng, D, d)
        orders = _core.orders(X, Z, base, bandwidth, relevance, weights, 1, simd)
        s = naive.scaled_bases(X, Z, bandwidth, relevance, cycled(D))
        expected = [w * naive.elementary_symmetric(s, order) for order, w in enumerate(weights)]
        np.testing.assert_allclose(orders, expected, rtol=1e-13, atol=FLOOR)
        K = _core.block(X, Z, base, bandwidth, relevance, weights, 1, simd)
        np.testing.assert_allclose(orders.sum(axis=0), K, rtol=1e-14)


def test_orders_without_weight_do_not_hide_the_others():
    rng = np.random.default_rng(0)
    X, D = points(rng, 5, 7), 7
    base, bandwidth, relevance, _ = kernel_arguments(rng, D, D)
    every = _core.orders(X, None, base, bandwidth, relevance, np.ones(D + 1))
    last = _core.orders(X, None, base, bandwidth, relevance, one_hot(D))
    np.testing.assert_array_equal(last[D], every[D])
    assert not last[:D].any()


@every_level
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("q", [1, 3])
def test_product_is_block_times_vectors(m, q, simd):
    rng = np.random.default_rng([m, q])
    for D, d in [(1, 1), (5, 2), (8, 6)]:
        X, Z, V = rng.normal(size=(40, D)), rng.normal(size=(m, D)), rng.normal(size=(m, q))
        arguments = kernel_arguments(rng, D, d, ["gaussian"] * D)
        K = _core.block(X, Z, *arguments, 1, simd)
        product = _core.product(X, Z, V, *arguments, 1, simd)
        np.testing.assert_allclose(product, K @ V, rtol=0, atol=1e-14 * (np.abs(K) @ np.abs(V)).max())


@every_level
@pytest.mark.parametrize("d", [2, 7])
def test_results_do_not_depend_on_the_number_of_threads(d, simd):
    rng = np.random.default_rng(d)
    D = 7
    X, Z = rng.normal(size=(230, D)), rng.normal(size=(97, D))
    V, G, H = rng.normal(size=(97, 2)), rng.normal(size=(230, 97)), rng.normal(size=(230, 230))
    arguments = kernel_arguments(rng, D, d)

    def results(threads):
        return [
            _core.block(X, Z, *arguments, threads, simd),
            _core.block(X, None, *arguments, threads, simd),
            _core.orders(X, Z, *arguments, threads, simd),
            _core.product(X, Z, V, *arguments, threads, simd),
            *_core.gradient(X, Z, G, *arguments, threads, simd),
            *_core.gradient(X, None, H, *arguments, threads, simd),
        ]

    one = results(1)
    assert all(np.isfinite(result).all() for result in one)
    for threads in (2, 3):
        for ours, reference in zip(results(threads), one, strict=True):
            np.testing.assert_array_equal(ours, reference)


# --- accuracy -----------------------------------------------------------------------------------------


def relative_error(value: float, exact: Fraction) -> float:
    return float(abs(Fraction(value) - exact) / exact)


def test_the_exact_twin_is_the_definition():
    s = [Fraction(x) for x in (0.1, 2.5, 1e-30, 0.0, 7.0, 1e10)]
    enumerated = [naive.enumerated_elementary_symmetric(s, m) for m in range(7)]
    assert naive.exact_elementary_symmetric([float(x) for x in s], 6) == enumerated


@every_level
@pytest.mark.parametrize("scale", [0.2, 1.0, 20.0], ids=["narrow", "middle", "wide"])
@pytest.mark.parametrize("D", [2, 7, 20, 50, 100])
def test_rounding_errors_stay_below_1e_14(D, scale, simd):
    """The scaled base kernels come from the core itself, so that only the recursion is judged."""
    rng = np.random.default_rng(D)
    X, Z = rng.normal(size=(2, D)), rng.normal(size=(2, D))
    numeric = naive.NUMERIC_BASES  # kernels of categories are only 0 and 1
    base = codes(numeric[j % len(numeric)] for j in range(D))
    bandwidth, relevance = np.full(D, scale), rng.uniform(0.3, 1.5, D)
    single = [np.ascontiguousarray(A[:, [j]]) for j in range(D) for A in (X, Z)]
    s = np.array(
        [
            _core.block(
                single[2 * j], single[2 * j + 1], base[[j]], bandwidth[[j]], relevance[[j]], one_hot(1), 1, simd
            )
            for j in range(D)
        ]
    )
    checked = 0
    for pair in [(0, 0), (1, 1)]:
        exact = naive.exact_elementary_symmetric(s[:, *pair], D)
        for d in sorted({1, 2, 3, 4, 5, D // 3, D // 2, D - 1, D} & set(range(1, D + 1))):
            for weights in (one_hot(d), np.array([1 / comb(D, m) for m in range(d + 1)])):
                K = _core.block(X, Z, base, bandwidth, relevance, weights, 1, simd)
                expected = sum(Fraction(w) * e for w, e in zip(weights, exact, strict=False))
                if expected > FLOOR:
                    alone = (
                        d == D and weights[0] == 0
                    )  # the product, by one exponential: its error grows with the exponent
                    exponent = -mpmath.log(mpmath.mpf(K[pair]) / np.prod(relevance)) if alone else 0.0
                    assert relative_error(K[pair], expected) <= 1e-14 + 1e-15 * max(exponent, 0.0), (d, weights[0])
                    checked += 1
                else:
                    assert 0 <= K[pair] <= 2 * FLOOR
    assert checked >= 8


@every_level
def test_block_agrees_with_50_digits_from_end_to_end(simd):
    rng = np.random.default_rng(3)
    D, d = 9, 4
    X, Z = points(rng, 4, D) + 0.1, points(rng, 5, D) + 0.1
    base, bandwidth, relevance, weights = kernel_arguments(rng, D, d)
    K = _core.block(X, Z, base, bandwidth, relevance, weights, 1, simd)
    with mpmath.workdps(50):
        for i, x in enumerate(X):
            for j, z in enumerate(Z):
                exact = naive.mpmath_kernel(x, z, bandwidth, relevance, weights, cycled(D))
                assert abs(mpmath.mpf(K[i, j]) / exact - 1) < 2e-15


@every_level
@every_base
def test_base_kernels_agree_with_50_digits_over_their_range(base, simd):
    """The relative error of exp(-E) is at most a few rounding units times E, down to E = 588."""
    Z = np.array([[0.0], [1e-9], [1e-3], [0.3], [1.0], [2.7], [9.1], [24.0]])
    h = np.array([0.7])
    K = _core.block(np.zeros((1, 1)), Z, codes([base]), h, np.ones(1), one_hot(1), 1, simd)[0]
    with mpmath.workdps(50):
        for z, k in zip(Z, K, strict=True):
            exact = naive.mpmath_kernel([0.0], z, h, [1.0], [0.0, 1.0], [base])
            exponent = max(1.0, -float(mpmath.log(exact))) if exact else 1.0
            assert abs(mpmath.mpf(k) - exact) <= 5e-16 * exponent * exact


@every_level
def test_the_papers_formula_breaks_where_ours_does_not(simd):
    """Newton-Girard at D = d = 50: the alternating sum loses every digit and even the sign of eigenvalues."""
    rng = np.random.default_rng(0)
    D = d = 50
    X = rng.normal(size=(30, D))
    bandwidth, relevance = np.full(D, 20.0), np.ones(D)
    ours = _core.block(X, None, codes(["gaussian"] * D), bandwidth, relevance, one_hot(d), 1, simd)
    s = naive.scaled_bases(X, X, bandwidth, relevance)
    theirs = naive.newton_girard(s, d)
    exact = np.prod(s, axis=0)
    np.testing.assert_allclose(ours, exact, rtol=1e-13)
    assert np.linalg.eigvalsh(ours).min() > 0
    assert np.max(np.abs(theirs / exact - 1)) > 0.3
    assert np.linalg.eigvalsh((theirs + theirs.T) / 2).min() < -0.5


def test_the_papers_formula_agrees_where_it_is_stable():
    rng = np.random.default_rng(1)
    D, d = 20, 4
    X, Z = rng.normal(size=(6, D)), rng.normal(size=(5, D))
    bandwidth, relevance = np.full(D, 5.0), np.ones(D)
    ours = _core.block(X, Z, codes(["gaussian"] * D), bandwidth, relevance, one_hot(d))
    theirs = naive.newton_girard(naive.scaled_bases(X, Z, bandwidth, relevance), d)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


# --- gradients ----------------------------------------------------------------------------------------


def naive_gradient(X, Z, G, base, bandwidth, relevance, weights):
    """Derivatives of sum(G * K) by finite differences; the one in the weights is exact, as K is linear in them."""

    def loss(h, a):
        s = naive.scaled_bases(X, Z, h, a, base)
        return np.sum(G * sum(w * naive.elementary_symmetric(s, m) for m, w in enumerate(weights)))

    s = naive.scaled_bases(X, Z, bandwidth, relevance, base)
    return (
        naive.finite_difference(lambda a: loss(bandwidth, a), relevance),
        naive.finite_difference(lambda log_h: loss(np.exp(log_h), relevance), np.log(bandwidth)),
        np.array([np.sum(G * naive.elementary_symmetric(s, m)) for m in range(len(weights))]),
    )


def assert_gradients_close(ours, expected):
    for part, reference in zip(ours, expected, strict=True):
        np.testing.assert_allclose(part, reference, rtol=1e-8, atol=1e-9 * max(1.0, np.abs(reference).max()))


@every_level
@pytest.mark.parametrize("base", [*BASES, "mixed"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_gradient_agrees_with_finite_differences(base, d, simd):
    rng = np.random.default_rng(d)
    D = 5
    names = cycled(D) if base == "mixed" else [base] * D
    X, Z, G = points(rng, 9, D), points(rng, 35, D), rng.normal(size=(9, 35))
    _, *kernel = kernel_arguments(rng, D, d)
    ours = _core.gradient(X, Z, G, codes(names), *kernel, 1, simd)
    assert_gradients_close(ours, naive_gradient(X, Z, G, names, *kernel))


@every_level
@pytest.mark.parametrize("n", SIZES)
def test_symmetric_gradient_needs_no_symmetric_g(n, simd):
    rng = np.random.default_rng(n)
    D, d = 4, 3
    X, G = points(rng, n, D), rng.normal(size=(n, n))
    base, *kernel = kernel_arguments(rng, D, d)
    ours = _core.gradient(X, None, G, base, *kernel, 1, simd)
    assert_gradients_close(ours, naive_gradient(X, X, G, cycled(D), *kernel))
    for half, full in zip(ours, _core.gradient(X, X.copy(), G, base, *kernel, 1, simd), strict=True):
        np.testing.assert_allclose(half, full, rtol=1e-11, atol=1e-11)


@every_level
def test_gradient_is_right_for_features_without_relevance(simd):
    """The derivative in a_j does not vanish at a_j = 0; that in h_j does."""
    rng = np.random.default_rng(5)
    D, d = 5, 3
    X, Z, G = rng.normal(size=(6, D)), rng.normal(size=(7, D)), rng.normal(size=(6, 7))
    _, bandwidth, relevance, weights = kernel_arguments(rng, D, d)
    relevance[[1, 4]] = 0.0
    names = ["gaussian"] * D
    ours = _core.gradient(X, Z, G, codes(names), bandwidth, relevance, weights, 1, simd)
    assert_gradients_close(ours, naive_gradient(X, Z, G, names, bandwidth, relevance, weights))
    assert np.abs(ours[0][[1, 4]]).min() > 1e-3
    np.testing.assert_array_equal(ours[1][[1, 4]], 0.0)


@every_level
@pytest.mark.parametrize("all_orders", [True, False])
def test_gradient_is_right_for_every_pattern_of_weights(all_orders, simd):
    """Orders below the smallest with a weight may be left out, at no cost to the other derivatives."""
    rng = np.random.default_rng(12)
    D = 6
    X, Z, G = points(rng, 3, D), points(rng, 33, D), rng.normal(size=(3, 33))
    bandwidth, relevance = parameters(rng, D)
    orders = [naive_gradient(X, Z, G, cycled(D), bandwidth, relevance, np.eye(D + 1)[m]) for m in range(D + 1)]
    for d in range(1, D + 1):
        for weights in weight_patterns(rng, d):
            arguments = codes(cycled(D)), bandwidth, relevance, weights
            in_relevance, in_bandwidth, in_weights = _core.gradient(X, Z, G, *arguments, 1, simd, all_orders)
            expected = [sum(w * orders[m][part] for m, w in enumerate(weights)) for part in (0, 1)]
            assert_gradients_close((in_relevance, in_bandwidth), expected)
            lowest = 0 if all_orders else min(np.flatnonzero(weights), default=d)
            np.testing.assert_allclose(in_weights[lowest:], orders[0][2][lowest : d + 1], rtol=1e-11)
            np.testing.assert_array_equal(in_weights[:lowest], 0.0)


def test_gradient_is_right_for_orders_without_weight():
    """The derivative in w_m is the sum of G e_m, whatever w_m is."""
    rng = np.random.default_rng(6)
    D = 6
    X, G = rng.normal(size=(8, D)), rng.normal(size=(8, 8))
    base, bandwidth, relevance, weights = kernel_arguments(rng, D, D)
    with_weights = _core.gradient(X, None, G, base, bandwidth, relevance, weights)[2]
    without = _core.gradient(X, None, G, base, bandwidth, relevance, one_hot(D))[2]
    np.testing.assert_array_equal(with_weights, without)
    assert np.abs(with_weights).min() > 0


def test_gradient_is_right_for_more_rows_than_partial_sums():
    """Sums are cut into 64 parts of whole 32-row tiles: beyond 2048 rows a part holds several tiles."""
    rng = np.random.default_rng(7)
    D, d = 3, 2
    X, Z, G = points(rng, 2100, D), points(rng, 3, D), rng.normal(size=(2100, 3))
    base, *kernel = kernel_arguments(rng, D, d)
    ours = _core.gradient(X, Z, G, base, *kernel, 2)
    assert_gradients_close(ours, naive_gradient(X, Z, G, cycled(D), *kernel))


# --- input at the edges -------------------------------------------------------------------------------


def test_no_rows_give_empty_results():
    rng = np.random.default_rng(8)
    D, d = 3, 2
    arguments = kernel_arguments(rng, D, d)
    some, none = rng.normal(size=(4, D)), np.empty((0, D))
    assert _core.block(none, some, *arguments).shape == (0, 4)
    assert _core.block(some, none, *arguments).shape == (4, 0)
    assert _core.block(none, None, *arguments).shape == (0, 0)
    assert _core.orders(none, some, *arguments).shape == (3, 0, 4)
    assert _core.orders(some, none, *arguments).shape == (3, 4, 0)
    assert _core.product(none, some, np.ones((4, 2)), *arguments).shape == (0, 2)
    np.testing.assert_array_equal(_core.product(some, none, np.empty((0, 2)), *arguments), np.zeros((4, 2)))
    assert _core.product(some, some, np.empty((4, 0)), *arguments).shape == (4, 0)
    for X, Z, G in [(none, some, np.empty((0, 4))), (some, none, np.empty((4, 0))), (none, None, np.empty((0, 0)))]:
        for part, size in zip(_core.gradient(X, Z, G, *arguments), (D, D, d + 1), strict=True):
            np.testing.assert_array_equal(part, np.zeros(size))


@every_level
@every_base
@pytest.mark.parametrize("bandwidth", [1e-150, 1e-100, 1.0, 1e100])
def test_huge_distances_vanish_without_nan(bandwidth, base, simd):
    D = 3
    X = np.array([[0.0, 1e200, -1e200], [1e200, -1e200, 0.0], [0.0, 1e200, -1e200], [1.7e308, -1.7e308, 1.7e308]])
    arguments = codes([base] * D), np.full(D, bandwidth), np.ones(D), np.array([0.0, 0.5, 1.0, 2.0])
    K = _core.block(X, None, *arguments, 1, simd)
    same = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]) == 1
    np.testing.assert_array_equal(K[same], 0.5 * 3 + 1.0 * 3 + 2.0)
    assert np.all((K[~same] >= 0) & (K[~same] <= naive.BASE_KERNELS[base].far))
    for part in _core.gradient(X, None, np.ones((4, 4)), *arguments, 1, simd):
        assert np.isfinite(part).all()


@every_level
@every_base
@pytest.mark.parametrize("far", [1.0, 1e200, 1.7e308])
def test_infinite_bandwidth_makes_base_kernels_one(far, base, simd):
    """Differences of finite numbers may overflow; base kernels of categories have no bandwidth."""
    X = np.array([[far], [-far], [0.0]])
    arguments = codes([base]), np.array([np.inf]), np.ones(1), one_hot(1)
    K = _core.block(X, None, *arguments, 1, simd)
    np.testing.assert_array_equal(K, np.eye(3) if naive.BASE_KERNELS[base].for_categories else np.ones((3, 3)))
    relevance, log_bandwidth, _ = _core.gradient(X, None, np.ones((3, 3)), *arguments, 1, simd)
    assert relevance == K.sum()
    assert log_bandwidth == 0


@every_level
@every_base
@pytest.mark.parametrize("power", [-490, -300, -1, 1, 300, 490])
def test_units_do_not_matter(power, base, simd):
    """k depends on t / h only: a change of units by a power of two changes nothing."""
    rng = np.random.default_rng(9)
    X, h, unit = rng.normal(size=(5, 1)), np.array([0.8]), 2.0**power
    plain = _core.block(X, None, codes([base]), h, np.ones(1), one_hot(1), 1, simd)
    scaled = _core.block(X * unit, None, codes([base]), h * unit, np.ones(1), one_hot(1), 1, simd)
    np.testing.assert_allclose(scaled, plain, rtol=1e-14)


def test_read_only_arrays_are_accepted_and_results_own_their_memory():
    rng = np.random.default_rng(10)
    X, arguments = rng.normal(size=(4, 2)), kernel_arguments(rng, 2, 2)
    expected = _core.block(X, None, *arguments)
    for array in (X, *arguments):
        array.flags.writeable = False
    K = _core.block(X, None, *arguments)
    np.testing.assert_array_equal(K, expected)
    K[0, 0] = 7.0  # writeable, and nobody else's memory
    np.testing.assert_array_equal(_core.block(X, None, *arguments), expected)


# --- refused input ------------------------------------------------------------------------------------

SHARED = ("base", "bandwidth", "relevance", "weights", "n_threads", "simd")
FUNCTIONS = {
    "block": ("X", "Z", *SHARED),
    "orders": ("X", "Z", *SHARED),
    "product": ("X", "Z", "V", *SHARED),
    "gradient": ("X", "Z", "G", *SHARED),
}


def valid() -> dict:
    rng = np.random.default_rng(11)
    return {
        "X": rng.normal(size=(5, 3)),
        "Z": rng.normal(size=(4, 3)),
        "V": rng.normal(size=(4, 2)),
        "G": rng.normal(size=(5, 4)),
        "base": np.array([0, 1, 2], dtype=np.int8),
        "bandwidth": np.array([1.0, 2.0, np.inf]),
        "relevance": np.array([1.0, 0.0, 2.0]),
        "weights": np.array([0.5, 1.0, 1.0]),
        "n_threads": 1,
        "simd": LEVELS[-1],
    }


def call(function: str, changes: dict):
    arguments = valid() | changes
    return getattr(_core, function)(*(arguments[name] for name in FUNCTIONS[function]))


def functions_with(*names: str) -> list[str]:
    return [function for function, arguments in FUNCTIONS.items() if set(names) <= set(arguments)]


def wrong_types() -> list:
    """One array argument of another type, number of dimensions or memory order than promised."""
    cases = []
    for name, array in valid().items():
        if not isinstance(array, np.ndarray):
            continue
        wide = np.stack([array, array], axis=-1)
        changes = {
            "float32": array.astype(np.float32),
            "int64": np.ones_like(array, dtype=np.int64),
            "complex": array.astype(np.complex128),
            "object": array.astype(object),
            "other endianness": np.ones_like(array, dtype=">f8"),
            "list": array.tolist(),
            "fewer dimensions": array[0],
            "more dimensions": array[..., None],
            "strided": wide[..., 0],
        }
        if array.ndim == 2:
            changes["Fortran order"] = np.asfortranarray(array)
        if name not in ("X", "Z", "V", "G"):
            changes["scalar"] = 1.0
        if name != "Z":  # there it means X with itself
            changes["None"] = None
        cases += [
            pytest.param(function, name, change, id=f"{function} {name}: {what}")
            for what, change in changes.items()
            for function in functions_with(name)
        ]
    return cases


@pytest.mark.parametrize(("function", "name", "value"), wrong_types())
def test_wrong_types_are_refused(function, name, value):
    with pytest.raises(TypeError):
        call(function, {name: value})


WRONG_VALUES = {
    "X without features": {"X": np.empty((5, 0))},
    "X with another D": {"X": np.ones((5, 2))},
    "Z with another D": {"Z": np.ones((4, 2))},
    "base too short": {"base": np.zeros(2, dtype=np.int8)},
    "base too long": {"base": np.zeros(4, dtype=np.int8)},
    "base code too high": {"base": np.array([0, len(BASES), 0], dtype=np.int8)},
    "base code negative": {"base": np.array([0, -1, 0], dtype=np.int8)},
    "bandwidth too short": {"bandwidth": np.ones(2)},
    "bandwidth too long": {"bandwidth": np.ones(4)},
    "bandwidth zero": {"bandwidth": np.array([1.0, 0.0, 1.0])},
    "bandwidth negative": {"bandwidth": np.array([1.0, 1.0, -1.0])},
    "bandwidth NaN": {"bandwidth": np.array([np.nan, 1.0, 1.0])},
    "bandwidth minus infinity": {"bandwidth": np.array([-np.inf, 1.0, 1.0])},
    "bandwidth whose square vanishes": {"bandwidth": np.array([1e-160, 1.0, 1.0])},
    "bandwidth whose square overflows": {"bandwidth": np.array([1e160, 1.0, 1.0])},
    "relevance too short": {"relevance": np.ones(2)},
    "relevance too long": {"relevance": np.ones(4)},
    "relevance NaN": {"relevance": np.array([1.0, np.nan, 1.0])},
    "relevance infinite": {"relevance": np.array([1.0, np.inf, 1.0])},
    "weights of more orders than features": {"weights": np.ones(5)},
    "weights of order 0 only": {"weights": np.ones(1)},
    "no weights": {"weights": np.ones(0)},
    "no threads": {"n_threads": 0},
    "negative threads": {"n_threads": -1},
    "absurdly many threads": {"n_threads": 1_000_000},
    "more threads than an int": {"n_threads": 2**40},
    "half a thread": {"n_threads": 0.5},
    "unknown simd": {"simd": "avx1024"},
    "empty simd": {"simd": ""},
    "simd by number": {"simd": 2},
    "V with too few rows": {"V": np.ones((3, 2))},
    "G transposed": {"G": np.ones((4, 5))},
}


@pytest.mark.parametrize(
    ("function", "change"),
    [
        pytest.param(function, change, id=f"{function}: {what}")
        for what, change in WRONG_VALUES.items()
        for function in functions_with(*change)
    ],
)
def test_wrong_values_are_refused(function, change):
    with pytest.raises((TypeError, ValueError)):
        call(function, change)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_unchanged_arguments_are_accepted(function):
    """Otherwise the refusals above would prove nothing."""
    result = call(function, {})
    assert all(np.isfinite(part).all() for part in (result if isinstance(result, tuple) else [result]))


# --- memory -------------------------------------------------------------------------------------------

MEASURE = """
import numpy as np
from salsa import _core

def status(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))

n, D = 5000, 50
X = np.random.default_rng(0).normal(size=(n, D))
arguments = np.zeros(D, dtype=np.int8), np.full(D, 5.0), np.ones(D), np.eye(6)[5]
before = status("VmRSS:")
{call}
print(max(status("VmHWM:") - before, 0))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
@pytest.mark.parametrize(
    ("call", "least", "most"),
    [
        ("result = _core.block(X, None, *arguments, 2)", 1.0, 1.2),
        ("result = _core.block(X, X, *arguments, 2)", 1.0, 1.2),
        ("result = _core.product(X, X, X[:, :1].copy(), *arguments, 2)", 0.0, 0.2),
    ],
    ids=["symmetric block", "block", "product"],
)
def test_peak_memory_is_that_of_the_result(call, least, most):
    """The unit is a 5000 x 5000 block of 200 MB: a block needs little more than itself, a product needs no block."""
    run = subprocess.run([sys.executable, "-c", MEASURE.format(call=call)], capture_output=True, text=True, check=True)
    blocks = int(run.stdout) / (8 * 5000**2)
    assert least - 0.05 <= blocks <= most
