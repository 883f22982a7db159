"""Threads yield to busy programs; tools/busy.py passes the exit code on and leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
BUSY = [sys.executable, Path(__file__).parent.parent / "tools" / "busy.py"]


def loops(pid):
    """The busy processes that this one has started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"\0{pid}\0".encode() in (path / "cmdline").read_bytes()
            found += [path] if mine and " Z " not in (path / "stat").read_text() else []
        except OSError:  # it is over
            continue
    return found


def test_the_exit_code_is_that_of_the_command():
    assert subprocess.run([*BUSY, sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_loops_run_beside_the_command_and_end_with_it(number):
    command = [*BUSY, sys.executable, "-c", "print('begun', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        assert len(loops(process.pid)) == len(os.sched_getaffinity(0))
        process.send_signal(number)
    deadline = time.monotonic() + 600
    while loops(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert loops(process.pid) == []


def test_threads_beside_busy_programs_take_the_cpu_seconds_of_one_thread():
    """Threads that wait must sleep: those that spin took three times the CPU seconds of one thread here."""
    code = (
        "import time, numpy as np; from salsa import AdditiveKernel\n"
        "kernel = AdditiveKernel(np.ones(20), np.ones(20), np.ones(4))\n"
        "X = np.random.default_rng(0).normal(size=(400, 20))\n"
        "def seconds(threads):\n"
        "    start = time.process_time()\n"
        "    for _ in range(50): kernel(X, n_threads=threads)\n"
        "    return time.process_time() - start\n"
        "print(min(seconds(2) for _ in range(3)) / min(seconds(1) for _ in range(3)))"
    )
    done = subprocess.run([*BUSY, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.5
