"""Tests of salsa info."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from sklearn.model_selection import KFold
from sums import use_kernel

import salsa
from cli.command import make_mixed, make_table
from salsa import SalsaRegressor
from salsa.persistence import description
from salsa.persistence.model_file import WITH_SUMS, WITHOUT_SUMS


class TestInfo:
    def test_json_equals_the_attributes_of_the_model(self, call, folder):
        code, out, err = call("info", "model.salsa", "--json")
        summary, model = json.loads(out), salsa.load("model.salsa")
        best = model.search_.table.query("chosen").iloc[0]
        assert (code, err) == (0, "")
        assert (summary["anchors"], summary["outputs"]) == (60, 1)
        assert (summary["format_version"], summary["salsa_version"]) == (WITHOUT_SUMS, salsa.__version__)
        assert summary["bytes"] == Path("model.salsa").stat().st_size
        assert (summary["order"], summary["alpha"]) == (model.order_, model.alpha_)
        assert (summary["r2"], summary["standard_error"]) == (1 - best["cv_error"], best["standard_error"])
        features = pd.DataFrame(summary["features"])
        assert features["name"].tolist() == list("abcd")
        assert set(features["kind"]) == {"number"}
        assert features["relevance"].tolist() == model.relevance_.tolist()
        assert features["bandwidth"].tolist() == model.bandwidth_.tolist()

    @pytest.mark.parametrize("options", [{}, {"loss": "huber"}, {"monotonic_cst": None, "cv": KFold(3)}])
    def test_description_equals_the_summary_of_the_estimator(self, call, folder, options, monkeypatch):
        table = make_table()
        SalsaRegressor(relevance="equal", order=[1, 2], **options).fit(table.drop(columns="y"), table["y"]).save("m")
        quick = call("info", "m", "--json")
        monkeypatch.setattr(description, "description_of", lambda header, arrays: None)
        assert call("info", "m", "--json") == quick

    def test_fields_and_features_are_printed(self, call, folder):
        code, out, err = call("info", "model.salsa")
        assert (code, err) == (0, "")
        assert re.search(rf"file +\d+\.?\d* kB, format version {WITHOUT_SUMS}, by salsa \S+\n", out)
        assert re.search(r"features +4, \d used\n", out)
        assert re.search(r"R2 +0\.\d{4} \+/- 0\.\d{4} in cross-validation\n", out)
        assert len(re.findall(r"^[abcd] +number +\S+ +\S+$", out, re.MULTILINE)) == 4

    def test_the_base_kernels_of_a_sum_are_printed(self, call, folder, monkeypatch):
        use_kernel(monkeypatch)
        table = make_table()
        model = SalsaRegressor().fit(table.drop(columns="y"), table["y"])
        model.save("sum.salsa")
        _, out, _ = call("info", "sum.salsa")
        assert re.search(r"kernel +matern52 \+ laplace \+ gaussian\n", out)
        assert re.search(r"features +4, 3 used\n", out)
        assert re.search(rf"format version {WITH_SUMS}, by salsa", out)
        features = json.loads(call("info", "sum.salsa", "--json")[1])["features"]
        assert [feature["relevance"] for feature in features] == model.relevance_.tolist()

    def test_features_are_numbers_categories_or_ordered(self, call, folder):
        table = make_mixed().astype({"flag": float}).assign(size=["s", "m", "l", "xl"] * 20)
        table["size"] = pd.Categorical(table["size"], ["s", "m", "l", "xl"], ordered=True)
        SalsaRegressor(order=1, alpha=0.1).fit(table.drop(columns="y"), table["y"]).save("m.salsa")
        summary = json.loads(call("info", "m.salsa", "--json")[1])
        kinds = {feature["name"]: (feature["kind"], feature["levels"]) for feature in summary["features"]}
        numbers = dict.fromkeys(["a", "code", "flag"], ("number", None))
        assert kinds == {**numbers, "colour": ("category", 3), "size": ("ordered", 4)}
        assert summary["features"][1]["bandwidth"] is None
        assert (summary["r2"], len(summary["notes"])) == (None, 1)
        assert re.search(r"colour +category, levels: 3 +\S+ +-\n", call("info", "m.salsa")[1])

    def test_long_names_are_folded_on_a_narrow_terminal(self, call, folder, monkeypatch):
        table = make_mixed().rename(columns={"colour": "colour_of_the_front_door_in_summer"}).drop(columns="flag")
        X = table.drop(columns="y").astype({"code": float})
        SalsaRegressor(order=1, alpha=0.1).fit(X, table["y"]).save("m.salsa")
        monkeypatch.setenv("COLUMNS", "50")
        lines = call("info", "m.salsa")[1].split("\n\n")[1].splitlines()
        width = lines[0].index("kind")
        assert max(map(len, lines)) <= 50
        assert "".join(line[:width].strip() for line in lines[2:]) == "".join(X.columns)
        assert "…" not in "".join(lines)

    def test_two_outputs_and_unnamed_features_are_shown(self, call, folder):
        table = make_table().to_numpy()
        model = SalsaRegressor(order=2, alpha=1, interactions="exact", relevance="equal")
        model.fit(table[:, :3], table[:, 3:]).save("m")
        out = call("info", "m")[1]
        assert re.search(r"outputs +2\n", out)
        assert re.search(r"order +2 alone\n", out)
        assert re.search(r"^x0 +number", out, re.MULTILINE)

    def test_files_that_are_no_models_give_an_error(self, refused):
        assert refused("info", "absent.salsa").startswith("salsa: absent.salsa: ")
        assert "train.csv " in refused("info", "train.csv")
