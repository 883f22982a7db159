"""Predictions for a service: load, one row, 1000 rows, an interval, Shapley values, ONNX, and requests per second.

python benchmarks/bench_serving.py [rows] [--out FILE]        (default 2000: about a minute)

One row is a dict, a list or a data frame of one row, as a service gets it. The rivals get a data frame, which they all
take. Times are medians of wall seconds; the least of them says what a machine without other work would need. The first
prediction in a fresh process counts everything after the start of Python: import, load and predict. The service is
examples/service with two workers (pip install starlette 'uvicorn[standard]'); four threads of this program, on the
same cores, ask it for one row at a time. ONNX needs pip install onnx onnxruntime.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conditions import Figures, installed, number, size
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import salsa
from salsa import SalsaRegressor, explain

SERVICE = Path(__file__).parents[1] / "examples" / "service"
FIGURES = Figures()
CLIENTS, REQUESTS = 4, size(2000, 20)  # threads that ask the service, and how often each
D, REPEATS, TREES = 20, size(200, 3), size(500, 20)
FRESH = """
import time
start = time.perf_counter()
import salsa
model = salsa.load({path!r})
model.predict({record!r})
print(time.perf_counter() - start)
"""


def simulated(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return D features, of which nine matter, and a rough target: its model has many anchors."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    smooth = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + X[:, 4:9].sum(axis=1) ** 2
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(D)]), smooth + 0.3 * rng.normal(size=n)


def rivals() -> Iterator[tuple[str, Any]]:
    yield "HistGradientBoosting", HistGradientBoostingRegressor(max_iter=TREES)
    yield "scaler and KernelRidge", make_pipeline(StandardScaler(), KernelRidge(alpha=0.1, kernel="rbf"))
    if installed("lightgbm"):
        from lightgbm import LGBMRegressor

        yield "LightGBM", LGBMRegressor(n_estimators=TREES, verbose=-1)
    if installed("catboost"):
        from catboost import CatBoostRegressor

        yield "CatBoost", CatBoostRegressor(iterations=TREES, verbose=0, allow_writing_files=False)


def show(model: str, call: str, seconds: list[float]) -> None:
    """Print median and least of some wall times, and add them to the figures."""
    median, least = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
    print(f"  {call:24} {median:8.3f} ms, least {least:8.3f} ms")
    FIGURES.add(call=call, model=model, **{"median ms": median, "least ms": least})


def timed(call: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """Return the wall times of a call, after a first call that is not counted."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def fresh_process(path: Path, record: dict[str, float]) -> list[float]:
    command = [sys.executable, "-c", FRESH.format(path=str(path), record=record)]
    return [float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(5)]


def onnx_session(fitted: SalsaRegressor, path: Path) -> Any:
    """Return what onnxruntime makes of the model, on one thread."""
    import onnxruntime

    fitted.to_onnx(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def requests_per_second(path: Path, record: dict[str, float]) -> float:
    """Return how many single rows the service predicts per second, after a second of warming up."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["uvicorn", "--app-dir", SERVICE, "--workers", "2", "--port", port, "--log-level", "error", "service:app"]
    environment = os.environ | {"SALSA_MODEL": str(path)}
    with subprocess.Popen([sys.executable, "-m", *map(str, command)], env=environment) as process:
        try:
            _wait_for(port)
            _ask(port, record, REQUESTS // 10)
            threads = [threading.Thread(target=_ask, args=(port, record, REQUESTS)) for _ in range(CLIENTS)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return CLIENTS * REQUESTS / (time.perf_counter() - start)
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError


def _ask(port: int, record: dict[str, float], count: int) -> None:
    connection, body = http.client.HTTPConnection("127.0.0.1", port, timeout=60), json.dumps(record)
    for _ in range(count):
        connection.request("POST", "/predict", body)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
    connection.close()


def main() -> None:
    warnings.filterwarnings("ignore", message="X has feature names|X does not have valid feature names")
    n = number(2000, 80)
    X, y = simulated(n)
    new, _ = simulated(size(1000, 20), seed=1)
    row = new[:1]
    record = {name: float(value) for name, value in row.iloc[0].items()}
    values = row.to_numpy().tolist()
    fitted = SalsaRegressor(order=size("auto", 1), random_state=0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.salsa"
        fitted.save(path)
        anchors, megabytes = len(fitted.expansion_.anchors), path.stat().st_size / 1e6
        print(f"salsa: {n} rows, {D} features, {anchors} anchors, {megabytes:.2f} MB")
        show("salsa", "load", timed(lambda: salsa.load(path), 5))
        show("salsa", "fresh process", fresh_process(path, record))
        if installed("starlette") and installed("uvicorn"):
            print(f"  service, one row         {requests_per_second(path, record):8.0f} requests per second")
        if installed("onnx") and installed("onnxruntime"):
            session = onnx_session(fitted, Path(folder) / "model.onnx")
            megabytes = (Path(folder) / "model.onnx").stat().st_size / 1e6
            columns = {name: new[[name]].to_numpy() for name in new}
            one = {name: values[:1] for name, values in columns.items()}
            print(f"  ONNX, {megabytes:.2f} MB")
            show("ONNX", "one row", timed(lambda: session.run(None, one), size(50, 2)))
            show("ONNX", f"{len(new)} rows", timed(lambda: session.run(None, columns), size(5, 2)))
        model = salsa.load(path)
    start = time.perf_counter()
    model.predict_interval(record)
    show("salsa", "first interval", [time.perf_counter() - start])
    show("salsa", "one row, dict", timed(lambda: model.predict(record)))
    show("salsa", "one row, list", timed(lambda: model.predict(values)))
    show("salsa", "one row, data frame", timed(lambda: model.predict(row)))
    show("salsa", f"{len(new)} rows, data frame", timed(lambda: model.predict(new), size(20, 2)))
    show("salsa", "one interval", timed(lambda: model.predict_interval(record), size(50, 2)))
    show("salsa", "Shapley values, one row", timed(lambda: explain.shapley(model, record).values, size(10, 2)))
    for name, rival in rivals():
        rival.fit(X, y)
        print(f"{name}:")
        show(name, "one row, data frame", timed(lambda: rival.predict(row)))  # noqa: B023  called at once
        show(name, f"{len(new)} rows, data frame", timed(lambda: rival.predict(new), size(20, 2)))  # noqa: B023


if __name__ == "__main__":
    main()
