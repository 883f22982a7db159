"""Tests of reports of rows in groups: what the page says, and standard errors and tests that count groups."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import salsa
from explain.test_report import payload_of, quick_model
from salsa import SalsaClassifier, SalsaRegressor
from salsa.explain import write_report
from salsa.explain.report.class_sets import _covered
from salsa.explain.report.held_out_groups import NEW_UNKNOWN, ONE_GROUP, TRAINING_UNKNOWN, UNCHECKED, folds_of_units
from salsa.explain.report.held_out_rows import coverage_of, training_rows
from salsa.explain.report.judged_rows import JudgedRows
from salsa.explain.report.number_quality import means_by_bins
from salsa.explain.report.plain_words import Group, _whom_words
from salsa.explain.report.scored_rows import ScoredRows, new_rows
from salsa.explain.subject import interval_ends
from salsa.fitted import fitted_of
from salsa.losses import Gamma, Logistic

HELD_OUT = (
    "The training rows are in 20 groups, which were held out whole: errors and intervals are for rows of new groups."
)


def grouped_table(groups=20, size=6, seed=0):
    """Return features, a target with a large level of every group, and the labels of the groups, in random order."""
    rng = np.random.default_rng(seed)
    person = rng.permutation(np.repeat(np.arange(groups), size))
    X = pd.DataFrame({"age": rng.uniform(20, 80, groups)[person], "dose": rng.uniform(0, 1, len(person))})
    y = X["age"] / 10 + 3 * X["dose"] + 2 * rng.normal(size=groups)[person] + 0.3 * rng.normal(size=len(person))
    return X, y.rename("score"), pd.Series(person, name="person").map("p{}".format)


def grouped_model(X, y, groups, **options):
    return SalsaRegressor(1, relevance="equal", alpha=0.1, random_state=0, **options).fit(X, y, groups=groups)


def by_group(values, groups):
    """Return the standard error of a mean: the root of the sum of squared sums of deviations, group by group."""
    away = np.asarray(values, dtype=float) - np.mean(values)
    labels = np.asarray(groups)
    return sum(away[labels == label].sum() ** 2 for label in set(labels.tolist())) ** 0.5 / len(away)


@pytest.fixture(scope="module")
def table():
    return grouped_table()


@pytest.fixture(scope="module")
def new_table():
    return grouped_table(15, 8, seed=1)


@pytest.fixture(scope="module")
def model(table):
    return grouped_model(*table)


class TestWords:
    def test_the_first_section_says_that_groups_were_held_out(self, model, table, new_table, tmp_path):
        X, y, groups = new_table
        report = partial(write_report, model, tmp_path / "r.html")
        for path in (report(), report(X, y), report(X, y, groups=groups)):
            assert payload_of(path)["fitted"]["summary"].endswith(f" {HELD_OUT}")
        alone = write_report(quick_model(*table[:2]), tmp_path / "r.html")
        assert "group" not in payload_of(alone)["fitted"]["summary"]

    def test_a_model_file_keeps_the_groups(self, model, tmp_path):
        model.save(tmp_path / "m.salsa")
        read = salsa.load(tmp_path / "m.salsa")
        first, second = (payload_of(write_report(fitted, tmp_path / "r.html")) for fitted in (model, read))
        assert first["fitted"]["summary"] == second["fitted"]["summary"]
        assert first["quality"] == second["quality"]

    def test_a_low_rank_model_says_that_groups_were_held_out(self, table, tmp_path):
        path = write_report(grouped_model(*table, solver="lowrank", rank=30), tmp_path / "r.html")
        assert payload_of(path)["fitted"]["summary"].endswith(f" {HELD_OUT}")

    def test_training_rows_are_predicted_without_their_groups(self, model, tmp_path):
        found = payload_of(write_report(model, tmp_path / "r.html"))
        assert (
            "120 rows (in 20 groups) that the model was tested on without having seen their groups"
            in (found["plain"]["statements"][0])
        )
        assert found["quality"]["scatters"][0]["title"] == "Training rows, each predicted without its group"
        assert "a fit without its group" in found["plain"]["note"]

    def test_groups_of_new_rows_are_said_or_missed(self, model, table, new_table, tmp_path):
        X, y, groups = new_table

        def notes(fitted, *, groups=None):
            return payload_of(write_report(fitted, tmp_path / "r.html", X, y, groups=groups))["quality"]["notes"]

        known = "The new rows are in 15 groups, which standard errors take as independent units."
        assert notes(model) == [NEW_UNKNOWN]
        assert notes(model, groups=groups) == [f"{known} {UNCHECKED}"]
        assert notes(model, groups=["p"] * len(y)) == [ONE_GROUP]
        alone = quick_model(*table[:2])
        assert notes(alone) == []
        assert notes(alone, groups=groups) == [known]

    def test_a_likelihood_fit_with_given_splits_does_not_keep_its_groups(self, tmp_path):
        X, y, groups = grouped_table()
        labels = np.where(y > y.median(), "high", "low")
        folds = groups.str[1:].astype(int).to_numpy() % 4
        splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(4)]
        settings = {"relevance": "equal", "alpha": 0.1}
        given = SalsaClassifier(1, cv=splits, **settings).fit(X, labels, groups=groups)
        own = SalsaClassifier(1, **settings).fit(X, labels, groups=groups)
        notes = [payload_of(write_report(m, tmp_path / "r.html"))["quality"]["notes"] for m in (given, own)]
        assert [TRAINING_UNKNOWN in found for found in notes] == [True, False]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"groups": [0, 1]}, "groups were given without y"),
            ({"y": np.zeros(120), "groups": [0, 1]}, "groups has the shape"),
        ],
    )
    def test_groups_without_targets_or_of_another_length_are_refused(self, given, words, model, new_table, tmp_path):
        with pytest.raises(ValueError, match=words):
            write_report(model, tmp_path / "r.html", new_table[0], **given)


class TestStandardErrors:
    def test_aggregated_counts_are_no_groups(self, tmp_path):
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"dose": np.repeat(np.arange(30.0), 2)})
        labels = np.tile(["no", "yes"], 30)
        model = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X, labels, sample_weight=rng.integers(1, 9, 60))
        found = payload_of(write_report(model, tmp_path / "r.html"))
        assert "groups)" not in found["plain"]["statements"][0]
        assert "group" not in found["fitted"]["summary"]

    def test_training_rows_have_the_units_of_their_groups(self, model, table):
        """Every target is in one row, which tells the group of every held-out row."""
        _, y, groups = table
        rows = training_rows(model, 0)
        label = {round(value, 6): group for value, group in zip(y, groups, strict=True)}
        pairs = {(label[round(value, 6)], unit) for value, unit in zip(rows.observed, rows.unit, strict=True)}
        assert len(pairs) == 20

    def test_later_rows_that_judge_have_the_units_of_their_groups(self):
        X, y, groups = grouped_table()
        order = np.argsort(groups.to_numpy(), kind="stable")
        X, y, groups = X.iloc[order], y.iloc[order], groups.iloc[order]
        splits = [(np.arange(n), np.arange(n, n + 30)) for n in (60, 90)]
        rows = training_rows(grouped_model(X, y, groups, cv=splits), 0)
        label = {round(value, 6): group for value, group in zip(y, groups, strict=True)}
        pairs = {(label[round(value, 6)], unit) for value, unit in zip(rows.observed, rows.unit, strict=True)}
        assert (len(rows.observed), len(pairs)) == (60, 10)

    @pytest.mark.parametrize("new", [False, True])
    def test_errors_of_r2_count_groups(self, new, model, table, new_table, tmp_path):
        X, y, groups = new_table if new else table
        given = (X, y) if new else ()
        found = payload_of(write_report(model, tmp_path / "r.html", *given, groups=groups if new else None))
        rows = training_rows(model, 0)
        known = (y, model.predict(X), groups) if new else (rows.observed, rows.predicted, rows.unit)
        observed, predicted, labels = map(np.asarray, known)
        squared = (observed - predicted) ** 2
        assert found["quality"]["scores"][0]["error"] == pytest.approx(by_group(squared, labels) / np.var(observed))
        assert by_group(squared, labels) > 1.2 * by_group(squared, np.arange(len(labels)))  # groups matter here

    def test_errors_of_coverage_count_groups(self, model, new_table, tmp_path):
        X, y, groups = new_table
        found = payload_of(write_report(model, tmp_path / "r.html", X, y, groups=groups))["calibration"]["curves"][-1]
        for level, error in zip(found["nominal"], found["error"], strict=True):
            (low, high), *_ = np.moveaxis(interval_ends(model, X, [level])[0], -1, 0)[None, :, :, 0]
            holds = (low <= y) & (y <= high)
            assert error == pytest.approx(max(by_group(holds, groups), np.sqrt(level * (1 - level) / len(y))))

    def test_coverage_of_all_rows_is_not_taken_for_certain(self):
        """Rows that are all inside have no spread: the error is that of independent rows."""
        found = coverage_of(np.array([0.9]), np.ones((50, 1), dtype=bool), np.ones(50), np.arange(50) // 5)
        assert found.error[0] == pytest.approx(np.sqrt(0.09 / 50))

    def test_two_models_are_compared_by_groups(self, model, table, new_table, tmp_path):
        X, y, groups = new_table
        other = quick_model(*table[:2])
        path = write_report([model, other], tmp_path / "r.html", X, y, groups=groups)
        found = payload_of(path)["comparison"]
        one, two = (np.asarray((y - fitted.predict(X)) ** 2) for fitted in (model, other))
        size = abs(np.mean(one - two)) / by_group(one - two, groups)
        assert f"{size:.1f} standard errors of the paired difference" in found["sentence"]
        assert found["table"]["rows"][0][1].endswith(f" ± {by_group(one, groups):.2g}")
        assert "The new rows are in 15 groups" in found["note"]
        assert NEW_UNKNOWN in payload_of(write_report([model, other], tmp_path / "r.html", X, y))["comparison"]["note"]

    def test_scores_of_classes_count_groups(self, tmp_path):
        X, y, groups = grouped_table()
        new_X, new_y, new_groups = grouped_table(15, 8, seed=1)
        model = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X, y > y.median(), groups=groups)
        found = payload_of(write_report(model, tmp_path / "r.html", new_X, new_y > y.median(), groups=new_groups))
        right = model.predict(new_X) == (new_y > y.median())
        accuracy = next(row for row in found["quality"]["classes"]["table"]["rows"] if row["name"] == "Accuracy")
        assert accuracy["cells"][0]["error"] == pytest.approx(by_group(right, new_groups))
        assert "count rows that belong together, such as a group, as one unit" in found["quality"]["classes"]["note"]

    def test_means_by_bins_count_groups(self):
        rng = np.random.default_rng(0)
        unit = np.repeat(np.arange(8), 5)
        y = rng.gamma(2.0, 1.0, 8)[unit] + 0.01 * rng.random(40)
        order = rng.permutation(40)  # bins are by the prediction, and hold rows of several groups
        rows = ScoredRows(Gamma(), y[:, None], 0.01 * order[:, None], np.ones(40), np.ones(40), unit)
        bins = np.array_split(np.argsort(order), 4)
        expected = []
        for part in bins:
            n = len(set(unit[part]))
            expected.append(by_group(y[part], unit[part]) * np.sqrt(n / (n - 1)))
        assert means_by_bins("New rows", rows, log=True)["error"] == pytest.approx(expected)

    def test_coverage_of_sets_counts_groups(self):
        """Sets of classes fail together in a group: gaps are then no more than chance."""
        unit = np.repeat(np.arange(10), 20)
        holds = (unit > 2)[:, None]
        alone, together = (coverage_of(np.array([0.9]), holds, np.ones(200), of).error[0] for of in (None, unit))
        assert alone == pytest.approx(np.sqrt(0.09 / 200))
        assert together == pytest.approx(by_group(holds[:, 0], unit))
        X, y, groups = grouped_table()
        _, new_y, new_groups = grouped_table(15, 8, seed=1)
        model = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X, y > y.median(), groups=groups)
        given = new_rows(model, Logistic(), (new_y > y.median()).to_numpy(float), np.zeros((120, 1)), None, None)
        labels = np.unique(new_groups, return_inverse=True)[1]
        kept = fitted_of(model).uncertainty
        errors = [_covered(kept, replace(given, unit=of), 0.9, 2)["error"] for of in (None, labels)]
        inside = given.probabilities[np.arange(120), given.code] >= kept.least_probability(0.9)
        assert errors == pytest.approx([np.sqrt(0.09 / 120), max(np.sqrt(0.09 / 120), by_group(inside, labels))])

    def test_folds_of_a_linear_model_hold_groups_whole(self):
        unit = np.array([7, 3, 7, 9, 3, 11, 12, 20])
        folds = folds_of_units(unit, len(unit))
        assert all(len(set(folds[unit == u])) == 1 for u in unit)
        assert len(set(folds)) == 5


class TestForWhom:
    """Rows of a group hold or fail together: 20 rows then say as much as one."""

    def named(self, holds, place, unit):
        n = len(holds)
        judged = JudgedRows(True, np.zeros(n), np.zeros(n), None, None, holds, np.ones(n), None, unit=unit)
        return _whom_words(judged, [Group(f"town = {k}", place == k) for k in range(4)], is_classes=False)

    def test_chance_alone_seldom_names_rows_of_groups(self):
        rng, size, groups = np.random.default_rng(0), 20, 80
        unit = np.repeat(np.arange(groups), size)
        place, wrong = unit % 4, {True: 0, False: 0}
        for _ in range(200):
            holds = (rng.random(groups) < 0.9)[unit]
            for known in wrong:
                wrong[known] += "less often" in self.named(holds, place, unit if known else None)
        assert wrong[True] < 30  # 5 % of 200, and more because few groups fail at all
        assert wrong[False] > 100  # what the page said before

    def test_a_place_whose_groups_fail_is_named(self):
        rng = np.random.default_rng(0)
        unit = np.repeat(np.arange(400), 5)
        place = unit % 4
        holds = rng.random(400)[unit] < np.where(place == 2, 0.5, 0.95)
        assert "less often than intended for town = 2 (" in self.named(holds, place, unit)

    def test_few_groups_say_nothing(self):
        unit = np.repeat(np.arange(36), 20)  # nine groups in each town
        holds = unit % 4 != 1
        assert self.named(holds, unit % 4, unit) == "The rows are in too few groups to say for whom the interval holds."
