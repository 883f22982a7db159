"""Tests of salsa explain."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import make_table
from salsa import SalsaClassifier, SalsaRegressor
from salsa.explain import decompose, shapley


@pytest.fixture
def explained(call, folder):
    """Give a function that runs salsa explain --json and returns the parsed result."""

    def run(*arguments):
        code, out, err = call("explain", *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)

    return run


class TestShares:
    def test_shares_equal_those_of_decompose(self, explained):
        summary, anova = explained("model.salsa"), decompose(salsa.load("model.salsa"))
        assert summary["importance"] == anova.importance().to_dict("records")
        assert summary["sobol"] == anova.sobol().to_dict("records")
        assert (summary["mean"], summary["variance"]) == (anova.mean, anova.variance)
        assert sum(order["variance_share"] for order in summary["orders"]) == pytest.approx(1)

    def test_shares_are_printed_by_term_feature_and_order(self, call, folder):
        code, out, err = call("explain", "model.salsa")
        assert (code, err) == (0, "")
        assert re.search(r"term +order +% of variance +% over rows\n", out)
        assert re.search(r"^b × c +2 +\d+\.\d\d +-?\d+\.\d\d$", out, re.MULTILINE)
        assert re.search(r"feature +% by itself +% in total +% over rows\n", out)
        assert re.search(r"order +% of variance\n", out)

    def test_shares_over_rows_of_a_low_rank_model_need_rows(self, call, explained):
        table = make_table()
        SalsaRegressor(order=1, alpha=0.1, solver="lowrank", rank=20).fit(table[list("abcd")], table["y"]).save(
            "low.salsa"
        )
        assert {entry["share_over_rows"] for entry in explained("low.salsa")["importance"]} == {None}
        assert "over rows" not in call("explain", "low.salsa")[1]
        shares = [entry["share_over_rows"] for entry in explained("low.salsa", "new.csv")["sobol"]]
        expected = decompose(salsa.load("low.salsa"), rows=pd.read_csv("new.csv")[list("abcd")]).sobol()
        assert shares == expected["share_over_rows"].tolist()
        assert sum(shares) == pytest.approx(1)
        assert call("explain", "low.salsa", "new.csv")[1].count("% over rows") == 2

    def test_constant_target_has_zero_variance(self, explained):
        SalsaRegressor(order=1, alpha=1).fit(np.eye(4), np.ones(4)).save("flat.salsa")
        assert explained("flat.salsa")["variance"] == pytest.approx(0)

    def test_two_outputs_can_be_explained(self, explained):
        table = make_table()
        SalsaRegressor(order=1, alpha=0.1).fit(table[list("abcd")], table[["y", "a"]]).save("two.salsa")
        assert explained("two.salsa", "new.csv")["data"]["rows"] == 25


class TestEffects:
    def test_effects_of_one_and_two_features_equal_python(self, explained):
        anova = decompose(salsa.load("model.salsa"))
        curve, surface = anova.effect("a"), anova.effect("b", "c")
        one, two = explained("model.salsa", "--effects", "a", "--effects", "b,c")["effects"]
        assert (one["features"], two["features"]) == (["a"], ["b", "c"])
        assert one["effect"] == curve.frame()["effect"].tolist()
        assert two["sd"] == surface.sd.tolist()
        assert np.shape(two["effect"]) == tuple(map(len, two["values"]))

    def test_effects_are_printed_at_11_or_25_points(self, call, folder):
        code, out, err = call("explain", "model.salsa", "--effects", "a", "--effects", "b,c")
        assert (code, err) == (0, "")
        tables = [text.splitlines() for text in out.split("\n\n") if "effect" in text]
        assert [len(lines) for lines in tables] == [2 + 11 + 1, 2 + 25 + 1]

    def test_effects_show_levels_and_missing_values(self, call, mixed):
        out = call("explain", "mixed.salsa", "--effects", "colour", "--effects", "code", "--effects", "flag")[1]
        assert [len(re.findall(rf"^ *{label} +-?\d", out, re.MULTILINE)) for label in ("red", "20", "missing")] == [
            1,
            1,
            3,
        ]

    def test_a_feature_name_may_hold_a_comma(self, explained):
        table = make_table().rename(columns={"a": "a,b"})
        SalsaRegressor(order=1, alpha=0.1).fit(table.drop(columns="y"), table["y"]).save("m.salsa")
        assert explained("m.salsa", "--effects", "a,b")["effects"][0]["features"] == ["a,b"]

    def test_unknown_features_give_an_error_with_a_hint(self, refused, call, mixed):
        assert "there is no feature 'Color'; did you mean 'colour'?" in refused(
            "explain", "mixed.salsa", "--effects", "Color"
        )
        listed = "there is no feature 'price'; the features are 'a', 'colour', 'code', 'flag'"
        assert listed in refused("explain", "mixed.salsa", "--effects", "price")

    def test_spaces_around_names_of_features_do_not_count(self, explained):
        assert explained("model.salsa", "--effects", "a, b")["effects"][0]["features"] == ["a", "b"]


class TestRows:
    def test_contributions_add_up_to_the_prediction(self, explained):
        row = explained("model.salsa", "new.csv", "--row", "3")["row"]
        model, new = salsa.load("model.salsa"), pd.read_csv("new.csv")
        parts = {entry["feature"]: entry["contribution"] for entry in row["contributions"]}
        assert row["prediction"] == pytest.approx(model.predict(new)[2])
        assert row["base_value"] + sum(parts.values()) == pytest.approx(row["prediction"])
        assert [parts[name] for name in "abcd"] == pytest.approx(shapley(model, new).all_values[2, :, 0].tolist())
        sizes = [abs(entry["contribution"]) for entry in row["contributions"]]
        assert sizes == sorted(sizes, reverse=True)
        assert {entry["feature"]: entry["value"] for entry in row["contributions"]} == new.iloc[2].to_dict()

    def test_rows_without_a_target_are_counted_and_not_scored(self, call, folder):
        table = make_table(40, seed=5)
        table.loc[[2, 7], "y"] = np.nan
        table.to_csv("holes.csv", index=False)
        table.dropna().to_csv("whole.csv", index=False)

        def explained(*arguments):
            code, out, err = call("explain", "model.salsa", *arguments, "--json")
            assert code == 0
            return json.loads(out), err

        found, told = explained("holes.csv", "--target", "y")
        assert told == "salsa: holes.csv: 2 rows without a value of 'y' left out of errors and of the report\n"
        assert found["data"] == explained("whole.csv", "--target", "y")[0]["data"]
        row = explained("holes.csv", "--target", "y", "--row", "8")[0]["row"]  # rows are counted as in the file
        assert row == explained("holes.csv", "--row", "8")[0]["row"]

    def test_one_row_needs_no_shares_of_the_variance(self, call, folder, monkeypatch):
        monkeypatch.setattr("salsa.explain.decompose", None)  # whoever calls it fails
        assert call("explain", "model.salsa", "new.csv", "--row", "3")[0] == 0

    def test_contributions_of_a_row_are_printed(self, call, mixed):
        code, out, err = call("explain", "mixed.salsa", "mixed.csv", "--row", "80")
        assert (code, err) == (0, "")
        assert re.search(r"mean prediction +-?\d\S*\n(.+\n){4}prediction of row 80 +-?\d\S*\n$", out)
        assert "variance" not in out
        assert re.search(r"colour +(red|green|blue|missing) +[+-]\d", out)

    def test_row_can_be_combined_with_effects_and_report(self, call, folder):
        out = call("explain", "model.salsa", "new.csv", "--row", "3", "--effects", "a", "--out", "r.html")[1]
        assert re.search(r"^report +r.html\n", out, re.MULTILINE)
        assert re.findall(r"^ *(\w+) +(?:effect|value) ", out, re.MULTILINE) == ["a", "feature"]

    def test_features_after_the_20_largest_are_summed(self, call, folder):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(40, 30))).add_prefix("x")
        SalsaRegressor(order=1, alpha=0.1, relevance="equal").fit(table, table.sum(axis=1)).save("m.salsa")
        table.to_csv("wide.csv", index=False)
        out = call("explain", "m.salsa", "wide.csv", "--row", "1")[1]
        assert re.search(r"^10 others +[+-]\d\S*\nprediction of row 1 ", out, re.MULTILINE)
        assert call("explain", "m.salsa", "wide.csv")[1].count("... and 10 smaller ones\n") == 3

    def test_mean_contributions_and_r2_equal_python(self, explained):
        summary = explained("model.salsa", "train.csv", "--target", "y")
        model, train = salsa.load("model.salsa"), make_table()
        X = pd.read_csv("train.csv")[list("abcd")]
        means = pd.Series({entry["feature"]: entry["mean_size"] for entry in summary["data"]["contributions"]})
        assert means[list("abcd")].to_numpy() == pytest.approx(
            np.abs(shapley(model, X).all_values[:, :, 0]).mean(axis=0)
        )
        assert summary["data"]["r2"] == pytest.approx(model.score(X, train["y"]))

    def test_a_table_from_a_pipe_equals_a_file(self, call, folder):
        expected = call("explain", "model.salsa", "new.csv", "--row", "2")
        assert call("explain", "model.salsa", "-", "--row", "2", stdin=Path("new.csv").read_bytes()) == expected

    def test_unseen_categories_are_counted_on_standard_error(self, call, mixed):
        pd.read_csv("mixed.csv").assign(colour="mauve").to_csv("new.csv", index=False)
        assert "column 'colour': 80 rows, such as 'mauve'" in call("explain", "mixed.salsa", "new.csv")[2]

    def test_values_of_other_rows_are_not_told_of(self, call, mixed):
        table = pd.read_csv("mixed.csv")
        table["colour"] = ["mauve", *table["colour"][1:]]
        table.to_csv("new.csv", index=False)
        told = "column 'colour': 1 row, such as 'mauve'"
        assert told in call("explain", "mixed.salsa", "new.csv", "--row", "1")[2]
        assert told not in call("explain", "mixed.salsa", "new.csv", "--row", "2")[2]
        expected = [
            call("explain", "mixed.salsa", "new.csv", "--row", "2", *more)[1] for more in ((), ("--effects", "a"))
        ]
        assert expected[1].endswith(expected[0].split("\n\n")[-1])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("new.csv --row 26", "--row 26: new.csv has rows 1 to 25"),
            ("new.csv --row 0", "--row 0: new.csv has rows 1 to 25"),
            ("--row 1", "--row 1 needs a table"),
            ("--target y", "--target y needs a table"),
            ("train.csv --group a", "--group a needs --target and --out"),
            ("train.csv --target y --out r.html --group a", "--group a: this column is a feature of the model"),
            ("train.csv --target y --out r.html --group y", "--group y: this column is the target"),
            ("train.csv --target y --out r.html --group z", "has no column 'z'"),
            ("train.csv --target Y", "has no column 'Y' (did you mean 'y'?)"),
            ("absent.csv", "absent.csv: "),
            ("new.csv --out new.csv", "it is also an input"),
            ("new.csv --out model.salsa", "it is also an input"),
            ("--out absent/r.html", "there is no folder"),
            ("--out .", "is not a file"),
        ],
    )
    def test_invalid_options_give_an_error(self, refused, options, message):
        assert message in refused("explain", "model.salsa", *options.split())


class TestReport:
    @pytest.mark.parametrize("options", ["", "new.csv", "train.csv --target y", "train.csv --target y --row 2"])
    def test_report_is_written_with_and_without_rows(self, explained, options):
        assert explained("model.salsa", *options.split(), "--out", "r.html")["report"] == "r.html"
        assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


class TestGroups:
    @pytest.fixture
    def grouped(self, folder):
        """Save a model that was fitted with groups, and new rows with labels of groups that look like numbers."""
        table, new = (make_table(60, seed=seed).assign(person=np.arange(60) % 12) for seed in (0, 1))
        model = SalsaRegressor(1, relevance="equal", alpha=0.1)
        model.fit(table[list("abcd")], table["y"], groups=table["person"]).save("groups.salsa")
        new["person"] = new["person"].map("{:03d}".format)
        new.loc[:29, "person"] = new.loc[:29, "person"].str.lstrip("0").replace("", "0")  # 003 is not 3
        new.to_csv("people.csv", index=False)

    def test_the_groups_of_new_rows_reach_the_report(self, grouped, call):
        options = ("groups.salsa", "people.csv", "--target", "y", "--out", "r.html")
        code, out, err = call("explain", *options, "--group", "person")
        assert (code, err) == (0, "")
        assert "person" not in out
        labels = pd.read_csv("people.csv", dtype=str)["person"].nunique()
        assert labels > 12
        assert f"The new rows are in {labels} groups" in Path("r.html").read_text(encoding="utf-8")

    def test_groups_that_are_not_named_are_missed_in_one_line(self, grouped, call):
        code, _, err = call("explain", "groups.salsa", "people.csv", "--target", "y", "--out", "r.html")
        assert code == 0
        assert re.fullmatch(r"salsa: the model was fitted with groups: name their column \(--group\), .+\n", err)
        assert call("explain", "groups.salsa", "people.csv", "--target", "y")[2] == ""
        assert call("explain", "groups.salsa", "--out", "r.html")[2] == ""


def test_a_fit_by_parts_has_effects_without_bands(call, folder):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = SalsaRegressor(order=1, alpha=0.1, relevance="equal", solver="divide", rank=30, random_state=0)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), X[:, 0]).save("parts.salsa")
    code, out, err = call("explain", "parts.salsa", "--effects", "a")
    assert (code, err) == (0, "")
    assert "+/-" in out
    code, out, _ = call("explain", "parts.salsa", "--effects", "a", "--json")
    assert json.loads(out)["effects"][0]["sd"] is None


class TestClasses:
    @pytest.fixture(params=[["no", "yes"], [False, True], [3, 7]], ids=["texts", "booleans", "numbers"])
    def labelled(self, request, folder):
        """Save a model of two classes and a table with labels; return the model."""
        table = make_table()
        table["label"] = np.array(request.param)[(table["y"] > table["y"].median()).astype(int)]
        table.drop(columns="y").to_csv("labelled.csv", index=False)
        model = SalsaClassifier(1, 0.1, relevance="equal").fit(table[list("abcd")], table["label"])
        model.save("classes.salsa")
        return model

    def test_a_report_of_classes_is_written_with_the_accuracy_of_the_rows(self, labelled, explained):
        summary = explained("classes.salsa", "labelled.csv", "--target", "label", "--out", "report.html")
        table = pd.read_csv("labelled.csv")
        assert str(labelled.classes_[1]) in summary["scale"]
        assert summary["data"]["scores"]["accuracy"] == labelled.score(table[list("abcd")], table["label"])
        assert summary["data"]["r2"] is None
        assert "Scores of the probabilities" in Path("report.html").read_text(encoding="utf-8")

    def test_the_accuracy_is_printed(self, labelled, call):
        code, out, err = call("explain", "classes.salsa", "labelled.csv", "--target", "label")
        assert (code, err) == (0, "")
        assert re.search(r"^accuracy +0\.\d{4} on these rows$", out, re.MULTILINE)
