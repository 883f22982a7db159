"""Tests of comparisons by groups, forward in time and on a transformed target."""

import numpy as np
import pytest
from conftest import additive_truth
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit

from salsa import SalsaRegressor
from salsa.baselines import compare, leaderboard
from salsa.baselines.cross_validation import Inside, Method
from salsa.baselines.registry import RIVALS
from salsa.baselines.transformed_target import TransformedTarget
from salsa.data.forward_folds import ForwardFolds, forward_inside

QUICK = {"order": 1, "relevance": "equal", "random_state": 0}


class Witness(DummyRegressor):
    """A mean that keeps the groups that it was given."""

    seen: list = []  # noqa: RUF012  # shared by all copies

    def fit(self, X, y, groups=None):
        self.seen.append(None if groups is None else np.array(groups))
        return super().fit(X, y)


@pytest.fixture
def tasks(monkeypatch):
    """Return the tasks that a comparison makes; nothing is fitted."""
    made = []
    monkeypatch.setattr(leaderboard, "run_all", lambda tasks, *_: made.extend(tasks) or ())

    def run(*arguments, **options):
        with pytest.raises(KeyError):  # no method has a result
            compare(*arguments, **options)
        return made

    return run


def people(count=12, rows=5):
    X, y = additive_truth(count * rows, 3)
    return X, y, np.arange(len(y)) % count


class TestGroups:
    def test_groups_are_held_out_whole_in_balanced_folds(self, tasks):
        X, y, groups = people()
        (task,) = tasks(X, y, ["ridge"], cv=4, groups=[f"g{g}" for g in groups])
        for train, test in task.splits:
            assert not set(groups[train]) & set(groups[test])
            assert len(test) == 15
        assert sorted(np.concatenate([test for _, test in task.splits])) == list(range(60))
        for (train, _), inside in zip(task.splits, task.inside, strict=True):
            assert len(inside.folds) == 5
            for learned, judged in inside.folds:
                assert not set(groups[train][learned]) & set(groups[train][judged])

    def test_names_of_groups_do_not_matter(self, tasks):
        X, y, groups = people()
        one, other = tasks(X, y, ["ridge"], groups=groups) and tasks(X, y, ["ridge"], groups=[-g for g in groups])
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(one.splits, other.splits, strict=True))

    def test_fit_gets_the_groups_of_its_training_rows(self):
        X, y, groups = people()
        Witness.seen.clear()
        found = compare(X, y, {"witness": Witness(), "ols": LinearRegression()}, cv=3, groups=groups)
        assert (found.frame["status"] == "ok").all()
        assert [len(np.unique(seen)) for seen in Witness.seen] == [8, 8, 8]

    def test_salsa_equals_fits_with_groups(self):
        X, y, groups = people()
        y = y + np.random.default_rng(0).normal(size=12)[groups]
        row = compare(X, y, {"salsa": SalsaRegressor(**QUICK)}, cv=GroupKFold(3), groups=groups).frame.iloc[0]
        model, errors = SalsaRegressor(**QUICK), []
        for train, test in GroupKFold(3).split(X, y, groups):
            model.fit(X[train], y[train], groups=groups[train])
            errors.append(np.mean((model.predict(X[test]) - y[test]) ** 2))
        assert model.search_.rho > 0
        assert row["mse"] == pytest.approx(np.mean(errors), rel=1e-12)

    def test_training_rows_of_one_group_are_fitted_without_groups(self):
        X, y, groups = people(2, 20)
        Witness.seen.clear()
        assert compare(X, y, {"witness": Witness()}, cv=2, groups=groups).frame["status"][0] == "ok"
        assert Witness.seen == [None, None]

    @pytest.mark.parametrize(
        ("groups", "cv", "words"),
        [
            (np.zeros(59), 5, r"groups has the shape \(59,\): give one label for each of the 60 rows"),
            ([None, *range(59)], 5, "groups: row 0 has no label"),
            (np.zeros(60), 5, "groups: all rows are in the group 0.0; at least 2 groups are needed"),
            (np.arange(60) % 3, 5, "cv=5: there are only 3 groups; give at most one fold per group"),
            (np.arange(60) % 3, KFold(3), "cv: split 0 has rows of 3 groups both in training and in test"),
        ],
    )
    def test_invalid_groups_are_refused_before_any_method_runs(self, groups, cv, words):
        X, y, _ = people()
        with pytest.raises(ValueError, match=words):
            compare(X, y, ["ridge"], cv=cv, groups=groups)


class TestForwardFolds:
    @given(st.integers(2, 6), st.integers(0, 40))
    def test_distinct_stamps_equal_a_time_series_split(self, count, more):
        n = count + 1 + more
        pairs = zip(ForwardFolds(np.arange(n), count).split(), TimeSeriesSplit(count).split(np.empty(n)), strict=True)
        for ours, theirs in pairs:
            assert all(map(np.array_equal, ours, theirs))

    @given(st.lists(st.integers(1, 9), min_size=3, max_size=30), st.integers(2, 6))
    def test_stamps_are_never_cut(self, sizes, count):
        stamps, count = np.repeat(np.arange(len(sizes)), sizes), min(count, len(sizes) - 1)
        splits = list(ForwardFolds(stamps, count).split())
        assert len(splits) == count == ForwardFolds(stamps, count).get_n_splits()
        assert splits[-1][1][-1] == len(stamps) - 1
        for train, test in splits:
            assert len(test) > 0
            assert np.array_equal(train, np.arange(test[0]))
            assert stamps[train[-1]] < stamps[test[0]]

    def test_too_few_times_are_refused(self):
        with pytest.raises(ValueError, match="5 folds in time need 6 times, not 4: give at most 3 folds"):
            ForwardFolds([0, 0, 1, 2, 3], 5)
        with pytest.raises(ValueError, match="at least 3 times are needed"):
            ForwardFolds([0, 0, 1], 2)

    def test_training_rows_get_fewer_folds_where_times_are_few(self):
        folds = ForwardFolds(np.arange(12) // 2, 5)
        assert folds.at(np.arange(8)).count == 3
        assert folds.at(np.arange(4)) is None


class TestForwardInside:
    def test_the_splitter_splits_the_training_rows_again(self):
        X, y = additive_truth(48, 3)
        splits = list(TimeSeriesSplit(3).split(X))
        for (train, _), inside in zip(splits, forward_inside(TimeSeriesSplit(3), splits, X, y), strict=True):
            expected = TimeSeriesSplit(3).split(X[train])
            assert all(all(map(np.array_equal, *pair)) for pair in zip(inside, expected, strict=True))

    @pytest.mark.parametrize(
        "cv", [5, KFold(3, shuffle=True), [(np.arange(20), np.arange(20, 48))], PredefinedSplit([-1] * 20 + [0] * 28)]
    )
    def test_other_splits_leave_methods_their_own_folds(self, cv):
        X, y = additive_truth(48, 3)
        splits = list(KFold(5).split(X)) if cv == 5 else list(cv.split(X)) if hasattr(cv, "split") else cv
        assert forward_inside(cv, splits, X, y) == [None] * len(splits)

    def test_training_rows_too_few_for_the_splitter_keep_own_folds(self):
        X, y = additive_truth(48, 3)
        cv = TimeSeriesSplit(3, test_size=12)
        inside = forward_inside(cv, list(cv.split(X)), X, y)
        assert [folds is None for folds in inside] == [True, True, True]

    def test_salsa_is_tuned_forward_by_name(self):
        X, y = additive_truth(90, 3)
        cv, row = TimeSeriesSplit(3), compare(*additive_truth(90, 3), ["salsa-paper"], cv=TimeSeriesSplit(3)).frame
        errors, model = [], RIVALS["salsa-paper"].make()
        for train, test in cv.split(X):
            fitted = clone(model).set_params(cv=cv).fit(X[train], y[train])
            errors.append(np.mean((fitted.predict(X[test]) - y[test]) ** 2))
        assert row["mse"][0] == pytest.approx(np.mean(errors), rel=1e-12)

    @pytest.mark.parametrize("name", ["krr", "ridge", "lasso", "lar", "tree", "nw", "shepard", "spam", "backfitting"])
    def test_rivals_are_tuned_on_splits_that_train_on_half_of_the_rows(self, name):
        X, y = additive_truth(60, 3)
        inside = Inside(list(TimeSeriesSplit(5).split(X)))
        model = Method(name).make(inside=inside)
        (folds,) = [v for k, v in model.get_params().items() if k.split("__")[-1] == "cv" and isinstance(v, list)]
        assert [len(train) for train, _ in folds] == [30, 40, 50]
        assert model.fit(X, y).predict(X).shape == (60,)


class TestTransformedTarget:
    def test_smearing_predicts_the_mean(self):
        """The mean of exp(N(f, s^2)) is exp(f + s^2 / 2)."""
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(4000, 1))
        y = np.exp(1 + X[:, 0] + 0.8 * rng.normal(size=4000))
        model = TransformedTarget(LinearRegression(), "log").fit(X, y)
        np.testing.assert_allclose(model.predict([[0.5]]), np.exp(1.5 + 0.32), rtol=0.05)

    @pytest.mark.parametrize("name", ["log", "log1p", "sqrt"])
    def test_targets_without_noise_are_given_back(self, name):
        X = np.linspace(0, 1, 20)[:, None]
        y = {"log": np.exp, "log1p": np.expm1, "sqrt": np.square}[name](1 + X[:, 0])
        np.testing.assert_allclose(TransformedTarget(LinearRegression(), name).fit(X, y).predict(X), y, rtol=1e-12)

    def test_rivals_by_name_learn_the_transform(self):
        X, y = additive_truth(60, 3)
        plain, found = (compare(X, np.exp(y), ["ridge"], target_transform=name) for name in (None, "log"))
        assert found.frame["status"][0] == "ok"
        assert found.frame["mse"][0] != plain.frame["mse"][0]

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("log", "target_transform='log' needs targets above 0; row 2 has 0"),
            ("cube", "must be one of log, log1p, sqrt"),
        ],
    )
    def test_invalid_transforms_are_refused_before_any_method_runs(self, name, words):
        X, y = additive_truth(20, 3)
        y = np.abs(y) + 1
        y[2] = 0
        with pytest.raises(ValueError, match=words):
            compare(X, y, ["ridge"], target_transform=name)
