"""Tests of --group, --time and --log of salsa fit and salsa compare: what judges a model, and the scale of learning."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import TimeSeriesSplit

import salsa
from cli.command import contents, make_table
from cli.test_training_file import chunked  # noqa: F401  # a fixture
from salsa import SalsaRegressor
from salsa.baselines import compare

FIT = ["--target", "y", "--out", "m.salsa"]


def make_people(people=20, rows=4):
    """Return a table with levels of people in the target; rows of a person are spread over the table."""
    table = make_table(people * rows)
    who = np.arange(len(table)) % people
    return table.assign(y=table["y"] + np.random.default_rng(0).normal(size=people)[who], who=[f"p{i}" for i in who])


def make_days(n=60, per_day=1):
    """Return a table in random order, with dates; some days may have several rows."""
    day = pd.Timestamp("2024-02-25") + pd.to_timedelta(np.arange(n) // per_day, unit="D")
    return make_table(n).assign(day=day.strftime("%Y-%m-%d")).sample(frac=1, random_state=0, ignore_index=True)


def told(call, *arguments):
    code, out, err = call(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


class TestGroups:
    def test_the_model_equals_a_fit_with_groups(self, call, folder):
        table = make_people()
        table.to_csv("t.csv", index=False)
        summary = told(call, "fit", "t.csv", *FIT, "--group", "who")
        expected = SalsaRegressor(random_state=0).fit(table[list("abcd")], table["y"], groups=table["who"])
        model = salsa.load("m.salsa")
        np.testing.assert_array_equal(model.expansion_.coef, expected.expansion_.coef)
        assert list(model.feature_names_in_) == list("abcd")
        rho = expected.search_.rho
        assert summary["groups"] == {"column": "who", "count": 20, "rho": rho, "shared": rho / (1 + rho)}

    def test_count_and_shared_noise_are_printed(self, call, folder):
        make_people().to_csv("t.csv", index=False)
        out = call("fit", "t.csv", *FIT, "--group", "who")[1]
        rho = salsa.load("m.salsa").search_.rho
        shared = f"{100 * rho / (1 + rho):.3g} % of the noise variance is shared within a group (rho {rho:.3g})"
        assert re.search(r"groups +20 in column 'who', held out whole: errors are for new groups\n", out)
        assert f"          {shared}\n" in out
        assert f"groups    {shared}\n" in call("info", "m.salsa")[1]

    def test_without_groups_nothing_is_said_of_them(self, call, folder):
        summary = told(call, "fit", "train.csv", *FIT)
        assert (summary["groups"], summary["time"], summary["target_transform"]) == (None, None, None)
        assert "groups" not in call("fit", "train.csv", *FIT)[1]
        assert "groups" not in call("info", "m.salsa")[1]

    def test_explain_predict_and_report_ignore_the_column(self, call, folder):
        make_people().to_csv("t.csv", index=False)
        assert call("fit", "t.csv", *FIT, "--group", "who", "--report", "r.html")[0] == 0
        assert '"who"' not in Path("r.html").read_text(encoding="utf-8")
        explained = told(call, "explain", "m.salsa", "t.csv", "--target", "y", "--out", "e.html", "--group", "who")
        assert {row["feature"] for row in explained["sobol"]} == set(abcd := "abcd")
        assert {row["feature"] for row in explained["data"]["contributions"]} == set(abcd)
        assert call("predict", "m.salsa", "t.csv")[0] == 0

    def test_labels_with_leading_zeros_are_texts(self, call, folder):
        """The labels 7 and 007 are two groups."""
        make_people().assign(who=[f"{i % 10}" if i % 3 else f"00{i % 10}" for i in range(80)]).to_csv("t.csv")
        assert told(call, "fit", "t.csv", *FIT, "--group", "who", "--drop", "Unnamed: 0")["groups"]["count"] == 20

    @pytest.mark.parametrize("kind", ["category", "date", "number"])
    def test_labels_of_arrow_files_may_have_any_type(self, call, folder, kind):
        number = np.arange(60) % 12
        labels = {"number": number / 2, "date": pd.to_datetime(number, unit="D").date}
        labels["category"] = pd.Categorical([f"c{i}" for i in number])
        make_table().assign(who=labels[kind]).to_parquet("t.parquet")
        assert told(call, "fit", "t.parquet", *FIT, "--group", "who")["groups"]["count"] == 12

    @pytest.mark.parametrize(
        ("who", "options", "message"),
        [
            (["a", "b"], "--group whom", "has no column 'whom' (did you mean 'who'?)"),
            (["a", "b"], "--group y", "column 'y' has two roles: target, weights, groups, time,"),
            (["a", "b"], "--group who --drop who", "column 'who' has two roles"),
            (["1", "2"], "--group who --weights who", "column 'who' has two roles"),
            (["a", "b"], "--group who --category who", "column 'who' has two roles"),
            (["a", "b"], "--group who --keep-time", "--keep-time needs --time COLUMN"),
            (["a", "b"], "--group who --time a", "--group who and --time a exclude each other: --group judges by new"),
            (["a", "a"], "--group who", "column 'who' has all rows in one group; at least 2 groups are needed"),
            (["a", None], "--group who", "has no value in row 2 (30 missing in all); leave such rows out, or give"),
            ([None, None], "--group who", "has no value in row 1 (60 missing in all)"),
        ],
    )
    @pytest.mark.parametrize("command", ["fit", "compare"])
    def test_invalid_groups_give_an_error_before_the_work(self, refused, monkeypatch, command, who, options, message):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        make_table().assign(who=who * 30).to_csv("t.csv", index=False)
        if command == "compare":
            if "--weights" in options:
                return
            options += " --target y --methods salsa"
        else:
            options += " --target y --out m.salsa"
        assert message in refused(command, "t.csv", *options.split())

    def test_lists_are_no_labels(self, refused):
        make_table().assign(who=[[1, 2]] * 60).to_parquet("t.parquet")
        message = "column 'who' holds neither numbers, text nor dates; groups need such labels"
        assert message in refused("fit", "t.parquet", *FIT, "--group", "who")


class TestTime:
    def test_distinct_times_equal_sorted_rows_and_a_time_series_split(self, call, folder):
        make_days().to_csv("t.csv", index=False)
        summary = told(call, "fit", "t.csv", *FIT, "--time", "day", "--cv", "4")
        table = make_days().sort_values("day")
        expected = SalsaRegressor(random_state=0, cv=TimeSeriesSplit(4)).fit(table[list("abcd")], table["y"])
        model = salsa.load("m.salsa")
        np.testing.assert_array_equal(model.expansion_.coef, expected.expansion_.coef)
        assert model.search_.alpha == expected.search_.alpha
        assert list(model.feature_names_in_) == list("abcd")
        splits = [{"train": 12 * k, "test": 12} for k in range(1, 5)]
        range_ = {"first": "2024-02-25", "last": "2024-04-24"}
        assert summary["time"] == {"column": "day", **range_, "distinct": 60, "splits": splits, "kept": False}

    def test_range_and_fate_of_a_trend_are_printed(self, call, folder):
        make_days().to_csv("t.csv", index=False)
        code, out, err = call("fit", "t.csv", *FIT, "--time", "day", "--report", "r.html")
        assert (code, err) == (0, "")
        assert "time      column 'day', 2024-02-25 to 2024-04-24: 5 parts, each predicted from all rows before" in out
        assert "          time is no feature: a trend that no other column explains counts as error on later" in out

    def test_kept_times_are_features_that_equal_those_of_a_sorted_table(self, call, folder):
        table = make_days(n=200)
        table.to_csv("t.csv", index=False)
        code, out, err = call("fit", "t.csv", *FIT, "--time", "day", "--keep-time")
        assert (code, err) == (0, "")
        assert "          time is a feature, too: seasons come back on later rows, and a trend is not continued" in out
        assert "day" in salsa.load("m.salsa").feature_names_in_
        table = table.assign(day=pd.to_datetime(table["day"])).sort_values("day")
        expected = SalsaRegressor(random_state=0, cv=TimeSeriesSplit(5)).fit(table.drop(columns="y"), table["y"])
        np.testing.assert_array_equal(salsa.load("m.salsa").expansion_.coef, expected.expansion_.coef)
        assert call("predict", "m.salsa", "t.csv", "--out", "p.csv")[0] == 0

    def test_rows_of_one_time_are_never_cut(self, call, folder):
        make_days(per_day=7).to_csv("t.csv", index=False)
        splits = told(call, "fit", "t.csv", *FIT, "--time", "day", "--cv", "3")["time"]["splits"]
        assert [split["train"] for split in splits] == [14, 28, 42]  # 15, 30, 45 rows without equal days

    def test_weights_are_sorted_with_the_rows(self, call, folder):
        make_days().assign(w=1 + np.arange(60) % 3).to_csv("t.csv", index=False)
        assert call("fit", "t.csv", *FIT, "--time", "day", "--weights", "w")[0] == 0
        table = make_days().assign(w=1 + np.arange(60) % 3).sort_values("day")
        expected = SalsaRegressor(random_state=0, cv=TimeSeriesSplit(5)).fit(
            table[list("abcd")], table["y"], table["w"]
        )
        np.testing.assert_array_equal(salsa.load("m.salsa").expansion_.coef, expected.expansion_.coef)

    @pytest.mark.parametrize(
        "kind", ["number", "text number", "date", "timestamp", "zoned", "iso with zones", "mixed iso", "category"]
    )
    def test_times_of_all_kinds_give_one_model(self, call, folder, kind):
        make_days().to_parquet("days.parquet")
        call("fit", "days.parquet", *FIT, "--time", "day")
        expected = salsa.load("m.salsa").expansion_.coef
        stamp = pd.to_datetime(make_days()["day"])
        number = (stamp - stamp.min()).dt.days
        times = {"number": number - 7.5, "text number": number.astype(str), "date": stamp.dt.date, "timestamp": stamp}
        times["zoned"] = stamp.dt.tz_localize("Europe/Berlin")
        times["category"] = make_days()["day"].astype("category")
        times["iso with zones"] = stamp.dt.strftime("%Y-%m-%dT12:00") + np.where(number % 2, "+02:00", "-05:00")
        times["mixed iso"] = stamp.dt.strftime("%Y-%m-%d") + np.where(number % 2, " 12:30:15.5", "")
        make_days().assign(day=times[kind]).to_parquet("t.parquet")
        assert call("fit", "t.parquet", *FIT, "--time", "day")[0] == 0
        np.testing.assert_array_equal(salsa.load("m.salsa").expansion_.coef, expected)

    def test_more_rows_than_an_exact_fit_takes_are_judged_forward(self, call, folder):
        make_days(500, per_day=3).to_csv("t.csv", index=False)
        summary = told(call, "fit", "t.csv", *FIT, "--time", "day", "--rank", "30", "--order", "2")
        assert summary["r2"] > 0.5

    @pytest.mark.parametrize(
        ("day", "options", "message"),
        [
            ({3: None, 8: None}, "", "column 'day' has no value in row 4 (2 missing in all); leave such rows out, or"),
            ({3: "31.12.2024"}, "", "column 'day' has '31.12.2024' in row 4, which is neither a finite number nor a"),
            ({}, "--time dya", "has no column 'dya' (did you mean 'day'?)"),
            ({}, "--time y", "column 'y' has two roles"),
            ({}, "--drop day", "column 'day' has two roles"),
            ({}, "--group day --time a", "--group day and --time a exclude each other"),
            ({}, "--cv 60", "--time day: 60 folds in time need 61 times, not 60: give at most 59 folds"),
            (
                dict.fromkeys(range(60), "2024-01-01"),
                "",
                "--time day: 5 folds in time need 6 times, not 1: give a finer",
            ),
        ],
    )
    @pytest.mark.parametrize("command", ["fit", "compare"])
    def test_invalid_times_give_an_error_before_the_work(self, refused, monkeypatch, command, day, options, message):
        monkeypatch.setattr(SalsaRegressor, "fit", None)
        table = make_days()
        table["day"] = [day.get(row, value) for row, value in enumerate(table["day"])]
        table.to_csv("t.csv", index=False)
        command = [command, "t.csv", *(FIT if command == "fit" else ["--target", "y", "--methods", "salsa"])]
        options = options if "--time" in options else f"--time day {options}"
        assert message in refused(*command, *options.split())

    @pytest.mark.parametrize(
        ("times", "problem"), [([[1]], "neither numbers nor dates"), ([np.inf, 1], "'inf' in row 1")]
    )
    def test_values_that_are_no_times_give_an_error(self, refused, times, problem):
        make_table().assign(t=(times * 60)[:60]).to_parquet("t.parquet")
        assert problem in refused("fit", "t.parquet", *FIT, "--time", "t")

    def test_tables_read_in_chunks_are_refused(self, refused, chunked):  # noqa: F811
        make_days().to_csv("t.csv", index=False)
        chunked()
        message = (
            "--time day: t.csv is large relative to memory, and only a table in memory can be sorted: give a larger"
        )
        assert message in refused("fit", "t.csv", *FIT, "--time", "day")


class TestLog:
    def test_the_model_equals_a_fit_with_the_transform(self, call, folder):
        table = make_table().assign(y=np.exp(make_table()["y"]))
        table.to_csv("t.csv", index=False)
        summary = told(call, "fit", "t.csv", *FIT, "--log")
        expected = SalsaRegressor(random_state=0, target_transform="log").fit(table[list("abcd")], table["y"])
        model = salsa.load("m.salsa")
        np.testing.assert_array_equal(model.predict(table[list("abcd")]), expected.predict(table[list("abcd")]))
        assert summary["target_transform"] == model.target_transform == "log"
        out = call("fit", "t.csv", *FIT, "--log")[1]
        assert "scale     log of y: alpha, R2 and effects are on this scale, predictions and intervals in units" in out

    @pytest.mark.parametrize("command", [["fit", *FIT], ["compare", "--target", "y", "--methods", "ridge"]])
    @pytest.mark.parametrize("options", [[], ["--time", "d"]])
    def test_targets_that_are_not_positive_give_an_error_with_the_row(self, refused, command, options):
        y = np.abs(make_table()["y"]) + 1
        y[6] = 0.0
        make_table().assign(y=y).to_csv("t.csv", index=False)
        message = "column 'y' has '0.0' in row 7; --log needs targets above 0: leave --log out, or leave such rows out"
        assert message in refused(*command, *options, "--log", "t.csv")

    def test_compare_has_the_numbers_of_python(self, call, folder):
        table = make_table().assign(y=np.exp(make_table()["y"]))
        table.to_csv("t.csv", index=False)
        names = ["ridge", "salsa-paper"]
        rows = told(call, "compare", "t.csv", "--target", "y", "--methods", ",".join(names), "--log")
        expected = compare(table[list("abcd")], table["y"], names, target_transform="log").frame
        assert [row["mse"] for row in rows] == pytest.approx(expected["mse"].tolist(), rel=1e-12)


class TestCompare:
    def test_groups_have_the_numbers_of_python(self, call, folder):
        table = make_people()
        table.to_csv("t.csv", index=False)
        arguments = ["compare", "t.csv", "--target", "y", "--methods", "salsa-paper,ridge", "--group", "who"]
        rows = told(call, *arguments)
        expected = compare(table[list("abcd")], table["y"], ["salsa-paper", "ridge"], groups=table["who"]).frame
        assert [row["mse"] for row in rows] == pytest.approx(expected["mse"].tolist(), rel=1e-12)
        out = call(*arguments)[1]
        assert re.search(r"features +4\ngroups +20 in column 'who', held out whole\nfolds +5\n", out)

    def test_times_have_the_numbers_of_a_time_series_split(self, call, folder):
        make_days(90).to_csv("t.csv", index=False)
        arguments = [
            "compare",
            "t.csv",
            "--target",
            "y",
            "--methods",
            "salsa-paper,lasso",
            "--time",
            "day",
            "--cv",
            "3",
        ]
        rows = told(call, *arguments)
        table = make_days(90).sort_values("day")
        expected = compare(table[list("abcd")], table["y"], ["salsa-paper", "lasso"], cv=TimeSeriesSplit(3)).frame
        assert [row["mse"] for row in rows] == pytest.approx(expected["mse"].tolist(), rel=1e-12)
        assert re.search(
            r"time +column 'day', .*: every fold is predicted from all rows before it\n", call(*arguments)[1]
        )

    def test_more_folds_than_groups_give_an_error(self, refused, folder):
        make_people(3, 20).to_csv("t.csv", index=False)
        before = contents(folder)
        message = refused("compare", "t.csv", "--target", "y", "--methods", "ridge", "--group", "who")
        assert "cv=5: there are only 3 groups; give at most one fold per group" in message
        assert contents(folder) == before
