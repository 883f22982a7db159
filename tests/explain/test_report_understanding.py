"""Tests of the report's table of understanding: it agrees with what `salsa check` and `salsa fit` say of a file."""

import json

import numpy as np
import pandas as pd
import pytest

import salsa
from explain.test_report import mixed_table, payload_of, quick_model, settle
from salsa.explain import write_report
from salsa.explain.report.column_rows import UNUSED
from salsa.explain.report.phrases import with_copies


def rows_of(path):
    return {row["name"]: row for row in payload_of(path)["data"]["features"]}


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Write a file with units, decimal commas, missing words, dates and categories; fit it, and write its report."""
    cli = pytest.importorskip("typer.testing", reason="typer is not installed")
    from salsa.cli import app

    rng, n = np.random.default_rng(0), 60
    table = pd.DataFrame({"price": [f"1.{i:03d},5" for i in range(n)], "weight": [f"{i % 17},5 kg" for i in range(n)]})
    table["town"] = rng.choice(["Bern", "Basel", "Chur"], n)
    table["day"] = pd.date_range("2024-01-01", periods=n).astype(str)
    table["same"] = "7"
    table.loc[3:5, "town"] = ""
    table.loc[8:9, "weight"] = "n/a"
    folder = tmp_path_factory.mktemp("messy")
    table.to_csv(folder / "t.csv", index=False, sep=";")
    files = [str(folder / name) for name in ("t.csv", "m.salsa", "r.html")]
    quick = ["--order", "1", "--alpha", "0.1", "--relevance", "equal"]
    arguments = ["fit", files[0], "--target", "price", "--out", files[1], "--report", files[2], "--json", *quick]
    found = cli.CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)["understood"]
    return {column["column"]: column for column in said["columns"]}, said["rows"], folder / "r.html"


def test_kinds_and_missing_values_are_those_of_the_command_line(messy):
    said, n, path = messy
    found = {name: row for name, row in rows_of(path).items() if not row["part"]}
    assert found.keys() == said.keys() - {"price"}
    for name, row in found.items():
        assert row["kind"].split(",")[0] == said[name]["kind"], name
        assert round(n * row["missing"]) == said[name]["missing"], name


def test_what_was_done_is_said_in_the_words_of_the_command_line(messy):
    said, _, path = messy
    found = rows_of(path)
    assert "'kg' after the number removed" in found["weight"]["done"]
    assert "'kg' after the number removed" in said["weight"]["done"]
    assert "comma marks decimals" in found["weight"]["done"]
    assert "comma marks decimals" in said["weight"]["done"]
    assert said["same"]["done"] in found["same"]["done"]
    assert "its parts become features: trend, day of week" in found["day"]["done"]
    assert "no time of year, because" in found["day"]["done"]
    assert "missing: averaged over its distribution" in found["town"]["done"]
    assert [name for name, row in found.items() if row["part"]] == ["day: trend", "day: day of week"]


@pytest.mark.parametrize("solver", ["exact", "lowrank"])
def test_examples_are_values_of_the_table_as_people_write_them(solver, tmp_path):
    X, y = mixed_table(60)
    X["when"] = pd.date_range("2024-03-01", periods=60, freq="7h")
    X["rank"] = pd.Categorical(np.where(X["size"] > 100, "big", "small"), ["small", "big"], ordered=True)
    found = rows_of(write_report(quick_model(X, y, 1, solver=solver), tmp_path / "r.html"))
    assert found["town"]["example"] in set(X["town"])
    assert np.abs(X["size"] - float(found["size"]["example"])).min() < 1e-12
    assert pd.Timestamp(found["when"]["example"]) in set(X["when"])
    assert found["rank"]["kind"] == "ordered category, 2"
    assert "levels are ranks" in found["rank"]["done"]
    assert "without an order" in found["town"]["done"]


def test_columns_without_values_and_unused_columns_are_told_apart(tmp_path):
    X, y = mixed_table(60)
    X = X[["size", "noise"]].assign(nothing=np.nan, same=1.0)
    found = rows_of(write_report(quick_model(X, y, relevance=[1.0, 0.0, 1.0, 1.0]), tmp_path / "r.html"))
    done = {name: row["done"] for name, row in found.items()}
    assert done == {
        "size": "",
        "noise": UNUSED,
        "nothing": "it has no values: it has no effect",
        "same": "the same value in all rows: it has no effect",
    }
    assert found["nothing"]["example"] == ""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_shows_the_table_of_understanding(width, open_page, messy):
    page = open_page(messy[2], width=width)
    settle(page)
    row = page.locator(".data tbody tr", has_text="weight")
    words = row.inner_text()
    assert all(part in words for part in ("number", "'kg' after the number removed", "3.3\u202f%"))
    assert page.locator("#data h2").inner_text() == "What salsa understood of the table"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("reload", [False, True])
def test_rows_are_counted_with_their_copies(reload, tmp_path):
    X, y = mixed_table(60)
    model = quick_model(pd.concat([X, X[:3]]), pd.concat([y, y[:3]]))
    if reload:
        model.save(tmp_path / "m.salsa")
        model = salsa.load(tmp_path / "m.salsa")
    found = payload_of(write_report(model, tmp_path / "r.html"))
    assert "learned from 63 rows, 3 of them copies." in found["fitted"]["summary"]
    assert found["fitted"]["facts"][0] == ["Rows", "63, 3 of them copies"]
    assert found["data"]["sentence"].startswith("The training table: 63 rows, 3 of them copies, 5 columns")


def test_rows_without_copies_are_only_counted(tmp_path):
    found = payload_of(write_report(quick_model(*mixed_table(60)), tmp_path / "r.html"))
    assert "learned from 60 rows." in found["fitted"]["summary"]


def test_one_copy_is_a_copy():
    assert with_copies("63", 1) == "63, 1 of them a copy"
