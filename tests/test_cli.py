"""The command line: the real command for what a shell sees, main() in this process for the rest."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import salsa
from salsa import SalsaRegressor, cli, tables

COMMAND = Path(sys.executable).with_name("salsa")
FIT_MIXED = ["--target", "y", "--out", "mixed.salsa", "--order", "2", "--alpha", "0.1", "--relevance", "equal"]
needs_data = pytest.mark.skipif(not os.environ.get("SALSA_DATA"), reason="SALSA_DATA is not set")


def make_table(n=60, D=4, seed=0):
    """Features a, b, ... and a target y that needs two of them together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, D)), columns=list("abcdefghijkl"[:D]))
    return X.assign(y=np.sin(3 * X["a"]) + 2 * X["b"] * X["c"] + 0.1 * rng.normal(size=n))


def make_mixed(n=80, seed=0):
    """A number, a category of text, a category of numbers, a truth value, missing ones, and a target y of all."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "colour": rng.choice(["red", "green", "blue"], n)})
    X = X.assign(code=rng.choice([10, 20, 30], n), flag=rng.uniform(size=n) < 0.5)
    y = X["a"] + (X["colour"] == "red") + 2 * (X["code"] == 20) + X["flag"] + 0.1 * rng.normal(size=n)
    X = X.astype({"code": object, "flag": object})
    for j, name in enumerate(X):
        X.loc[rng.choice(n, j, replace=False), name] = None
    return X.assign(y=y)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with train.csv, new.csv (no target) and model.salsa."""
    monkeypatch.chdir(tmp_path)
    train, new = make_table(), make_table(25, seed=1).drop(columns="y")
    train.to_csv("train.csv", index=False)
    new.to_csv("new.csv", index=False)
    SalsaRegressor(random_state=0).fit(train.drop(columns="y"), train["y"]).save("model.salsa")
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Run main() with these arguments; exit code, standard output, standard error."""

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["salsa", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def refused(call, folder):
    """Run main() with arguments it must refuse: exit code 2, one line, nothing written. The line."""

    def run(*arguments, **options):
        before = contents(folder)
        code, out, err = call(*arguments, **options)
        assert (code, out) == (2, "")
        assert re.fullmatch(r"salsa: .+\n", err)
        assert contents(folder) == before
        return err

    return run


@pytest.fixture
def mixed(call, folder):
    """The working folder with mixed.csv, and mixed.salsa fitted to it by the command line."""
    make_mixed().to_csv("mixed.csv", index=False)
    code, _, err = call("fit", "mixed.csv", *FIT_MIXED, "--category", "code")
    assert (code, err) == (0, "")
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shell(*arguments, **options):
    """Run the real command."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, timeout=60, check=False, **options)


def interruptible(*arguments):
    """The real command, started so that SIGINT reaches it even where the tests run in the background."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from salsa.cli import main; main()"
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=pipe, stdout=pipe, stderr=pipe)


def interrupt(process):
    """Send SIGINT; exit code, standard output, standard error."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


class TestShell:
    def test_fit_and_predict_agree_with_python(self, folder):
        fitted = shell(
            "fit", "-", "--target", "y", "--out", "shell.salsa", "--json", input=Path("train.csv").read_bytes()
        )
        assert (fitted.returncode, fitted.stderr) == (0, b"")
        model = salsa.load("model.salsa")
        summary = json.loads(fitted.stdout)
        assert (summary["order"], summary["alpha"]) == (model.order_, model.alpha_)

        predicted = shell("predict", "shell.salsa", "new.csv")
        assert (predicted.returncode, predicted.stderr) == (0, b"")
        values = pd.read_csv(io.BytesIO(predicted.stdout))["prediction"]
        np.testing.assert_array_equal(values, model.predict(pd.read_csv("new.csv")))

    def test_errors_are_one_line(self, folder):
        before = contents(folder)
        done = shell("fit", "train.csv", "--target", "yy", "--out", "m.salsa")
        assert (done.returncode, done.stdout) == (2, b"")
        assert re.fullmatch(rb"salsa: train.csv has no column 'yy' .*\n", done.stderr)
        assert contents(folder) == before

    def test_interrupted_fit(self, folder):
        before = contents(folder)
        table = make_table(1500, 12).to_csv(index=False).encode()
        assert len(table) > 2**17  # more than a pipe holds: when all is written, the command is reading
        process = interruptible("fit", "-", "--target", "y", "--out", "m.salsa")
        process.stdin.write(table)
        process.stdin.close()
        process.stdin = None
        time.sleep(0.5)
        assert interrupt(process) == (130, b"", b"salsa: interrupted\n")
        assert contents(folder) == before

    def test_interrupted_predict(self, folder):
        before = contents(folder)
        process = interruptible("predict", "model.salsa", "-", "--out", "p.csv")
        deadline = time.monotonic() + 30
        while not list(folder.glob(".salsa-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert contents(folder) != before
        assert interrupt(process) == (130, b"", b"salsa: interrupted\n")
        assert contents(folder) == before

    def test_reader_that_leaves(self, folder):
        process = interruptible("predict", "model.salsa", "new.csv")
        process.stdout.close()
        process.stdout = None
        assert process.communicate(timeout=30)[1] == b""
        assert process.returncode == 1


class TestHelp:
    @pytest.mark.parametrize("command", [["fit"], ["predict"], ["demo"], ["reproduce", "table1"]])
    def test_every_command_has_an_example(self, call, command):
        code, out, err = call(*command, "--help")
        assert (code, err) == (0, "")
        assert f"Example: salsa {' '.join(command)}" in out

    @pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
    def test_overview(self, call, arguments):
        code, out, err = call(*arguments)
        assert (code, err) == (0, "")
        assert all(command in out for command in ("fit", "predict", "demo", "reproduce"))

    def test_version(self, call):
        assert call("--version") == (0, f"salsa {salsa.__version__}\n", "")


class TestFit:
    def test_prints_what_was_chosen(self, call, folder):
        code, out, err = call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "1,2")
        assert (code, err) == (0, "")
        best = salsa.load("m.salsa").search_.table.query("chosen").iloc[0]
        assert re.search(r"rows +60\n", out)
        assert re.search(r"features +4, of which 4 are used\n", out)
        assert re.search(rf"R2 +{1 - best['cv_error']:.4f} \+/- {best['standard_error']:.4f} ", out)
        assert re.search(r"model +m.salsa\n", out)
        assert re.search(rf"\* {best['order']} ", out)

    def test_json(self, call, folder):
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

    def test_nothing_to_search(self, call, folder):
        arguments = ["fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "2", "--alpha", "0.1"]
        assert re.search(r"alpha +0.1\nnote ", call(*arguments)[1])
        assert json.loads(call(*arguments, "--json")[1])["r2"] is None

    def test_weights(self, call, folder):
        train = make_table()
        weight = np.arange(60) % 3
        train.assign(w=weight).to_csv("weighted.csv", index=False)
        call("fit", "weighted.csv", "--target", "y", "--weights", "w", "--out", "m.salsa")
        expected = SalsaRegressor(random_state=0).fit(train.drop(columns="y"), train["y"], weight)
        np.testing.assert_array_equal(salsa.load("m.salsa").expansion_.coef, expected.expansion_.coef)

    @pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "t.csv.gz"])
    def test_formats(self, call, folder, name):
        make_table().to_csv(name, sep="\t" if ".tsv" in name else ",", index=False)
        code, out, _ = call("fit", name, "--target", "y", "--out", "m.salsa", "--order", "1", "--json")
        assert (code, json.loads(out)["rows"]) == (0, 60)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--order x", "order='x' must be"),
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
    def test_wrong_options(self, refused, options, message):
        assert message in refused("fit", "train.csv", "--target", "y", "--out", "m.salsa", *options.split())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"", "t.csv is empty"),
            (b"a,y\n", "t.csv has a header but no rows"),
            (b"a,y\n1,2\n2,x\n", "column 'y' has 'x' in row 2, which is not a finite number\n"),
            (b"a,y\nred,2\nblue,\n", "column 'y' has no value in row 2 (1 missing in all)\n"),
            (b"a,y\n,2\nNA,3\n", "no column left to predict 'y' from (columns without values are ignored)"),
            (b"a,y\n1,2\ninf,3\n", "column 'a' has 'inf' in row 2, which is not a finite number; --drop 'a'"),
            (b"a;y\n1;2\n", "its only column is 'a;y'"),
            (b"a,Y\n1,2\n", "has no column 'y' (did you mean 'Y'?)"),
            (b"a,y\n1,2,3\n1,2,3\n", "more values than its header has names"),
            (b"a,y\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
            (b"\xff\xfe,y\n1,2\n", "not a text file in UTF-8"),
        ],
    )
    def test_wrong_tables(self, refused, folder, text, message):
        Path("t.csv").write_bytes(text)
        assert message in refused("fit", "t.csv", "--target", "y", "--out", "m.salsa")

    def test_wrong_standard_input(self, refused):
        assert "standard input is empty" in refused("fit", "-", "--target", "y", "--out", "m.salsa", stdin=b"")

    @pytest.mark.parametrize(
        "packed", [b"plain", gzip.compress(b"a,y\n1,2\n", mtime=0)[:-12], b"\x1f\x8b\x08" + bytes(40)]
    )
    def test_damaged_gzip(self, refused, folder, packed):
        Path("t.csv.gz").write_bytes(packed)
        assert "t.csv.gz cannot be read: " in refused("fit", "t.csv.gz", "--target", "y", "--out", "m.salsa")

    @pytest.mark.parametrize("name", ["absent.csv", "."])
    def test_unreadable_files(self, refused, name):
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
    def test_outputs_are_checked_before_the_fit(self, refused, monkeypatch, out, message):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        assert message in refused("fit", "train.csv", "--target", "y", "--out", out)

    def test_out_of_memory(self, refused, monkeypatch):
        def fit(*_):
            raise MemoryError("this fit needs about 1 TB")

        monkeypatch.setattr(SalsaRegressor, "fit", fit)
        assert "needs about 1 TB" in refused("fit", "train.csv", "--target", "y", "--out", "m.salsa")

    def test_bugs_are_not_hidden(self, monkeypatch, folder):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        monkeypatch.setattr(sys, "argv", ["salsa", "fit", "train.csv", "--target", "y", "--out", "m.salsa"])
        with pytest.raises(TypeError):
            cli.main()


class TestPredict:
    def test_columns_are_matched_by_name(self, call, folder):
        new = pd.read_csv("new.csv")
        new[["d", "b", "a", "c"]].assign(note="text").to_csv("mixed.csv", index=False)
        assert call("predict", "model.salsa", "mixed.csv") == call("predict", "model.salsa", "new.csv")

    def test_chunks_change_nothing(self, call, folder, monkeypatch):
        whole = call("predict", "model.salsa", "new.csv", "--out", "whole.csv")
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        assert whole == (0, "25 predictions written to whole.csv\n", "")
        call("predict", "model.salsa", "new.csv", "--out", "chunks.csv")
        assert Path("whole.csv").read_text() == Path("chunks.csv").read_text()

    def test_json(self, call, folder):
        expected = salsa.load("model.salsa").predict(pd.read_csv("new.csv")).tolist()
        values = json.loads(call("predict", "model.salsa", "new.csv", "--json")[1])
        written = json.loads(call("predict", "model.salsa", "new.csv", "--json", "--out", "p.csv")[1])
        assert values == {"rows": 25, "predictions": expected}
        assert written == {"rows": 25, "out": "p.csv"}

    def test_several_outputs_and_no_names(self, call, folder):
        train, new = make_table(), pd.read_csv("new.csv")
        X, Y = train.drop(columns="y").to_numpy(), train[["y", "a"]].to_numpy()
        model = SalsaRegressor(order=1, alpha=0.1).fit(X, Y)
        model.save("two.salsa")
        out = pd.read_csv(io.StringIO(call("predict", "two.salsa", "new.csv")[1]))
        assert list(out.columns) == ["prediction_0", "prediction_1"]
        np.testing.assert_array_equal(out, model.predict(new.to_numpy()))

    def test_links_and_modes_are_kept(self, call, folder):
        Path("real.csv").touch()
        Path("link.csv").symlink_to("real.csv")
        call("predict", "model.salsa", "new.csv", "--out", "link.csv")
        assert Path("link.csv").is_symlink()
        assert len(pd.read_csv("real.csv")) == 25
        assert Path("real.csv").stat().st_mode == Path("new.csv").stat().st_mode

    def test_packed_output(self, call, folder):
        call("predict", "model.salsa", "new.csv", "--out", "p.csv.gz")
        assert len(pd.read_csv("p.csv.gz")) == 25

    def test_late_errors_leave_nothing(self, refused, folder, monkeypatch):
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        new = pd.read_csv("new.csv").astype(object)
        new.loc[19, "b"] = "red"
        new.to_csv("late.csv", index=False)
        message = "late.csv: column 'b' has 'red' in row 20, which is not a finite number; it held numbers in training"
        assert message in refused("predict", "model.salsa", "late.csv", "--out", "p.csv")

    def test_missing_features(self, refused, folder):
        pd.read_csv("new.csv").rename(columns={"a": "A"}).drop(columns="c").to_csv("few.csv", index=False)
        assert "has no column 'a' (did you mean 'A'?), 'c';" in refused("predict", "model.salsa", "few.csv")

    def test_wrong_number_of_unnamed_features(self, refused, folder):
        SalsaRegressor(order=1, alpha=1).fit(np.eye(3), np.arange(3)).save("bare.salsa")
        assert "needs its 3 columns alone" in refused("predict", "bare.salsa", "new.csv")

    @pytest.mark.parametrize("damage", [lambda b: b[:500], lambda b: b"text", lambda b: b[:900] + bytes(20) + b[920:]])
    def test_damaged_models(self, refused, folder, damage):
        Path("bad.salsa").write_bytes(damage(Path("model.salsa").read_bytes()))
        assert "bad.salsa " in refused("predict", "bad.salsa", "new.csv", "--out", "p.csv")

    def test_interrupt_inside_the_reader(self, call, folder, monkeypatch):
        class Interrupting(io.BytesIO):
            def read(self, size=-1):
                os.kill(os.getpid(), signal.SIGINT)
                return super().read(size)

        before = contents(folder)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Interrupting(b"a,b,c,d\n1,2,3,4\n")))
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert call("predict", "model.salsa", "-", "--out", "p.csv") == (130, "", "salsa: interrupted\n")
        finally:
            signal.signal(signal.SIGINT, handler)
        assert contents(folder) == before

    @pytest.mark.parametrize("out", ["new.csv", "model.salsa"])
    def test_inputs_are_not_overwritten(self, refused, out):
        assert "it is also an input" in refused("predict", "model.salsa", "new.csv", "--out", out)


class TestColumns:
    """What the columns of a table are taken for, in training and in prediction."""

    def fit(self, call, table, *options, name="t.csv"):
        table.to_csv(name, index=False)
        return call("fit", name, *FIT_MIXED, *options)

    def levels(self):
        columns = salsa.load("mixed.salsa").columns_
        return dict(zip(columns.names, columns.levels, strict=True))

    def test_numbers_categories_and_truth_values(self, mixed):
        assert self.levels() == {"a": None, "colour": ("blue", "green", "red"), "code": (10, 20, 30), "flag": None}

    def test_the_model_is_that_of_a_data_frame(self, mixed):
        table = make_mixed()
        X = table.drop(columns="y").astype({"code": "category", "flag": float})
        expected = SalsaRegressor(order=2, alpha=0.1, relevance="equal", random_state=0).fit(X, table["y"])
        np.testing.assert_allclose(salsa.load("mixed.salsa").predict(X), expected.predict(X))

    def test_real_command(self, mixed):
        fitted = shell("fit", "mixed.csv", *FIT_MIXED, "--category", "code", "--category", "flag")
        assert (fitted.returncode, fitted.stderr) == (0, b"")
        assert re.search(rb"features +4, of which 4 are used and 3 are categories\nmissing +1.88 % of", fitted.stdout)
        predicted = shell("predict", "mixed.salsa", "-", "--interval", "0.5", input=Path("mixed.csv").read_bytes())
        assert (predicted.returncode, predicted.stderr) == (0, b"")
        assert pd.read_csv(io.BytesIO(predicted.stdout)).shape == (80, 3)

    def test_summary(self, call, mixed):
        summary = json.loads(call("fit", "mixed.csv", *FIT_MIXED, "--category", "code", "--json")[1])
        assert summary["categorical"] == ["colour", "code"]
        assert summary["missing"] == (1 + 2 + 3) / 320
        plain = json.loads(call("fit", "train.csv", "--target", "y", "--out", "m.salsa", "--order", "1", "--json")[1])
        assert (plain["categorical"], plain["missing"]) == ([], 0.0)

    def test_columns_without_values_are_ignored(self, call, folder):
        table = make_mixed().assign(void="", other="NA")
        code, out, err = self.fit(call, table, "--category", "other")
        assert (code, err) == (0, "")
        assert re.search(r"note +column 'void' has no values and is ignored\nnote +column 'other' has no", out)
        assert list(self.levels()) == ["a", "colour", "code", "flag"]
        assert call("predict", "mixed.salsa", "t.csv")[0] == 0

    @pytest.mark.parametrize("wrong", ["abc", "12,5", "?", "inf"])
    def test_text_among_numbers_is_a_mistake(self, refused, call, wrong):
        table = make_table().astype({"b": object})
        table.loc[[6, 9], "b"] = None
        table.loc[[7, 11, 13, 14, 15], "b"] = [wrong, "x", "x", "x", "x"]  # 53 of 58 are numbers
        table.to_csv("t.csv", index=False)
        message = f"t.csv: column 'b' has {wrong!r} in row 8, but 53 of its 58 values are numbers (from 90 % on that"
        assert message in (line := refused("fit", "t.csv", *FIT_MIXED))
        assert line.endswith("--category 'b'\n")
        assert call("fit", "t.csv", *FIT_MIXED, "--category", "b")[0] == 0
        assert wrong in self.levels()["b"]

    def test_less_than_nine_tenths_of_numbers_are_a_category(self, call, folder):
        table = make_table().astype({"b": object}).assign(b=[1, 2, 3, 4, 5, "x"] * 10)
        assert self.fit(call, table)[0] == 0
        assert self.levels()["b"] == ("1", "2", "3", "4", "5", "x")

    @pytest.mark.parametrize(
        "dates",
        [
            ["2026-01-31", "2026-02-01"],
            ["2026/1/31 12:00", "2026-02-01T12:00:00Z"],
            ["31/12/2026", "1/2/2026"],
            ["5-Jan-2026", "6-Feb-2026"],
            ["2026-01", "2026-12"],
            ["12:30", "8:05:01.5"],
        ],
    )
    def test_dates(self, refused, dates):
        make_table().assign(when=[*dates, ""] * 20).to_csv("t.csv", index=False)
        line = refused("fit", "t.csv", *FIT_MIXED)
        assert "t.csv: column 'when' holds dates, times or durations; turn them into numbers" in line
        assert line.endswith("--drop 'when' leaves the column out\n")

    @pytest.mark.parametrize(
        "texts", [["10-19", "20-29"], ["1/2", "3/4"], ["2019-20", "2020-21"], ["2026-01-31", "no"]]
    )
    def test_what_only_looks_like_dates(self, call, folder, texts):
        assert self.fit(call, make_table().assign(range=texts * 30))[0] == 0
        assert self.levels()["range"] == tuple(texts)

    def test_identifiers(self, refused, call):
        names = [f"name {i % 31}" for i in range(60)]
        make_table().assign(id=names).to_csv("t.csv", index=False)
        message = "t.csv: column 'id' has 31 different texts in 60 rows, like names or identifiers; --drop 'id'"
        assert message in (line := refused("fit", "t.csv", *FIT_MIXED))
        assert "--category 'id'" in line
        assert call("fit", "t.csv", *FIT_MIXED, "--category", "id")[0] == 0
        assert self.fit(call, make_table().assign(id=[f"name {i % 30}" for i in range(60)]))[0] == 0
        assert self.fit(call, make_table(50).assign(id=[f"name {i}" for i in range(50)]))[0] == 0

    def test_braces_in_names_and_values(self, refused):
        make_table().assign(**{"{x}": ["{y}", *range(59)]}).to_csv("t.csv", index=False)
        assert "column '{x}' has '{y}' in row 1" in refused("fit", "t.csv", *FIT_MIXED)

    def test_categories_are_the_same_in_every_chunk(self, call, mixed, monkeypatch):
        """A text category that looks like numbers in some chunks, numbers that look like text in others."""
        table = make_mixed().assign(size=(["1", "2", "L"] * 27)[:80])
        assert self.fit(call, table, "--category", "code")[0] == 0
        new = table.sort_values(["size", "code"]).astype({"code": object})
        new.loc[new.index[-1], "code"] = "?"
        new.to_csv("new.csv", index=False)
        whole = call("predict", "mixed.salsa", "new.csv", "--interval", "0.8")
        monkeypatch.setattr(tables, "CHUNK_ROWS", 9)
        assert call("predict", "mixed.salsa", "new.csv", "--interval", "0.8") == whole
        assert whole[2].count("\n") == 1
        X = table.drop(columns="y").astype({"code": "category", "flag": float})
        X = X.loc[new.index].assign(code=new["code"].replace("?", None))
        values = pd.read_csv(io.StringIO(whole[1]))
        np.testing.assert_allclose(values["prediction"], salsa.load("mixed.salsa").predict(X))

    def test_unseen_categories_are_told_once(self, call, mixed, monkeypatch):
        new = make_mixed(25, seed=1).assign(y=np.nan)
        gone = new.copy()
        new.loc[[3, 20], "colour"], gone.loc[[3, 20], "colour"] = ["mauve", "pink"], None
        new.loc[7, "code"], gone.loc[7, "code"] = 40, None
        new.to_csv("new.csv", index=False)
        gone.to_csv("gone.csv", index=False)
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        code, out, err = call("predict", "mixed.salsa", "new.csv")
        assert (code, out, "") == call("predict", "mixed.salsa", "gone.csv")
        counts = "column 'colour': 2 rows, such as 'mauve'; column 'code': 1 row, such as '40'"
        assert err == f"salsa: new.csv has values not seen in training, which count as missing: {counts}\n"

    def test_text_in_a_column_of_truth_values(self, refused, mixed):
        pd.read_csv("mixed.csv", dtype=str).assign(flag=["True", "", "maybe", "False"] * 20).to_csv("new.csv")
        assert "column 'flag' has 'maybe' in row 3, which" in refused("predict", "mixed.salsa", "new.csv")

    def test_categories_without_names(self, call, folder):
        table = make_mixed()
        X = table.drop(columns="y").astype({"flag": float}).to_numpy(dtype=object)
        model = SalsaRegressor(order=1, alpha=0.1, categorical_features=[2]).fit(X, table["y"])
        model.save("bare.salsa")
        table.drop(columns="y").to_csv("new.csv", index=False)
        code, out, err = call("predict", "bare.salsa", "new.csv")
        assert (code, err) == (0, "")
        np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["prediction"], model.predict(X))


class TestIntervals:
    def test_ends(self, call, folder):
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

    def test_chunks_change_nothing(self, call, folder, monkeypatch):
        arguments = ["predict", "model.salsa", "new.csv", "--interval", "0.8", "--out"]
        call(*arguments, "whole.csv")
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        assert call(*arguments, "chunks.csv")[0] == 0
        np.testing.assert_allclose(pd.read_csv("whole.csv"), pd.read_csv("chunks.csv"), rtol=1e-12)

    def test_several_outputs(self, call, folder):
        train, new = make_table(), pd.read_csv("new.csv")
        model = SalsaRegressor(order=1, alpha=0.1).fit(train.drop(columns="y"), train[["y", "a"]])
        model.save("two.salsa")
        out = pd.read_csv(io.StringIO(call("predict", "two.salsa", "new.csv", "--interval", "0.8")[1]))
        assert list(out) == ["prediction_0", "prediction_1", "lower_0", "lower_1", "upper_0", "upper_1"]
        np.testing.assert_allclose(out[["lower_1", "upper_1"]], model.predict_interval(new, 0.8)[:, 1])
        lists = json.loads(call("predict", "two.salsa", "new.csv", "--interval", "0.8", "--json")[1])
        assert np.shape(lists["upper"]) == (25, 2)

    def test_infinite_ends(self, call, folder):
        arguments = ["predict", "model.salsa", "new.csv", "--interval", "0.999"]
        assert np.isinf(pd.read_csv(io.StringIO(call(*arguments)[1]))["upper"]).all()
        assert json.loads(call(*arguments, "--json")[1])["upper"] == [None] * 25

    @pytest.mark.parametrize("value", ["0", "1", "90", "nan", "-0.5"])
    def test_wrong_probabilities(self, refused, value):
        assert "Invalid value for '--interval'" in refused("predict", "model.salsa", "new.csv", "--interval", value)


class TestArrow:
    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_the_same_as_csv(self, call, mixed, suffix, monkeypatch):
        write = getattr(pd.DataFrame, f"to_{suffix}")
        table = make_mixed().astype({"code": "Int64", "flag": "boolean"})
        write(table, f"t.{suffix}")
        expected = call("predict", "mixed.salsa", "mixed.csv")
        assert call("predict", "mixed.salsa", f"t.{suffix}") == expected
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        assert call("fit", f"t.{suffix}", *FIT_MIXED, "--category", "code")[0] == 0
        assert call("predict", "mixed.salsa", f"t.{suffix}") == expected

    def test_types_count(self, call, folder):
        """Text of digits and categories of numbers stay categories (Parquet keeps only those of text)."""
        table = make_mixed().assign(code=lambda t: t["code"].astype("category"), size=["1", "2"] * 40)
        table.to_feather("t.feather")
        code, _, err = call("fit", "t.feather", *FIT_MIXED)
        assert (code, err) == (0, "")
        columns = salsa.load("mixed.salsa").columns_
        assert columns.names == ("a", "colour", "code", "flag", "size")
        assert columns.levels[2:] == ((10, 20, 30), None, ("1", "2"))
        table.to_csv("t.csv", index=False)
        assert call("predict", "mixed.salsa", "t.csv") == call("predict", "mixed.salsa", "t.feather")

    def test_an_index_is_no_column(self, call, folder):
        make_mixed().set_index(np.arange(80)[::-1]).to_parquet("t.parquet")
        assert call("fit", "t.parquet", *FIT_MIXED)[0] == 0
        assert salsa.load("mixed.salsa").columns_.names == ("a", "colour", "code", "flag")

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (pd.date_range("2026-01-01", periods=60), "column 'b' holds dates, times or durations"),
            ([[1, 2]] * 60, "column 'b' holds neither numbers nor text; --drop 'b'"),
            ([b"x"] * 60, "column 'b' holds neither numbers nor text; --drop 'b'"),
        ],
    )
    def test_other_types(self, refused, values, message):
        make_table().assign(b=values).to_parquet("t.parquet")
        assert message in refused("fit", "t.parquet", *FIT_MIXED)
        assert message in refused("fit", "t.parquet", *FIT_MIXED, "--category", "b")
        assert message.split(";")[0] in refused("predict", "model.salsa", "t.parquet")

    def test_dates_are_no_target(self, refused):
        make_table().assign(y=pd.date_range("2026-01-01", periods=60)).to_parquet("t.parquet")
        assert "column 'y' holds dates" in refused("fit", "t.parquet", *FIT_MIXED)

    @pytest.mark.parametrize("kind", ["category", "str"])
    def test_text_is_no_target(self, refused, kind):
        make_table().assign(y=["1", "x"] * 30).astype({"y": kind}).to_parquet("t.parquet")
        assert "column 'y' has 'x' in row 2, which is not a finite number" in refused("fit", "t.parquet", *FIT_MIXED)

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_damaged(self, refused, suffix):
        for content in (b"", b"text", b"PAR1" + bytes(40) + b"PAR1"):
            Path(f"t.{suffix}").write_bytes(content)
            assert f"t.{suffix} cannot be read: " in refused("predict", "model.salsa", f"t.{suffix}")

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_no_rows(self, refused, suffix):
        getattr(make_table()[:0], f"to_{suffix}")(f"t.{suffix}")
        assert f"t.{suffix} has " in refused("fit", f"t.{suffix}", *FIT_MIXED)
        assert f"t.{suffix} has no rows" in refused("predict", "model.salsa", f"t.{suffix}")

    def test_without_pyarrow(self, refused, monkeypatch):
        make_table().to_parquet("t.parquet")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert "need pyarrow: pip install pyarrow" in refused("fit", "t.parquet", *FIT_MIXED)

    def test_absent(self, refused):
        assert refused("fit", "absent.parquet", *FIT_MIXED).startswith("salsa: absent.parquet: ")

    def test_predictions_are_written_as_text(self, refused):
        message = "cannot write p.parquet: tables are written as CSV or TSV, such as p.csv"
        assert message in refused("predict", "model.salsa", "new.csv", "--out", "p.parquet")


class TestDemo:
    def test_files_and_scores(self, call, folder):
        code, out, err = call("demo", "--out", "d")
        assert (code, err) == (0, "")
        assert "ridge regression" in out
        names = "data.csv train.csv test.csv model.salsa predictions.csv report.md order_search.png"
        assert {path.name for path in Path("d").iterdir()} == set(names.split())
        assert [len(pd.read_csv(f"d/{name}.csv")) for name in ("data", "train", "test")] == [1000, 500, 500]

    def test_without_matplotlib(self, call, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        code, out, err = call("demo", "--json")
        scores = json.loads(out)["test_r2"]
        assert code == 0
        assert scores["salsa"] > scores["mean of the training rows"]
        assert "matplotlib is missing" in err
        assert "order_search" not in Path("salsa-demo/report.md").read_text()

    @pytest.mark.parametrize("out", ["absent/d", "train.csv"])
    def test_impossible_folders(self, refused, out):
        assert refused("demo", "--out", out).startswith(f"salsa: {out}: ")


class TestReproduce:
    @needs_data
    def test_forestfires(self, call):
        code, out, err = call("reproduce", "table1", "--datasets", "forestfires", "--json")
        (row,) = json.loads(out)
        assert (code, err) == (0, "")
        assert (row["dataset"], row["method"], row["order"]) == ("forestfires", "salsa", 3)
        assert row["mse"] == pytest.approx(row["published_mse"], abs=5e-6)
        assert row["seconds"] > 0

    @needs_data
    def test_table_without_published_numbers(self, call):
        arguments = ["--methods", "salsa,salsa-5fold", "--datasets", "forestfires", "--protocol", "described"]
        code, out, err = call("reproduce", "table1", *arguments)
        assert (code, err) == (0, "")
        assert len(re.findall(r"forestfires +211 +10 +\S+ +0\.\d{5} +\d+ +- +- +\d+\.\d", out)) == 2
        assert max(map(len, out.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--datasets housing,wine", "unknown data set 'wine'; choose from housing, galaxy"),
            ("--methods magic", "unknown method 'magic'; choose from salsa, salsa-5fold"),
            ("--protocol loose", "protocol must be one of authors, described"),
        ],
    )
    def test_unknown_names(self, refused, options, message):
        assert message in refused("reproduce", "table1", *options.split())

    def test_no_connection(self, refused, monkeypatch, tmp_path_factory):
        monkeypatch.delenv("SALSA_DATA", raising=False)
        monkeypatch.setenv("SALSA_CACHE", str(tmp_path_factory.mktemp("cache")))
        monkeypatch.setenv("SALSA_DATA_URL", "http://127.0.0.1:9/")
        assert "cannot download" in refused("reproduce", "table1", "--datasets", "housing")
