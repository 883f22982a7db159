"""salsa reproduce."""

import json
import re

import pytest
from conftest import needs_data


class TestReproduce:
    @needs_data
    def test_forestfires(self, call):
        code, out, err = call("reproduce", "table1", "--datasets", "forestfires", "--json")
        (row,) = json.loads(out)
        assert (code, err) == (0, "")
        assert (row["dataset"], row["method"], row["order"]) == ("forestfires", "salsa", 3)
        assert row["mse"] == pytest.approx(row["published_mse"], abs=5e-6)
        assert row["seconds"] > 0

    @needs_data
    def test_table_without_published_numbers(self, call):
        arguments = ["--methods", "salsa,salsa-5fold", "--datasets", "forestfires", "--protocol", "described"]
        code, out, err = call("reproduce", "table1", *arguments)
        assert (code, err) == (0, "")
        assert len(re.findall(r"forestfires +211 +10 +\S+ +0\.\d{5} +\d+ +- +- +\d+\.\d", out)) == 2
        assert max(map(len, out.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--datasets housing,wine", "unknown data set 'wine'; choose from housing, galaxy"),
            ("--methods magic", "unknown method 'magic'; choose from salsa, salsa-5fold"),
            ("--protocol loose", "protocol must be one of authors, described"),
        ],
    )
    def test_unknown_names(self, refused, options, message):
        assert message in refused("reproduce", "table1", *options.split())

    def test_no_experiment(self, refused):
        assert "salsa reproduce table1" in refused("reproduce")

    def test_no_connection(self, refused, monkeypatch, tmp_path_factory):
        monkeypatch.delenv("SALSA_DATA", raising=False)
        monkeypatch.setenv("SALSA_CACHE", str(tmp_path_factory.mktemp("cache")))
        monkeypatch.setenv("SALSA_DATA_URL", "http://127.0.0.1:9/")
        assert "cannot download" in refused("reproduce", "table1", "--datasets", "housing")
