"""Learned kernels: the posterior and its gradient, what is found, what is removed."""

from dataclasses import replace

import naive
import numpy as np
import pytest
from conftest import additive_truth
from sklearn.datasets import make_friedman1

from learning.problems import GROUP, low, problem_of, small_problem
from salsa.data.noise import Noise
from salsa.data.splits import Fold, Splits
from salsa.kernels.base import BASE_KERNELS
from salsa.learning import Form
from salsa.learning.evidence import Evidence
from salsa.learning.learn import (
    CONVERGED,
    NOISE_GRID,
    SNAP,
    STARTS,
    Posterior,
    drop_terms,
    held_out_losses,
    learn_again,
    learn_kernel,
    learn_rho,
    prune_kernel,
)
from salsa.learning.parameters import SumParameters
from salsa.losses import SquaredError

FORMS = [
    low(1, 1),
    low(1, 3),
    low(2, 2),
    (Form("gaussian"),),
    (Form("gaussian", 1, 3), Form("gaussian"), Form("laplace")),
]


class TestPosterior:
    @pytest.mark.parametrize("base", BASE_KERNELS)
    @pytest.mark.parametrize("forms", FORMS)
    def test_gradient_agrees_with_finite_differences(self, base, forms):
        forms = tuple(form if form.base != "gaussian" else form._replace(base=base) for form in forms)
        posterior = Posterior(small_problem(base), forms)
        start = posterior.parameters.start(*STARTS[0])
        theta = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
        numeric = naive.finite_difference(lambda t: posterior(t)[0], theta, 1e-3)
        gradient = posterior(theta)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())

    def test_likelihood_is_the_restricted_normal_density(self):
        """Minus log density of any n-1 contrasts of y, up to constants: written with an explicit contrast basis."""
        problem = small_problem(q=1, weighted=False)
        posterior = Posterior(problem, low(1, 2))
        theta = posterior.parameters.start(*STARTS[0])

        def contrasts(theta):
            (kernel,), noise = posterior.parameters.kernel(theta).terms, np.exp(theta[-1])
            K = naive.additive_kernel(
                problem.X, problem.X, kernel.bandwidth, kernel.relevance, kernel.order_weights, "gaussian"
            )
            return naive.restricted_likelihood(Evidence(problem.Y, problem.noise).Y[:, 0], K + noise * np.eye(25))

        other = theta + 0.3
        ours = posterior.fit_of(other) - posterior.fit_of(theta)
        assert ours == pytest.approx(contrasts(other) - contrasts(theta), rel=1e-8)

    @pytest.mark.parametrize("forms", FORMS)
    def test_gradient_with_groups_agrees_with_finite_differences(self, forms):
        posterior = Posterior(small_problem(group=GROUP), forms)
        start = np.append(posterior.parameters.start(*STARTS[0]), np.log(0.4))
        vector = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
        numeric = naive.finite_difference(lambda t: posterior(t[:-1], t[-1])[0], vector, 1e-3)
        gradient = posterior(vector[:-1], vector[-1])[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
        assert abs(gradient[-1]) > 1e-3

    def test_a_common_factor_of_weights_is_in_the_noise(self):
        """Only the ratios of weights matter: with c w, the noise variance c s2 has the likelihood of w and s2."""
        plain = small_problem()
        scaled = plain._replace(noise=Noise(4.0 * plain.weight))
        ours, theirs = Posterior(plain, low(1, 3)), Posterior(scaled, low(1, 3))
        theta = ours.parameters.start(*STARTS[0])
        theta = theta + np.linspace(-0.5, 0.5, len(theta))
        shift = np.zeros(len(theta))
        shift[-1] = np.log(4.0)
        assert ours.fit_of(theta) == pytest.approx(theirs.fit_of(theta + shift), rel=1e-12)

    def test_held_out_losses_equal_refits(self):
        problem = small_problem(q=2)
        learned = learn_kernel(problem, low(1, 2))
        losses = held_out_losses(problem, learned.kernel, learned.noise, 0.0, SquaredError())
        np.testing.assert_allclose(losses, refitted_losses(problem, learned, 0.0, np.arange(25)), rtol=1e-6)

    @pytest.mark.parametrize("rho", [0.0, 0.8])
    def test_held_out_losses_of_groups_equal_refits_without_the_group(self, rho):
        problem = small_problem(q=2, group=GROUP)
        learned = learn_kernel(problem, low(1, 2))
        losses = held_out_losses(problem, learned.kernel, learned.noise, rho, SquaredError())
        np.testing.assert_allclose(losses, refitted_losses(problem, learned, rho, GROUP), rtol=1e-6)

    def test_given_splits_judge_and_untested_rows_have_no_loss(self):
        problem = small_problem(q=1, weighted=False)
        folds = (Fold(np.arange(10, 25), np.arange(5)), Fold(np.arange(15, 25), np.arange(10)))
        splits = Splits(25, folds, np.random.RandomState(0), given=True)
        learned = learn_kernel(problem, low(1, 1))
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
            learned = learn_kernel(problem, low(1, 1))
            logs.append([np.log(learned.rho), np.log(learn_rho(problem, learned.kernel))])
        np.testing.assert_allclose(np.median(logs, axis=0), np.log(4 * level**2), atol=0.35)

    def test_rho_does_not_depend_on_the_scale_of_the_kernel(self):
        problem = self.people(1.0)
        kernel = learn_kernel(problem, low(1, 1)).kernel
        rho = [learn_rho(problem, replace(kernel, order_weights=c * kernel.order_weights)) for c in (1e-6, 1.0, 1e6)]
        np.testing.assert_allclose(rho, rho[1], rtol=1e-3)

    def test_rho_without_groups_is_zero(self):
        problem = problem_of(*additive_truth(n=60))
        learned = learn_kernel(problem, low(1, 1))
        assert learned.rho == 0.0

    def test_pruning_keeps_the_groups_level(self):
        problem = self.people(1.0)
        learned = learn_kernel(problem, low(1, 1))
        pruned = prune_kernel(problem, learned, 2.0)
        assert np.flatnonzero(pruned.kernel.relevance).tolist() == [0]
        assert abs(np.log(pruned.rho / learned.rho)) < 0.5


class TestLearning:
    def test_evidence_is_that_of_the_posterior(self):
        problem = problem_of(*additive_truth(n=100))
        learned = learn_kernel(problem, low(1, 2))
        assert learned.evidence == pytest.approx(-Posterior(problem, low(1, 2))(learned.theta)[0], rel=1e-9)

    @pytest.mark.parametrize("forms", FORMS)
    def test_learning_ends_where_nothing_is_left_to_gain(self, forms):
        """A second optimisation from the result gains no more than the tolerance and the rounding of logarithms."""
        posterior = Posterior(problem_of(*additive_truth(n=100)), forms)
        theta = posterior.minimise(posterior.parameters.start(*STARTS[0]))
        gain = posterior(theta)[0] - posterior(posterior.minimise(theta))[0]
        assert -0.1 < gain < 10 * 100 * CONVERGED

    def test_learning_again_never_loses_and_tells_what_it_gained(self):
        X, y = additive_truth(n=200)
        learned = learn_kernel(problem_of(X[:100], y[:100]), FORMS[-1])
        problem = problem_of(X, y)
        again, gain = learn_again(problem, learned)
        posterior = Posterior(problem, FORMS[-1])
        before = posterior.with_own_noise(learned.theta).evidence
        assert gain == pytest.approx((again.evidence - before) / 200, abs=1e-6)
        assert gain > -1e-3

    def test_the_noise_is_searched_first_when_the_rows_change(self):
        posterior = Posterior(problem_of(*additive_truth(n=100)), low(1, 2))
        theta = posterior.parameters.start(4.0, 1.0)
        found = posterior.with_own_noise(theta).theta
        np.testing.assert_array_equal(found[:-1], theta[:-1])
        fits = {noise: posterior.fit_of(np.append(theta[:-1], np.log(noise))) for noise in NOISE_GRID}
        assert np.exp(found[-1]) == pytest.approx(min(fits, key=fits.get))
        learned = posterior.minimise(found)
        np.testing.assert_array_equal(posterior.with_own_noise(learned).theta, learned)

    def test_learning_again_starts_at_the_kernel_that_explains_the_rows_better(self):
        problem = problem_of(*additive_truth(n=100))
        good = learn_kernel(problem, low(1, 2))
        poor = good._replace(theta=Posterior(problem, low(1, 2)).parameters.start(1.0, 0.1))
        alone, gain = learn_again(problem, good)
        for pair in ((good, poor), (poor, good)):
            again, gain_again = learn_again(problem, *pair)
            np.testing.assert_array_equal(again.theta, alone.theta)
            assert gain_again == gain

    def test_weak_terms_are_revived_when_the_rows_change(self):
        parameters = SumParameters(problem_of(*additive_truth(n=80)), FORMS[-1])
        theta = parameters.start(*STARTS[0])
        theta[parameters.blocks[2].t] = -15.0
        removed = parameters.revived(parameters.without_term(theta, 1))
        assert parameters.present_terms(removed) == [0, 2]
        terms = parameters.kernel(parameters.revived(theta)).terms
        diagonals = np.array([term.diagonal(np.zeros((1, 6)))[0] for term in terms])
        before = np.array([term.diagonal(np.zeros((1, 6)))[0] for term in parameters.kernel(theta).terms])
        np.testing.assert_allclose(diagonals, [*before[:2], 0.05 * before.sum()])

    def test_a_term_of_more_orders_than_features_is_not_revived(self):
        parameters = SumParameters(problem_of(*additive_truth(n=80)), low(2, 2))
        theta = parameters.start(*STARTS[0], np.arange(6) == 1)
        np.testing.assert_array_equal(parameters.revived(theta), theta)

    def test_the_rough_product_does_not_take_up_the_noise(self):
        """With short bandwidths it would be noise by another name, and the fit would go through its training rows."""
        X, y = make_friedman1(n_samples=500, n_features=5, noise=1.0, random_state=0)
        learned = learn_kernel(problem_of(X, y, "matern52"), FORMS[-1], STARTS[1])
        rough = next(term for term in learned.kernel.terms if term.numeric_base == "laplace")
        assert np.exp(np.log(rough.bandwidth / X.std(axis=0)).mean()) > 0.1
        assert learned.noise > 1e-3  # without the bound it falls to 1e-6; 0.04 of the variance is noise

    def test_learned_logarithms_lie_on_the_grid(self):
        theta = learn_kernel(problem_of(*additive_truth(n=80)), FORMS[-1]).theta
        np.testing.assert_allclose(theta / SNAP, np.round(theta / SNAP), atol=1e-6)

    def test_learning_does_not_depend_on_the_number_of_threads(self):
        X, y = additive_truth(n=300, D=12)
        thetas = [learn_kernel(problem_of(X, y, threads=threads), FORMS[-1]).theta for threads in (1, 2)]
        np.testing.assert_array_equal(*thetas)

    def test_learning_does_not_depend_on_units(self):
        X, y = additive_truth(n=80)
        units = np.array([1e-3, 1.0, 1e4, 7.0, 1.0, 2.0])
        plain = learn_kernel(problem_of(X, y), low(1, 2))
        scaled = learn_kernel(problem_of(X * units, 1e3 * y + 5), low(1, 2))
        np.testing.assert_allclose(scaled.kernel.bandwidth, plain.kernel.bandwidth * units, rtol=0.03)
        np.testing.assert_allclose(scaled.kernel.relevance, plain.kernel.relevance, rtol=0.03)

    def test_given_bandwidths_are_kept(self):
        X, y = additive_truth(n=80)
        kernel = learn_kernel(problem_of(X, y, bandwidth=np.full(6, 2.5)), FORMS[-1]).kernel
        for term in kernel.terms:
            np.testing.assert_array_equal(term.bandwidth, 2.5)
        assert np.ptp(kernel.terms[0].relevance) > 0

    def test_constant_columns_are_removed_from_every_term(self):
        X, y = additive_truth(n=80)
        X[:, 4] = 3.0
        for term in learn_kernel(problem_of(X, y), FORMS[-1]).kernel.terms:
            assert term.relevance[4] == 0
            assert term.bandwidth[4] == np.inf

    def test_only_the_given_features_are_learned(self):
        features = np.array([True, True, False, True, False, False])
        kernel = learn_kernel(problem_of(*additive_truth(n=80)), FORMS[-1], STARTS[0], features).kernel
        for term in kernel.terms:
            np.testing.assert_array_equal(term.relevance > 0, features)

    @pytest.mark.parametrize("D", [128, 500, 1000])
    def test_products_of_many_features_do_not_overflow(self, D):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, D))
        problem = problem_of(X, X[:, 0] + 0.1 * rng.normal(size=60), "matern52")
        parameters = SumParameters(problem, FORMS[-1])
        theta = parameters.start(*STARTS[1])
        bounds = parameters.bounds()
        theta = np.clip(theta, *bounds.T)
        for bound in (theta, *bounds.T):
            assert np.isfinite(parameters.kernel(bound)(X)).all()
        half = parameters.without(theta, np.arange(D // 2), parameters.levels(theta))
        assert np.isfinite(parameters.kernel(half)(X)).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_five_relevant_features_of_a_hundred_are_found(self, seed):
        """Relevant features are kept, nearly all others are removed, and the rest holds under 1 % of the variance."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(300, 100))
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
        problem = problem_of(X, y + rng.normal(size=300))
        refined = prune_kernel(problem, learn_kernel(problem, low(1, 2)), 2.0)
        assert set(np.flatnonzero(refined.kernel.relevance)) >= {0, 1, 2, 3, 4}
        assert np.count_nonzero(refined.kernel.relevance) <= 8
        coef, _ = naive.ridge(refined.kernel(X), problem.Y, refined.noise)
        moved = X.copy()
        moved[:, 5:] = rng.uniform(size=(300, 95))
        f, g = refined.kernel(X, X) @ coef, refined.kernel(moved, X) @ coef
        assert np.var(f - g) < 0.01 * np.var(f)

    @pytest.mark.parametrize("forms", [low(1, 2), FORMS[-1]])
    def test_pruning_costs_no_likelihood_and_is_final(self, forms):
        X, y = additive_truth(n=150, D=12)
        posterior = Posterior(problem_of(X, y), forms)
        theta = posterior.minimise(posterior.parameters.start(*STARTS[0]))
        pruned = posterior.prune(theta, 0.0)
        present = posterior.parameters.present(pruned)
        assert present[:3].all()
        assert present.sum() <= 8
        assert posterior.fit_of(pruned) <= posterior.fit_of(theta)
        np.testing.assert_array_equal(posterior.parameters.present(posterior.minimise(pruned)), present)

    def test_a_larger_allowance_removes_more_features(self):
        X, y = additive_truth(n=150, D=12)
        posterior = Posterior(problem_of(X, y), low(1, 2))
        theta = posterior.minimise(posterior.parameters.start(*STARTS[0]))
        kept = [int(posterior.parameters.present(posterior.prune(theta, cost)).sum()) for cost in (0.0, 1.0, 1e9)]
        assert kept[0] >= kept[1] > kept[2] == 1
        cost = posterior.fit_of(posterior.prune(theta, 1.0)) - posterior.fit_of(theta)
        assert cost <= 12 - kept[1]

    def test_what_irrelevant_features_save_is_not_spent_on_relevant_ones(self):
        """Forty features that cost nothing would pay for the three that matter, at two units each."""
        X, y = additive_truth(n=150, D=40)
        problem = problem_of(X, y)
        pruned = prune_kernel(problem, learn_kernel(problem, low(1, 2)), 2.0)
        assert set(np.flatnonzero(pruned.kernel.relevance)) >= {0, 1, 2}

    def test_a_product_loses_its_irrelevant_features(self):
        """The pruned kernel is the product of the relevant features, of order 3; removed features are constants."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (150, 8))
        problem = problem_of(X, np.prod(1 + X[:, :3], axis=1) + 0.01 * rng.normal(size=150), "matern52")
        learned = learn_kernel(problem, (Form("matern52"),))
        refined = prune_kernel(problem, learned, 2.0)
        assert np.flatnonzero(refined.kernel.relevance).tolist() == [0, 1, 2]
        assert refined.kernel.order == 3

    @pytest.mark.parametrize("base", ["gaussian", "laplace"])
    def test_removing_features_leaves_their_means_in_every_term(self, base):
        """k_j of a removed feature is its mean: e_m becomes e_m + c e_{m-1}, a product is multiplied by c."""
        problem = small_problem(D=3)
        parameters = SumParameters(problem, (Form(base, 1, 3), Form(base)))
        theta = parameters.start(*STARTS[0])
        theta = theta + np.linspace(-0.3, 0.3, len(theta))
        levels = np.array([[0.5, 0.6, 0.7], [0.2, 0.3, 0.4]])
        without = parameters.kernel(parameters.without(theta, np.array([1]), levels))
        for term, found, level in zip(parameters.kernel(theta).terms, without.terms, levels[:, 1], strict=True):
            a, h = term.relevance[[0, 2]], term.bandwidth[[0, 2]]
            w, c = term.order_weights * term.normaliser, term.relevance[1] * level
            # without order 0, which the offset takes over; weights of two features have the normalisers 1/2 and 1
            weights = [0.0, 2 * (w[1] + c * w[2]), w[2] + c * w[3]]
            rest = naive.additive_kernel(problem.X[:, [0, 2]], problem.X[:, [0, 2]], h, a, weights, base)
            np.testing.assert_allclose(found(problem.X), rest, rtol=1e-12)

    def test_terms_that_carry_nothing_are_dropped(self):
        """A smooth additive truth needs no rough product; what is left predicts no worse."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (150, 3))
        problem = problem_of(X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=150), "matern52")
        learned = learn_kernel(problem, (Form("matern52", 1, 3), Form("matern52"), Form("laplace")))
        assert len(learned.kernel.terms) == 3
        kept = drop_terms(problem, learned, 1.0)
        assert len(kept.kernel.terms) < 3
        again, _ = learn_again(problem, kept)
        assert len(again.kernel.terms) == len(kept.kernel.terms)
        assert kept.kernel.terms[0].numeric_base == "matern52"
        posterior = Posterior(problem, learned.forms)
        assert posterior.fit_of(kept.theta) < posterior.fit_of(learned.theta) + 2.0

    def test_a_term_that_matters_is_kept(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (200, 2))
        problem = problem_of(X, np.floor(4 * X[:, 0]) + 0.05 * rng.normal(size=200), "matern52")
        learned = learn_kernel(problem, (Form("matern52", 1, 1), Form("laplace", 1, 1)), STARTS[1])
        assert "laplace" in [term.numeric_base for term in drop_terms(problem, learned, 1.0).kernel.terms]
