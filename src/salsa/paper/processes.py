"""Trials in processes of their own, one thread each, which the system ends when their time is over.

Only names go to a process, and one line of numbers comes back. It ends when its input does, so that none outlives
the run that started it, however that one ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

from salsa.baselines.apart import ONE_THREAD, TIMED_OUT, end_with_input, ending
from salsa.paper.ledger import Ledger
from salsa.paper.runner import Result, Trial, blank, measure

PATIENCE = 20  # times the limit, in seconds of the clock: for a fit that waits and takes no CPU time
COMMAND = [sys.executable, "-c", "from salsa.paper.processes import main; main()"]

Process = subprocess.Popen[bytes]


def run_all(
    trials: Sequence[Trial], ledger: Ledger | None = None, *, limit: float | None = None, jobs: int = 1
) -> Iterator[Result]:
    """Results as they come: at once those that the ledger has, then the others, which are written there.

    limit : CPU seconds that one fit may take, with all its tuning. jobs : processes at the same time.
    """
    done = [trial for trial in trials if ledger is not None and ledger.is_done(trial, limit)]
    yield from (ledger.results[trial] for trial in done if ledger is not None)
    with closing(_run_apart([trial for trial in trials if trial not in set(done)], limit, jobs)) as results:
        for result in results:
            if ledger is not None:
                ledger.add(result)
            yield result


def _run_apart(trials: Sequence[Trial], limit: float | None, jobs: int) -> Generator[Result]:
    running: set[Process] = set()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for job in as_completed([pool.submit(_apart, trial, limit, running) for trial in trials]):
                yield job.result()
        finally:  # also when we are interrupted
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.kill()


def _apart(trial: Trial, limit: float | None, running: set[Process]) -> Result:
    """``measure`` in a process of its own; it stands in `running` meanwhile."""
    command = [*COMMAND, json.dumps([*trial]), json.dumps(limit)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # never written to: it closes when this process ends
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | ONE_THREAD,
    ) as process:
        running.add(process)
        assert process.stdout is not None
        answer = process.stdout.read()
        code = process.wait()
        running.discard(process)
    result = Result(*json.loads(answer)) if answer.endswith(b"\n") else blank(trial)._replace(status=_ending(code))
    return result._replace(limit=float("nan") if limit is None else limit)


def _ending(code: int) -> str:
    """The status of a process that ended without an answer."""
    return TIMED_OUT if -code in (signal.SIGPROF, signal.SIGALRM) else ending(code)


def main() -> None:
    """The other side of ``_apart``."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a method prints is not an answer
    threading.Thread(target=end_with_input, daemon=True).start()
    trial, limit = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    channel.write(json.dumps(measure(Trial(*trial), _clock(limit))) + "\n")
    channel.flush()


def _clock(limit: float | None) -> Callable[[], None]:
    """Starts the timers whose signals end this process."""

    def begin() -> None:
        if limit is not None:
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE * limit)

    return begin
