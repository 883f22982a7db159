"""Fits in a few processes, one thread each; the system ends a process whose fit takes too long.

A process ends with the run that started it, however that one ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import SimpleQueue

from salsa.baselines.apart import TIMED_OUT, ending
from salsa.paper.trials import Draw, Job, Row, append_row, measure, mend

PATIENCE = 20  # times the limit, in seconds of the clock: for a fit that waits and takes no CPU time


def run(jobs: Sequence[Job], draw: Draw, path: Path, time_limit: float, n_jobs: int) -> Iterator[Row]:
    """Rows as they come; each is at the end of the file before it is told of.

    draw : ``draw(n, trial)``, which can be pickled; time_limit : CPU seconds of a fit, its tuning and its predictions.
    """
    mend(path)
    for row in _measure_all(jobs, draw, time_limit, min(n_jobs, len(jobs))) if jobs else ():
        append_row(path, row)
        yield row


def _measure_all(jobs: Sequence[Job], draw: Draw, time_limit: float, n_jobs: int) -> Iterator[Row]:
    workers = [_Worker(draw, time_limit) for _ in range(n_jobs)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def one(job: Job) -> Row:
        worker = idle.get()
        try:
            return worker.measure(job)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for done in as_completed([pool.submit(one, job) for job in jobs]):
                yield done.result()
        finally:  # also when the caller is interrupted
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


class _Worker:
    """One job after another in a process; after a job that was too long, the next gets a new process."""

    def __init__(self, draw: Draw, time_limit: float) -> None:
        self._draw, self._time_limit = draw, time_limit
        self._process: SpawnProcess | None = None

    def measure(self, job: Job) -> Row:
        process = self._process = self._process or self._start()
        try:
            self._pipe.send(job)
            if self._pipe.poll(PATIENCE * self._time_limit):
                row: Row = self._pipe.recv()
                return row
            status = TIMED_OUT
        except (EOFError, OSError):
            process.join()
            assert process.exitcode is not None  # it has ended
            status = _ending(process.exitcode)
        self.end()
        return Row(*job, None, None, None, self._time_limit if status == TIMED_OUT else 0.0, status)

    def _start(self) -> SpawnProcess:
        context = multiprocessing.get_context("spawn")  # OpenMP does not survive a fork
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._draw, self._time_limit), daemon=True)
        process.start()
        theirs.close()  # so that its end is seen here
        with suppress(EOFError):  # it died early, as the missing answer will tell
            self._pipe.recv()  # that its packages are imported: time begins
        return process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _ending(code: int) -> str:
    """The status of a job whose process ended without an answer."""
    return TIMED_OUT if code == -signal.SIGPROF else ending(code)


def _serve(pipe: Connection, draw: Draw, time_limit: float) -> None:
    """The other side: until nobody is there to ask. The timer's signal ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            row = measure(pipe.recv(), draw, lambda: _set_timer(time_limit))
            _set_timer(0)
            pipe.send(row)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _set_timer(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
