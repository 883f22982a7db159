"""Experiments of the paper: the jobs of Table 1, the measurement of one job, and runs of many jobs in processes."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits

from salsa.baselines.processes import OK, TIMED_OUT, ask_all, failure
from salsa.baselines.registry import RIVALS, make_baseline
from salsa.paper.datasets import Dataset, load_dataset
from salsa.paper.functions import Sample
from salsa.paper.ledger import NAN, Job, Ledger, Row
from salsa.paper.protocol import AuthorsProtocol

Measure = Callable[..., Row]  # ``measure`` of job and start_clock, with the other arguments filled in

NOISE_SEEDS = 5  # draws of the noise columns of airfoil and ccpp, which the authors' program did not keep
PATIENCE = 20  # wall-clock limit over CPU limit, for a fit that waits and takes no CPU time

#: The 21 alternatives of the paper.
PAPER_RIVALS = tuple(rival.name for rival in RIVALS.values() if rival.in_paper and not rival.ours)
#: Functions that make an estimator. "salsa" is the authors' program, "salsa-5fold" their program with all five folds,
#: "salsa-learned" this package with default parameters. "svr-eps-untuned" has LIBSVM's default C and gamma and a tube
#: of one standard deviation of the target, which gives about the published errors of epsilon-SVR.
METHODS: dict[str, Callable[[], Any]] = {
    "salsa": AuthorsProtocol,
    "salsa-5fold": lambda: AuthorsProtocol(folds_used=5),
    "salsa-learned": partial(make_baseline, "salsa"),
    "svr-eps-untuned": partial(SVR, C=1.0, gamma="auto", epsilon=1.0),
    **{name: partial(make_baseline, name) for name in PAPER_RIVALS},
}
OURS = ("salsa", "salsa-5fold", "salsa-learned")  # methods that choose an order and get several draws of noise columns
EVERY = ("salsa", "salsa-learned", *PAPER_RIVALS)  # the methods that "all" stands for
# The slowest methods come first, so that no long fit is left over when all others are done.
SLOW = ("additive-gp", "lq", "mars", "cosso", "spam", "svr-nu", "svr-eps", "gbrt", "salsa-learned", "krr", "gp")


def plan(datasets: Iterable[str], methods: Sequence[str], protocol: str = "authors") -> list[Job]:
    """Return all jobs, the slowest first. Data sets are loaded here, so that a missing one is reported at once."""
    jobs = []
    for dataset in datasets:
        n, D, draws = _shape(dataset, protocol)
        seeds = {method: range(draws if method in OURS else 1) for method in methods}
        jobs += [Job(dataset, method, protocol, seed, n, D) for method in methods for seed in seeds[method]]
    return sorted(jobs, key=_speed)


def _speed(job: Job) -> tuple[int, int]:
    return SLOW.index(job.method) if job.method in SLOW else len(SLOW), -job.n * job.D


@cache
def _shape(dataset: str, protocol: str) -> tuple[int, int, int]:
    """Return n, D and the number of draws of noise columns, which is 1 without noise columns."""
    data = load_dataset(dataset, protocol)
    return *data.X_train.shape, NOISE_SEEDS if data.feature_names[-1].startswith("noise_") else 1


def measure(
    job: Job,
    load: Callable[[Job], Dataset | Sample],
    make: Callable[[str], Any],
    *,
    start_clock: Callable[[], None] = lambda: None,
) -> Row:
    """Fit the training rows that `load` gives, on one thread, and predict the test rows.

    make : name of a method -> estimator, whose errors become the status. `start_clock` is called after all imports.
    """
    data = load(job)
    try:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            model = make(job.method)
            start_clock()
            cpu, wall = time.process_time(), time.perf_counter()
            model.fit(data.X_train, data.y_train)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            mse = float(np.mean((np.ravel(model.predict(data.X_test)) - data.y_test) ** 2))
        if not np.isfinite(mse):
            raise ValueError(f"the mean squared error is {mse}")
    except Exception as error:  # an error in one method must not stop the other methods
        return Row(*job, failure(error))
    order = getattr(model, "order_", None)
    return Row(*job, OK, mse, None if order is None else int(order), cpu, wall, variance=float(np.var(data.y_test)))


def _released(job: Job) -> Dataset:
    return load_dataset(job.dataset, job.protocol, noise_seed=job.seed)


def _method(name: str) -> Any:
    return METHODS[name]()


#: The measurement of a job of Table 1.
measure_table1 = partial(measure, load=_released, make=_method)


def run_all(
    jobs: Sequence[Job], measured: Measure, ledger: Ledger | None = None, *, limit: float | None = None, n_jobs: int = 1
) -> Generator[Row, None, None]:
    """Yield rows as they finish: first rows that the ledger has, then new rows, which are added to it.

    limit : CPU seconds that one fit may take, with all its tuning. n_jobs : number of processes.
    """
    known = {} if ledger is None else {job: ledger.rows[job] for job in jobs if ledger.is_done(job, limit)}
    yield from known.values()
    with closing(run_apart([job for job in jobs if job not in known], measured, limit, n_jobs)) as rows:
        for row in rows:
            if ledger is not None:
                ledger.add(row)
            yield row


def run_apart(jobs: Sequence[Job], measured: Measure, limit: float | None, n_jobs: int) -> Generator[Row, None, None]:
    """Yield rows from several processes of one thread each; the system kills a process whose fit takes too long."""
    questions = [partial(_limited, measured, job, limit) for job in jobs]
    most = NAN if limit is None else limit
    with closing(ask_all(questions, None if limit is None else PATIENCE * limit, n_jobs)) as answers:
        for number, answer in answers:
            if isinstance(answer, str):
                answer = Row(*jobs[number], answer, seconds=most if answer == TIMED_OUT else NAN)
            yield answer._replace(limit=most)


def _limited(measured: Measure, job: Job, limit: float | None, begin: Callable[[], None]) -> Row:
    """Measure a job in the worker process, which a timer signal ends after `limit` CPU seconds."""

    def start_clock() -> None:
        _end_after(limit or 0.0)
        begin()

    row = measured(job, start_clock=start_clock)
    _end_after(0.0)
    return row


def _end_after(seconds: float) -> None:
    """End this process after so many CPU seconds, 0: never. Windows lacks this timer: there the wall clock ends it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
