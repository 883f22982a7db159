"""The estimator inside scikit-learn's tools and other libraries' files gives the same numbers as alone."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from children import run, table
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from salsa import SalsaRegressor, explain

FAST = {"order": 2, "relevance": "equal", "random_state": 0}


@pytest.fixture
def data():
    return table(80, D=4)


@pytest.fixture
def new():
    return table(15, D=4, seed=1)[0]


def fitted(X, y, **parameters):
    return SalsaRegressor(**FAST | parameters).fit(X, y)


class TestComposition:
    def test_standardised_columns_give_the_same_predictions(self, data, new):
        """Bandwidths follow the scale of the columns, so standardising changes nothing but rounding."""
        pipeline = make_pipeline(StandardScaler(), SalsaRegressor(**FAST)).fit(*data)
        np.testing.assert_allclose(pipeline.predict(new), fitted(*data).predict(new), rtol=1e-6, atol=1e-8)

    def test_a_column_transformer_equals_the_chosen_columns(self, data, new):
        chosen = ColumnTransformer([("kept", "passthrough", [2, 0])])
        pipeline = make_pipeline(chosen, SalsaRegressor(**FAST)).fit(*data)
        alone = fitted(data[0][:, [2, 0]], data[1])
        assert np.array_equal(pipeline.predict(new), alone.predict(new[:, [2, 0]]))

    def test_data_frames_from_a_transformer_keep_their_names(self, data, new):
        X = pd.DataFrame(data[0], columns=list("abcd"))
        pipeline = make_pipeline(StandardScaler(), SalsaRegressor(**FAST)).set_output(transform="pandas")
        pipeline.fit(X, data[1])
        assert pipeline[-1].feature_names_in_.tolist() == list("abcd")
        rows = pd.DataFrame(new, columns=list("abcd"))
        scaled, rows_scaled = (pipeline[0].transform(table).to_numpy() for table in (X, rows))
        assert np.array_equal(pipeline.predict(rows), fitted(scaled, data[1]).predict(rows_scaled))

    def test_a_transformed_target_equals_a_fit_to_its_logarithm(self, data, new):
        X, y = data[0], np.exp(data[1])
        model = TransformedTargetRegressor(SalsaRegressor(**FAST), func=np.log, inverse_func=np.exp).fit(X, y)
        np.testing.assert_allclose(model.predict(new), np.exp(fitted(X, np.log(y)).predict(new)), rtol=1e-12)

    def test_stacking_uses_held_out_predictions(self, data, new):
        X, y = data
        stack = StackingRegressor([("salsa", SalsaRegressor(**FAST))], LinearRegression(), cv=KFold(4)).fit(X, y)
        held_out = cross_val_predict(SalsaRegressor(**FAST), X, y, cv=KFold(4))
        final = LinearRegression().fit(held_out[:, None], y)
        expected = final.predict(fitted(X, y).predict(new)[:, None])
        np.testing.assert_allclose(stack.predict(new), expected, rtol=1e-12)

    def test_bagging_equals_fits_with_whole_weights(self, data, new):
        """Draws with replacement are whole weights: each member equals the fit with these weights."""
        X, y = data
        bag = BaggingRegressor(SalsaRegressor(**FAST, alpha=0.1), n_estimators=3, random_state=0).fit(X, y)
        counts = [np.bincount(places, minlength=len(y)) for places in bag.estimators_samples_]
        members = [clone(member).fit(X, y, count) for member, count in zip(bag.estimators_, counts, strict=True)]
        expected = np.mean([member.predict(new) for member in members], axis=0)
        np.testing.assert_allclose(bag.predict(new), expected, rtol=1e-8)

    def test_multi_output_regressor_fits_each_output_alone(self, data, new):
        X, y = data
        Y = np.column_stack([y, X[:, 0] ** 2])
        model = MultiOutputRegressor(SalsaRegressor(**FAST)).fit(X, Y)
        expected = [fitted(X, target).predict(new) for target in Y.T]
        assert np.array_equal(model.predict(new), np.column_stack(expected))


class TestSearch:
    def test_cross_val_predict_equals_fits_by_fold(self, data):
        X, y = data
        held_out = cross_val_predict(SalsaRegressor(**FAST), X, y, cv=KFold(4))
        for train, test in KFold(4).split(X):
            assert np.array_equal(held_out[test], fitted(X[train], y[train]).predict(X[test]))

    def test_halving_search_finds_a_good_alpha(self, data, new):
        grid = {"alpha": [1e-3, 1e-1, 10.0]}
        search = HalvingGridSearchCV(SalsaRegressor(**FAST), grid, cv=3, random_state=0, min_resources=24)
        search.fit(*data)
        assert search.best_params_["alpha"] in (1e-3, 1e-1)  # too much smoothing loses
        assert np.array_equal(search.predict(new), fitted(*data, **search.best_params_).predict(new))

    def test_weights_are_routed_through_a_grid_search(self, data, new):
        """Rows of weight 0 have absurd targets, which count neither in the folds nor in the last fit."""
        X, y = data
        y = np.where(np.arange(len(y)) % 10 == 0, 1e3, y)
        weight = np.where(y == 1e3, 0.0, 1.0)
        with sklearn.config_context(enable_metadata_routing=True):
            model = SalsaRegressor(**FAST).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            search = GridSearchCV(model, {"alpha": [0.01, 1.0]}, cv=KFold(4)).fit(X, y, sample_weight=weight)
        direct = SalsaRegressor(**FAST, **search.best_params_)
        scores = [
            direct.fit(X[train], y[train], weight[train]).score(X[test], y[test], weight[test])
            for train, test in KFold(4).split(X)
        ]
        assert search.best_score_ == pytest.approx(np.mean(scores), rel=1e-12)
        assert np.array_equal(search.predict(new), direct.fit(X, y, weight).predict(new))
        assert not np.allclose(search.predict(new), direct.fit(X, y).predict(new), atol=1.0)

    def test_groups_and_weights_are_routed_through_cross_validation(self, data):
        """The folds of the search and the fits in them get the groups of their rows, and hold them out whole."""
        X, y = data
        groups, weight = np.arange(len(y)) % 16, 1.0 + np.arange(len(y)) % 2
        y, folds = y + np.sin(groups), GroupKFold(4)
        with sklearn.config_context(enable_metadata_routing=True):
            model = SalsaRegressor(**FAST).set_fit_request(groups=True, sample_weight=True)
            model.set_score_request(sample_weight=False)
            found = cross_validate(model, X, y, cv=folds, params={"groups": groups, "sample_weight": weight})
            search = GridSearchCV(model, {"order": [1, 2]}, cv=folds).fit(X, y, groups=groups, sample_weight=weight)
        direct = SalsaRegressor(**FAST)
        scores = [
            direct.fit(X[train], y[train], weight[train], groups[train]).score(X[test], y[test])
            for train, test in folds.split(X, groups=groups)
        ]
        assert direct.search_.rho > 0
        np.testing.assert_allclose(found["test_score"], scores, rtol=1e-12)
        best = SalsaRegressor(**FAST | search.best_params_).fit(X, y, weight, groups)
        assert np.array_equal(search.predict(X), best.predict(X))
        assert search.best_estimator_.search_.rho == best.search_.rho

    def test_clones_fit_the_same_bits(self, data, new):
        model = fitted(*data)
        copy = clone(model)
        assert not hasattr(copy, "expansion_")
        assert np.array_equal(copy.fit(*data).predict(new), model.predict(new))


class TestInspection:
    def test_permutation_importance_is_zero_without_relevance(self, data):
        """The importance is exactly zero for a feature of relevance 0, and above 0.05 for all others."""
        X, y = data
        model = fitted(X, y, relevance=[1.0, 1.0, 1.0, 0.0])
        importance = permutation_importance(model, X, y, n_repeats=5, random_state=0).importances_mean
        assert importance[3] == 0.0
        assert (importance[:3] > 0.05).all()

    def test_partial_dependence_is_the_effect_of_the_decomposition(self, data):
        """The partial dependence of an additive model is its mean over the training rows plus the effect."""
        X, y = data
        model = fitted(X, y, order=1)
        found = partial_dependence(model, X, [0], grid_resolution=9, kind="average", method="brute")
        anova = explain.decompose(model)
        effect = anova.effect(0, points=[found["grid_values"][0]], band=False)
        np.testing.assert_allclose(found["average"][0], anova.mean + effect.values, rtol=1e-8)

    @pytest.fixture
    def frame(self):
        """Return an additive fit of a table with whole numbers, categories and dates, and the table."""
        rng, n = np.random.default_rng(0), 120
        X = pd.DataFrame({"rooms": rng.integers(1, 30, n), "area": rng.normal(size=n)})
        X["code"] = rng.integers(3, 6, n)
        X["colour"] = rng.choice(["red", "green", "blue"], n)
        X["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L"], ordered=True)
        X["flag"] = rng.uniform(size=n) < 0.3
        X["when"] = pd.date_range("2024-01-01", periods=n, freq="5D")
        season = np.sin(2 * np.pi * 5 * np.arange(n) / 365)
        y = 0.2 * X["rooms"] + (X["colour"] == "red") + X["size"].cat.codes + season + 0.1 * rng.normal(size=n)
        parameters = {"order": 1, "alpha": 0.1, "categorical_features": ["code", "colour", "flag"]}
        return fitted(X, y, **parameters), X, y

    def dependence(self, model, X, column, **options):
        found = partial_dependence(model, X, [column], **options)
        return found["grid_values"][0], found["average"][0]

    def test_partial_dependence_of_categories_is_the_effect(self, frame):
        """The columns are given by name as categories; their levels may be whole numbers, text, ordered or bool."""
        model, X, _ = frame
        anova = explain.decompose(model)
        for column in ("code", "colour", "size", "flag"):
            values, average = self.dependence(model, X, column, categorical_features=[column])
            effect = anova.effect(column, points=[values], band=False)
            np.testing.assert_allclose(average, anova.mean + effect.values, rtol=1e-9)

    def test_partial_dependence_of_whole_numbers_needs_floats_and_is_the_effect(self, frame):
        """scikit-learn refuses integer columns for every estimator; the same column as float64 gives the effect."""
        model, X, _ = frame
        with pytest.raises(ValueError, match="contains integer data"):
            partial_dependence(model, X, ["rooms"])
        as_floats = X.astype({"rooms": float})
        assert np.array_equal(model.predict(as_floats), model.predict(X))
        values, average = self.dependence(model, as_floats, "rooms", grid_resolution=9)
        assert (values % 1 != 0).any()
        anova = explain.decompose(model)
        effect = anova.effect("rooms", points=[values], band=False)
        np.testing.assert_allclose(average, anova.mean + effect.values, rtol=1e-9)

    def test_partial_dependence_of_dates_is_the_sum_of_the_effects_of_their_parts(self, frame):
        model, X, _ = frame
        dates = pd.date_range("2024-02-01", periods=12, freq="MS").to_numpy()
        values, average = self.dependence(model, X, "when", custom_values={"when": dates})
        anova = explain.decompose(model)
        parts = [name for name in anova.features if name.startswith("when: ")]
        assert len(parts) >= 2
        effects = sum(anova.effect(part, points=[values], band=False).values for part in parts)
        np.testing.assert_allclose(average, anova.mean + effects, rtol=1e-9)

    def test_displays_draw_whole_numbers_and_categories(self, frame):
        model, X, _ = frame
        columns = ["rooms", "area", "colour", "code"]
        display = PartialDependenceDisplay.from_estimator(
            model, X.astype({"rooms": float}), columns, categorical_features=["colour", "code"], grid_resolution=8
        )
        assert display.lines_.ravel()[0].get_xydata().shape == (8, 2)
        heights = [bar.get_height() for bar in display.axes_.ravel()[2].patches]
        expected = [model.predict(X.assign(colour=level)).mean() for level in ("blue", "green", "red")]
        np.testing.assert_allclose(heights, expected, rtol=1e-9)

    def test_permutation_importance_takes_columns_of_every_kind(self, frame):
        """The importance is the mean loss of R2 by predictions with a permuted column."""
        model, X, y = frame
        found = permutation_importance(model, X, y, n_repeats=3, random_state=0)
        assert found.importances_mean[X.columns.get_loc("rooms")] == found.importances_mean.max()
        scores = [model.score(X.assign(when=X["when"].sample(frac=1, random_state=k).to_numpy()), y) for k in range(3)]
        drop = model.score(X, y) - np.mean(scores)
        assert found.importances_mean[X.columns.get_loc("when")] == pytest.approx(drop, abs=0.05)
        assert drop > 0.02

    def test_partial_dependence_display_shows_mean_predictions(self, data):
        X, y = data
        model = fitted(X, y)
        display = PartialDependenceDisplay.from_estimator(model, X, [1], grid_resolution=5)
        line = display.lines_[0, 0].get_xydata()
        for value, average in line:
            changed = X.copy()
            changed[:, 1] = value
            assert average == pytest.approx(model.predict(changed).mean(), rel=1e-10)


@pytest.fixture(params=["exact", "weighted", "lowrank", "mixed"])
def model(request, data):
    X, y = data
    if request.param == "lowrank":
        return fitted(X, y, solver="lowrank", rank=20)
    if request.param == "mixed":
        frame = pd.DataFrame(X, columns=list("abcd")).assign(a=np.where(X[:, 0] > 0, "up", "down"))
        return fitted(frame, y)
    return SalsaRegressor(**FAST).fit(X, y, np.arange(1.0, 81.0) / 40 if request.param == "weighted" else None)


class TestFiles:
    @pytest.fixture
    def rows(self, model, new):
        names = hasattr(model, "feature_names_in_")
        return pd.DataFrame(new, columns=list("abcd")).assign(a="up") if names else new

    def same(self, one, other, rows):
        assert np.array_equal(one.predict(rows), other.predict(rows))
        assert np.array_equal(one.predict_interval(rows), other.predict_interval(rows))
        assert one.get_params() == other.get_params()
        assert one.search_.table.equals(other.search_.table)

    def test_joblib_files_predict_the_same(self, model, rows, tmp_path):
        joblib.dump(model, tmp_path / "m.joblib", compress=3)
        self.same(joblib.load(tmp_path / "m.joblib"), model, rows)

    def test_skops_asks_to_trust_our_types_only(self, model, rows):
        skops = pytest.importorskip("skops.io")
        text = skops.dumps(model)
        types = skops.get_untrusted_types(data=text)
        assert "salsa.regressor.SalsaRegressor" in types
        assert all(name.startswith("salsa.") for name in types)
        self.same(skops.loads(text, trusted=types), model, rows)


def test_pickles_predict_the_same_in_another_process(data, new, tmp_path):
    """One model is fitted here and used there; the other is fitted there and used here."""
    here = fitted(*data)
    (tmp_path / "here.pkl").write_bytes(pickle.dumps((here, *data, new)))
    code = (
        f"import pickle; folder = {str(tmp_path)!r}\n"
        "here, X, y, new = pickle.load(open(folder + '/here.pkl', 'rb'))\n"
        "from sklearn.base import clone\n"
        "pickle.dump((here.predict(new), clone(here).fit(X, y)), open(folder + '/there.pkl', 'wb'))"
    )
    run(code)
    values, there = pickle.loads((tmp_path / "there.pkl").read_bytes())
    assert np.array_equal(values, here.predict(new))
    assert np.array_equal(there.predict(new), here.predict(new))
