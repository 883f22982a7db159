"""Answers for a row do not depend on the rows beside it, to the last bit, on any BLAS and any instruction set."""

import platform

import children
import numpy as np
import pytest

from salsa import SalsaRegressor, _core
from salsa._utils import memory
from salsa._utils.rowwise import dot_rows, solve_rows, times_rows

LEVELS = _core.simd_levels()
SIZES = (1, 5, 15, 16, 17, 48, 49, 100)  # unknowns are found in blocks of 16, products in blocks of 48 and 64
COUNTS = (1, 2, 7, 8, 9, 31, 32, 33, 70)  # rows stand side by side in lanes, 8 to 32 at a time

every_level = pytest.mark.parametrize("simd", LEVELS)


def triangle(rng, n):
    """Lower triangular L (n, n), in LAPACK's order."""
    return np.asfortranarray(np.tril(0.3 * rng.normal(size=(n, n))) + 2 * np.eye(n))


# --- the linear algebra -------------------------------------------------------------------------------


@every_level
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_solve_agrees_with_numpy_and_every_row_with_itself_alone(n, backward, simd):
    rng = np.random.default_rng(n)
    L = triangle(rng, n)
    for m in COUNTS:
        B = rng.normal(size=(m, n))
        X = B.copy()
        _core.solve(L.T, X, backward, 2, simd)
        np.testing.assert_allclose(X, np.linalg.solve(L.T if backward else L, B.T).T, rtol=1e-9, atol=1e-11)
        for row, x in zip(B, X, strict=True):
            alone = row[None].copy()
            _core.solve(L.T, alone, backward, 1, simd)
            np.testing.assert_array_equal(alone[0], x)


@every_level
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_times_agrees_with_numpy_and_every_row_with_itself_alone(n, upper, simd):
    rng = np.random.default_rng(n)
    for m in COUNTS:
        B, A = rng.normal(size=(m, n)), rng.normal(size=(n + 3, n))
        A = np.triu(A) if upper else A
        product = _core.times(B, A, upper, 2, simd)
        np.testing.assert_allclose(product, B @ A.T, rtol=1e-9, atol=1e-12)
        for row, found in zip(B, product, strict=True):
            np.testing.assert_array_equal(_core.times(row[None], A, upper, 1, simd)[0], found)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 127, 128, 129, 1000, 9000])
def test_dots_of_rows_do_not_depend_on_the_rows_beside_them(n):
    rng = np.random.default_rng(n)
    B, A, a = rng.normal(size=(130, n)), rng.normal(size=(130, n)), rng.normal(size=n)
    dots, with_one = dot_rows(B, A), dot_rows(B, a)
    np.testing.assert_allclose(dots, np.sum(B * A, axis=1))
    np.testing.assert_allclose(with_one, B @ a)
    np.testing.assert_array_equal(dot_rows(np.asfortranarray(B), np.asfortranarray(A)), dots)
    for i in (0, 1, 63, 64, 129):
        np.testing.assert_array_equal(dot_rows(B[[i]], A[[i]]), dots[[i]])
        np.testing.assert_array_equal(dot_rows(B[[i]], a), with_one[[i]])
    np.testing.assert_array_equal(dot_rows(B[::2], A[::2]), dots[::2])


def test_only_what_may_be_overwritten_is():
    rng = np.random.default_rng(0)
    L, B = triangle(rng, 20), rng.normal(size=(5, 20))
    kept = B.copy()
    expected = np.linalg.solve(L, B.T).T
    np.testing.assert_allclose(solve_rows(L, B), expected)
    np.testing.assert_allclose(solve_rows(np.ascontiguousarray(L), np.asfortranarray(B)), expected)
    np.testing.assert_array_equal(B, kept)
    assert solve_rows(L, B, overwrite=True) is B
    np.testing.assert_allclose(B, expected)


def test_no_rows_and_no_columns():
    L = triangle(np.random.default_rng(0), 4)
    assert solve_rows(L, np.empty((0, 4))).shape == (0, 4)
    assert times_rows(np.empty((0, 4)), L).shape == (0, 4)
    assert times_rows(np.ones((2, 4)), np.empty((0, 4))).shape == (2, 0)
    assert dot_rows(np.empty((0, 4)), np.ones(4)).shape == (0,)
    np.testing.assert_array_equal(times_rows(np.ones((2, 0)), np.ones((3, 0))), np.zeros((2, 3)))


# --- models -------------------------------------------------------------------------------------------


def table(n=150, q=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    Y = 1e6 * np.sin(3 * X[:, :1]) + X[:, 1:2] * X[:, 2:3] + 0.1 * rng.normal(size=(n, q))
    return X, Y[:, 0] if q == 1 else Y


LOW_RANK = {"solver": "lowrank", "rank": 70}
KINDS = {  # parameters of the model, number of outputs, whether rows have weights and values are missing
    "exact": ({}, 1, False, False),
    "exact, little penalty": ({"alpha": 1e-9}, 1, False, False),
    "exact, weights, missing values": ({}, 1, True, True),
    "exact, two outputs": ({}, 2, False, False),
    "low-rank": (LOW_RANK, 1, False, False),
    "low-rank, weights, two outputs": (LOW_RANK, 2, True, False),
    "random features": ({"solver": "features", "rank": 70}, 1, False, False),
}


def fitted(kind):
    """The model, rows for it, and targets and weights of these: training rows, in part of a low-rank model."""
    parameters, q, weighted, missing = KINDS[kind]
    X, y = table(q=q)
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(X)) if weighted else np.ones(len(X))
    if missing:
        X[::7, 3] = np.nan
    options = {"order": 2, "relevance": "equal", "alpha": 1e-3, "random_state": 0} | parameters
    return SalsaRegressor(**options).fit(X, y, sample_weight=weight), X, y, weight


def answers(model, X, y, weight):
    """Per row: predictions, standard deviations, intervals, and of low-rank models what is left out."""
    values, sd = model.predict(X, return_std=True)
    found = {"prediction": values, "sd": sd}
    found |= {f"interval {coverage}": model.predict_interval(X, coverage) for coverage in (0.5, 0.9)}
    if model.solver != "auto":
        loo = model.leave_one_out(X, y, weight)
        found |= {"left out": loo.prediction, "sd left out": loo.sd}
    k = model.expansion_.kernel(X, model.expansion_.anchors)
    return found | {"functional": model.functional_sd(k, 1.1 * model.expansion_.kernel.diagonal(X))}


def cuts(n):
    """Ways to cut n rows, and permuted rows, into chunks."""
    order = np.random.default_rng(2).permutation(n)
    yield "rows one by one", [[i] for i in range(0, n, 5)]
    for size in (7, 32, 33, 149):
        yield f"chunks of {size}", np.split(np.arange(n), range(size, n, size))
    yield "permuted rows", [order]
    yield "permuted rows in chunks", np.split(order, [1, 4, 12, 45])
    yield "backwards", [np.arange(n)[::-1]]


def differences(kind):
    """What depends on how the rows are cut, to the last bit."""
    model, *rows = fitted(kind)
    whole, found = answers(model, *rows), []
    assert all(np.isfinite(values).all() for values in whole.values())
    for name, chunks in cuts(len(rows[0])):
        parts = [answers(model, *(part[chunk] for part in rows)) for chunk in chunks]
        order = np.concatenate(chunks)
        for what, values in whole.items():
            if not np.array_equal(np.concatenate([part[what] for part in parts]), values[order]):
                found.append((kind, name, what))
    memory.BLOCK_NUMBERS, before = 500, memory.BLOCK_NUMBERS
    model.n_jobs = 2
    again = answers(model, *rows)
    memory.BLOCK_NUMBERS = before
    return found + [(kind, "small blocks", what) for what in whole if not np.array_equal(whole[what], again[what])]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_do_not_depend_on_how_rows_are_cut(kind):
    assert differences(kind) == []


def environments():
    """Kernels of OpenBLAS, where it has those of x86, each with an instruction set of the core."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return [("", level) for level in LEVELS]
    wanted = [("Prescott", "portable"), ("Nehalem", "portable"), ("Sandybridge", "avx2"), ("Haswell", "avx2")]
    wanted += [("Zen", "avx2"), ("SkylakeX", "avx512")]
    return [(core, level) for core, level in wanted if level in LEVELS]


@pytest.mark.parametrize(("blas", "simd"), environments())
def test_answers_do_not_depend_on_how_rows_are_cut_on_other_processors(blas, simd):
    code = "import _utils.test_rowwise as t; print([found for kind in t.KINDS for found in t.differences(kind)])"
    assert children.run(code, 1200, OPENBLAS_CORETYPE=blas or None, SALSA_SIMD=simd) == "[]\n"
