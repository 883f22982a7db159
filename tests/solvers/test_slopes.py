"""Slopes of kernel expansions: their least values over a box, their bounds between grid points, and proofs."""

import naive
import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from salsa import AdditiveKernel, SumKernel
from salsa.kernels.marginals import distribution_of
from salsa.solvers.slopes import SMOOTH_BASES, Monotone, Slopes

D = 3


def expansion(seed, base="matern52", bandwidth=(0.7, 1.1, 0.5), weights=(0.0, 1.0, 1.5), m=12):
    """A random function of three numbers, and the rows of its anchors."""
    rng = np.random.default_rng(seed)
    Z, coef = rng.uniform(-1, 1, (m, D)), rng.normal(size=m)
    return AdditiveKernel(np.array(bandwidth), [1.0, 0.5, 2.0], weights, base), Z, coef


def box(Z, sign=(1, 0, 0), levels=(0, 0, 0)):
    return Monotone(np.array(sign), np.fmin.reduce(Z), np.fmax.reduce(Z), np.array(levels))


@pytest.mark.parametrize("base", SMOOTH_BASES)
def test_slope_of_a_base_kernel_is_its_derivative(base):
    t, step = np.linspace(-4, 4, 81), 1e-6
    numeric = (naive.base_kernel(base, t + step, 1.0) - naive.base_kernel(base, t - step, 1.0)) / (2 * step)
    np.testing.assert_allclose(SMOOTH_BASES[base].slope(t), numeric, atol=1e-8)


@pytest.mark.parametrize("base", SMOOTH_BASES)
@pytest.mark.parametrize("sign", [1, -1])
def test_least_slope_is_the_minimum_over_all_combinations(base, sign):
    kernel, Z, coef = expansion(0, base)
    slopes, t = Slopes(kernel, Z, box(Z, (sign, 0, 0)), 0), np.array([-0.5, 0.1, 0.6])
    values = [slopes.points(k, 4) for k in range(D)]
    found, _ = slopes.least(coef, t, 4)
    expected = [naive.least_slope(lambda X: sign * (kernel(X, Z) @ coef), 0, x, values) for x in t.tolist()]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_least_slope_looks_at_every_level_and_at_missing_values():
    rng = np.random.default_rng(1)
    Z = np.column_stack([rng.uniform(-1, 1, 15), rng.integers(0, 3, 15), rng.uniform(-1, 1, 15)])
    Z[3, 0] = Z[5, 1] = Z[7, 2] = np.nan
    distributions = tuple(distribution_of(z, np.ones(15)) for z in Z.T)
    kernel = AdditiveKernel(np.ones(D), np.ones(D), [0, 1, 1], ("matern52", "equality", "matern52"), distributions)
    slopes, coef = Slopes(kernel, Z, box(Z, levels=(0, 3, 0)), 0), rng.normal(size=15)
    assert slopes.points(1, 4).tolist()[:3] == [0.0, 1.0, 2.0]
    assert np.isnan(slopes.points(1, 4)[-1])
    assert np.isnan(slopes.points(2, 4)[-1])
    values = [slopes.points(k, 4) for k in range(D)]
    found, _ = slopes.least(coef, np.array([0.3]), 4)
    assert found[0] == pytest.approx(naive.least_slope(lambda X: kernel(X, Z) @ coef, 0, 0.3, values), abs=1e-6)


def test_slopes_of_all_terms_of_a_sum_are_added():
    one, Z, coef = expansion(2)
    other = AdditiveKernel(np.full(D, 0.4), [2.0, 0.0, 1.0], [0, 0.3, 1], "matern52")
    without_it = AdditiveKernel(np.ones(D), [0.0, 1.0, 1.0], [0, 0, 1], "laplace")
    kernel = SumKernel([one, other, without_it])
    slopes, t = Slopes(kernel, Z, box(Z), 0), np.array([0.2])
    values = [slopes.points(k, 3) for k in range(D)]
    expected = naive.least_slope(lambda X: kernel(X, Z) @ coef, 0, 0.2, values)
    assert slopes.least(coef, t, 3)[0][0] == pytest.approx(expected, abs=1e-6)


def test_functionals_give_the_least_slopes_at_the_points_that_attain_them():
    kernel, Z, coef = expansion(3)
    slopes = Slopes(kernel, Z, box(Z, (0, -1, 0)), 1)
    t = slopes.grid(9)
    values, s = slopes.least(coef, t, 17)
    np.testing.assert_allclose(slopes.functionals(t, s) @ coef, values, atol=1e-12)


def test_features_without_relevance_or_range_have_no_slopes():
    kernel, Z, _ = expansion(4)
    assert Slopes(kernel, Z, box(Z), 0).vary
    assert not Slopes(kernel, np.zeros_like(Z), box(np.zeros_like(Z)), 0).vary
    without = AdditiveKernel(np.ones(D), [0.0, 1.0, 1.0], [0, 1, 1])
    assert not Slopes(without, Z, box(Z), 0).vary


cases = st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(SMOOTH_BASES)), st.floats(0.05, 3.0))


@settings(max_examples=examples(60))
@given(cases, st.sampled_from([5, 9, 33]))
def test_bounds_hold_between_the_points_of_the_grids(case, size):
    """The slope at fixed x is within e of its interpolation in t, and each pair within its bound in s."""
    seed, base, h = case
    kernel, Z, coef = expansion(seed, base, (h, 1.3 * h, 0.8 * h))
    slopes = Slopes(kernel, Z, box(Z), 0)
    norms, t = slopes.norms(coef), slopes.grid(size)
    step = slopes.span / (size - 1)
    x = np.random.default_rng(seed).uniform(-1, 1, 2)
    middle = 0.5 * (t[:-1] + t[1:])
    at = [slopes.functionals(points, np.tile(x, (len(points), 1))) @ coef for points in (t, middle)]
    assert np.max(np.abs(at[1] - 0.5 * (at[0][:-1] + at[0][1:]))) <= slopes.error_in_t(norms, step) + 1e-12
    coarse, fine = (slopes.least(coef, t, points)[0] for points in (size, 16 * (size - 1) + 1))
    assert np.max(coarse - fine) <= slopes.error_in_s(norms, size) + 1e-12


@settings(max_examples=examples(40))
@given(cases, st.floats(0.0, 30.0))
def test_what_is_proven_is_true(case, steepness):
    """A steep increasing curve is added to a random function: a proof means that no slope is negative anywhere."""
    seed, base, h = case
    kernel, Z, coef = expansion(seed, base, (h, 1.3 * h, 0.8 * h))
    slopes = Slopes(kernel, Z, box(Z), 0)
    coef = coef + steepness * np.linalg.lstsq(kernel(Z), Z[:, 0], rcond=1e-10)[0]
    rng = np.random.default_rng(seed + 1)
    x = rng.uniform(slopes.monotone.low, slopes.monotone.high, (500, D))
    found = slopes.functionals(x[:, 0], x[:, 1:]) @ coef
    proof = slopes.proof(coef)
    if proof.proven:
        assert found.min() >= -1e-9 * np.abs(coef).sum()
    else:
        values, _ = slopes.least(coef, slopes.grid(65), 65)
        assert len(proof.t) or values.min() < 10 * slopes.finest_error(coef)


def test_steep_function_is_proven_and_its_mirror_image_is_not():
    kernel, Z, _ = expansion(5, bandwidth=(4.0, 4.0, 4.0), m=40)
    coef = np.linalg.solve(kernel(Z) + 1e-3 * np.eye(40), Z[:, 0])
    slopes = Slopes(kernel, Z, box(Z), 0)
    assert slopes.proof(coef).proven
    proof = slopes.proof(-coef)
    assert not proof.proven
    assert (slopes.least(-coef, proof.t, proof.size)[0] < 0).all()
    assert not slopes.proof(np.full(40, np.nan)).proven
