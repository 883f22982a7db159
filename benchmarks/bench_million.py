"""A million rows in memory, whatever the truth: seconds, memory and accuracy of the default fit, beside LightGBM.

    python benchmarks/bench_million.py [largest number of rows, default 1e6] [truths, such as smooth,rough]

Four truths of 20 features differ in roughness, order and noise. Every fit runs in a process of its own: seconds are
wall clock and CPU of that process, memory is its peak without what it held before the fit. LightGBM's rounds are tuned
by early stopping on a fifth of the rows, with 0.05 as learning rate and at most 4000 rounds. R2 is on new rows; the
noise limit is the R2 of the truth itself. Needs: pip install lightgbm
"""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
from conditions import ARGUMENTS, TINY, Figures, installed, size

D = size(20, 10)
NEW_ROWS = size(20_000, 300)
SIZES = size((100_000, 1_000_000), (200, 400))


def smooth(X):
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + np.cos(2 * X[:, 4]) * X[:, 5] + X[:, 7]
    return truth + np.exp(-3 * X[:, 6] ** 2), 0.3


def rough(X):
    steps = np.sign(X[:, 0] - 0.2) + np.where(X[:, 3] > X[:, 4], 1.0, -1.0) + np.floor(3 * X[:, 5]) * X[:, 6]
    return steps + 2 * np.abs(X[:, 1]) + np.sin(12 * X[:, 2]), 1.5


def additive(X):
    return sum(np.sin((j + 1) * X[:, j]) / (1 + j / 4) for j in range(10)), 0.05


def triple(X):
    truth = np.sin(3 * X[:, 0]) * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] * X[:, 5]
    return truth + np.cos(2 * X[:, 6] + X[:, 7]) + 0.5 * X[:, 8], 0.7


#: order 2 with some noise; order 2 with jumps and much noise; order 1 with little noise; order 3 with much noise
TRUTHS = {"smooth": smooth, "rough": rough, "additive": additive, "triple": triple}


def table(truth: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, targets and the truth at the rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    mean, noise = TRUTHS[truth](X)
    return X, mean + noise * rng.normal(size=n), mean


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fitted(method: str, X: np.ndarray, y: np.ndarray):
    if method == "lightgbm":
        from bench_large_tables import lightgbm

        return lightgbm(X, y)
    from salsa import SalsaRegressor

    return SalsaRegressor(random_state=0, rank=size(None, 100)).fit(X, y)


def measure(truth: str, n: int, method: str) -> dict:
    """One fit in this process."""
    X, y, _ = table(truth, n)
    new, target, mean = table(truth, NEW_ROWS, seed=1)
    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    model = fitted(method, X, y)
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "memory": peak_bytes() - before}
    errors = [np.mean((f - target) ** 2) / target.var() for f in (model.predict(new), mean)]
    anchors = 0 if method == "lightgbm" else len(model.expansion_.anchors)
    return seconds | {"r2": 1 - errors[0], "limit": 1 - errors[1], "anchors": anchors}


def in_a_process(*arguments) -> dict:
    code = f"import json, bench_million; print(json.dumps(bench_million.measure(*{arguments!r})))"
    folder = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-W", "ignore", "-c", code, *(["--tiny"] if TINY else [])]
    return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    figures = Figures(resumes=True)
    largest = float(ARGUMENTS[0]) if ARGUMENTS else max(SIZES)
    truths = ARGUMENTS[1].split(",") if len(ARGUMENTS) > 1 else list(TRUTHS)
    methods = ["salsa", *(["lightgbm"] if installed("lightgbm") else [])]
    for truth in truths:
        seconds = {}
        for n in (n for n in SIZES if n <= largest):
            for method in methods:
                if figures.has(truth=truth, rows=n, method=method):
                    continue
                found = in_a_process(truth, n, method)
                seconds[method, n] = found["wall"]
                line = f"{truth:8} {n:8} rows {method:8} {found['anchors']:5} anchors {found['wall']:6.1f} s wall"
                line += f" {found['cpu']:6.1f} s CPU {found['memory'] / 1e9:5.2f} GB"
                print(f"{line}   R2 {found['r2']:.4f} of {found['limit']:.4f}", flush=True)
                used = {"wall s": found["wall"], "CPU s": found["cpu"], "memory GB": found["memory"] / 1e9}
                fitted_ = {"anchors": found["anchors"], "R2": found["r2"], "noise limit": found["limit"]}
                figures.add(truth=truth, rows=n, method=method, **used, **fitted_)
        times = [time for (method, _), time in seconds.items() if method == "salsa"]
        if len(times) == len(SIZES):
            exponent = np.log(times[1] / times[0]) / np.log(SIZES[1] / SIZES[0])
            print(f"{truth:8} salsa: wall time grows with the rows to the power of {exponent:.2f}")


if __name__ == "__main__":
    main()
