"""Learned kernels of sets of features."""

import naive
import numpy as np
import pytest
from conftest import additive_truth

from learning.problems import problem_of, small_problem
from salsa.learning import Form
from salsa.learning.learn import STARTS, Posterior, drop_terms, learn_again, learn_kernel, only_features, prune_kernel
from salsa.learning.parameters import SumParameters, completed, products_fit
from salsa.selection.race import low_forms, monotone_set_forms, set_forms

PAIRS = ((0, 1), (2, 3))
#: low orders, products, overlapping sets, and lone features
FORMS = [
    (Form("gaussian", 1, 2, PAIRS),),
    (Form("gaussian", sets=PAIRS),),
    set_forms(((0, 1), (1, 2), (3,)), 4, None),
    set_forms(((0, 1, 2), (2, 3)), 4, "matern32"),
]


def terms_by_feature(kernel):
    return [tuple(np.flatnonzero(term.relevance)) for term in kernel.terms]


class TestForms:
    def test_every_set_has_low_orders_and_products(self):
        low, smooth, rough = set_forms(((0, 1), (2, 3)), 4, None)
        assert (low, smooth, rough) == (
            Form("matern52", 1, 2, PAIRS),
            Form("matern52", sets=PAIRS),
            Form("laplace", sets=PAIRS),
        )

    def test_disjoint_sets_of_one_size_share_forms_and_others_do_not(self):
        sets = ((0, 1), (1, 2), (3, 4), (5, 6, 7, 8), (9,), (10,))
        forms = set_forms(sets, 11, None)
        assert [(form.highest, form.sets) for form in low_forms(forms)] == [
            (3, ((5, 6, 7, 8),)),
            (2, ((0, 1), (3, 4))),
            (2, ((1, 2),)),
            (1, ((9, 10),)),
        ]
        assert len(forms) == 10  # three of every layer, and one of the lone features

    def test_a_given_order_leaves_out_products(self):
        forms = set_forms(((0, 1, 2), (3, 4)), 5, None, 2)
        assert forms == (Form("matern52", 1, 2, ((0, 1, 2),)), Form("matern52", 1, 2, ((3, 4),)))

    def test_without_sets_the_first_form_tells_which_features_matter(self):
        forms = (Form("matern52", 1, 1), Form("laplace", 1, 1))
        assert low_forms(forms) == forms[:1]

    def test_products_of_sets_with_monotone_features_have_the_free_ones(self):
        forms = monotone_set_forms(((0, 1, 2), (1, 3), (4,)), np.array([1, 0, 0, 0, 1], bool), None)
        low = (Form("matern52", 1, 2, ((0, 1, 2),)), Form("matern52", 1, 2, ((1, 3),)), Form("matern52", 1, 1, ((4,),)))
        free = [((1, 2),), ((1, 3),)]
        assert forms == (*low, *(Form(base, sets=S) for S in free for base in ("matern52", "laplace")))
        assert low_forms(forms) == low

    def test_products_are_kept_where_no_low_orders_tell(self):
        forms = (Form("matern52", 2, 2, ((0, 1, 2),)), Form("matern52", sets=((3, 4),)))
        assert low_forms(forms) == forms

    def test_products_are_possible_while_their_numbers_are_float64(self):
        assert products_fit(1000, 1000)
        assert not products_fit(1001, 1001)
        assert products_fit(2, 100_000)
        assert not products_fit(1000, 2000)


class TestParameters:
    @pytest.mark.parametrize("forms", FORMS)
    def test_gradient_agrees_with_finite_differences(self, forms):
        posterior = Posterior(small_problem(), forms)
        start = posterior.parameters.start(*STARTS[0])
        theta = start + 0.2 * np.random.default_rng(0).normal(size=len(start))
        numeric = naive.finite_difference(lambda t: posterior(t)[0], theta, 1e-3)
        gradient = posterior(theta)[1]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())

    def test_the_kernel_is_the_sum_of_the_kernels_of_the_sets(self):
        problem = small_problem()
        parameters = SumParameters(problem, (Form("gaussian", 1, 2, PAIRS),))
        theta = parameters.start(*STARTS[0]) + 0.2 * np.random.default_rng(0).normal(size=parameters.size)
        kernel = parameters.kernel(theta)
        expected = np.zeros((25, 25))
        for S, term, block in zip(PAIRS, kernel.terms, parameters.blocks, strict=True):
            own, weights = problem.X[:, S], np.exp([-np.inf, *theta[block.t]])
            expected += naive.additive_kernel(own, own, term.bandwidth[[*S]], term.relevance[[*S]], weights)
        np.testing.assert_allclose(kernel(problem.X), expected, rtol=1e-12)

    @pytest.mark.parametrize("sets", [((0, 1), (2, 3)), ((0, 1), (1, 2), (2, 3))])
    def test_prior_variances_of_all_sets_add_up_to_the_variance_of_one(self, sets):
        """The kernels of sets start with the variance of the kernel of all features, whatever the number of sets."""
        problem, whole = small_problem(), (Form("gaussian", 1, 2), Form("gaussian"))
        forms = set_forms(sets, 4, "gaussian")
        variances = [
            SumParameters(problem, one).kernel(SumParameters(problem, one).start(*STARTS[0])).diagonal(problem.X[:1])[0]
            for one in (whole, forms)
        ]
        assert variances[0] == pytest.approx(variances[1], rel=1e-12)

    def test_removing_a_feature_averages_it_out_of_its_sets(self):
        """Every k_j becomes its mean: in the sets that hold the feature, and nowhere else."""
        problem = small_problem(D=5)
        forms = set_forms(((0, 1, 2), (2, 3), (3, 4)), 5, "gaussian")
        parameters = SumParameters(problem, forms)
        theta = parameters.start(*STARTS[0]) + 0.1 * np.random.default_rng(0).normal(size=parameters.size)
        levels = parameters.levels(theta)
        removed = parameters.kernel(parameters.without(theta, np.array([2]), levels))(problem.X)
        expected = np.zeros((25, 25))
        for place, term in enumerate(parameters.kernel(theta).terms):
            s = naive.scaled_bases(problem.X, problem.X, term.bandwidth, term.relevance)
            s[2] = term.relevance[2] * levels[place, 2]
            weights = term.order_weights * term.normaliser
            for m in range(1, len(weights)):
                e = naive.elementary_symmetric(s, m)
                expected += weights[m] * (e - (m == 1) * s[2])  # a constant is left to the offset
        np.testing.assert_allclose(removed, expected, rtol=1e-10)

    def test_a_set_without_features_leaves_the_kernel(self):
        problem = small_problem()
        forms = set_forms(PAIRS, 4, "gaussian")
        parameters = SumParameters(problem, forms)
        theta = parameters.start(*STARTS[0])
        for found in (
            parameters.start(*STARTS[0], np.array([True, True, False, False])),
            parameters.without(theta, np.array([2, 3]), parameters.levels(theta)),
        ):
            assert terms_by_feature(parameters.kernel(found)) == [(0, 1), (0, 1)]
            np.testing.assert_array_equal(parameters.present(found), [True, True, False, False])
            np.testing.assert_array_equal(np.isfinite(completed(found, theta)), True)

    def test_a_form_loses_its_bandwidth_with_its_last_set(self):
        parameters = SumParameters(small_problem(), (Form("gaussian", 1, 2, PAIRS), Form("gaussian", sets=PAIRS)))
        theta = parameters.start(*STARTS[0])
        one = parameters.without_term(theta, 2)
        both = parameters.without_term(one, 3)
        v = parameters.blocks[2].v
        assert np.isfinite(one[v])
        assert both[v] == np.inf
        assert parameters.present_terms(both) == [0, 1]

    def test_revived_terms_of_sets_share_the_least_variance(self):
        problem = problem_of(*additive_truth(n=80))
        forms = set_forms(((0, 1), (2, 3), (4, 5)), 6, None)
        parameters = SumParameters(problem, forms)
        theta = parameters.start(*STARTS[0])
        products = range(3, 9)
        for place in products:
            theta[parameters.blocks[place].t] = -15.0
        before, after = (sum(parameters.variances(t).values()) for t in (theta, parameters.revived(theta)))
        assert after / before == pytest.approx(1 + 2 * 0.05, rel=1e-3)


class TestLearning:
    def test_irrelevant_sets_are_pruned(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (150, 8))
        problem = problem_of(X, np.sin(3 * X[:, 0] * X[:, 1]) + 0.1 * rng.normal(size=150), "matern52")
        forms = low_forms(set_forms(((0, 1), (2, 3), (4, 5), (6, 7)), 8, None))
        pruned = prune_kernel(problem, learn_kernel(problem, forms), 2.0)
        assert terms_by_feature(pruned.kernel) == [(0, 1)]

    @pytest.mark.parametrize("few", [1, 3, 100])
    def test_terms_that_cost_nothing_are_dropped_however_they_are_tried(self, few, monkeypatch):
        """One by one, by halving in the order of costs, and by halving in the order of prior variances."""
        monkeypatch.setattr("salsa.learning.learn.FEW_TERMS", few)
        monkeypatch.setattr("salsa.learning.learn.FEW", 100 if few == 3 else 2)
        X, y = additive_truth(n=120)
        problem = problem_of(X, y, "matern52")
        learned = learn_kernel(problem, set_forms(((0, 3), (1, 2), (4, 5)), 6, None))
        dropped = drop_terms(problem, learned, 1.0)
        assert {(1, 2)} <= set(terms_by_feature(dropped.kernel)) <= {(0, 3), (1, 2)}
        assert len(dropped.kernel.terms) < len(learned.kernel.terms)
        assert Posterior(problem, learned.forms).fit_of(dropped.theta) <= (
            Posterior(problem, learned.forms).fit_of(learned.theta) + 1.0 * len(learned.kernel.terms)
        )

    def test_learning_goes_on_from_fewer_features(self):
        problem = problem_of(*additive_truth(n=100), "matern52")
        learned = learn_kernel(problem, set_forms(((0, 3), (1, 2), (4, 5)), 6, None))
        features = np.array([True, True, True, False, False, False])
        again, _ = learn_again(problem, only_features(learned, features))
        assert set(terms_by_feature(again.kernel)) == {(0,), (1, 2)}
