"""Conditional likelihoods of blocks of rows."""

import naive
import numpy as np
import pytest

from learning.problems import GROUP, low, problem_of, small_problem
from salsa.learning import Block, Form
from salsa.learning import conditional as module
from salsa.learning.conditional import in_blocks
from salsa.learning.evidence import Evidence
from salsa.learning.learn import STARTS, Posterior, drop_terms, learn_again, learn_kernel, prune_kernel

FORMS = (Form("matern52", 1, 3), Form("matern52"), Form("laplace"))
ORDER = np.random.default_rng(1).permutation(25)


def block(given, rows):
    return Block(np.array(given, dtype=np.intp), np.array(rows, dtype=np.intp))


#: every block is conditional on all rows before it
CHAIN = (block([], ORDER[:7]), block(ORDER[:7], ORDER[7:15]), block(ORDER[:15], ORDER[15:]))
#: the last two blocks are conditional on some rows
SOME = (block([], ORDER[:7]), block(ORDER[2:7], ORDER[7:15]), block(ORDER[5:10], ORDER[15:]))


@pytest.fixture
def small_blocks(monkeypatch):
    for name, value in {"FIRST": 20, "BLOCK": 12, "GIVEN": 9, "COORDINATES": 10}.items():
        monkeypatch.setattr(module, name, value)


def posteriors(blocks, **settings):
    """Return the posterior of blocks, the posterior of all rows at once, and a point to compare them at."""
    problem = small_problem(**settings)
    ours, whole = Posterior(problem._replace(blocks=blocks), FORMS), Posterior(problem, FORMS)
    start = whole.parameters.start(*STARTS[0])
    theta = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
    return ours, whole, (theta, np.log(0.4)) if whole.grouped else (theta,)


SETTINGS = [{"q": 1, "weighted": False}, {"q": 2}, {"group": GROUP}]


class TestLikelihood:
    @pytest.mark.parametrize("settings", SETTINGS)
    def test_blocks_given_all_rows_before_have_the_likelihood_of_all_rows(self, settings):
        ours, whole, at = posteriors(CHAIN, **settings)
        value, gradient = whole(*at)
        assert ours(*at)[0] == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(ours(*at)[1], gradient, rtol=1e-7, atol=1e-7 * np.abs(gradient).max())
        assert ours.fit_of(at[0]) == pytest.approx(whole.fit_of(at[0]), rel=1e-10)

    def test_blocks_of_500_rows_and_more_are_factorised_alike(self):
        """Their factors are computed without the interpreter's lock."""
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(700, 3))
        problem = problem_of(X, np.sin(6 * X[:, 0]) + rng.normal(size=700))
        chain = block([], range(520)), block(range(520), range(520, 700))
        ours, whole = Posterior(problem._replace(blocks=chain), FORMS), Posterior(problem, FORMS)
        theta = whole.parameters.start(*STARTS[0])
        value, gradient = whole(theta)
        assert ours(theta)[0] == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(ours(theta)[1], gradient, rtol=1e-6, atol=1e-7 * np.abs(gradient).max())

    def test_a_block_has_the_density_of_its_rows_and_given_ones_over_that_of_the_given_ones(self):
        ours, _, (theta,) = posteriors(SOME, q=1, weighted=False)
        problem, other = ours.problem, theta + 0.3
        y = Evidence(problem.Y, problem.noise).Y[:, 0]

        def expected(theta):
            C = ours.parameters.kernel(theta)(problem.X) + np.exp(theta[-1]) * np.eye(25)
            sets = [(sign, rows) for given, rows in SOME for sign, rows in ((1, [*given, *rows]), (-1, given))]
            return sum(sign * naive.restricted_likelihood(y[r], C[np.ix_(r, r)]) for sign, r in sets if len(r))

        change = ours.fit_of(other) - ours.fit_of(theta)
        assert change == pytest.approx(expected(other) - expected(theta), abs=1e-6)  # with a jitter of 1e-10

    @pytest.mark.parametrize("settings", SETTINGS)
    def test_gradient_agrees_with_finite_differences(self, settings):
        ours, _, at = posteriors(SOME, **settings)
        vector = np.append(at[0], at[1:])
        split = (lambda v: (v[:-1], v[-1])) if ours.grouped else (lambda v: (v,))
        numeric = naive.finite_difference(lambda v: ours(*split(v))[0], vector, 1e-3)
        gradient = ours(*at)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())

    def test_noise_variances_share_matrices_and_have_their_own_likelihoods(self):
        ours, _, (theta,) = posteriors(SOME, q=2)
        best = ours.with_own_noise(theta)
        variances = np.exp(np.append(np.log(np.geomspace(1e-6, 2.0, 9)), theta[-1]))
        fits = [ours.fit_of(np.append(theta[:-1], np.log(s2))) for s2 in variances]
        assert best.noise == pytest.approx(variances[np.argmin(fits)], rel=1e-12)

    def test_threads_do_not_change_a_bit(self):
        ours, _, (theta,) = posteriors(SOME, q=2)
        results = []
        for threads in (1, 2, 5, None):
            ours.problem = ours.problem._replace(threads=threads)
            results.append(ours(theta))
        for value, gradient in results[1:]:
            assert value == results[0][0]
            np.testing.assert_array_equal(gradient, results[0][1])


class TestBlocks:
    def problem(self, n=90):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(n, 3))
        return problem_of(X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n))

    def kernel(self, width=1.0):
        posterior = Posterior(self.problem(), low(1, 2))
        return posterior.result(posterior.parameters.start(0.1, width)).kernel

    def test_every_row_is_in_one_block_and_given_rows_are_in_earlier_ones(self, small_blocks):
        problem, kernel = self.problem(), self.kernel()
        blocks = in_blocks(problem, kernel).blocks
        assert len(blocks[0].given) == 0
        assert len(blocks[0].rows) == 20
        earlier = set(blocks[0].rows)
        for given, rows in blocks[1:]:
            assert 0 < len(rows) <= 12
            assert len(given) == 9
            assert set(given) <= earlier
            assert not set(rows) & earlier
            earlier |= set(rows)
        assert earlier == set(range(90))

    def test_given_rows_have_the_largest_kernel_values_with_the_block(self, small_blocks):
        problem, kernel = self.problem(), self.kernel()
        blocks = in_blocks(problem, kernel).blocks
        earlier, (given, rows) = np.concatenate([one.rows for one in blocks[:3]]), blocks[3]
        near = (kernel(problem.X[earlier], problem.X[rows]) ** 2).sum(axis=1)
        assert set(given) == set(earlier[np.argsort(-near)[:9]])

    def test_rows_of_a_block_are_closer_together_than_rows_at_large(self, small_blocks):
        problem, kernel = self.problem(400), self.kernel(0.3)
        blocks = in_blocks(problem, kernel).blocks
        within = np.mean([kernel(problem.X[rows]).mean() for _, rows in blocks[1:]])
        assert within > 1.3 * kernel(problem.X).mean()

    @pytest.mark.parametrize("n", [20, 21, 45])
    def test_identical_rows_and_few_rows_can_be_cut(self, small_blocks, n):
        problem = self.problem(n)
        problem = problem._replace(X=np.ones_like(problem.X))
        kernel = self.kernel()
        blocks = in_blocks(problem, kernel).blocks
        assert sorted(np.concatenate([rows for _, rows in blocks])) == list(range(n))

    def test_learning_pruning_and_dropping_terms_work_on_blocks(self, small_blocks):
        """The third feature does not matter: it is removed, and the function is found."""
        problem = self.problem(300)
        first = learn_kernel(problem.rows(np.arange(60)), FORMS)
        blocks = in_blocks(problem.rows(np.arange(300)), first.kernel)
        learned, gain = learn_again(blocks, first)
        assert gain >= 0
        pruned = prune_kernel(blocks, drop_terms(blocks, learned, 1.0), 2.0, rounds=1)
        assert pruned.kernel.relevance[2] == 0.0
        assert (pruned.kernel.relevance[:2] > 0).all()
