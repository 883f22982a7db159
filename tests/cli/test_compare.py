"""Tests of salsa compare: the numbers of ``salsa.baselines.compare`` as a table, as JSON and as a picture."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from children import never_ending

from cli.command import contents, interrupt, interruptible, make_mixed, make_table, on_terminal, shell
from cli.test_cli_shell import complete
from salsa import cli
from salsa.baselines import BASELINES, compare, cross_validation, leaderboard
from salsa.baselines.registry import CLASSIFIER_RIVALS, RIVALS
from salsa.cli.compare import _chosen

QUICK = ["--target", "y", "--methods", "lar,lasso"]
NUMBERS = ["mse", "mse_se", "r2"]
OFFERED = [*(name for name in RIVALS | CLASSIFIER_RIVALS if name != "salsa"), "all", "paper"]


@pytest.fixture
def never_runs(monkeypatch):
    """Make the test fail if any method runs."""
    monkeypatch.setattr(leaderboard, "run_all", None)


@pytest.fixture
def broken(monkeypatch):
    """Make LAR and LASSO raise an error."""
    make = cross_validation.make_baseline

    def make_baseline(name, task):
        if name in ("lar", "lasso"):
            raise RuntimeError("out of order")
        return make(name, task)

    monkeypatch.setattr(cross_validation, "make_baseline", make_baseline)


def read_frame(text):
    return pd.DataFrame(json.loads(text))


class TestNumbers:
    @pytest.mark.parametrize("options", [[], ["--limit", "6000", "--jobs", "2"]])
    def test_json_equals_the_comparison_in_python(self, call, folder, options):
        code, out, err = call("compare", "train.csv", *QUICK, "--cv", "4", "--seed", "3", "--json", *options)
        assert (code, err) == (0, "")
        train = pd.read_csv("train.csv")
        expected = compare(train.drop(columns="y"), train["y"], ["lar", "lasso"], cv=4, random_state=3)
        assert list(read_frame(out)) == list(expected.frame)
        kept = ["method", *NUMBERS, "status"]
        pd.testing.assert_frame_equal(read_frame(out)[kept], expected.frame[kept], rtol=1e-12)

    def test_printed_table_equals_json_within_80_letters(self, call, folder):
        code, out, err = call("compare", "train.csv", *QUICK)
        frame = read_frame(call("compare", "train.csv", *QUICK, "--json")[1])
        assert (code, err) == (0, "")
        assert re.match(rf"rows +60\nfeatures +4\nfolds +5\nbest +{frame['method'][0]}\n\n", out)
        printed = re.findall(r"^(\w+) +(\S+) +(\S+) +(\S+) +\d+\.\d\d +\d+\.\d{3}$", out, re.MULTILINE)
        assert printed == [(r.method, f"{r.mse:.4g}", f"{r.mse_se:.2g}", f"{r.r2:.4f}") for r in frame.itertuples()]
        assert max(map(len, out.splitlines())) <= 80

    def test_dropped_empty_and_category_columns_are_respected(self, call, folder):
        make_mixed().assign(empty=None).to_csv("t.csv", index=False)
        arguments = ["t.csv", "--target", "y", "--methods", "salsa", "--drop", "a", "--category", "code", "--json"]
        code, out, err = call("compare", *arguments)
        assert (code, err) == (0, "salsa: column 'empty' has no values and is ignored\n")
        X = make_mixed()[["colour", "code", "flag"]].astype({"flag": float})
        X["code"] = pd.Categorical(X["code"].astype(float))
        expected = compare(X, make_mixed()["y"], ["salsa"])
        assert read_frame(out)["mse"][0] == pytest.approx(expected.frame["mse"][0])

    def test_standard_input_equals_a_file(self, call, folder):
        from_pipe = call("compare", "-", *QUICK, "--json", stdin=Path("train.csv").read_bytes())
        assert read_frame(from_pipe[1])["mse"].equals(
            read_frame(call("compare", "train.csv", *QUICK, "--json")[1])["mse"]
        )


class TestMethods:
    def test_fast_methods_run_by_default(self, call, folder, monkeypatch):
        monkeypatch.setattr(leaderboard, "FAST", ("lasso",))
        assert read_frame(call("compare", "train.csv", "--target", "y", "--json")[1])["method"].tolist() == ["lasso"]

    def test_all_and_paper_stand_for_several_methods(self):
        assert _chosen("all") == [*BASELINES, "salsa", "salsa-paper"]
        assert _chosen("paper") == [name for name in RIVALS if RIVALS[name].in_paper]
        assert len(_chosen("PAPER")) == 22
        assert _chosen("salsa, Ridge,paper")[:3] == ["salsa", "ridge", "krr"]

    def test_methods_accept_text_and_missing_values(self, call, folder):
        make_mixed().to_csv("mixed.csv", index=False)
        code, out, err = call("compare", "mixed.csv", "--target", "y", "--methods", "ridge,salsa", "--cv", "3")
        assert (code, err) == (0, "")
        assert all(re.search(rf"^{name} +[01]\.\d+", out, re.MULTILINE) for name in ("salsa", "ridge"))

    def test_a_failed_method_does_not_stop_other_methods(self, call, folder, broken):
        make_mixed().to_csv("mixed.csv", index=False)
        code, out, err = call("compare", "mixed.csv", "--target", "y", "--methods", "lar,ridge", "--cv", "3")
        assert (code, err) == (0, "")
        assert re.search(r"^ridge +[01]\.\d+", out, re.MULTILINE)
        assert re.search(r"^\nlar  failed: RuntimeError: out of order", out, re.MULTILINE)

    def test_an_error_is_given_if_no_method_finishes(self, refused, folder, broken):
        make_mixed().to_csv("mixed.csv", index=False)
        message = refused("compare", "mixed.csv", *QUICK, "--json")
        assert message.startswith("salsa: no method finished: lar failed: RuntimeError: out of order")

    def test_a_time_limit_stops_a_method_that_never_ends(self, call, folder, monkeypatch):
        command = never_ending("salsa.baselines.methods.cosso.COSSORegressor", "time.sleep(1)")
        monkeypatch.setattr("salsa.baselines.processes.COMMAND", command)
        options = "--target y --methods lar,cosso --cv 2 --limit 10 --jobs 2"  # LAR takes a hundredth of it
        code, out, _ = call("compare", "train.csv", *options.split())
        assert code == 0
        assert re.search(r"^lar +[01]\.\d+", out, re.MULTILINE)
        assert out.endswith("\ncosso  timed out\n")

    def test_output_of_methods_goes_to_standard_error(self, call, folder, monkeypatch):
        class Loud(type(RIVALS["ridge"].make())):
            def fit(self, X, y):
                print("epoch 1")
                return super().fit(X, y)

        loud = Loud(RIVALS["ridge"].make().steps)
        monkeypatch.setattr("salsa.baselines.cross_validation.make_baseline", lambda name, task: loud)
        code, out, err = call("compare", "train.csv", "--target", "y", "--methods", "ridge", "--json")
        assert (code, len(json.loads(out)), err) == (0, 1, "epoch 1\n" * 5)


class TestPlot:
    @pytest.mark.parametrize(("name", "sign"), [("c.png", b"\x89PNG"), ("c.SVG", b"<?xml"), ("c.pdf", b"%PDF")])
    def test_picture_has_the_format_of_its_name(self, call, folder, name, sign):
        code, out, err = call("compare", "train.csv", *QUICK, "--plot", name)
        assert (code, err) == (0, "")
        assert f"plot      {name}\n" in out
        assert Path(name).read_bytes().startswith(sign)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("c.gift", "cannot draw c.gift: name it .png, .svg or .pdf"),
            ("c", "cannot draw c: name it .png"),
            ("absent/c.png", "there is no folder"),
            ("folder.png", "is not a file"),
        ],
    )
    def test_picture_paths_are_checked_before_methods_run(self, refused, never_runs, name, message):
        Path("folder.png").mkdir()
        assert message in refused("compare", "train.csv", *QUICK, "--plot", name)

    def test_the_input_is_not_overwritten(self, refused, never_runs):
        Path("t.png").write_text("a,y\n1,2\n", encoding="utf-8")
        assert "it is also an input" in refused("compare", "t.png", *QUICK, "--plot", "t.png")

    def test_plot_without_matplotlib_names_the_package_to_install(self, refused, never_runs, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert "--plot needs matplotlib: pip install" in refused("compare", "train.csv", *QUICK, "--plot", "c.png")


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--target y --methods ridge,rigde", "there is no method 'rigde': did you mean 'ridge'?"),
            ("--target y --methods ridge,", "there is no method ''"),
            ("--target Y", "train.csv has no column 'Y' (did you mean 'y'?)"),
            ("--target y --drop aa", "train.csv has no column 'aa'"),
            ("--target y --drop y", "column 'y' has two roles"),
            ("--target y --cv 1", "Invalid value for '--cv'"),
            ("--target y --cv 61", "cv=61: there are only 60 rows"),
            ("--target y --limit 0", "'--limit': 0.0 is not a positive number of seconds"),
            ("--target y --limit nan", "'--limit': nan is not a positive number of seconds"),
            ("--target y --jobs 0", "Invalid value for '--jobs'"),
        ],
    )
    def test_invalid_options_give_an_error_before_methods_run(self, refused, never_runs, options, message):
        assert message in refused("compare", "train.csv", *options.split())

    def test_unknown_methods_give_an_error_before_a_table_is_read(self, refused, folder):
        Path("empty.csv").touch()
        assert "there is no method 'magic'" in refused("compare", "empty.csv", "--target", "y", "--methods", "magic")

    def test_missing_packages_are_named_on_standard_error(self, call, folder, monkeypatch):
        monkeypatch.setitem(RIVALS, "lightgbm", replace(RIVALS["lightgbm"], package="no-such-package"))
        err = call("compare", "train.csv", "--target", "y", "--methods", "ridge,lgbm", "--cv", "2")[2]
        assert err.startswith("salsa: lightgbm needs the package no-such-package, which is not installed: pip install")


class TestShell:
    def test_progress_is_shown_on_terminals_only(self, folder):
        quiet = shell("compare", "train.csv", *QUICK, "--json")
        assert (quiet.returncode, quiet.stderr) == (0, b"")
        out, seen = on_terminal("compare", "train.csv", *QUICK, "--json")
        assert read_frame(out)["mse"].equals(read_frame(quiet.stdout)["mse"])
        assert "Comparing on 60 rows, 4 features" in seen
        assert re.search(r"\[salsa\] lar: mse \S+ \+- \S+ \(1 of 2, \S+ s\)", seen)

    @pytest.mark.parametrize("options", [[], ["--limit", "6000", "--jobs", "2"]])
    def test_an_interrupt_leaves_no_files_and_no_processes(self, folder, options):
        before = contents(folder)
        table = make_table(1500, 12).to_csv(index=False).encode()
        process = interruptible("compare", "-", "--target", "y", "--methods", "cosso,gbrt", "--plot", "c.png", *options)
        process.stdin.write(table)  # more than a pipe holds: when all is written, the command is reading
        process.stdin.close()
        process.stdin = None
        deadline, expected = time.monotonic() + 600, 2 if options else 0
        time.sleep(2)
        while len(children := children_of(process.pid)) < expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(children) == expected
        assert interrupt(process) == (130, b"", b"salsa: interrupted\n")
        assert contents(folder) == before
        assert not any(map(is_running, children))

    def test_help_has_an_example_and_no_python_types(self, call):
        code, out, err = call("compare", "--help")
        assert (code, err) == (0, "")
        assert "Example: salsa compare" in out
        assert not re.search(r"<|{|BOOL", out)

    def test_methods_and_columns_are_completed(self, folder):
        assert complete("salsa compare train.csv --methods salsa,") == [f"salsa,{name}" for name in OFFERED]
        assert complete("salsa compare train.csv --target ") == list("abcdy")

    def test_compare_is_a_registered_command(self):
        assert "compare" in {command.callback.__name__ for command in cli.app.registered_commands}


def children_of(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(number) for number in listed.stdout.split()]


def is_running(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_the_page_on_rivals_lists_all_rivals():
    page = (Path(__file__).parents[2] / "docs" / "rivals.md").read_text(encoding="utf-8").partition("## Classes")[0]
    lines = page.partition("| name | ")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    assert [row[:4] for row in rows] == [[f"`{r.name}`", r.title, r.in_paper, r.package] for r in RIVALS.values()]
    assert all(row[4] for row in rows)
