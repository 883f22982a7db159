"""AdditiveKernel: identities first, then the naive twin, the constructor's refusals, and the paper's bandwidth."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from math import comb

import mpmath
import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa import _core
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.kernels.base import BASE_KERNELS, NUMERIC_BASES
from salsa.kernels.symmetric import elementary_symmetric

FLOOR = 1e-290  # base kernels end near 1e-301 instead of zero


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_subnormal=False)


RELEVANCES = numbers(0.0, 3.0)


def vector(length: int, elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=length, max_size=length).map(np.array)


@st.composite
def kernels(draw, bases=naive.BASES, relevances=RELEVANCES) -> AdditiveKernel:
    """Any kernel of up to six features, with a base kernel for each."""
    D = draw(st.integers(1, 6))
    d = draw(st.integers(1, D))
    return AdditiveKernel(
        draw(vector(D, numbers(0.1, 20.0))),
        draw(vector(D, relevances)),
        draw(vector(d + 1, numbers(0.0, 2.0))),
        tuple(draw(st.sampled_from(bases)) for _ in range(D)),
    )


@st.composite
def rows(draw, D: int, max_rows: int = 7) -> np.ndarray:
    """Rows on a coarse grid: equal values, duplicate rows and constant columns are common."""
    n = draw(st.integers(1, max_rows))
    return draw(vector(n * D, st.integers(-8, 8).map(lambda k: k / 4))).reshape(n, D)


def one_hot(d: int) -> np.ndarray:
    """Order weights (d+1,) of order d alone."""
    return np.eye(d + 1)[d]


def naive_kernel(kernel: AdditiveKernel, X, Z) -> np.ndarray:
    return naive.additive_kernel(X, Z, kernel.bandwidth, kernel.relevance, kernel.order_weights, kernel.base)


def assert_close(actual, expected, rtol=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=FLOOR)


# --- identities ---------------------------------------------------------------------------------------


@given(st.data())
def test_kernel_is_the_weighted_mean_of_products_over_subsets(data):
    kernel = data.draw(kernels())
    X, Z = data.draw(rows(kernel.n_features)), data.draw(rows(kernel.n_features))
    assert_close(kernel(X, Z), naive_kernel(kernel, X, Z))
    assert_close(kernel(X), naive_kernel(kernel, X, X))


@given(st.data())
def test_the_order_of_features_does_not_matter(data):
    kernel = data.draw(kernels())
    X, Z = data.draw(rows(kernel.n_features)), data.draw(rows(kernel.n_features))
    p = data.draw(st.permutations(range(kernel.n_features)))
    shuffled = replace(
        kernel,
        bandwidth=kernel.bandwidth[p],
        relevance=kernel.relevance[p],
        base=tuple(kernel.base[j] for j in p),
    )
    assert_close(shuffled(X[:, p], Z[:, p]), kernel(X, Z))


@given(st.data(), numbers(0.1, 10.0))
def test_order_d_is_homogeneous_of_degree_d_in_the_relevances(data, c):
    """The identity is e_d(c s) = c^d e_d(s)."""
    kernel = data.draw(kernels())
    kernel = replace(kernel, order_weights=one_hot(kernel.order))
    X = data.draw(rows(kernel.n_features))
    assert_close(replace(kernel, relevance=c * kernel.relevance)(X), c**kernel.order * kernel(X))


@given(st.data())
def test_all_orders_together_are_a_product(data):
    """The identity is sum_m e_m(s) = prod_j (1 + s_j); order weights C(D, m) undo the normalisation."""
    kernel = data.draw(kernels())
    D = kernel.n_features
    X, Z = data.draw(rows(D)), data.draw(rows(D))
    kernel = replace(kernel, order_weights=[comb(D, m) for m in range(D + 1)])
    s = naive.scaled_bases(X, Z, kernel.bandwidth, kernel.relevance, kernel.base)
    assert_close(kernel(X, Z), np.prod(1 + s, axis=0))


@given(st.data())
def test_the_diagonal_with_relevance_one_is_the_sum_of_the_order_weights(data):
    kernel = data.draw(kernels(relevances=st.just(1.0)))
    X = data.draw(rows(kernel.n_features))
    assert_close(np.diag(kernel(X)), np.full(len(X), kernel.order_weights.sum()))


@given(st.data())
def test_diagonal_is_the_diagonal(data):
    kernel = data.draw(kernels())
    X = data.draw(rows(kernel.n_features))
    assert kernel.diagonal(X).shape == (len(X),)
    assert_close(kernel.diagonal(X), np.diag(kernel(X)))


@given(st.data())
def test_kernel_is_positive_semi_definite(data):
    """Duplicate rows and constant columns are included."""
    kernel = data.draw(kernels(relevances=numbers(0.0, 1.0)))
    X = data.draw(rows(kernel.n_features, max_rows=12))
    X = np.vstack([X, X[: data.draw(st.integers(0, len(X)))]])
    if data.draw(st.booleans()):
        X[:, 0] = 1.5
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-10


@given(st.data())
def test_the_full_order_of_gaussians_is_one_gaussian(data):
    """The identity is prod_j exp(-t_j^2 / (2 h_j^2)) = exp(-sum_j (t_j / h_j)^2 / 2)."""
    kernel = data.draw(kernels(bases=("gaussian",), relevances=st.just(1.0)))
    D = kernel.n_features
    X, Z = data.draw(rows(D)), data.draw(rows(D))
    squares = np.sum(((X[:, None] - Z[None]) / kernel.bandwidth) ** 2, axis=2)
    assert_close(replace(kernel, order_weights=one_hot(D))(X, Z), np.exp(-squares / 2))


@given(st.data())
def test_order_1_is_the_mean_of_the_base_kernels(data):
    kernel = data.draw(kernels(relevances=st.just(1.0)))
    D = kernel.n_features
    X, Z = data.draw(rows(D)), data.draw(rows(D))
    bases = [naive.base_kernel(kernel.base[j], X[:, [j]] - Z[:, j], kernel.bandwidth[j]) for j in range(D)]
    assert_close(replace(kernel, order_weights=[0.0, 1.0])(X, Z), np.mean(bases, axis=0))


@given(st.data())
def test_features_without_relevance_can_be_dropped(data):
    """Values and bandwidths of irrelevant features change nothing; C(D, m) still counts them."""
    kernel = data.draw(kernels(relevances=st.sampled_from([0.0, 0.0, 0.7, 1.3])))
    D, d = kernel.n_features, kernel.order
    X, Z = data.draw(rows(D)), data.draw(rows(D))
    keep = np.flatnonzero(kernel.relevance)
    if len(keep) == 0:
        expected = np.full((len(X), len(Z)), kernel.order_weights[0])
    else:
        top = min(d, len(keep))
        share = np.array([comb(len(keep), m) / comb(D, m) for m in range(top + 1)])
        small = AdditiveKernel(
            kernel.bandwidth[keep],
            kernel.relevance[keep],
            kernel.order_weights[: top + 1] * share,
            tuple(kernel.base[j] for j in keep),
        )
        expected = small(X[:, keep], Z[:, keep])
    assert_close(kernel(X, Z), expected)
    V = np.arange(1.0, len(Z) + 1)
    assert_close(kernel.product(X, Z, V), expected @ V)


@given(st.data())
def test_kernels_are_weighted_sums_of_kernels_of_single_orders(data):
    kernel = data.draw(kernels())
    D, d = kernel.n_features, kernel.order
    X, Z = data.draw(rows(D)), data.draw(rows(D))
    singles = [replace(kernel, order_weights=weights) for weights in np.eye(d + 1)]
    for single in singles:
        assert_close(single(X, Z), naive_kernel(single, X, Z))
    assert_close(kernel(X, Z), np.tensordot(kernel.order_weights, [single(X, Z) for single in singles], axes=1))


@given(st.data(), st.sampled_from([(), (1,), (3,)]))
def test_product_is_the_kernel_times_vectors(data, tail):
    kernel = data.draw(kernels())
    X, Z = data.draw(rows(kernel.n_features)), data.draw(rows(kernel.n_features))
    V = np.random.default_rng(0).uniform(0.5, 1.5, (len(Z), *tail))
    product = kernel.product(X, Z, V)
    assert product.shape == (len(X), *tail)
    assert_close(product, naive_kernel(kernel, X, Z) @ V)


@given(st.data())
def test_gradient_agrees_with_finite_differences(data):
    kernel = data.draw(kernels())
    kernel = replace(kernel, bandwidth=0.5 + kernel.bandwidth)
    X, Z = data.draw(rows(kernel.n_features)), data.draw(rows(kernel.n_features))
    rng = np.random.default_rng(0)
    assert_gradient_close(kernel, X, rng.normal(size=(len(X), len(Z))), Z)
    assert_gradient_close(kernel, X, rng.normal(size=(len(X), len(X))), None)


def assert_gradient_close(kernel, X, G, Z):
    """Compare kernel.gradient with finite differences of sum(G * K) in every parameter."""
    ours = kernel.gradient(X, G, Z)
    parameters = {name: getattr(kernel, name) for name in ours._fields}
    scale = 1.0 + np.abs(G).sum() * kernel.diagonal(X)[0]
    for name, values in parameters.items():

        def loss(values, name=name):
            return np.sum(
                G * naive.additive_kernel(X, X if Z is None else Z, **parameters | {name: values}, base=kernel.base)
            )

        expected = naive.finite_difference(loss, values)
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=1e-7, atol=1e-8 * scale, err_msg=name)


@given(st.data())
def test_gradient_can_skip_parameters_that_are_zero(data):
    kernel = data.draw(kernels())
    lowest = data.draw(st.integers(0, kernel.order))
    weights = np.where(np.arange(kernel.order + 1) < lowest, 0.0, 0.5 + kernel.order_weights)
    present = np.array(data.draw(st.lists(st.booleans(), min_size=kernel.n_features, max_size=kernel.n_features)))
    kernel = replace(kernel, order_weights=weights, relevance=np.where(present, 0.5 + kernel.relevance, 0.0))
    X = data.draw(rows(kernel.n_features))
    G = np.random.default_rng(0).normal(size=(len(X), len(X)))
    every, some = (kernel.gradient(X, G, of_zeros=of_zeros) for of_zeros in (True, False))
    np.testing.assert_allclose(some.relevance[present], every.relevance[present], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(some.bandwidth, every.bandwidth, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(some.order_weights[lowest:], every.order_weights[lowest:], rtol=1e-12, atol=1e-12)
    left_out = some.order_weights == 0
    np.testing.assert_allclose(some.order_weights[~left_out], every.order_weights[~left_out], rtol=1e-12, atol=1e-12)
    assert left_out[: min(lowest, present.sum())].all()


# --- ordinary cases -----------------------------------------------------------------------------------


def test_core_and_naive_twins_have_the_base_kernels_of_the_table():
    assert list(BASE_KERNELS) == _core.base_kernels() == list(naive.BASES)
    assert NUMERIC_BASES == naive.NUMERIC_BASES


@pytest.mark.parametrize("base", NUMERIC_BASES)
def test_curves_are_as_smooth_as_the_table_says(base):
    """A process has s derivatives if its kernel has 2s at 0: the first odd derivative there that is not 0 is 2s + 1."""
    with mpmath.workdps(60):
        odd = [1, 3, 5, 7, 9]
        found = [mpmath.diff(lambda t: naive.base_kernel(base, t, 1, mpmath), 0, n, direction=1) for n in odd]
        kinks = [n for n, derivative in zip(odd, found, strict=True) if abs(derivative) > 1e-6]
    assert BASE_KERNELS[base].smoothness == ((kinks[0] - 1) / 2 if kinks else np.inf)


@pytest.mark.parametrize("base", naive.BASES)
def test_one_name_means_the_same_base_kernel_for_every_feature(base):
    X = np.random.default_rng(0).integers(-2, 3, (6, 3)).astype(float)
    parameters = [0.5, 1.0, 2.0], [1.0, 0.5, 2.0], [0.1, 0.2, 0.3]
    K = AdditiveKernel(*parameters, base)(X)
    np.testing.assert_array_equal(K, AdditiveKernel(*parameters, [base] * 3)(X))
    assert_close(K, naive.additive_kernel(X, X, *parameters, base))


def test_mixed_base_kernels_equal_a_sum_by_hand():
    """Order 2 of three features: the mean of the three pairs."""
    kernel = AdditiveKernel([2.0, 3.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], ("gaussian", "laplace", "equality"))
    x, z = [[1.0, 5.0, 7.0]], [[2.0, 4.0, 7.0]]
    a, b, c = np.exp(-1 / 8), np.exp(-1 / 3), 1.0
    assert_close(kernel(x, z), [[(a * b + a * c + b * c) / 3]], rtol=1e-15)


def test_no_relevant_feature_leaves_the_constant():
    kernel = AdditiveKernel(np.ones(3), np.zeros(3), [0.25, 1.0, 1.0])
    rng = np.random.default_rng(0)
    X, Z, V = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.uniform(size=(4, 2))
    np.testing.assert_array_equal(kernel(X), np.full((4, 4), 0.25))
    np.testing.assert_array_equal(kernel(X[:2], Z), np.full((2, 4), 0.25))
    np.testing.assert_array_equal(kernel.diagonal(X), np.full(4, 0.25))
    assert_close(kernel.product(X[:3], Z, V), np.full((3, 2), 0.25) * V.sum(axis=0))
    gradient = kernel.gradient(X, np.ones((4, 4)))
    s = naive.scaled_bases(X, X, np.ones(3), np.ones(3))
    assert_close(gradient.relevance, s.sum(axis=(1, 2)) / 3)
    np.testing.assert_array_equal(gradient.bandwidth, 0.0)
    np.testing.assert_array_equal(gradient.order_weights, [16.0, 0.0, 0.0])


def test_infinite_bandwidth_makes_a_feature_constant():
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(5, 2)), rng.normal(size=(5, 5))
    kernel = AdditiveKernel([np.inf, 1.0], [1.0, 1.0], one_hot(2))
    np.testing.assert_allclose(kernel(X), AdditiveKernel([1.0], [1.0], one_hot(1))(X[:, 1:]), rtol=1e-15)
    gradient = kernel.gradient(X, G)
    assert gradient.bandwidth[0] == 0.0
    assert np.isfinite(np.concatenate(gradient)).all()


@pytest.mark.parametrize("n_threads", [None, 1, 2, 3])
def test_threads_do_not_change_the_bits(n_threads):
    rng = np.random.default_rng(0)
    X, V, G = rng.normal(size=(500, 20)), rng.normal(size=(500, 2)), rng.normal(size=(500, 500))
    kernel = AdditiveKernel(np.full(20, 3.0), np.ones(20), np.ones(4))
    np.testing.assert_array_equal(kernel(X, n_threads=n_threads), kernel(X, n_threads=1))
    np.testing.assert_array_equal(kernel.product(X, X, V, n_threads=n_threads), kernel.product(X, X, V, n_threads=1))
    for ours, reference in zip(
        kernel.gradient(X, G, n_threads=n_threads), kernel.gradient(X, G, n_threads=1), strict=True
    ):
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("relevance", [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
def test_tables_without_rows_give_empty_results(relevance):
    kernel = AdditiveKernel([1.0, 1.0], relevance, [0.5, 1.0, 1.0])
    some, none = np.ones((3, 2)), np.empty((0, 2))
    assert kernel(none).shape == (0, 0)
    assert kernel(none, some).shape == (0, 3)
    assert kernel(some, none).shape == (3, 0)
    assert kernel.diagonal(none).shape == (0,)
    assert kernel.product(none, some, np.ones((3, 2))).shape == (0, 2)
    assert kernel.product(none, some, np.ones(3)).shape == (0,)
    np.testing.assert_array_equal(kernel.product(some, none, np.empty(0)), np.zeros(3))
    np.testing.assert_array_equal(kernel.product(some, none, np.empty((0, 2))), np.zeros((3, 2)))
    for part in kernel.gradient(none, np.empty((0, 3)), some):
        np.testing.assert_array_equal(part, 0.0)


@pytest.mark.parametrize("kind", ["list", "integers", "float32", "Fortran order", "strided", "read-only"])
def test_any_table_of_numbers_is_accepted(kind):
    X = np.random.default_rng(0).integers(-3, 4, (5, 2)).astype(float)
    read_only = X.copy()
    read_only.flags.writeable = False
    table = {
        "list": X.tolist(),
        "integers": X.astype(int),
        "float32": X.astype(np.float32),
        "Fortran order": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "read-only": read_only,
    }[kind]
    kernel = AdditiveKernel([1.0, 2.0], [1.0, 1.0], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(kernel(table), kernel(X))
    np.testing.assert_array_equal(kernel(X, table), kernel(X))
    np.testing.assert_array_equal(kernel.product(table, table, np.ones(5)), kernel.product(X, X, np.ones(5)))


def test_elementary_symmetric_numbers_are_exact_enough():
    s = np.random.default_rng(0).uniform(0.0, 3.0, 40)
    exact = naive.exact_elementary_symmetric(s, 40)
    ours = elementary_symmetric(s, 40)
    assert max(abs(Fraction(a) / b - 1) for a, b in zip(ours, exact, strict=True)) < 1e-14


# --- an immutable value -------------------------------------------------------------------------------


def example() -> AdditiveKernel:
    return AdditiveKernel([1.0, 2.0], [1.0, 0.5], [0.0, 1.0, 1.0], ["gaussian", "laplace"])


def test_kernel_reports_its_features_and_order():
    assert example().n_features == 2
    assert example().order == 2
    assert example().base == ("gaussian", "laplace")


@pytest.mark.parametrize("name", ["bandwidth", "relevance", "order_weights"])
def test_kernel_is_immutable(name):
    kernel = example()
    with pytest.raises(FrozenInstanceError):
        setattr(kernel, name, np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        getattr(kernel, name)[0] = 7.0


@pytest.mark.parametrize("name", ["bandwidth", "relevance", "order_weights"])
def test_changing_the_callers_arrays_does_not_change_the_kernel(name):
    arrays = {"bandwidth": np.ones(2), "relevance": np.ones(2), "order_weights": np.array([0.0, 1.0])}
    kernel = AdditiveKernel(**arrays)
    X = np.random.default_rng(0).normal(size=(3, 2))
    before = kernel(X)
    arrays[name][1] = 5.0  # still writeable
    np.testing.assert_array_equal(kernel(X), before)


def pickled(kernel: AdditiveKernel) -> AdditiveKernel:
    return pickle.loads(pickle.dumps(kernel))


@pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])
def test_copies_and_pickles_are_the_same_immutable_kernel(duplicate):
    kernel = example()
    twin = duplicate(kernel)
    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(twin(X), kernel(X))
    assert twin.base == kernel.base
    for name in ("bandwidth", "relevance", "order_weights"):
        assert not getattr(twin, name).flags.writeable, name


# --- refusals -----------------------------------------------------------------------------------------

GOOD = {"bandwidth": [1.0, 1.0], "relevance": [1.0, 1.0], "order_weights": [0.0, 1.0, 1.0], "base": "gaussian"}
REFUSED = {
    "no features": ({"bandwidth": [], "relevance": []}, "one of each per feature"),
    "another number of relevances": ({"relevance": [1.0]}, "one of each per feature"),
    "another number of bandwidths": ({"bandwidth": [1.0] * 3}, "one of each per feature"),
    "order 0": ({"order_weights": [1.0]}, "order_weights"),
    "no order weights": ({"order_weights": []}, "order_weights"),
    "order above D": ({"order_weights": [1.0] * 4}, "1 <= d <= 2"),
    "zero bandwidth": ({"bandwidth": [0.0, 1.0]}, "bandwidth must be positive"),
    "negative bandwidth": ({"bandwidth": [1.0, -1.0]}, "bandwidth must be positive"),
    "NaN bandwidth": ({"bandwidth": [np.nan, 1.0]}, "bandwidth must be positive"),
    "bandwidth whose square vanishes": ({"bandwidth": [1e-160, 1.0]}, "between 1e-150 and 1e150"),
    "bandwidth whose square overflows": ({"bandwidth": [1e160, 1.0]}, "between 1e-150 and 1e150"),
    "negative relevance": ({"relevance": [-0.1, 1.0]}, "relevance must be finite and not negative"),
    "NaN relevance": ({"relevance": [np.nan, 1.0]}, "relevance must be finite and not negative"),
    "infinite relevance": ({"relevance": [np.inf, 1.0]}, "relevance must be finite and not negative"),
    "negative order weight": ({"order_weights": [0.0, -1.0, 1.0]}, "order_weights must be finite and not negative"),
    "NaN order weight": ({"order_weights": [0.0, np.nan]}, "order_weights must be finite and not negative"),
    "infinite order weight": ({"order_weights": [0.0, np.inf]}, "order_weights must be finite and not negative"),
    "scalar bandwidth": ({"bandwidth": 1.0}, "bandwidth must be one-dimensional"),
    "matrix of relevances": ({"relevance": [[1.0, 1.0]]}, "relevance must be one-dimensional"),
    "matrix of order weights": ({"order_weights": [[0.0, 1.0]]}, "order_weights must be one-dimensional"),
    "unknown base kernel": ({"base": "cubic"}, "unknown base kernel 'cubic'; choose from gaussian, laplace"),
    "one unknown base kernel": ({"base": ["gaussian", "cubic"]}, "unknown base kernel 'cubic'"),
    "another number of base kernels": ({"base": ["gaussian"]}, "base has 1 names for 2 features"),
    "overflowing relevances": ({"relevance": [1e200, 1e200]}, "overflows float64 at order 2 of 2 features"),
    "overflowing order weights": ({"order_weights": [1.7e308, 1.7e308]}, "overflows float64"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_parameters_are_refused(change, message):
    AdditiveKernel(**GOOD)  # otherwise a refusal would prove nothing
    with pytest.raises(ValueError, match=message):
        AdditiveKernel(**(GOOD | change))


def test_too_many_subsets_for_float64_are_refused():
    D, d = 2000, 1000
    with pytest.raises(
        ValueError, match="the kernel overflows float64 at order 1000 of 2000 features: lower the order"
    ):
        AdditiveKernel(np.ones(D), np.ones(D), one_hot(d))


@pytest.mark.parametrize(
    ("D", "d", "relevance"), [(100, 50, 0.9), (1000, 500, 0.9), (1029, 514, 1.0), (1040, 520, 0.98)]
)
def test_many_subsets_are_refused_or_right(D, d, relevance):
    """Equal relevances a give a diagonal of a^d, even where the number of subsets leaves the range of float64."""
    try:
        kernel = AdditiveKernel(np.ones(D), np.full(D, relevance), one_hot(d))
    except ValueError as refusal:
        assert "overflows" in str(refusal)  # noqa: PT017  either outcome is fine
        return
    assert_close(kernel(np.zeros((1, D))), [[relevance**d]], rtol=1e-11)


METHODS = {
    "call": lambda kernel, X: kernel(X),
    "call with Z": lambda kernel, X: kernel(np.ones((3, 2)), X),
    "product": lambda kernel, X: kernel.product(X, np.ones((3, 2)), np.ones(3)),
    "product with Z": lambda kernel, X: kernel.product(np.ones((3, 2)), X, np.ones(3)),
    "diagonal": lambda kernel, X: kernel.diagonal(X),
    "gradient": lambda kernel, X: kernel.gradient(X, np.ones((3, 3))),
    "gradient with Z": lambda kernel, X: kernel.gradient(np.ones((3, 2)), np.ones((3, 3)), X),
}
BAD_ROWS = {
    "NaN": ([[1.0, np.nan]] * 3, "NaN"),
    "infinity": ([[1.0, np.inf]] * 3, "infinity"),
    "too few features": (np.ones((3, 1)), "X has 1 features, this kernel has 2"),
    "too many features": (np.ones((3, 3)), "X has 3 features, this kernel has 2"),
    "one dimension": (np.ones(2), "2D array"),
    "three dimensions": (np.ones((3, 2, 1)), "dim 3"),
    "words": ([["a", "b"]] * 3, "could not convert"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(("X", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_wrong_rows_are_refused(X, message, method):
    method(example(), np.ones((3, 2)))
    with pytest.raises(ValueError, match=message):
        method(example(), X)


@pytest.mark.parametrize("relevance", [[1.0, 1.0], [0.0, 0.0]])
def test_vectors_of_another_length_are_refused(relevance):
    kernel = AdditiveKernel([1.0, 1.0], relevance, [0.0, 1.0, 1.0])
    X, Z = np.ones((3, 2)), np.ones((4, 2))
    for V in (np.ones(3), np.ones((5, 2)), np.ones((2, 2)), np.ones(8)):
        with pytest.raises(ValueError, match="one row of V per row of Z"):
            kernel.product(X, Z, V)
    for G in (np.ones((3, 4)), np.ones((4, 4))):
        with pytest.raises(ValueError, match="G"):
            kernel.gradient(X, G)


# --- the paper's bandwidth ----------------------------------------------------------------------------


@pytest.mark.parametrize("c", [None, 1.0, 20.0, 5.5])
def test_rule_of_thumb_is_c_sd_n_to_the_minus_a_fifth(c):
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 1e-6] + [0.0, 100.0, 1e-6]
    expected = (20.0 if c is None else c) * X.std(axis=0, ddof=1) * 40 ** (-1 / 5)
    np.testing.assert_allclose(
        rule_of_thumb_bandwidth(X) if c is None else rule_of_thumb_bandwidth(X, c), expected, rtol=1e-12
    )


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -1e-300])
def test_rule_of_thumb_of_a_constant_column_is_infinite(value):
    X = np.column_stack([np.full(7, value), np.arange(7.0)])
    h = rule_of_thumb_bandwidth(X)
    assert h[0] == np.inf
    assert np.isfinite(h[1])
    assert rule_of_thumb_bandwidth(X, sample_weight=np.linspace(0.1, 2.0, 7))[0] == np.inf


def test_rule_of_thumb_of_one_row_is_infinite():
    np.testing.assert_array_equal(rule_of_thumb_bandwidth([[1.0, 2.0]]), [np.inf, np.inf])
    np.testing.assert_array_equal(rule_of_thumb_bandwidth([[1.0, 2.0]], sample_weight=[3.0]), [np.inf, np.inf])


@given(st.data())
def test_integer_weights_are_repeated_rows(data):
    X = data.draw(rows(2, max_rows=8))
    weight = data.draw(st.lists(st.integers(0, 4), min_size=len(X), max_size=len(X)).filter(any).map(np.array))
    repeated = np.repeat(X, weight, axis=0)
    np.testing.assert_allclose(
        rule_of_thumb_bandwidth(X, sample_weight=weight), rule_of_thumb_bandwidth(repeated), rtol=1e-12
    )


def test_weight_zero_removes_a_row():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(10, 2)), rng.uniform(0.5, 2.0, 10)
    weight[[2, 5]] = 0.0
    X[[2, 5]] = 1e6
    keep = weight > 0
    with_zeros = rule_of_thumb_bandwidth(X, sample_weight=weight)
    np.testing.assert_array_equal(with_zeros, rule_of_thumb_bandwidth(X[keep], sample_weight=weight[keep]))
    assert with_zeros.max() < 100


@pytest.mark.parametrize("weight", [1e-6, 0.1, 0.5])
def test_small_fractional_weights_stay_positive(weight):
    h = rule_of_thumb_bandwidth([[0.0], [1.0]], sample_weight=[weight, weight])
    assert np.isfinite(h).all()
    assert (h > 0).all()


@pytest.mark.parametrize("unit", [2.0**-600, 2.0**-400, 2.0**400, 2.0**600], ids=["1e-180", "1e-120", "1e120", "1e180"])
def test_rule_of_thumb_is_in_the_units_of_the_column(unit):
    X = np.array([[0.0], [1.0], [3.0]])
    np.testing.assert_allclose(rule_of_thumb_bandwidth(X * unit), rule_of_thumb_bandwidth(X) * unit, rtol=1e-14)


@pytest.mark.parametrize("X", [[[-np.inf], [1.0]], [[np.inf], [1.0]], [1.0, 2.0]])
def test_rule_of_thumb_refuses_other_objects_than_tables_of_numbers(X):
    with pytest.raises(ValueError, match=r"NaN|infinity|2D"):
        rule_of_thumb_bandwidth(X)
