"""Progress of a fit, as callbacks and standard error report it."""

import numpy as np
import pytest

from salsa import SalsaRegressor

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


def test_callbacks_are_torn_down_after_an_error(callback):
    with pytest.raises(ValueError, match="kernel"):
        SalsaRegressor(kernel="none").set_callbacks(callback).fit(X, y)
    assert callback.heard[-1] == "teardown"


def test_callbacks_change_nothing(callback):
    with_them = SalsaRegressor(random_state=0).set_callbacks(callback).fit(X, y)
    without = SalsaRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(with_them.predict(X), without.predict(X))


def test_the_long_end_of_a_large_fit_is_announced(capsys):
    model = SalsaRegressor(order=1, relevance="equal", rank=20, random_state=0, verbose=1).fit(X, y)
    *_, last, done = capsys.readouterr().err.splitlines()
    assert last == f"[salsa] order {model.order_} on all {len(X)} rows ..."
    assert done.startswith("[salsa] order 1: error")


def test_verbose_prints_as_many_lines_as_were_tried(capsys):
    model = SalsaRegressor(random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(model.search_.race) + len(model.search_.table)
    assert all(line.startswith("[salsa] ") for line in lines)
