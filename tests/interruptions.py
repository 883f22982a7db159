"""A program that interrupts every long phase and prints a line of JSON for each; test_interrupt.py judges the lines.

A thread sends the signal to the main thread, as Ctrl-C does, some time after the phase has begun. The traceback of the
KeyboardInterrupt shows whether the phase was hit.
"""

import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from children import bits, table, thread_count

import salsa._utils.blas
import salsa._utils.linalg
import salsa.expansion
import salsa.explain.anova
import salsa.explain.report.write
import salsa.explain.shapley
import salsa.regressor
import salsa.selection.order
import salsa.selection.plan
import salsa.solvers.divide
import salsa.solvers.exact
import salsa.solvers.lowrank
import salsa.solvers.pcg
import salsa.solvers.random_features
import salsa.uncertainty.jackknife
from salsa import AdditiveKernel, SalsaRegressor, explain

salsa.selection.many_rows.ROWS = (200, 300)  # rows of the steps before blocks, which are reached sooner

GIVEN = {"order": 2, "alpha": 0.1, "relevance": "equal", "random_state": 0}  # nothing to search


def interrupted(holder, name, delay, action):
    """Return the CPU seconds from the signal to the exception (None without one), and whether it hit the phase."""
    phase, sent = getattr(holder, name), []

    def strike():
        time.sleep(delay)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    def watched(*arguments, **options):
        if not sent and not striker.is_alive():
            striker.start()
        return phase(*arguments, **options)

    striker = threading.Thread(target=strike, daemon=True)
    with mock.patch.object(holder, name, watched):
        try:
            action()
        except KeyboardInterrupt as error:
            seconds = time.process_time() - sent[0]
            striker.join()
            return seconds, any(frame.name == "watched" for frame in traceback.extract_tb(error.__traceback__))
    if striker.is_alive():  # the phase was over before the signal, which must not strike the next one
        with suppress(KeyboardInterrupt):
            striker.join()
            time.sleep(1)
    return None, False


def threads_left():
    """Return how many threads stay: one that was interrupted, or about to start, ends by itself after its work."""
    deadline = time.monotonic() + 60
    while (left := python_threads()) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def python_threads():
    """Count threads that run. Python also lists threads that an interruption has kept from being started, for ever."""
    return sum(thread.ident is not None for thread in threading.enumerate())


def fitting(n, **parameters):
    """Return an estimator that is fitted already and must stay so, and the fit that is interrupted."""
    model = SalsaRegressor(**GIVEN).fit(*table(50, D=3, seed=7))
    model.set_params(**parameters)
    return SimpleNamespace(model=model, action=lambda: model.fit(*table(n)))


def using(model, action):
    return SimpleNamespace(model=model, action=action)


def phases(folder):
    """Return by name: the holder of the phase's function, its name, seconds until the signal, and the action."""
    small, large = SalsaRegressor(**GIVEN).fit(*table(400)), SalsaRegressor(**GIVEN).fit(*table(1500))
    small.leave_one_out()  # prepares intervals
    cubic = SalsaRegressor(**GIVEN | {"order": 4}).fit(*table(1500))
    many = np.random.default_rng(0).normal(size=(1_000_000, 6))
    kernel, pair = small.expansion_.kernel, (many[:60_000], np.ones(60_000))
    learned = {"relevance": "learned", "order": "auto", "alpha": "auto"}
    plan, order, anova = salsa.selection.plan, salsa.selection.order, salsa.explain.anova
    solvers, jackknife, values = salsa.solvers, salsa.uncertainty.jackknife, sys.modules["salsa.explain.shapley"]
    return {
        "race": (plan, "race", 0.1, fitting(600, **learned)),
        "kernel": (plan, "finish", 0.05, fitting(600, **learned, verbose=0)),
        "blocks": (salsa.selection.many_rows, "settle", 1.0, fitting(3500, **learned, solver="lowrank", rank=50)),
        "order": (order, "search_order", 0.1, fitting(800, order="auto", alpha="auto")),
        "exact": (solvers.exact, "solve_once", 0.02, fitting(2500)),
        "lowrank": (solvers.lowrank, "fit_ridge", 0.1, fitting(100_000, solver="lowrank", rank=200)),
        "scores": (solvers.lowrank, "uncertainty_of", 0.05, fitting(20_000, solver="lowrank", rank=200)),
        "pcg": (solvers.pcg, "solve_systems", 0.1, fitting(30_000, solver="pcg", rank=50)),
        "tiles": (solvers.pcg, "KernelTiles", 0.1, fitting(30_000, solver="pcg", rank=50)),
        "anchors": (
            solvers.pcg,
            "pivoted_cholesky",
            0.3,
            fitting(20_000, solver="pcg", order=4, alpha=1e-6, rank=1000),
        ),
        "whole": (solvers.pcg.ExactFits, "whole", 0.05, fitting(8000, solver="pcg", rank=50)),
        "scales": (solvers.pcg, "learn_iterated", 0.05, fitting(20_000, solver="pcg", rank=300)),
        "eigen": (salsa._utils.linalg, "eigen", 0.1, fitting(1500, order=3, alpha="auto")),
        "divide": (solvers.divide, "divided_path", 0.1, fitting(10_000, solver="divide", rank=500)),
        "features": (solvers.random_features, "fit_ridge", 0.1, fitting(60_000, solver="features", rank=200)),
        "sweep": (AdditiveKernel, "product", 0.1, using(small, lambda: kernel.product(many[:60_000], *pair))),
        "predict": (salsa.expansion.KernelExpansion, "predict", 0.1, using(small, lambda: small.predict(many))),
        "uncertainty": (jackknife, "learn_jackknife", 0.02, using(large, large.leave_one_out)),
        "interval": (SalsaRegressor, "predict_interval", 0.1, using(small, lambda: small.predict_interval(many))),
        "sobol": (anova, "effect_variances", 0.03, using(cubic, lambda: explain.decompose(cubic).sobol())),
        "shapley": (
            values,
            "kernel_shapley",
            0.1,
            using(small, lambda: explain.shapley(small, many)),
        ),
        "report": (
            salsa.explain.report.write,
            "report_payload",
            0.05,
            using(small, lambda: explain.write_report(small, folder / "report.html")),
        ),
    }


def on_a_cluster():
    """Return the phase of a fit to Dask arrays, whose sums the workers add up."""
    import dask.array as da
    from dask.distributed import Client

    from salsa.data.dask_rows import ClusterRows
    from salsa.distributed import DaskSalsaRegressor

    client = Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0")
    model = DaskSalsaRegressor(client, **GIVEN, rank=200).fit(*table(50, D=3, seed=7))
    X, y = (da.from_array(part, chunks=(10_000, *part.shape[1:])) for part in table(200_000))
    return ClusterRows, "total", 0.3, using(model, lambda: model.fit(X, y))


def main(names):
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        every = phases(folder)
        for name in names or every:
            holder, function, delay, what = on_a_cluster() if name == "dask" else every[name]
            before, threads = pickle.dumps(what.model), thread_count()
            seconds, hit = interrupted(holder, function, delay, what.action)
            left = threads_left()
            row = {
                "phase": name,
                "seconds": seconds,
                "hit": hit,
                "unchanged": pickle.dumps(what.model) == before,
                "files": [path.name for path in folder.iterdir()],
                "blas": salsa._utils.blas._limit.users,
                "python_threads": left,
                "threads": thread_count() - threads,
            }
            print(json.dumps(row), flush=True)
    print(json.dumps({"phase": "afterwards", "bits": bits()}))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1:])
