"""Many rows on one machine: four solvers against the exact one, and how time and memory grow.

    python benchmarks/bench_scale.py [largest number of rows] [--out FILE]     (default 100 000; 1e6 takes some minutes)

The truth has order 2 and 8 relevant features of 20, with noise. Every fit runs in a process of its own: seconds are
wall clock and CPU of that process, memory is its peak beyond what it held before the fit.
"""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
from conditions import TINY, Figures, number, size

D = size(20, 8)
RANK = size(None, 100)  # tiny tables need a rank to be large ones
NEW_ROWS = size(20_000, 500)


def simulated(n, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + np.cos(2 * X[:, 4]) * X[:, 5] + X[:, 7]
    truth += np.exp(-3 * X[:, 6] ** 2)
    return X, truth + noise * rng.normal(size=n), truth


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(n: int, solver: str) -> dict:
    """One default fit in this process."""
    X, y, _ = simulated(n)
    new, target, truth = simulated(NEW_ROWS, seed=1)
    before, start, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    model = regressor(solver).fit(X, y)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    prediction = model.predict(new)
    return {
        "solver": solver,
        "rows": n,
        "anchors": len(model.expansion_.anchors) if solver != "lightgbm" else 0,
        "wall": wall,
        "cpu": cpu,
        "memory": peak_bytes() - before,
        "r2": 1 - np.mean((prediction - target) ** 2) / target.var(),
        "limit": 1 - np.mean((truth - target) ** 2) / target.var(),
        "prediction": prediction[:1000].tolist(),
    }


def regressor(solver: str):
    if solver == "lightgbm":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(verbose=-1, n_jobs=size(None, 1))  # a second thread only waits on tiny tables
    from salsa import SalsaRegressor

    return SalsaRegressor(random_state=0, solver=solver, rank=None if solver == "exact" else RANK)


def in_a_process(n: int, solver: str) -> dict:
    code = f"import json, bench_scale; print(json.dumps(bench_scale.measure({n}, {solver!r})))"
    folder = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-c", code, *(["--tiny"] if TINY else [])]
    found = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


FIGURES = Figures()
SHOWN = {
    "anchors": "anchors",
    "wall": "wall s",
    "cpu": "CPU s",
    "memory": "memory GB",
    "r2": "R2",
    "limit": "noise limit",
}


def show(result: dict, exact: dict | None = None) -> None:
    apart = ""
    text = f"{result['solver']:8} {result['rows']:8} rows, {result['anchors']:5} anchors: {result['wall']:6.1f} s"
    text += f" ({result['cpu']:6.1f} s CPU), {result['memory'] / 1e9:5.2f} GB"
    text += f", R2 {result['r2']:.4f} of {result['limit']:.4f}"
    if exact is not None:
        gap = np.subtract(result["prediction"], exact["prediction"])
        apart = np.sqrt(np.mean(gap**2)) / np.std(exact["prediction"])
        text += f", gap to exact {apart:.1e}"
    print(text, flush=True)
    shown = {column: result[name] / (1e9 if name == "memory" else 1) for name, column in SHOWN.items()}
    FIGURES.add(solver=result["solver"], rows=result["rows"], **shown, **{"gap to exact": apart})


SOLVERS = {
    4000: ("pcg", "exact", "lowrank", "features", "divide"),
    10_000: ("pcg", "lowrank", "features", "divide", "lightgbm"),
    100_000: ("lowrank", "features", "divide", "lightgbm"),
    1_000_000: ("lowrank", "lightgbm"),
}
if TINY:
    SOLVERS = {200: SOLVERS[4000], 400: ("lowrank", "lightgbm")}


def main() -> None:
    largest = number(100_000, 400)
    lowrank = {}
    for n, solvers in SOLVERS.items():
        exact = None  # pcg is the exact fit for the kernel and alpha that the low-rank one chooses
        for solver in solvers if n <= largest else ():
            result = in_a_process(n, solver)
            show(result, exact if solver != "exact" else None)
            exact = result if solver == "pcg" else exact
            if solver == "lowrank":
                lowrank[n] = result["wall"]
    (n, seconds), (more, longer) = list(lowrank.items())[-2:]
    print(f"lowrank: time grows with the rows to the power of {np.log(longer / seconds) / np.log(more / n):.2f}")


if __name__ == "__main__":
    main()
