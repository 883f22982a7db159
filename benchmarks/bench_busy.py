"""CPU seconds of fits alone, and beside a busy process on every core: threads that wait must sleep, not spin.

    python benchmarks/bench_busy.py [runs] [--out FILE]         (default 3)

Every fit runs in a process of its own with all cores, and counts the user and system time of all its threads, without
imports. Printed are medians over the runs. The last line is a loop of one thread that never waits: what its CPU time
grows by beside busy processes, such as shared caches, no program can avoid.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from conditions import ARGUMENTS, TINY, Figures, number, size

from salsa import AdditiveKernel, SalsaRegressor

BUSY = Path(__file__).parent.parent / "tools" / "busy.py"
TARGET = 1.5
SEEDED = {"random_state": 0}
PAIRS = {"order": 2, "relevance": "equal"} | SEEDED


def table(n: int, D: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + 0.2 * rng.normal(size=n)
    return X, y


def fit(n: int, D: int, **parameters: Any) -> Callable[[], object]:
    X, y = table(n, D)
    model = SalsaRegressor(**parameters)
    return lambda: model.fit(X, y)


def one_thread() -> Callable[[], object]:
    """Return kernel blocks, one after the other on one thread."""
    X, _ = table(size(2000, 200), 20)
    kernel = AdditiveKernel(np.ones(20), np.ones(20), np.ones(3))
    return lambda: [kernel(X, n_threads=1) for _ in range(size(40, 2))]


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "default": lambda: fit(size(1500, 100), size(20, 6), **SEEDED),
    "pcg": lambda: fit(size(6000, 300), size(8, 6), solver="pcg", rank=size(None, 50), **SEEDED),
    "lowrank": lambda: fit(size(200_000, 1000), size(20, 6), solver="lowrank", rank=size(500, 50), **PAIRS),
    "one thread": one_thread,
}


def run_cpu(case: str, *before: str | Path) -> float:
    """Return the CPU seconds of a case in a new process, which the command `before` starts."""
    command = [*before, sys.executable, __file__, case, *(["--tiny"] if TINY else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    figures = Figures()
    if ARGUMENTS and ARGUMENTS[0] in CASES:
        work = CASES[ARGUMENTS[0]]()
        start = time.process_time()
        work()
        print(time.process_time() - start)
        return
    runs = number(3, 1)
    for case in CASES:
        alone, busy = [], []
        for _ in range(runs):
            alone.append(run_cpu(case))
            busy.append(run_cpu(case, sys.executable, BUSY))
        ours, theirs = median(alone), median(busy)
        print(f"{case:10s}   alone {ours:6.2f} s   busy {theirs:6.2f} s   ratio {theirs / ours:5.2f}", end="   ")
        print(f"target <= {TARGET}", flush=True)
        figures.add(fit=case, alone=ours, busy=theirs, ratio=theirs / ours)


if __name__ == "__main__":
    main()
