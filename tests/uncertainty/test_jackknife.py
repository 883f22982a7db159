"""Posterior standard deviations and jackknife+ intervals against refits, in rows, weights, groups and cells."""

from dataclasses import replace
from itertools import pairwise
from math import ceil

import naive
import numpy as np
import pytest

from salsa.data.noise import Noise
from salsa.data.splits import Fold, Splits
from salsa.expansion import KernelExpansion
from salsa.kernels.additive import AdditiveKernel
from salsa.uncertainty import jackknife
from salsa.uncertainty.interval_scores import LOCAL, PLAIN, POSTERIOR, rank_of
from salsa.uncertainty.jackknife import Forward, Jackknife, Judged, forward_residuals, learn_jackknife

KERNEL = AdditiveKernel([0.5, 0.5], [1.0, 1.0], [0.0, 0.0, 1.0])


def kernel(X, Z):
    """Return exp(-|x - z|^2 / 0.5), which is KERNEL in two dimensions."""
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(axis=-1) / 0.5)


# --- slow, obvious twins ------------------------------------------------------------------------------


def blocks_of(problem) -> list[np.ndarray]:
    """Return the rows of every block that is held out together."""
    block = np.arange(len(problem.X)) if problem.block is None else problem.block
    return [np.flatnonzero(block == b) for b in np.unique(block)]


class Refits:
    """Refits without each block, at the training rows i and new rows: scales are for new rows of weight one."""

    def __init__(self, problem):
        n, alpha, new_noise = len(problem.X), problem.alpha, problem.alpha * (1 + problem.rho)
        self.residual, self.own = np.empty_like(problem.Y), np.empty(n)
        self.prediction, self.scale = np.empty((n, len(problem.Z), problem.Y.shape[1])), np.empty((n, len(problem.Z)))
        for rows in blocks_of(problem):
            T = np.setdiff1d(np.arange(n), rows)
            among, R = problem.K[np.ix_(T, T)], problem.R[np.ix_(T, T)]
            coef, offset = naive.ridge(among, problem.Y[T], alpha, R)
            held = problem.K[np.ix_(rows, T)]
            self.residual[rows] = problem.Y[rows] - offset - held @ coef
            self.prediction[rows] = offset + problem.k[:, T] @ coef
            self.own[rows] = naive.remainder(among, held, problem.K[rows, rows], alpha, R) + new_noise
            self.scale[rows] = naive.remainder(among, problem.k[:, T], problem.prior, alpha, R) + new_noise
        self.own, self.scale = np.sqrt(self.own), np.sqrt(self.scale)


def naive_interval(lower, upper, counts, coverage, units):
    """Barber et al. 2021, section 2: order statistics of the n values per x (n, m), each repeated counts times.

    What is new is a unit of n / units rows; with units of one row, this is their ceil(coverage (n + 1)).
    """
    lower, upper = (np.sort(np.repeat(values, counts, axis=0), axis=0) for values in (lower, upper))
    n = counts.sum()
    rank = ceil(coverage * n * (1 + 1 / units) - 1e-9)
    return np.column_stack([lower[n - rank], upper[rank - 1]])


# --- data ---------------------------------------------------------------------------------------------


class Problem:
    """Rows, targets, new rows; everything that the functions under test are given."""

    def __init__(self, n=25, q=2, weight=None, group=None, rho=0.0, block=None, counts=None, alpha=0.3, seed=0, m=7):
        rng = np.random.default_rng(seed)
        self.X, self.Z = rng.uniform(size=(n, 2)), rng.uniform(-0.5, 1.5, size=(m, 2))
        self.Y = np.sin(5 * self.X[:, :1]) + rng.normal(size=(n, q)) * (0.1 + self.X[:, 1:])
        self.alpha, self.rho, self.block = alpha, rho, block if group is None else group
        self.w = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
        self.noise, self.R = Noise(self.w, group, rho), naive.noise_covariance(self.w, group, rho)
        self.counts = None if counts is None else np.asarray(counts, dtype=float)
        self.K, self.k, self.prior = kernel(self.X, self.X), kernel(self.Z, self.X), np.ones(m)

    @property
    def judged(self):
        units = 0 if self.block is None else len(np.unique(self.block))
        fold = np.arange(len(self.X)) % 5 if self.block is None else self.block % 3
        return Judged(self.block, units, self.counts, fold)

    def learn(self, *, local=False) -> Jackknife:
        self.coef, self.offset = naive.ridge(self.K, self.Y, self.alpha, self.R)
        expansion = KernelExpansion(KERNEL, self.X, self.coef, self.offset) if local else None
        return learn_jackknife(self.K.copy(), self.Y, self.coef, self.alpha, self.noise, self.judged, expansion)

    @property
    def prediction(self):
        return self.offset + self.k @ self.coef

    def interval(self, uncertainty, coverage):
        return uncertainty.interval(self.prediction, self.k.copy(), self.prior, coverage, self.Z)


def learn(K, Y, coef, alpha):
    """Learn from rows that are equally weighted and each held out alone, without a local scale."""
    return learn_jackknife(K, Y, coef, alpha, Noise(np.ones(len(K))), Judged(), None)


def forced(uncertainty, kind, X=None):
    """Return the uncertainty with this scale for all outputs."""
    held = uncertainty.held
    scale = {PLAIN: np.ones((len(held.row), 1)), POSTERIOR: held.scale[:, None]}.get(kind)
    if kind == LOCAL:
        scale = held.scale[:, None] * uncertainty.local.held_out(X, uncertainty.judged.fold)
    size = np.abs(held.residual)
    return replace(uncertainty, scale=(kind,) * size.shape[1], score=size / scale)


WEIGHTS = [3, 1, 2, 1, 5] * 5
GROUP = np.random.default_rng(3).permutation(np.repeat(np.arange(8), [1, 1, 2, 3, 3, 4, 5, 6]))
CASES = {
    "rows": {},
    "weights": {"weight": WEIGHTS},
    "groups": {"group": GROUP, "rho": 0.7},
    "groups, weights": {"group": GROUP, "rho": 2.0, "weight": WEIGHTS},
    "groups without a level": {"group": GROUP},
    "cells of counts": {"block": GROUP, "weight": WEIGHTS, "counts": WEIGHTS},
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


# --- identities ---------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("q", [1, 3])
def test_leave_one_out_equals_refits(case, q):
    problem = Problem(q=q, **case)
    uncertainty, refits = problem.learn(), Refits(problem)
    np.testing.assert_allclose(uncertainty.held.residual, refits.residual, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(uncertainty.held.scale, refits.own, rtol=1e-10)
    told = uncertainty.leave_one_out(np.full(q, 2.0))
    np.testing.assert_allclose(told.prediction, 2 * (problem.Y - refits.residual), rtol=1e-9, atol=1e-9)
    amplitude = np.einsum("ij,ij->j", problem.Y, problem.coef) / 24
    variance = refits.own**2 + problem.alpha * (1 / problem.w - 1)
    np.testing.assert_allclose(told.sd, 2 * np.sqrt(np.outer(variance, amplitude)), rtol=1e-9)


@every_case
@pytest.mark.parametrize("kind", [PLAIN, POSTERIOR, LOCAL])
@pytest.mark.parametrize("coverage", [0.3, 0.5, 0.8])
def test_jackknife_plus_equals_refits(case, kind, coverage):
    """The constant scale widens where the posterior scale is beyond all training rows' scales."""
    problem = Problem(**case)
    uncertainty = forced(problem.learn(local=True), kind, problem.X)
    interval, refits = problem.interval(uncertainty, coverage), Refits(problem)
    assert interval.shape == (7, 2, 2)
    t = naive.remainder(problem.K, problem.k, problem.prior, problem.alpha, problem.R)
    outside = np.sqrt(t + problem.alpha * (1 + problem.rho)) / refits.own.max()
    assert (outside > 1).any()
    assert (outside < 1).any()
    counts = np.ones(25, dtype=int) if problem.counts is None else problem.counts.astype(int)
    units = counts.sum() if problem.block is None else 8
    for j in range(2):
        ratio = np.tile(np.maximum(outside, 1.0), (25, 1)) if kind == PLAIN else refits.scale / refits.own[:, None]
        if kind == LOCAL:
            here, there = uncertainty.local.held_out(problem.X, problem.judged.fold), uncertainty.local(problem.Z)
            ratio = ratio * there[:, j] / here[:, [j]]
        reach, left_out = np.abs(refits.residual[:, j, None]) * ratio, refits.prediction[..., j]
        ends = naive_interval(left_out - reach, left_out + reach, counts, coverage, units)
        np.testing.assert_allclose(interval[:, j], np.sort(ends), rtol=1e-9, atol=1e-9)
    assert (interval[..., 0] <= interval[..., 1]).all()


@every_case
def test_posterior_sd_equals_its_definition(case):
    problem = Problem(**case)
    uncertainty = problem.learn()
    t = naive.remainder(problem.K, problem.k, problem.prior, problem.alpha, problem.R)
    amplitude = np.diag(problem.Y.T @ problem.coef) / 24
    sd = uncertainty.posterior_sd(problem.k.copy(), problem.prior)
    np.testing.assert_allclose(sd, np.sqrt(np.outer(t, amplitude)), rtol=1e-10)
    np.testing.assert_allclose(uncertainty.amplitude, amplitude, rtol=1e-10)


def test_a_common_factor_of_weights_and_alpha_cancels():
    """Scores are for a new row of weight one: they alone change, with the size of its noise."""
    one, other = Problem(weight=WEIGHTS), Problem(weight=3 * np.array(WEIGHTS), alpha=0.9)
    found, again = one.learn(), other.learn()
    np.testing.assert_allclose(again.held.residual, found.held.residual, rtol=1e-9)
    np.testing.assert_allclose(again.amplitude, found.amplitude, rtol=1e-9)
    sd = [p.posterior_sd(one.k.copy(), one.prior) for p in (found, again)]
    np.testing.assert_allclose(*sd, rtol=1e-9)
    np.testing.assert_allclose(
        one.interval(forced(found, PLAIN), 0.5)[0], other.interval(forced(again, PLAIN), 0.5)[0], rtol=1e-9
    )


def test_groups_of_single_rows_without_a_level_equal_rows():
    rows, single = Problem(), Problem(group=np.arange(25))
    for found, again in zip(rows.learn().held[:4], single.learn().held[:4], strict=True):
        np.testing.assert_allclose(again, found, rtol=1e-12)
    np.testing.assert_allclose(
        single.interval(forced(single.learn(), POSTERIOR), 0.8), rows.interval(forced(rows.learn(), POSTERIOR), 0.8)
    )


@pytest.mark.parametrize("case", ["rows", "weights", "groups, weights"])
def test_forward_residuals_equal_refits_to_earlier_rows(case):
    options = dict(CASES[case])
    if "group" in options:
        options["group"] = np.sort(options["group"])  # groups one after the other, so that no split cuts one
    problem = Problem(n=25, **options)
    cuts = [0, 4, 10, 19, 25] if "group" in options else [0, 10, 15, 20, 25]
    folds = tuple(Fold(np.arange(a, 25), np.arange(b - a)) for a, b in pairwise(cuts[1:]))
    splits = Splits(25, folds, np.random.RandomState(0), given=True)
    assert splits.ordered
    problem.learn()
    found = forward_residuals(problem.K.copy(), problem.Y, problem.coef, problem.alpha, problem.noise, splits)
    np.testing.assert_array_equal(found.row, np.arange(cuts[1], 25))
    for a, b in pairwise(cuts[1:]):
        train, test = np.arange(a), np.arange(a, b)
        among, R = problem.K[:a, :a], problem.R[:a, :a]
        coef, offset = naive.ridge(among, problem.Y[train], problem.alpha, R)
        at = np.isin(found.row, test)
        expected = problem.Y[test] - offset - problem.K[a:b, :a] @ coef
        np.testing.assert_allclose(found.residual[at], expected, rtol=1e-8, atol=1e-9)
        t = naive.remainder(among, problem.K[a:b, :a], np.ones(b - a), problem.alpha, R)
        noise = problem.alpha * (1 / problem.w[test] + problem.rho)
        np.testing.assert_allclose(found.variance[at], t + noise, rtol=1e-8)


@pytest.mark.parametrize("kind", [PLAIN, POSTERIOR])
def test_forward_intervals_are_the_prediction_plus_quantiles_of_scores(kind):
    problem = Problem(q=1)
    rng = np.random.default_rng(1)
    rows = np.arange(5, 25)
    forward = Forward(rows, rng.normal(size=(20, 1)), rng.uniform(0.4, 2.0, 20))
    problem.learn()
    learned = learn_jackknife(
        problem.K.copy(), problem.Y, problem.coef, 0.3, problem.noise, Judged(forward=forward), None
    )
    interval = problem.interval(forced(learned, kind), 0.8)
    own = np.sqrt(forward.variance)
    t = naive.remainder(problem.K, problem.k, problem.prior, 0.3)
    there = np.sqrt(t + 0.3) / (own.max() if kind == PLAIN else 1.0)
    there = np.maximum(there, 1.0) if kind == PLAIN else there
    score = np.sort(np.abs(forward.residual[:, 0]) / (1.0 if kind == PLAIN else own))
    half = score[ceil(0.8 * 21 - 1e-9) - 1] * there
    np.testing.assert_allclose(interval[:, 0, 1], problem.prediction[:, 0] + half, rtol=1e-9)
    np.testing.assert_allclose(interval[:, 0, 0], problem.prediction[:, 0] - half, rtol=1e-9)


def test_amplitude_maximises_the_restricted_likelihood():
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


def test_fractional_counts_give_quantiles_between_whole_counts():
    values = np.arange(1.0, 11.0)[None]

    def quantile(count, coverage):
        return jackknife._quantile(values.copy(), np.full(10, count), rank_of(coverage, np.full(10, count)))

    assert quantile(2.0, 0.5) == 6.0  # 10.5 of 21: the 11th of 20 copies
    assert quantile(1.5, 0.5) == 6.0  # 8 of 16
    assert quantile(0.1, 0.9) == np.inf  # 1.8 of 1


def test_the_new_unit_has_the_mean_number_of_rows():
    count = np.ones(30)
    assert rank_of(0.9, count) == pytest.approx(0.9 * 31)
    assert rank_of(0.9, count, units=10) == pytest.approx(0.9 * 33)
    assert rank_of(0.9, 2 * count, units=10) == pytest.approx(0.9 * 66)


def test_intervals_do_not_depend_on_the_order_of_rows():
    problem = Problem()
    direct = problem.interval(problem.learn(), 0.9)
    order = np.random.default_rng(3).permutation(25)
    problem.Y, problem.K, problem.k = problem.Y[order], problem.K[np.ix_(order, order)], problem.k[:, order]
    shuffled = problem.interval(problem.learn(), 0.9)
    np.testing.assert_allclose(shuffled, direct, rtol=1e-9)


# --- corners ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "weight"), [(1, None), (1, [5]), (2, None), (2, [1, 4])])
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.9])
def test_one_or_two_rows_give_no_nan(n, weight, coverage):
    problem = Problem(n=n, weight=weight)
    uncertainty = problem.learn()
    sd = uncertainty.posterior_sd(problem.k, problem.prior)
    interval = problem.interval(uncertainty, coverage)
    assert not np.isnan(sd).any()
    assert not np.isnan(interval).any()
    assert (interval[..., 0] <= interval[..., 1]).all()
    if n == 1:
        assert (np.abs(interval) == np.inf).all()
    if n == 1:
        assert (sd == np.inf).all()


def test_a_single_row_has_infinite_sd_at_its_own_place():
    uncertainty = learn(np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 1e-30)
    assert uncertainty.posterior_sd(np.ones((1, 1)), np.ones(1)) == np.inf


def test_too_few_rows_for_the_coverage_give_infinite_ends():
    problem = Problem(n=9)
    uncertainty = problem.learn()
    for coverage, finite in [(0.9, True), (0.901, False)]:  # at most n / (n + 1)
        interval = problem.interval(uncertainty, coverage)
        assert np.isfinite(interval).all() == finite
        assert finite or np.array_equal(interval[0, 0], [-np.inf, np.inf])


@pytest.mark.parametrize("alpha", [1e-14, 1e-300, 0.0])
def test_singular_matrices_and_repeated_rows_give_finite_intervals(alpha):
    problem = Problem(n=20, alpha=1e-3)
    problem.X[10:] = problem.X[:10]
    K, k = kernel(problem.X, problem.X), kernel(problem.Z, problem.X)
    coef, offset = naive.ridge(K, problem.Y, 1e-3)
    uncertainty = learn(K, problem.Y, coef, alpha)
    assert np.isfinite(uncertainty.posterior_sd(k, problem.prior)).all()
    assert np.isfinite(uncertainty.interval(offset + k @ coef, k, problem.prior, 0.9, problem.Z)).all()


@pytest.mark.parametrize("K", [np.zeros((5, 5)), np.ones((5, 5)), -np.ones((5, 5)), np.ones((5, 5)) - 2 * np.eye(5)])
def test_any_symmetric_matrix_gives_finite_intervals(K):
    uncertainty = learn(K.copy(), np.zeros((5, 1)), np.zeros((5, 1)), 0.0)
    assert np.isfinite(uncertainty.interval(np.zeros((5, 1)), K, K.diagonal(), 0.5, np.zeros((5, 2)))).all()


def test_constant_targets_have_no_width():
    problem = Problem()
    problem.Y[:] = 3.0
    uncertainty = problem.learn()
    interval = problem.interval(uncertainty, 0.9)
    np.testing.assert_allclose(interval, 3.0, atol=1e-10)
    np.testing.assert_allclose(uncertainty.posterior_sd(problem.k, problem.prior), 0.0, atol=1e-6)


def test_no_new_rows_give_empty_results():
    problem = Problem(m=0)
    uncertainty = problem.learn()
    assert uncertainty.posterior_sd(problem.k, problem.prior).shape == (0, 2)
    assert problem.interval(uncertainty, 0.9).shape == (0, 2, 2)


def test_intervals_are_scaled_if_errors_grow_away_from_the_data():
    """The function has no noise and is densely sampled on one side only, so errors grow with the posterior sd."""
    rng = np.random.default_rng(0)
    X = np.append(rng.uniform(0, 1, 60), rng.uniform(1, 10, 40))[:, None]
    K = kernel(X, X)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(100)) @ rng.normal(size=(100, 1))
    noise = rng.normal(size=(100, 1))  # nothing is smooth: errors are equal everywhere
    Y = np.column_stack([y, noise])
    coef, _ = naive.ridge(K, Y, 1e-4)
    assert learn(K, Y, coef, 1e-4).scale[0] == POSTERIOR
    coef, _ = naive.ridge(np.eye(100), Y, 1e-4)
    assert learn(np.eye(100), Y[:, 1:], coef[:, 1:], 1e-4).scale == (PLAIN,)


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
        coef, offset = naive.ridge(K[:60, :60], Y[:60], 0.2)
        k, prior = K[60:, :60].copy(), np.ones(50)
        uncertainty = learn(K[:60, :60].copy(), Y[:60], coef, 0.2)
        prediction = offset + k @ coef
        errors.append(f[60:] - prediction)
        sds.append(uncertainty.posterior_sd(k, prior))
        noises.append(0.2 * uncertainty.amplitude[0])
        kinds = [forced(uncertainty, PLAIN), forced(uncertainty, POSTERIOR), uncertainty]
        ends = [kind.interval(prediction, k.copy(), prior, 0.9, X[60:])[:, 0] for kind in kinds]
        hits.append([np.mean((e[:, 0] <= Y[60:, 0]) & (Y[60:, 0] <= e[:, 1])) for e in ends])
    return np.array(errors), np.array(sds), np.mean(hits, axis=0), np.array(noises)


def test_intervals_have_their_coverage(simulation):
    """The coverages belong to constant, posterior and chosen scales."""
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
    size, scale = np.abs(uncertainty.held.residual), uncertainty.held.scale[:, None]
    expected = np.where(np.array(uncertainty.scale) == POSTERIOR, size / scale, size)
    np.testing.assert_array_equal(uncertainty.score, expected)
