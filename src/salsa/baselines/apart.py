"""Methods in processes of their own, which can be ended.

A process is a new interpreter: not a fork, which OpenMP and torch do not survive, and not a copy of the caller's main
module. It reads one pickled task from its input and writes pickled messages: READY when its packages are imported, then
what it measured; or a text that says why it cannot. It ends when its input does, so that it never outlives the caller.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any

from salsa.baselines.trial import Measured, Task, failure, run

READY, TIMED_OUT = "ready", "timed out"
STARTING_SECONDS = 120.0  # for a new interpreter to import its packages
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
COMMAND = [sys.executable, "-c", "from salsa.baselines.apart import main; main()"]

Process = subprocess.Popen[bytes]


def run_all(tasks: Sequence[Task], time_limit: float | None, n_jobs: int) -> Iterator[Measured]:
    """Every task as it finishes; in this process if one runs at a time and may take as long as it likes."""
    if time_limit is None and n_jobs == 1:
        yield from map(run, tasks)
        return
    running: set[Process] = set()
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for job in as_completed([pool.submit(run_apart, task, time_limit, running) for task in tasks]):
                yield job.result()
        finally:  # also when the caller is interrupted
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                _end(process)


def run_apart(task: Task, time_limit: float | None, running: set[Process]) -> Measured:
    """``run`` in a process of its own, which is ended when its time is over; it stands in `running` meanwhile."""
    name = task.method.name
    try:
        message = _dumps(task)
    except Exception as error:  # an estimator may hold anything
        return Measured(name, failure(error))
    process = _start()
    running.add(process)
    try:
        _send(process, message)
        answer = _receive(process, STARTING_SECONDS)
        if answer == READY:
            answer = _receive(process, time_limit)
        return answer if isinstance(answer, Measured) else Measured(name, str(answer))
    finally:
        _end(process)
        _close(process)
        running.discard(process)


def _dumps(value: Any) -> bytes:
    """By cloudpickle, which knows what a script or a notebook defines; joblib has or brings it."""
    try:
        import cloudpickle
    except ImportError:
        from joblib.externals import cloudpickle
    message: bytes = cloudpickle.dumps(value)
    return message


def _start() -> Process:
    """In a session of its own, where there are such: what it starts is ended with it."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": paths},
    )


def _send(process: Process, message: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it died early, as the missing answer will tell
        process.stdin.write(message)
        process.stdin.flush()


def _receive(process: Process, seconds: float | None) -> Any:
    """The next message; a text that says why if there is none. The process is ended when these seconds are over."""
    assert process.stdout is not None
    late = threading.Event()

    def too_late() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(seconds or 0.0, too_late)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        return TIMED_OUT if late.is_set() else ending(process.wait())
    finally:
        timer.cancel()


def ending(code: int) -> str:
    """The status of what a process was asked for that ended without an answer."""
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"failed: its process ended without an answer ({how})"


def _end(process: Process) -> None:
    """The process and all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    process.wait()


def _close(process: Process) -> None:
    for stream in (process.stdin, process.stdout):
        with suppress(BrokenPipeError):  # what it did not read is lost
            if stream is not None:
                stream.close()


def main() -> None:
    """The other side of ``run_apart``."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints is not a message
    task = _task(channel)
    if task is not None:
        _say(channel, READY)
        _say(channel, run(task))


def _task(channel: Any) -> Task | None:
    """The task from the input, with all its packages imported; None if that fails, and the other side is told."""
    try:
        task: Task = pickle.load(sys.stdin.buffer)
        threading.Thread(target=end_with_input, daemon=True).start()
        task.method.make()
    except Exception as error:  # a package that is missing, an estimator that cannot be unpickled
        _say(channel, failure(error))
        return None
    return task


def _say(channel: Any, message: Any) -> None:
    pickle.dump(message, channel)
    channel.flush()


def end_with_input() -> None:
    """End this process when the one that started it does, however that one ends."""
    while os.read(0, 1):
        pass
    os._exit(1)
