"""Progress of a fit, as callbacks and standard error report it."""

import io
import re
import sys

import numpy as np
import pytest

import salsa.selection.race
from salsa import SalsaRegressor
from salsa._utils.progress import LOG_PAUSE, SILENT, TERMINAL_PAUSE, Line, Progress, each

X = np.random.default_rng(0).uniform(-1, 1, (120, 4))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


class Listener:
    def __init__(self):
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.heard.append(f"begin {context.task_name} {X.shape}")

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        ready = None if fitted_estimator is None else float(fitted_estimator.score(X, y))
        self.heard.append((context.task_name, metadata, ready))

    def teardown(self, estimator, context):
        self.heard.append("teardown")


@pytest.fixture
def callback():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    return Listener()


def test_callbacks_hear_of_every_kernel_and_order_tried(callback):
    model = SalsaRegressor(random_state=0).set_callbacks(callback).fit(X, y)
    assert callback.heard[:2] == ["setup", "begin fit (120, 4)"]
    assert callback.heard[-1] == "teardown"
    tasks = [entry for entry in callback.heard if isinstance(entry, tuple)]
    errors = [metadata["error"] for _, metadata, _ in tasks[:-1]]
    contenders, orders = model.search_.race["error"].tolist(), model.search_.table["cv_error"].tolist()
    assert errors == contenders + orders
    assert tasks[-1][0] == "fit"
    assert tasks[-1][2] == model.score(X, y)


@pytest.mark.parametrize(("loss", "unit"), [("squared_error", "variance"), ("gamma", "loss of the best constant")])
def test_errors_of_orders_are_reported_in_the_unit_of_the_loss(capsys, loss, unit):
    SalsaRegressor(loss=loss, order=1, relevance="equal", random_state=0, verbose=1).fit(X[:40], np.exp(y[:40]))
    assert re.search(rf"order 1: error [\d.]+ \+- [\d.]+ of the {unit}, ", capsys.readouterr().err)


def test_callbacks_are_torn_down_after_an_error(callback):
    with pytest.raises(ValueError, match="kernel"):
        SalsaRegressor(kernel="none").set_callbacks(callback).fit(X, y)
    assert callback.heard[-1] == "teardown"


def test_callbacks_change_nothing(callback):
    with_them = SalsaRegressor(random_state=0).set_callbacks(callback).fit(X, y)
    without = SalsaRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(with_them.predict(X), without.predict(X))


EQUAL = {"order": 1, "relevance": "equal", "rank": 20, "random_state": 0}
PHASES = {
    "pcg": (
        *("choosing anchors: 100 %", "products of features: 100 %", "kernel matrix.*: 100 %", "alpha .*error"),
        *("fits without each fold: .*residual", "fit to all rows: .*residual", "residual 1 in float64: 100 %"),
        "uncertainty",
    ),
    "lowrank": (
        *("choosing anchors: 100 %", "sums over all rows: 100 %", "fits without each fold: 100 %"),
        *("some held-out residuals: 100 %", "sizes of held-out residuals: 100 %"),
    ),
    "features": ("sums over all rows: 100 %", "fits without each fold: 100 %", "choosing anchors: 100 %"),
    "divide": ("alpha: 100 %", "fits to parts of the rows: 100 %"),
}


@pytest.mark.parametrize("solver", PHASES)
def test_every_phase_of_a_large_fit_is_reported(capsys, solver):
    noisy = y + 0.3 * np.random.default_rng(1).normal(size=len(y))
    model = SalsaRegressor(solver=solver, verbose=1, **EQUAL).fit(X, noisy)
    heard = capsys.readouterr().err
    lines = heard.splitlines()
    assert all(line.startswith("[salsa] ") for line in lines)
    places = [lines.index(line) for phase in PHASES[solver] for line in lines if re.search(f"] {phase}", line)]
    assert len(set(places)) >= len(PHASES[solver])
    assert f"[salsa] order {model.order_} on all {len(X)} rows ..." in lines
    assert lines[-1].startswith("[salsa] order 1: error")
    silent = SalsaRegressor(solver=solver, **EQUAL).fit(X, noisy)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(model.predict(X), silent.predict(X))


def test_blocks_of_a_table_are_counted(capsys):
    SalsaRegressor(verbose=1, **EQUAL).fit_blocks([(X[:50], y[:50]), (X[50:], y[50:])])
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[salsa\] reading the table: 120 rows, \d+\.\d s", first)


def test_learning_again_on_more_rows_is_reported(capsys, monkeypatch):
    monkeypatch.setattr(salsa.selection.race, "ROWS", (60, 100, 110))
    monkeypatch.setattr(salsa.selection.race, "STEADY", -np.inf)
    model = SalsaRegressor(random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    again = [line for line in lines if "learning again" in line]
    assert [re.search(r"on (\d+) rows: gained", line)[1] for line in again] == ["60", "100", "110"]
    assert len(lines) == len(model.search_.race) + len(again) + len(model.search_.table)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, seconds, steps=1000):
    """Return what is shown of so many steps in so many seconds, and of the end of their phase."""
    monkeypatch.setattr(sys, "stderr", stream)
    clock = Clock()
    line = Line(clock)
    for number in range(steps):
        clock.now = seconds * number / steps
        line.rewrite(f"phase: {100 * number // steps} %")
    line.write("phase: 100 %")
    line.close()
    return stream.getvalue()


class TestRateLimit:
    def test_a_file_gets_a_line_every_ten_seconds_and_the_end(self, monkeypatch):
        lines = shown(monkeypatch, io.StringIO(), 35.0).splitlines()
        assert LOG_PAUSE == 10.0
        assert [line.removeprefix("[salsa] phase: ") for line in lines] == ["28 %", "57 %", "85 %", "100 %"]

    def test_a_file_gets_only_the_end_of_a_short_phase(self, monkeypatch):
        assert shown(monkeypatch, io.StringIO(), 5.0) == "[salsa] phase: 100 %\n"

    def test_a_terminal_has_one_line_rewritten_five_times_a_second(self, monkeypatch):
        text = shown(monkeypatch, Terminal(), 4.0)
        assert TERMINAL_PAUSE == 0.2
        assert text.count("\n") == 1
        assert 15 <= text.count("\r") <= 21
        assert text.endswith("\r[salsa] phase: 100 %\n")

    def test_a_shorter_text_covers_a_longer_one(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        clock = Clock()
        line = Line(clock)
        clock.now = 1.0
        line.rewrite("a long text")
        line.write("short")
        assert stream.getvalue() == "\r[salsa] a long text\r[salsa] short      \n"

    def test_a_failed_fit_removes_its_last_text(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        with Progress(SalsaRegressor(verbose=1), X, y) as progress:
            progress.line.last = -np.inf
            progress.step("phase", 0.5)
        assert stream.getvalue() == "\r[salsa] phase: 50 %\r                   \r"


def test_shares_go_up_to_one():
    told = []
    assert list(each("abcd", told.append, 4)) == list("abcd")
    assert told == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_nobody_needs_to_listen():
    SILENT.step("phase", 0.5)
    SILENT.counting("phase", "units")()
    SILENT.done("phase")
