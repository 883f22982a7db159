"""Learned kernels: the posterior and its gradient, what is found, what is removed."""

from dataclasses import replace

import naive
import numpy as np
import pytest
from conftest import additive_truth

from salsa.data.noise import Noise
from salsa.data.splits import Fold, Splits, drawn_splits
from salsa.kernels.base import BASE_KERNELS
from salsa.learning import Problem, Structure
from salsa.learning.evidence import Evidence
from salsa.learning.learn import SNAP, Posterior, held_out_losses, learn_kernel, learn_rho, prune_kernel
from salsa.learning.parameters import ABSENT
from salsa.losses import SquaredError


def problem_of(X, Y, base="gaussian", weight=None, group=None, rho=0.0, **others):
    bases = (base,) * X.shape[1] if isinstance(base, str) else base
    noise = Noise(np.ones(len(X)) if weight is None else weight, group, rho)
    splits = drawn_splits(len(X), 5, group, np.random.RandomState(0))
    return Problem(X, Y if Y.ndim == 2 else Y[:, None], noise, splits, bases, **others)


def small_problem(base="gaussian", q=2, weighted=True, D=4, group=None, rho=0.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, D))
    if naive.BASE_KERNELS[base].for_categories:
        X = np.round(X)
    weight = rng.integers(1, 4, 25).astype(float) if weighted else None
    weight = None if weight is None else weight / weight.mean()
    return problem_of(X, rng.normal(size=(25, q)), base, weight, group, rho)


GROUP = np.random.default_rng(2).permutation(np.repeat(np.arange(9), [1, 1, 1, 2, 3, 3, 4, 5, 5]))


class TestPosterior:
    @pytest.mark.parametrize("base", BASE_KERNELS)
    @pytest.mark.parametrize("structure", [Structure(1, 1), Structure(1, 3), Structure(2, 2), Structure(4, 4)])
    def test_gradient_agrees_with_finite_differences(self, base, structure):
        posterior = Posterior(small_problem(base), structure)
        start = posterior.parameters.start()
        theta = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
        numeric = naive.finite_difference(lambda t: posterior(t)[0], theta, 1e-3)
        gradient = posterior(theta)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())

    def test_likelihood_is_the_restricted_normal_density(self):
        """Minus log density of any n-1 contrasts of y, up to constants: written with an explicit contrast basis."""
        problem = small_problem(q=1, weighted=False)
        posterior = Posterior(problem, Structure(1, 2))
        theta = posterior.parameters.start()

        def contrasts(theta):
            kernel, noise = posterior.parameters.kernel(theta), np.exp(theta[-1])
            K = naive.additive_kernel(
                problem.X, problem.X, kernel.bandwidth, kernel.relevance, kernel.order_weights, "gaussian"
            )
            return naive.restricted_likelihood(posterior.evidence.Y[:, 0], K + noise * np.eye(25))

        other = theta + 0.3
        ours = posterior.fit_of(other) - posterior.fit_of(theta)
        assert ours == pytest.approx(contrasts(other) - contrasts(theta), rel=1e-8)

    @pytest.mark.parametrize("structure", [Structure(1, 2), Structure(4, 4)])
    def test_gradient_with_groups_agrees_with_finite_differences(self, structure):
        posterior = Posterior(small_problem(group=GROUP), structure)
        start = np.append(posterior.parameters.start(), np.log(0.4))
        vector = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
        numeric = naive.finite_difference(lambda t: posterior(t)[0], vector, 1e-3)
        gradient = posterior(vector)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
        assert abs(gradient[-1]) > 1e-3

    def test_a_common_factor_of_weights_is_in_the_noise(self):
        """Only the ratios of weights matter: with c w, the noise variance c s2 has the likelihood of w and s2."""
        plain = small_problem()
        scaled = plain._replace(noise=Noise(4.0 * plain.weight))
        ours, theirs = Posterior(plain, Structure(1, 3)), Posterior(scaled, Structure(1, 3))
        theta = ours.parameters.start() + np.linspace(-0.5, 0.5, len(ours.parameters.start()))
        shift = np.zeros(len(theta))
        shift[-1] = np.log(4.0)
        assert ours.fit_of(theta) == pytest.approx(theirs.fit_of(theta + shift), rel=1e-12)

    def test_held_out_losses_equal_refits(self):
        problem = small_problem(q=2)
        learned = learn_kernel(problem, Structure(1, 2), iterations=5)
        losses = held_out_losses(problem, learned.kernel, learned.noise, 0.0, SquaredError())
        np.testing.assert_allclose(losses, refitted_losses(problem, learned, 0.0, np.arange(25)), rtol=1e-6)

    @pytest.mark.parametrize("rho", [0.0, 0.8])
    def test_held_out_losses_of_groups_equal_refits_without_the_group(self, rho):
        problem = small_problem(q=2, group=GROUP)
        learned = learn_kernel(problem, Structure(1, 2), iterations=5)
        losses = held_out_losses(problem, learned.kernel, learned.noise, rho, SquaredError())
        np.testing.assert_allclose(losses, refitted_losses(problem, learned, rho, GROUP), rtol=1e-6)

    def test_given_splits_judge_and_untested_rows_have_no_loss(self):
        problem = small_problem(q=1, weighted=False)
        folds = (Fold(np.arange(10, 25), np.arange(5)), Fold(np.arange(15, 25), np.arange(10)))
        splits = Splits(25, folds, np.random.RandomState(0), given=True)
        learned = learn_kernel(problem, Structure(1, 1), iterations=5)
        losses = held_out_losses(problem._replace(splits=splits), learned.kernel, learned.noise, 0.0, SquaredError())
        assert np.isnan(losses[:10]).all()
        K, Y = learned.kernel(problem.X), Evidence(problem.Y, problem.noise).Y
        for begin, end in ((10, 15), (15, 25)):
            expected = naive.held_out_residuals(K, Y, learned.noise, np.arange(begin, 25))[: end - begin, 0] ** 2
            np.testing.assert_allclose(losses[begin:end], expected, rtol=1e-6)


def refitted_losses(problem, learned, rho, block):
    """Return the squared residuals (n,), averaged over outputs, of refits without the block of each row."""
    K, Y = learned.kernel(problem.X), Evidence(problem.Y, problem.noise).Y
    R, found = naive.noise_covariance(problem.weight, problem.noise.group, rho), np.empty_like(Y)
    for b in np.unique(block):
        rows = np.flatnonzero(block == b)
        found[rows] = naive.held_out_residuals(K, Y, learned.noise, rows, R)
    return np.mean(found**2, axis=1)


class TestEvidence:
    """The likelihood of a dense covariance matrix against its definition."""

    def matrices(self, rho=0.6):
        problem = small_problem(group=GROUP, rho=rho)
        K = naive.additive_kernel(problem.X, problem.X, np.ones(4), np.ones(4), [0.0, 1.0, 1.0])
        return problem, K, Evidence(problem.Y, problem.noise)

    def test_value_is_the_restricted_normal_density(self):
        """Values differ from the density by a constant: their differences are compared."""
        problem, K, evidence = self.matrices()

        def expected(s2, rho):
            C = K + s2 * naive.noise_covariance(problem.weight, GROUP, rho)
            return sum(naive.restricted_likelihood(y, C) for y in evidence.Y.T)

        def found(s2, rho):
            return evidence.value(evidence.factorise(K.copy(), s2, rho))

        start = expected(0.5, 0.3), found(0.5, 0.3)
        for s2, rho in [(0.5, 1.5), (0.1, 0.3), (2.0, 20.0), (0.5, 0.0)]:
            assert found(s2, rho) - start[1] == pytest.approx(expected(s2, rho) - start[0], rel=1e-6)

    def test_slope_agrees_with_finite_differences(self):
        _, K, evidence = self.matrices()
        s2, rho, step = 0.4, 0.7, 1e-5
        rng = np.random.default_rng(0)
        D = rng.normal(size=K.shape)
        D = 1e-2 * (D + D.T)

        def value(K, s2, rho):
            return evidence.value(evidence.factorise(K.copy(), s2, rho))

        slope = evidence.slope(evidence.factorise(K.copy(), s2, rho))
        by_s2 = (value(K, s2 + step, rho) - value(K, s2 - step, rho)) / (2 * step)
        by_rho = (value(K, s2, rho + step) - value(K, s2, rho - step)) / (2 * step)
        by_K = (value(K + step * D, s2, rho) - value(K - step * D, s2, rho)) / (2 * step)
        assert slope.s2 == pytest.approx(by_s2, rel=1e-6)
        assert slope.rho == pytest.approx(by_rho, rel=1e-6)
        triangle = np.triu(slope.K)  # an element off the diagonal stands for two
        assert np.sum(triangle * D) == pytest.approx(by_K, rel=1e-5)

    @pytest.mark.parametrize("rho", [0.0, 0.7])
    def test_held_out_folds_equal_refits(self, rho):
        problem, K, evidence = self.matrices(rho)
        R = naive.noise_covariance(problem.weight, GROUP, rho)
        folds = [
            Fold(rows, np.arange(len(rows))[::2])
            for rows in (np.flatnonzero(np.isin(GROUP, g)) for g in ([8], [0, 3, 7], [0]))
        ]
        residuals = evidence.held_out(K.copy(), 0.3, rho, folds)
        for fold, residual in zip(folds, residuals, strict=True):
            expected = naive.held_out_residuals(K, evidence.Y, 0.3, fold.held_out, R)[fold.test]
            np.testing.assert_allclose(residual, expected, rtol=1e-6, atol=1e-8)


class TestGroups:
    """The variance of groups' levels is learned."""

    def people(self, level, n=40, size=5, seed=0):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(n), size)
        X = rng.uniform(-1, 1, (n * size, 2))
        y = np.sin(3 * X[:, 0]) + level * rng.normal(size=n)[group] + 0.5 * rng.normal(size=n * size)
        return problem_of(X, y, group=group)

    @pytest.mark.parametrize("level", [0.25, 1.0])
    def test_the_ratio_of_variances_is_found(self, level):
        """The true rho is level^2 / 0.25; over 8 tables its logarithm is found to about 0.3."""
        logs = []
        for seed in range(8):
            problem = self.people(level, seed=seed)
            learned = learn_kernel(problem, Structure(1, 1), iterations=15)
            logs.append([np.log(learned.rho), np.log(learn_rho(problem, learned.kernel))])
        np.testing.assert_allclose(np.median(logs, axis=0), np.log(4 * level**2), atol=0.35)

    def test_rho_does_not_depend_on_the_scale_of_the_kernel(self):
        problem = self.people(1.0)
        kernel = learn_kernel(problem, Structure(1, 1), iterations=15).kernel
        rho = [learn_rho(problem, replace(kernel, order_weights=c * kernel.order_weights)) for c in (1e-6, 1.0, 1e6)]
        np.testing.assert_allclose(rho, rho[1], rtol=1e-3)

    def test_rho_without_groups_is_zero(self):
        problem = problem_of(*additive_truth(n=60))
        learned = learn_kernel(problem, Structure(1, 1), iterations=3)
        assert learned.rho == 0.0

    def test_pruning_keeps_the_groups_level(self):
        problem = self.people(1.0)
        learned = learn_kernel(problem, Structure(1, 1), iterations=15)
        pruned = prune_kernel(problem, learned, 2.0)
        assert np.flatnonzero(pruned.kernel.relevance).tolist() == [0]
        assert abs(np.log(pruned.rho / learned.rho)) < 0.5


class TestLearning:
    def test_evidence_grows_and_is_reported(self):
        problem = problem_of(*additive_truth(n=100))
        few, many = (learn_kernel(problem, Structure(1, 2), iterations=k) for k in (3, 30))
        assert many.evidence > few.evidence
        assert many.evidence == pytest.approx(-Posterior(problem, Structure(1, 2))(many.theta)[0], rel=1e-9)

    def test_learned_logarithms_lie_on_the_grid(self):
        theta = learn_kernel(problem_of(*additive_truth(n=80)), Structure(1, 2), iterations=8).theta
        np.testing.assert_allclose(theta / SNAP, np.round(theta / SNAP), atol=1e-6)

    def test_learning_does_not_depend_on_the_number_of_threads(self):
        X, y = additive_truth(n=300, D=12)
        thetas = [
            learn_kernel(problem_of(X, y, threads=threads), Structure(1, 3), iterations=6).theta for threads in (1, 2)
        ]
        np.testing.assert_array_equal(*thetas)

    def test_learning_does_not_depend_on_units(self):
        X, y = additive_truth(n=80)
        units = np.array([1e-3, 1.0, 1e4, 7.0, 1.0, 2.0])
        plain = learn_kernel(problem_of(X, y), Structure(1, 2), iterations=8)
        scaled = learn_kernel(problem_of(X * units, 1e3 * y + 5), Structure(1, 2), iterations=8)
        np.testing.assert_allclose(scaled.kernel.bandwidth, plain.kernel.bandwidth * units, rtol=0.03)
        np.testing.assert_allclose(scaled.kernel.relevance, plain.kernel.relevance, rtol=0.03)

    def test_given_bandwidths_are_kept(self):
        X, y = additive_truth(n=80)
        learned = learn_kernel(problem_of(X, y, bandwidth=np.full(6, 2.5)), Structure(1, 2), iterations=8)
        np.testing.assert_array_equal(learned.kernel.bandwidth, 2.5)
        assert np.ptp(learned.kernel.relevance) > 0

    def test_constant_columns_are_removed(self):
        X, y = additive_truth(n=80)
        X[:, 4] = 3.0
        learned = learn_kernel(problem_of(X, y), Structure(1, 2), iterations=5)
        assert learned.kernel.relevance[4] == 0
        assert learned.kernel.bandwidth[4] == np.inf

    @pytest.mark.parametrize("seed", range(3))
    def test_five_relevant_features_of_a_hundred_are_found(self, seed):
        """Relevant features come first, nearly all others are removed, and the rest holds under 1 % of the variance."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(300, 100))
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
        problem = problem_of(X, y + rng.normal(size=300))
        learned = learn_kernel(problem, Structure(1, 2), iterations=25)
        refined = prune_kernel(problem, learned, 0.0)
        assert set(np.argsort(-refined.kernel.relevance)[:5]) == {0, 1, 2, 3, 4}
        assert np.count_nonzero(refined.kernel.relevance) <= 8
        coef, _ = naive.ridge(refined.kernel(X), problem.Y, refined.noise)
        moved = X.copy()
        moved[:, 5:] = rng.uniform(size=(300, 95))
        f, g = refined.kernel(X, X) @ coef, refined.kernel(moved, X) @ coef
        assert np.var(f - g) < 0.01 * np.var(f)

    def test_pruning_costs_no_likelihood_and_is_final(self):
        X, y = additive_truth(n=150, D=12)
        posterior = Posterior(problem_of(X, y), Structure(1, 2))
        theta = posterior.minimise(posterior.parameters.start(), 25)
        pruned = posterior.prune(theta, 0.0)
        removed = pruned[:12] == ABSENT
        assert removed.sum() >= 8
        assert not removed[:3].any()
        assert posterior.fit_of(pruned) <= posterior.fit_of(theta)
        assert (posterior.minimise(pruned, 5)[:12][removed] == ABSENT).all()

    def test_a_larger_allowance_removes_more_features(self):
        X, y = additive_truth(n=150, D=12)
        posterior = Posterior(problem_of(X, y), Structure(1, 2))
        theta = posterior.minimise(posterior.parameters.start(), 25)
        removed = [int(np.sum(posterior.prune(theta, allowance)[:12] == ABSENT)) for allowance in (0.0, 1.0, 1e9)]
        assert removed[0] <= removed[1] < removed[2] == 11
        cost = posterior.fit_of(posterior.prune(theta, 1.0)) - posterior.fit_of(theta)
        assert cost <= removed[1]

    def test_a_product_loses_its_irrelevant_features(self):
        """The pruned kernel is the product of the relevant features, of order 3; removed features are constants."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (150, 8))
        problem = problem_of(X, np.prod(1 + X[:, :3], axis=1) + 0.01 * rng.normal(size=150), "matern52")
        product = Structure(8, 8)
        learned = learn_kernel(problem, product)
        refined = prune_kernel(problem, learned, 0.0)
        assert np.flatnonzero(refined.kernel.relevance).tolist() == [0, 1, 2]
        assert refined.kernel.order == 3
        assert refined.evidence > learned.evidence

    def test_removing_a_feature_from_a_product_is_a_constant_base_kernel(self):
        problem = small_problem(D=3)
        posterior = Posterior(problem, Structure(3, 3))
        theta = posterior.parameters.start() + np.linspace(-0.3, 0.3, len(posterior.parameters.start()))
        level = np.array([0.5, 0.6, 0.7])
        without = posterior.parameters.kernel(posterior.parameters.without(theta, np.array([1]), level))
        kernel = posterior.parameters.kernel(theta)
        a, h = kernel.relevance[[0, 2]], kernel.bandwidth[[0, 2]]
        rest = naive.additive_kernel(problem.X[:, [0, 2]], problem.X[:, [0, 2]], h, a, [0, 0, 1.0], "gaussian")
        np.testing.assert_allclose(without(problem.X), 0.6 * kernel.order_weights[3] * rest, rtol=1e-12)
