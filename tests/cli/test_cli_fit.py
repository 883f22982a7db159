"""Tests of salsa fit: options, tables and errors."""

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import make_table, on_terminal
from salsa import SalsaRegressor, cli
from salsa.cli.fit import print_fit


class TestFit:
    def test_rows_features_r2_and_order_are_printed(self, call, folder):
        code, out, err = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "1,2")
        assert (code, err) == (0, "")
        best = salsa.load("m.salsa").search_.table.query("chosen").iloc[0]
        assert re.search(r"rows +60\n", out)
        assert re.search(r"features +4, 4 used\n", out)
        assert re.search(rf"R2 +{1 - best['cv_error']:.4f} \+/- {best['standard_error']:.4f} ", out)
        assert re.search(r"model +m.salsa\n", out)
        assert re.search(rf"\* {best['order']} ", out)

    def test_the_winning_kernel_is_marked(self, call, folder):
        make_table(200).to_csv("large.csv", index=False)
        out = call("fit", "large.csv", "--target", "y", "--out", "m.salsa")[1]
        race = salsa.load("m.salsa").search_.race
        (won,) = race[race["won"]].to_dict("records")
        assert re.findall(r"^\* (.+?)  +(\d+)", out, re.MULTILINE) == [(won["kernel"], str(won["order"]))]
        assert len(re.findall(r"^  \w+ \w+", out, re.MULTILINE)) == len(race) - 1

    def test_a_terminal_shows_tried_kernels_and_their_r2(self, folder):
        pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
        make_table(300).to_csv("large.csv", index=False)
        out, seen = on_terminal("fit", "large.csv", "--target", "y", "--out", "m.salsa")
        assert out.startswith("data      large.csv\nrows      300\n")
        assert re.search(r"Tried (learned|pruned|equal) \w+ .*order \d: R2 -?\d\.\d{4}", seen)

    def test_json_holds_orders_and_r2_of_the_search(self, call, folder):
        code, out, err = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--json")
        summary, model = json.loads(out), salsa.load("m.salsa")
        assert (code, err) == (0, "")
        assert summary["rows"] == 60
        assert summary["features"] == list("abcd")
        assert [row["order"] for row in summary["orders"]] == model.search_.table["order"].tolist()
        assert summary["r2"] == max(row["r2"] for row in summary["orders"] if row["chosen"])

    def test_options_reach_the_estimator(self, call, folder):
        options = "--order 2 --alpha 0.1,1 --interactions exact --kernel laplace --bandwidth 5 --cv 3 --seed 7 --jobs 1"
        call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--drop", "a", "--drop", "b", *options.split())
        model = salsa.load("m.salsa")
        expected = {"order": 2, "interactions": "exact", "kernel": "laplace", "bandwidth": 5.0, "cv": 3}
        assert expected.items() <= model.get_params().items()
        assert (model.random_state, model.n_jobs, list(model.feature_names_in_)) == (7, 1, ["c", "d"])
        assert model.search_.results[0].path.alphas.tolist() == [0.1, 1.0]

    @pytest.mark.parametrize(
        ("given", "parameter"), [("a, b;c", [["a", "b"], ["c"]]), ("pairwise", "pairwise"), (None, None)]
    )
    def test_columns_that_may_interact_reach_the_estimator_and_the_summary(self, call, folder, given, parameter):
        interact = () if given is None else ("--interact", given)
        arguments = ("--target", "y", "--out", "m.salsa", "--relevance", "equal", *interact)
        assert call("fit", "train.csv", *arguments)[0] == 0
        assert salsa.load("m.salsa").interaction_cst == parameter
        assert json.loads(call("info", "m.salsa", "--json")[1])["interaction_cst"] == parameter
        shown = re.search(r"interact +(.*)\n", call("info", "m.salsa")[1])
        assert (None if shown is None else shown[1]) == {"a, b;c": "a, b; c"}.get(given, given)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("a,;b", "--interact a,;b: give pairwise or no_interactions, or sets of columns such as area,rooms;age"),
            ("a,y", "'y', which is no column of this table"),
        ],
    )
    def test_wrong_sets_of_columns_are_refused(self, call, folder, given, message):
        code, _, err = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--interact", given)
        assert code != 0
        assert message in err
        assert not Path("m.salsa").exists()

    def test_a_fixed_order_and_alpha_give_no_r2(self, call, folder):
        arguments = ["fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "2", "--alpha", "0.1"]
        assert re.search(r"alpha +0.1\nnote ", call(*arguments)[1])
        assert json.loads(call(*arguments, "--json")[1])["r2"] is None

    def test_report_option_writes_a_page(self, call, folder):
        code, out, err = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--report", "r.html")
        assert (code, err) == (0, "")
        assert re.search(r"report +r.html\n", out)
        assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    @pytest.mark.parametrize(
        ("report", "message"),
        [
            ("m.salsa", "it is also"),
            ("train.csv", "it is also"),
            (".", "is not a file"),
            ("absent/r.html", "no folder"),
        ],
    )
    def test_report_paths_are_checked_before_the_fit(self, refused, monkeypatch, report, message):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        assert message in refused("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--report", report)

    def test_a_column_of_weights_equals_sample_weight(self, call, folder):
        train = make_table()
        weight = np.arange(60) % 3
        train.assign(w=weight).to_csv("weighted.csv", index=False)
        call("fit", "weighted.csv", "--target", "y", "--weights", "w", "--out", "m.salsa")
        expected = SalsaRegressor(random_state=0).fit(train.drop(columns="y"), train["y"], weight)
        np.testing.assert_array_equal(salsa.load("m.salsa").expansion_.coef, expected.expansion_.coef)

    @pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "t.csv.gz"])
    def test_tsv_and_gzip_files_are_read(self, call, folder, name):
        make_table().to_csv(name, sep="\t" if ".tsv" in name else ",", index=False)
        code, out, _ = call("fit", name, "--target", "y", "--out", "m.salsa", "--order", "1", "--json")
        assert (code, json.loads(out)["rows"]) == (0, 60)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--order 1-3", "--order 1-3: give auto, bisect or numbers such as 1,2,3"),
            ("--alpha x", "--alpha x: give auto or numbers such as 0.1,1"),
            ("--bandwidth wide", "--bandwidth wide: give auto, rule_of_thumb or numbers such as 20"),
            ("--order 5", "order=5: an order is an integer from 1 to 4"),
            ("--alpha -1", "alpha=-1.0"),
            ("--kernel round", "kernel='round' must be one of"),
            ("--bandwidth 0", "bandwidth=0.0"),
            ("--cv 1", "cv=1: at least 2 folds"),
            ("--cv x", "Invalid value for '--cv'"),
            ("--jobs 0", "n_jobs=0"),
            ("--drop aa", "has no column 'aa' (did you mean 'a'?)"),
            ("--drop y", "column 'y' has two roles"),
            ("--weights y", "column 'y' has two roles"),
            ("--weights W", "has no column 'W'"),
            ("--category A", "has no column 'A' (did you mean 'a'?)"),
            ("--category y", "column 'y' has two roles"),
            ("--category a --drop a", "column 'a' has two roles"),
            ("--drop a --drop b --drop c --drop d", "no column left"),
            ("--nonsense", "No such option: --nonsense"),
        ],
    )
    def test_invalid_options_give_an_error(self, refused, options, message):
        assert message in refused("fit", "train.csv", "--target", "y", "--out", "m.salsa", *options.split())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"", "t.csv is empty"),
            (b"a,y\n", "t.csv has a header but no rows"),
            (
                b"a,y\n1,2\n2,x\n" + b"3,4\n" * 8,
                "column 'y' has 'x' in row 2, which is not a finite number; correct it, or give --classes\n",
            ),
            (b"a,y\nred,\nblue,NA\n", "column 'y' has no values; choose another target\n"),
            (b"a,y\n,2\nNA,3\n", "no column left to predict 'y' from (columns without values are ignored)"),
            (b"a,y\n1,2\ninf,3\n", "column 'a' has 'inf' in row 2, which is not a finite number; --drop 'a'"),
            (b"a/y\n1/2\n", "its only column is 'a/y': commas, semicolons, tabs or bars must separate columns"),
            (b"a,Y\n1,2\n", "has no column 'y' (did you mean 'Y'?)"),
            (b"a,y\n1,2,3\n1,2,3\n", "t.csv has 3 values in row 1, but its header has 2 names"),
            (b"a,y\n1,2\n1,2,3\n", "t.csv cannot be read: line 3 has 3 values, but the header has 2 names"),
            (b"a,y\n1,2\n".decode().encode("utf-16")[:-1], "t.csv is not text: save it as CSV in UTF-8"),
        ],
    )
    def test_invalid_tables_give_an_error(self, refused, folder, text, message):
        Path("t.csv").write_bytes(text)
        assert message in refused("fit", "t.csv", "--target", "y", "--out", "m.salsa")

    def test_empty_standard_input_gives_an_error(self, refused):
        assert "standard input is empty" in refused("fit", "-", "--target", "y", "--out", "m.salsa", stdin=b"")

    @pytest.mark.parametrize(
        "packed", [b"plain", gzip.compress(b"a,y\n1,2\n", mtime=0)[:-12], b"\x1f\x8b\x08" + bytes(40)]
    )
    def test_damaged_gzip_files_give_an_error(self, refused, folder, packed):
        Path("t.csv.gz").write_bytes(packed)
        assert "t.csv.gz cannot be read: " in refused("fit", "t.csv.gz", "--target", "y", "--out", "m.salsa")

    @pytest.mark.parametrize("name", ["absent.csv", "."])
    def test_missing_files_and_folders_give_an_error(self, refused, name):
        assert refused("fit", name, "--target", "y", "--out", "m.salsa").startswith(f"salsa: {name}: ")

    @pytest.mark.parametrize(
        ("out", "message"),
        [
            ("absent/m.salsa", "there is no folder"),
            (".", "is not a file"),
            ("/dev/null", "is not a file"),
            ("/proc/m.salsa", "cannot write"),
            ("train.csv", "it is also an input"),
        ],
    )
    def test_output_paths_are_checked_before_the_fit(self, refused, monkeypatch, out, message):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        assert message in refused("fit", "train.csv", "--target", "y", "--out", out)

    def test_a_memory_error_gives_its_message(self, refused, monkeypatch):
        def fit(*_):
            raise MemoryError("this fit needs about 1 TB")

        monkeypatch.setattr(SalsaRegressor, "fit", fit)
        assert "needs about 1 TB" in refused("fit", "train.csv", "--target", "y", "--out", "m.salsa")

    def test_other_exceptions_keep_their_traceback(self, monkeypatch, folder):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        monkeypatch.setattr(sys, "argv", ["salsa", "fit", "train.csv", "--target", "y", "--out", "m.salsa"])
        with pytest.raises(TypeError):
            cli.main()


def test_the_command_and_the_report_count_the_same_rows(call, folder):
    table = make_table(30)
    pd.concat([table, table[:4]]).to_csv("copies.csv", index=False)
    settings = ("--target", "y", "--order", "1", "--alpha", "0.1", "--relevance", "equal")
    code, out, err = call("fit", "copies.csv", *settings, "--out", "c.salsa", "--report", "c.html")
    assert (code, err) == (0, "")
    assert re.search(r"^rows +34, 4 of them copies$", out, re.MULTILINE)
    assert "learned from 34 rows, 4 of them copies." in Path("c.html").read_text(encoding="utf-8")
    assert json.loads(call("fit", "copies.csv", *settings, "--out", "c.salsa", "--json")[1])["copies"] == 4


def test_features_that_came_back_after_the_race_are_printed(call, folder, capsys):
    code, out, _ = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--json")
    assert code == 0
    winner = {"kernel": "pruned matern52", "order": 1, "features": 3, "error": 0.2, "standard_error": 0.1, "won": True}
    changed = "order 2 and 4 features: 1 that the race had left out came back"
    print_fit({**json.loads(out), "race": [winner], "after_race": changed})
    assert capsys.readouterr().out.endswith(f"* kept; it was learned again from all rows, with {changed}\n")
    print_fit({**json.loads(out), "race": [winner], "after_race": ""})
    assert capsys.readouterr().out.endswith("\n* kept\n")
