"""Exact fits by conjugate gradients as the table grows: seconds, memory and error beside low-rank fits and LightGBM.

    python benchmarks/bench_exact.py [most rows, default 60000 | growth | deviations] [figure.png] [--out FILE]

The truth is the end of a robot arm of four joints (8 features), with noise of 3 % of its standard deviation. Everything
is included: learning, folds, alpha, intervals. Each fit runs in a process of its own, whose peak memory is reported
without the memory before the fit. The last lines have the exponent of time in the number of rows, and the ratio of
standard deviations to the exact ones at the largest size that solver="exact" is quick for. The figure shows CPU
seconds against rows; `growth` measures exact fits alone. Needs: pip install lightgbm
"""

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "2")

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from conditions import ARGUMENTS, Figures, installed, number, size

from salsa import SalsaRegressor

FIGURES = Figures(resumes=True)
NOISE, NEW_ROWS, COVERAGE = 0.03, 4000, 0.9
SIZES = size((3000, 6000, 12_000, 24_000, 36_000, 60_000), (150, 200))
LABELS = {"pcg": "salsa, exact", "lowrank": "salsa, 2000 anchors", "lightgbm": "LightGBM, tuned"}
COMPARED, RANKS = size((3000, (500, 1000, 2000)), (120, (30, 60)))  # rows and anchors of standard deviations


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets; the same first rows for every n."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, 8))
    length, angle = 0.25 + 0.75 * X[:, 4:], np.cumsum(2 * np.pi * X[:, :4], axis=1)
    reach = np.hypot((length * np.cos(angle)).sum(axis=1), (length * np.sin(angle)).sum(axis=1))
    return X, reach / reach.std() + NOISE * rng.standard_normal(n)


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(solver: str, n: int) -> tuple[float, ...]:
    """Return wall and CPU seconds, peak memory in GB, error over variance, and the coverage of intervals."""
    X, y = table(n + NEW_ROWS)
    (X, new), (y, observed), before = np.split(X, [n]), np.split(y, [n]), memory()
    wall, cpu = time.perf_counter(), time.process_time()
    if solver == "lightgbm":
        from bench_large_tables import lightgbm

        model = lightgbm(X, y)
    else:
        model = SalsaRegressor(solver=solver, rank=size(None, 50), random_state=0).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error, covered = np.mean((model.predict(new) - observed) ** 2) / observed.var(), np.nan
    if solver != "lightgbm":
        low, high = model.predict_interval(new, COVERAGE).T
        covered = np.mean((low <= observed) & (observed <= high))
    return wall, cpu, memory() - before, error, covered


def deviations() -> None:
    """Print the ratio of standard deviations from anchors to the exact ones, for rows that were not fitted."""
    X, y = table(COMPARED + 500)
    (X, new), y = np.split(X, [COMPARED]), y[:COMPARED]
    exact = SalsaRegressor(solver="exact", random_state=0, n_jobs=2).fit(X, y)
    truth = exact.predict(new, return_std=True)[1]
    for rank in RANKS:
        settings = {"solver": "pcg", "rank": rank, "alpha": exact.alpha_, "random_state": 0}
        ratio = SalsaRegressor(**settings).fit(X, y).predict(new, return_std=True)[1] / truth
        low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
        sd = f"sd from {rank} anchors of {COMPARED} rows / exact sd"
        print(f"{sd}, quantiles 5, 50, 95 %: {low:.3f}, {middle:.3f}, {high:.3f}")
        if ARGUMENTS[:1] == ["deviations"]:  # rows of another kind than those of the fits
            FIGURES.add(anchors=rank, lower=low, median=middle, upper=high)


def exponent(measured: np.ndarray) -> float:
    return float(np.polyfit(*np.log(measured.T), 1)[0]) if len(measured) > 1 else np.nan


def draw(lines: dict[str, np.ndarray], path: str) -> None:
    """Draw CPU seconds against rows, both on logarithmic scales, with every line named at its end."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for (label, measured), color in zip(lines.items(), ("#0072B2", "#E69F00", "#000000"), strict=False):
        ax.loglog(*measured.T, "o-", color=color)
        text = f"{label}:\nrows to the power of {exponent(measured):.2f}"
        ax.annotate(text, measured[-1], (8, 0), textcoords="offset points", va="center", color=color)
    rows = lines["salsa, exact"][:, 0]
    low, high = ax.get_ylim()
    seconds = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= t <= high]
    ax.set(xlabel="training rows", ylabel="CPU seconds, everything included", xticks=rows, yticks=seconds)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    alone, fresh = ARGUMENTS[:1] == ["growth"], multiprocessing.get_context("spawn")
    solvers = ["pcg"] if alone else ["pcg", "lowrank"] + (["lightgbm"] if installed("lightgbm") else [])
    most = max(SIZES) if alone else number(max(SIZES), max(SIZES))
    measured = FIGURES.rows()
    for n in (n for n in SIZES if n <= most):
        for solver in solvers:
            if FIGURES.has(solver=solver, rows=n):
                continue
            with ProcessPoolExecutor(1, mp_context=fresh) as process:
                wall, cpu, space, error, covered = process.submit(measure, solver, n).result()
            line = f"{solver:9} n = {n:6}   wall {wall:6.1f} s   CPU {cpu:6.1f} s   memory {space:5.2f} GB"
            print(f"{line}   error {error:.5f}   coverage at {COVERAGE:.0%} {covered:.3f}", flush=True)
            used = {"wall s": wall, "CPU s": cpu, "memory GB": space}
            row = {
                "solver": solver,
                "rows": n,
                **used,
                "error": error,
                "coverage": "" if np.isnan(covered) else covered,
            }
            FIGURES.add(**row)
            measured.append({name: str(value) for name, value in row.items()})
    lines = {}
    for solver in solvers:
        pairs = [(float(row["rows"]), float(row["CPU s"])) for row in measured if row["solver"] == solver]
        lines[LABELS[solver]] = np.array(sorted(pairs))
        print(f"{solver}: CPU seconds grow with rows to the power of {exponent(lines[LABELS[solver]]):.2f}")
    if len(ARGUMENTS) > 1:
        draw(lines, ARGUMENTS[1])
    if not alone:
        deviations()


if __name__ == "__main__":
    deviations() if ARGUMENTS[:1] == ["deviations"] else main()
