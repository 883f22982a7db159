"""Routines of LAPACK that can be interrupted."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpotrf, dpotri

from salsa._utils import blas, lapack, linalg
from salsa._utils.blas import one_blas_thread
from salsa._utils.lapack import gram, triangular_product, triangular_solve


def positive(n, seed=0):
    F = np.random.default_rng(seed).normal(size=(n, n))
    return np.asfortranarray(F @ F.T + np.eye(n))


@pytest.mark.parametrize("n", [2, 3, 50, 300])
class TestBits:
    def test_eigenvectors_have_the_bits_of_scipy(self, n):
        with one_blas_thread():
            values, Q = eigh(positive(n), driver="evd")
            found = positive(n)
            np.testing.assert_array_equal(lapack.eigen(found), values)
        np.testing.assert_array_equal(found, Q)

    def test_factors_and_inverses_have_the_bits_of_scipy(self, n):
        with one_blas_thread():
            L, found = dpotrf(positive(n), lower=1)[0], positive(n)
            assert lapack.cholesky(found) == 0
            np.testing.assert_array_equal(found, L)
            lapack.inverse_of_factor(found)
            np.testing.assert_array_equal(found, dpotri(L, lower=1)[0])

    def test_large_matrices_are_computed_alike(self, n, monkeypatch):
        A, C = positive(n), np.ascontiguousarray(positive(n))
        small = linalg.symmetric_eigen(A), linalg.symmetric_eigen(C), linalg.positive_factor(C.copy())
        monkeypatch.setattr(linalg, "LARGE", 1)
        large = linalg.symmetric_eigen(A), linalg.symmetric_eigen(C), linalg.positive_factor(C.copy())
        for one, other in zip(small, large, strict=True):
            np.testing.assert_array_equal(np.vstack(one), np.vstack(other))
        np.testing.assert_array_equal(A, positive(n))


def test_failures_are_reported(monkeypatch):
    assert lapack.cholesky(np.asfortranarray([[1.0, 0.0], [0.0, -1.0]])) == 2
    numbers = iter([0, 3])  # of the question for the workspace, and of the call

    def failing(A, values, work, size, others, count):
        work[0], others[0] = 1, 1
        return next(numbers)

    monkeypatch.setattr(lapack, "_evd", failing)
    with pytest.raises(LinAlgError, match="2 x 2 matrix: dsyevd returned 3"):
        lapack.eigen(positive(2))


@pytest.fixture
def heard():
    """Let SIGINT raise KeyboardInterrupt, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def within_a_minute(true):
    """Wait until true() holds, and return whether it did within a minute."""
    deadline = time.monotonic() + 60
    while not (held := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return held


@pytest.mark.usefixtures("heard")
def test_a_long_call_is_interrupted_at_once():
    over = threading.Event()
    striker = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the timer must run
        striker.start()
        lapack.interruptible(lambda: over.wait(5))
    assert time.perf_counter() - begin < 2
    over.set()


def blas_threads():
    return [library.num_threads for library in blas._libraries()]


@pytest.fixture
def two_blas_threads():
    """Give BLAS two threads, when no call that another test interrupted limits them any more."""
    assert within_a_minute(lambda: blas._limit.users == 0)
    before = blas_threads()
    for library in blas._libraries():
        library.set_num_threads(2)
    yield
    for library, count in zip(blas._libraries(), before, strict=True):
        library.set_num_threads(count)


@pytest.mark.usefixtures("heard", "two_blas_threads")
def test_an_interrupted_call_has_one_blas_thread_until_its_end():
    """OpenBLAS waits for ever, at the end of the process, for threads that get work while they are stopped."""
    before, over = blas_threads(), threading.Event()
    striker = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), one_blas_thread():  # noqa: PT012  the timer must run
        striker.start()
        lapack.interruptible(lambda: over.wait(60))
    assert set(blas_threads()) == {1}
    over.set()
    assert within_a_minute(lambda: blas_threads() == before)


@pytest.mark.parametrize("number", [np.float32, np.float64])
class TestProducts:
    """Products of triangular matrices and of blocks, for many threads at once."""

    def parts(self, number, n=37, m=53):
        rng = np.random.default_rng(0)
        L = np.asfortranarray(np.tril(rng.normal(size=(n, n))) + n * np.eye(n), dtype=number)
        return L, np.asfortranarray(rng.normal(size=(n, m)), dtype=number), 1e-5 if number is np.float32 else 1e-13

    def test_triangular_products_and_solves_overwrite_their_argument(self, number):
        L, B, tolerance = self.parts(number)
        product = triangular_product(L, B.copy(order="F"))
        np.testing.assert_allclose(product, L.astype(float) @ B, rtol=tolerance, atol=tolerance)
        other = triangular_product(L, B.copy(order="F"), transposed=True)
        np.testing.assert_allclose(other, L.T.astype(float) @ B, rtol=tolerance, atol=tolerance)
        solved = triangular_solve(L, product)
        assert solved is product
        assert solved.dtype == number
        np.testing.assert_allclose(solved, B, atol=tolerance)

    def test_gram_matrices_are_lower_triangles(self, number):
        _, B, tolerance = self.parts(number)
        found = gram(B)
        np.testing.assert_allclose(found, np.tril(B.astype(float) @ B.T), atol=100 * tolerance)
        assert not gram(B[:, :0]).any()

    def test_other_orders_of_memory_are_refused(self, number):
        _, B, _ = self.parts(number)
        with pytest.raises(AssertionError):
            gram(np.ascontiguousarray(B))
