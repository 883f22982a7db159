"""docs/howto/solver.md and docs/howto/loss.md, followed: their changes to a copy of the package work as they show."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from test_howto import changes

from salsa import _core

ROOT = Path(__file__).parent.parent
PLACES = {
    "solver": {"src/salsa/solvers/__init__.py", "src/salsa/solvers/subset.py"},
    "loss": {"src/salsa/losses.py", "src/salsa/options.py"},
}

PROGRAM = """
import doctest
import sys
from pathlib import Path

sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]  # of `pip -e`
import salsa

assert Path(salsa.__file__).is_relative_to(Path.cwd()), salsa.__file__
result = doctest.testfile("example.txt", module_relative=False)
assert result.attempted > 5, result
sys.exit(result.failed)
"""


def page_of(name: str) -> Path:
    return ROOT / "docs" / "howto" / f"{name}.md"


def blocks(page: Path, language: str) -> list[str]:
    return [token.content for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) if token.info == language]


def new_files(page: Path) -> dict[str, str]:
    """Return path and text of the files that a page adds; the first line of such a block is a comment with the path."""
    found = [re.match(r"# (src/\S+)\n", block) for block in blocks(page, "python")]
    return {match[1]: match.string[match.end() :] for match in found if match}


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")}


@pytest.fixture(scope="module", params=PLACES)
def followed(request, tmp_path_factory):
    """Return the name of a page, and a copy of the package with the core, changed as the page says."""
    page, tree = page_of(request.param), tmp_path_factory.mktemp(request.param)
    shutil.copytree(ROOT / "src" / "salsa", tree / "src" / "salsa", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(_core.__file__, tree / "src" / "salsa")
    shutil.copy2(ROOT / "pyproject.toml", tree)
    for name, text in new_files(page).items():
        assert not (tree / name).exists(), f"{name} is in the package already"
        (tree / name).write_text(text, encoding="utf-8")
    for name, old, new in changes(page):
        text = (tree / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} no longer has the lines that the page changes"
        (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    return request.param, tree


def test_only_the_named_files_change(followed):
    name, tree = followed
    before, after = files_below(ROOT / "src"), files_below(tree / "src")
    assert {f"src/{path}" for path in after if before.get(path) != after[path]} == PLACES[name]
    assert set(before) <= set(after)
    assert all(place in page_of(name).read_text(encoding="utf-8") for place in PLACES[name])


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_changed_files_pass_ruff(followed, command):
    name, tree = followed
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache", *PLACES[name]], cwd=tree, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_example_gives_what_the_page_shows(followed):
    name, tree = followed
    (tree / "example.txt").write_text("\n".join(blocks(page_of(name), "pycon")), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tree, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
