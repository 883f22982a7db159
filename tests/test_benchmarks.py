"""Every benchmark runs, at its tiny size: the code that it calls is still there, and it prints figures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"conditions", "judged", "tables"})

pytestmark = [  # all together take a minute and a half; `make bench-tiny` runs them
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="benchmarks read CPU time and memory as on Linux"),
]


def files():
    return {path for path in FOLDER.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_tiny_run_prints_figures_and_writes_no_file(name, tmp_path):
    before = files()
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--tiny"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr  # of a process that the benchmark has started
    assert re.search(r"\d\.\d", done.stdout), done.stdout
    assert files() == before
    assert not any(tmp_path.iterdir())
