"""Helpers for tests of the command line: tables, and functions that run the command."""

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

COMMAND = Path(sys.executable).with_name("salsa")
FIT_MIXED = ["--target", "y", "--out", "mixed.salsa", "--order", "2", "--alpha", "0.1", "--relevance", "equal"]


def make_table(n=60, D=4, seed=0):
    """Return features a, b, ... and a target y with an interaction of b and c."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, D)), columns=list("abcdefghijkl"[:D]))
    return X.assign(y=np.sin(3 * X["a"]) + 2 * X["b"] * X["c"] + 0.1 * rng.normal(size=n))


def make_mixed(n=80, seed=0):
    """Return a number, a text category, a category of numbers, a boolean, missing values, and a target y of all."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "colour": rng.choice(["red", "green", "blue"], n)})
    X = X.assign(code=rng.choice([10, 20, 30], n), flag=rng.uniform(size=n) < 0.5)
    y = X["a"] + (X["colour"] == "red") + 2 * (X["code"] == 20) + X["flag"] + 0.1 * rng.normal(size=n)
    X = X.astype({"code": object, "flag": object})
    for j, name in enumerate(X):
        X.loc[rng.choice(n, j, replace=False), name] = None
    return X.assign(y=y)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shell(*arguments, **options):
    """Run the real command."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, timeout=600, check=False, **options)


def on_terminal(*arguments):
    """Run the real command with standard error on a terminal; return standard output and the terminal's text."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = read_terminal(ours)
    return process.communicate(timeout=600)[0].decode(), shown


def read_terminal(descriptor):
    """Return all text written to a terminal until its last writer closes it."""
    shown = b""
    with suppress(OSError):  # Linux raises OSError at the end
        while piece := os.read(descriptor, 2**16):
            shown += piece
    os.close(descriptor)
    return shown.decode()


def interruptible(*arguments):
    """Start the real command so that it receives SIGINT even if the tests run in the background."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from salsa.cli import main; main()"
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=pipe, stdout=pipe, stderr=pipe)


def interrupt(process):
    """Send SIGINT; return exit code, standard output and standard error."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err
