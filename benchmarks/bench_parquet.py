"""Tables larger than memory: fits to Parquet files of a million and ten million rows, their seconds and memory.

    python benchmarks/bench_parquet.py [largest number of rows, default 1e7] [--out FILE]

The files are written to a temporary folder first (160 bytes a row). Every fit runs in a process of its own, whose peak
memory is reported without the memory before the fit. Ten times the rows may take at most twelve times the seconds, and
no more memory.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_million import NEW_ROWS, D, table
from conditions import TINY, Figures, number, size

PART = size(250_000, 100)  # rows of a file
SIZES = size((1_000_000, 10_000_000), (200, 600))


def write(folder: Path, n: int) -> None:
    for part in range(n // PART):
        X, y, _ = table("smooth", PART, seed=1000 + part)
        columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"y": y}
        pq.write_table(pa.table(columns), folder / f"{part:04}.parquet")


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: str) -> dict:
    """One fit in this process."""
    from salsa import SalsaRegressor

    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    model = SalsaRegressor(random_state=0, solver="lowrank", rank=size(None, 80)).fit_blocks(folder, target="y")
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "memory": peak_bytes() - before}
    X, y, mean = table("smooth", NEW_ROWS, seed=1)
    names = [f"x{j}" for j in range(D)]
    prediction = model.predict(pa.table(dict(zip(names, X.T, strict=True))))
    errors = [float(np.mean((f - y) ** 2) / y.var()) for f in (prediction, mean)]
    return found | {"r2": 1 - errors[0], "limit": 1 - errors[1], "anchors": len(model.expansion_.anchors)}


def in_a_process(folder: str) -> dict:
    code = f"import json, bench_parquet; print(json.dumps(bench_parquet.measure({folder!r})))"
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-W", "ignore", "-c", code, *(["--tiny"] if TINY else [])]
    return json.loads(subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    figures = Figures()
    largest, seconds = number(max(SIZES), max(SIZES)), []
    for n in (n for n in SIZES if n <= largest):
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), n)
            found = in_a_process(folder)
        seconds.append(found["wall"])
        line = f"{n:9} rows {found['anchors']:5} anchors {found['wall']:7.1f} s wall {found['cpu']:7.1f} s CPU"
        print(f"{line} {found['memory'] / 1e9:5.2f} GB   R2 {found['r2']:.4f} of {found['limit']:.4f}", flush=True)
        used = {"wall s": found["wall"], "CPU s": found["cpu"], "memory GB": found["memory"] / 1e9}
        figures.add(rows=n, anchors=found["anchors"], **used, R2=found["r2"], **{"noise limit": found["limit"]})
    if len(seconds) > 1:
        print(f"{seconds[1] / seconds[0]:.1f} times the seconds for {SIZES[1] / SIZES[0]:.0f} times the rows")


if __name__ == "__main__":
    main()
