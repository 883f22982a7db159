"""CPU seconds of two source trees of salsa, BEFORE and AFTER a change: both sides and the ratio AFTER / BEFORE.

    python benchmarks/bench_house.py BEFORE AFTER [rounds]      (default 6 rounds; an even number is fair)

BEFORE and AFTER are the src folders of two checkouts, each with its own compiled core inside. The two trees take turns
in processes of their own, on one thread, with the same simulated table (D = 10). With --tiny and without folders the
installed tree is compared with itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from conditions import ARGUMENTS, TINY, size

D = 10
FITS = size({500: 3, 1500: 1, 20_000: 1}, {100: 1})  # rows: repeats in one process
MODEL_ROWS = size(1500, 100)  # of the model that predicts
NEW_ROWS, SINGLE_ROWS, INTERVALS = size((10_000, 1000, 200), (200, 20, 20))
REPEATS = 5  # of a prediction in one process
ROUNDS = size(6, 1)  # even: each tree goes first equally often
STARTS = size(3, 1)  # processes in a round that measure the import

Seconds = dict[str, list[float]]


def table(n: int) -> Any:
    import numpy as np  # not before the import of salsa is measured

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + 0.2 * rng.normal(size=n)


def repeated(run: Callable[[], object], repeats: int = 1) -> list[float]:
    times = [time.process_time()]
    for _ in range(repeats):
        run()
        times.append(time.process_time())
    return [end - start for start, end in pairwise(times)]


def measure_import() -> Seconds:
    def regressor() -> None:
        from salsa import SalsaRegressor  # noqa: F401

    return {"from salsa import SalsaRegressor": repeated(regressor)}


def measure_fit(n: int) -> Seconds:
    """The default fit to n rows, and with MODEL_ROWS the predictions of the model."""
    from salsa import SalsaRegressor

    SalsaRegressor(random_state=0, n_jobs=1).fit(*table(100)).predict_interval(table(100)[0])  # imports and pages
    model, (X, y), (new, _) = SalsaRegressor(random_state=0, n_jobs=1), table(n), table(NEW_ROWS)
    found = {f"fit, n = {n}": repeated(lambda: model.fit(X, y), FITS[n])}
    if n == MODEL_ROWS:
        found |= {
            f"predict, {NEW_ROWS} rows": repeated(lambda: model.predict(new), REPEATS),
            f"predict, {SINGLE_ROWS} times one row": repeated(
                lambda: [model.predict(new[i : i + 1]) for i in range(SINGLE_ROWS)], REPEATS
            ),
            f"predict_interval, {INTERVALS} rows, first": repeated(lambda: model.predict_interval(new[:INTERVALS])),
            f"predict_interval, {INTERVALS} rows, again": repeated(
                lambda: model.predict_interval(new[:INTERVALS]), REPEATS
            ),
        }
    return found


def measure(n: int | None) -> Seconds:
    """Measure the import (None) or a fit to n rows; this process must have imported the tree that it was given."""
    found = measure_import() if n is None else measure_fit(n)
    import salsa

    tree, used = Path(os.environ["PYTHONPATH"]), Path(salsa.__file__).resolve().parents[1]
    if used != tree:
        sys.exit(f"salsa was imported from {used}, not from {tree}: use an environment without an editable install")
    return found


def in_a_process(tree: Path, n: int | None) -> Seconds:
    code = f"import json, bench_house; print(json.dumps(bench_house.measure({n})))"
    pinned = {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *(["--tiny"] if TINY else [])]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, env=os.environ | pinned, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def show(before: Seconds, after: Seconds) -> None:
    print(f"{'':36}{'median: before, after, ratio':>30}{'min: before, after, ratio':>32}")
    for name in before:
        cells = [(f(before[name]), f(after[name])) for f in (median, min)]
        print(f"{name:36}", *(f"{old:10.4f} {new:10.4f} {new / old:8.3f}" for old, new in cells))


def main() -> None:
    trees = [Path(word).resolve() for word in ARGUMENTS[:2]]
    if TINY and not trees:
        trees = 2 * [Path(find_spec("salsa").origin).resolve().parents[1]]
    if len(trees) != 2:
        sys.exit(__doc__)
    rounds = int(ARGUMENTS[2]) if len(ARGUMENTS) > 2 else ROUNDS
    sides: tuple[Seconds, Seconds] = (defaultdict(list), defaultdict(list))
    for number in range(rounds):
        for n in (*STARTS * [None], *FITS):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                for name, seconds in in_a_process(trees[side], n).items():
                    sides[side][name] += seconds
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    print(f"CPU seconds of one thread; before {trees[0]}, after {trees[1]}")
    show(*sides)


if __name__ == "__main__":
    main()
