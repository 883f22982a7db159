"""SalsaRegressor as users meet it: scikit-learn's rules, the choices, bad input."""

import pickle
import subprocess
import sys
import warnings

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa import SalsaRegressor, load
from salsa._utils.memory import exact_bytes
from salsa.kernels.base import NUMERIC_BASES


def equal(*args, **parameters):
    """The regressor of the paper: nothing is learned, so that every number can be written down."""
    return SalsaRegressor(*args, relevance="equal", **parameters)


@parametrize_with_checks(
    [
        SalsaRegressor(),
        SalsaRegressor(relevance="equal"),
        SalsaRegressor(interactions="exact", bandwidth="rule_of_thumb"),
        SalsaRegressor(order=1, alpha=0.1),
        SalsaRegressor(order="bisect", kernel="matern52"),
    ]
)
def test_scikit_learn_estimator_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise one check skips itself
    check(estimator)


class TestChoices:
    def test_finds_the_order_and_predicts(self, data):
        model = equal(random_state=0).fit(*data)
        X, y = additive_truth(seed=1)
        assert model.order_ == 2
        assert model.score(X, y) > 0.95

    @pytest.mark.parametrize("order", ["bisect", 2, np.int64(2), [1, 3], (2,), range(1, 4), np.array([1, 2])])
    def test_every_form_of_order_is_accepted(self, data, order):
        model = equal(order=order, random_state=0).fit(*data)
        assert model.order_ in ([order] if np.isscalar(order) and order != "bisect" else range(1, 7))
        assert model.search_.order == model.order_

    def test_a_sequence_of_orders_is_tried_completely(self, data):
        assert list(equal(order=[5, 1], random_state=0).fit(*data).search_.table["order"]) == [1, 5]

    def test_only_the_given_alphas_are_tried(self, data):
        model = equal(alpha=[1e-3, 10.0], random_state=0).fit(*data)
        assert model.alpha_ == 1e-3
        assert all(len(r.path.alphas) == 2 for r in model.search_.results)

    @pytest.mark.parametrize("interactions", ["up_to", "exact"])
    @pytest.mark.parametrize("kernel", NUMERIC_BASES)
    def test_is_ridge_with_the_stated_kernel(self, data, interactions, kernel):
        """Predictions equal the bordered linear system with the kernel written out term by term."""
        X, y = data
        model = equal(order=3, alpha=0.2, interactions=interactions, kernel=kernel, bandwidth=2.0).fit(X, y)
        h = 2.0 * X.std(axis=0, ddof=1) * len(X) ** -0.2
        weights = [0, 0, 0, 1] if interactions == "exact" else [0, 1, 1, 1]
        K = naive.additive_kernel(X, X, h, np.ones(6), weights, kernel)
        coef, offset = naive.ridge(K, y[:, None], 0.2)
        np.testing.assert_allclose(model.predict(X), (K @ coef + offset)[:, 0], rtol=1e-9)
        np.testing.assert_allclose(model.bandwidth_, h)

    def test_given_order_and_alpha_equal_the_search_that_ends_there(self, data):
        searched = equal(random_state=0).fit(*data)
        direct = equal(order=searched.order_, alpha=searched.alpha_).fit(*data)
        np.testing.assert_array_equal(direct.predict(data[0]), searched.predict(data[0]))
        assert "were given" in direct.search_.notes[0]

    def test_given_bandwidths_and_relevances_are_used(self, data):
        X, y = data
        model = SalsaRegressor(bandwidth=np.full(6, 3.0), relevance=[1, 1, 1, 0, 0, 0], random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.bandwidth_, np.full(6, 3.0))
        np.testing.assert_array_equal(model.relevance_, [1, 1, 1, 0, 0, 0])
        changed = X.copy()
        changed[:, 3:] = 100.0
        np.testing.assert_array_equal(model.predict(X), model.predict(changed))

    def test_relevant_features_alone_predict_better(self):
        X, y = additive_truth(D=20)
        X_test, y_test = additive_truth(D=20, seed=1)
        unaware = equal(random_state=0).fit(X, y).score(X_test, y_test)
        known = SalsaRegressor(relevance=[1] * 3 + [0] * 17, random_state=0).fit(X, y).score(X_test, y_test)
        assert known > unaware

    def test_categories_are_compared_for_equality_only(self):
        rng = np.random.default_rng(0)
        code = rng.integers(0, 6, 200)
        X = np.column_stack([code, rng.uniform(size=200)])
        y = np.array([5.0, -3, 0, 4, -5, 2])[code] + X[:, 1]
        model = equal(categorical_features=[0], random_state=0).fit(X, y)
        renamed = X.copy()
        renamed[:, 0] = np.array([30.0, 7, 11, -4, 0.5, 99])[code]
        again = equal(categorical_features=[True, False], random_state=0).fit(renamed, y)
        np.testing.assert_allclose(model.predict(X), again.predict(renamed), rtol=1e-9)
        assert model.score(X, y) > 0.999

    def test_categories_of_a_data_frame_by_dtype_or_name(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"code": rng.integers(0, 6, 120), "x": rng.uniform(size=120)})
        y = np.array([5.0, -3, 0, 4, -5, 2])[frame["code"]] + frame["x"]
        by_dtype = equal(order=2, alpha=0.1).fit(frame.astype({"code": "category"}), y)
        by_name = equal(order=2, alpha=0.1, categorical_features=["code"]).fit(frame, y)
        assert by_dtype.expansion_.kernel.base == by_name.expansion_.kernel.base == ("equality", "gaussian")
        assert equal(order=2, alpha=0.1).fit(frame, y).expansion_.kernel.base == ("gaussian",) * 2

    def test_same_seed_same_bits_whatever_the_threads(self):
        X, y = additive_truth(n=500, D=12)
        models = [equal(random_state=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2, -1, None)]
        for model in models[1:]:
            assert model.alpha_ == models[0].alpha_
            np.testing.assert_array_equal(model.expansion_.coef, models[0].expansion_.coef)
            np.testing.assert_array_equal(model.predict(X), models[0].predict(X))

    def test_same_bits_whatever_the_blas_threads(self):
        from threadpoolctl import threadpool_limits

        X, y = additive_truth(n=400)
        fits = []
        for limit in (1, 2):
            with threadpool_limits(limit):
                fits.append(equal(random_state=0).fit(X, y).expansion_.coef)
        np.testing.assert_array_equal(*fits)

    def test_verbose_reports_on_standard_error_only(self, data, capsys):
        equal(random_state=0, verbose=1).fit(*data)
        out, err = capsys.readouterr()
        assert out == ""
        assert "order 1: error" in err
        equal(random_state=0).fit(*data)
        assert capsys.readouterr() == ("", "")


class TestCrossValidation:
    @pytest.mark.parametrize("cv", [3, LeaveOneOut(), ShuffleSplit(3, random_state=0), TimeSeriesSplit(4)])
    def test_cross_validation_error_equals_refits(self, data, cv):
        """Splits may overlap, or train on only some of the rows that they do not test."""
        from sklearn.model_selection import KFold

        X, y = data
        if cv == 3:  # folds by number are drawn from the rows in ascending order
            order = np.lexsort(X.T[::-1])
            X, y = X[order], y[order]
        model = equal(order=2, cv=cv, random_state=0).fit(X, y)
        splits = KFold(3, shuffle=True, random_state=np.random.RandomState(0)) if cv == 3 else cv
        losses = []
        h, w = tuple(model.bandwidth_), [0, 1, 1]
        K = naive.additive_kernel(X, X, h, np.ones(6), w, "gaussian")
        for train, test in splits.split(X):
            coef, offset = naive.ridge(K[np.ix_(train, train)], y[train][:, None], model.alpha_)
            losses.append((y[test] - (K[np.ix_(test, train)] @ coef + offset)[:, 0]) ** 2)
        assert model.search_.table["cv_error"].item() == pytest.approx(
            np.concatenate(losses).mean() / y.var(), rel=1e-5
        )

    @pytest.mark.parametrize("cv", [1, 0, -3, True, "five", 2.5])
    def test_wrong_numbers_of_folds_are_refused(self, data, cv):
        with pytest.raises(ValueError, match="cv"):
            equal(cv=cv).fit(*data)

    def test_cv_none_means_five_folds(self, data):
        fits = [equal(cv=cv, order=2, random_state=0).fit(*data).alpha_ for cv in (None, 5)]
        assert fits[0] == fits[1]

    def test_a_bootstrap_is_refused(self, data):
        with pytest.raises(ValueError, match="more than once"):
            equal(cv=[(np.zeros(100, dtype=int), np.arange(1, 50))]).fit(*data)

    def test_training_and_test_rows_must_differ(self, data):
        with pytest.raises(ValueError, match="trains on"):
            equal(cv=[(np.arange(100), np.arange(50))]).fit(*data)


def test_an_order_that_is_not_asked_for_is_not_tried(data):
    """Relevances of 1e60 are fine at order 1, and too large at order 2, which only groups would need."""
    relevance = np.full(6, 1e60)
    model = SalsaRegressor(order=1, relevance=relevance, random_state=0).fit(*data)
    assert np.isfinite(model.predict(data[0])).all()
    with pytest.raises(ValueError, match="rescale them"):
        SalsaRegressor(order=2, relevance=relevance, random_state=0).fit(*data)


class TestWeights:
    @pytest.mark.parametrize(
        "parameters", [{}, {"order": 2, "alpha": 0.1}, {"interactions": "exact", "kernel": "laplace"}]
    )
    def test_integers_are_repeated_rows_and_zero_is_removed(self, parameters):
        X, y = additive_truth(n=60, D=4)
        weight = np.random.default_rng(0).integers(0, 4, 60)
        fold = np.arange(60) % 3
        repeated = np.repeat(np.arange(60), weight)
        weighted = equal(**parameters, cv=splits_of(fold)).fit(X, y, sample_weight=weight)
        plain = equal(**parameters, cv=splits_of(fold[repeated])).fit(X[repeated], y[repeated])
        np.testing.assert_allclose(weighted.predict(X), plain.predict(X), atol=1e-8, rtol=0)
        assert weighted.order_ == plain.order_
        np.testing.assert_allclose(weighted.alpha_, plain.alpha_)
        if weighted.search_.results:
            columns = ["cv_error", "standard_error", "degrees_of_freedom"]
            np.testing.assert_allclose(weighted.search_.table[columns], plain.search_.table[columns], rtol=1e-5)

    @pytest.mark.parametrize("relevance", ["learned", "equal"])
    def test_weights_are_repeated_rows_in_any_order(self, relevance):
        """The predictions are equal bit for bit, with all parameters at their defaults."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (150, 5))
        y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=150)
        weight = rng.integers(0, 4, 150)
        repeated = rng.permutation(np.repeat(np.arange(150), weight))
        model = SalsaRegressor(relevance=relevance, random_state=0)
        weighted = model.fit(X, y, sample_weight=weight).predict(X)
        np.testing.assert_array_equal(weighted, model.fit(X[repeated], y[repeated]).predict(X))

    def test_equal_weights_of_one_change_nothing(self, data):
        X, y = data
        np.testing.assert_allclose(
            equal(random_state=0).fit(X, y, sample_weight=np.ones(len(y))).predict(X),
            equal(random_state=0).fit(X, y).predict(X),
            rtol=1e-7,
        )

    @pytest.mark.parametrize("factor", [0.1, 100.0, 1e6])
    def test_the_scale_of_weights_does_not_break_the_search(self, data, factor):
        """The penalty is found for any scale of the weights, with the same error."""
        bandwidth = np.full(6, 3.0)
        plain = equal(bandwidth=bandwidth, random_state=0).fit(*data)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="sample_weight sums")
            scaled = equal(bandwidth=bandwidth, random_state=0).fit(*data, np.full(150, factor))
        errors = [model.search_.table["cv_error"].min() for model in (scaled, plain)]
        assert errors[0] == pytest.approx(errors[1], rel=0.01)

    @pytest.mark.parametrize("weight", [np.zeros(150), -np.ones(150), np.ones(3), np.full(150, np.nan)])
    def test_invalid_weights_are_refused(self, data, weight):
        with pytest.raises(ValueError, match=r"weight|sample_weight|NaN"):
            equal().fit(*data, sample_weight=weight)


def splits_of(fold):
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]


class TestInsideScikitLearn:
    def test_a_grid_search_over_a_pipeline_finds_alpha(self, data):
        pipeline = make_pipeline(StandardScaler(), equal(order=2, random_state=0))
        search = GridSearchCV(pipeline, {"salsaregressor__alpha": [1e-4, 10.0]}, cv=3).fit(*data)
        assert search.best_params_ == {"salsaregressor__alpha": 1e-4}

    def test_held_out_predictions_correlate_with_the_target(self, data):
        X, y = data
        assert np.corrcoef(cross_val_predict(equal(random_state=0), X, y, cv=3), y)[0, 1] > 0.9

    def test_cross_val_score_is_the_same_in_processes(self, data):
        scores = cross_val_score(equal(order=2, random_state=0), *data, cv=2, n_jobs=2)
        np.testing.assert_array_equal(scores, cross_val_score(equal(order=2, random_state=0), *data, cv=2))

    def test_works_in_a_child_of_fork(self):
        """Threads do not survive a fork; waiting for those of the parent would hang."""
        code = (
            "import multiprocessing as mp, numpy as np; from salsa import AdditiveKernel;"
            "k = AdditiveKernel(np.ones(10), np.ones(10), [0.0, 1.0]); X = np.ones((1000, 10)); k(X, n_threads=2);"
            "print(mp.get_context('fork').Pool(1).apply(k, (X,)).sum())"
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=600)
        assert done.stdout == "1000000.0\n"

    def test_clones_and_pickles_equal_the_model(self, data):
        model = equal(order=[1, 2], cv=4, random_state=1).fit(*data)
        assert clone(model).get_params() == model.get_params()
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))

    def test_data_frames_keep_their_names(self, data):
        X, y = data
        frame = pd.DataFrame(X, columns=list("abcdef"))
        model = equal(random_state=0).fit(frame, y)
        assert list(model.feature_names_in_) == list("abcdef")
        np.testing.assert_array_equal(model.predict(frame), equal(random_state=0).fit(X, y).predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[list("bacdef")])

    def test_many_outputs_share_one_kernel(self, data):
        X, y = data
        both = equal(order=2, alpha=0.01).fit(X, np.column_stack([y, 3 * y + 1]))
        one = equal(order=2, alpha=0.01).fit(X, y)
        np.testing.assert_allclose(both.predict(X)[:, 0], one.predict(X), rtol=1e-9)
        np.testing.assert_allclose(both.predict(X)[:, 1], 3 * one.predict(X) + 1, rtol=1e-9)
        assert equal(order=1, alpha=1.0).fit(X, y[:, None]).predict(X).shape == (len(y), 1)

    def test_unfitted_models_are_refused(self, data, tmp_path):
        with pytest.raises(NotFittedError):
            equal().predict(data[0])
        with pytest.raises(NotFittedError):
            equal().save(tmp_path / "m.salsa")
        assert not list(tmp_path.iterdir())


class TestOrdinaryInputsThatBreakOthers:
    """Each of these inputs raised "not positive definite" or worse in some other library."""

    @pytest.mark.parametrize("alpha", ["auto", 0.0, 1e-12])
    def test_duplicate_rows_with_different_targets_are_fitted(self, data, alpha):
        X, y = data
        model = equal(alpha=alpha, random_state=0).fit(np.r_[X, X], np.r_[y, y + 1])
        assert np.isfinite(model.predict(X)).all()

    def test_equal_rows_predict_the_mean(self):
        model = equal(random_state=0).fit(np.ones((20, 3)), np.arange(20.0))
        np.testing.assert_allclose(model.predict(np.ones((2, 3))), 9.5)

    def test_constant_column_changes_nothing_at_prediction(self, data):
        X, y = data
        X = np.column_stack([X, np.full(len(X), 7.0)])
        model = equal(random_state=0).fit(X, y)
        moved = X.copy()
        moved[:, -1] = -3.0
        np.testing.assert_array_equal(model.predict(moved), model.predict(X))

    @pytest.mark.parametrize("value", [0.0, 1e8, -3.5])
    def test_constant_target_predicts_the_constant(self, data, value):
        model = equal(random_state=0).fit(data[0], np.full(150, value))
        np.testing.assert_allclose(model.predict(data[0]), value, rtol=1e-9, atol=1e-12)

    def test_a_single_row_predicts_its_target(self):
        model = equal(random_state=0).fit([[1.0, 2.0]], [3.0])
        np.testing.assert_allclose(model.predict([[5.0, 5.0]]), 3.0)

    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_two_to_four_rows_give_finite_predictions(self, n):
        X, y = additive_truth(n=n)
        assert np.isfinite(equal(random_state=0).fit(X, y).predict(X)).all()

    def test_one_feature_is_fitted_with_order_1(self):
        X, _ = additive_truth(D=3)
        model = equal(random_state=0).fit(X[:, :1], np.sin(3 * X[:, 0]))
        assert model.order_ == 1
        assert model.score(X[:, :1], np.sin(3 * X[:, 0])) > 0.999

    def test_more_features_than_rows_give_finite_predictions(self):
        X, y = additive_truth(n=20, D=60)
        assert np.isfinite(equal(random_state=0).fit(X, y).predict(X)).all()

    @pytest.mark.parametrize("scale", [1e-120, 1e-8, 1e8, 1e120])
    def test_units_do_not_matter(self, data, scale):
        X, y = data
        model = equal(random_state=0).fit(X * scale, y)
        np.testing.assert_allclose(model.predict(X * scale), equal(random_state=0).fit(X, y).predict(X), atol=1e-6)

    def test_bisecting_1100_features_stays_within_float64(self):
        """The number of terms C(D, d) of middle orders exceeds float64 from D = 1030 on; the search stays below."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20, 1100))
        assert equal(order="bisect", random_state=0).fit(X, X[:, 0]).order_ < 550

    def test_alpha_zero_means_the_same_given_or_among_candidates(self, data):
        settings = {"bandwidth": np.full(6, 300.0), "interactions": "exact", "kernel": "laplace"}
        given = equal(order=2, alpha=0, **settings).fit(*data)
        among = equal(order=[2], alpha=[0, 0], **settings).fit(*data)
        np.testing.assert_allclose(given.predict(data[0]), among.predict(data[0]), rtol=1e-9)

    def test_units_of_the_target_do_not_matter(self, data):
        X, y = data
        model = equal(random_state=0).fit(X, 1e6 * y + 1e7)
        plain = equal(random_state=0).fit(X, y).predict(X)
        np.testing.assert_allclose(model.predict(X), 1e6 * plain + 1e7, rtol=1e-6)

    def test_zero_relevances_predict_the_mean(self, data):
        X, y = data
        model = SalsaRegressor(relevance=np.zeros(6), random_state=0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y.mean())

    def test_far_outside_the_data_stays_finite(self, data):
        model = equal(random_state=0).fit(*data)
        with pytest.warns(UserWarning, match="3 of 3 rows lie far outside"):
            assert np.isfinite(model.predict(np.full((3, 6), 1e300))).all()


REFUSED = {
    "order too large": ({"order": 7}, "1 to 6, the number of features"),
    "order zero": ({"order": 0}, "an integer from 1 to the number of features"),
    "order not an integer": ({"order": 1.5}, "integer"),
    "order a boolean": ({"order": True}, "integer"),
    "order text": ({"order": "all"}, "bisect"),
    "order empty": ({"order": []}, "order="),
    "order candidate": ({"order": [1, 9]}, "order=9"),
    "alpha negative": ({"alpha": -1.0}, "not negative"),
    "alpha infinite": ({"alpha": np.inf}, "finite"),
    "alpha nan": ({"alpha": float("nan")}, "finite"),
    "alpha text": ({"alpha": "small"}, "alpha='small'"),
    "alpha candidate": ({"alpha": [1.0, -1.0]}, "alpha=-1.0"),
    "relevance text": ({"relevance": "some"}, "one per feature"),
    "relevance length": ({"relevance": [1.0, 2.0]}, "array of 6 numbers"),
    "relevance negative": ({"relevance": -np.ones(6)}, "not negative"),
    "interactions": ({"interactions": "all"}, "'up_to', 'exact'"),
    "kernel": ({"kernel": "rbf"}, "'gaussian'"),
    "kernel equality": ({"kernel": "equality"}, "'gaussian'"),
    "bandwidth text": ({"bandwidth": "wide"}, "rule_of_thumb"),
    "bandwidth zero": ({"bandwidth": 0.0}, "positive"),
    "bandwidth length": ({"bandwidth": [1.0]}, "array of 6 numbers"),
    "bandwidth array": ({"bandwidth": np.zeros(6)}, "positive"),
    "solver": ({"solver": "magic"}, "'auto', 'exact'"),
    "rank": ({"rank": 0}, "positive integer"),
    "rank of the exact solver": ({"rank": 10, "solver": "exact"}, "leave it at None"),
    "categories": ({"categorical_features": [1.5]}, "column numbers"),
    "category without names": ({"categorical_features": ["a"]}, "no column 'a'; columns are 'x0', 'x1'"),
    "category outside": ({"categorical_features": [6]}, "no column 6; columns are 0, 1, 2, 3, 4, 5"),
    "memory": ({"memory_limit": "a lot"}, "4GB"),
    "jobs": ({"n_jobs": 0}, "n_jobs=0"),
}


class TestBadInput:
    @pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED)
    def test_wrong_parameters_are_refused_with_advice(self, data, parameters, message):
        with pytest.raises(ValueError, match=message.replace("..", r"\.\.")):
            SalsaRegressor(**parameters).fit(*data)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (np.empty((0, 3)), np.empty(0), "0 sample"),
            (np.empty((5, 0)), np.ones(5), "0 feature"),
            (np.ones(5), np.ones(5), "1D array"),
            (np.ones((2, 2, 2)), np.ones(2), "dim 3"),
            (np.ones((3, 2)) * 1j, np.ones(3), "Complex data"),
            ([[1.0, np.inf], [2.0, 3.0]], [1.0, 2.0], "infinity"),
            (np.ones((3, 2)), [1.0, np.nan, 2.0], "NaN"),
            (np.ones((3, 2)), [1.0, np.inf, 2.0], "infinity"),
            (np.ones((3, 2)), np.ones(4), "inconsistent numbers of samples"),
            (np.ones((3, 2)), None, "y cannot be None|requires y"),
        ],
    )
    def test_wrong_tables_and_targets_are_refused(self, X, y, message):
        with pytest.raises(ValueError, match=message):
            SalsaRegressor().fit(X, y)

    def test_wrong_rows_for_prediction_are_refused(self, data):
        model = SalsaRegressor(order=1, alpha=1.0).fit(*data)
        with pytest.raises(ValueError, match="5 features"):
            model.predict(np.ones((2, 5)))
        with pytest.raises(ValueError, match="column 'x2' has an infinite value in row 1"):
            model.predict(np.where(np.arange(12).reshape(2, 6) == 8, np.inf, 0.0))

    def test_memory_is_refused_before_it_is_taken(self):
        X = np.arange(100_000.0).reshape(50_000, 2)
        with pytest.raises(MemoryError, match=r"needs about 100 GB, the limit is 2 GB.*sample of the rows"):
            SalsaRegressor(memory_limit="2GB", solver="exact").fit(X, X[:, 0])
        assert exact_bytes(50_000) == 100_000_000_000
        with pytest.raises(MemoryError, match=r"the limit is 100 MB.*the least limit that works"):
            SalsaRegressor(memory_limit="100MB").fit(X, X[:, 0])
        with pytest.raises(
            MemoryError, match=r"the limit is 2 GB.*'pcg' with rank=\d+ fits"
        ):  # the features of all rows
            SalsaRegressor(memory_limit="2GB", solver="pcg", n_jobs=1).fit(X, X[:, 0])


class TestTables:
    @pytest.fixture
    def frame(self):
        rng = np.random.default_rng(0)
        city = np.array(["Oslo", "Rome", "Lima"], dtype=object)[rng.integers(0, 3, 120)]
        size = np.where(rng.uniform(size=120) < 0.1, np.nan, rng.uniform(size=120))
        y = np.where(city == "Rome", 2.0, 0.0) + np.nan_to_num(size, nan=0.5) + 0.1 * rng.normal(size=120)
        return pd.DataFrame({"city": city, "size": size, "new": rng.uniform(size=120) < 0.5}), y

    def test_pandas_polars_arrow_and_numpy_give_the_same_numbers(self, frame):
        polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
        table, y = frame
        tables = [table, polars.from_pandas(table), arrow.Table.from_pandas(table), table.to_numpy(dtype=object)]
        first, *others = [SalsaRegressor(random_state=0).fit(X, y).predict(X) for X in tables]
        for other in others:
            np.testing.assert_array_equal(first, other)

    def test_categories_matter_and_unseen_ones_count_as_missing(self, frame):
        table, y = frame
        model = SalsaRegressor(random_state=0).fit(table, y)
        assert model.score(table, y) > 0.9
        new = table.head(2).assign(city=["Tokyo", None])
        with pytest.warns(UserWarning, match="'city' has values not seen in training, such as 'Tokyo'"):
            tokyo, missing = model.predict(new.assign(size=0.5, new=True))
        assert tokyo == missing

    @pytest.mark.parametrize("value", ["yes", 1.0, True])
    def test_columns_of_one_value_or_nothing_are_informative(self, value):
        rng = np.random.default_rng(0)
        present = rng.uniform(size=120) < 0.4
        X = pd.DataFrame(
            {"pool": np.where(present, np.array(value, dtype=object), None), "size": rng.uniform(size=120)}
        )
        y = 3.0 * present + X["size"]
        model = SalsaRegressor(random_state=0).fit(X[:100], y[:100])
        assert model.score(X[100:], y[100:]) > 0.95

    def test_discrete_targets_on_discrete_features_are_not_merged(self):
        """Equal rows are separate observations: leaving one out must not leave out its copies."""
        rng = np.random.default_rng(0)
        cell = rng.integers(0, 6, 600)
        truth = np.array([0.9, 0.6, 0.6, 0.4, 0.1, 0.1])
        X = pd.DataFrame({"a": np.array(list("abc"))[cell // 2], "b": np.array(list("uv"))[cell % 2]})
        model = SalsaRegressor(random_state=0).fit(X, (rng.uniform(size=600) < truth[cell]).astype(float))
        np.testing.assert_allclose(model.predict(X), truth[cell], atol=0.12)

    def test_a_saved_model_keeps_its_columns(self, frame, tmp_path):
        table, y = frame
        model = SalsaRegressor(relevance="equal", order=1).fit(table, y, sample_weight=np.arange(120) % 3 + 1)
        model.save(tmp_path / "model.salsa")
        again = load(tmp_path / "model.salsa")
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        np.testing.assert_array_equal(again.predict_interval(table), model.predict_interval(table))
        assert again.columns_ == model.columns_

    def test_a_model_that_has_predicted_is_pickled_as_before(self, data):
        model = equal(random_state=0).fit(*data)
        before = pickle.dumps(model)
        model.predict(data[0])
        assert pickle.dumps(model) == before

    def test_rows_far_outside_the_range_are_counted(self, data):
        X, y = data
        model = SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(X, y)
        with pytest.warns(UserWarning, match="2 of 3 rows lie far outside the range"):
            model.predict(np.array([np.zeros(6), np.full(6, 9.0), np.full(6, -9.0)]))


class TestUncertainty:
    def test_grows_away_from_the_data_up_to_the_prior(self, data):
        X, y = data
        model = SalsaRegressor(random_state=0).fit(X, y)
        _, near = model.predict(X, return_std=True)
        with pytest.warns(UserWarning, match="far outside"):
            _, far = model.predict(X + 5, return_std=True)
        assert near.shape == (150,)
        assert near.max() < far.min()

    def test_intervals_hold_new_observations(self):
        X, y = additive_truth(n=200)
        X_test, y_test = additive_truth(n=1000, seed=1)
        low, high = SalsaRegressor(random_state=0).fit(X, y).predict_interval(X_test, 0.9).T
        assert (low < high).all()
        assert 0.86 < np.mean((low <= y_test) & (y_test <= high)) < 0.96

    def test_intervals_scale_with_the_units_of_outputs(self, data):
        X, y = data
        Y = np.column_stack([y, 1000 * y])
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal").fit(X, Y)
        intervals = model.predict_interval(X[:5])
        assert intervals.shape == (5, 2, 2)
        np.testing.assert_allclose(1000 * intervals[:, 0], intervals[:, 1], rtol=1e-9)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_leave_one_out_is_the_fit_without_the_row(self, data, weighted):
        X, y = data[0][:40], 1e6 * data[1][:40]
        weight = np.arange(40) % 3 + 0.5 if weighted else None
        kernel = {"relevance": "equal", "bandwidth": np.ones(6), "order": 2, "alpha": 0.3}
        model = SalsaRegressor(**kernel).fit(X, y, weight)
        found = model.leave_one_out()
        place = np.argsort(y)[np.argsort(np.argsort(found.target[:, 0]))]  # index of its rows in ours
        np.testing.assert_allclose(found.target[:, 0], y[place], rtol=1e-9)
        for i in (0, 17, 39):
            rest = np.delete(np.arange(40), i)
            left = SalsaRegressor(**kernel).fit(X[rest], y[rest], None if weight is None else weight[rest])
            assert found.prediction[place == i, 0] == pytest.approx(left.predict(X[[i]]), rel=1e-7)
        score = (found.target - found.prediction) / found.sd
        assert 0.5 < np.std(score) < 2.0
        expected = np.ones(40) if weight is None else (weight / weight.mean())[place]
        np.testing.assert_allclose(found.weight, expected)

    def test_uncertainty_of_unfitted_models_is_refused(self):
        with pytest.raises(NotFittedError):
            SalsaRegressor().functional_sd(np.ones((1, 1)), np.ones(1))
        with pytest.raises(NotFittedError):
            SalsaRegressor().leave_one_out()

    def test_uncertainty_is_not_pickled(self, data):
        model = SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(*data)
        before = pickle.dumps(model)
        model.predict_interval(data[0])
        assert pickle.dumps(model) == before

    @pytest.mark.parametrize("coverage", [0, 1, 90, "0.9", None])
    def test_coverages_outside_0_to_1_are_refused(self, data, coverage):
        model = SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(*data)
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.predict_interval(data[0], coverage)
