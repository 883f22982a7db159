"""Experiments of Table 1: data set, method and draw of noise columns give a result, and results give a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from statistics import mode
from typing import Any, NamedTuple, TypedDict

import numpy as np
from sklearn.svm import SVR

from salsa.baselines.processes import OK, failure
from salsa.baselines.registry import RIVALS, make_baseline
from salsa.paper.datasets import DATASETS, load_dataset
from salsa.paper.ledger import Ledger
from salsa.paper.measuring import fit_and_predict
from salsa.paper.protocol import AuthorsProtocol
from salsa.paper.published import published
from salsa.paper.workers import run_apart

NOISE_SEEDS = 5  # draws of the noise columns of airfoil and ccpp, which the authors' program did not keep
NAN = float("nan")

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


class Trial(NamedTuple):
    """One fit of a method to a data set; `seed` draws the noise columns of airfoil and ccpp."""

    dataset: str
    method: str
    protocol: str = "authors"
    seed: int = 0


class Result(NamedTuple):
    """The result of a trial; the first four fields are the trial."""

    dataset: str
    method: str
    protocol: str
    seed: int
    n: int
    D: int
    status: str = OK  # or "timed out", or "failed: " and the reason
    mse: float = NAN  # on the test rows
    order: int | None = None
    seconds: float = NAN  # CPU time of the fit, with all its tuning
    wall_seconds: float = NAN
    limit: float = NAN  # limit of the fit in CPU seconds

    @property
    def job(self) -> Trial:
        return Trial(*self[:4])


class Row(TypedDict):
    """The means of mse and seconds over `seeds` draws of noise columns, the sd of mse, and the most frequent order."""

    dataset: str
    method: str
    protocol: str
    n: int
    D: int
    mse: float
    mse_sd: float
    seeds: int
    order: int | None
    seconds: float
    wall_seconds: float
    status: str
    published_mse: float | None
    published_order: int | None
    published_seconds: float | None
    ratio: float  # mse / published_mse


class Shape(NamedTuple):
    n: int
    D: int
    draws: int  # number of draws of noise columns; 1 without noise columns


def run(dataset: str, method: str, protocol: str = "authors") -> Row:
    """Fit the training rows and return the error on the test rows, over several draws of noise columns if any."""
    return as_row([measure(trial) for trial in plan([dataset], [method], protocol)])


def plan(datasets: Iterable[str], methods: Sequence[str], protocol: str = "authors") -> list[Trial]:
    """Return all trials, the slowest first. Data sets are loaded here, so that a missing one is reported at once."""
    trials = [
        Trial(dataset, method, protocol, seed)
        for dataset in datasets
        for method in methods
        for seed in range(shape(dataset, protocol).draws if method in OURS else 1)
    ]
    return sorted(trials, key=_speed)


def _speed(trial: Trial) -> tuple[int, int]:
    n, D, _ = shape(trial.dataset, trial.protocol)
    return SLOW.index(trial.method) if trial.method in SLOW else len(SLOW), -n * D


@cache
def shape(dataset: str, protocol: str) -> Shape:
    data = load_dataset(dataset, protocol)
    n, D = data.X_train.shape
    return Shape(n, D, NOISE_SEEDS if data.feature_names[-1].startswith("noise_") else 1)


def run_all(
    trials: Sequence[Trial], ledger: Ledger[Result] | None = None, *, limit: float | None = None, jobs: int = 1
) -> Iterator[Result]:
    """Yield results as they finish: first results that the ledger has, then new results, which are added to it.

    limit : CPU seconds that one fit may take, with all its tuning. jobs : number of processes.
    """
    done = [trial for trial in trials if ledger is not None and ledger.is_done(trial, limit)]
    yield from (ledger.results[trial] for trial in done if ledger is not None)
    others = [trial for trial in trials if trial not in set(done)]
    with closing(run_apart(others, measure, blank, limit=limit, n_jobs=jobs)) as results:
        for result in results:
            result = result._replace(limit=NAN if limit is None else limit)
            if ledger is not None:
                ledger.add(result)
            yield result


def blank(trial: Trial, status: str = OK) -> Result:
    """Return a result without numbers."""
    return Result(*trial, *shape(trial.dataset, trial.protocol)[:2], status)


def measure(trial: Trial, *, start_clock: Callable[[], None] = lambda: None) -> Result:
    """Fit and predict one trial; an error becomes the status."""
    data = load_dataset(trial.dataset, trial.protocol, noise_seed=trial.seed)
    try:
        model, mse, seconds, wall = fit_and_predict(METHODS[trial.method], data, start_clock)
    except Exception as error:  # an error in one method must not stop the other methods
        return blank(trial, failure(error))
    order = int(model.order_) if trial.method in OURS else None
    return blank(trial)._replace(mse=mse, order=order, seconds=seconds, wall_seconds=wall)


def as_rows(results: Iterable[Result]) -> list[Row]:
    """Return a row per data set and method, in the order of DATASETS and METHODS; results must have one protocol."""
    groups: dict[tuple[int, int], list[Result]] = {}
    for result in results:
        groups.setdefault((DATASETS.index(result.dataset), list(METHODS).index(result.method)), []).append(result)
    return [as_row(group) for _, group in sorted(groups.items())]


def as_row(results: Sequence[Result]) -> Row:
    """Merge the draws of noise columns of one data set and method; error and times are NaN if a draw failed."""
    first = next((result for result in results if result.status != OK), results[0])
    orders = [result.order for result in results if result.order is not None]
    printed, mse = published(*first.job[:3]), float(np.mean([result.mse for result in results]))
    return Row(
        dataset=first.dataset,
        method=first.method,
        protocol=first.protocol,
        n=first.n,
        D=first.D,
        mse=mse,
        mse_sd=float(np.std([result.mse for result in results])),
        seeds=len(results),
        order=mode(orders) if orders else None,
        seconds=float(np.mean([result.seconds for result in results])),
        wall_seconds=float(np.mean([result.wall_seconds for result in results])),
        status=first.status,
        published_mse=printed.mse,
        published_order=printed.order,
        published_seconds=printed.seconds,
        ratio=NAN if printed.mse is None else mse / printed.mse,
    )
