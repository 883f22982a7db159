"""The page of a model with dates: it predicts as Python does, and its controls write dates as people do."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from salsa import SalsaRegressor
from salsa.data.date_parts import DATE_PARTS, WEEK
from salsa.explain import shapley, write_report

#: Stamps whose time of year, or whose trend, is rounded down in float64
ROUNDED = (
    *("2019-01-04", "2019-01-07", "2019-01-13", "2019-02-18", "2019-04-07"),
    *("2019-01-01T00:09", "2019-01-01T00:17", "2019-01-01T00:54", "2019-01-01T01:02"),
)


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    """A model with all parts of a date and missing stamps, its table, and its report."""
    rng, n = np.random.default_rng(0), 80
    when = pd.Series(pd.date_range("2020-01-01 05:00", periods=n, freq="211h", tz="UTC")).dt.tz_convert("Europe/Berlin")
    X = pd.DataFrame({"size": rng.uniform(-1, 1, n), "when": when})
    y = X["size"] + np.sin(2 * np.pi * when.dt.day_of_year / 365) + 0.5 * (when.dt.hour > 12)
    X.loc[3, "when"] = pd.NaT
    model = SalsaRegressor(relevance="equal", order=2, alpha=0.1).fit(X, y.fillna(0.0))
    path = tmp_path_factory.mktemp("dates") / "r.html"
    write_report(model, path)
    return model, X, path


def features_of(path):
    text = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    return json.loads(text.group(1))["whatIf"]["model"]["features"]


def test_the_page_predicts_and_explains_dates_as_python_does(open_page, dated):
    model, X, path = dated
    used = [model.columns_.names.index(feature["name"]) for feature in features_of(path)]
    encoded = model.columns_.encode(X)[:, used].tolist()
    values = [[None if np.isnan(v) else v for v in row] for row in encoded]
    found = open_page(path).evaluate("(rows) => rows.map((row) => salsaReport.explain(row))", values)
    np.testing.assert_allclose([f["prediction"] for f in found], model.predict(X), rtol=1e-9, atol=1e-9)
    expected = shapley(model, X).all_values[:, used, 0]
    np.testing.assert_allclose([f["contributions"] for f in found], expected, rtol=1e-9, atol=1e-9)


def test_controls_show_dates_and_days_of_the_week(open_page, dated):
    page = open_page(dated[2])
    control = {
        part: page.locator(".control", has_text=f"when: {part}") for part in ("trend", "time of year", "hour of day")
    }
    assert re.fullmatch(r"202[01]-\d\d-\d\d( \d\d:\d\d)?", control["trend"].locator("output").inner_text())
    assert re.fullmatch(r"\d\d:\d\d", control["hour of day"].locator("output").inner_text())
    control["time of year"].locator("input[type=range]").press("Home")
    assert control["time of year"].locator("output").inner_text() == "1 January"
    page.get_by_label("when: day of week", exact=True).select_option("Sunday")
    drawn = "() => document.querySelector('.waterfall').innerHTML.includes('when: day of week = Sunday')"
    page.wait_for_function(drawn)


def test_ranges_and_days_of_the_week_are_not_cut(open_page, dated):
    page = open_page(dated[2])
    texts = page.locator(".waterfall text").all_text_contents()
    assert any(re.fullmatch(r"when: day of week = [A-Z][a-z]+day", text) for text in texts)
    of_dates = page.locator("tr", has_text="when").locator("td.range .cut")
    heights = of_dates.evaluate_all("(all) => all.map((one) => [one.scrollHeight, one.clientHeight])")
    widths = of_dates.evaluate_all("(all) => all.map((one) => [one.scrollWidth, one.clientWidth])")
    assert len(heights) >= 5
    assert all(inner <= outer for inner, outer in (heights[0], heights[1], *widths[:2]))


def test_the_page_writes_dates_as_python_does(open_page, tmp_path):
    when = pd.Series(pd.date_range("2018-07-01", periods=200, freq="121h"))
    y = np.sin(2 * np.pi * when.dt.day_of_year / 365) + when.dt.hour
    model = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(when.to_frame("when"), y)
    parts = {name: model.columns_.all_parts[j] for j, name in enumerate(DATE_PARTS)}
    X = pd.DataFrame({"when": ROUNDED})
    page = open_page(write_report(model, tmp_path / "r.html", X))
    for place, row in enumerate(model.columns_.encode(X), start=1):
        page.get_by_label("Start from").select_option(str(place))
        for name, value in zip(DATE_PARTS, row, strict=True):
            if name != WEEK:
                shown = page.locator(".control", has_text=f"when: {name}").locator("output").inner_text()
                assert shown == parts[name].written(value)


def test_parts_that_repeat_have_no_training_range(open_page, dated):
    rows = open_page(dated[2]).locator("table.row-values tbody tr")
    for part in ("time of year", "hour of day"):
        assert rows.filter(has_text=f"when: {part}").locator("td").nth(1).inner_text() == "none: it repeats"
    assert "–" in rows.filter(has_text="when: trend").locator("td").nth(1).inner_text()
