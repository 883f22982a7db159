"""Fit a fixed list of settings and compare two trees of salsa, number by number.

    python tools/golden.py compare OTHER/src        fit all settings with both trees on this machine; compare the bits
    python tools/golden.py compare OTHER/src --within 1e-9         ... choices are equal, numbers agree to this share
    python tools/golden.py compare OTHER/src --without sd notes    ... leave these entries out
    python tools/golden.py write FOLDER             write FOLDER/expected.json with this tree

``compare`` runs each tree in its own process and prints the settings that differ. ``write`` makes what
``tests/test_golden.py`` reads. Bits differ between processors, so the test asks for equal choices and 1e-6.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

ROOT = Path(__file__).resolve().parent.parent
COVERAGE = 0.8


class Setting(NamedTuple):
    """A fit and the rows at which its function is recorded."""

    fit: Callable[[], Any]
    rows: Any


class Data(NamedTuple):
    """A simulated table: features (n, D), target (n,), and 12 new rows."""

    X: Any
    y: Any
    new: Any


def numbers(n: int, D: int = 5, seed: int = 0, noise: float = 0.1) -> Data:
    """Return a target of order 2 in three of D uniform features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + 12, D))
    y = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + noise * rng.normal(size=n + 12)
    return Data(X[:n], y[:n], X[n:])


def mixed(n: int, seed: int = 0) -> Data:
    """Return a data frame with numbers, a category, an ordered category and missing values."""
    X, y, new = numbers(n, 4, seed)
    rng = np.random.default_rng(seed + 1)
    frame = pd.DataFrame(np.vstack([X, new]), columns=list("abcd"))
    frame["colour"] = rng.choice(["red", "green", "blue"], n + 12)
    frame["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n + 12), ["S", "M", "L"], ordered=True)
    y = y + (frame["colour"] == "red").to_numpy()[:n] + 0.5 * frame["size"].cat.codes.to_numpy()[:n]
    frame.loc[rng.random(n + 12) < 0.15, "b"] = np.nan
    frame.loc[rng.random(n + 12) < 0.1, "colour"] = None
    return Data(frame[:n], y, frame[n:])


def weights(n: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(0.2, 3.0, n)


def make_settings(folder: Path) -> dict[str, Setting]:
    """Return all settings by name; ``folder`` takes the files that some of them read."""
    from salsa import SalsaRegressor

    small, table, mix = numbers(120), numbers(260), mixed(160)
    two = np.column_stack([table.y, np.cos(2 * table.X[:, 0]) * table.X[:, 3]])
    groups = np.repeat(np.arange(40), 3)
    paper = {"relevance": "equal", "interactions": "exact", "bandwidth": "rule_of_thumb"}
    equal: dict[str, Any] = {"relevance": "equal", "random_state": 0}
    learned: dict[str, Any] = {"random_state": 0}

    def plain(data: Data, fit: dict[str, Any] | None = None, **parameters: Any) -> Setting:
        return Setting(lambda: SalsaRegressor(**parameters).fit(data.X, data.y, **fit or {}), data.new)

    def blocks() -> Any:
        step = [(table.X[i : i + 50], table.y[i : i + 50]) for i in range(0, len(table.y), 50)]
        return SalsaRegressor(rank=60, **equal).fit_blocks(step)

    def memory_map() -> Any:
        path = folder / "rows.bin"
        mapped = np.memmap(path, mode="w+", shape=table.X.shape, dtype=np.float64)
        mapped[:] = table.X
        return SalsaRegressor(rank=60, **equal).fit(mapped, table.y)

    whole = np.r_[np.full(60, 2.0), np.ones(60)]
    zeros = np.where(np.arange(120) % 7 == 0, 0.0, weights(120))
    return {
        "paper": plain(small, **paper, random_state=0),
        "paper_two_orders": plain(small, order=[1, 3], **paper, random_state=0),
        "equal_up_to": plain(small, **equal),
        "equal_bisect": plain(numbers(120, 9), order="bisect", **equal),
        "equal_laplace": plain(small, kernel="laplace", **equal),
        "given_order_and_alpha": plain(small, order=2, alpha=0.01, **equal),
        "given_alphas": plain(small, alpha=[0.001, 0.1], **equal),
        "given_relevances": plain(small, relevance=[1, 2, 2, 0, 0.1], random_state=0),
        "given_bandwidth_factor": plain(small, bandwidth=8.0, **equal),
        "given_bandwidths": plain(small, bandwidth=[0.5, 0.6, 0.7, 2, 3], random_state=0),
        "learned": plain(table, **learned),
        "learned_exact_orders": plain(table, interactions="exact", **learned),
        "learned_matern32": plain(table, kernel="matern32", **learned),
        "learned_order_2": plain(table, order=2, **learned),
        "learned_noisy": plain(numbers(200, 8, 4, 1.5), **learned),
        "learned_many_rows": plain(numbers(1000, 6, 5), **learned),
        "learned_two_outputs": plain(table._replace(y=two), **learned),
        "fewer_than_80_rows": plain(numbers(50), **learned),
        "whole_weights": plain(small, {"sample_weight": whole}, **equal),
        "fractional_weights": plain(small, {"sample_weight": weights(120)}, **equal),
        "weights_learned": plain(table, {"sample_weight": weights(260, 4)}, **learned),  # 3: at the edge of a SNAP
        "zero_weights_and_given_splits": plain(
            small, {"sample_weight": zeros}, cv=list(GroupKFold(4).split(small.X, groups=groups)), **equal
        ),
        "given_groups": plain(small, cv=list(GroupKFold(4).split(small.X, groups=groups)), **equal),
        "later_rows": plain(small, cv=TimeSeriesSplit(4), **equal),
        "leave_one_out": plain(numbers(60), cv=60, **equal),
        "mixed_columns": plain(mix, **equal),
        "mixed_columns_learned": plain(mix, **learned),
        "constant_target": plain(small._replace(y=np.full(120, 3.0)), **learned),
        "constant_columns": plain(small._replace(X=small.X * [1, 1, 0, 0, 1]), **learned),
        "tiny_table": plain(numbers(4, 3), **learned),
        "single_row": plain(numbers(1, 3), **learned),
        "lowrank": plain(table, rank=60, **learned),
        "lowrank_equal": plain(table, rank=60, **equal),
        "lowrank_weights": plain(table, {"sample_weight": weights(260)}, rank=60, **equal),
        "lowrank_two_outputs": plain(table._replace(y=two), rank=60, **equal),
        "lowrank_mixed_columns": plain(mix, rank=50, **equal),
        "lowrank_given_groups": plain(
            small, cv=list(GroupKFold(4).split(small.X, groups=groups)), solver="lowrank", rank=40, **equal
        ),
        "pcg": plain(table, solver="pcg", rank=60, **equal),
        "pcg_weights": plain(table, {"sample_weight": weights(260)}, solver="pcg", rank=60, **equal),
        "random_features": plain(table, solver="features", rank=120, **equal),
        "divide": plain(table, solver="divide", rank=90, **equal),
        "divide_weights": plain(table, {"sample_weight": weights(260)}, solver="divide", rank=90, **equal),
        "more_than_3000_rows": plain(numbers(3200, 4, 6), order=2, relevance="equal", rank=80, random_state=0),
        "blocks": Setting(blocks, table.new),
        "memory_map": Setting(memory_map, table.new),
        "dask": Setting(lambda: on_a_cluster(table, equal), table.new),
    }


def on_a_cluster(data: Data, parameters: dict[str, Any]) -> Any:
    """Fit on a local Dask cluster of two worker processes; return the model without the cluster."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    from salsa.distributed import DaskSalsaRegressor

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        X, y = da.from_array(data.X, chunks=(70, -1)), da.from_array(data.y, chunks=70)
        return DaskSalsaRegressor(client, rank=60, **parameters).fit(X, y).local()


def record(model: Any, rows: Any) -> dict[str, Any]:
    """Return the choices of a fitted model, and its function at some rows."""
    race = model.search_.race.drop(columns="seconds")
    tried = model.search_.table.drop(columns="seconds")
    found = {
        "order": model.order_,
        "notes": list(model.search_.notes),
        "race": race[["kernel", "order", "features", "won"]].to_numpy().tolist(),
        "tried": tried[["order", "chosen"]].to_numpy().tolist(),
        "alpha": np.array(model.alpha_),
        "relevance": model.relevance_,
        "bandwidth": model.bandwidth_,
        "race_errors": race[["error", "standard_error"]].to_numpy(float),
        "tried_errors": tried[["alpha", "cv_error", "standard_error", "degrees_of_freedom"]].to_numpy(float),
        "prediction": model.predict(rows),
    }
    try:
        found |= {"sd": model.predict(rows, return_std=True)[1], "interval": model.predict_interval(rows, COVERAGE)}
    except ValueError:
        found |= {"sd": None, "interval": None}
    return found


def fitted() -> Iterator[tuple[str, Any, Any]]:
    """Fit the settings one by one: name, model, rows."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, setting in make_settings(Path(folder)).items():
            yield name, setting.fit(), setting.rows


def recorded_by(source: str) -> dict[str, dict[str, Any]]:
    """Return what a process that imports salsa from this source folder records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.pickle")
        environment = os.environ | {"PYTHONPATH": str(Path(source).resolve())}
        subprocess.run([sys.executable, __file__, "record", str(path)], check=True, env=environment)
        found: dict[str, dict[str, Any]] = pickle.loads(path.read_bytes())
    return found


def differences(one: dict[str, Any], other: dict[str, Any], within: float, without: list[str]) -> list[str]:
    """Return the names of the entries in which two records differ, with the largest relative difference."""
    names = [name for name in one if name not in without]
    return [text for name in names if (text := _difference(name, one[name], other[name], within))]


def _difference(name: str, one: Any, other: Any, within: float) -> str:
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return "" if one == other else f"{name}: {one} and {other}"
    if one.shape != other.shape or (np.isfinite(one) != np.isfinite(other)).any():
        return f"{name}: shapes {one.shape} and {other.shape}, or infinite elsewhere"
    finite = np.isfinite(one)
    scale = np.abs(one[finite]).max(initial=0.0)
    gap = np.abs(one[finite] - other[finite]).max(initial=0.0) / (scale or 1.0)
    return "" if gap <= within else f"{name} {gap:.1e}"


def compare(source: str, within: float, without: list[str]) -> int:
    """Print the settings that differ between this tree and another; return 1 where there are some."""
    here, there = recorded_by(str(ROOT / "src")), recorded_by(source)
    found = {name: differences(there[name], here[name], within, without) for name in here}
    for name, texts in found.items():
        print(f"{name:32} {'; '.join(texts) if texts else 'equal'}")
    equal = sum(not texts for texts in found.values())
    print(f"{equal} of {len(found)} settings are equal" + (f" within {within:g}" if within else ", bit for bit"))
    return int(equal < len(found))


def write(folder: Path) -> None:
    """Write what the fit of every setting gives, as the tests expect it from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name, model, rows in fitted():
        found = record(model, rows)
        expected[name] = {key: plain_list(value) for key, value in found.items()}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


def plain_list(value: Any) -> Any:
    """Return arrays as nested lists rounded to 12 digits, which JSON can hold; anything else unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    return np.vectorize(lambda number: float(f"{number:.12g}"), otypes=[float])(value).tolist() if value.size else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("compare", "write", "record"))
    parser.add_argument("path")
    parser.add_argument("--within", type=float, default=0.0)
    parser.add_argument("--without", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.command == "compare":
        return compare(arguments.path, arguments.within, arguments.without)
    if arguments.command == "write":
        write(Path(arguments.path))
    else:
        Path(arguments.path).write_bytes(pickle.dumps({name: record(model, rows) for name, model, rows in fitted()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
