"""Tests of salsa reproduce."""

import json
import re

import pytest
from conftest import needs_data

from salsa.paper import DATASETS
from salsa.paper.experiments import EVERY, plan
from salsa.paper.ledger import TABLE1, Row, open_ledger


class TestReproduce:
    @needs_data
    def test_forestfires_error_equals_the_published_error(self, call):
        code, out, err = call("reproduce", "table1", "--datasets", "forestfires", "--json")
        (row,) = json.loads(out)
        assert (code, err) == (0, "")
        assert (row["dataset"], row["method"], row["order"]) == ("forestfires", "salsa", 3)
        assert row["mse"] == pytest.approx(row["published_mse"], abs=5e-6)
        assert row["seconds"] > 0

    @needs_data
    def test_missing_published_numbers_are_dashes(self, call):
        arguments = ["--methods", "salsa,salsa-5fold", "--datasets", "forestfires", "--protocol", "described"]
        code, out, err = call("reproduce", "table1", *arguments)
        assert (code, err) == (0, "")
        assert len(re.findall(r"forestfires +211 +10 +\S+ +0\.\d{5} +\d+ +- +- +\d+\.\d", out)) == 2
        assert max(map(len, out.splitlines())) <= 80

    @needs_data
    def test_rivals_are_shown_beside_their_published_errors(self, call):
        code, out, err = call("reproduce", "table1", "--methods", "salsa,knn,ridge", "--datasets", "speech")
        assert (code, err) == (0, "")
        assert re.search(r"speech +knn +0\.\d{5} +- +0\.09348 +- +\d+\.\d +1\.00\n", out)
        assert re.search(r"salsa +1 of 1 +1\.00 +1\.00 +1\.00 +\d+\.\d\n", out)
        assert re.search(r"speech +1 +1 +- +3\n", out)  # the best of three, in the paper and here
        assert max(map(len, out.splitlines())) <= 80

    @needs_data
    def test_fits_in_the_folder_are_not_run_again(self, call, tmp_path):
        names = ["--methods", "lar", "--datasets", "forestfires"]
        arguments = [*names, "--limit", "60", "--json", "--out", tmp_path / "t"]
        code, out, err = call("reproduce", "table1", *arguments)
        (row,) = json.loads(out)
        assert (code, err, row["status"], row["order"]) == (0, "", "ok", None)
        assert row["ratio"] == pytest.approx(row["mse"] / 1.05415)
        assert json.loads((tmp_path / "t" / "table1.json").read_text())["rows"][0]["mse"] == row["mse"]
        assert "| lar | 0.4828 / 1.054 |" in (tmp_path / "t" / "table1.md").read_text()
        before = (tmp_path / "t" / "results.csv").read_bytes()
        assert json.loads(call("reproduce", "table1", *arguments)[1]) == [row]
        assert (tmp_path / "t" / "results.csv").read_bytes() == before

    @needs_data
    def test_fits_stopped_by_the_limit_are_listed(self, call):
        code, out, _ = call("reproduce", "table1", "--methods", "svr-nu", "--datasets", "speech", "--limit", "0.1")
        assert code == 0
        assert re.search(r"speech +svr-nu +- +- +0\.06994 +- +- +-\n", out)
        assert "speech, svr-nu: timed out\n" in out

    @needs_data
    def test_all_stands_for_23_methods_on_every_data_set(self, call, tmp_path):
        """The folder holds a result of every fit, so that nothing is run."""
        with open_ledger(tmp_path / "results.csv", TABLE1) as ledger:
            for job in plan(DATASETS, EVERY):
                ledger.add(Row(*job, mse=1.0, seconds=1.0))
        code, out, _ = call("reproduce", "table1", "--methods", "all", "--out", tmp_path)
        assert code == 0
        assert len(re.findall(r"^telemonitoring +\S+ +1\.00000", out, flags=re.MULTILINE)) == 23
        assert max(map(len, out.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--datasets housing,wine", "unknown data set 'wine'; choose from housing, galaxy"),
            ("--methods magic", "unknown method 'magic'; choose from salsa, salsa-5fold"),
            ("--limit 0", "0.0 is not a positive number of seconds"),
            ("--limit nan", "nan is not a positive number of seconds"),
            ("--jobs 0", "Invalid value for '--jobs'"),
            ("--datasets housing --methods ,", "unknown method ''"),
            ("--protocol loose", "protocol must be one of authors, described"),
        ],
    )
    def test_invalid_options_give_an_error(self, refused, options, message):
        assert message in refused("reproduce", "table1", *options.split())

    def test_reproduce_without_an_experiment_gives_an_error(self, refused):
        assert "salsa reproduce table1" in refused("reproduce")

    def test_a_failed_download_gives_an_error(self, refused, monkeypatch, tmp_path_factory):
        monkeypatch.delenv("SALSA_DATA", raising=False)
        monkeypatch.setenv("SALSA_CACHE", str(tmp_path_factory.mktemp("cache")))
        monkeypatch.setenv("SALSA_DATA_URL", "http://127.0.0.1:9/")
        assert "cannot download" in refused("reproduce", "table1", "--datasets", "housing")
