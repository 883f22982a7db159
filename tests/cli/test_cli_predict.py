"""Tests of salsa predict: chunks, formats, intervals, and files larger than memory."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from conftest import additive_truth

import salsa
from cli.command import contents, make_table
from salsa import SalsaClassifier, SalsaRegressor
from salsa.cli import predict
from salsa.cli.tables import writing
from salsa.cli.tables.reading import CHUNK_VALUES, FIRST_ROWS, read_chunks
from salsa.data.columns import Columns


class TestPredict:
    def test_columns_are_matched_by_name(self, call, folder):
        new = pd.read_csv("new.csv")
        new[["d", "b", "a", "c"]].assign(note="text").to_csv("mixed.csv", index=False)
        assert call("predict", "model.salsa", "mixed.csv") == call("predict", "model.salsa", "new.csv")

    def test_predictions_do_not_depend_on_chunks(self, call, folder, monkeypatch):
        whole = call("predict", "model.salsa", "new.csv", "--out", "whole.csv")
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        assert whole == (0, "25 predictions written to whole.csv\n", "")
        call("predict", "model.salsa", "new.csv", "--out", "chunks.csv")
        assert Path("whole.csv").read_text() == Path("chunks.csv").read_text()

    def test_json_predictions_equal_python(self, call, folder):
        expected = salsa.load("model.salsa").predict(pd.read_csv("new.csv")).tolist()
        values = json.loads(call("predict", "model.salsa", "new.csv", "--json")[1])
        written = json.loads(call("predict", "model.salsa", "new.csv", "--json", "--out", "p.csv")[1])
        assert values == {"rows": 25, "predictions": expected}
        assert written == {"rows": 25, "out": "p.csv"}

    @pytest.mark.parametrize("interval", [[], ["--interval", "0.5"], ["--interval", "0.999"]])
    def test_json_does_not_depend_on_chunks(self, call, folder, monkeypatch, interval):
        whole = call("predict", "model.salsa", "new.csv", "--json", *interval)
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        pieces = call("predict", "model.salsa", "new.csv", "--json", *interval)
        assert (whole[0], pieces[0]) == (0, 0)
        assert json.loads(pieces[1]) == json.loads(whole[1])

    def test_two_outputs_of_a_model_without_names_are_numbered(self, call, folder):
        train, new = make_table(), pd.read_csv("new.csv")
        X, Y = train.drop(columns="y").to_numpy(), train[["y", "a"]].to_numpy()
        model = SalsaRegressor(order=1, alpha=0.1).fit(X, Y)
        model.save("two.salsa")
        out = pd.read_csv(io.StringIO(call("predict", "two.salsa", "new.csv")[1]))
        assert list(out.columns) == ["prediction_0", "prediction_1"]
        np.testing.assert_array_equal(out, model.predict(new.to_numpy()))

    def test_symbolic_links_and_file_modes_are_kept(self, call, folder):
        Path("real.csv").touch()
        Path("link.csv").symlink_to("real.csv")
        call("predict", "model.salsa", "new.csv", "--out", "link.csv")
        assert Path("link.csv").is_symlink()
        assert len(pd.read_csv("real.csv")) == 25
        assert Path("real.csv").stat().st_mode == Path("new.csv").stat().st_mode

    def test_gzip_output_can_be_read(self, call, folder):
        call("predict", "model.salsa", "new.csv", "--out", "p.csv.gz")
        assert len(pd.read_csv("p.csv.gz")) == 25

    @pytest.mark.parametrize("name", ["p.txt", "p", "p.CSV", "p.2026"])
    def test_unknown_endings_mean_csv(self, call, folder, name):
        call("predict", "model.salsa", "new.csv", "--out", name)
        assert Path(name).read_text() == call("predict", "model.salsa", "new.csv")[1]
        Path(name).write_bytes(Path("new.csv").read_bytes())
        assert call("predict", "model.salsa", name) == call("predict", "model.salsa", "new.csv")

    @pytest.mark.parametrize(
        "ending",
        [
            "xlsx",
            "xls",
            "XLSX",
            "ods",
            "json",
            "html",
            "salsa",
            "pkl",
            "zip",
            "pdf",
            "npz",
            "json.gz",
            "parquet.gz",
            "feather.gz",
        ],
    )
    def test_endings_of_other_formats_give_an_error(self, refused, ending):
        message = f".{ending} is not named like a table: known endings are .csv and .tsv (also with .gz), .parquet and"
        assert message in refused("predict", "model.salsa", "new.csv", "--out", f"p.{ending}")
        with gzip.open(f"t.{ending}", "wb") if ending.endswith("gz") else open(f"t.{ending}", "wb") as file:
            file.write(Path("new.csv").read_bytes())
        assert message in refused("predict", "model.salsa", f"t.{ending}")

    @pytest.mark.parametrize("suffix", ["parquet", "PARQUET", "feather"])
    def test_arrow_output_equals_csv(self, call, folder, monkeypatch, suffix):
        text = call("predict", "model.salsa", "new.csv", "--interval", "0.8")[1]
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        monkeypatch.setattr(writing, "GROUP_ROWS", 10)
        done = call("predict", "model.salsa", "new.csv", "--interval", "0.8", "--out", f"p.{suffix}")
        assert done == (0, f"25 predictions written to p.{suffix}\n", "")
        table = getattr(pd, f"read_{suffix.lower()}")(f"p.{suffix}")
        pd.testing.assert_frame_equal(table, pd.read_csv(io.StringIO(text)), rtol=1e-12)

    def test_arrow_output_without_pyarrow_names_the_package_to_install(self, refused, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert "need pyarrow: pip install" in refused("predict", "model.salsa", "new.csv", "--out", "p.parquet")

    @pytest.mark.parametrize("out", ["p.csv", "p.csv.gz", "p.parquet", "p.feather"])
    def test_an_error_in_a_late_chunk_leaves_no_file(self, refused, folder, monkeypatch, out):
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        new = pd.read_csv("new.csv").astype(object)
        new.loc[19, "b"] = "red"
        new.to_csv("late.csv", index=False)
        message = "late.csv: column 'b' has 'red' in row 20, which is not a finite number; it held numbers in training"
        assert message in refused("predict", "model.salsa", "late.csv", "--out", out)

    def test_missing_features_give_an_error_with_hints(self, refused, folder):
        pd.read_csv("new.csv").rename(columns={"a": "A"}).drop(columns="c").to_csv("few.csv", index=False)
        assert "has no column 'a' (did you mean 'A'?), 'c';" in refused("predict", "model.salsa", "few.csv")

    def test_hints_do_not_name_features_that_are_present(self, refused, folder):
        pd.read_csv("new.csv").drop(columns="c").rename(columns={"b": "c"}).to_csv("few.csv", index=False)
        assert "has no column 'b'; its" in refused("predict", "model.salsa", "few.csv")

    def test_unused_features_may_be_absent(self, call, folder):
        train = make_table()
        SalsaRegressor(order=1, alpha=1, relevance=[1, 1, 0, 1]).fit(train[list("abcd")], train["y"]).save("m.salsa")
        pd.read_csv("new.csv").drop(columns="c").to_csv("few.csv", index=False)
        assert call("predict", "m.salsa", "few.csv") == call("predict", "m.salsa", "new.csv")

    def test_semicolons_between_columns_give_the_same_predictions(self, call, folder):
        Path("s.csv").write_text(Path("new.csv").read_text().replace(",", ";"))
        assert call("predict", "model.salsa", "s.csv") == call("predict", "model.salsa", "new.csv")

    def test_a_wrong_number_of_unnamed_features_gives_an_error(self, refused, folder):
        SalsaRegressor(order=1, alpha=1).fit(np.eye(3), np.arange(3)).save("bare.salsa")
        assert "needs exactly its 3 columns" in refused("predict", "bare.salsa", "new.csv")

    @pytest.mark.parametrize("damage", [lambda b: b[:500], lambda b: b"text", lambda b: b[:900] + bytes(20) + b[920:]])
    def test_damaged_model_files_give_an_error(self, refused, folder, damage):
        Path("bad.salsa").write_bytes(damage(Path("model.salsa").read_bytes()))
        assert "bad.salsa " in refused("predict", "bad.salsa", "new.csv", "--out", "p.csv")

    def test_an_interrupt_inside_the_reader_leaves_no_file(self, call, folder, monkeypatch):
        class Interrupting(io.BufferedReader):
            def read(self, size=-1):
                os.kill(os.getpid(), signal.SIGINT)
                return super().read(size)

        before = contents(folder)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Interrupting(io.BytesIO(b"a,b,c,d\n1,2,3,4\n"))))
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert call("predict", "model.salsa", "-", "--out", "p.csv") == (130, "", "salsa: interrupted\n")
        finally:
            signal.signal(signal.SIGINT, handler)
        assert contents(folder) == before

    @pytest.mark.parametrize("out", ["new.csv", "model.salsa"])
    def test_inputs_are_not_overwritten(self, refused, out):
        assert "it is also an input" in refused("predict", "model.salsa", "new.csv", "--out", out)


class TestKeep:
    @pytest.fixture
    def named(self, folder):
        """Write named.csv: new.csv with identifiers that look like numbers."""
        pd.read_csv("new.csv").assign(id=[f"0{i}" for i in range(25)]).to_csv("named.csv", index=False)

    @pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
    def test_kept_columns_are_written_unchanged(self, call, named, monkeypatch, out):
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        call("predict", "model.salsa", "named.csv", "--keep", "id", "--keep", "a", "--out", out)
        table = pd.read_csv(out, dtype=str) if out == "p.csv" else pd.read_parquet(out).astype(str)
        assert list(table) == ["id", "a", "prediction"]
        assert list(table["id"]) == [f"0{i}" for i in range(25)]
        expected = salsa.load("model.salsa").predict(pd.read_csv("new.csv"))
        np.testing.assert_allclose(table["prediction"].astype(float), expected)

    @pytest.mark.parametrize("source", ["odd.csv", "odd.parquet"])
    @pytest.mark.parametrize("out", ["p.csv", "p.tsv.gz", "p.parquet"])
    def test_quotes_separators_and_missing_values_are_kept(self, call, folder, monkeypatch, source, out):
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        monkeypatch.setattr(writing, "GROUP_ROWS", 1)
        texts = [None] * 8 + ["a,b", 'say "no"', "two\nlines", "tab\there"] + ["x"] * 13
        numbers = pd.array([None] * 9 + list(range(16)), dtype="Int64")
        odd = pd.read_csv("new.csv").assign(text=texts, number=numbers)
        odd.to_csv(source, index=False) if source == "odd.csv" else odd.to_parquet(source)
        assert call("predict", "model.salsa", source, "--keep", "text", "--keep", "number", "--out", out)[0] == 0
        separator = "\t" if out == "p.tsv.gz" else ","
        table = pd.read_parquet(out) if out == "p.parquet" else pd.read_csv(out, sep=separator)
        assert [None if pd.isna(text) else text for text in table["text"]] == texts
        np.testing.assert_array_equal(pd.to_numeric(table["number"]).astype("Int64").isna(), numbers.isna())
        np.testing.assert_array_equal(pd.to_numeric(table["number"])[9:].astype(int), range(16))

    @pytest.mark.parametrize("source", ["new.csv", "new.parquet", "new.feather"])
    def test_features_can_be_kept(self, call, folder, source):
        new = pd.read_csv("new.csv")
        {"new.csv": new.to_csv, "new.parquet": new.to_parquet, "new.feather": new.to_feather}[source](source)
        code, out, _ = call("predict", "model.salsa", source, "--keep", "b")
        table = pd.read_csv(io.StringIO(out))
        assert (code, list(table)) == (0, ["b", "prediction"])
        np.testing.assert_array_equal(table["b"], new["b"])

    def test_kept_integers_with_missing_values_stay_integers(self, call, folder):
        new = pd.read_csv("new.csv").assign(id=pd.array([None, *range(2**60, 2**60 + 24)], dtype="Int64"))
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(new).replace_schema_metadata(None), "new.parquet")
        out = call("predict", "model.salsa", "new.parquet", "--keep", "id")[1]
        assert list(pd.read_csv(io.StringIO(out), dtype=str)["id"][1:]) == [str(2**60 + i) for i in range(24)]

    def test_columns_can_be_kept_with_a_model_without_names(self, call, named):
        train = make_table()
        SalsaRegressor(order=1, alpha=1).fit(train[list("abcd")].to_numpy(), train["y"]).save("bare.salsa")
        bare = pd.read_csv(io.StringIO(call("predict", "bare.salsa", "new.csv")[1]))
        kept = pd.read_csv(io.StringIO(call("predict", "bare.salsa", "named.csv", "--keep", "id")[1]))
        assert list(kept) == ["id", "prediction"]
        np.testing.assert_array_equal(kept["prediction"], bare["prediction"])

    def test_invalid_kept_columns_give_an_error(self, refused, named):
        pd.read_csv("new.csv").assign(lower=1).to_csv("taken.csv", index=False)
        assert "no column 'ID' (did you mean 'id'?)" in refused("predict", "model.salsa", "named.csv", "--keep", "ID")
        taken = ("predict", "model.salsa", "taken.csv", "--keep", "lower", "--interval", "0.9", "--out", "p.csv")
        assert "'lower': a column of predictions has this name" in refused(*taken)
        assert "--out" in refused("predict", "model.salsa", "named.csv", "--keep", "id", "--json")


def test_rows_far_outside_the_training_range_give_one_line(call, folder, monkeypatch):
    new = pd.read_csv("new.csv")
    new.loc[[3, 20], "b"], new.loc[7, "c"] = 9, -9
    new.to_csv("far.csv", index=False)
    monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
    code, _, err = call("predict", "model.salsa", "far.csv")
    low, high = make_table()["c"].min(), make_table()["b"].max()
    where = f"'b' above {high:.4g} in 2, 'c' below {low:.4g} in 1"
    assert (code, err.count("\n")) == (0, 1)
    assert f"far.csv: 3 of 25 rows lie far outside the range of the training data ({where})" in err
    assert call("predict", "model.salsa", "new.csv")[2] == ""


class TestIntervals:
    def test_interval_ends_equal_python(self, call, folder):
        code, out, err = call("predict", "model.salsa", "new.csv", "--interval", "0.8")
        model, new = salsa.load("model.salsa"), pd.read_csv("new.csv")
        assert (code, err) == (0, "")
        table = pd.read_csv(io.StringIO(out))
        assert list(table) == ["prediction", "lower", "upper"]
        np.testing.assert_allclose(table["prediction"], model.predict(new))
        np.testing.assert_allclose(table[["lower", "upper"]], model.predict_interval(new, 0.8))
        lists = json.loads(call("predict", "model.salsa", "new.csv", "--interval", "0.8", "--json")[1])
        assert lists["rows"] == 25
        np.testing.assert_array_equal(np.transpose([lists["lower"], lists["upper"]]), model.predict_interval(new, 0.8))

    def test_intervals_do_not_depend_on_chunks(self, call, folder, monkeypatch):
        arguments = ["predict", "model.salsa", "new.csv", "--interval", "0.8", "--out"]
        call(*arguments, "whole.csv")
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        assert call(*arguments, "chunks.csv")[0] == 0
        assert Path("whole.csv").read_text() == Path("chunks.csv").read_text()

    def test_every_chunk_is_encoded_once(self, call, folder, monkeypatch):
        chunks, encode = [], Columns.encode
        monkeypatch.setattr(predict, "chunk_rows", lambda *_: 7)
        monkeypatch.setattr(Columns, "encode", lambda columns, X: chunks.append(len(X)) or encode(columns, X))
        assert call("predict", "model.salsa", "new.csv", "--interval", "0.8")[0] == 0
        assert chunks == [7, 7, 7, 4]

    def test_intervals_of_two_outputs_are_numbered(self, call, folder):
        train, new = make_table(), pd.read_csv("new.csv")
        model = SalsaRegressor(order=1, alpha=0.1).fit(train.drop(columns="y"), train[["y", "a"]])
        model.save("two.salsa")
        out = pd.read_csv(io.StringIO(call("predict", "two.salsa", "new.csv", "--interval", "0.8")[1]))
        assert list(out) == ["prediction_0", "prediction_1", "lower_0", "lower_1", "upper_0", "upper_1"]
        np.testing.assert_allclose(out[["lower_1", "upper_1"]], model.predict_interval(new, 0.8)[:, 1])
        lists = json.loads(call("predict", "two.salsa", "new.csv", "--interval", "0.8", "--json")[1])
        assert np.shape(lists["upper"]) == (25, 2)

    def test_infinite_ends_are_inf_in_csv_and_null_in_json(self, call, folder):
        arguments = ["predict", "model.salsa", "new.csv", "--interval", "0.999"]
        assert np.isinf(pd.read_csv(io.StringIO(call(*arguments)[1]))["upper"]).all()
        assert json.loads(call(*arguments, "--json")[1])["upper"] == [None] * 25

    @pytest.mark.parametrize("value", ["0", "1", "90", "nan", "-0.5"])
    def test_invalid_probabilities_give_an_error(self, refused, value):
        assert "Invalid value for '--interval'" in refused("predict", "model.salsa", "new.csv", "--interval", value)


def peak_of(*arguments, **options):
    """Return the peak memory (MB) of the real command."""
    code = (
        "import sys, salsa.cli\ntry:\n    salsa.cli.main()\n"
        "finally:\n    sys.stderr.write(open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=1200, **options)
    assert done.returncode == 0
    return int(re.search(rb"VmHWM:\s+(\d+) kB", done.stderr)[1]) / 1000


class TestLargeFiles:
    """Tables are read in chunks, so that memory does not grow with the number of rows."""

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system has no /proc/self/status")
    def test_four_times_as_many_rows_take_no_more_memory(self, folder):
        others = pd.DataFrame(np.random.default_rng(0).integers(0, 10, (100_000, 40))).add_prefix("other")
        head, *lines = make_table(100_000).drop(columns="y").join(others).to_csv(index=False).splitlines(keepends=True)
        text = "".join(lines)
        Path("once.csv").write_text(head + text)
        Path("large.csv").write_text(head + 4 * text)
        limit = peak_of("predict", "model.salsa", "once.csv") + 50  # MB; 300 000 more rows as numbers take 106
        assert limit < 450
        for options in (["--out", "p.csv"], ["--out", "p.parquet"], ["--json"]):
            assert peak_of("predict", "model.salsa", "large.csv", *options) < limit

    @pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
    def test_wide_tables_are_read_in_short_chunks(self, folder, suffix):
        table = pd.DataFrame(np.zeros((2500, 1200))).add_prefix("x")
        table.to_csv("t.csv", index=False) if suffix == "csv" else getattr(table, f"to_{suffix}")(f"t.{suffix}")
        chunks = list(read_chunks(f"t.{suffix}", 10_000))
        assert max(chunk.size for chunk in chunks) <= max(CHUNK_VALUES, FIRST_ROWS * 1200)
        assert len(chunks) >= 3
        assert [*pd.concat(chunks).index] == [*range(2500)]

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_only_needed_columns_are_read_if_all_are_present(self, folder, suffix):
        getattr(make_table(), f"to_{suffix}")(f"t.{suffix}")
        assert list(next(read_chunks(f"t.{suffix}", 10, names=["b", "a"]))) == ["b", "a"]
        assert list(next(read_chunks(f"t.{suffix}", 10, names=["b", "z"]))) == list("abcdy")

    def test_rows_of_a_chunk_decrease_with_the_size_of_the_model(self, folder):
        model = salsa.load("model.salsa")
        assert predict.chunk_rows(model, None) == predict.CHUNK_WORK // (60 * 4)
        assert predict.chunk_rows(model, 0.9) == predict.CHUNK_WORK // (60 * 64)


class TestNumbers:
    """Every number is written with the fewest digits that restore it exactly, with pyarrow or without."""

    @pytest.mark.parametrize("has_pyarrow", [True, False])
    def test_numbers_are_written_as_their_repr(self, monkeypatch, has_pyarrow):
        odd = [
            0.1,
            1.0,
            -0.0,
            1 / 3,
            1e-4,
            9.999e-5,
            -1e-7,
            5e-324,
            1e10 / 3,
            1e11 / 3,
            123456.0,
            1e22,
            -1.7e308,
            np.inf,
        ]
        values = np.r_[odd, np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)]
        if not has_pyarrow:
            monkeypatch.setitem(sys.modules, "pyarrow", None)
        file = io.StringIO()
        assert writing.write_text(iter([pd.DataFrame({"a,b": values, "c": -values})]), file, "\t") == len(values)
        lines = [f"{v!r}\t{-v!r}" for v in values.tolist()]
        assert file.getvalue().splitlines() == ["a,b\tc", *lines]


@pytest.fixture(scope="module")
def other_targets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    X, f = additive_truth(n=120, D=3, noise=0.0)
    table = pd.DataFrame(X, columns=list("abc"))
    table.to_csv(folder / "x.csv", index=False)
    settings = {"order": 2, "relevance": "equal"}
    models = {
        "counts": SalsaRegressor(loss="poisson", **settings).fit(table, np.random.default_rng(0).poisson(np.exp(f))),
        "log": SalsaRegressor(target_transform="log", **settings).fit(table, np.exp(f)),
        "classes": SalsaClassifier(**settings).fit(table, np.where(f > 0, "yes", "no")),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.salsa")
    return folder, table, models


class TestOtherTargets:
    """Models of classes and of other losses, which were saved from Python."""

    @pytest.mark.parametrize("name", ["counts", "log"])
    def test_predictions_are_in_the_units_of_the_target(self, other_targets, call, name):
        folder, table, models = other_targets
        code, _, err = call("predict", folder / f"{name}.salsa", folder / "x.csv", "--out", folder / f"{name}.csv")
        assert code == 0, err
        np.testing.assert_allclose(pd.read_csv(folder / f"{name}.csv")["prediction"], models[name].predict(table))

    def test_classes_have_labels_and_probabilities(self, other_targets, call):
        folder, table, models = other_targets
        code, _, err = call("predict", folder / "classes.salsa", folder / "x.csv", "--out", folder / "classes.csv")
        assert code == 0, err
        found = pd.read_csv(folder / "classes.csv")
        assert found["prediction"].tolist() == models["classes"].predict(table).tolist()
        np.testing.assert_allclose(
            found[["probability_no", "probability_yes"]], models["classes"].predict_proba(table), atol=1e-12
        )
        _, answer, _ = call("predict", folder / "classes.salsa", folder / "x.csv", "--json")
        assert json.loads(answer)["predictions"][:3] == found["prediction"].tolist()[:3]

    def test_info_names_the_loss(self, other_targets, call):
        folder, *_ = other_targets
        assert "the share of the Poisson deviance that is explained" in call("info", folder / "counts.salsa")[1]
