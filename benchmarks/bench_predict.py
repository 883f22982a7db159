"""Predictions: many rows against 2000 anchors, D = 20, order 3, one thread, relative to the core's kernel block.

python benchmarks/bench_predict.py [rows] [--out FILE]        (default 1 000 000: about half a minute)
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import time

from bench_scale import D, simulated
from conditions import Figures, number, size

from salsa import SalsaRegressor

ROWS, ANCHORS = size((5000, 2000), (500, 200))


def seconds(function, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    figures = Figures()
    n = number(1_000_000, 10_000)
    X, y, _ = simulated(ROWS)
    model = SalsaRegressor(
        order=3, alpha=1e-8, relevance="equal", bandwidth=5.0, solver="lowrank", rank=ANCHORS, random_state=0, n_jobs=1
    ).fit(X, y)
    kernel, anchors = model.expansion_.kernel, model.expansion_.anchors
    new = simulated(n, seed=1)[0]
    block = seconds(lambda: kernel(new[:ANCHORS], anchors, n_threads=1), 5) / (ANCHORS * len(anchors) * D)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    predict = seconds(lambda: model.predict(new), 1) / (n * len(anchors) * D)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    print(
        f"{len(anchors)} anchors, D = {D}, order {model.order_}, {n} rows: {predict * n * len(anchors) * D:.1f} s CPU"
    )
    print(f"kernel block {1e9 * block:.3f} ns, predict {1e9 * predict:.3f} ns per pair and feature")
    print(f"ratio {predict / block:.2f} (limit 1.3); memory beside the rows {memory:.0f} MB")
    figures.add(anchors=len(anchors), block_ns=1e9 * block, predict_ns=1e9 * predict, ratio=predict / block)


if __name__ == "__main__":
    main()
