"""More anchors than sums of r x r numbers allow: accuracy, time and memory of low-rank fits by their rank.

    python benchmarks/bench_many_anchors.py [number of rows] [--out FILE]     (default 100 000)

The truth has interactions of three features, 10 features in all, with noise. Up to 3000 anchors are fitted by sums over
rows, more by conjugate gradients; one rank is fitted both ways. Relevances are equal, so that no kernel is learned.
Every fit runs in a process of its own: memory is its peak beyond what it held before the fit.
"""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
from conditions import TINY, Figures, number, size

D = 10
NEW_ROWS = size(20_000, 200)
DIRECT = size((1000, 2000), (20, 40))  # ranks of fits by sums
ITERATED = size((2000, 4000, 10_000), (40, 80))  # ranks of fits by conjugate gradients


def simulated(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    truth = np.sin(3 * X[:, 0]) * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] * X[:, 5] + np.cos(2 * X[:, 6] + X[:, 7])
    return X, truth + noise * rng.normal(size=n), truth


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(n: int, rank: int, iterated: bool) -> dict:
    """Do one fit in this process, by sums or by conjugate gradients."""
    from salsa import SalsaRegressor
    from salsa.solvers import lowrank

    lowrank.DIRECT_RANK = 1 if iterated else rank
    X, y, _ = simulated(n)
    new, _, truth = simulated(NEW_ROWS, seed=1)
    before, start, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    model = SalsaRegressor(solver="lowrank", rank=rank, order=3, relevance="equal", random_state=0).fit(X, y)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    prediction = model.predict(new)
    return {
        "way": "conjugate gradients" if iterated else "sums",
        "anchors": len(model.expansion_.anchors),
        "wall": wall,
        "cpu": cpu,
        "memory": peak_bytes() - before,
        "needed": lowrank.lowrank_bytes(n, D, 1, rank, 5, 2),
        "alpha": model.alpha_,
        "r2": 1 - np.mean((prediction - truth) ** 2) / truth.var(),
        "prediction": prediction[:1000].tolist(),
    }


def in_a_process(n: int, rank: int, iterated: bool) -> dict:
    code = f"import json, bench_many_anchors as b; print(json.dumps(b.measure({n}, {rank}, {iterated})))"
    folder = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-c", code, *(["--tiny"] if TINY else [])]
    found = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def show(result: dict) -> None:
    text = f"{result['anchors']:5} anchors by {result['way']:19}: R2 of the truth {result['r2']:.5f}"
    text += f", alpha {result['alpha']:.1e}, {result['wall']:6.1f} s ({result['cpu']:6.1f} s CPU)"
    print(f"{text}, {result['memory'] / 1e9:.2f} GB (estimate {result['needed'] / 1e9:.2f} GB)", flush=True)


def main() -> None:
    figures = Figures()
    n = number(100_000, 300)
    print(f"{n} rows, {D} features")
    found = {}
    for iterated, ranks in ((False, DIRECT), (True, ITERATED)):
        for rank in ranks:
            found[rank, iterated] = in_a_process(n, rank, iterated)
            show(result := found[rank, iterated])
            used = {"R2 of the truth": result["r2"], "CPU s": result["cpu"], "memory GB": result["memory"] / 1e9}
            figures.add(rank=rank, anchors=result["anchors"], way=result["way"], **used)
    common = ITERATED[0]
    direct, iterated = found[common, False], found[common, True]
    gap = np.subtract(iterated["prediction"], direct["prediction"])
    print(
        f"rank {common}: conjugate gradients take {iterated['cpu'] / direct['cpu']:.2f} times the CPU seconds of sums,"
    )
    print(f"and {iterated['memory'] / direct['memory']:.2f} times the memory; their predictions differ by")
    print(f"{np.sqrt(np.mean(gap**2)) / np.std(direct['prediction']):.1e} of the spread")


if __name__ == "__main__":
    main()
