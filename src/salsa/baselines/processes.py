"""Run functions in separate processes, which can be killed.

A process is a new interpreter: not a fork, which OpenMP and torch do not survive, and not a copy of the caller's main
module. The process reads pickled questions from its input, one after another, and writes pickled messages: READY when
the packages of a question are imported, then the answer; or a text with the reason of a failure. The process ends when
its input is closed, so that it never outlives the caller.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

READY = "ready"
OK, TIMED_OUT = "ok", "timed out"  # a status is one of these, or "failed: " and the reason
LONGEST_REASON = 200
STARTING_SECONDS = 120.0  # limit for a new interpreter to import its packages
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
COMMAND = [sys.executable, "-c", "from salsa.baselines.processes import main; main()"]

Process = subprocess.Popen[bytes]
Question = Callable[[Callable[[], None]], Any]  # it calls its argument when its time begins


def ask_all(
    questions: Sequence[Question], seconds: float | None, n_jobs: int
) -> Generator[tuple[int, Any], None, None]:
    """Yield the number of every question and its answer as it arrives; after a failure, the answer is its status.

    seconds : limit in wall-clock seconds, from when a question's time begins. n_jobs : processes at the same time.
    """
    workers = [Worker() for _ in range(min(n_jobs, len(questions)))]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def ask(number: int) -> tuple[int, Any]:
        worker = idle.get()
        try:
            return number, worker.ask(questions[number], seconds)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(max(1, n_jobs)) as pool:
        try:
            for done in as_completed([pool.submit(ask, number) for number in range(len(questions))]):
                yield done.result()
        finally:  # this also runs if the caller is interrupted
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


def failure(error: Exception) -> str:
    """Return the status of an error: its type and message, on one line of limited length."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"failed: {reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + '…'}"


class EndedError(Exception):
    """A process ended without an answer; the message is the status."""


class Worker:
    """A process that answers one question after another; if it ends, the next question gets a new process."""

    def __init__(self) -> None:
        self._process: Process | None = _start()

    def ask(self, question: Question, seconds: float | None) -> Any:
        try:
            message = _dumps(question)
        except Exception as error:  # an estimator may hold objects that cannot be pickled
            return failure(error)
        process = self._process = self._process or _start()
        try:
            _send(process, message)
            answer = _receive(process, STARTING_SECONDS)
            return _receive(process, seconds) if answer == READY else answer
        except EndedError as ended:
            self.end()
            return str(ended)

    def end(self) -> None:
        """Kill the process and, on POSIX systems, all processes that it started."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            for stream in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):  # messages that it did not read are lost
                    if stream is not None:
                        stream.close()


def _dumps(value: Any) -> bytes:
    """Pickle with cloudpickle (or joblib's copy), which also handles classes defined in a script or a notebook."""
    try:
        import cloudpickle
    except ImportError:
        from joblib.externals import cloudpickle
    message: bytes = cloudpickle.dumps(value)
    return message


def _start() -> Process:
    """Start a process in a new session (on POSIX systems), so that its child processes are killed with it."""
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
    with suppress(BrokenPipeError):  # the process died early; the missing answer will show it
        pickle.dump(message, process.stdin)
        process.stdin.flush()


def _receive(process: Process, seconds: float | None) -> Any:
    """Return the next message; the process is killed after this many seconds (None: never)."""
    assert process.stdout is not None
    late = threading.Event()

    def too_late() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(seconds or 0.0, too_late)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        raise EndedError(TIMED_OUT if late.is_set() else _ending(process.wait())) from None
    finally:
        timer.cancel()


def _ending(code: int) -> str:
    """Return the status of a process that ended without an answer."""
    if -code == getattr(signal, "SIGPROF", None):  # the signal of a limit in CPU seconds
        return TIMED_OUT
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"failed: its process ended without an answer ({how})"


def _kill(process: Process) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    process.wait()


def main() -> None:
    """Answer the questions of a ``Worker``: the program of its process."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a method must not mix with the messages
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(messages,), daemon=True).start()
    while True:
        _say(channel, _answer(messages.get(), channel))


def _listen(messages: SimpleQueue[bytes]) -> None:
    """Queue the questions from standard input; end this process when the input is closed."""
    with suppress(EOFError):
        while True:
            messages.put(pickle.load(sys.stdin.buffer))
    os._exit(1)


def _answer(message: bytes, channel: IO[bytes]) -> Any:
    try:
        question: Question = pickle.loads(message)
        return question(lambda: _say(channel, READY))
    except Exception as error:  # e.g. a missing package, or an estimator that cannot be unpickled
        return failure(error)


def _say(channel: IO[bytes], message: Any) -> None:
    pickle.dump(message, channel)
    channel.flush()
