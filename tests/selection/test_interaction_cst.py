"""Constraints on interactions: the fitted function has none that are forbidden, whatever fits it."""

import warnings
from itertools import combinations

import naive
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import salsa
from salsa import AdditiveKernel, SalsaClassifier, SalsaRegressor, explain

NAMES = ["area", "rooms", "age", "heating", "floor", "noise"]
SETS = [{"area", "rooms"}, {"age", "heating", "floor"}]
ALLOWED = {frozenset(pair) for S in ((0, 1), (2, 3, 4)) for pair in combinations(S, 2)}
TINY = 1e-12


def table(n=120, seed=0):
    """Return a table of six columns whose truth also has the forbidden interaction area x age."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    y = np.sin(3 * X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * X[:, 4] + 0.3 * X[:, 0] * X[:, 2]
    return pd.DataFrame(X, columns=NAMES), y + 0.1 * rng.normal(size=n)


def rounding(model):
    """Return a bound of the rounding errors of four predictions, relative to the range of the function."""
    kernel, anchors, coef, offset = model.expansion_.parts
    largest = np.abs(offset[0]) + np.abs(coef[:, 0]).sum() * kernel.diagonal(anchors[:1])[0]
    return 4 * np.finfo(float).eps * largest / np.ptp(model.expansion_.predict(anchors)[:, 0])


def interacting(model, X, limit=None):
    """Return pairs of features with a mixed second difference above this share of the range; None: above rounding."""
    X = X.to_numpy() if isinstance(X, pd.DataFrame) else X
    limit = max(TINY, rounding(model)) if limit is None else limit
    limit *= np.ptp(model.expansion_.predict(X)[:, 0])

    def f(Z):
        return model.expansion_.predict(Z)[:, 0]

    differences = {pair: naive.mixed_difference(f, X, *pair, (0.3, -0.4)) for pair in combinations(range(6), 2)}
    return {frozenset(pair) for pair, values in differences.items() if np.abs(values).max() > limit}


FITS = {
    "learned": {},
    "equal": {"relevance": "equal"},
    "given relevances": {"relevance": np.array([1.0, 2.0, 1.0, 0.5, 1.0, 0.1])},
    "given order": {"order": 2},
    "orders that compete": {"order": [1, 2]},
    "one order alone": {"interactions": "exact"},
    "bisected": {"relevance": "equal", "order": "bisect"},
    "one base kernel": {"kernel": "matern32"},
    "given bandwidths": {"bandwidth": 3.0},
    "anchors": {"solver": "lowrank", "rank": 60},
    "conjugate gradients": {"solver": "pcg", "rank": 60},
    "random features": {"solver": "features", "rank": 60, "alpha": 0.1},
    "parts": {"solver": "divide", "rank": 60},
}


class TestFunction:
    @pytest.mark.parametrize("parameters", FITS.values(), ids=FITS)
    def test_forbidden_interactions_are_absent(self, parameters):
        X, y = table()
        model = SalsaRegressor(interaction_cst=SETS, random_state=0, **parameters).fit(X, y)
        found = interacting(model, X)
        assert found <= ALLOWED
        assert frozenset((0, 1)) in interacting(model, X, 1e-3)
        assert rounding(model) < (1e-6 if "relevance" in parameters else 1e-10)  # equal kernels are wide

    def test_classes_have_no_forbidden_interactions(self):
        X, y = table()
        model = SalsaClassifier(interaction_cst=SETS, random_state=0).fit(X, y > 0)
        assert interacting(model, X) <= ALLOWED
        assert frozenset((0, 1)) in interacting(model, X, 1e-3)
        with pytest.raises(ValueError, match="did you mean 'area'"):
            SalsaClassifier(interaction_cst=[{"arae"}]).fit(X, y > 0)

    @pytest.mark.parametrize("loss", ["huber", "quantile"])
    def test_other_losses_have_no_forbidden_interactions(self, loss):
        X, y = table()
        level = {"quantile": 0.8} if loss == "quantile" else {}
        model = SalsaRegressor(interaction_cst=SETS, loss=loss, random_state=0, **level).fit(X, y)
        assert interacting(model, X) <= ALLOWED
        assert frozenset((0, 1)) in interacting(model, X, 1e-3)

    def test_the_free_fit_has_the_forbidden_interaction(self):
        """The tests above can fail."""
        X, y = table()
        assert frozenset((0, 2)) in interacting(SalsaRegressor(random_state=0).fit(X, y), X, 1e-3)

    @pytest.mark.parametrize("relevance", ["learned", "equal"])
    def test_pairwise_has_no_third_order_and_no_interactions_is_additive(self, relevance):
        X, y = table()
        pairs = SalsaRegressor(interaction_cst="pairwise", relevance=relevance, random_state=0).fit(X, y)
        alone = SalsaRegressor(interaction_cst="no_interactions", relevance=relevance, random_state=0).fit(X, y)
        assert (pairs.order_, alone.order_) == (2, 1)
        assert interacting(alone, X) == set()
        assert frozenset((0, 1)) in interacting(pairs, X, 1e-3)
        assert {term.order for term in pairs.expansion_.kernel.terms} == {2}

    @pytest.mark.parametrize(("word", "order"), [("pairwise", 2), ("no_interactions", 1)])
    def test_words_learn_what_their_order_learns(self, word, order):
        X, y = table()
        ours = SalsaRegressor(interaction_cst=word, random_state=0).fit(X, y)
        theirs = SalsaRegressor(order=order, random_state=0).fit(X, y)
        assert {contender.order for contender in ours.search_.contenders} <= {1, 2}
        if ours.search_.winner.origin != "equal":
            np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))

    def test_all_pairs_by_hand_are_pairwise(self):
        X, y = table(n=90)
        by_hand = SalsaRegressor(interaction_cst=list(combinations(NAMES, 2)), random_state=0).fit(X, y)
        by_word = SalsaRegressor(interaction_cst="pairwise", random_state=0).fit(X, y)
        np.testing.assert_array_equal(by_hand.predict(X), by_word.predict(X))

    def test_one_set_of_all_features_gives_the_bits_of_the_free_fit(self):
        X, y = table(n=90)
        one = SalsaRegressor(interaction_cst=[NAMES, {"age"}], random_state=0).fit(X, y)
        np.testing.assert_array_equal(one.predict(X), SalsaRegressor(random_state=0).fit(X, y).predict(X))

    def test_names_and_positions_in_any_order_give_the_same_bits(self):
        X, y = table(n=90)
        one = SalsaRegressor(interaction_cst=SETS, random_state=0).fit(X, y)
        other = SalsaRegressor(interaction_cst=[(5,), [4, 3, "age"], (1, 0)], random_state=0).fit(X, y)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))

    def test_a_constant_column_leaves_its_set(self):
        X, y = table()
        X["age"] = 1.0
        model = SalsaRegressor(interaction_cst=SETS, random_state=0).fit(X, y)
        assert model.relevance_[2] == 0
        assert interacting(model, X) <= ALLOWED

    def test_categories_and_missing_values_keep_to_their_sets(self):
        X, y = table()
        X["heating"] = np.where(X["heating"] > 0, "gas", "oil")
        X.loc[::7, "age"] = np.nan
        model = SalsaRegressor(interaction_cst=SETS, random_state=0).fit(X, y)
        shares = explain.decompose(model).interactions()
        forbidden = shares["feature_1"].isin(["area", "rooms"]) & shares["feature_2"].isin(["age", "heating", "floor"])
        assert (shares.loc[forbidden, "variance_share"] == 0).all()
        assert np.isfinite(model.predict(X)).all()

    def test_groups_weights_and_several_outputs_work_with_sets(self):
        X, y = table()
        groups, weights = np.arange(120) % 30, np.random.default_rng(1).uniform(0.5, 2, 120)
        model = SalsaRegressor(interaction_cst=SETS, random_state=0)
        model.fit(X, np.column_stack([y, -2 * y]), sample_weight=weights, groups=groups)
        assert interacting(model, X) <= ALLOWED

    def test_many_rows_learn_from_blocks_within_sets(self, monkeypatch):
        monkeypatch.setattr("salsa.selection.plan.MANY", 200)
        monkeypatch.setattr("salsa.selection.many_rows.ROWS", (80, 120))
        monkeypatch.setattr("salsa.selection.many_rows.BLOCK_ROWS", 300)
        monkeypatch.setattr("salsa.learning.conditional.FIRST", 100)
        X, y = table(n=400)
        model = SalsaRegressor(interaction_cst=SETS, random_state=0).fit(X, y)
        assert model.search_.winner.origin != "equal"
        assert interacting(model, X) <= ALLOWED


class TestEqualRelevances:
    @pytest.mark.parametrize("exact", [False, True])
    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_the_kernel_is_the_sum_over_sets(self, order, exact):
        """Overlapping sets, sets of fewer features than the order, and lone features."""
        X, y = table(n=40)
        sets, relevance = ((0, 1), (1, 2, 3), (4,), (5,)), np.array([1.0, 2.0, 1.0, 0.5, 1.0, 0.1])
        model = SalsaRegressor(
            order=order,
            alpha=0.1,
            relevance=relevance,
            bandwidth=np.arange(1.0, 7.0),
            interactions="exact" if exact else "up_to",
            interaction_cst=sets,
        ).fit(X, y)
        rows = X.to_numpy()
        expected = naive.sum_over_sets(rows, rows, sets, np.arange(1.0, 7.0), relevance, order, exact=exact)
        np.testing.assert_allclose(model.expansion_.kernel(rows), expected, rtol=1e-12)

    def test_the_kernel_is_the_sum_of_additive_kernels_of_the_columns(self):
        X, y = table(n=40)
        model = SalsaRegressor(
            order=3, alpha=0.1, relevance="equal", bandwidth=np.full(6, 2.0), interaction_cst=[{0, 1}, {2, 3, 4}, {5}]
        ).fit(X, y)
        rows = X.to_numpy()
        parts = [
            AdditiveKernel(np.full(len(S), 2.0), np.ones(len(S)), np.append(0.0, np.ones(len(S))))(rows[:, S])
            for S in ([0, 1], [2, 3, 4], [5])
        ]
        np.testing.assert_allclose(model.expansion_.kernel(rows), sum(parts), rtol=1e-12)

    def test_an_order_above_the_largest_set_is_the_order_of_the_largest_set(self):
        X, y = table(n=40)
        sets = [{0, 1}, {2, 3}, {4, 5}]
        models = [
            SalsaRegressor(order=order, alpha=0.1, relevance="equal", interaction_cst=sets).fit(X, y)
            for order in (2, 5)
        ]
        assert models[1].order_ == 2
        np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


class TestExplanations:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls):
        X, y = table()
        return X, SalsaRegressor(interaction_cst=SETS, random_state=0).fit(X, y)

    def test_shares_of_forbidden_interactions_are_zero(self, fitted):
        _, model = fitted
        anova = explain.decompose(model)
        table = anova.interactions()
        pairs = [frozenset(map(NAMES.index, pair)) for pair in zip(table["feature_1"], table["feature_2"], strict=True)]
        for pair, share in zip(pairs, table["variance_share"], strict=True):
            assert pair in ALLOWED or share == 0
        assert table["variance_share"].max() > 0.01
        importance = anova.importance().set_index("term")
        assert importance.loc["area × age", ["variance_share", "share_over_rows"]].tolist() == [0, 0]
        assert anova.orders()["variance_share"].sum() == pytest.approx(1)

    def test_effects_of_forbidden_interactions_are_zero(self, fitted):
        X, model = fitted
        anova = explain.decompose(model)
        effect = anova.effect("area", "age")
        assert not effect.values.any()
        assert not effect.sd.any()
        assert not anova.evaluate(X, "rooms", "floor").any()
        assert anova.effect("area", "rooms", band=False).values.any()

    def test_shapley_interactions_of_forbidden_pairs_are_zero(self, fitted):
        X, model = fitted
        values = explain.shapley(model, X[:3])
        np.testing.assert_allclose(values.predictions, model.predict(X[:3]), rtol=1e-9)
        for row in range(3):
            found = values.interactions(row).to_numpy()
            for j, k in combinations(range(6), 2):
                assert frozenset((j, k)) in ALLOWED or found[j, k] == found[k, j] == 0

    def test_components_name_the_features_of_each_term(self, fitted):
        _, model = fitted
        components = model.search_.components
        assert components["features"].tolist() == [len(positions) for positions in components["positions"]]
        assert all(set(positions) <= {0, 1} or set(positions) <= {2, 3, 4} for positions in components["positions"])
        assert components["share"].sum() == pytest.approx(1)

    def test_terms_of_the_same_features_have_no_positions(self):
        X, y = table()
        assert "positions" not in SalsaRegressor(random_state=0).fit(X, y).search_.components

    def test_the_report_counts_terms_of_the_same_kind(self, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (60, 6))
        y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] * X[:, 5]
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal", interaction_cst=[{0, 1}, {2, 3}]).fit(X, y)
        explain.write_report(model, tmp_path / "r.html")
        assert "3 times Gaussian, order 2" in (tmp_path / "r.html").read_text(encoding="utf-8")


class TestEstimator:
    def test_clones_and_parameters_keep_the_sets(self):
        model = SalsaRegressor(interaction_cst=SETS)
        assert model.get_params()["interaction_cst"] is SETS
        assert clone(model).interaction_cst == SETS

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (SETS, [["area", "rooms"], ["age", "floor", "heating"]]),
            ([{np.int64(1), 0}, ("floor", 2)], [[0, 1], [2, "floor"]]),
            (np.array([[0, 1], [2, 3]]), [[0, 1], [2, 3]]),
            ("pairwise", "pairwise"),
            (None, None),
        ],
    )
    def test_files_keep_the_parameter_and_the_function(self, given, kept, tmp_path):
        X, y = table(n=60)
        model = SalsaRegressor(interaction_cst=given, relevance="equal", order=2, alpha=0.1).fit(X, y)
        model.save(tmp_path / "m.salsa")
        again = salsa.load(tmp_path / "m.salsa")
        assert again.interaction_cst == kept
        assert again.search_.components.equals(model.search_.components)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.fit(X, y).predict(X), model.predict(X))

    def test_blocks_take_names_of_their_columns(self):
        X, y = table(n=200)
        settings = {"interaction_cst": SETS, "rank": 60, "random_state": 0, "relevance": "equal"}
        blocks = [X[:100].assign(y=y[:100]), X[100:].assign(y=y[100:])]
        model = SalsaRegressor(**settings).fit_blocks(blocks, target="y")
        np.testing.assert_array_equal(model.predict(X), SalsaRegressor(**settings).fit(X, y).predict(X))
        assert interacting(model, X) <= ALLOWED
        with pytest.raises(ValueError, match="did you mean 'area'"):
            SalsaRegressor(interaction_cst=[{"arae"}]).fit_blocks(blocks, target="y")

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"interaction_cst": "some"}, "must be None, 'pairwise'"),
            ({"interaction_cst": []}, "is empty"),
            ({"interaction_cst": [{"area", "xyz"}]}, "'xyz', which is no column"),
            ({"interaction_cst": [{0, 6}]}, "positions of this table are 0 to 5"),
            ({"interaction_cst": "pairwise", "order": 3}, "order=3 contradicts interaction_cst='pairwise'"),
            ({"interaction_cst": "no_interactions", "order": [1, 2]}, "give an order of at most 1"),
            ({"interaction_cst": SETS, "order": 4, "interactions": "exact"}, "largest set of interaction_cst has 3"),
        ],
    )
    def test_contradictions_are_refused_before_anything_is_learned(self, parameters, message, monkeypatch):
        monkeypatch.setattr("salsa.fitting.make_plan", None)
        with pytest.raises(ValueError, match=message):
            SalsaRegressor(**parameters).fit(*table(n=30))

    def test_fits_with_sets_do_not_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SalsaRegressor(interaction_cst=SETS, random_state=0).fit(*table(n=90))

    @pytest.mark.slow
    def test_fifty_pairs_are_affordable_and_the_right_ones_are_found(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (300, 100))
        y = np.sin(3 * X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=300)
        model = SalsaRegressor(interaction_cst=[{j, j + 1} for j in range(0, 100, 2)], random_state=0).fit(X, y)
        assert set(np.flatnonzero(model.relevance_)) == {0, 1, 2, 3}
        assert len(model.expansion_.kernel.terms) <= 6
