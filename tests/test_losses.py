"""Losses against their definitions, their derivatives, and the fixed point of their working response."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.losses import (
    LIKELIHOODS,
    Gamma,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    check_targets,
    named_loss,
    robust_spread,
)

CASES = {  # loss, name of the slow twin, its parameter, targets
    "logistic": (Logistic(), "logistic", 0.0, [0.0, 1.0]),
    "softmax": (Softmax(), "softmax", 0.0, [0, 1, 2]),
    "poisson": (Poisson(), "poisson", 0.0, [0.0, 1.0, 7.0]),
    "gamma": (Gamma(), "gamma", 0.0, [0.01, 1.0, 30.0]),
    "huber": (Huber(0.7), "huber", 0.7, [-3.0, 0.1, 2.0]),
    "quantile": (Quantile(0.8, 1e-3), "pinball", 0.8, [-3.0, 0.1, 2.0]),
}
everywhere = pytest.mark.parametrize("case", CASES)


def rows(case, seed=0, n=40):
    """Return targets as the twin and as the loss has them, and functions (n, q)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CASES[case][3], n)
    Y = np.eye(3)[y] if case == "softmax" else y[:, None]
    return y, Y, rng.normal(0, 1.5, Y.shape)


def test_every_loss_has_a_case():
    assert {type(loss) for loss, *_ in CASES.values()} == set(LIKELIHOODS.values())


@everywhere
def test_judges_by_the_definition(case):
    loss, name, parameter, _ = CASES[case]
    y, Y, f = rows(case)
    expected = [naive.row_loss(name, target, value, parameter) for target, value in zip(y, f, strict=True)]
    np.testing.assert_allclose(loss.judge(Y, f), expected, rtol=1e-10, atol=1e-12)


@everywhere
@given(seed=st.integers(0, 10**6))
def test_slope_and_bend_are_derivatives(case, seed):
    loss = Quantile(0.8, 0.3) if case == "quantile" else CASES[case][0]
    _, Y, f = rows(case, seed, n=5)
    V, step = np.random.default_rng(seed).normal(size=f.shape), 1e-6
    slope = (loss.value(Y, f + step * V) - loss.value(Y, f - step * V)) / (2 * step)
    np.testing.assert_allclose(np.sum(loss.slope(Y, f) * V, axis=-1), slope, rtol=1e-5, atol=1e-6)
    if case == "huber" and np.any(np.abs(np.abs(Y - f) - loss.delta) < 1e-3):
        return  # at the corner
    bend = (loss.slope(Y, f + step * V) - loss.slope(Y, f - step * V)) / (2 * step)
    np.testing.assert_allclose(loss.bend(Y, f, V), bend, rtol=1e-4, atol=1e-5)


@everywhere
def test_the_constant_has_the_least_loss(case):
    loss = CASES[case][0]
    _, Y, _ = rows(case, n=60)
    w = np.random.default_rng(1).uniform(0.2, 3.0, len(Y))
    best = loss.constant(Y, w)
    at_best = w @ loss.judge(Y, np.zeros_like(Y) + best)
    for seed in range(20):
        moved = best + 0.1 * np.random.default_rng(seed).normal(size=best.shape)
        limit = 0.02 * at_best if case == "huber" else 1e-9  # the median is near the best constant of Huber's loss
        assert at_best <= w @ loss.judge(Y, np.zeros_like(Y) + moved) + limit


@everywhere
def test_working_response_moves_against_the_slope(case):
    loss = CASES[case][0]
    _, Y, f = rows(case)
    z, h = loss.working(Y, f)
    assert (h > 0).all()
    np.testing.assert_allclose(h[:, None] * (f - z), loss.slope(Y, f), rtol=1e-9, atol=1e-12)


@everywhere
def test_mean_slope_is_the_derivative_of_the_mean(case):
    loss = CASES[case][0]
    _, _, f = rows(case)
    for j in range(f.shape[1]):
        step = np.zeros_like(f)
        step[:, j] = 1e-6
        derivative = (loss.mean(f + step) - loss.mean(f - step))[:, j] / 2e-6
        np.testing.assert_allclose(loss.mean_slope(f)[:, j], derivative, rtol=1e-5)


@pytest.mark.parametrize("case", ["poisson", "gamma", "huber", "quantile"])
def test_ends_of_intervals_invert_scores(case):
    loss = Poisson(whole=False) if case == "poisson" else CASES[case][0]
    _, Y, f = rows(case)
    np.testing.assert_allclose(loss.end(f, loss.score(Y, f), upper=True), Y, rtol=1e-9, atol=1e-9)


def test_counts_have_whole_ends_that_hold_the_same_counts():
    f, score = np.log(np.full(50, 3.0)), np.linspace(-2, 2, 50)
    low, high = Poisson().end(f, score, upper=False), Poisson().end(f, score, upper=True)
    real = Poisson(whole=False).end(f, score, upper=True)
    for ends in (low, high):
        np.testing.assert_array_equal(ends, np.floor(ends))
    assert low.min() >= 0
    assert np.abs(high - real).max() < 1
    assert (low - real).min() >= -1e-9


def test_no_slope_overflows():
    far = np.array([[-1e4], [0.0], [1e4]])
    for loss in (Logistic(), Poisson(), Gamma(), Huber(1.0), Quantile(0.5, 0.1)):
        Y = np.ones_like(far)
        for values in (loss.value(Y, far), loss.slope(Y, far), *loss.working(Y, far), loss.mean(far)):
            assert np.isfinite(values).all(), type(loss).__name__


def test_robust_spread_ignores_gross_errors():
    residual = np.random.default_rng(0).normal(0, 2.0, (5000, 1))
    assert robust_spread(residual, np.ones(5000)) == pytest.approx(2.0, rel=0.05)
    residual[:250] = 1e6
    assert robust_spread(residual, np.ones(5000)) == pytest.approx(2.0, rel=0.1)
    assert robust_spread(np.zeros((5, 1)), np.ones(5)) == 1.0


def test_poisson_rates_are_not_whole():
    assert named_loss("poisson", None, np.array([[0.5], [2.0]])) == Poisson(whole=False)
    assert named_loss("poisson", None, np.array([[1.0], [2.0]])) == Poisson(whole=True)


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("poisson", [1.0, -2.0, 3.0], r"needs targets that are not negative; row 1 has -2"),
        ("gamma", [1.0, 0.0, 0.0], r"needs targets that are positive; row 1 has 0 \(2 such rows in all\)"),
        ("poisson", [0.0, 0.0], "all targets are zero"),
    ],
)
def test_targets_outside_the_domain_are_refused(name, y, message):
    Y = np.array(y)[:, None]
    with pytest.raises(ValueError, match=message):
        check_targets(name, Y, np.ones(len(Y), dtype=bool))


def test_rows_of_no_weight_may_have_any_target():
    check_targets("gamma", np.array([[1.0], [-1.0]]), np.array([True, False]))


def test_losses_take_one_target():
    with pytest.raises(ValueError, match="takes one target, and y has 2 columns"):
        check_targets("huber", np.ones((3, 2)), np.ones(3, dtype=bool))


def test_huber_loss_of_a_step_that_ends_far_away_is_finite():
    value = Huber(0.7).value(np.zeros((2, 1)), np.array([[1e200], [-0.5]]))
    np.testing.assert_array_equal(value, [0.7e200, 0.125])
