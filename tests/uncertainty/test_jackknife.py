"""Posterior standard deviations and jackknife+ jackknife against refits, repeated rows and simulated truth."""

from math import ceil, floor

import numpy as np
import pytest

from salsa.uncertainty import jackknife
from salsa.uncertainty.jackknife import Jackknife, learn_jackknife

# --- slow, obvious twins ------------------------------------------------------------------------------


def kernel(X, Z):
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(axis=-1) / 0.5)


def refit(K, Y, alpha, w):
    """Return coef (n, q) and offset (q,) from the full linear system [C 1; 1' 0] [c; b] = [Y; 0]."""
    n = len(K)
    system = np.block([[K + alpha * np.diag(1 / w), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solution[:-1], solution[-1]


def naive_remainder(K, k, prior, alpha, w):
    """Return t (m,) = k(x, x) - k'C^-1 k + (1 - 1'C^-1 k)^2 / (1'C^-1 1)."""
    inverse = np.linalg.inv(K + alpha * np.diag(1 / w))
    missing = 1 - k @ inverse.sum(axis=0)
    return prior - np.einsum("ij,jk,ik->i", k, inverse, k) + missing**2 / inverse.sum()


def naive_leave_one_out(K, Y, k, prior, alpha, w):
    """Return residuals (n, q), predictions f_-i (n, m, q), and scales at x_i (n,) and x (n, m), by n refits."""
    residual, prediction, own, scale = [], [], [], []
    for i in range(len(K)):
        T = np.arange(len(K)) != i
        coef, offset = refit(K[np.ix_(T, T)], Y[T], alpha, w[T])
        residual.append(Y[i] - offset - K[i, T] @ coef)
        prediction.append(offset + k[:, T] @ coef)
        own.append(naive_remainder(K[np.ix_(T, T)], K[[i]][:, T], K[[i], i], alpha, w[T])[0] + alpha)
        scale.append(naive_remainder(K[np.ix_(T, T)], k[:, T], prior, alpha, w[T]) + alpha)
    return np.array(residual), np.array(prediction), np.sqrt(own), np.sqrt(scale)


def naive_interval(lower, upper, counts, coverage):
    """Barber et al. 2021, section 2: order statistics of the n values per x (n, m), each repeated counts times."""
    lower, upper = (np.sort(np.repeat(values, counts, axis=0), axis=0) for values in (lower, upper))
    n = counts.sum()
    return np.column_stack([lower[round_down((1 - coverage) * (n + 1)) - 1], upper[round_up(coverage * (n + 1)) - 1]])


def round_down(x):
    return floor(x + 1e-9)


def round_up(x):
    return ceil(x - 1e-9)


# --- data ---------------------------------------------------------------------------------------------


class Problem:
    """Rows, targets, new rows; everything that the functions under test are given."""

    def __init__(self, n=25, q=2, counts=None, alpha=0.3, seed=0, m=7):
        rng = np.random.default_rng(seed)
        self.X, self.Z = rng.uniform(size=(n, 2)), rng.uniform(-0.5, 1.5, size=(m, 2))
        self.Y = np.sin(5 * self.X[:, :1]) + rng.normal(size=(n, q)) * (0.1 + self.X[:, 1:])
        self.weight, self.alpha = counts, alpha
        self.w = np.ones(n) if counts is None else np.asarray(counts, dtype=float)
        self.K, self.k, self.prior = kernel(self.X, self.X), kernel(self.Z, self.X), np.ones(m)

    def learn(self) -> Jackknife:
        self.coef, self.offset = refit(self.K, self.Y, self.alpha, self.w)
        return learn_jackknife(self.K.copy(), self.Y, self.coef, self.alpha, None if self.weight is None else self.w)

    @property
    def prediction(self):
        return self.offset + self.k @ self.coef


def forced(uncertainty, *, scaled):
    """Return the uncertainty with scaled, or plain, scores for all outputs."""
    size = np.abs(uncertainty.loo_residual)
    scale = jackknife._loo_scale(uncertainty.loo_variance, uncertainty.alpha, uncertainty.weight)
    fields = {name: getattr(uncertainty, name) for name in uncertainty.__dataclass_fields__}
    score = size / scale[:, None] if scaled else size
    return Jackknife(**fields | {"scaled": np.full(size.shape[1], scaled), "score": score})


COUNTS = [None, [3, 1, 2, 1, 5] * 5]
QUIET_CORNERS = [(1, None), (1, [5]), (2, None), (2, [1, 4])]


# --- identities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("q", [1, 3])
def test_leave_one_out_equals_refits(counts, q):
    problem = Problem(q=q, counts=counts)
    uncertainty = problem.learn()
    residual, _, own, _ = naive_leave_one_out(problem.K, problem.Y, problem.k, problem.prior, problem.alpha, problem.w)
    np.testing.assert_allclose(uncertainty.loo_residual, residual, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        jackknife._loo_scale(uncertainty.loo_variance, problem.alpha, problem.w), own, rtol=1e-10
    )


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("coverage", [0.3, 0.5, 0.8, 0.9, 0.95])
def test_jackknife_plus_equals_refits(counts, scaled, coverage):
    problem = Problem(counts=counts)
    uncertainty = forced(problem.learn(), scaled=scaled)
    interval = uncertainty.interval(problem.prediction, problem.k, problem.prior, coverage)
    residual, left_out, own, scale = naive_leave_one_out(
        problem.K, problem.Y, problem.k, problem.prior, problem.alpha, problem.w
    )
    assert interval.shape == (7, 2, 2)
    for j in range(2):
        reach = np.abs(residual[:, j, None]) * (scale / own[:, None] if scaled else 1.0)
        ends = naive_interval(left_out[..., j] - reach, left_out[..., j] + reach, problem.w.astype(int), coverage)
        np.testing.assert_allclose(interval[:, j], np.sort(ends), rtol=1e-9, atol=1e-9)
    assert (interval[..., 0] <= interval[..., 1]).all()


def test_a_weight_is_the_row_repeated_and_left_out_at_once():
    """Weights and repeated rows give the same interval if every refit leaves out all copies of a row."""
    problem = Problem(n=12, q=1, counts=[2, 1, 3] * 4)
    interval = forced(problem.learn(), scaled=False).interval(problem.prediction, problem.k, problem.prior, 0.9)
    copy_of = np.repeat(np.arange(12), problem.weight)
    X, Y = problem.X[copy_of], problem.Y[copy_of]
    lower, upper = [], []
    for i in copy_of:
        T = copy_of != i
        coef, offset = refit(kernel(X[T], X[T]), Y[T], problem.alpha, np.ones(T.sum()))
        r = np.abs(problem.Y[i] - offset - kernel(problem.X[[i]], X[T]) @ coef)
        f = offset + kernel(problem.Z, X[T]) @ coef
        lower.append((f - r)[:, 0])
        upper.append((f + r)[:, 0])
    ends = naive_interval(np.array(lower), np.array(upper), np.ones(len(X), dtype=int), 0.9)
    np.testing.assert_allclose(interval[:, 0], ends, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("counts", COUNTS)
def test_posterior_sd_equals_its_definition(counts):
    problem = Problem(counts=counts)
    uncertainty = problem.learn()
    t = naive_remainder(problem.K, problem.k, problem.prior, problem.alpha, problem.w)
    amplitude = np.diag(problem.Y.T @ problem.coef) / (problem.w.sum() - 1)
    sd = uncertainty.posterior_sd(problem.k, problem.prior)
    np.testing.assert_allclose(sd, np.sqrt(np.outer(t, amplitude)), rtol=1e-10)
    np.testing.assert_allclose(uncertainty.noise, problem.alpha * amplitude, rtol=1e-10)


def test_weights_and_repeated_rows_give_the_same_sd_and_noise():
    problem = Problem(counts=COUNTS[1])
    weighted, copy_of = problem.learn(), np.repeat(np.arange(25), COUNTS[1])
    repeated = Problem()
    repeated.X, repeated.Y, repeated.w = problem.X[copy_of], problem.Y[copy_of], np.ones(len(copy_of))
    repeated.K = kernel(repeated.X, repeated.X)
    k = kernel(problem.Z, repeated.X)
    np.testing.assert_allclose(repeated.learn().noise, weighted.noise, rtol=1e-9)
    np.testing.assert_allclose(
        repeated.learn().posterior_sd(k, problem.prior), weighted.posterior_sd(problem.k, problem.prior), rtol=1e-9
    )


def test_noise_maximises_the_restricted_likelihood():
    """The likelihood is log N(Y; b 1, a C) with b integrated out, maximised on a grid over a."""
    problem = Problem(q=1)
    a = problem.learn().amplitude[0]
    C = problem.K + problem.alpha * np.eye(25)
    centring = np.linalg.svd(np.ones((1, 25)))[2][1:]  # contrasts: orthonormal to 1
    S, z = centring @ C @ centring.T, centring @ problem.Y[:, 0]

    def likelihood(a):
        return -0.5 * (np.linalg.slogdet(a * S)[1] + z @ np.linalg.solve(a * S, z))

    grid = a * np.linspace(0.5, 2.0, 1501)
    assert grid[np.argmax([likelihood(value) for value in grid])] == pytest.approx(a, rel=1e-3)


def test_sd_grows_from_the_data_to_the_prior():
    problem = Problem(q=1)
    uncertainty = problem.learn()
    Z = np.column_stack([np.linspace(0.5, 20.0, 40), np.full(40, 0.5)])
    sd = uncertainty.posterior_sd(kernel(Z, problem.X), np.ones(40))[:, 0]
    assert (np.diff(sd) > -1e-12).all()
    inverse = np.linalg.inv(problem.K + problem.alpha * np.eye(25))
    assert sd[-1] == pytest.approx(np.sqrt(uncertainty.amplitude[0] * (1.0 + 1.0 / inverse.sum())))


def test_fractional_weights_give_quantiles_between_whole_weights():
    values = np.arange(1.0, 11.0)[None]
    assert jackknife._quantile(values.copy(), np.full(10, 2.0), 0.5) == 6.0  # 10.5 of 21: the 11th of 20 copies
    assert jackknife._quantile(values.copy(), np.full(10, 1.5), 0.5) == 6.0  # 8 of 16
    assert jackknife._quantile(values.copy(), np.full(10, 0.1), 0.9) == np.inf  # 1.8 of 1


def test_intervals_do_not_depend_on_the_order_of_rows():
    problem = Problem()
    direct = problem.learn().interval(problem.prediction, problem.k, problem.prior, 0.9)
    order = np.random.default_rng(3).permutation(25)
    problem.Y, problem.K, problem.k = problem.Y[order], problem.K[np.ix_(order, order)], problem.k[:, order]
    shuffled = problem.learn().interval(problem.prediction, problem.k, problem.prior, 0.9)
    np.testing.assert_allclose(shuffled, direct, rtol=1e-9)


# --- corners ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "counts"), QUIET_CORNERS)
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.9])
def test_one_or_two_rows_give_no_nan(n, counts, coverage):
    problem = Problem(n=n, counts=counts)
    uncertainty = problem.learn()
    sd = uncertainty.posterior_sd(problem.k, problem.prior)
    interval = uncertainty.interval(problem.prediction, problem.k, problem.prior, coverage)
    assert not np.isnan(sd).any()
    assert not np.isnan(interval).any()
    assert (interval[..., 0] <= interval[..., 1]).all()
    if n == 1:
        assert (np.abs(interval) == np.inf).all()
    if n == 1 and counts is None:
        assert (sd == np.inf).all()


def test_a_single_row_has_infinite_sd_at_its_own_place():
    uncertainty = learn_jackknife(np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 1e-30)
    assert uncertainty.posterior_sd(np.ones((1, 1)), np.ones(1)) == np.inf


def test_too_few_rows_for_the_coverage_give_infinite_ends():
    problem = Problem(n=9)
    uncertainty = problem.learn()
    for coverage, finite in [(0.9, True), (0.901, False)]:  # at most n / (n + 1)
        interval = uncertainty.interval(problem.prediction, problem.k, problem.prior, coverage)
        assert np.isfinite(interval).all() == finite
        assert finite or np.array_equal(interval[0, 0], [-np.inf, np.inf])


@pytest.mark.parametrize("alpha", [1e-14, 1e-300, 0.0])
def test_singular_matrices_and_repeated_rows_give_finite_intervals(alpha):
    problem = Problem(n=20, alpha=1e-3)
    problem.X[10:] = problem.X[:10]
    K, k = kernel(problem.X, problem.X), kernel(problem.Z, problem.X)
    coef, offset = refit(K, problem.Y, 1e-3, problem.w)
    uncertainty = learn_jackknife(K, problem.Y, coef, alpha)
    assert np.isfinite(uncertainty.posterior_sd(k, problem.prior)).all()
    assert np.isfinite(uncertainty.interval(offset + k @ coef, k, problem.prior, 0.9)).all()


@pytest.mark.parametrize("K", [np.zeros((5, 5)), np.ones((5, 5)), -np.ones((5, 5)), np.ones((5, 5)) - 2 * np.eye(5)])
def test_any_symmetric_matrix_gives_finite_intervals(K):
    uncertainty = learn_jackknife(K.copy(), np.zeros((5, 1)), np.zeros((5, 1)), 0.0)
    assert np.isfinite(uncertainty.interval(np.zeros((5, 1)), K, K.diagonal(), 0.5)).all()


def test_constant_targets_have_no_width():
    problem = Problem()
    problem.Y[:] = 3.0
    uncertainty = problem.learn()
    interval = uncertainty.interval(problem.prediction, problem.k, problem.prior, 0.9)
    np.testing.assert_allclose(interval, 3.0, atol=1e-10)
    np.testing.assert_allclose(uncertainty.posterior_sd(problem.k, problem.prior), 0.0, atol=1e-6)


def test_no_new_rows_give_empty_results():
    problem = Problem(m=0)
    uncertainty = problem.learn()
    assert uncertainty.posterior_sd(problem.k, problem.prior).shape == (0, 2)
    assert uncertainty.interval(problem.prediction, problem.k, problem.prior, 0.9).shape == (0, 2, 2)


def test_intervals_are_scaled_if_errors_grow_away_from_the_data():
    """The function has no noise and is densely sampled on one side only, so errors grow with the posterior sd."""
    rng = np.random.default_rng(0)
    X = np.append(rng.uniform(0, 1, 60), rng.uniform(1, 10, 40))[:, None]
    K = kernel(X, X)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(100)) @ rng.normal(size=(100, 1))
    noise = rng.normal(size=(100, 1))  # nothing is smooth: errors are equal everywhere
    Y = np.column_stack([y, noise])
    coef, _ = refit(K, Y, 1e-4, np.ones(100))
    assert learn_jackknife(K, Y, coef, 1e-4).scaled[0]
    coef, _ = refit(np.eye(100), Y, 1e-4, np.ones(100))
    assert not learn_jackknife(np.eye(100), Y[:, 1:], coef[:, 1:], 1e-4).scaled[0]


# --- simulated truth ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulation():
    """Draw 200 tables of 60 rows and 50 new rows from the Gaussian process with amplitude 1.7 and alpha 0.2."""
    rng = np.random.default_rng(1)
    errors, sds, hits, noises = [], [], [], []
    for _ in range(200):
        X = rng.uniform(size=(110, 2))
        K = 1.7 * kernel(X, X)
        f = 5.0 + np.linalg.cholesky(K + 1e-9 * np.eye(110)) @ rng.normal(size=(110, 1))
        Y = f + np.sqrt(1.7 * 0.2) * rng.normal(size=(110, 1))
        K /= 1.7
        coef, offset = refit(K[:60, :60], Y[:60], 0.2, np.ones(60))
        k, prior = K[60:, :60].copy(), np.ones(50)
        uncertainty = learn_jackknife(K[:60, :60].copy(), Y[:60], coef, 0.2)
        prediction = offset + k @ coef
        errors.append(f[60:] - prediction)
        sds.append(uncertainty.posterior_sd(k, prior))
        noises.append(uncertainty.noise[0])
        ends = [forced(uncertainty, scaled=s).interval(prediction, k, prior, 0.9)[:, 0] for s in (False, True)] + [
            uncertainty.interval(prediction, k, prior, 0.9)[:, 0]
        ]
        hits.append([np.mean((e[:, 0] <= Y[60:, 0]) & (Y[60:, 0] <= e[:, 1])) for e in ends])
    return np.array(errors), np.array(sds), np.mean(hits, axis=0), np.array(noises)


def test_intervals_have_their_coverage(simulation):
    """The coverages are of plain, scaled and chosen intervals."""
    coverage = simulation[2]
    assert (coverage >= 0.9 - 0.03).all()
    assert (coverage <= 0.9 + 0.05).all()


def test_posterior_sd_is_calibrated(simulation):
    errors, sds, _, noises = simulation
    assert np.sqrt(np.mean((errors / sds) ** 2)) == pytest.approx(1.0, rel=0.15)
    assert np.mean(noises) == pytest.approx(1.7 * 0.2, rel=0.15)


@pytest.mark.parametrize("q", [1, 2])
def test_scores_belong_to_their_rows(q):
    """The comparison of widths must not reorder the residuals."""
    problem = Problem(n=120, q=q)
    uncertainty = problem.learn()
    size = np.abs(uncertainty.loo_residual)
    scale = jackknife._loo_scale(uncertainty.loo_variance, uncertainty.alpha, uncertainty.weight)
    expected = np.where(uncertainty.scaled, size / scale[:, None], size)
    np.testing.assert_array_equal(uncertainty.score, expected)
