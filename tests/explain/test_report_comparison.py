"""Tests of the comparison of two models: the same rows, the numbers of both, the page, and models that do not fit."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import salsa
from explain.test_report import mixed_table, overflow, payload_of, quick_model, settle
from explain.test_report_access import violations
from salsa import SalsaClassifier, SalsaRegressor
from salsa.explain import decompose, write_report
from salsa.explain.report.plain_words import amount

NEW = slice(100, 160)


@pytest.fixture(scope="module")
def pair():
    """Return two models of different rows and orders, and a table; rows 100 to 159 are new to both."""
    X, y = mixed_table(160)
    return quick_model(X[:100], y[:100]), quick_model(X[20:90], y[20:90], 1, alpha=1.0), X, y


@pytest.fixture(scope="module")
def report(pair, tmp_path_factory):
    one, other, X, y = pair
    return write_report([one, other], tmp_path_factory.mktemp("pair") / "r.html", X, y)


def compared(path):
    return payload_of(path)["comparison"]


def test_both_models_are_judged_on_the_rows_that_neither_has_seen(pair, report):
    one, other, X, y = pair
    found = compared(report)
    table = {name: cells for name, *cells in found["table"]["rows"]}
    for k, model in enumerate((one, other)):
        off = np.abs(y[NEW] - model.predict(X[NEW]))
        assert table["off by, on average"][k] == amount(off.mean())
        assert table["root mean squared error"][k] == amount(np.sqrt(np.mean(off**2)))
        assert table["R²"][k] == f"{model.score(X[NEW], y[NEW]):.3f}"
        low, high = model.predict_interval(X[NEW], 0.9).T
        assert table["90\u202f% interval holds"][k] == f"{100 * np.mean((low <= y[NEW]) & (y[NEW] <= high)):.0f}\u202f%"
    assert [dict(facts["facts"])["Kernel"][-7:] for facts in found["models"]] == ["order 2", "order 1"]
    assert "the same 60 rows" in found["note"]
    assert "Left out, because a model was fitted to them: 100 rows." in found["note"]


def test_all_rows_that_a_model_was_fitted_to_are_counted(tmp_path):
    X, y = mixed_table(160)
    pair = [quick_model(X[rows], y[rows], 1, alpha=1.0) for rows in (slice(60), slice(40, 100))]
    found = compared(write_report(pair, tmp_path / "r.html", X, y))
    assert "the same 60 rows" in found["note"]
    assert "Left out, because a model was fitted to them: 100 rows." in found["note"]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_models_of_columns_in_different_orders_are_compared(kind, tmp_path):
    X, y = mixed_table(120)
    pair = [quick_model(table[:100], y[:100], 1) for table in (X, X.iloc[:, ::-1])]
    found = compared(write_report(pair, tmp_path / "r.html", kind(X), y))
    assert "the same 20 rows" in found["note"]
    assert all(one == other for _, one, other in found["table"]["rows"][:5])  # folds of intervals differ


def test_rows_that_low_rank_models_may_have_seen_are_not_called_new(tmp_path):
    X, y = mixed_table(400)
    pair = [quick_model(X, y, 1, alpha=alpha, solver="lowrank", rank=20) for alpha in (0.1, 10.0)]
    found = compared(write_report(pair, tmp_path / "r.html", X[:200], y[:200]))
    assert "neither model recognises" in found["sentence"]
    assert "has seen" not in found["sentence"]
    assert "recognises only its anchors: other training rows would count as new rows" in found["note"]


def test_durations_in_different_units_are_drawn_in_one(tmp_path):
    rng = np.random.default_rng(0)
    minutes = [rng.uniform(1, longest, 60) for longest in (100, 200, 100)]
    tables = [pd.DataFrame({"wait": pd.to_timedelta(values, unit="min")}) for values in minutes]
    pair = [quick_model(X, values, 1) for X, values in zip(tables[:2], minutes[:2], strict=True)]
    assert [model.columns_.parts[0].detail for model in pair] == ["minutes", "hours"]
    for models, longest in ((pair, 200.0), (pair[::-1], 200.0 / 60)):
        (effect,) = compared(write_report(models, tmp_path / "r.html", tables[2], minutes[2]))["effects"]
        assert effect["axis"]["name"] == f"wait ({models[0].columns_.parts[0].detail})"
        assert effect["axis"]["points"][-1] == pytest.approx(longest, rel=0.05)
        inner = slice(10, 45)  # both models have learned that the target is the duration
        one, other = (np.array(curve["values"]) for curve in effect["curves"])
        assert np.ptp((one - other)[inner]) < 0.1 * np.ptp(one)


def test_the_verdict_has_the_paired_standard_error(pair, report):
    one, other, X, y = pair
    losses = [(y[NEW] - model.predict(X[NEW])) ** 2 for model in (one, other)]
    gap = losses[0] - losses[1]
    errors = abs(gap.mean()) / (gap.std(ddof=0) / np.sqrt(60))
    verdict = compared(report)["sentence"]
    assert f"{errors:.1f} standard errors" in verdict
    assert ("no clear difference" not in verdict) == (errors > 2)
    better = "Model A" if gap.mean() < 0 else "Model B"
    assert f"the squared error of {better} is" in verdict


def test_equal_models_differ_in_nothing(pair, tmp_path):
    one, _, X, y = pair
    found = compared(write_report([one, one], tmp_path / "r.html", X, y))
    assert "both models have the squared error" in found["sentence"]
    assert all(row["shares"][0] == row["shares"][1] for row in found["shares"])
    assert all(effect["curves"][0] == effect["curves"][1] for effect in found["effects"])


def test_shares_and_effects_are_those_of_the_decompositions(pair, report):
    found, anovas = compared(report), [decompose(model) for model in pair[:2]]
    for row in found["shares"]:
        expected = [anova.sobol().set_index("feature")["total"][row["name"]] for anova in anovas]
        assert row["shares"] == pytest.approx(expected)
    effects = {effect["term"]: effect for effect in found["effects"]}
    assert effects["town"]["axis"]["labels"] == ["Bern", "Łódź", "東京"]
    size = effects["size"]
    for anova, curve in zip(anovas, size["curves"], strict=True):
        expected = anova.effect("size", points=[size["axis"]["points"]])
        np.testing.assert_allclose(curve["values"], expected.values, atol=2e-3 * np.ptp(expected.values))
        np.testing.assert_allclose(curve["sd"], expected.sd, atol=2e-3 * np.ptp(expected.values))
    ends = [X["size"].agg(["min", "max"]) for X in (pair[2][:100], pair[2][20:90])]
    assert size["axis"]["points"][0] == pytest.approx(min(end["min"] for end in ends), rel=1e-3)
    assert size["axis"]["points"][-1] == pytest.approx(max(end["max"] for end in ends), rel=1e-3)


@pytest.fixture(scope="module")
def class_report(tmp_path_factory):
    X, y = mixed_table(200)
    labels = pd.Series(np.where(y > y.median(), "dear", "cheap"), name="class")
    fits = [SalsaClassifier(d, relevance="equal", alpha=0.1).fit(X[:120], labels[:120]) for d in (1, 2)]
    return fits, X, labels, write_report(fits, tmp_path_factory.mktemp("classes") / "r.html", X, labels)


def test_classes_are_compared_by_log_loss(class_report):
    fits, X, labels, path = class_report
    rows = compared(path)["table"]["rows"]
    for k, model in enumerate(fits):
        p = model.predict_proba(X[120:])[np.arange(80), np.searchsorted(model.classes_, labels[120:])]
        assert rows[0][1 + k].startswith(f"{amount(-np.log(p).mean())} ±")
        assert rows[1][1 + k] == f"{100 * model.score(X[120:], labels[120:]):.0f}\u202f%"
    assert rows[0][0] == "log loss, mean ± standard error"


def test_models_on_different_scales_are_compared_without_effects(pair, tmp_path):
    *_, X, y = pair
    log = quick_model(X[:100], y[:100] - y.min() + 1, target_transform="log")
    plain = quick_model(X[:100], y[:100] - y.min() + 1)
    found = compared(write_report([plain, log], tmp_path / "r.html", X, y - y.min() + 1))
    assert found["effects"] == []
    assert "different scales: prediction and log of the target" in found["effectsNote"]
    assert len(found["table"]["rows"]) == 7


def test_saved_models_are_compared_as_well(pair, report, tmp_path):
    one, other, X, y = pair
    one.save(tmp_path / "a.salsa")
    other.save(tmp_path / "b.salsa")
    again = write_report([salsa.load(tmp_path / f"{name}.salsa") for name in "ab"], tmp_path / "r.html", X, y)
    assert compared(again) == compared(report)


def refused(models, path, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match="compar") as error:
            write_report(models, path, X, y)
    assert not path.exists()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_models_that_cannot_be_compared_are_refused_in_one_line(pair, tmp_path):
    one, other, X, y = pair
    path = tmp_path / "r.html"
    assert "not of 3: give a list of two fitted models" in refused([one, other, one], path, X, y)
    assert "give X and y" in refused([one, other], path, X, None)
    assert "give X and y" in refused([one, other], path, None, None)
    fewer = quick_model(X[:100].drop(columns="noise"), y[:100])
    assert "only Model A has the columns 'noise'" in refused([one, fewer], path, X, y)
    coded = quick_model(X[:100].assign(town=1.0), y[:100])
    said = refused([one, coded], path, X, y)
    assert "column 'town' is a category for Model A and a number for Model B" in said
    classes = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X[:100], np.where(y[:100] > 100, "big", "small"))
    assert "Model A predicts numbers, Model B the classes 'big', 'small'" in refused([one, classes], path, X, y)
    rate = quick_model(X[:100], 2 * y[:100] + 7)
    assert "they were fitted to different targets; a row that both know" in refused([one, rate], path, X, y)
    median = SalsaRegressor(1, loss="quantile", quantile=0.5, relevance="equal", alpha=1.0).fit(X[:100], y[:100])
    assert "Model A predicts the mean, Model B the quantile 0.5" in refused([one, median], path, X, y)
    assert "X has 5 such rows, and 100 training rows" in refused([one, other], path, X[:105], y[:105])


@pytest.mark.parametrize("look", [(1280, "light"), (390, "dark")], ids=str)
def test_the_page_of_two_models_is_drawn_accessible_and_fits(look, open_page, report, class_report):
    width, scheme = look
    for path in (report, class_report[-1]):
        page = open_page(path, width=width, sections=4, color_scheme=scheme)
        settle(page)
        assert page.locator("#better .lead").inner_text() == compared(path)["sentence"]
        assert page.evaluate("[...document.querySelectorAll('.chart')].every((c) => c.childElementCount === 1)")
        assert page.locator("#effects figure").count() == len(compared(path)["effects"])
        assert page.locator("text=NaN").count() == 0
        assert overflow(page) <= 0
        assert violations(page) == []


def test_both_curves_and_all_levels_are_drawn(open_page, report):
    page = open_page(report, sections=4)
    settle(page)
    size = page.locator("#effects figure", has_text="size").first
    assert size.locator("path.curve").count() == size.locator("path.band").count() == 2
    town = page.locator("#effects figure", has_text="town")
    assert town.locator("circle.dot").count() == 6
    assert "Bern" in town.locator("svg").get_attribute("aria-label")
