"""Loops with prepared anchors: the bits of the plain loops, and of every row by itself."""

import numpy as np
import pytest

from salsa import AdditiveKernel, SumKernel
from salsa.kernels.marginals import distribution_of
from salsa.kernels.pair_loops import MOST_PREPARED, Anchored

RNG = np.random.default_rng(0)
Z, V = RNG.normal(size=(37, 5)), RNG.normal(size=(37, 2))
X = RNG.normal(size=(23, 5))
MISSING = np.where(RNG.uniform(size=X.shape) < 0.3, np.nan, X)
DISTRIBUTIONS = tuple(distribution_of(z, np.ones(len(z))) for z in Z.T)


def kernel_of(*features, order_weights, base="matern52"):
    relevance = np.isin(np.arange(5), features).astype(float)
    return AdditiveKernel(np.full(5, 1.3), relevance, order_weights, base, DISTRIBUTIONS)


SUM = SumKernel(
    [
        kernel_of(0, 1, 2, 3, order_weights=[0, 1, 1]),
        kernel_of(0, 1, 2, order_weights=[0, 0, 0, 1]),  # products have a loop of their own
        kernel_of(2, 3, order_weights=[0, 0, 1], base="laplace"),
    ]
)
CIRCLES = ("cyclic_matern52", "matern52", "cyclic_matern52", "cyclic_laplace", "gaussian")
KERNELS = {
    "sum": SUM,
    "product": SUM.terms[1],
    "orders": SUM.terms[0],
    "circles": kernel_of(0, 1, 2, 3, order_weights=[0, 1, 1], base=CIRCLES),
    "constant": kernel_of(order_weights=[2, 1]),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


def test_rows_without_missing_values_have_the_bits_of_the_plain_loops(kernel):
    anchored = Anchored(kernel.terms, Z)
    np.testing.assert_array_equal(anchored.block(X, 1), kernel(X, Z))
    np.testing.assert_array_equal(anchored.product(X, V, 1), kernel.product(X, Z, V))


@pytest.mark.parametrize(
    "anchors", [Z, np.where(RNG.uniform(size=Z.shape) < 0.02, np.nan, Z)], ids=["whole", "missing"]
)
def test_every_row_has_the_bits_of_the_plain_loops_for_this_row_alone(kernel, anchors):
    anchored = Anchored(kernel.terms, anchors)
    alone = [kernel(row, anchors) for row in MISSING[:, None]]
    np.testing.assert_array_equal(anchored.block(MISSING, 1), np.concatenate(alone))
    alone = [kernel.product(row, anchors, V) for row in MISSING[:, None]]
    np.testing.assert_array_equal(anchored.product(MISSING, V, 1), np.concatenate(alone))


def test_only_some_patterns_of_missing_values_are_kept():
    anchored = Anchored(SUM.terms, Z)
    for row in MISSING[:, None]:
        np.testing.assert_array_equal(anchored.block(row, 1), SUM(row, Z))
    assert len(anchored._prepared) <= MOST_PREPARED
