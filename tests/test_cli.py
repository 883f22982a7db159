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
needs_data = pytest.mark.skipif(not os.environ.get("SALSA_DATA"), reason="SALSA_DATA is not set")


def make_table(n=60, D=4, seed=0):
    """Features a, b, ... and a target y that needs two of them together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, D)), columns=list("abcdefghijkl"[:D]))
    return X.assign(y=np.sin(3 * X["a"]) + 2 * X["b"] * X["c"] + 0.1 * rng.normal(size=n))


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
            (b"a,y\n,2\nred,3\n", "column 'a' has 'red' in row 2, which is not a finite number; --drop 'a'"),
            (b"a,y\n1,2\n2,3\n,3\n", "column 'a' has no value in row 3 (1 missing in all); --drop 'a'"),
            (b"a,y\n1,2\ninf,3\n", "column 'a' has 'inf' in row 2"),
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

    @pytest.mark.parametrize("packed", [b"plain", gzip.compress(b"a,y\n1,2\n")[:-12], b"\x1f\x8b\x08" + bytes(40)])
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
        message = "late.csv: column 'b' has 'red' in row 20, which is not a finite number\n"
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
