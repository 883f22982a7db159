"""Memory, open files and threads do not grow with the number of fits."""

import json
import subprocess
import sys

import pytest
from children import TESTS, environment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
BOUND = 2e6  # bytes, after a warm-up; one kernel matrix kept of each of 100 fits would be 6e6


@pytest.mark.parametrize("fits", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_fits_leave_nothing_behind(fits):
    command = [sys.executable, TESTS / "leaks.py", str(fits)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    grown = json.loads(done.stdout)
    assert grown.pop("bytes") < BOUND
    assert grown == {"files": 0, "threads": 0}
