"""Tests of tables on the command line: kinds of columns, formats of files, and errors."""

import datetime
import gzip
import io
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import FIT_MIXED, make_mixed, make_table, shell
from salsa import SalsaRegressor
from salsa.cli import predict
from salsa.cli.tables.reading import read_table


class TestColumns:
    """Columns become numbers or categories in training and in prediction."""

    def fit(self, call, table, *options, name="t.csv"):
        table.to_csv(name, index=False)
        return call("fit", name, *FIT_MIXED, *options)

    def levels(self):
        columns = salsa.load("mixed.salsa").columns_
        return dict(zip(columns.names, columns.levels, strict=True))

    def test_text_becomes_categories_and_booleans_numbers(self, mixed):
        assert self.levels() == {"a": None, "colour": ("blue", "green", "red"), "code": (10, 20, 30), "flag": None}

    def test_the_model_equals_a_fit_in_python(self, mixed):
        table = make_mixed()
        X = table.drop(columns="y").astype({"code": "category", "flag": float})
        expected = SalsaRegressor(order=2, alpha=0.1, relevance="equal", random_state=0).fit(X, table["y"])
        np.testing.assert_allclose(salsa.load("mixed.salsa").predict(X), expected.predict(X))

    def test_the_real_command_fits_and_predicts_mixed_columns(self, mixed):
        fitted = shell("fit", "mixed.csv", *FIT_MIXED, "--category", "code", "--category", "flag")
        assert (fitted.returncode, fitted.stderr) == (0, b"")
        assert re.search(rb"features +4, 4 used; 3 categories\nmissing +1.88 % of", fitted.stdout)
        predicted = shell("predict", "mixed.salsa", "-", "--interval", "0.5", input=Path("mixed.csv").read_bytes())
        assert (predicted.returncode, predicted.stderr) == (0, b"")
        assert pd.read_csv(io.BytesIO(predicted.stdout)).shape == (80, 3)

    def test_json_names_categories_and_the_missing_share(self, call, mixed):
        summary = json.loads(call("fit", "mixed.csv", *FIT_MIXED, "--category", "code", "--json")[1])
        assert summary["categorical"] == ["colour", "code"]
        assert summary["missing"] == (1 + 2 + 3) / 320
        plain = json.loads(call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "1", "--json")[1])
        assert (plain["categorical"], plain["missing"]) == ([], 0.0)

    def test_columns_with_leading_zeros_get_a_note(self, call, folder):
        codes = [f"{i:02}" for i in range(80)]
        table = make_mixed().assign(zip=codes, area=["01", "x"] * 40, none=None, price=[f"0.{code}" for code in codes])
        note = "column 'zip' has leading zeros, like a code; if it is a code, take it as categories: --category 'zip'"
        out = self.fit(call, table)[1]
        assert re.findall("note +(column.*)", out) == ["column 'none' has no values and is ignored", note]
        assert note not in self.fit(call, table, "--category", "zip")[1]
        assert note not in call("fit", "-", *FIT_MIXED, stdin=Path("t.csv").read_bytes())[1]

    def test_codes_taken_as_categories_keep_leading_zeros(self, call, folder):
        codes = ["007", "01", "1"] * 26 + ["01", "1"]
        assert self.fit(call, make_mixed().assign(zip=codes), "--category", "zip", "--category", "code")[0] == 0
        assert self.levels()["zip"] == ("007", "01", "1")
        assert self.levels()["code"] == (10, 20, 30)
        predicted = pd.read_csv(io.StringIO(call("predict", "mixed.salsa", "t.csv")[1]))["prediction"]
        X = make_mixed().assign(zip=codes).drop(columns="y").astype({"code": "category", "flag": float})
        np.testing.assert_allclose(predicted, salsa.load("mixed.salsa").predict(X))

    def test_one_error_names_all_doubtful_columns(self, refused):
        dates = [f"{i + 1:02}/01/2026" for i in range(20)] * 4
        table = make_mixed().assign(area=[f"{i} m{2 + i % 2}" for i in range(80)], when=dates, b=["x", *range(79)])
        table.to_csv("t.csv", index=False)
        message = refused("fit", "t.csv", *FIT_MIXED)
        assert "column 'area' has '0 m2' in row 1 and '1 m3' in row 2, numbers with different units" in message
        assert message.endswith("(also look at 'when', 'b')\n")

    def test_several_columns_in_one_option_give_an_error(self, refused):
        message = refused("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--drop", "a,b")
        assert "no column 'a,b' (give the option once for each column)" in message

    def test_empty_columns_are_ignored_with_a_note(self, call, folder):
        table = make_mixed().assign(void="", other="NA")
        code, out, err = self.fit(call, table, "--category", "other")
        assert (code, err) == (0, "")
        assert re.search(r"note +column 'void' has no values and is ignored\nnote +column 'other' has no", out)
        assert list(self.levels()) == ["a", "colour", "code", "flag"]
        assert call("predict", "mixed.salsa", "t.csv")[0] == 0

    @pytest.mark.parametrize("wrong", ["abc", "12,5", "5 kg", "inf"])
    def test_text_among_90_percent_numbers_gives_an_error(self, refused, call, wrong):
        table = make_table().astype({"b": object})
        table.loc[[6, 9], "b"] = None
        table.loc[[7, 11, 13, 14, 15], "b"] = [wrong, "x", "x", "x", "x"]  # 53 of 58 are numbers
        table.to_csv("t.csv", index=False)
        message = f"t.csv: column 'b' has {wrong!r} in row 8, but 53 of its 58 values are numbers (with 90 % n"
        assert message in (line := refused("fit", "t.csv", *FIT_MIXED))
        assert line.endswith("--category 'b'\n")
        assert call("fit", "t.csv", *FIT_MIXED, "--category", "b")[0] == 0
        assert wrong in self.levels()["b"]

    def test_text_among_less_than_90_percent_numbers_makes_a_category(self, call, folder):
        table = make_table().astype({"b": object}).assign(b=[1, 2, 3, 4, 5, "x"] * 10)
        assert self.fit(call, table)[0] == 0
        assert self.levels()["b"] == ("1", "2", "3", "4", "5", "x")

    @pytest.mark.parametrize(
        "dates",
        [
            ["2026/1/31 12:00", "2026-02-01T12:00:00Z"],
            ["31/12/2026", "1/2/2026"],
            ["5-Jan-2026", "6-Feb-2026"],
            ["12:30", "8:05:01.5"],
        ],
    )
    def test_dates_that_are_not_of_iso_8601_give_an_error(self, refused, dates):
        make_table().assign(when=[*dates, ""] * 20).to_csv("t.csv", index=False)
        line = refused("fit", "t.csv", *FIT_MIXED)
        assert f"t.csv: column 'when' holds dates or times such as {min(dates)!r}: write them as 2026-01-31 or" in line
        assert line.endswith("--drop 'when' leaves the column out\n")

    @pytest.mark.parametrize(
        "texts", [["10-19", "20-29"], ["1/2", "3/4"], ["2019-20", "2020-21"], ["2026-01-31", "no"]]
    )
    def test_ranges_and_fractions_are_not_taken_for_dates(self, call, folder, texts):
        assert self.fit(call, make_table().assign(range=texts * 30))[0] == 0
        assert self.levels()["range"] == tuple(texts)

    def test_identifiers_are_left_out_with_a_note(self, call, folder):
        names = [f"name {i % 55}" for i in range(60)]
        out = self.fit(call, make_table().assign(id=names))[1]
        why = "left out: 55 different texts in 60 rows, like names or identifiers; --category 'id' keeps it"
        assert f"note      column 'id' is {why}\n" in out
        assert "id" not in self.levels()
        assert call("predict", "mixed.salsa", "t.csv")[0] == 0
        assert self.fit(call, make_table().assign(id=names), "--category", "id")[0] == 0
        assert len(self.levels()["id"]) == 55

    @pytest.mark.parametrize(("rows", "distinct"), [(60, 54), (50, 50)])
    def test_texts_that_repeat_or_few_rows_stay_categories(self, call, folder, rows, distinct):
        assert self.fit(call, make_table(rows).assign(id=[f"name {i % distinct}" for i in range(rows)]))[0] == 0
        assert len(self.levels()["id"]) == distinct

    def test_braces_in_names_and_values_appear_in_messages(self, refused):
        make_table().assign(**{"{x}": ["{y}", *range(59)]}).to_csv("t.csv", index=False)
        assert "column '{x}' has '{y}' in row 1" in refused("fit", "t.csv", *FIT_MIXED)

    def test_categories_do_not_depend_on_chunks(self, call, mixed, monkeypatch):
        """A text category looks like numbers in some chunks, a numeric category like text in others."""
        table = make_mixed().assign(size=(["1", "2", "L"] * 27)[:80])
        assert self.fit(call, table, "--category", "code")[0] == 0
        new = table.sort_values(["size", "code"]).astype({"code": object})
        new.loc[new.index[-1], "code"] = "?"
        new.to_csv("new.csv", index=False)
        whole = call("predict", "mixed.salsa", "new.csv", "--interval", "0.8")
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 9)
        assert call("predict", "mixed.salsa", "new.csv", "--interval", "0.8") == whole
        assert whole[2].count("\n") == 1
        X = table.drop(columns="y").astype({"code": "category", "flag": float})
        X = X.loc[new.index].assign(code=new["code"].replace("?", None))
        values = pd.read_csv(io.StringIO(whole[1]))
        np.testing.assert_allclose(values["prediction"], salsa.load("mixed.salsa").predict(X))

    def test_unseen_categories_are_counted_in_one_line(self, call, mixed, monkeypatch):
        new = make_mixed(25, seed=1).assign(y=np.nan)
        gone = new.copy()
        new.loc[[3, 20], "colour"], gone.loc[[3, 20], "colour"] = ["mauve", "pink"], None
        new.loc[7, "code"], gone.loc[7, "code"] = 40, None
        new.to_csv("new.csv", index=False)
        gone.to_csv("gone.csv", index=False)
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        code, out, err = call("predict", "mixed.salsa", "new.csv")
        assert (code, out, "") == call("predict", "mixed.salsa", "gone.csv")
        counts = "column 'colour': 2 rows, such as 'mauve'; column 'code': 1 row, such as '40'"
        assert err == f"salsa: new.csv has values not seen in training, which count as missing: {counts}\n"

    def test_text_in_a_column_of_booleans_gives_an_error(self, refused, mixed):
        pd.read_csv("mixed.csv", dtype=str).assign(flag=["True", "", "maybe", "False"] * 20).to_csv("new.csv")
        assert "column 'flag' has 'maybe' in row 3, which" in refused("predict", "mixed.salsa", "new.csv")

    def test_categories_of_models_without_names_are_found_by_position(self, call, folder):
        table = make_mixed()
        X = table.drop(columns="y").astype({"flag": float}).to_numpy(dtype=object)
        model = SalsaRegressor(order=1, alpha=0.1, categorical_features=[2]).fit(X, table["y"])
        model.save("bare.salsa")
        table.drop(columns="y").to_csv("new.csv", index=False)
        code, out, err = call("predict", "bare.salsa", "new.csv")
        assert (code, err) == (0, "")
        np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["prediction"], model.predict(X))


def test_numbers_of_a_csv_are_read_exactly(tmp_path):
    values = np.random.default_rng(0).normal(size=2000)
    pd.DataFrame({"x": values}).to_csv(tmp_path / "t.csv", index=False)
    assert (read_table(str(tmp_path / "t.csv"))["x"] == values).all()


class TestFilesThatAreNoTables:
    """Files of other kinds are recognised by their first bytes, whatever their names."""

    @pytest.fixture(params=["t", "t.csv", "t.tsv", "t.parquet", "t.csv.gz", "-"])
    def told(self, request, refused):
        """Give a function that reads bytes as a table and returns the error message."""

        def read(content):
            name = request.param
            stdin = content if name == "-" else None
            if name != "-":
                with gzip.open(name, "wb") if name.endswith(".gz") else open(name, "wb") as file:
                    file.write(content)
            line = refused("predict", "model.salsa", name, stdin=stdin)
            return line.removeprefix(f"salsa: {'standard input' if name == '-' else name} ")

        return read

    def test_other_kinds_of_files_are_named(self, told, folder):
        zipped, workbook = io.BytesIO(), io.BytesIO()
        for file, name in ((zipped, "t.csv"), (workbook, "[Content_Types].xml")):
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr(name, "a,b\n1,2\n")
        feather = io.BytesIO()
        make_table().to_feather(feather)
        assert told(Path("model.salsa").read_bytes()) == "is a model file, not a table\n"
        assert told(zipped.getvalue()) == "is a zip archive, not a table\n"
        assert told(workbook.getvalue()) == "is a spreadsheet or document: save its table as CSV\n"
        assert told(b"\xef\xbb\xbf\n<!DOCTYPE html><html>") == "is a web page, not a table\n"
        assert told(b"<HTML lang=en>") == "is a web page, not a table\n"
        assert told(gzip.compress(b"a,b")) == "is packed with gzip: rename it to end in .gz\n"
        assert told(feather.getvalue()) == "is a Feather file: rename it to end in .feather\n"
        assert told("a,b\n1,2\n".encode("utf-32")) == "is text in UTF-32: save it in UTF-8\n"
        assert told(b"SQLite format 3\x00") == "is neither text nor a table of a known kind\n"

    def test_contents_are_judged_before_names(self, refused, folder):
        Path("m.salsa").write_bytes(Path("model.salsa").read_bytes())
        Path("page.html").write_text("<html>")
        make_table().to_parquet("t.parquet")
        Path("t.parquet").rename("t.csv")
        assert refused("fit", "m.salsa", *FIT_MIXED) == "salsa: m.salsa is a model file, not a table\n"
        assert refused("predict", "m.salsa", "page.html") == "salsa: page.html is a web page, not a table\n"
        assert refused("fit", "t.csv", *FIT_MIXED) == "salsa: t.csv is a Parquet file: rename it to end in .parquet\n"

    def test_column_names_like_file_signatures_are_accepted(self, call, folder):
        table = make_table().rename(columns={"a": "PAR1", "b": "PK"})
        for name in ("PAR1", "PK"):
            table[[name, "c", "y"]].to_csv("t.csv", index=False)
            assert call("fit", "t.csv", *FIT_MIXED)[0] == 0


class TestArrow:
    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_predictions_from_arrow_files_equal_csv(self, call, mixed, suffix, monkeypatch):
        write = getattr(pd.DataFrame, f"to_{suffix}")
        table = make_mixed().astype({"code": "Int64", "flag": "boolean"})
        write(table, f"t.{suffix}")
        expected = call("predict", "mixed.salsa", "mixed.csv")
        assert call("predict", "mixed.salsa", f"t.{suffix}") == expected
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        assert call("fit", f"t.{suffix}", *FIT_MIXED, "--category", "code")[0] == 0
        assert call("predict", "mixed.salsa", f"t.{suffix}") == expected

    def test_categories_declared_by_feather_are_kept(self, call, folder):
        """Text of digits and categories of numbers stay categories (Parquet keeps only categories of text)."""
        table = make_mixed().assign(code=lambda t: t["code"].astype("category"), size=["1", "2"] * 40)
        table.to_feather("t.feather")
        code, _, err = call("fit", "t.feather", *FIT_MIXED)
        assert (code, err) == (0, "")
        columns = salsa.load("mixed.salsa").columns_
        assert columns.names == ("a", "colour", "code", "flag", "size")
        assert columns.levels[2:] == ((10, 20, 30), None, ("1", "2"))
        table.to_csv("t.csv", index=False)
        assert call("predict", "mixed.salsa", "t.csv") == call("predict", "mixed.salsa", "t.feather")

    def test_the_index_of_a_parquet_file_is_no_feature(self, call, folder):
        make_mixed().set_index(np.arange(80)[::-1]).to_parquet("t.parquet")
        assert call("fit", "t.parquet", *FIT_MIXED)[0] == 0
        assert salsa.load("mixed.salsa").columns_.names == ("a", "colour", "code", "flag")

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([datetime.time(12)] * 60, "column 'b' holds dates, times or durations"),
            ([[1, 2]] * 60, "column 'b' holds neither numbers nor text; --drop 'b'"),
            ([b"x"] * 60, "column 'b' holds neither numbers nor text; --drop 'b'"),
        ],
    )
    def test_times_lists_and_bytes_give_an_error(self, refused, values, message):
        make_table().assign(b=values).to_parquet("t.parquet")
        assert message in refused("fit", "t.parquet", *FIT_MIXED)
        assert message in refused("fit", "t.parquet", *FIT_MIXED, "--category", "b")
        assert message.split(";")[0] in refused("predict", "model.salsa", "t.parquet")

    def test_a_target_of_dates_gives_an_error(self, refused):
        make_table().assign(y=pd.date_range("2026-01-01", periods=60)).to_parquet("t.parquet")
        assert "column 'y' holds dates" in refused("fit", "t.parquet", *FIT_MIXED)

    def test_a_target_of_numbers_and_text_gives_an_error(self, refused):
        make_table().assign(y=["1", "x", *"2345678901" * 5, *"23456789"]).astype({"y": "str"}).to_parquet("t.parquet")
        message = "column 'y' has 'x' in row 2, which is not a finite number; correct it, or give --classes"
        assert message in refused("fit", "t.parquet", *FIT_MIXED)

    @pytest.mark.parametrize(("kind", "options"), [("category", []), ("str", ["--classes"])])
    def test_declared_categories_and_asked_classes_may_spell_numbers(self, call, folder, kind, options):
        make_table().assign(y=["1", "x"] * 30).astype({"y": kind}).to_parquet("t.parquet")
        code, out, _ = call("fit", "t.parquet", *FIT_MIXED, *options)
        assert code == 0
        assert "target    y: 2 classes" in out

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_damaged_arrow_files_give_an_error(self, refused, suffix):
        for content in (b"", b"text", b"PAR1" + bytes(40) + b"PAR1"):
            Path(f"t.{suffix}").write_bytes(content)
            assert re.search(
                rf"t.{suffix} (cannot be read: |is neither)", refused("predict", "model.salsa", f"t.{suffix}")
            )

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_arrow_files_without_rows_give_an_error(self, refused, suffix):
        getattr(make_table()[:0], f"to_{suffix}")(f"t.{suffix}")
        assert f"t.{suffix} has " in refused("fit", f"t.{suffix}", *FIT_MIXED)
        assert f"t.{suffix} has no rows" in refused("predict", "model.salsa", f"t.{suffix}")

    def test_reading_parquet_without_pyarrow_names_the_package_to_install(self, refused, monkeypatch):
        make_table().to_parquet("t.parquet")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert "need pyarrow: pip install pyarrow" in refused("fit", "t.parquet", *FIT_MIXED)

    def test_a_missing_file_gives_an_error(self, refused):
        assert refused("fit", "absent.parquet", *FIT_MIXED).startswith("salsa: absent.parquet: ")
