"""Fixtures for tests of the command line: main() in this process, in a folder with tables and a model."""

import io
import re
import sys

import pytest

from cli.command import FIT_MIXED, contents, make_mixed, make_table
from salsa import SalsaRegressor, cli


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the working folder, with train.csv, new.csv (without target) and model.salsa."""
    monkeypatch.chdir(tmp_path)
    train, new = make_table(), make_table(25, seed=1).drop(columns="y")
    train.to_csv("train.csv", index=False)
    new.to_csv("new.csv", index=False)
    SalsaRegressor(random_state=0).fit(train.drop(columns="y"), train["y"]).save("model.salsa")
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Give a function that runs main() and returns exit code, standard output and standard error."""

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["salsa", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def refused(call, folder):
    """Give a function that asserts that main() exits with 2 and one line, writes no file, and returns the line.

    Errors of a fit come after the table of what was understood; all other errors come without output.
    """

    def run(*arguments, **options):
        before = contents(folder)
        code, out, err = call(*arguments, **options)
        assert code == 2
        assert out == "" or (arguments[0] == "fit" and out.startswith("data ") and "\nmodel" not in out)
        assert re.fullmatch(r"salsa: .+\n", err)
        assert contents(folder) == before
        return err

    return run


@pytest.fixture
def mixed(call, folder):
    """Return the working folder with mixed.csv, and with mixed.salsa fitted to it by the command line."""
    make_mixed().to_csv("mixed.csv", index=False)
    code, _, err = call("fit", "mixed.csv", *FIT_MIXED, "--category", "code")
    assert (code, err) == (0, "")
    return folder
