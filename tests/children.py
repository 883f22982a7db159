"""Python in separate processes with a time limit, for code that could hang, leak, or be interrupted.

The limits end processes that hang; no machine is slow or busy enough to reach them otherwise.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from salsa import SalsaRegressor

TESTS = Path(__file__).parent
PYTHON = (sys.executable, "-c")


def environment(**changes):
    """Return the environment of this process, with the tests on the path; a change of None removes a variable."""
    paths = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    names = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"} | changes
    return {name: value for name, value in names.items() if value is not None}


def run(code, timeout=600, **changes):
    """Return the standard output of the code; raise AssertionError with its errors if it fails or takes too long."""
    command = subprocess.Popen(
        (*PYTHON, code),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**changes),
        start_new_session=True,
    )
    try:
        out, err = command.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, 9)
        out, err = command.communicate()
        raise AssertionError(f"not done in {timeout} s: {out}{err}") from None
    assert command.returncode == 0, out + err
    return out


def never_ending(method, body):
    """Return a command for ``baselines.processes`` whose fits of this class never end: they repeat the body."""
    module, name = method.rsplit(".", 1)
    patch = f"import time; from {module} import {name} as method\ndef fit(self, X, y):\n    while True: {body}\n"
    return [sys.executable, "-c", f"{patch}method.fit = fit\nfrom salsa.baselines.processes import main; main()"]


def table(n=600, D=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def fitted(seed=0, n_jobs=None, n=600):
    """Fit enough rows for two threads in the kernel matrix; an eigen-decomposition chooses alpha."""
    return SalsaRegressor(2, relevance="equal", random_state=0, n_jobs=n_jobs).fit(*table(n, seed=seed))


def answers(model):
    """Return a digest of all bits of the predictions, intervals and leave-one-out predictions of a model."""
    X, _ = table(500, seed=99)
    parts = (model.predict(X), model.predict_interval(X), model.leave_one_out().prediction)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def bits(seed=0, n_jobs=None):
    return answers(fitted(seed, n_jobs))


def thread_count():
    """Return the number of threads of this process, as the system counts them."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("Threads:")[1].split()[0])


def bits_and_new_threads(seed=0, n_jobs=None):
    """Return the bits of a fit, and how many threads it left behind."""
    answers(fitted(n=60))  # BLAS, which starts threads of its own after a fork, has them now
    before = thread_count()
    model = fitted(seed, n_jobs)
    model.predict(table(500, seed=99)[0])
    new = thread_count() - before
    return answers(model), new


def seconds_of_other_threads(n_jobs=None):
    """Return the CPU seconds that all threads but the caller's take in a fit, its predictions and intervals."""
    everything, own = time.process_time(), time.thread_time()
    bits(n_jobs=n_jobs)
    return time.process_time() - everything - (time.thread_time() - own)
