"""Ctrl-C in every long phase ends it soon and cleanly, and the estimator stays as it was; docs/proofs.md has numbers.

Other commands are interrupted in tests/cli and tests/paper/test_figures.py.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from children import PYTHON, TESTS, bits, environment, table
from cli.command import contents
from conftest import needs_data

LIMIT = 5.0  # CPU seconds from the signal to the exception; a quarter of one is usual, and a slow machine is no mistake
PHASES = (
    *(
        "race",
        "kernel",
        "blocks",
        "order",
        "exact",
        "lowrank",
        "scores",
        "pcg",
        "tiles",
        "anchors",
        "whole",
        "scales",
        "eigen",
        "divide",
        "features",
        "sweep",
        "predict",
    ),
    *("uncertainty", "interval", "sobol", "shapley", "report"),
)


def interruptions(*names):
    """Return the rows that interruptions.py prints, by phase."""
    command = [sys.executable, TESTS / "interruptions.py", *names]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    return {row.pop("phase"): row for row in map(json.loads, done.stdout.splitlines())}


def test_every_phase_ends_soon_and_cleanly():
    rows = interruptions()
    assert rows.pop("afterwards")["bits"] == bits()
    assert set(rows) == set(PHASES)
    assert {phase: row["hit"] for phase, row in rows.items()} == dict.fromkeys(PHASES, True)
    assert max((row["seconds"], phase) for phase, row in rows.items()) < (LIMIT,)
    left = [(row["unchanged"], row["files"], row["blas"], row["python_threads"]) for row in rows.values()]
    assert left == [(True, [], 0, 1)] * len(PHASES)


@pytest.mark.slow
def test_a_fit_on_a_cluster_ends_soon():
    row = interruptions("dask")["dask"]
    assert row["seconds"] < LIMIT
    assert (row["hit"], row["unchanged"]) == (True, True)


def running(mark):
    """Return the processes that have this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it is over, or not ours
            continue
    return found


class TestCommandLine:
    BEGUN = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import {module} as module; from unittest import mock; from salsa.cli import main\n"
        "phase = module.{function}\n"
        "def watched(*arguments, **options):\n"
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    return phase(*arguments, **options)\n"
        "module.{function} = watched\n"
        "main()"
    )

    def interrupt(self, module, function, delay, *arguments):
        """Return exit code, output and errors."""
        mark = secrets.token_hex(16)
        code = self.BEGUN.format(module=module, function=function)
        pipe = subprocess.PIPE
        process = subprocess.Popen((*PYTHON, code, *arguments), stdout=pipe, stderr=pipe, env=environment(MARK=mark))
        assert process.stderr.readline() == b"begun\n"
        time.sleep(delay)
        assert process.poll() is None, "it was over before the signal"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=600)
        assert running(mark) == []
        return process.returncode, out, err

    def test_salsa_fit_from_chunks_ends_soon_and_leaves_no_files(self, tmp_path, monkeypatch):
        X, y = table(60_000)
        rows = (",".join(map("{:.6g}".format, row)) for row in np.column_stack([X, y]))
        (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,f,y", *rows]), encoding="ascii")
        monkeypatch.chdir(tmp_path)
        before = contents(tmp_path)
        arguments = ("fit", "t.csv", "--target", "y", "--out", "m.salsa", "--memory", "15MB", "--rank", "20")
        code, understood, errors = self.interrupt("salsa.fitting", "survey", 0.01, *arguments)
        assert (code, errors) == (130, b"salsa: interrupted\n")
        assert understood.endswith(b"\n\n")  # the table of columns, and nothing after it
        assert contents(tmp_path) == before

    @needs_data
    @pytest.mark.slow
    def test_salsa_reproduce_ends_soon_and_leaves_no_files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        arguments = ("reproduce", "table1", "--methods", "salsa", "--datasets", "galaxy,housing", "--jobs", "2")
        ended = self.interrupt("salsa.paper.experiments", "run_apart", 4.0, *arguments)
        assert ended == (130, b"", b"salsa: interrupted\n")
        assert contents(tmp_path) == {}
