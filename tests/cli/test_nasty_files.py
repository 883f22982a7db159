"""Files as people have them: the table of understanding, or the error, of each, whole and in chunks."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import make_table
from cli.nasty_files import NASTY, ROLES
from salsa.cli.roles import Roles
from salsa.cli.tables import reading
from salsa.cli.training_file import training_table
from salsa.data.number_format import NumberFormat
from salsa.fitted import fitted_of

EXPECTED = dict(
    re.findall(
        r"^## (\w+)\n(.*?)\n(?=\n##|\Z)", Path(__file__).with_name("nasty_files.txt").read_text("utf-8"), re.S | re.M
    )
)
FIT = ["--target", "y", "--out", "m.salsa", "--order", "1", "--alpha", "0.1", "--relevance", "equal"]


def understood(name, roles, limit):
    """Return the table of understanding as lines of text, or the error."""
    try:
        found = training_table(name, Roles("y", **roles), limit).understood
    except ValueError as error:
        return f"error: {error}"
    lines = [f"rows: {found.rows}, dropped: {found.dropped}", *(f"file: {note}" for note in found.file)]
    for column in found.columns:
        levels = [] if column.levels is None else [f"{column.levels} levels"]
        lines.append(" | ".join(["-" if part is None else str(part) for part in column[:5]] + levels))
    return "\n".join(line.replace("\n", "\\n").rstrip() for line in lines)


def test_the_corpus_has_an_expectation_for_every_file():
    assert list(EXPECTED) == list(NASTY)
    assert len(NASTY) >= 60


@pytest.mark.parametrize("name", NASTY)
def test_every_file_is_understood_as_expected(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(NASTY[name])
    assert understood("t.csv", ROLES.get(name, {}), 10**12) == EXPECTED[name]


@pytest.mark.parametrize("name", NASTY)
def test_chunks_do_not_change_what_is_understood(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    few = len(NASTY[name]) < 5000
    monkeypatch.setattr(reading, "CHUNK_VALUES", 6 if few else 20_000)
    monkeypatch.setattr(reading, "FIRST_ROWS", 2 if few else 1000)
    Path("t.csv").write_bytes(NASTY[name])
    assert understood("t.csv", ROLES.get(name, {}), 1) == EXPECTED[name]


def write_messy(table, name):
    """Write a table as a spreadsheet in another language does: semicolons, decimal commas, units, marks, words."""
    text = pd.DataFrame(
        {
            "a": [f"{value:.4f}".replace(".", ",") for value in table["a"]],
            "b": ["?" if i % 9 == 4 else f"{1000 * value:,.2f} kg" for i, value in enumerate(table["b"])],
            "c": [f"{100 * value:.1f} %".replace(".", ",") for value in table["c"]],
            "d": [f"{value:.0f}" for value in 10 * table["d"]],
            "colour": ["rot" if value > 0 else "grün " for value in table["d"]],
        }
    )
    swapped = text["b"].str.translate(str.maketrans(",.", ".,"))
    text = text.assign(b=swapped)
    if "y" in table:
        text["y"] = ["" if i == 3 else f"{value:.3f}".replace(".", ",") for i, value in enumerate(table["y"])]
    text.to_csv(name, sep=";", index=False, encoding="cp1252")


def plain(table):
    """Return the numbers that ``write_messy`` writes."""
    numbers = pd.DataFrame(
        {"a": table["a"].round(4), "b": (1000 * table["b"]).round(2), "c": (100 * table["c"]).round(1)}
    )
    numbers["b"] = numbers["b"].where(np.arange(len(table)) % 9 != 4)
    colours = ["rot" if value > 0 else "grün" for value in table["d"]]
    return numbers.assign(d=(10 * table["d"]).round(), colour=colours)


class TestFitAndPredict:
    @pytest.fixture
    def messy(self, call, folder):
        write_messy(make_table(), "messy.csv")
        write_messy(make_table(25, seed=1).drop(columns="y"), "new.csv")
        code, out, err = call("fit", "messy.csv", *FIT)
        assert (code, err) == (0, "")
        return out

    def test_the_table_is_printed_before_the_summary(self, messy):
        table, summary = messy.split("\n\nrows      59\n")
        assert table.startswith("data      messy.csv\nrows      59, 1 without a target left out\nfile      semicolons")
        assert "'kg' after the number removed" in " ".join(table.split())  # long cells are folded
        assert "note      1 row without a value in column 'y' left out" in summary

    def test_the_model_equals_a_fit_to_plain_numbers(self, messy):
        table = make_table()
        X, y = plain(table).drop(index=3), table["y"].round(3).drop(3)
        expected = salsa.SalsaRegressor(order=1, alpha=0.1, relevance="equal", random_state=0).fit(X, y)
        model = salsa.load("m.salsa")
        np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-12)
        assert fitted_of(model).formats["b"] == NumberFormat(",", ".", "", "kg")
        assert fitted_of(model).formats["d"] == NumberFormat(",", ".")

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_new_files_are_read_like_the_training_file(self, call, messy, kind):
        new = plain(make_table(25, seed=1))
        new.to_parquet("plain.parquet")
        name = "new.csv" if kind == "csv" else "plain.parquet"
        code, out, err = call("predict", "m.salsa", name)
        words = "salsa: new.csv has words that count as missing values: column 'b': 3 rows, such as '?'\n"
        doubt = "salsa: new.csv: the file is no UTF-8: it is read as Windows-1252; look at letters with accents\n"
        assert (code, err) == (0, words + doubt if kind == "csv" else "")
        predicted = pd.read_csv(io.StringIO(out))["prediction"]
        np.testing.assert_allclose(predicted, salsa.load("m.salsa").predict(new), rtol=1e-12)

    def test_short_rows_of_a_new_file_are_counted(self, call, messy):
        Path("short.csv").write_text("a;b;c;d;colour\n0,5;7,5 kg;3,0 %;2;rot\n0,5;7,5 kg\n")
        code, out, err = call("predict", "m.salsa", "short.csv")
        assert (code, len(out.splitlines())) == (0, 3)
        assert err.startswith("salsa: short.csv: 1 row is shorter than the header (the first is row 2): the cells")

    def test_info_shows_how_numbers_are_written(self, call, messy):
        assert re.search(r"numbers +.*b like 1\.234,5 kg", call("info", "m.salsa")[1])
        assert json.loads(call("info", "m.salsa", "--json")[1])["formats"]["c"] == "1.234,5 %"

    def test_a_new_file_in_chunks_gives_the_same_predictions(self, call, messy, monkeypatch):
        whole = call("predict", "m.salsa", "new.csv")
        monkeypatch.setattr(salsa.cli.predict, "chunk_rows", lambda *_: 4)
        assert call("predict", "m.salsa", "new.csv") == whole

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("a", "0.5", "column 'a' has '0.5' in row 2, which is not written like the numbers of training (1.234,5)"),
            ("b", "7", "column 'b' has '7' in row 2, which is not written like the numbers of training (1.234,5 kg)"),
            ("c", "7 kg", "column 'c' has '7 kg' in row 2, which is not written like the numbers"),
        ],
    )
    def test_numbers_in_another_format_give_an_error(self, call, messy, column, value, message):
        new = pd.read_csv("new.csv", sep=";", dtype=str, encoding="cp1252")
        new.loc[1, column] = value
        new.to_csv("new.csv", sep=";", index=False)
        code, out, err = call("predict", "m.salsa", "new.csv")
        assert (code, out) == (2, "")
        assert message in err

    def test_explanations_read_the_target_like_the_training_file(self, call, messy):
        table = make_table(25, seed=2)
        write_messy(table, "more.csv")
        text = Path("more.csv").read_text("cp1252").splitlines(keepends=True)
        Path("more.csv").write_text("".join([*text[:4], *text[5:]]), "cp1252")  # the row without a target
        summary = json.loads(call("explain", "m.salsa", "more.csv", "--target", "y", "--json")[1])
        assert summary["data"]["rows"] == 24

    def test_a_fit_in_chunks_gives_the_same_model(self, call, messy, monkeypatch):
        whole = salsa.load("m.salsa")
        monkeypatch.setattr(reading, "CHUNK_VALUES", 60)
        monkeypatch.setattr(reading, "FIRST_ROWS", 7)
        monkeypatch.setattr(salsa.cli.training_file, "is_large", lambda *_: True)
        assert call("fit", "messy.csv", *FIT, "--rank", "100")[0] == 0
        model, new = salsa.load("m.salsa"), plain(make_table(25, seed=1))
        assert fitted_of(model).formats == fitted_of(whole).formats
        assert model.columns_ == whole.columns_
        np.testing.assert_allclose(model.predict(new), whole.predict(new), atol=0.2)

    def test_standard_input_is_understood_like_a_file(self, call, messy):
        told = json.loads(call("check", "-", "--target", "y", "--json", stdin=Path("messy.csv").read_bytes())[1])
        expected = json.loads(call("check", "messy.csv", "--target", "y", "--json")[1])
        assert told | {"data": "messy.csv"} == expected


def test_equal_names_in_a_parquet_file_give_an_error(refused):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pa.table([[1.0, 2.0], [2.0, 3.0], [1.0, 5.0]], names=["a", "a", "y"]), "t.parquet")
    assert "t.parquet has two columns named 'a': rename one of them" in refused("check", "t.parquet", "--target", "y")


class TestCheck:
    def test_the_table_names_every_column_and_nothing_is_written(self, call, folder):
        before = sorted(folder.iterdir())
        code, out, err = call("check", "train.csv", "--target", "y")
        assert (code, err) == (0, "")
        assert re.search(r"column +kind +missing +example +what was done", out)
        assert re.search(r"^a +number +0 +0\.\d+ *$", out, re.MULTILINE)
        assert out.endswith("\ntarget    y: numbers\n")
        assert sorted(folder.iterdir()) == before

    def test_json_holds_rows_notes_and_columns(self, call, folder):
        Path("t.csv").write_bytes(NASTY["missing_targets"])
        told = json.loads(call("check", "t.csv", "--target", "y", "--json")[1])
        assert (told["rows"], told["dropped"], told["file"]) == (2, 2, [])
        assert [column["column"] for column in told["columns"]] == ["a", "y"]
        assert told["columns"][1]["done"] == "2 rows without a target left out"
        assert told["notes"] == ["2 rows without a value in column 'y' left out"]

    def test_the_json_of_a_fit_holds_the_same_table(self, call, folder):
        told = json.loads(call("check", "train.csv", "--target", "y", "--json")[1])
        summary = json.loads(call("fit", "train.csv", *FIT, "--json")[1])
        assert summary["understood"] == {name: told[name] for name in summary["understood"]}

    def test_a_wide_table_of_a_fit_shows_the_columns_with_something_done(self, call, folder):
        table = pd.concat([make_table(), pd.DataFrame({f"z{i}": np.arange(60) % 7 for i in range(40)})], axis=1)
        table.assign(same=1).to_csv("wide.csv", index=False)
        out = call("fit", "wide.csv", *FIT)[1]
        assert "the same value in all rows" in out
        assert "... and 16 further columns; salsa check shows all\n" in out
        assert len(re.findall(r"^z\d+ ", call("check", "wide.csv", "--target", "y")[1], re.MULTILINE)) == 40

    def test_errors_are_one_line(self, refused):
        Path("t.csv").write_bytes(NASTY["two_units"])
        assert "numbers with different units" in refused("check", "t.csv", "--target", "y")

    def test_names_of_up_to_24_letters_are_not_cut(self, call, folder):
        table = make_table().rename(columns={"a": "annual_performance_rates"})
        table.assign(code=range(len(table))).to_csv("t.csv", index=False)
        assert "annual_performance_rates  " in call("check", "t.csv", "--target", "y")[1]
