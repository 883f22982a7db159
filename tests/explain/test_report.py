"""Tests of the report: its content, its safety as one offline file, and the agreement of its page with Python."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.exceptions import NotFittedError

import salsa
from explain.test_sum_explanations import refitted, three, varied
from salsa import SalsaRegressor
from salsa.data.table_columns import learn_columns
from salsa.explain import decompose, shapley
from salsa.explain.effects import Axis, Effect
from salsa.explain.report import held_out_rows
from salsa.explain.report.effect_section import _is_unsure, _order_groups, _together_words, effects_note
from salsa.explain.report.judging_rows import Given, evidence_of, given_rows
from salsa.explain.report.phrases import adding_up, percent
from salsa.explain.report.write import write_report
from salsa.kernels.base import NUMERIC_BASES
from salsa.kernels.marginals import Distribution
from salsa.selection.results import Contender

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "{{script}} & \u2028 'quoted' \"name\"",
)


def mixed_table(n=100, seed=0):
    """Return a table of numbers, whole numbers, missing values and two categories, and a target with interactions."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.uniform(20, 200, n),
            "age": rng.integers(0, 90, n).astype(float),
            "town": rng.choice(["Bern", "Łódź", "東京"], n),
            "heating": rng.choice(["gas", "none", "wood"], n),
            "noise": rng.normal(size=n),
        }
    )
    y = 3 * X["size"] - X["age"] + np.where(X["town"] == "Bern", X["size"], 0) + rng.normal(size=n)
    X.loc[rng.random(n) < 0.1, "age"] = np.nan
    X.loc[rng.random(n) < 0.1, "heating"] = None
    return X, y.rename("price")


def quick_model(X, y, order=2, **options):
    """Fit a model with equal relevances, without a search."""
    settings = {"relevance": "equal", "alpha": 0.1, "random_state": 0, **options}
    return SalsaRegressor(order, **settings).fit(X, y)


def payload_of(path):
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def table():
    return mixed_table()


@pytest.fixture(scope="module")
def model(table):
    return quick_model(*table, order=[1, 2, 3], relevance=[1.0, 0.5, 2.0, 0.3, 0.0], alpha="auto")


@pytest.fixture(scope="module")
def report(model, table, tmp_path_factory):
    return write_report(model, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def payload(report):
    return payload_of(report)


# The payload ----------------------------------------------------------------------------------------------------------


def test_the_report_is_one_file_that_loads_nothing(report):
    text = report.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)=["'](?!data:,|#)""", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "innerHTML" not in text


def test_facts_state_rows_features_and_penalty_of_the_fit(payload, model):
    facts = dict(payload["fitted"]["facts"])
    assert facts["Rows"] == "100"
    assert facts["Features"] == "5, 4 used"
    assert facts["Penalty alpha"] == f"{model.alpha_:.3g}"
    assert "4 of 5 features" in payload["fitted"]["summary"]
    assert salsa.__version__ in payload["byline"]


def test_scores_equal_the_cross_validation_errors_of_the_search(payload, model):
    best = model.search_.table.query("chosen").iloc[0]
    first, linear, mean = payload["quality"]["scores"]
    assert first["name"] == "salsa, cross-validation"
    assert first["explained"] == pytest.approx(1 - best["cv_error"])
    assert first["error"] == pytest.approx(best["standard_error"])
    assert linear["name"] == "linear model, cross-validation"
    assert 0.5 < linear["explained"] < 1
    assert mean["explained"] == 0
    (orders,) = payload["quality"]["searches"]
    assert [row["strong"] for row in orders["rows"]].count(True) == 1


def test_the_linear_model_finds_a_linear_target(table):
    columns, X = learn_columns(table[0])
    y = 3 * X[:, 0] + 5 * (X[:, 2] == 1) + 1e9
    rows = held_out_rows.HeldOutRows(y, y, np.ones(len(y)))
    found = held_out_rows.linear_cross_validated(columns, X, rows, np.arange(len(y)) % 5)
    assert held_out_rows.score(found).r2 > 0.999


def test_a_score_is_r2_with_its_standard_error():
    rng = np.random.default_rng(0)
    y, f, w = rng.normal(size=50), rng.normal(size=50), rng.integers(1, 4, 50).astype(float)
    found = held_out_rows.score(held_out_rows.HeldOutRows(1e200 * y, 1e200 * f, w))
    variance = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
    assert found.r2 == pytest.approx(1 - np.average((y - f) ** 2, weights=w) / variance)
    again = held_out_rows.score(
        held_out_rows.HeldOutRows(np.repeat(y, w.astype(int)), np.repeat(f, w.astype(int)), np.ones(int(w.sum())))
    )
    assert found.r2 == pytest.approx(again.r2)
    assert held_out_rows.score(held_out_rows.HeldOutRows(np.ones(5), np.ones(5), np.ones(5))) is None


def test_normal_intervals_of_normal_targets_have_nominal_coverage():
    rng = np.random.default_rng(0)
    rows = held_out_rows.HeldOutRows(rng.normal(size=20_000), np.zeros(20_000), np.ones(20_000), np.ones(20_000))
    found = held_out_rows.normal_coverage(rows)
    assert np.abs(found.actual - found.nominal).max() < 4 * found.error.max()
    assert (held_out_rows.normal_coverage(rows._replace(sd=np.full(20_000, 2.0))).actual > found.nominal).all()


def test_importance_and_effects_equal_the_decomposition(payload, model):
    anova = decompose(model)
    sobol = anova.sobol().set_index("feature")
    features = payload["importance"]["features"]
    assert [f["total"] for f in features] == sorted((f["total"] for f in features), reverse=True)
    assert {f["name"] for f in features} == {"size", "age", "town", "heating"}
    for feature in features:
        assert feature["total"] == pytest.approx(sobol.loc[feature["name"], "total"])
    assert sum(part["share"] for part in payload["importance"]["orders"]) == pytest.approx(1)
    curve = next(e for e in payload["effects"] if e["term"] == "size")
    expected = anova.effect("size")
    np.testing.assert_allclose(curve["values"], expected.values, atol=2e-4 * np.ptp(expected.values))
    np.testing.assert_allclose(curve["sd"], expected.sd, atol=2e-4 * np.ptp(expected.values))


def correlated_table(n=300):
    """Return two numbers with a correlation of 0.9, an independent one, and the target 2 x - z + w / 4."""
    rng = np.random.default_rng(0)
    x, noise, w = rng.normal(size=(3, n))
    X = pd.DataFrame({"x": x, "z": 0.9 * x + np.sqrt(1 - 0.81) * noise, "w": w})
    return X, 2 * X["x"] - X["z"] + X["w"] / 4


def test_shares_over_rows_equal_the_decomposition_and_sum_to_one(payload, model):
    anova = decompose(model)
    sobol, terms = anova.sobol().set_index("feature"), anova.importance().set_index("term")
    features = payload["importance"]["features"]
    assert sum(feature["rows"] for feature in features) == pytest.approx(1)
    for feature in features:
        assert feature["rows"] == pytest.approx(sobol.loc[feature["name"], "share_over_rows"])
    for effect in payload["effects"]:
        assert effect["rows"] == pytest.approx(terms["share_over_rows"].get(effect["term"], 0.0))


def test_shares_over_rows_come_first_where_features_are_correlated(tmp_path):
    model = quick_model(*correlated_table(), order=1, alpha=1e-3, bandwidth=10.0)
    found = payload_of(write_report(model, tmp_path / "r.html"))
    importance = found["importance"]
    assert importance["rowsLead"]
    assert [feature["name"] for feature in importance["features"]] == ["x", "z", "w"]
    assert importance["features"][1]["rows"] < -0.4
    assert [effect["term"] for effect in found["effects"]] == ["x", "z", "w"]
    assert re.match(r"x \(1\d\d\u202f%\), z \(−\d\d\u202f%\) and w \(", importance["sentence"])
    assert "matter most over the rows as they are" in importance["sentence"]
    assert "over the training rows as they are" in importance["meaning"]
    assert "sorts by the share over rows: z has −" in importance["meaning"] or "x has 1" in importance["meaning"]


def test_shares_over_rows_say_whether_they_count_interactions(tmp_path):
    """The sentence has the shares with interactions, as the bars have them, and the example is of an effect alone."""
    X, y = correlated_table()
    model = quick_model(X, y + X["x"] * X["w"], alpha=1e-3, bandwidth=10.0)
    found, anova = payload_of(write_report(model, tmp_path / "r.html")), decompose(model)
    importance, terms = found["importance"], anova.importance().set_index("term")["share_over_rows"]
    first = importance["features"][0]
    assert first["rows"] == pytest.approx(anova.sobol().set_index("feature")["share_over_rows"][first["name"]])
    assert abs(first["rows"] - terms[first["name"]]) > 0.01  # two different numbers
    assert f"{first['name']} ({percent(first['rows'])})" in importance["sentence"]
    assert "over the rows as they are, interactions included." in importance["sentence"]
    assert "counts its own effect and its part in interactions; in the table of effects" in importance["meaning"]
    term, over_rows = re.search(
        r": (.+) by itself, without interactions, has (.+) over rows", importance["meaning"]
    ).groups()
    assert over_rows == percent(terms[term])
    assert {e["term"]: e["rows"] for e in found["effects"]}[term] == pytest.approx(terms[term])
    assert "over rows: share of this effect alone" in found["effectsNote"]


def test_shares_over_rows_without_interactions_are_of_one_kind(tmp_path):
    model = quick_model(*correlated_table(), order=1, alpha=1e-3, bandwidth=10.0)
    assert "interactions" not in payload_of(write_report(model, tmp_path / "r.html"))["importance"]["meaning"]


def test_shares_for_independent_features_come_first_on_a_full_grid(tmp_path):
    X = pd.DataFrame([(a, b) for a in range(8) for b in range(8)], columns=["a", "b"], dtype=float)
    model = quick_model(X, X["a"] + np.sin(X["b"]), order=1)
    importance = payload_of(write_report(model, tmp_path / "r.html"))["importance"]
    assert not importance["rowsLead"]
    assert importance["sentence"].endswith("matter most.")
    assert importance["meaning"].startswith("Over rows is the share")
    assert "sorts by" not in importance["meaning"]


def test_a_low_rank_report_has_shares_over_given_rows_if_they_are_100_or_more(tmp_path):
    X, y = correlated_table()
    model = quick_model(X, y, order=1, solver="lowrank", rank=50)
    for rows, expected in ((99, None), (100, decompose(model, rows=X[:100]).sobol()["share_over_rows"][0])):
        found = payload_of(write_report(model, tmp_path / "r.html", X[:rows], y[:rows]))["importance"]
        shares = {feature["name"]: feature["rows"] for feature in found["features"]}
        assert shares["x"] == (expected if expected is None else pytest.approx(expected))
        assert ("over the given rows" if rows == 100 else "given fewer than 100 rows") in found["meaning"]


def test_axes_have_labels_and_missing_values_last(payload):
    effects = {effect["term"]: effect for effect in payload["effects"]}
    assert effects["heating"]["axes"][0]["labels"] == ["gas", "none", "wood", "missing"]
    assert effects["age"]["axes"][0]["points"][-1] is None
    assert effects["town"]["axes"][0]["labels"] == ["Bern", "Łódź", "東京"]
    assert "axes" not in effects["noise"]
    assert "does not use" in effects["noise"]["reason"]
    pair = effects["size × town"]
    assert len(pair["values"]) == len(pair["axes"][0]["points"]) * 3


def test_the_matrix_holds_the_variance_shares_of_pairs(payload, model):
    part = payload["interactions"]
    pairs = decompose(model).interactions().set_index(["feature_1", "feature_2"])["variance_share"]
    shares = np.array(part["shares"])
    np.testing.assert_allclose(shares, shares.T)
    i, k = part["names"].index("size"), part["names"].index("town")
    assert shares[i, k] == pytest.approx(pairs["size", "town"], abs=1e-5)
    assert part["strongest"][0]["term"] == "size × town"


def test_data_section_states_missing_shares_ranges_and_kinds(payload, table):
    rows = {row["name"]: row for row in payload["data"]["features"]}
    assert rows["age"]["missing"] == pytest.approx(table[0]["age"].isna().mean())
    assert rows["size"]["range"] == [table[0]["size"].min(), table[0]["size"].max()]
    assert rows["town"]["kind"] == "category, 3"
    assert not rows["noise"]["used"]


def test_given_rows_with_targets_are_scored_and_are_examples(model, tmp_path):
    X, y = mixed_table(60, seed=1)
    found = payload_of(write_report(model, tmp_path / "r.html", X, y))
    assert found["title"] == "A model of price"
    assert found["quality"]["scores"][0]["name"] == "salsa, new rows"
    assert found["quality"]["scores"][0]["explained"] == pytest.approx(model.score(X, y))
    assert len(found["calibration"]["curves"]) == 2
    inside = model.predict_interval(X, 0.9)
    share = np.mean((inside[:, 0] <= y) & (y <= inside[:, 1]))
    new = found["calibration"]["curves"][1]
    assert new["actual"][new["nominal"].index(0.9)] == pytest.approx(share)
    assert found["whatIf"]["model"]["examples"][1]["name"] == "row 1 of the table"


def test_training_rows_among_given_rows_are_recognised(model, table):
    X, y = table
    subject = decompose(model).subject
    evidence = evidence_of(model, subject, given_rows(model, X, y, 0), 0)
    assert evidence.new is None
    assert evidence.known == len(X)
    other = evidence_of(model, subject, given_rows(model, X, y + 1, 0), 0)
    assert other.known == 0
    assert len(other.new.observed) == len(X)


def test_only_rows_outside_the_training_table_are_scored(tmp_path):
    """A model that overfits noise must score badly although most of the given rows are training rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(230, 4)), rng.normal(size=230)
    model = quick_model(X[:200], y[:200], alpha=1e-6)
    found = payload_of(write_report(model, tmp_path / "r.html", X, y))
    first, *_, linear, _ = found["quality"]["scores"]
    assert first["name"] == "salsa, new rows"
    assert first["explained"] == pytest.approx(model.score(X[200:], y[200:]))
    assert linear["name"] == "linear model, new rows"
    assert linear["explained"] < 0.1
    assert len(found["quality"]["scatters"][0]["observed"]) == 30
    curve = found["calibration"]["curves"][1]
    ends = model.predict_interval(X[200:], 0.9)
    inside = np.mean((ends[:, 0] <= y[200:]) & (y[200:] <= ends[:, 1]))
    assert curve["actual"][curve["nominal"].index(0.9)] == pytest.approx(inside)
    assert "they are training rows: 200 given rows" in found["quality"]["notes"][0]
    one = payload_of(write_report(model, tmp_path / "r.html", X[:201], y[:201]))
    assert "no better than the mean" in one["fitted"]["summary"]
    none = payload_of(write_report(model, tmp_path / "r.html", X[:200], y[:200]))
    assert [part["title"] for part in none["quality"]["scatters"]] == ["Training rows, each predicted without itself"]
    assert "This page was given no new rows" in none["quality"]["notes"][0]


@pytest.mark.parametrize(("noise", "is_clear"), [(0.3, True), (2.0, False)])
def test_a_share_below_two_standard_errors_is_called_doubtful(noise, is_clear, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    model = quick_model(X, 1000 * (X[:, 0] + noise * rng.normal(size=60)), 1, alpha=1.0)
    found = payload_of(write_report(model, tmp_path / "r.html"))
    best, summary = found["quality"]["scores"][0], found["fitted"]["summary"]
    assert (best["explained"] >= 2 * best["error"]) == is_clear
    assert best["explained"] > 0
    assert ("less than two standard errors: it may be no better than the mean." in summary) != is_clear


def test_errors_of_large_targets_are_written_without_exponents(table, tmp_path):
    X, y = table
    found = payload_of(write_report(quick_model(X, 1e5 * y), tmp_path / "r.html"))
    note = found["quality"]["scatters"][0]["note"]
    assert re.fullmatch(r"Root mean squared error [\d,]+, mean absolute error [\d,]+, 100 rows\.", note)


def test_race_and_order_search_are_both_shown_if_equal_relevances_win(tmp_path):
    """The race and the search on all rows may choose different orders; the page shows both choices."""
    X, y = mixed_table(90)
    model = SalsaRegressor(random_state=0).fit(X, y)
    learned = Contender("learned", "matern52", False, 2, 5, 0.2, 0.1, 0.0)
    contenders = [learned, Contender("equal", "gaussian", False, 3, 5, 0.3, 0.1, 0.0)]
    model.search_ = replace(
        quick_model(X, y, order=[1, 2], alpha="auto").search_,
        contenders=(contenders[0], contenders[1]._replace(won=True)),
    )
    race, orders = payload_of(write_report(model, tmp_path / "r.html"))["quality"]["searches"]
    assert [row["strong"] for row in race["rows"]] == [False, True]
    assert "the order was then searched on all rows" in race["note"]
    assert [row["name"] for row in orders["rows"]] == ["order 1", "order 2"]
    model.search_ = replace(model.search_, contenders=(contenders[0]._replace(won=True), contenders[1]))
    race = payload_of(write_report(model, tmp_path / "r.html"))["quality"]["searches"][0]
    assert "learned again on all rows" in race["note"]


def test_features_that_came_back_after_the_race_are_counted(tmp_path):
    """The pruned kernel of the race had three features, and the kernel that was learned again has four."""
    model = quick_model(*mixed_table(90), relevance=[1.0, 0.5, 2.0, 0.3, 0.0])
    pruned = Contender("pruned", "matern52+laplace", False, 2, 3, 0.2, 0.1, 0.0, won=True)
    notes = []
    for features in (3, 4, 5):
        model.search_ = replace(model.search_, contenders=(pruned._replace(features=features),))
        notes.append(payload_of(write_report(model, tmp_path / "r.html"))["quality"]["searches"][0]["note"])
    assert notes[0].endswith("Now it has 4 features: 1 that the race had left out came back.")
    assert ["Now it has" in note for note in notes] == [True, False, False]


def test_unsure_effects_and_correlated_features_are_mentioned(tmp_path):
    """The table has two strongly correlated numbers, one relevant number and one category."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=80), "sure": rng.normal(size=80), "town": rng.choice(["x", "y"], 80)})
    X["minus-a"] = -X["a"] + 0.3 * rng.normal(size=80)
    X.loc[:5, "a"] = np.nan
    y = X["sure"] + 0.5 * rng.normal(size=80)
    found = payload_of(write_report(quick_model(X, y, order=1, alpha=1e-4), tmp_path / "r.html"))["importance"]
    unsure = [feature["name"] for feature in found["features"] if feature["unsure"]]
    assert set(unsure) == {"a", "minus-a"}
    doubt, correlated = found["cautions"]
    assert all(name in doubt for name in unsure)
    assert re.search(r"(a with minus-a|minus-a with a) \(−0\.9\d\)", correlated)
    assert "sure" not in correlated
    assert "town" not in correlated


def test_an_effect_is_unsure_if_zero_is_inside_its_band_for_most_rows():
    values, sd = np.array([-3.0, -1.0, 3.0, 0.0]), np.ones(4)
    for weights, unsure in (([0.05, 0.8, 0.05, 0.1], True), ([0.15, 0.6, 0.15, 0.1], False)):
        points = np.array([0.0, 1.0, 2.0, np.nan])
        axis = Axis("x", points, None, Distribution(points, np.array(weights)))
        assert _is_unsure(Effect((axis,), values, sd, lambda: 1.0)) == unsure


def test_a_model_of_order_1_mentions_no_interactions(table, tmp_path):
    found = payload_of(write_report(quick_model(*table, order=1), tmp_path / "r.html"))
    assert len(found["importance"]["orders"]) == 1
    assert "interaction" not in found["effectsNote"]
    assert "single features" not in found["importance"]["sentence"]
    assert len(_order_groups(np.array([1.0, 1e-6, 1e-6]))) == 1
    assert [part["name"] for part in _order_groups(np.array([0.99, 0.0, 0.01]))][1] == "three and more together"


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        ([0.9255, 0.0745], ["92.6", "7.4"]),
        ([0.984, 0.0154, 0.0006], ["98.4", "1.5", "0.1"]),
        ([0.9846, 0.0151, 0.0003], ["98.5", "1.5", "< 0.1"]),
        ([0.604, 0.203, 0.193], ["61", "20", "19"]),
        ([1 / 3, 1 / 3, 1 / 3], ["34", "33", "33"]),
        ([1.0], ["100"]),
        ([0.0, 1.0], ["0", "100"]),
    ],
)
def test_percentages_of_a_whole_add_up_to_100(shares, texts):
    assert adding_up(shares) == [f"{text}\u202f%" for text in texts]


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([1.0], "none: features add up"),
        ([1.0, 0.0], "next to none: features add up"),
        ([0.9255, 0.0745], "7.4\u202f% of the variance, all in pairs"),
        ([0.985, 0.0149, 0.0001], "1.5\u202f% of the variance, nearly all in pairs"),
        ([0.5, 0.3, 0.2], "50\u202f% of the variance, mostly in pairs"),
        ([0.5, 0.1, 0.2, 0.2], "50\u202f% of the variance, mostly in larger groups"),
        ([0.9997, 0.0003], "< 0.1\u202f% of the variance, all in pairs"),
    ],
)
def test_interactions_are_described_by_their_share_of_the_variance(shares, words):
    assert _together_words(_order_groups(np.array(shares)), len(shares)) == words


def test_a_product_kernel_is_described_by_the_interactions_of_its_function(table, tmp_path):
    """The function is nearly additive although the kernel is a product of all features."""
    X = table[0][["size", "age", "noise"]].fillna(0)
    model = quick_model(X, X["size"] * (50 + X["age"]), 3, interactions="exact", kernel="gaussian")
    found = payload_of(write_report(model, tmp_path / "r.html"))
    assert found["about"]["method"][1] == "The kernel of this model: Gaussian, product of all features."
    together = 1 - decompose(model).orders()["variance_share"][0]
    assert float(found["importance"]["interactions"].split("\u202f")[0]) == pytest.approx(100 * together, abs=0.1)
    assert found["importance"]["interactions"].endswith("nearly all in pairs")


def test_the_note_on_effects_names_a_single_pair_without_a_number():
    pairs = [{"features": [0, 1]}, {"features": [0, 2]}]
    assert effects_note(pairs[:1], []).startswith("The table lists all features and the one pair of largest share.")
    assert effects_note(pairs, []).startswith("The table lists all features and the 2 pairs of largest share.")


def test_constant_and_empty_columns_count_as_unused(tmp_path):
    """A constant, an empty and a one-level column are unused in the facts, the table, the effects and the controls."""
    X, y = mixed_table(60)
    X = X[["size", "town"]].assign(same=1.0, nothing=np.nan, level="x")
    found = payload_of(write_report(quick_model(X, y), tmp_path / "r.html"))
    assert dict(found["fitted"]["facts"])["Features"] == "5, 2 used"
    assert "2 of 5 features" in found["fitted"]["summary"]
    data = {row["name"]: row for row in found["data"]["features"]}
    assert [data[name]["used"] for name in ("size", "same", "nothing", "level")] == [True, False, False, False]
    assert data["nothing"]["counts"] == []
    effects = {effect["term"]: effect for effect in found["effects"]}
    assert all("axes" not in effects[name] for name in ("same", "nothing", "level"))
    assert "constant in the training table" in effects["same"]["reason"]
    assert [feature["fixed"] for feature in found["whatIf"]["model"]["features"]] == [False, False, True, True, True]


def test_a_low_rank_report_has_no_leave_one_out_and_says_why(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (360, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=360)
    model = SalsaRegressor(solver="lowrank", rank=50, random_state=0).fit(X[:300], y[:300])
    found = payload_of(write_report(model, tmp_path / "r.html", X[300:], y[300:]))
    facts, anchors = dict(found["fitted"]["facts"]), len(model.expansion_.anchors)
    assert facts["Anchors"] == str(anchors)
    assert "Rows" not in facts
    assert "keeps no training rows" in found["quality"]["notes"][0]
    assert found["quality"]["scores"][0]["explained"] == pytest.approx(model.score(X[300:], y[300:]))
    assert found["effects"][0]["sd"] is not None
    assert [curve["name"] for curve in found["calibration"]["curves"]] == ["predict_interval, new rows"]
    assert found["data"]["target"] is None
    whole = payload_of(write_report(model, tmp_path / "r.html", X[:300], y[:300]))
    assert whole["quality"]["scatters"] == []
    assert "This page was given no new rows" in whole["quality"]["notes"][1]


@pytest.mark.parametrize("new_rows", [0, 60])
def test_a_divided_report_has_no_bands_and_no_intervals_and_says_why(new_rows, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (360, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=360)
    model = quick_model(X[:300], y[:300], solver="divide", rank=100)
    given = (X[300:], y[300:]) if new_rows else ()
    found = payload_of(write_report(model, tmp_path / "r.html", *given))
    reason = "solver='divide' has no intervals or standard deviations: use solver='lowrank'"
    assert found["calibration"] == {"sentence": f"There are no intervals: {reason}.", "note": "", "curves": []}
    assert found["quality"]["notes"] == [f"The training rows have no leave-one-out predictions: {reason}."]
    assert found["effectsNote"].endswith(f" Effects have no bands: {reason}.")
    assert all(effect["sd"] is None for effect in found["effects"] if "axes" in effect)
    assert dict(found["fitted"]["facts"])["Rows"] == "300"
    assert [scatter["title"] for scatter in found["quality"]["scatters"]] == ["New rows"] * bool(new_rows)
    assert found["quality"]["scores"][0]["name"] == ("salsa, new rows" if new_rows else "salsa, cross-validation")


def test_an_iterated_fit_of_many_rows_is_a_report_about_rows_with_bands(tmp_path):
    """Its held-out predictions are those of the fits without each fold."""
    X, y = additive_truth(3150, 3)
    model = quick_model(X[:3100], y[:3100], 1, solver="pcg", rank=50)
    found = payload_of(write_report(model, tmp_path / "r.html", X[3000:], y[3000:]))
    assert dict(found["fitted"]["facts"])["Rows"] == "3,100"
    assert "100 given rows" in found["quality"]["notes"][0]
    assert len(found["effects"][0]["sd"]) == len(found["effects"][0]["values"])
    assert len(found["quality"]["scatters"]) == 2
    assert "predict_interval, new rows" in [curve["name"] for curve in found["calibration"]["curves"]]


def test_given_rows_without_targets_are_examples_only(model, table, tmp_path):
    found = payload_of(write_report(model, tmp_path / "r.html", table[0].head(3)))
    assert len(found["whatIf"]["model"]["examples"]) == 4
    assert found["quality"]["scores"][0]["name"] == "salsa, cross-validation"


def test_a_saved_and_loaded_model_gives_an_equal_report(model, report, tmp_path):
    model.save(tmp_path / "m.salsa")
    first, second = payload_of(report), payload_of(write_report(salsa.load(tmp_path / "m.salsa"), tmp_path / "r.html"))
    assert {**first, "byline": ""} == {**second, "byline": ""}


def test_without_memory_for_leave_one_out_bands_and_coverage_are_left_out(model, monkeypatch, table, tmp_path):
    def refuse(self):
        raise MemoryError("the uncertainty of predictions needs about 9 TB")

    monkeypatch.setattr(type(model), "leave_one_out", refuse)
    X, y = mixed_table(30, seed=1)
    found = payload_of(write_report(model, tmp_path / "r.html", X, y))
    assert "9 TB" in found["quality"]["notes"][0]
    assert found["effects"][0]["sd"] is None
    assert found["calibration"]["curves"] == []
    assert found["quality"]["scores"][-2]["name"] == "linear model, cross-validation on new rows"


def test_a_model_too_large_for_the_page_is_left_out_with_a_reason(model, monkeypatch, tmp_path):
    monkeypatch.setattr("salsa.explain.report.whatif_section.MODEL_NUMBERS", 300)
    found = payload_of(write_report(model, tmp_path / "r.html"))["whatIf"]
    assert found["model"] is None
    assert "100 rows times 4 features" in found["sentence"]


# Invalid requests -----------------------------------------------------------------------------------------------------


def test_invalid_arguments_raise_errors_and_write_nothing(model, table, tmp_path):
    X, y = table
    path = tmp_path / "r.html"
    with pytest.raises(ValueError, match="y was given without X"):
        write_report(model, path, y=y)
    with pytest.raises(ValueError, match=r"y has the shape \(99,\)"):
        write_report(model, path, X, y[:-1])
    with pytest.raises(ValueError, match="missing or infinite"):
        write_report(model, path, X, y.mask(y > y.median()))
    with pytest.raises(ValueError, match="is a folder"):
        write_report(model, tmp_path)
    with pytest.raises(ValueError, match="not a file"):
        write_report(model, "/dev/null")
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_report(model, tmp_path / "nowhere" / "r.html")
    with pytest.raises(ValueError, match="output=1"):
        write_report(model, path, output=1)
    with pytest.raises(NotFittedError):
        write_report(SalsaRegressor(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(model, monkeypatch, tmp_path):
    path = tmp_path / "r.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("salsa._utils.atomic.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(model, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_the_usual_permissions(report, tmp_path):
    (tmp_path / "other").touch()
    assert report.stat().st_mode == (tmp_path / "other").stat().st_mode


# Models of every kind -------------------------------------------------------------------------------------------------


def odd_models():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 3))
    y = x[:, 0] + x[:, 1] * x[:, 2]
    X, price = mixed_table(60)
    long = pd.DataFrame(
        rng.normal(size=(40, 100)), columns=[f"{'a very long name of a column ' * 4}{j}" for j in range(100)]
    )
    return {
        "one feature": (x[:, :1], y, {"order": 1}, None),
        "one row": (x[:1], y[:1], {"order": 1}, None),
        "three rows": (x[:3], y[:3], {"order": 1}, None),
        "constant target": (x, np.full(60, 3.0), {}, None),
        "nothing used": (x, y, {"relevance": np.zeros(3)}, None),
        "constant column": (np.c_[x, np.ones(60)], y, {}, None),
        "only categories": (X[["town", "heating"]], price, {}, None),
        "weights": (x, y, {}, rng.uniform(0.5, 3, 60)),
        "two outputs": (x, np.c_[y, -y], {}, None),
        "small numbers": (1e-9 * x, 1e-9 * y, {}, None),
        "large numbers": (1e12 + x, 1e12 * y, {}, None),
        "a hundred long names": (long, long.iloc[:, 0] * 1.0, {}, None),
        "hostile names": (pd.DataFrame(x, columns=list(HOSTILE)).assign(level=rng.choice(HOSTILE, 60)), y, {}, None),
        "a column of nothing": (np.c_[x, np.full(60, np.nan)], y, {}, None),
        "ordered": (X.assign(age=pd.cut(X["age"], 4)), price, {}, None),
        "numbered categories": (x.round(1), y, {"categorical_features": [0]}, None),
        "correlated numbers": (*correlated_table(), {"alpha": 1e-3, "bandwidth": 10.0}, None),
    }


@pytest.fixture(scope="module")
def odd_reports(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("odd"), {}
    for i, (name, (X, y, options, weight)) in enumerate(odd_models().items()):
        settings = {"order": 2, "relevance": "equal", "alpha": 0.1, "random_state": 0, **options}
        fitted = SalsaRegressor(**settings).fit(X, y, sample_weight=weight)
        found[name] = write_report(fitted, folder / f"{i}.html")
    return found


def test_every_kind_of_model_has_a_report(odd_reports):
    found = {name: payload_of(path) for name, path in odd_reports.items()}
    assert "constant" in found["constant target"]["quality"]["sentence"]
    assert "All predictions are equal" in found["constant target"]["importance"]["sentence"]
    assert "All predictions are equal" in found["nothing used"]["importance"]["sentence"]
    assert found["nothing used"]["whatIf"]["model"] is None
    assert "output 0" in found["two outputs"]["fitted"]["notes"][-1]
    assert len(found["a hundred long names"]["interactions"]["names"]) == 30
    assert found["a hundred long names"]["interactions"]["of"] == 100
    assert "too few rows" in found["one row"]["quality"]["sentence"]


def test_the_report_covers_the_chosen_output(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(50, 2))
    model = quick_model(x, np.c_[x[:, 0], 5 * x[:, 1]])
    found = payload_of(write_report(model, tmp_path / "r.html", x, np.c_[x[:, 0], 5 * x[:, 1]], output=1))
    assert found["importance"]["features"][0]["name"] == "x1"


def test_the_report_of_2000_rows_and_20_features_is_below_3_megabytes(tmp_path):
    """Numbers that are only drawn are rounded; numbers that predictions need are exact."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    model = quick_model(X, X[:, 0] * X[:, 1] + X[:, 2:].sum(axis=1))
    assert write_report(model, tmp_path / "r.html").stat().st_size < 3e6


def test_the_report_names_every_term_of_the_kernel(tmp_path):
    """In the last section, which is for readers who want to know how it was computed."""
    found = payload_of(write_report(three(), tmp_path / "r.html"))
    expected = "Matérn 5/2, order 3 + Matérn 5/2, product of all features + Laplace, product of 3 features"
    assert found["about"]["method"][1] == f"The kernel of this model: {expected}."
    assert "Matérn" not in json.dumps(found["fitted"], ensure_ascii=False)


def test_the_what_if_panel_is_left_out_if_the_terms_together_are_too_large(tmp_path, monkeypatch):
    """The anchors times the 4 + 5 + 3 features of the terms are counted."""
    model = three()
    numbers = 12 * len(model.expansion_.anchors)
    for limit, shown in ((numbers, True), (numbers - 1, False)):
        monkeypatch.setattr("salsa.explain.report.whatif_section.MODEL_NUMBERS", limit)
        found = payload_of(write_report(model, tmp_path / "r.html"))["whatIf"]
        assert (found["model"] is not None) == shown
        assert ("rows times 12 features of 3 kernels" in found["sentence"]) != shown


# The page, in a browser -----------------------------------------------------------------------------------------------


def settle(page):
    """Wait for two frames, after which all changes are drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def answer(page):
    settle(page)
    prediction = float(page.locator("output.prediction").get_attribute("data-value"))
    return prediction, json.loads(page.locator(".waterfall").get_attribute("data-contributions"))


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


KERNELS = [
    *((base, 1 + place % 4, "up_to") for place, base in enumerate(NUMERIC_BASES)),
    ("matern52", 2, "exact"),
    ("gaussian", 5, "exact"),
]


@pytest.mark.parametrize(("kernel", "order", "interactions"), KERNELS)
def test_the_page_predicts_and_explains_as_python_does(kernel, order, interactions, open_page, table, tmp_path):
    """Rows have random numbers, categories and missing values, some outside the range of the training data."""
    relevance = [1.0, 0.5, 2.0, 0.3, 0.7] if interactions == "exact" and order == 5 else [1.0, 0.5, 2.0, 0.3, 0.0]
    model = quick_model(*table, order, kernel=kernel, interactions=interactions, relevance=relevance)
    path = write_report(model, tmp_path / "r.html")
    rows, _ = mixed_table(40, seed=7)
    rows["size"] *= 1.3
    rows.loc[:5, "town"] = None
    rows.loc[3:9, "size"] = np.nan
    names = [feature["name"] for feature in payload_of(path)["whatIf"]["model"]["features"]]
    used = [model.columns_.names.index(name) for name in names]
    encoded = model.columns_.encode(rows)[:, used]
    values = [[None if np.isnan(v) else v for v in row] for row in encoded.tolist()]
    found = open_page(path).evaluate("(rows) => rows.map((row) => salsaReport.explain(row))", values)
    np.testing.assert_allclose([f["prediction"] for f in found], model.predict(rows), rtol=1e-9)
    expected = shapley(model, rows)
    contributions = np.array([f["contributions"] for f in found])
    np.testing.assert_allclose(contributions, expected.values[:, used], rtol=1e-9, atol=1e-9 * np.ptp(table[1]))


def test_the_page_predicts_and_explains_a_sum_of_kernels_as_python_does(open_page, table, tmp_path):
    """The terms use different features and base kernels; a control changes the prediction of every term."""
    model = quick_model(*table, 3)
    refitted(model, varied(model))
    path = write_report(model, tmp_path / "r.html")
    rows, _ = mixed_table(40, seed=7)
    rows.loc[:5, "town"] = None
    rows.loc[3:9, "size"] = np.nan
    names = [feature["name"] for feature in payload_of(path)["whatIf"]["model"]["features"]]
    used = [model.columns_.names.index(name) for name in names]
    values = [[None if np.isnan(v) else v for v in row] for row in model.columns_.encode(rows)[:, used].tolist()]
    page = open_page(path)
    found = page.evaluate("(rows) => rows.map((row) => salsaReport.explain(row))", values)
    np.testing.assert_allclose([f["prediction"] for f in found], model.predict(rows), rtol=1e-9)
    expected, contributions = shapley(model, rows), np.array([f["contributions"] for f in found])
    np.testing.assert_allclose(contributions, expected.values[:, used], rtol=1e-9, atol=1e-9 * np.ptp(table[1]))
    assert page.evaluate("salsaReport.mean") == pytest.approx(expected.base_value, rel=1e-9)
    page.get_by_label("size, as a number").fill("123.5")
    page.get_by_label("size, as a number").press("Enter")
    after, _ = answer(page)
    example = payload_of(path)["whatIf"]["model"]["examples"][0]["values"]
    example[names.index("size")] = 123.5
    assert page.evaluate("(row) => salsaReport.explain(row).prediction", example) == after


def test_controls_change_the_prediction_as_python_does(open_page, report, model, table):
    page = open_page(report)
    before, _ = answer(page)
    page.get_by_label("town", exact=True).select_option("東京")
    page.get_by_label("heating", exact=True).select_option("missing")
    page.get_by_label("size, as a number").fill("123.5")
    page.get_by_label("size, as a number").press("Enter")
    page.locator(".control", has_text="age").get_by_label("missing").check()
    row = pd.DataFrame([{"size": 123.5, "age": np.nan, "town": "東京", "heating": None, "noise": 0.0}])
    after, contributions = answer(page)
    assert after != before
    assert after == pytest.approx(model.predict(row)[0], rel=1e-9)
    names = [feature["name"] for feature in payload_of(report)["whatIf"]["model"]["features"]]
    expected = dict(zip(model.columns_.names, shapley(model, row).values[0], strict=True))
    np.testing.assert_allclose(contributions, [expected[name] for name in names], rtol=1e-9, atol=1e-8)


def test_a_slider_moves_by_keyboard(open_page, report, model, table):
    page = open_page(report)
    before, parts = answer(page)
    slider = page.get_by_label("size", exact=True)
    for _ in range(5):
        slider.press("ArrowRight")
    after, others = answer(page)
    assert after != before
    assert parts != others
    size = float(page.get_by_label("size, as a number").input_value())
    stored = payload_of(report)["whatIf"]["model"]
    values = stored["examples"][0]["values"]
    values[[feature["name"] for feature in stored["features"]].index("size")] = size
    assert page.evaluate("(row) => salsaReport.explain(row).prediction", values) == after
    page.get_by_label("Start from").select_option(label="training row with highest prediction")
    highest, _ = answer(page)
    assert highest == pytest.approx(model.predict(table[0]).max(), rel=1e-9)


def test_the_table_of_effects_can_be_sorted_and_searched_and_opens_curves(open_page, report):
    page = open_page(report)
    terms = page.locator(".effects tbody th")
    by_share = terms.all_inner_texts()
    page.get_by_role("button", name="Effect").click()
    assert terms.all_inner_texts() == sorted(by_share, key=str.lower)
    assert page.locator(".effects thead th").first.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="Share").press("Enter")
    assert terms.all_inner_texts() == by_share
    page.get_by_label("Search a feature").fill("TOWN")
    assert all("town" in term for term in terms.all_inner_texts())
    page.get_by_label("Search a feature").fill("no such thing")
    assert page.get_by_text("No effect has this name").is_visible()
    page.get_by_label("Search a feature").fill("")
    page.get_by_role("button", name="age", exact=True).press("Enter")
    settle(page)
    panel = page.locator(".panel")
    assert panel.locator("h3").inner_text() == "age"
    assert panel.locator("path.band").count() == 1
    assert panel.locator("text", has_text="missing").count() == 1
    page.get_by_role("button", name="heating", exact=True).click()
    settle(page)
    assert panel.locator("circle.dot").count() == 4


def test_the_table_sorts_by_shares_over_rows_where_features_are_correlated(open_page, tmp_path):
    """The page has a mark for the share over rows of every feature, a negative one left of the bars."""
    model = quick_model(*correlated_table(), alpha=1e-3, bandwidth=10.0)
    page = open_page(write_report(model, tmp_path / "r.html"))
    settle(page)
    assert page.locator(".effects thead th").all_inner_texts()[:3] == ["Effect", "Over rows", "Share"]
    assert page.locator(".effects thead th").nth(1).get_attribute("aria-sort") == "descending"
    assert page.locator(".effects tbody th").all_inner_texts()[:2] == ["x", "z"]
    assert page.locator(".effects tbody tr").nth(1).locator("td").first.inner_text().startswith("−")
    places = [mark.bounding_box()["x"] for mark in page.locator("path.dot.rows").all()]
    assert len(places) == 3
    assert places[1] < places[2] < places[0]


def test_values_of_surfaces_and_matrix_can_be_read_by_pointer_and_keys(open_page, report):
    page = open_page(report)
    page.locator(".effects").get_by_role("button", name="size × town").click()
    panel = page.locator(".panel")
    panel.locator("svg.explored").hover()
    assert re.match(r"size = .*, town = .*: [+−0-9]", panel.locator(".readout").inner_text())
    panel.locator("svg.explored").press("ArrowRight")
    alone = panel.locator(".readout").inner_text()
    panel.get_by_label("with both main effects").check()
    settle(page)
    panel.locator("svg.explored").press("ArrowRight")
    assert panel.locator(".readout").inner_text() != alone
    page.locator("#interactions svg.explored").press("ArrowDown")
    assert "of the variance" in page.locator("#interactions .readout").inner_text()
    page.locator("#interactions").get_by_role("button", name="size × town").click()
    assert panel.locator("h3").inner_text() == "size × town"


def test_positive_contributions_are_blue_and_negative_ones_orange(open_page, report):
    """The colours agree with the waterfall of matplotlib."""
    page = open_page(report)
    _, contributions = answer(page)
    assert max(contributions) > 0 > min(contributions)
    colour = (
        "(kind) => getComputedStyle(document.querySelector(`.waterfall rect.${kind}`)).fill.match(/\\d+/g).map(Number)"
    )
    adds, takes = (page.evaluate(colour, kind) for kind in ("rises", "falls"))
    assert adds[2] > adds[0]
    assert takes[0] > takes[2]
    for kind, sign in (("rises", "+"), ("falls", "−")):
        titles = page.locator(f".waterfall rect.{kind} title").all_text_contents()
        assert all(title.split(": ")[-1].startswith(sign) for title in titles)


def test_the_waterfall_sums_further_features_and_omits_unused_ones(open_page, tmp_path):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(40, 11)), np.ones(40)]
    page = open_page(write_report(quick_model(X, X[:, :11].sum(axis=1), order=2), tmp_path / "r.html"))
    _, contributions = answer(page)
    assert contributions[-1] == 0
    names = page.locator(".waterfall text").all_text_contents()
    assert "1 other" in names
    assert not any("x11" in name for name in names)
    assert page.locator(".control").count() == 11


def test_features_with_few_values_are_drawn_as_dots_with_error_bars(open_page, tmp_path):
    """The table has a boolean, and a number with five values and missing ones."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"flag": rng.random(80) < 0.5, "stars": rng.integers(1, 6, 80).astype(float)})
    X.loc[:9, "stars"] = np.nan
    y = X["flag"] + X["stars"].fillna(0) + 0.1 * rng.normal(size=80)
    page = open_page(write_report(quick_model(X, y), tmp_path / "r.html"))
    for name, dots in (("flag", 2), ("stars", 6)):
        page.locator(".effects").get_by_role("button", name=name, exact=True).click()
        settle(page)
        panel = page.locator(".panel")
        assert panel.locator("circle.dot").count() == panel.locator("line.whisker").count() == dots
        assert panel.locator("path.band, path.rug").count() == 0
        assert "Bars" in panel.locator(".note").inner_text()
    ticks = panel.locator(".axis").first.locator("text").all_text_contents()
    assert ticks[:5] == ["1", "2", "3", "4", "5"]


def test_the_page_of_a_model_of_order_1_mentions_no_interactions(open_page, table, tmp_path):
    page = open_page(write_report(quick_model(*table, order=1), tmp_path / "r.html"))
    settle(page)
    assert "interaction" not in page.locator("#matters").inner_text()
    assert page.locator("#matters").get_by_text("Total").count() == 0
    assert all("interaction" not in title for title in page.locator("#matters title").all_text_contents())


def test_the_matrix_of_11_features_shows_all_shares_and_its_diagonal(open_page, tmp_path):
    """Shares below 0.05 % have no number."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 11))
    page = open_page(write_report(quick_model(X, X.sum(axis=1) + 3 * X[:, 0] * X[:, 1]), tmp_path / "r.html"))
    settle(page)
    shares = np.array(payload_of(tmp_path / "r.html")["interactions"]["shares"])
    numbers = [
        text for text in page.locator("#interactions svg.explored text").all_text_contents() if text[:1].isdigit()
    ]
    assert len(numbers) == np.sum(np.tril(shares) >= 0.0005)
    strengths = page.locator("rect.own").evaluate_all("(all) => all.map((r) => Number(r.getAttribute('fill-opacity')))")
    assert len(strengths) == 11
    assert np.argmax(strengths) == np.argmax(np.diag(shares))


@pytest.mark.parametrize("width", [375, 1280])
def test_tables_show_all_columns_also_with_long_names(width, open_page, tmp_path):
    """No cell lies outside its table."""
    X, y = mixed_table(60)
    X = X.rename(columns={"size": "a name that goes on and on and on and on " * 4, "age": "unbroken" * 30})
    page = open_page(write_report(quick_model(X, y), tmp_path / "r.html"), width=width)
    settle(page)
    outside = """(holder) => [...holder.querySelectorAll('td')].filter((cell) =>
        cell.getBoundingClientRect().right > holder.getBoundingClientRect().right + 1).length"""
    for holder in page.locator(".scroll").all():
        assert holder.evaluate(outside) == 0
    assert page.locator(".data tbody tr").first.get_by_text("0\u202f%").is_visible()
    assert page.locator(".effects .open").first.get_attribute("title") in X.columns


def test_every_odd_report_opens_on_a_phone_without_overflow(open_page, odd_reports):
    """Every chart is drawn, and names with markup appear as text."""
    for name, path in odd_reports.items():
        page = open_page(path, width=360, height=740)
        settle(page)
        assert overflow(page) <= 0, name
        assert page.locator("text=NaN").count() == 0, name
        assert page.evaluate("[...document.querySelectorAll('.chart')].every((c) => c.childElementCount === 1)"), name
        if name == "hostile names":
            for hostile in HOSTILE[:2]:
                assert page.locator(".data").get_by_text(hostile, exact=True).count() > 0
            assert page.locator("img").count() == 0
        page.context.close()


def test_touch_targets_are_at_least_40_pixels_high(open_page, report):
    page = open_page(report, width=360, height=740, has_touch=True)
    settle(page)
    heights = page.evaluate(
        "[...document.querySelectorAll('button, select, nav a, .absent, summary, [type=number], [type=range]')]"
        ".filter((e) => e.offsetParent).map((e) => [e.textContent.slice(0, 20), e.getBoundingClientRect().height])"
    )
    assert min(height for _, height in heights) >= 40, heights
    assert overflow(page) <= 0


#: Pairs of labels of a chart with less than `gap` pixels between them side by side
OVERLAPS = """(gap) => [...document.querySelectorAll('.chart svg')].flatMap((chart) => {
    const boxes = [...chart.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
    return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
        Math.min(p.right, q.right) - Math.max(p.left, q.left) > -gap &&
        Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4).map(([b]) => [a, b]));
})"""


def test_labels_do_not_overlap(open_page, odd_reports, report):
    """Every chart at two widths has no two labels that overlap by more than 1.5 pixels."""
    for path in (
        report,
        odd_reports["a hundred long names"],
        odd_reports["large numbers"],
        odd_reports["small numbers"],
        odd_reports["correlated numbers"],
    ):
        for width in (360, 1280):
            page = open_page(path, width=width)
            settle(page)
            assert page.evaluate(OVERLAPS, -1.5) == [], (path, width)
            page.context.close()


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """Write a report on numbers with missing values, whose last tick is close to the end, and on two categories."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"area": rng.uniform(20, 205, 150), "built": rng.integers(1900, 2024, 150).astype(float)})
    X["heating"] = rng.choice(["gas", "heat pump", "oil", "wood"], 150)
    X["district"] = rng.choice(["north", "south", "old town", "harbour"], 150)
    y = (X["area"] - 110) * (X["built"] - 1960) + 9e3 * (X["heating"] == "gas") * (X["district"] == "north")
    y += 30 * (X["area"] - 110) * (X["heating"] == "oil") + 50 * (X["built"] - 1960) * (X["heating"] == "wood")
    X.loc[:9, "area"] = np.nan
    X.loc[5:15, "built"] = np.nan
    return write_report(quick_model(X, y, alpha=1e-3), tmp_path_factory.mktemp("homes") / "r.html")


@pytest.mark.parametrize("width", [375, 1280])
def test_ticks_keep_clear_of_missing_values(width, open_page, homes):
    page = open_page(homes, width=width)
    for term in ("area", "built", "area × built", "area × heating", "built × heating"):
        page.locator(".effects").get_by_role("button", name=term, exact=True).click()
        settle(page)
        assert page.locator(".panel text", has_text="missing").count() >= 1
        assert page.evaluate(OVERLAPS, 4) == [], term


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_a_heat_map_names_every_level_that_has_room(width, open_page, homes):
    page = open_page(homes, width=width)
    page.locator(".effects").get_by_role("button", name="heating × district", exact=True).click()
    settle(page)
    texts = page.locator(".panel svg text").all_text_contents()
    assert {"gas", "heat pump", "oil", "wood", "north", "south", "old town", "harbour"} < set(texts)
    assert page.evaluate(OVERLAPS, 1) == []
    numbers = [text for text in texts if text[0] in "+−0"]
    assert len(numbers) == 16 or width == 320


def test_labels_of_many_levels_are_rotated(open_page, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice([f"the level {i}" for i in range(12)], 200), "b": rng.choice(["u", "v"], 200)})
    y = rng.normal(size=12)[X["a"].str[10:].astype(int)] * (X["b"] == "u")
    page = open_page(write_report(quick_model(X, y, alpha=0.01), tmp_path / "r.html"), width=375)
    page.locator(".effects").get_by_role("button", name="a × b").click()
    settle(page)
    assert page.locator(".panel text[transform]").all_text_contents() == sorted(set(X["a"]))
    assert page.evaluate(OVERLAPS, 0) == []
    assert overflow(page) <= 0


def test_heat_map_cells_are_blue_or_orange_with_opacity_by_size(open_page, homes):
    """The colour scale is symmetric, for the interaction and for the joint effect."""
    page = open_page(homes)
    page.locator(".effects").get_by_role("button", name="heating × district", exact=True).click()
    settle(page)
    effect = next(e for e in payload_of(homes)["effects"] if e["term"] == "heating × district")
    cells = page.locator(".panel .chart rect[fill-opacity]")
    found = cells.evaluate_all("(all) => all.map((r) => [r.getAttribute('class'), r.getAttribute('fill-opacity')])")
    assert [kind for kind, _ in found] == ["falls" if value < 0 else "rises" for value in effect["values"]]
    strength = np.abs(effect["values"]) / np.abs(effect["values"]).max()
    np.testing.assert_allclose([float(opacity) for _, opacity in found], strength, atol=1e-3)
    page.get_by_label("with both main effects").check()
    settle(page)
    low, high = page.locator(".legend.key").inner_text().split()
    assert low.replace("−", "+") == high


def test_the_page_shows_the_variance_shares_of_interactions(open_page, homes):
    page = open_page(homes)
    words = payload_of(homes)["importance"]["interactions"]
    assert page.locator(".facts div", has_text="Interactions").locator("dd").inner_text() == words
    settle(page)
    shares = [part["words"] for part in payload_of(homes)["importance"]["orders"]]
    assert page.locator("#matters .legend").first.inner_text().count("%") == len(shares)
    assert all(share in page.locator("#matters .legend").first.inner_text() for share in shares)


def test_the_page_has_a_dark_mode_and_prints_without_contents(open_page, report):
    page = open_page(report, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 22, 27)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert not page.locator("#contents").is_visible()
    assert page.locator("#matters").is_visible()


def test_the_title_names_the_target():
    assert Given(None, None, None, "price").title == "A model of price"
