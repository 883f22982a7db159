"""Learned kernels: the posterior and its gradient, what is found, what is removed."""

import naive
import numpy as np
import pytest
from conftest import additive_truth

from salsa.kernels.base import BASE_KERNELS
from salsa.learning import Problem, Structure
from salsa.learning.learn import SNAP, Posterior, learn_kernel, leave_one_out_losses, prune_kernel
from salsa.learning.parameters import ABSENT
from salsa.losses import SquaredError


def problem_of(X, Y, base="gaussian", weight=None, **others):
    bases = (base,) * X.shape[1] if isinstance(base, str) else base
    return Problem(X, Y if Y.ndim == 2 else Y[:, None], weight, bases, **others)


def small_problem(base="gaussian", q=2, weighted=True, D=4):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, D))
    if naive.BASE_KERNELS[base].for_categories:
        X = np.round(X)
    weight = rng.integers(1, 4, 25).astype(float) if weighted else None
    return problem_of(X, rng.normal(size=(25, q)), base, weight)


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
            basis = np.linalg.svd(np.eye(25) - 1 / 25)[0][:, :24]
            C, y = basis.T @ (K + noise * np.eye(25)) @ basis, basis.T @ posterior.evidence.Y[:, 0]
            return 0.5 * y @ np.linalg.solve(C, y) + 0.5 * np.linalg.slogdet(C)[1]

        other = theta + 0.3
        ours = posterior.fit_of(other) - posterior.fit_of(theta)
        assert ours == pytest.approx(contrasts(other) - contrasts(theta), rel=1e-8)

    def test_weights_are_repeated_rows(self):
        """Up to a constant that does not depend on the parameters."""
        weighted = small_problem()
        repeated = np.repeat(np.arange(25), weighted.weight.astype(int))
        plain = weighted.rows(repeated)._replace(weight=None)
        ours, theirs = Posterior(weighted, Structure(1, 3)), Posterior(plain, Structure(1, 3))
        theta = ours.parameters.start()
        np.testing.assert_allclose(theta, theirs.parameters.start())
        shift = np.linspace(-0.5, 0.5, len(theta))
        assert ours(theta + shift)[0] - ours(theta)[0] == pytest.approx(
            theirs(theta + shift)[0] - theirs(theta)[0], rel=1e-6
        )
        np.testing.assert_allclose(ours(theta)[1], theirs(theta)[1], rtol=1e-5, atol=1e-6)

    def test_leave_one_out_residuals_equal_refits(self):
        problem = small_problem(q=2)
        learned = learn_kernel(problem, Structure(1, 2), iterations=5)
        K, posterior = learned.kernel(problem.X), Posterior(problem, Structure(1, 2))
        refits = [
            naive.held_out_residuals(K, posterior.evidence.Y, learned.noise, np.array([i]), problem.weight)[0]
            for i in range(25)
        ]
        losses = leave_one_out_losses(problem, learned.kernel, learned.noise, SquaredError())
        np.testing.assert_allclose(losses, np.mean(np.square(refits), axis=1), rtol=1e-6)


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
