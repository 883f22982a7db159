"""Tests of the real command in a shell: pipes, interrupts, help and completion."""

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import COMMAND, contents, interrupt, interruptible, make_table, read_terminal, shell
from salsa import SalsaClassifier, cli
from salsa.kernels.base import BASE_KERNELS, NUMERIC_BASES
from salsa.paper.datasets import PROTOCOLS
from salsa.paper.experiments import METHODS


def test_a_named_pipe_is_read_once(tmp_path):
    """Bash creates such a pipe for <(command)."""
    reading, writing = os.pipe()
    os.write(writing, make_table().to_csv(index=False).encode())
    os.close(writing)
    options = ["--target", "y", "--order", "1", "--alpha", "1", "--relevance", "equal", "--out", tmp_path / "m.salsa"]
    done = shell("fit", f"/dev/fd/{reading}", *options, pass_fds=[reading])
    os.close(reading)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_while_a_class_is_created_exits_with_130(call, monkeypatch):
    """Python before 3.12 wraps exceptions of __set_name__, for example during an import."""

    def app(**_):
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr(cli, "app", app)
    assert call("info") == (130, "", "salsa: interrupted\n")


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

    def test_an_error_is_one_line_and_writes_nothing(self, folder):
        before = contents(folder)
        done = shell("fit", "train.csv", "--target", "yy", "--out", "m.salsa")
        assert (done.returncode, done.stdout) == (2, b"")
        assert re.fullmatch(rb"salsa: train.csv has no column 'yy' .*\n", done.stderr)
        assert contents(folder) == before

    def test_an_interrupted_fit_leaves_no_files(self, folder):
        before = contents(folder)
        table = make_table(1500, 12).to_csv(index=False).encode()
        assert len(table) > 2**17  # more than a pipe holds: when all is written, the command is reading
        process = interruptible("fit", "-", "--target", "y", "--out", "m.salsa")
        process.stdin.write(table)
        process.stdin.close()
        process.stdin = None
        time.sleep(0.5)
        code, out, err = interrupt(process)
        assert (code, err) == (130, b"salsa: interrupted\n")
        assert b"\nmodel" not in out  # the table of what was understood may be there
        assert contents(folder) == before

    def test_an_interrupted_predict_leaves_no_files(self, folder):
        before = contents(folder)
        process = interruptible("predict", "model.salsa", "-", "--out", "p.csv")
        deadline = time.monotonic() + 600
        while not list(folder.glob(".salsa-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert contents(folder) != before
        assert interrupt(process) == (130, b"", b"salsa: interrupted\n")
        assert contents(folder) == before

    def test_an_interrupted_explain_leaves_no_files(self, folder):
        before = contents(folder)
        process = interruptible("explain", "model.salsa", "-", "--out", "report.html")
        process.stdin.write(make_table(20_000).to_csv(index=False).encode())  # more than a pipe holds: it is reading
        process.stdin.flush()
        assert interrupt(process) == (130, b"", b"salsa: interrupted\n")
        assert contents(folder) == before

    def test_a_closed_output_pipe_exits_with_1_silently(self, folder):
        process = interruptible("predict", "model.salsa", "new.csv")
        process.stdout.close()
        process.stdout = None
        assert process.communicate(timeout=600)[1] == b""
        assert process.returncode == 1


class TestHelp:
    @pytest.mark.parametrize(
        "command", [["fit"], ["predict"], ["explain"], ["compare"], ["info"], ["demo"], ["reproduce", "table1"]]
    )
    def test_every_command_has_an_example(self, call, command):
        code, out, err = call(*command, "--help")
        assert (code, err) == (0, "")
        assert f"Example: salsa {' '.join(command)}" in out

    @pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
    def test_overview_lists_all_commands_and_exit_codes(self, call, arguments):
        code, out, err = call(*arguments)
        assert (code, err) == (0, "")
        assert all(command in out for command in ("fit", "predict", "explain", "compare", "info", "demo", "reproduce"))
        assert "Exit codes: 0 success; 1 the output pipe was closed; 2 " in " ".join(out.split())

    @pytest.mark.parametrize("command", [[], ["fit"], ["predict"], ["explain"], ["reproduce"]])
    def test_help_has_no_python_types(self, call, command):
        out = call(*command, "--help")[1]
        assert not re.search(r"<|{|BOOL", out)

    def test_version_is_printed(self, call):
        assert call("--version") == (0, f"salsa {salsa.__version__}\n", "")

    def test_large_packages_are_not_imported_before_a_command_runs(self):
        code = "import sys, salsa.cli; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert not {"numpy", "pandas", "pyarrow", "rich.progress", "scipy", "sklearn"} & set(loaded)


def complete(words, shell_name="bash"):
    """Return the completions of the last of these words."""
    if shell_name == "bash":
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    else:
        asked = {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = shell(env={**os.environ, "_SALSA_COMPLETE": f"complete_{shell_name}", **asked})
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


def in_bash(line):
    """Type a line into an interactive bash with completion, and exit."""
    ours, theirs = pty.openpty()
    setup = f'PATH="{COMMAND.parent}:$PATH"; set +H; eval "$(salsa --show-completion bash)"\n'
    bash = ["bash", "--norc", "--noprofile", "-i"]
    process = subprocess.Popen(bash, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    limit = threading.Timer(600, process.kill)  # a quote that stays open would wait for ever
    limit.start()
    os.write(ours, f"{setup}{line}exit\n".encode())
    read_terminal(ours)
    limit.cancel()
    assert process.wait() == 0


class TestCompletion:
    @pytest.mark.parametrize(
        ("name", "sign"),
        [
            ("bash", "complete -o default -F _salsa_completion salsa"),
            ("zsh", "#compdef salsa"),
            ("fish", "complete --command salsa"),
        ],
    )
    def test_completion_scripts_are_printed(self, name, sign):
        done = shell("--show-completion", name)
        assert (done.returncode, done.stderr) == (0, b"")
        assert sign in done.stdout.decode()

    def test_completion_is_installed_in_the_home_folder(self, tmp_path):
        done = shell("--install-completion", "bash", env={**os.environ, "HOME": str(tmp_path)})
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(f"bash completion installed in {tmp_path}".encode())
        assert "salsa" in (tmp_path / ".bashrc").read_text()

    @pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
    def test_bash_completes_columns(self, folder):
        script = (
            f'export PATH="{COMMAND.parent}:$PATH"; eval "$(salsa --show-completion bash)"; '
            'COMP_WORDS=(salsa fit train.csv --target ""); COMP_CWORD=4; _salsa_completion salsa; '
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True, timeout=600)
        assert done.stdout == b"a b c d y\n"

    @pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
    @pytest.mark.parametrize(
        ("typed", "column"),
        [
            ("area\t", "area m²"),
            ("area\\ \t", "area m²"),
            ("'are\t", "area m²"),
            ("'it\t", "it's"),
            ("it\t", "it's"),
            ('"n\t', 'n$ "net" `x`'),
            ("n\t", 'n$ "net" `x`'),
            ("p\t", "p(a|b)*?&;"),
            ("q\t", "q#1\\~!{x,y}<>[z]"),
        ],
    )
    def test_completed_names_are_quoted_for_bash(self, folder, typed, column):
        make_table().rename(columns={"y": column}).to_csv("t.csv", index=False)
        typed_line = f"salsa fit t.csv --target {typed} --order 1 --alpha 1 --out m.salsa --json > summary.json\n"
        in_bash(typed_line)
        assert json.loads(Path("summary.json").read_text())["target"] == column

    @pytest.mark.parametrize(
        ("words", "offered"),
        [
            ("fit t.csv --kernel gau", "gaussian"),
            ("fit t.csv --relevance ", "learned equal"),
            ("fit t.csv --interactions ", "up_to exact"),
            ("fit t.csv --interact ", "pairwise no_interactions"),
            ("fit t.csv --order ", "auto bisect"),
            ("fit t.csv --alpha ", "auto"),
            ("fit t.csv --bandwidth r", "rule_of_thumb"),
            ("fit t.csv --loss ", "squared_error huber quantile poisson gamma"),
            ("fit train.csv --monotone b", "b=+1 b=-1"),
            ("fit t.csv --cla", "--classes"),
            ("fit t.csv --quan", "--quantile"),
            ("explain model.salsa --cla", "--class"),
            ("explain classes.salsa --class ", "high low mid"),
            ("reproduce table1 --protocol ", "authors described"),
            ("reproduce table1 --methods salsa", "salsa salsa-5fold salsa-learned"),
            ("reproduce table1 --methods salsa,sa", "salsa,salsa-5fold salsa,salsa-learned"),
            ("reproduce table1 --datasets housing,forest", "housing,forestfires"),
            ("explain model.salsa --effects b,", "b,a b,c b,d"),
            ("explain model.salsa --effects b,c,", "b,c,a b,c,d"),
        ],
    )
    def test_values_of_options_are_completed(self, folder, words, offered):
        if "classes.salsa" in words:
            labels = np.array(["low", "high", "mid"] * 10)
            SalsaClassifier(order=1, alpha=1, relevance="equal").fit(make_table(30)[["a"]], labels).save(
                "classes.salsa"
            )
        assert complete(f"salsa {words}") == offered.split()

    def test_choices_are_those_that_work(self):
        auto, *kernels = complete("salsa fit t.csv --kernel ")
        assert auto == "auto"
        assert sorted(kernels) == sorted(NUMERIC_BASES)
        smoothness = [BASE_KERNELS[name].smoothness for name in kernels]
        assert smoothness == sorted(smoothness, reverse=True)
        assert complete("salsa reproduce table1 --methods ") == [*METHODS, "all"]
        assert complete("salsa reproduce table1 --protocol ") == list(PROTOCOLS)

    def test_commands_and_options_are_completed(self, folder):
        assert complete("salsa pre") == ["predict"]
        assert complete("salsa predict model.salsa new.csv --int") == ["--interval"]

    @pytest.mark.parametrize("name", ["zsh", "fish"])
    def test_zsh_and_fish_complete_commands(self, folder, name):
        assert "predict" in " ".join(complete("salsa pre", name))

    @pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.feather"])
    def test_columns_of_all_formats_are_completed(self, folder, name):
        table = make_table().rename(columns={"a": "yes"})
        if name.endswith((".parquet", ".feather")):
            getattr(table, f"to_{name[2:]}")(name)
        else:
            table.to_csv(name, sep="\t" if ".tsv" in name else ",", index=False)
        assert complete(f"salsa fit {name} --target y") == ["yes", "y"]
        assert complete(f"salsa fit {name} --target y --drop ") == ["yes", "b", "c", "d", "y"]
        assert complete(f"salsa explain model.salsa {name} --target=y") == ["yes", "y"]

    def test_features_of_a_model_are_completed(self, folder):
        assert complete("salsa explain model.salsa --effects ") == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("words", ["fit absent.csv --target ", "fit - --target ", "fit --target ", "fit tr"])
    def test_unreadable_files_give_no_completions(self, folder, words):
        """The shell then offers file names."""
        assert complete(f"salsa {words}") == []
