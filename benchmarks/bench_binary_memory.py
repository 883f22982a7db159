"""A binary fit whose features fit into memory, and the same fit when they do not, from memory and from blocks.

    python benchmarks/bench_binary_memory.py [100000 [1000]] [--out FILE]

The arguments are the numbers of rows and of anchors. The log odds are those of bench_binary, with equal relevances of
order 2. Every fit has a process of its own: seconds by wall clock and CPU, peak memory without that before the fit, the
share of the rows whose features were held, passes over the rows, the log loss on new rows, and the largest difference
of the log odds from those of the first fit. The limited fits get the memory that a fit needs without features, and a
tenth of the features.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench_binary import NEW, D, table
from conditions import ARGUMENTS, Figures, number, size
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import log_loss

FIGURES = Figures()
ROWS, RANK = number(100_000, 400), int(ARGUMENTS[1]) if len(ARGUMENTS) > 1 else size(1000, 40)
PART = 20_000  # rows of a block
WAYS = ("all in memory", "limited", "limited, from blocks")


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def labelled(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    X, f, rng = table(n, seed)
    return X, rng.random(n) < expit(f)


def blocks() -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Yield the rows of the table, from files in the folder that this process works in."""
    for path in sorted(Path().glob("*.npz")):
        with np.load(path) as part:
            yield part["X"], part["y"]


def measure(way: str) -> dict:
    """One fit in this process."""
    from salsa import SalsaClassifier
    from salsa.solvers.anchored_likelihood import anchored_bytes
    from salsa.solvers.need import choice_bytes

    limit = None
    if way != WAYS[0]:
        least = max(anchored_bytes(ROWS, D, 1, RANK, 5, 2), choice_bytes(ROWS, searched=True, learned=False))
        limit = least + 0.1 * 4 * ROWS * RANK
    model = SalsaClassifier(
        random_state=0, relevance="equal", order=2, solver="lowrank", rank=RANK, memory_limit=limit, n_jobs=2
    )
    X, y = labelled(1 if way == WAYS[2] else ROWS, 0)
    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    model.fit_blocks(blocks) if way == WAYS[2] else model.fit(X, y)
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "memory": peak_bytes() - before}
    X, y = labelled(NEW, 1)
    note = re.search(r"(\d+)% of the rows .* in (\d+) passes", " ".join(model.search_.notes))
    share, passes = note.groups() if note else ("100", "")
    found |= {"loss": log_loss(y, model.predict_proba(X)[:, 1]), "f": model.decision_function(X).tolist()}
    return found | {"share": share, "passes": passes, "anchors": len(model.expansion_.anchors), "limit": limit}


def in_a_process(way: str, folder: str) -> dict:
    here = os.path.dirname(os.path.abspath(__file__))
    code = f"import sys; sys.path.insert(0, {here!r}); import json, bench_binary_memory as b"
    command = [sys.executable, "-W", "ignore", "-c", f"{code}; print(json.dumps(b.measure({way!r})))", *sys.argv[1:]]
    return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    first = None
    with tempfile.TemporaryDirectory() as folder:
        X, y = labelled(ROWS, 0)
        for number_, start in enumerate(range(0, ROWS, PART)):
            rows = slice(start, start + PART)
            np.savez(Path(folder) / f"{number_:04}.npz", X=X[rows], y=y[rows])
        for way in WAYS:
            found = in_a_process(way, folder)
            f = np.array(found["f"])
            first = f if first is None else first
            limit = "" if found["limit"] is None else f", limit {found['limit'] / 1e9:.2f} GB"
            held = f"{found['share']} % of the features held, passes {found['passes']}"
            used = f"{found['wall']:7.1f} s wall {found['cpu']:7.1f} s CPU {found['memory'] / 1e9:5.2f} GB{limit}"
            gap = f"log loss {found['loss']:.4f}, gap {np.abs(f - first).max():.1e}"
            print(f"{ROWS} rows, {found['anchors']} anchors, {way:20}: {used}, {held}, {gap}", flush=True)
            costs = {"passes": found["passes"], "CPU s": found["cpu"], "memory GB": found["memory"] / 1e9}
            shown = {"held": float(found["share"]) / 100, **costs, "loss": found["loss"]}
            FIGURES.add(fit=way, **shown, gap=np.abs(f - first).max())


if __name__ == "__main__":
    main()
