"""The leaderboard: equal folds for all methods, failures as rows, an enforced time limit, and numbers by formulas."""

import json
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

from salsa.baselines import compare
from salsa.baselines.encoding import TableEncoder, needs_encoding
from salsa.baselines.leaderboard import Comparison, standard_error


class Sleeper(BaseEstimator):
    def fit(self, X, y):
        time.sleep(10_000)

    def predict(self, X):
        return np.zeros(len(X))


class Raiser(BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("first line\nsecond line")

    def predict(self, X):
        return np.zeros(len(X))


class Crasher(Raiser):
    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGSEGV)


class Forgetful(Raiser):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), np.nan)


class Witness(DummyRegressor):
    """A regressor that records the rows that it is fitted to."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.seen.append(X[:, 0].copy())
        return super().fit(X, y)


def status_of(comparison):
    return dict(zip(comparison.frame["method"], comparison.frame["status"], strict=True))


def test_errors_equal_the_cross_validation_of_scikit_learn():
    X, y = additive_truth(60, 4)
    row = compare(X, y, {"ols": LinearRegression()}, cv=4).frame.iloc[0]
    folds = KFold(4, shuffle=True, random_state=0)
    errors = -cross_val_score(LinearRegression(), X, y, cv=folds, scoring="neg_mean_squared_error")
    assert row["mse"] == pytest.approx(errors.mean())
    assert row["mse_se"] == pytest.approx(errors.std(ddof=1) / 2)
    assert row["r2"] == pytest.approx(r2_score(y, cross_val_predict(LinearRegression(), X, y, cv=folds)))
    assert 0 < row["predict_seconds"] < 100
    assert 0 < row["fit_seconds"] < 100


def test_standard_error_is_sd_over_sqrt_k_and_nan_for_one_value():
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert np.isnan(standard_error([1.0]))


def test_all_methods_see_the_same_folds():
    X, y = additive_truth(30, 3)
    Witness.seen.clear()
    compare(X, y, {"a": Witness(), "b": Witness()}, cv=3)
    first, second = Witness.seen[:3], Witness.seen[3:]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert sorted(np.concatenate([np.setdiff1d(X[:, 0], rows) for rows in first])) == sorted(X[:, 0])


def test_a_failure_is_a_row_and_does_not_stop_other_methods():
    X, y = additive_truth(60, 3)
    found = compare(X, y, {"bad": Raiser(), "nan": Forgetful(), "mean": DummyRegressor(), "ols": LinearRegression()})
    assert list(found.frame["method"]) == ["ols", "mean", "bad", "nan"]
    assert found.best == "ols"
    status = status_of(found)
    assert status["bad"] == "failed: RuntimeError: first line second line"
    assert status["nan"].startswith("failed: ValueError: 12 of 12 predictions are not finite")
    assert np.isnan(found.frame["mse"][2:]).all()


def test_methods_that_hang_crash_or_raise_do_not_stop_a_run_with_a_time_limit():
    """Classes that this file defines must reach the other process, too."""
    X, y = additive_truth(40, 3)
    methods = {"sleeper": Sleeper(), "crasher": Crasher(), "raiser": Raiser(), "ols": LinearRegression()}
    found = compare(X, y, methods, cv=2, time_limit=10, n_jobs=2)  # the others take milliseconds
    assert status_of(found) == {
        "ols": "ok",
        "sleeper": "timed out",
        "crasher": "failed: its process ended without an answer (SIGSEGV)",
        "raiser": "failed: RuntimeError: first line second line",
    }
    here = compare(X, y, {"ols": LinearRegression()}, cv=2)
    assert found.frame["mse"].iloc[0] == pytest.approx(here.frame["mse"].iloc[0], rel=1e-12)


def test_registered_methods_give_the_same_error_in_a_separate_process():
    X, y = additive_truth(40, 3)
    here, apart = compare(X, y, ["ridge"], cv=2), compare(X, y, ["ridge"], cv=2, time_limit=600)
    assert apart.frame["mse"].iloc[0] == pytest.approx(here.frame["mse"].iloc[0], rel=1e-9)


def mixed_table():
    X, y = additive_truth(100, 3)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table.loc[::7, "a"] = np.nan
    table["g"] = pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))
    return table, y


def test_categories_and_missing_values_are_encoded_for_rivals():
    table, y = mixed_table()
    status = status_of(compare(table, y, ["salsa-paper", "ridge"], cv=2))
    assert set(status.values()) == {"ok"}
    status = status_of(compare(table, y, {"ols": LinearRegression()}, cv=2))
    assert status["ols"].startswith("failed: ValueError: ")
    assert "\n" not in status["ols"]


def test_encoded_tables_have_medians_and_a_column_per_level():
    table, _ = mixed_table()
    encoder = TableEncoder().fit(table)
    encoded = encoder.transform(table)
    assert encoded.shape == (100, 5)
    median = table["a"].median()
    np.testing.assert_array_equal(encoded[:, 0], table["a"].fillna(median))
    np.testing.assert_array_equal(encoded[:, 3:], np.column_stack([table["g"] == "u", table["g"] == "v"]))
    with pytest.warns(UserWarning, match="not seen in training"):
        strange = encoder.transform(table.assign(g="w")[:1])
    np.testing.assert_array_equal(strange[0, 3:], 0.0)
    assert needs_encoding(table)
    assert not needs_encoding(table[["b", "c"]])


def test_the_result_has_text_html_and_json():
    X, y = additive_truth(40, 3)
    found = compare(X, y, {"bad": Raiser(), "ols": LinearRegression()}, cv=2)
    assert len(found) == 2
    assert repr(found).splitlines()[1].split()[0] == "ols"
    assert "<table" in found._repr_html_()
    rows = json.loads(found.to_json())
    assert [row["method"] for row in rows] == ["ols", "bad"]
    assert rows[1]["mse"] is None


def test_the_best_is_drawn_on_top_and_wide_ranges_on_a_log_axis():
    frame = pd.DataFrame({"method": ["a", "b", "c"], "mse": [0.001, 1.0, np.nan], "mse_se": [0.1, 0.1, np.nan]})
    ax = Comparison(frame.assign(status=["ok", "ok", "timed out"])).plot().ax_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["b", "a"]
    assert ax.get_xscale() == "log"
    near = frame.assign(mse=[0.9, 1.0, np.nan], status=["ok", "ok", "timed out"])
    assert Comparison(near).plot().ax_.get_xscale() == "linear"
    with pytest.raises(ValueError, match="no method finished: a timed out; b timed out"):
        Comparison(frame.assign(status="timed out")).plot()


def test_progress_is_printed_only_if_verbose(capsys):
    X, y = additive_truth(40, 3)
    compare(X, y, {"ols": LinearRegression()}, cv=2, verbose=1)
    assert capsys.readouterr().err.startswith("[salsa] ols: mse ")
    compare(X, y, {"ols": LinearRegression()}, cv=2)
    assert capsys.readouterr().err == ""


def test_given_splits_are_used():
    X, y = additive_truth(40, 3)
    splits = [(np.arange(20), np.arange(20, 40))]
    row = compare(X, y, {"mean": DummyRegressor()}, cv=splits).frame.iloc[0]
    assert row["mse"] == pytest.approx(np.mean((y[20:] - y[:20].mean()) ** 2))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"methods": ["rigde"]}, "did you mean 'ridge'"),
        ({"methods": []}, "methods is empty"),
        ({"methods": {"class": LinearRegression}}, "methods: 'class' is not an estimator"),
        ({"cv": 1}, "at least 2 folds"),
        ({"cv": 50}, "only 20 rows"),
        ({"cv": [(np.arange(0), np.arange(5))]}, "every split needs rows"),
        ({"time_limit": 0}, "time_limit=0 must be"),
        ({"n_jobs": 0}, "n_jobs=0 must be"),
    ],
)
def test_invalid_arguments_are_refused_before_any_method_runs(settings, words):
    X, y = additive_truth(20, 3)
    with pytest.raises(ValueError, match=words):
        compare(X, y, **settings)


def test_a_missing_target_is_refused_with_its_row():
    X, y = additive_truth(20, 3)
    y[7] = np.nan
    with pytest.raises(ValueError, match="y is nan in row 7"):
        compare(X, y, ["ridge"])
