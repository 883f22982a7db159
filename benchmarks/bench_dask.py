"""A million rows on a Dask cluster of two processes of 1 GB each, against the same fit in this process.

    python benchmarks/bench_dask.py [rows]        (default 1 000 000)

Workers make their rows themselves, so that no machine holds all of them. Prints seconds, the largest memory of a worker
before and after, what was spilled to disk, and how far the two models lie apart. Wall seconds depend on what else runs.
"""

import resource
import time

import dask
import dask.array as da
import numpy as np
from bench_scale import RANK, D, simulated
from conditions import number, size
from dask.distributed import Client, LocalCluster

from salsa import SalsaRegressor
from salsa.distributed import DaskSalsaRegressor

CHUNK = size(50_000, 150)


def part(seed: int, column: int) -> np.ndarray:
    return simulated(CHUNK, seed=1000 + seed)[column]


def lazy(n: int, column: int, trailing: tuple) -> da.Array:
    parts = [dask.delayed(part)(seed, column) for seed in range(n // CHUNK)]
    return da.concatenate([da.from_delayed(x, shape=(CHUNK, *trailing), dtype=float) for x in parts])


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def spilled_bytes(dask_worker) -> int:
    return sum(dask_worker.data.spilled_total)


def main() -> None:
    n = number(1_000_000, 300)
    X, y = lazy(n, 0, (D,)), lazy(n, 1, ())
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GB", "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        before = max(client.run(peak_megabytes).values())
        start = time.perf_counter()
        model = DaskSalsaRegressor(client, rank=RANK, random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
        after, spilled = max(client.run(peak_megabytes).values()), sum(client.run(spilled_bytes).values())
    new, target, truth = simulated(20_000, seed=1)
    r2, limit = (1 - np.mean((f - target) ** 2) / target.var() for f in (model.predict(new), truth))
    print(f"cluster: {n} rows, {len(model.expansion_.anchors)} anchors, {seconds:.1f} s, R2 {r2:.4f} of {limit:.4f}")
    print(f"a worker's memory: {before:.0f} MB before, at most {after:.0f} MB during the fit; spilled: {spilled} bytes")
    rows, targets = (np.concatenate([part(s, column) for s in range(n // CHUNK)]) for column in (0, 1))
    start, cpu = time.perf_counter(), time.process_time()
    local = SalsaRegressor(rank=RANK, random_state=0).fit(rows, targets)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"this process: {len(local.expansion_.anchors)} anchors, {seconds:.1f} s ({cpu:.1f} s CPU)")
    gap = np.abs(model.predict(new) - local.predict(new)).max()
    print(f"largest difference of predictions: {gap:.1e}")


if __name__ == "__main__":
    main()
