"""What a shell offers when the tab key is pressed: quick, and silent where there is nothing to offer."""

import csv
import gzip
import io
import os
from collections.abc import Callable
from contextlib import suppress

import typer

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def heed_named_shell(arguments: list[str]) -> None:
    """Let --show-completion and --install-completion take the name of a shell.

    typer takes one only where it is told not to look for the shell that is running; in a script there may be none.
    """
    if len(arguments) == 2 and arguments[0] in ("--show-completion", "--install-completion") and arguments[1] in SHELLS:
        os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"


def complete_column(context: typer.Context, incomplete: str) -> list[str]:
    """Columns of DATA whose names begin like this."""
    return _beginning(incomplete, lambda: column_names(_given(context, "data")))


def complete_feature(context: typer.Context, incomplete: str) -> list[str]:
    """Features of MODEL whose names begin like this."""
    return _beginning(incomplete, lambda: _feature_names(_given(context, "model")))


def column_names(path: str) -> list[str]:
    """The names of the columns; nothing but the header is read."""
    if path.endswith(".parquet"):
        from pyarrow.parquet import read_schema  # type: ignore[import-untyped,unused-ignore]

        return list(read_schema(path).names)
    if path.endswith(".feather"):
        from pyarrow.ipc import open_file  # type: ignore[import-untyped,unused-ignore]

        return list(open_file(path).schema.names)
    is_tsv = path.removesuffix(".gz").endswith(".tsv")
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        text = io.TextIOWrapper(file, encoding="utf-8")
        return next(csv.reader(text, delimiter="\t" if is_tsv else ",", skipinitialspace=True))


def _feature_names(model: str) -> list[str]:
    from salsa.archive import read_archive

    return list(read_archive(model)[0]["columns"]["names"])


def _beginning(incomplete: str, names: Callable[[], list[str]]) -> list[str]:
    """A traceback while someone is typing would help nobody: no names where anything is wrong."""
    with suppress(Exception):
        return [name for name in names() if name.startswith(incomplete)]
    return []


def _given(context: typer.Context, name: str) -> str:
    """What was given for an argument; while an option waits for its value, arguments have not found their names."""
    places = [parameter.name for parameter in context.command.params if parameter.param_type_name == "argument"]
    return str(context.params.get(name) or context.args[places.index(name)])
