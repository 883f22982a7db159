"""The race between learned and equal relevances."""

import numpy as np
import pytest
from conftest import additive_truth, needs_data

from salsa import SalsaRegressor
from salsa.data.noise import Noise
from salsa.data.splits import drawn_splits
from salsa.learning import Form, Problem
from salsa.selection import race
from salsa.selection.race import sum_forms


def problem_of(n, seed=0):
    X, y = additive_truth(n=n, seed=seed)
    splits = drawn_splits(n, 5, None, np.random.RandomState(seed))
    return Problem(X, y[:, None], Noise(np.ones(n)), splits, ("gaussian",) * 6)


def splits_of(problem, seed=0):
    return drawn_splits(len(problem.X), 5, None, np.random.RandomState(seed))


class TestSampling:
    @pytest.mark.parametrize("n", [10, 11, 500])
    def test_halves_are_halves_of_every_part_of_the_target(self, n):
        problem = problem_of(n)
        half = splits_of(problem).halves(problem.Y)
        ordered = half[np.argsort(problem.Y[:, 0])]
        assert abs(half.sum() - n / 2) <= 0.5
        assert all(ordered[i] + ordered[i + 1] == 1 for i in range(0, n - 1, 2))

    def test_rows_cover_the_range_of_the_target(self):
        problem = problem_of(1000)
        rows = splits_of(problem).sample(problem.Y, 100)
        assert len(np.unique(rows)) == 100
        rank = np.argsort(np.argsort(problem.Y[:, 0]))
        np.testing.assert_array_equal(np.sort(rank[rows] // 10), np.arange(100))

    def test_every_row_is_as_likely_as_any_other(self):
        """A sample with too many high targets would judge kernels by another distribution."""
        problem = problem_of(100)
        rank, counts = np.argsort(np.argsort(problem.Y[:, 0])), np.zeros(100)
        for seed in range(400):
            counts[rank[splits_of(problem, seed).sample(problem.Y, 80)]] += 1
        assert np.abs(counts.reshape(10, 10).mean(axis=1) / 400 - 0.8).max() < 0.01
        assert np.abs(counts / 400 - 0.8).max() < 0.1

    def test_few_rows_are_all_sampled(self):
        problem = problem_of(20)
        np.testing.assert_array_equal(splits_of(problem).sample(problem.Y, 100), np.arange(20))

    def test_terms_fit_the_number_of_features(self):
        smooth, rough = Form("matern52"), Form("laplace")
        assert sum_forms(20, 20, None) == (Form("matern52", 1, 3), smooth, rough)
        assert sum_forms(2, 5, None) == (Form("matern52", 1, 2), smooth, rough)
        assert sum_forms(1, 5, None) == (Form("matern52", 1, 1), Form("laplace", 1, 1))
        assert sum_forms(9, 9, "gaussian") == (Form("gaussian", 1, 3), Form("gaussian"))
        assert sum_forms(1100, 1100, None) == (Form("matern52", 1, 3),)  # C(D, p) may exceed float64


class TestRule:
    """Equal relevances win only if they are better by a standard error."""

    @pytest.mark.parametrize(("doubt", "winner"), [(-np.inf, "equal"), (np.inf, "learned")])
    def test_the_number_of_standard_errors_decides(self, doubt, winner, monkeypatch):
        monkeypatch.setattr(race, "DOUBT", doubt)
        monkeypatch.setattr(race, "_material", lambda error: -np.inf)
        monkeypatch.setattr(race, "ALLOWANCES", ())
        model = SalsaRegressor(random_state=0).fit(*additive_truth(n=100))
        assert model.search_.winner.origin == winner
        term = model.expansion_.kernel.terms[0]
        assert (len(set(term.relevance)) == 1 and len(set(term.order_weights[1:])) == 1) == (winner == "equal")

    def test_equal_relevances_that_are_hardly_better_do_not_win(self):
        """In held-out error they are better by 3 %, or a thousandth of the variance: that is not worth a choice."""
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(200, 1))
        search = SalsaRegressor(random_state=0).fit(x, np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=200)).search_
        assert search.winner.origin != "equal"
        equal, learned = search.race["error"][:2]
        assert learned < 1.05 * equal

    def test_a_winner_learned_with_fewer_features_keeps_no_others(self):
        X, y = additive_truth(n=200, D=20)
        model = SalsaRegressor(random_state=0).fit(X, y)
        assert model.search_.winner.origin == "pruned"
        for term in model.expansion_.kernel.terms:
            assert set(np.flatnonzero(term.relevance)) == {0, 1, 2}


class TestRegressor:
    def test_irrelevant_features_are_removed_and_the_error_falls(self):
        X, y = additive_truth(n=200, D=20)
        X_test, y_test = additive_truth(n=500, D=20, seed=1)
        learned = SalsaRegressor(random_state=0).fit(X, y)
        equal = SalsaRegressor(relevance="equal", random_state=0).fit(X, y)
        assert set(np.flatnonzero(learned.relevance_)) == {0, 1, 2}
        assert 1 - learned.score(X_test, y_test) < 0.3 * (1 - equal.score(X_test, y_test))

    def test_the_race_is_on_record(self, data):
        model = SalsaRegressor(random_state=0).fit(*data)
        race = model.search_.race
        assert list(race["kernel"])[:2] == ["equal matern52", "learned matern52+laplace"]
        assert 1 <= sum(race["kernel"] == "pruned matern52+laplace") <= 2
        assert list(race["won"]).count(True) == 1
        assert race.loc[race["won"], "error"].item() < race["error"][0]
        assert (race["standard_error"] > 0).all()

    def test_pure_noise_keeps_equal_relevances_and_predicts_the_mean(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 10)), rng.normal(size=200)
        predictions = SalsaRegressor(random_state=0).fit(X, y).predict(rng.normal(size=(500, 10)))
        assert predictions.std() < 0.3

    def test_fewer_than_80_rows_keep_equal_relevances(self):
        model = SalsaRegressor(random_state=0).fit(*additive_truth(n=60))
        assert "fewer than 80 rows" in model.search_.notes[-1]
        np.testing.assert_array_equal(model.relevance_, 1.0)

    @pytest.mark.slow
    def test_more_than_1029_features_are_learned_without_their_product(self):
        """The numbers of terms C(D, d) exceed float64 from D = 1030 on."""
        X = np.random.default_rng(0).normal(size=(80, 1100))
        model = SalsaRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1])
        assert np.isfinite(model.predict(X)).all()
        assert set(model.search_.race["order"]) <= {1, 2, 3}  # no product of a thousand

    def test_constant_columns_keep_equal_relevances_with_a_note(self):
        model = SalsaRegressor(random_state=0).fit(np.ones((100, 3)), np.arange(100.0))
        assert "no column varies" in model.search_.notes[-1]

    def test_a_constant_output_takes_no_part_in_the_race(self):
        """The computed variance of a constant 0.3 is 1e-33; scaled to one, it would be noise in all errors."""
        X, y = additive_truth(n=100)
        races = [
            SalsaRegressor(random_state=0).fit(X, np.column_stack([y, np.full(100, value)])).search_.race["error"]
            for value in (0.0, 0.3)
        ]
        np.testing.assert_allclose(*races, rtol=1e-6)

    def test_a_product_of_all_features_is_found(self):
        """A truth of full order in few features, where low orders fail."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 5))
        y = np.prod(1.2 + np.sin(2 * X), axis=1)
        model = SalsaRegressor(random_state=0).fit(X[:300], y[:300])
        assert model.order_ >= 4
        assert model.score(X[300:], y[300:]) > 0.97

    def test_a_given_order_is_respected(self, data):
        assert SalsaRegressor(order=1, random_state=0).fit(*data).order_ == 1
        assert SalsaRegressor(order=[1, 2], random_state=0).fit(*data).order_ == 2
        exact = SalsaRegressor(order=2, interactions="exact", random_state=0).fit(*data)
        np.testing.assert_array_equal(exact.expansion_.kernel.order_weights[:2], 0)

    def test_the_seed_does_not_matter_where_no_rows_are_drawn(self, data):
        one, other = (SalsaRegressor(random_state=seed).fit(*data) for seed in (0, 1))
        np.testing.assert_array_equal(one.predict(data[0]), other.predict(data[0]))

    def test_the_order_of_all_features_alone_is_their_product(self):
        """An irrelevant feature leaves the product; it does not take the product with it."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (200, 3))
        y = np.cos(2 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=200)
        model = SalsaRegressor(order=3, interactions="exact", random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.relevance_ > 0, [True, True, False])
        assert model.score(X, y) > 0.9

    def test_given_bandwidths_are_respected(self, data):
        model = SalsaRegressor(bandwidth=3.0, random_state=0).fit(*data)
        expected = 3.0 * data[0].std(axis=0, ddof=1) * 150**-0.2
        used = model.relevance_ > 0
        assert used.any()
        np.testing.assert_allclose(model.bandwidth_[used], expected[used])

    def test_given_order_and_alpha_still_learn_relevances(self, data):
        model = SalsaRegressor(order=2, alpha=0.01, random_state=0).fit(*data)
        assert (model.order_, model.alpha_) == (2, 0.01)
        assert list(model.search_.race["kernel"])[:2] == ["equal matern52", "learned matern52"]

    def test_a_given_base_kernel_is_respected(self, data):
        model = SalsaRegressor(order=2, kernel="matern32", random_state=0).fit(*data)
        assert set(model.search_.race["kernel"]) == {"equal matern32", "learned matern32", "pruned matern32"}
        assert set(model.expansion_.kernel.base) == {"matern32"}

    def test_a_given_base_kernel_is_that_of_every_term(self, data):
        model = SalsaRegressor(kernel="matern32", random_state=0).fit(*data)
        assert {base for term in model.expansion_.kernel.terms for base in term.bases} == {"matern32"}

    def test_rough_functions_get_a_rough_term(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 3))
        steps = np.floor(3 * X[:, 0]) + np.floor(2 * X[:, 1])
        components = SalsaRegressor(random_state=0).fit(X, steps).search_.components.set_index("kernel")
        assert components.loc["laplace", "share"] > 0.3

    def test_shares_of_the_terms_sum_to_one(self, data):
        components = SalsaRegressor(random_state=0).fit(*data).search_.components
        assert components["share"].sum() == pytest.approx(1.0)

    def test_a_hundred_rows_of_many_features_can_be_learned(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 30))
        model = SalsaRegressor(random_state=0).fit(X, X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.normal(size=100))
        assert np.isfinite(model.predict(X)).all()

    @pytest.mark.slow
    def test_five_hundred_features_can_be_learned(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1500, 500))
        y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=1500)
        model = SalsaRegressor(random_state=0).fit(X[:1000], y[:1000])
        assert model.score(X[1000:], y[1000:]) > 0.9

    def test_same_seed_same_bits_whatever_the_threads(self):
        X, y = additive_truth(n=300, D=12)
        models = [SalsaRegressor(random_state=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
        np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))

    def test_several_outputs_and_categories_are_learned(self):
        rng = np.random.default_rng(0)
        code = rng.integers(0, 5, 200)
        X = np.column_stack([code, rng.uniform(size=(200, 3))])
        y = np.array([5.0, -3, 0, 4, -5])[code] + np.sin(5 * X[:, 1])
        model = SalsaRegressor(categorical_features=[0], random_state=0).fit(X, np.column_stack([y, X[:, 1]]))
        assert (model.relevance_[:2] > 0).all()
        np.testing.assert_allclose(model.predict(X)[:, 0], y, atol=0.2)

    @needs_data
    @pytest.mark.filterwarnings("ignore:.* far outside the range")
    @pytest.mark.parametrize(
        ("name", "limit"),
        [("housing", 1.1 * 0.343), ("forestfires", 0.25), ("insulin", 1.05 * 1.038), ("speech", 0.0165)],
    )
    def test_never_much_worse_than_the_paper(self, name, limit):
        from salsa.paper import load_dataset

        data = load_dataset(name)
        model = SalsaRegressor(random_state=0).fit(data.X_train, data.y_train)
        assert np.mean((model.predict(data.X_test) - data.y_test) ** 2) < limit
