"""docs/howto/base_kernel.md, followed: its three changes make a copy of this tree know another base kernel."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "howto" / "base_kernel.md"
TREE = ("CMakeLists.txt", "LICENSE", "README.md", "licenses", "pyproject.toml", "src", "tests", "tools")
NAME = "matern72"
PLACES = {"src/cpp/bases.hpp", "src/salsa/kernels/base.py", "tests/naive.py"}
MODULES = ["kernels/test_core", "kernels/test_additive", "kernels/test_missing", "learning/test_learn"]
MODULES += ["solvers/test_random_features", "test_regressor", "explain/test_report"]
TABLES = [
    "tests/kernels/test_core.py::test_base_kernels_equal_the_naive_twins",
    "tests/cli/test_cli_shell.py::TestCompletion",
]

PROGRAM = f"""
import sys
from pathlib import Path

import numpy as np

import salsa
from salsa.explain import write_report

tree = Path(sys.argv[1])
assert Path(salsa.__file__).is_relative_to(tree), salsa.__file__
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (200, 3))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
equal = {{"relevance": "equal", "bandwidth": 3.0, "order": 2, "alpha": 1e-3}}
for options in ({{}}, equal, equal | {{"solver": "features", "rank": 150}}):
    model = salsa.SalsaRegressor(kernel={NAME!r}, random_state=0, **options).fit(X, y)
    assert {{base for term in model.expansion_.kernel.terms for base in term.bases}} == {{{NAME!r}}}, options
    assert model.score(X, y) > 0.95, (options, model.score(X, y))
    model.save(tree / "model.salsa")
    np.testing.assert_array_equal(salsa.load(tree / "model.salsa").predict(X), model.predict(X))
page = write_report(model, tree / "report.html").read_text(encoding="utf-8")
assert '"base":"{NAME}"' in page and "  {NAME}: (t, h) =>" in page and "Matérn 7/2, order" in page
"""


def changes(page: Path) -> list[tuple[str, str, str]]:
    """File, old text and new text of every diff on a page; its first line names the file."""
    diffs = [token.content for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) if token.info == "diff"]
    found = []
    for first, *lines in (diff.splitlines(keepends=True) for diff in diffs):
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        found.append((first.removeprefix("--- ").strip(), old, new))
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what a build and the tests need, without the compiled core, changed as the page says."""
    target = tmp_path_factory.mktemp("tree")
    built = shutil.ignore_patterns("__pycache__", "_core.*.so", "_core.*.pyd")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=built)
        else:
            shutil.copy2(ROOT / name, target / name)
    for name, old, new in changes(PAGE):
        text = (target / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} no longer has the lines that the page changes"
        (target / name).write_text(text.replace(old, new), encoding="utf-8")
    return target


def test_three_files_change(tree):
    copied = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file()]
    _, changed, errors = filecmp.cmpfiles(ROOT, tree, copied, shallow=False)
    assert {Path(name).as_posix() for name in changed} == PLACES
    assert not errors


def test_changed_python_is_formatted(tree):
    files = [name for name in PLACES if name.endswith(".py")]
    run = subprocess.run([sys.executable, "-m", "ruff", "format", "--check", *files], cwd=tree, capture_output=True)
    assert run.returncode == 0, run.stdout


@pytest.mark.slow
def test_the_copy_knows_the_new_kernel(tree):
    """The core is built without AVX, which is quick; tools/rebuilt.py makes an environment with it inside the copy."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command):
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done.stdout

    pytest_ = (sys.executable, "tools/rebuilt.py", "portable", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    passed = re.search(r"(\d+) passed", run(*pytest_, "-k", NAME, *(f"tests/{name}.py" for name in MODULES)))
    assert int(passed[1]) >= 30  # with every base kernel in turn
    python = str(tree / "build" / "portable" / "venv" / "bin" / "python")
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "naive or choices", *TABLES)
    run(python, "-c", PROGRAM, str(tree))
