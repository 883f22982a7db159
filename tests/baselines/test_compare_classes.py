"""Comparisons of classifiers: which targets are classes, stratified folds, and scores by their formulas."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from salsa import SalsaClassifier
from salsa.baselines import compare, leaderboard
from salsa.baselines.class_targets import (
    brier_scores,
    find_task,
    log_losses,
    probabilities,
    true_class_score,
)
from salsa.data.targets import class_labels

X, CODE = load_iris(return_X_y=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[CODE]
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


class Fixed(ClassifierMixin, BaseEstimator):
    """A classifier that predicts given numbers for every row."""

    def __init__(self, row=()):
        self.row = row

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        return np.tile(np.asarray(self.row, dtype=float), (len(X), 1))


class Witness(DummyClassifier):
    """A classifier that keeps the classes and groups that it was given."""

    seen: list = []  # noqa: RUF012  # shared by all copies

    def fit(self, X, y, groups=None):
        self.seen.append((np.array(y), groups))
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


class TestTask:
    @pytest.mark.parametrize(
        "y",
        [
            ["a", "b", "a"],
            np.array(["a", "b"]),
            np.array([True, False]),
            [True, False, True],
            pd.Series(["a", None, "b"]),
            pd.Series([True, None], dtype="boolean"),
            pd.Series(pd.Categorical([3, 1])),
            pd.Categorical([3, 1]),
            np.array([["a"], ["b"]]),
            pd.DataFrame({"y": ["a", "b"]}),
            ["1", "2"],
        ],
    )
    def test_text_booleans_and_categories_are_classes(self, y):
        assert find_task(y) == "classification"
        assert find_task(y, "regression") == "regression"

    @pytest.mark.parametrize(
        "y", [[0, 1], [0.0, 1.0], np.arange(3), pd.Series([0, 1]), np.array([0.5, 1], dtype=object), np.float32([1, 2])]
    )
    def test_numbers_are_classes_only_if_the_task_says_so(self, y):
        assert find_task(y) == "regression"
        assert find_task(y, "classification") == "classification"

    def test_polars_columns_are_recognised(self):
        pl = pytest.importorskip("polars")
        assert find_task(pl.Series(["a", "b"])) == "classification"
        assert find_task(pl.Series([True, False])) == "classification"
        assert find_task(pl.Series([1.0, 2.0])) == "regression"

    def test_labels_are_sorted_and_numbered(self):
        labels = class_labels(pd.Series(["b", "a", "b"]))
        assert labels.classes.tolist() == ["a", "b"]
        assert labels.code.tolist() == [1, 0, 1]


class TestScores:
    def test_losses_equal_their_formulas(self):
        probability, code = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]]), np.array([1, 0, 1])
        np.testing.assert_allclose(log_losses(probability, code), [-np.log(0.8), np.log(2), 52 * np.log(2)])
        np.testing.assert_allclose(brier_scores(probability, code), [0.08, 0.5, 2.0])

    def test_classes_that_a_model_has_not_seen_have_probability_zero(self):
        model = Fixed((0.3, 0.7)).fit(None, ["a", "c"])
        np.testing.assert_array_equal(probabilities(model, [0], np.array(["a", "b", "c"])), [[0.3, 0.0, 0.7]])
        assert true_class_score(model, [0], ["b"]) == pytest.approx(-52 * np.log(2))
        assert true_class_score(model, [0, 0], ["a", "c"]) == pytest.approx((np.log(0.3) + np.log(0.7)) / 2)

    @pytest.mark.parametrize(
        ("row", "words"),
        [
            ((0.5, 0.5), "predict_proba gives the shape (30, 2) for 3 classes"),
            ((0.5, 0.5, np.nan), "30 of 30 rows have no probabilities"),
            ((0.5, 0.5, 0.5), "negative or do not sum to 1"),
            ((1.5, -0.5, 0.0), "negative or do not sum to 1"),
        ],
    )
    def test_invalid_probabilities_are_a_failure_of_the_method(self, row, words):
        found = compare(X, SPECIES, {"fixed": Fixed(row)}).frame.iloc[0]
        assert found["status"].startswith("failed: ValueError: ")
        assert words in found["status"]
        assert np.isnan(found["log_loss"])


class TestComparison:
    def test_scores_equal_the_cross_validation_of_scikit_learn(self):
        row = compare(X, SPECIES, {"nb": GaussianNB()}).frame.iloc[0]
        losses = -cross_val_score(GaussianNB(), X, SPECIES, cv=FOLDS, scoring="neg_log_loss")
        together = cross_val_predict(GaussianNB(), X, SPECIES, cv=FOLDS, method="predict_proba")
        assert row["log_loss"] == pytest.approx(losses.mean())
        assert row["log_loss_se"] == pytest.approx(losses.std(ddof=1) / np.sqrt(5))
        assert row["brier"] == pytest.approx(np.mean(np.sum((together - np.eye(3)[CODE]) ** 2, axis=1)))
        assert row["accuracy"] == pytest.approx(np.mean(together.argmax(axis=1) == CODE))
        assert 0 < row["fit_seconds"] < 100

    def test_rivals_by_name_are_ordered_by_log_loss(self):
        found = compare(X, SPECIES, ["tree", "naive-bayes", "LOGREG"], cv=3)
        assert set(found.frame["method"]) == {"tree", "naive-bayes", "logistic"}
        assert (found.frame["status"] == "ok").all()
        assert found.frame["log_loss"].is_monotonic_increasing
        assert found.best == found.frame["method"][0]
        assert found.error == "log_loss"
        assert (found.frame["accuracy"] > 0.9).all()

    def test_numbers_as_classes_give_the_scores_of_text(self):
        text = compare(X, SPECIES, ["naive-bayes"], cv=3).frame
        numbers = compare(X, 10 * CODE, ["naive-bayes"], cv=3, task="classification").frame
        scores = ["log_loss", "brier", "accuracy"]
        pd.testing.assert_frame_equal(text[scores], numbers[scores])

    def test_booleans_can_be_compared_as_numbers(self):
        found = compare(X, SPECIES == "setosa", {"ols": LinearRegression()}, task="regression")
        assert found.error == "mse"
        assert found.frame["r2"][0] > 0.5

    def test_a_separate_process_gives_the_same_scores(self):
        here, apart = (compare(X, SPECIES, ["naive-bayes"], cv=2, time_limit=limit).frame for limit in (None, 600))
        assert apart["log_loss"][0] == pytest.approx(here["log_loss"][0], rel=1e-9)

    def test_categories_and_missing_values_are_encoded_for_rivals(self):
        table = pd.DataFrame(X, columns=list("abcd"))
        table.loc[::7, "a"] = np.nan
        table["e"] = pd.Categorical(np.where(X[:, 1] > 3, "u", "v"))
        assert compare(table, SPECIES, ["logistic"], cv=2).frame["status"][0] == "ok"

    def test_estimators_get_labels_as_they_were_given(self):
        Witness.seen.clear()
        compare(X, SPECIES, {"witness": Witness()}, cv=2)
        assert set(Witness.seen[0][0]) == set(SPECIES)

    def test_rivals_get_numbers_of_classes(self, tasks):
        (task,) = tasks(X, SPECIES, ["knn"])
        assert np.array_equal(task.y, CODE)
        assert task.classes.tolist() == [0, 1, 2]

    def test_salsa_equals_its_own_fits_and_gets_the_groups(self):
        rows, groups = np.arange(0, 150, 2), np.arange(75) % 15
        folds = StratifiedGroupKFold(2)
        row = compare(X[rows], SPECIES[rows], ["salsa"], cv=folds, groups=groups).frame.iloc[0]
        losses = []
        for train, test in folds.split(X[rows], CODE[rows], groups):
            model = SalsaClassifier(random_state=0, n_jobs=1)
            model.fit(X[rows][train], CODE[rows][train], groups=pd.factorize(groups[train])[0])
            losses.append(log_loss(CODE[rows][test], model.predict_proba(X[rows][test])))
        assert row["status"] == "ok"
        assert row["log_loss"] == pytest.approx(np.mean(losses), rel=1e-9)

    def test_salsa_is_among_the_quick_methods(self, tasks):
        assert [task.method.name for task in tasks(X, SPECIES)] == list(leaderboard.FAST_CLASSIFIERS)
        assert "salsa" in leaderboard.FAST_CLASSIFIERS

    def test_log_losses_are_drawn(self):
        axes = compare(X, SPECIES, {"nb": GaussianNB(), "prior": DummyClassifier()}, cv=2).plot().ax_
        assert axes.get_xlabel().startswith("log loss")
        assert [tick.get_text() for tick in axes.get_yticklabels()] == ["prior", "nb"]

    def test_progress_names_the_log_loss(self, capsys):
        compare(X, SPECIES, {"nb": GaussianNB()}, cv=2, verbose=1)
        assert capsys.readouterr().err.startswith("[salsa] nb: log loss 0.")


class TestSplits:
    def test_folds_are_stratified_and_the_same_for_all(self, tasks):
        first, second = tasks(X, SPECIES, ["knn", "tree"])
        assert first.splits is second.splits
        for train, test in first.splits:
            assert np.bincount(CODE[test]).tolist() == [10, 10, 10]
            assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(150))

    def test_groups_are_held_out_whole_also_while_tuning(self, tasks):
        groups = np.arange(150) % 15
        (task,) = tasks(X, SPECIES, ["knn"], cv=3, groups=groups)
        for (train, test), inside in zip(task.splits, task.inside, strict=True):
            assert not set(groups[train]) & set(groups[test])
            for learned, judged in inside.folds:
                assert not set(groups[train][learned]) & set(groups[train][judged])
        model = task.method.make(inside=task.inside[0])
        assert all(map(np.array_equal, model.cv[0], task.inside[0].folds[0]))
        assert len(model.cv) == 5

    def test_folds_inside_that_lack_a_class_are_left_out(self, tasks):
        """Group 0 holds the only rows of the class c but one, which is in group 1: no fold may hold out both."""
        groups = np.arange(60) % 12
        y = np.where(groups == 0, "c", np.where(np.arange(60) % 2, "a", "b"))
        y[1], y[2] = "c", "c"
        splits = [(np.flatnonzero(groups != 11), np.flatnonzero(groups == 11))]
        (task,) = tasks(np.zeros((60, 1)), y, ["knn"], cv=splits, groups=groups)
        train = splits[0][0]
        assert 1 <= len(task.inside[0].folds) <= 5
        assert all(set(y[train][learned]) == {"a", "b", "c"} for learned, _ in task.inside[0].folds)

    def test_fit_gets_the_groups_of_its_training_rows(self):
        Witness.seen.clear()
        compare(X, SPECIES, {"witness": Witness()}, cv=3, groups=np.arange(150) % 15)
        assert [len(np.unique(groups)) for _, groups in Witness.seen] == [10, 10, 10]

    def test_later_rows_judge_with_a_forward_splitter(self, tasks):
        order = np.random.default_rng(0).permutation(150)
        (task,) = tasks(X[order], SPECIES[order], ["knn"], cv=TimeSeriesSplit(3))
        for inside in task.inside:
            assert all(learned.max() < judged.min() for learned, judged in inside.folds)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"methods": ["ridge"]}, "'ridge' predicts numbers, and the target is a class"),
            ({"methods": {"ols": LinearRegression()}}, "'ols' has no predict_proba, which classes need"),
            ({"methods": {"svm": LinearSVC()}}, "'svm' has no predict_proba, which classes need"),
            ({"task": "classes"}, "task='classes' must be one of auto, regression, classification"),
            ({"target_transform": "log"}, "target_transform='log' is for numbers; y has classes"),
            ({"cv": 60}, "class 'setosa' has 50 of 150 rows, and 60 folds need 60"),
            ({"cv": [(np.arange(60), np.arange(60, 150))]}, "split 0 trains without rows of the class 'virginica'"),
            ({"groups": SPECIES, "cv": 3}, "split 0 trains without rows of the class"),
        ],
    )
    def test_invalid_arguments_are_refused_before_any_method_runs(self, settings, words, monkeypatch):
        monkeypatch.setattr(leaderboard, "run_all", None)
        with pytest.raises(ValueError, match=words):
            compare(X, SPECIES, **({"methods": ["knn"]} | settings))

    @pytest.mark.parametrize(
        ("y", "words"),
        [
            (["a"] * 149 + [None], "y: row 149 has no label"),
            (["a"] * 150, "y has one class, 'a': a classifier needs rows of at least two classes"),
            ([*SPECIES[:148], "b", "b"], "class 'b' has 2 of 150 rows, and 5 folds need 5"),
            (SPECIES[:-1], "inconsistent numbers of samples"),
        ],
    )
    def test_invalid_classes_are_refused(self, y, words):
        with pytest.raises(ValueError, match=words):
            compare(X, y, ["knn"])

    def test_labels_of_different_types_are_refused(self):
        with pytest.raises(ValueError, match="y has labels of different types"):
            compare(X, np.array(["a", 1] * 75, dtype=object), ["knn"], task="classification")

    @pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC()])
    def test_a_classifier_of_numbers_needs_the_task(self, model):
        with pytest.raises(ValueError, match="'model' is a classifier, and y is a number: give task='classification'"):
            compare(X, CODE, {"model": model})


def test_the_score_of_a_search_is_the_log_loss_of_scikit_learn():
    model = GaussianNB().fit(X, CODE)
    assert true_class_score(model, X, CODE) == pytest.approx(-log_loss(CODE, model.predict_proba(X)))
