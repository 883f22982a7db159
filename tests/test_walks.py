"""Walks: which files of salsa a call enters. Data pass from above to below and do not turn back.

A file is entered when one of its functions is called from another file of salsa; frames of other libraries between the
two do not count, a return is no entry, and ``_utils`` does not count.
"""

import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import additive_truth

import salsa
from salsa import SalsaRegressor

ROOT = str(Path(salsa.__file__).parent) + "/"
ABOVE = {"regressor.py", "distributed.py", "options.py", "fitting.py"}
#: Packages by height: none may enter a file of a higher one
HEIGHTS = [
    "kernels",
    "expansion.py",
    "data",
    "losses.py",
    "uncertainty",
    "solvers",
    "learning",
    "selection",
    "fitting.py",
]


@cache
def file_of(code):
    """The file below salsa that has this code, without _utils; None for code of other libraries."""
    name = code.co_filename
    if not name.startswith(ROOT) or "/_utils/" in name or code.co_name == "<module>":
        return None
    return name.removeprefix(ROOT)


def caller_of(frame):
    """The nearest file of salsa up the stack."""
    frame = frame.f_back
    while frame is not None:
        if (name := file_of(frame.f_code)) is not None:
            return name
        frame = frame.f_back
    return None


class Walk:
    """The entries of one call: pairs of files (from, to), in order."""

    def __init__(self, call):
        self.entries = []
        threading.setprofile(self._listen)
        sys.setprofile(self._listen)
        try:
            self.result = call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _listen(self, frame, event, _):
        if event == "call" and (name := file_of(frame.f_code)) is not None and (caller := caller_of(frame)) != name:
            self.entries.append((caller, name))

    @property
    def files(self):
        return list(dict.fromkeys(name for _, name in self.entries))

    def times(self, name):
        return sum(entered == name for _, entered in self.entries)


def height(name):
    top = name.split("/")[0]
    return HEIGHTS.index(top) if top in HEIGHTS else None


def assert_straight(walk, *estimators):
    """The estimator, options and fitting are entered once, and no numeric package enters a file above it."""
    for name in (*estimators, "options.py", "fitting.py"):
        assert walk.times(name) == 1, [entry for entry in walk.entries if entry[1] == name]
    for caller, name in walk.entries:
        if caller is not None and height(caller) is not None and caller != "fitting.py":
            assert name not in ABOVE, f"{caller} enters {name}"
            assert height(name) is None or height(name) <= height(caller) or name.startswith("data/"), (caller, name)


def fitted(walk, most):
    assert len(walk.files) <= most, (len(walk.files), walk.files)


def test_a_fit_of_1000_rows_passes_at_most_41_files():
    X, y = additive_truth(n=1000)
    model = SalsaRegressor(random_state=0).fit(X[:100], y[:100])  # imports on first use are no part of the walk
    walk = Walk(lambda: model.fit(X, y))
    assert_straight(walk, "regressor.py")
    fitted(walk, 41)


def test_a_low_rank_fit_passes_at_most_41_files():
    X, y = additive_truth(n=1000)
    model = SalsaRegressor(rank=60, random_state=0).fit(X[:100], y[:100])
    walk = Walk(lambda: model.fit(X, y))
    assert_straight(walk, "regressor.py")
    fitted(walk, 41)


def test_a_fit_from_blocks_does_not_turn_back():
    X, y = additive_truth(n=600)
    blocks = [(X[:300], y[:300]), (X[300:], y[300:])]
    model = SalsaRegressor(rank=60, relevance="equal", random_state=0).fit_blocks(blocks)
    assert_straight(Walk(lambda: model.fit_blocks(blocks)), "regressor.py")


def test_a_fit_of_a_dask_array_does_not_turn_back():
    da = pytest.importorskip("dask.array")
    from dask.distributed import Client

    from salsa.distributed import DaskSalsaRegressor

    X, y = additive_truth(n=600)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        model = DaskSalsaRegressor(client, rank=60, relevance="equal", random_state=0)
        collections = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
        model.fit(*collections)
        assert_straight(Walk(lambda: model.fit(*collections)), "distributed.py")


def test_a_prediction_passes_8_files():
    X, y = additive_truth(n=200)
    model = SalsaRegressor(random_state=0).fit(X, y)
    walk = Walk(lambda: model.predict(X[:5]))
    assert walk.times("regressor.py") == 1
    fitted(walk, 8)
    np.testing.assert_array_equal(walk.result, model.predict(X[:5]))


def test_fitting_a_csv_file_passes_at_most_65_files(tmp_path):
    from typer.testing import CliRunner

    from salsa.cli import app

    X, y = additive_truth(n=300)
    path, out = tmp_path / "t.csv", tmp_path / "m.salsa"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,f,y", comments="")
    arguments = ["fit", str(path), "--target", "y", "--out", str(out)]
    CliRunner().invoke(app, arguments)
    walk = Walk(lambda: CliRunner().invoke(app, arguments))
    assert walk.result.exit_code == 0
    fitted(walk, 65)
