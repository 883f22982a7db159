"""Dates on the command line: ISO text in CSV, columns of dates in Parquet, errors with file, column and row."""

import json

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import FIT_MIXED, make_table
from salsa import SalsaRegressor
from salsa.fitted import fitted_of


def dated(n=60):
    """A table with a date for every row but one."""
    table = make_table(n)
    days = pd.Series(pd.date_range("2024-01-01", periods=n, freq="13D"))
    days[4] = pd.NaT
    return table.assign(day=days, y=table["y"] + np.sin(2 * np.pi * np.arange(n) * 13 / 365))


@pytest.fixture
def model(call, folder):
    """A model of a CSV file with dates."""
    dated().to_csv("t.csv", index=False)
    dated().to_parquet("t.parquet")
    code, output, error = call("fit", "t.csv", *FIT_MIXED)
    assert (code, error) == (0, "")
    assert "no hour of day, because it is the same in all rows" in " ".join(output.split())
    return salsa.load("mixed.salsa")


def predictions(call, data):
    assert call("predict", "mixed.salsa", data, "--out", "p.csv")[0] == 0
    return pd.read_csv("p.csv")["prediction"].to_numpy()


def test_csv_and_parquet_give_the_same_model_and_predictions(call, model):
    parts = tuple(f"day: {part}" for part in ("trend", "time of year", "day of week"))
    assert model.columns_.names == ("a", "b", "c", "d", *parts)
    expected = model.predict(dated().drop(columns="y"))
    for data in ("t.csv", "t.parquet"):
        np.testing.assert_array_equal(predictions(call, data), expected)
    assert call("fit", "t.parquet", *FIT_MIXED)[0] == 0
    np.testing.assert_array_equal(predictions(call, "t.csv"), expected)


def test_a_cell_that_is_no_date_gives_an_error_with_its_row(refused, model):
    dated().assign(day="2024-01-01").replace({"day": {"2024-01-01": "soon"}}).to_csv("bad.csv", index=False)
    message = "bad.csv: column 'day' has 'soon' in row 1, which is no date such as 2026-01-31"
    assert message in refused("predict", "mixed.salsa", "bad.csv")


def test_words_and_spaces_in_a_new_file_are_read_as_in_training(call, model):
    texts = dated()["day"].dt.strftime(" %Y-%m-%d").where(dated()["day"].notna(), "n.a.")
    dated().assign(day=texts).to_csv("new.csv", index=False)
    words = "salsa: new.csv has words that count as missing values: column 'day': 1 row, such as 'n.a.'\n"
    assert call("predict", "mixed.salsa", "new.csv", "--out", "p.csv")[2] == words
    np.testing.assert_array_equal(pd.read_csv("p.csv")["prediction"], model.predict(dated().drop(columns="y")))


def test_a_messy_file_has_dates_beside_decimal_commas(call, folder):
    table = dated()
    commas = {name: table[name].round(3).map("{:.3f}".format).str.replace(".", ",") for name in "abcdy"}
    texts = table["day"].dt.strftime("%Y-%m-%d ").where(table["day"].notna(), "?")
    table.assign(**commas, day=texts).to_csv("messy.csv", sep=";", index=False)
    assert call("fit", "messy.csv", *FIT_MIXED)[0] == 0
    model = salsa.load("mixed.salsa")
    assert "day" not in fitted_of(model).formats
    plain = table.round(dict.fromkeys("abcdy", 3))
    expected = SalsaRegressor(order=2, alpha=0.1, relevance="equal", random_state=0)
    expected.fit(plain.drop(columns="y"), plain["y"])
    np.testing.assert_allclose(predictions(call, "messy.csv"), expected.predict(plain.drop(columns="y")), rtol=1e-12)


def test_check_shows_dates_and_durations_of_a_parquet_file(call, folder):
    table = dated().assign(wait=pd.to_timedelta(np.arange(60), unit="D"), price=[f"{i},5 EUR" for i in range(60)])
    table.to_parquet("t.parquet")
    columns = {
        row["column"]: row for row in json.loads(call("check", "t.parquet", "--target", "y", "--json")[1])["columns"]
    }
    day, wait = columns["day"], columns["wait"]
    assert (day["kind"], day["missing"], day["example"]) == ("date", 1, "2024-01-01")
    others = "and where the dates tell them apart, time of year, day of week and hour of day"
    assert day["done"] == f"its parts become features: trend, {others}"
    assert (wait["kind"], wait["example"], wait["done"]) == ("duration", "0 days", "")
    assert call("fit", "t.parquet", *FIT_MIXED)[0] == 0
    formats = fitted_of(salsa.load("mixed.salsa")).formats
    assert "price" in formats
    assert not {"day", "wait"} & set(formats)


def test_durations_are_refused_where_a_text_file_has_none(call, refused, folder):
    table = dated().assign(wait=pd.to_timedelta(np.arange(60), unit="h"))
    table.to_parquet("t.parquet")
    assert call("fit", "t.parquet", *FIT_MIXED)[0] == 0
    assert np.isfinite(predictions(call, "t.parquet")).all()
    for wait in (table["wait"], 5.0):
        table.assign(wait=wait).to_csv("t.csv", index=False)
        message = "t.csv: column 'wait' holds no durations; it held durations in training: give a Parquet"
        assert message in refused("predict", "mixed.salsa", "t.csv")
    table.assign(wait=None).to_csv("t.csv", index=False)
    assert np.isfinite(predictions(call, "t.csv")).all()


def test_a_file_without_any_stamp_is_predicted(call, model):
    dated().assign(day=None).to_csv("empty.csv", index=False)
    assert np.isfinite(predictions(call, "empty.csv")).all()


def test_explanations_name_the_parts(call, model):
    output = call("explain", "mixed.salsa", "t.csv", "--effects", "day: day of week", "--row", "2")[1]
    assert all(words in output for words in ("day: time of year", "day: day of week", "Sunday"))
    assert "day: trend" in call("info", "mixed.salsa")[1]


def test_a_date_can_be_monotone(call, model):
    pytest.importorskip("clarabel")
    assert call("fit", "t.csv", *FIT_MIXED, "--monotone", "day=1")[0] == 0
