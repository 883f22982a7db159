"""Run fits in several processes, one thread each; the system kills a process whose fit takes too long."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol, TypeVar

from salsa.baselines.processes import ask_all

PATIENCE = 20  # wall-clock limit over CPU limit, for a fit that waits and takes no CPU time

J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Measure(Protocol[J_contra, R_co]):
    """A function job -> result that can be pickled; it calls `start_clock` right before the fit."""

    def __call__(self, job: J_contra, /, *, start_clock: Callable[[], None]) -> R_co: ...


def run_apart(
    jobs: Sequence[J],
    measure: Measure[J, R],
    without_answer: Callable[[J, str], R],
    *,
    limit: float | None,
    n_jobs: int,
) -> Generator[R, None, None]:
    """Yield results as they finish.

    without_answer : job and status -> result, if the process gave none. limit : CPU seconds from `start_clock` on.
    """
    questions = [partial(_limited, measure, job, limit) for job in jobs]
    with closing(ask_all(questions, None if limit is None else PATIENCE * limit, n_jobs)) as answers:
        for number, answer in answers:
            yield without_answer(jobs[number], answer) if isinstance(answer, str) else answer


def _limited(measure: Measure[J, R], job: J, limit: float | None, begin: Callable[[], None]) -> Any:
    """Measure a job in the worker process, which a timer signal ends after `limit` CPU seconds."""

    def start_clock() -> None:
        signal.setitimer(signal.ITIMER_PROF, limit or 0.0)
        begin()

    result = measure(job, start_clock=start_clock)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    return result
