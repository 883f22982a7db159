"""Virtual environments under build/ that see the packages of this one, but hold a salsa of their own.

`instrumented("sanitize")` is an editable install whose compiled core was built to look for mistakes; the usual install
is not touched.
"""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Whatever calls the core at every instruction set, and what builds on it closely.
CORE_TESTS = [
    "tests/kernels/test_core.py",
    "tests/kernels/test_core_input.py",
    "tests/kernels/test_additive.py",
    "tests/kernels/test_missing.py",
    "tests/learning/test_learn.py::TestPosterior",
    "tests/explain/test_anova.py::TestCompiled",
    "tests/explain/test_shapley.py::TestCompiled",
    "tests/explain/test_sum_explanations.py::TestCompiled",
    "--deselect=tests/kernels/test_core.py::test_peak_memory_is_that_of_the_result",  # instruments need memory too
]

# What a kind of build tells CMake. Debug builds keep assertions and symbols; CMakeLists.txt sets the optimisation.
KINDS = {
    "plain": [],
    "portable": ["define.SALSA_X86=OFF"],  # as other processors get it
    "sanitize": ["build-type=Debug", "define.SALSA_SANITIZE=address,undefined"],
    "memcheck": ["build-type=Debug"],
    "coverage": ["build-type=Debug", "define.SALSA_COVERAGE=ON"],
}


def environment(folder: Path, *first: Path) -> Path:
    """The Python of a virtual environment that looks into the folders `first`, then where this one finds packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    Path(found.stdout.strip(), "shared.pth").write_text("\n".join([*map(str, first), *packages]) + "\n")
    return python


def instrumented(kind: str) -> Path:
    """The Python of build/KIND, in which `import salsa` finds this tree with a core built that way."""
    folder = ROOT / "build" / kind
    python = environment(folder / "venv")
    isolated = not all(importlib.util.find_spec(name) for name in ("scikit_build_core", "nanobind"))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--ignore-installed"]
        + ([] if isolated else ["--no-build-isolation"])
        + [f"--config-settings=build-dir={folder / 'cmake'}"]
        + [f"--config-settings=cmake.{setting}" for setting in KINDS[kind]]
        + ["--editable", str(ROOT)],
        check=True,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    return python
