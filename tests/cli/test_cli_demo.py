"""Tests of salsa demo."""

import json
from pathlib import Path

import pandas as pd
import pytest


class TestDemo:
    def test_demo_writes_all_files_and_prints_scores(self, call, folder):
        code, out, err = call("demo", "--out", "d")
        assert (code, err) == (0, "")
        assert all(words in out for words in ("ridge regression", "x1 × x2", "start with report.html"))
        names = "data.csv train.csv test.csv model.salsa predictions.csv report.html"
        assert {path.name for path in Path("d").iterdir()} == set(names.split())
        assert [len(pd.read_csv(f"d/{name}.csv")) for name in ("data", "train", "test")] == [1000, 500, 500]
        assert Path("d/report.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_json_holds_scores_and_importance(self, call, folder):
        code, out, err = call("demo", "--json")
        summary = json.loads(out)
        scores = summary["test_r2"]
        assert (code, err) == (0, "")
        assert scores["salsa"] > scores["ridge regression"] > scores["mean of the training rows"]
        assert {term["term"] for term in summary["importance"][:6]} == {"x1", "x2", "x3", "x4", "x5", "x1 × x2"}

    @pytest.mark.parametrize("out", ["absent/d", "train.csv"])
    def test_folders_that_cannot_be_created_give_an_error(self, refused, out):
        assert refused("demo", "--out", out).startswith(f"salsa: {out}: ")
