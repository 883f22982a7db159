"""Tests of the statements about the error in plain words: their numbers, the groups that are named, and the page."""

import re

import numpy as np
import pandas as pd
import pytest

from explain.test_report import mixed_table, overflow, payload_of, quick_model, settle
from salsa import SalsaClassifier, SalsaRegressor
from salsa.explain import write_report
from salsa.explain.report import held_out_rows
from salsa.explain.report.judged_rows import JudgedRows
from salsa.explain.report.plain_words import Group, _whom_words, amount


def plain_of(path):
    return payload_of(path)["plain"]


def of_100(share):
    return f"{round(100 * share)} of 100"


def test_statements_about_new_rows_have_the_errors_of_predict_and_predict_interval(tmp_path):
    X, y = mixed_table(160)
    model = quick_model(X[:100], y[:100])
    off, mean, interval, _ = plain_of(write_report(model, tmp_path / "r.html", X[100:], y[100:]))["statements"]
    error = np.abs(y[100:] - model.predict(X[100:]))
    half, most = (amount(np.quantile(error, level)) for level in (0.5, 0.9))
    assert off.startswith("For 60 rows that the model has never seen, half of the predictions are off by less than ")
    assert f"less than {half}, and 9 of 10 by less than {most}." in off
    assert f"is off by {amount(error.mean())};" in mean
    assert mean.endswith(f"off by {amount(np.abs(y[100:] - y[100:].mean()).mean())}.")
    low, high = model.predict_interval(X[100:], 0.9).T
    assert f"for {of_100(np.mean((low <= y[100:]) & (y[100:] <= high)))} rows, and should for 90." in interval
    assert interval.endswith(f"shorter than {amount(np.median(high - low))}.")


def test_rows_that_a_low_rank_model_may_have_seen_are_not_called_new(tmp_path):
    X, y = mixed_table(400)
    model = quick_model(X, y, 1, solver="lowrank", rank=20)
    found = plain_of(write_report(model, tmp_path / "r.html", X[:200], y[:200]))
    assert "rows that the model does not recognise, half" in found["statements"][0]
    assert "given rows, new unless they are training rows that are no anchors" in found["note"]


def test_statements_about_training_rows_are_by_leave_one_out(tmp_path):
    X, y = mixed_table(100)
    model = quick_model(X, y)
    off, _, interval, _ = plain_of(write_report(model, tmp_path / "r.html"))["statements"]
    loo = model.leave_one_out()
    error = np.abs(loo.target - loo.prediction)[:, 0]
    assert f"off by less than {amount(np.median(error))}," in off
    assert "tested on without having seen them" in off
    assert of_100(np.mean(error <= 1.6448536 * loo.sd[:, 0])) in interval


@pytest.mark.parametrize("new", [False, True])
def test_statements_about_classes_count_right_classes_and_sets_that_hold(new, tmp_path):
    rng, n = np.random.default_rng(0), 200
    X = pd.DataFrame({"dose": rng.uniform(0, 10, n), "ward": rng.choice(["east", "west"], n)})
    y = pd.Series(np.where(X["dose"] + 2 * rng.normal(size=n) > 4, "ill", "well"), name="outcome")
    model = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X[:120], y[:120])
    given = (X[120:], y[120:]) if new else ()
    right, *_, sets, _ = plain_of(write_report(model, tmp_path / "r.html", *given))["statements"]
    labels, p = (y[120:], model.predict_proba(X[120:])) if new else model.held_out_proba()[:2]
    assert f"is right for {of_100(np.mean(model.classes_[p.argmax(axis=1)] == labels))} rows" in right
    assert f"always saying “ill” is right for {of_100(np.mean(labels == 'ill'))}" in right
    assert ("so that only groups of them and new rows can check it" in sets) != new
    if new:
        holds = model.predict_set(X[120:], 0.9)[np.arange(80), np.searchsorted(model.classes_, labels)]
        assert f"held the truth for {of_100(holds.mean())} rows" in sets


def test_a_quantile_is_said_as_the_share_of_rows_that_do_not_exceed_it(tmp_path):
    X, y = mixed_table(160)
    model = SalsaRegressor(1, loss="quantile", quantile=0.8, relevance="equal", alpha=1.0).fit(X[:100], y[:100])
    first = plain_of(write_report(model, tmp_path / "r.html", X[100:], y[100:]))["statements"][0]
    assert first.startswith("The model predicts a value that 80 of 100 rows should not exceed. Of 60 rows")
    assert f"{of_100(np.mean(y[100:] <= model.predict(X[100:])))} did not exceed it." in first


def test_errors_are_of_all_new_rows_and_intervals_of_a_part_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(held_out_rows, "INTERVAL_ROWS", 80)
    X, y = mixed_table(200)
    model = quick_model(X[:100], y[:100])
    found = payload_of(write_report(model, tmp_path / "r.html", X[100:], y[100:]))
    off, mean, interval, _ = found["plain"]["statements"]
    error = np.abs(y[100:] - model.predict(X[100:]))
    assert off.startswith("For 100 rows that the model has never seen")
    assert f"is off by {amount(error.mean())};" in mean
    drawn = 100 + np.unique(np.linspace(0, 99, 80).astype(int))
    low, high = model.predict_interval(X.iloc[drawn], 0.9).T
    held = np.mean((low <= y.iloc[drawn]) & (y.iloc[drawn] <= high))
    assert f"for {of_100(held)} rows, and should for 90 (checked on 80 of the 100 rows)." in interval
    assert found["plain"]["table"]["rows"][0][1] == "100"
    assert "Intervals were computed for 80 of them" in found["plain"]["note"]
    assert "of 80 of the 100 new rows held" in found["calibration"]["sentence"]


def test_intervals_of_all_new_rows_are_not_called_a_part(tmp_path):
    X, y = mixed_table(200)
    path = write_report(quick_model(X[:100], y[:100]), tmp_path / "r.html", X[100:], y[100:])
    assert "of the 100" not in path.read_text(encoding="utf-8")


def test_the_table_of_groups_has_levels_thirds_and_missing_values(tmp_path):
    X, y = mixed_table(300)
    plain = plain_of(write_report(quick_model(X, y, order=1), tmp_path / "r.html"))
    rows = {row[0]: row for row in plain["table"]["rows"]}
    assert {"all rows", "low prediction", "town = Bern", "low size", "age missing", "heating = wood"} <= rows.keys()
    assert rows["town = Bern"][1] == str((X["town"] == "Bern").sum())
    assert rows["age missing"][1] == str(X["age"].isna().sum())
    assert sum(int(rows[f"{third} size"][1]) for third in ("low", "medium", "high")) == 300


def judged(holds):
    n = len(holds)
    return JudgedRows(True, np.zeros(n), np.zeros(n), None, None, holds, np.ones(n), None)


def test_a_group_whose_interval_fails_is_named_and_others_are_not():
    rng, n = np.random.default_rng(0), 900
    place = np.arange(n) % 9
    holds = rng.random(n) < np.where(place == 4, 0.6, 0.95)
    groups = [Group(f"town = {k}", place == k) for k in range(9)]
    words = _whom_words(judged(holds), groups, is_classes=False)
    assert re.fullmatch(
        r"The interval holds less often than intended for town = 4 \(\d\d of 100\)\. Be careful there\.", words
    )


def test_chance_alone_seldom_names_a_group():
    """At most 5 % of the tables, and a little more because coverage is a binomial share, not normal."""
    rng, n = np.random.default_rng(0), 1000
    place = np.arange(n) % 10
    groups = [Group(f"town = {k}", place == k) for k in range(10)]
    named = ["less often" in _whom_words(judged(rng.random(n) < 0.9), groups, is_classes=False) for _ in range(400)]
    assert np.mean(named) < 0.12


@pytest.mark.parametrize(
    ("value", "words"), [(0.69512, "0.695"), (12345.6, "12,300"), (999.7, "1,000"), (1234567.0, "1,230,000"), (0, "0")]
)
def test_amounts_have_three_digits(value, words):
    assert amount(value) == words


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_shows_statements_and_the_groups_on_request(width, open_page, tmp_path):
    X, y = mixed_table(160)
    path = write_report(quick_model(X[:100], y[:100]), tmp_path / "r.html", X[100:], y[100:])
    page = open_page(path, width=width)
    settle(page)
    assert page.locator(".statements li").all_text_contents() == plain_of(path)["statements"]
    page.get_by_text("Groups that were checked").first.click()
    assert page.get_by_role("region", name="Groups that were checked").is_visible()
    assert overflow(page) <= 0
