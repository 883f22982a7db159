"""The documentation is true: Python blocks run, salsa command lines parse, and the commands of the README run."""

import os
import re
import shlex
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.command import COMMAND
from markdown_it import MarkdownIt
from matplotlib import pyplot as plt
from typer.main import get_command

import salsa
from salsa.cli import app

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted(page for page in ROOT.glob("docs/**/*.md"))]


def tokens(page):
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def python_blocks(page):
    """Return the first line and the code of each Python block."""
    return [(token.map[0] + 1, token.content) for token in tokens(page) if token.info == "python"]


def shell_lines(token):
    """Return the lines with a dollar of a transcript; all lines of other blocks without a language."""
    transcript = re.findall(r"^\$ (.*)", token.content, flags=re.MULTILINE)
    return transcript if transcript or token.info else token.content.splitlines()


def commands(line):
    """Yield the words after salsa for every command in a line of a shell."""
    if "salsa " not in line:
        return
    for joint, part in groupby(shlex.split(line, comments=True), lambda word: word in ("|", ">", "&&", "&")):
        name, *arguments = part
        if not joint and name == "salsa" and arguments:
            yield arguments


def commands_of(page, *kinds):
    lines = [line for token in tokens(page) if token.type in kinds for line in shell_lines(token)]
    return [arguments for line in lines for arguments in commands(line)]


def with_some(pages, find):
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages if find(page)]


def python_pages():
    slow = pytest.mark.slow
    return [
        pytest.param(*page.values, id=page.id, marks=() if page.values[0] == README else slow)
        for page in with_some(PAGES, python_blocks)
    ]


def resolve(arguments):
    """Return the command that these words name, its context, and the remaining words."""
    command, context, name = get_command(app), None, "salsa"
    while hasattr(command, "resolve_command") and arguments[0][0] != "-":
        context = command.make_context(name, list(arguments), parent=context)
        name, command, arguments = command.resolve_command(context, arguments)
    return command, context, arguments


@pytest.mark.parametrize("page", python_pages())
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for line, code in python_blocks(page):
        exec(compile("\n" * line + code, page, "exec"), names)
    plt.close("all")


@pytest.mark.parametrize("page", with_some(PAGES, lambda page: commands_of(page, "fence", "code_block")))
def test_command_lines_parse(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in commands_of(page, "fence", "code_block"):
        command, context, rest = resolve(arguments)
        for name in rest:  # files must be there
            if "." in name:
                Path(name).parent.mkdir(exist_ok=True)
                Path(name).touch()
        command.make_context(command.name, rest, parent=context)


@pytest.mark.parametrize("page", with_some(PAGES, lambda page: commands_of(page, "code_inline")))
def test_options_in_the_text_exist(page):
    """Command lines in a sentence may be incomplete, but their options must exist."""
    for arguments in commands_of(page, "code_inline"):
        command, _, rest = resolve(arguments)
        known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
        assert {word for word in rest if word.startswith("--")} <= known


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path):
    for arguments in [["demo"], *commands_of(README, "fence")]:
        if arguments[0] == "reproduce" and "SALSA_DATA" not in os.environ:
            continue  # it would download the data
        done = subprocess.run([COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    assert {"model.salsa", "predictions.csv", "report.html"} <= set(os.listdir(tmp_path))


@pytest.mark.slow
def test_example_for_an_existing_cluster_runs(tmp_path):
    """The gallery does not run this example, whose scheduler is another program."""
    distributed = pytest.importorskip("dask.distributed")
    rng = np.random.default_rng(0)
    for number in range(2):
        table = pd.DataFrame(rng.uniform(-1, 1, (200, 3)), columns=list("abc"))
        y = table["a"] * table["b"] + 0.01 * rng.normal(size=200)
        table.assign(y=y).to_parquet(tmp_path / f"{number}.parquet")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        program = [sys.executable, ROOT / "examples" / "dask_scheduler.py"]
        where = [cluster.scheduler_address, f"{tmp_path}/*.parquet", "y", f"{tmp_path}/model.salsa"]
        subprocess.run([*program, *where], check=True)
    new = pd.DataFrame({"a": [0.5], "b": [0.5], "c": [0.0]})
    assert salsa.load(tmp_path / "model.salsa").predict(new) == pytest.approx(0.25, abs=0.01)
