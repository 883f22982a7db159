"""Completion of names when the tab key is pressed in a shell; errors give no output."""

import gzip
import os
import re
from collections.abc import Callable
from contextlib import suppress

import typer
from typer._completion_shared import get_completion_script, install

from salsa.cli.tables.decoding import DecodedText
from salsa.cli.tables.dialect import find_dialect
from salsa.cli.tables.formats import format_of

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")

Completion = Callable[[str], list[str]]


class Offer(str):
    """A name that is quoted for bash when it is formatted; other shells quote names themselves.

    Quoting waits for formatting because typer first compares the plain name with the typed text, without quotes.
    """

    def __format__(self, _: str) -> str:
        if os.environ.get("_SALSA_COMPLETE") != "complete_bash":
            return str(self)
        place = int(os.environ["COMP_CWORD"])
        word = "".join(os.environ["COMP_WORDS"].split("\n")[place : place + 1])  # with its quotes and backslashes
        if word.startswith("'"):
            return self.replace("'", r"'\''")
        return re.sub(r'[\\"$`]' if word.startswith('"') else r"[^\w@%+=:,./-]", r"\\\g<0>", self)


def serve_named_shell(arguments: list[str]) -> bool:
    """Run --show-completion or --install-completion for a named shell; return whether the arguments asked for it.

    The options of typer take no name but detect the running shell; in a script there may be none.
    """
    if len(arguments) != 2 or arguments[1] not in SHELLS:
        return False
    option, shell = arguments
    if option == "--show-completion":
        print(get_completion_script(prog_name="salsa", complete_var="_SALSA_COMPLETE", shell=shell))
    elif option == "--install-completion":
        _, path = install(shell, "salsa", "_SALSA_COMPLETE")
        print(f"{shell} completion installed in {path}; it takes effect in new terminals")
    return option in ("--show-completion", "--install-completion")


def complete_column(context: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of DATA whose names begin with the incomplete word."""
    return _beginning(incomplete, lambda: column_names(_given(context, "data")))


def complete_signs(context: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of DATA with a sign, such as area=+1, that begin with the incomplete word."""

    def signed() -> list[str]:
        return [f"{name}={sign}" for name in column_names(_given(context, "data")) for sign in ("+1", "-1")]

    return _beginning(incomplete, signed)


def complete_features(context: typer.Context, incomplete: str) -> list[str]:
    """Return the features of MODEL whose names begin with the incomplete word, also after a comma."""
    return _beginning(incomplete, lambda: _continued(incomplete, _feature_names(_given(context, "model"))))


def complete_classes(context: typer.Context, incomplete: str) -> list[str]:
    """Return the classes of MODEL that begin with the incomplete word."""
    return _beginning(incomplete, lambda: _class_names(_given(context, "model")))


def complete_words(*words: str) -> Completion:
    """Return a function that offers these words."""
    return lambda incomplete: _beginning(incomplete, lambda: list(words))


def complete_list(names: Callable[[], list[str]]) -> Completion:
    """Return a function that offers these names, also after a comma."""
    return lambda incomplete: _beginning(incomplete, lambda: _continued(incomplete, names()))


def column_names(path: str) -> list[str]:
    """Return the names of the columns; only the first lines are read."""
    format = format_of(path)
    if format.kind == "parquet":
        from pyarrow.parquet import read_schema  # type: ignore[import-untyped,unused-ignore]

        return list(read_schema(path).names)
    if format.kind == "feather":
        from pyarrow.ipc import open_file  # type: ignore[import-untyped,unused-ignore]

        return list(open_file(path).schema.names)
    with gzip.open(path) if format.is_packed else open(path, "rb") as file:
        text = DecodedText(file, file.peek(4)[:4])
        return list(find_dialect(text.head(), text.is_whole, format.separator).names)


def _feature_names(model: str) -> list[str]:
    from salsa.persistence.archive import read_archive

    return list(read_archive(model)[0]["columns"]["names"])


def _class_names(model: str) -> list[str]:
    from salsa.persistence.archive import read_archive

    return [str(label) for label in read_archive(model)[0]["classes"]["labels"]]


def _continued(incomplete: str, names: list[str]) -> list[str]:
    """Return the names, and the typed list up to its last comma followed by each name that it does not hold yet."""
    before, comma, _ = incomplete.rpartition(",")
    longer = [f"{before},{name}" for name in names if name not in before.split(",")] if comma else []
    return [*names, *longer]


def _beginning(incomplete: str, names: Callable[[], list[str]]) -> list[str]:
    """Return the names that begin with the incomplete word; no names, instead of a traceback, if anything fails."""
    with suppress(Exception):
        return [Offer(name) for name in names() if name.startswith(incomplete)]
    return []


def _given(context: typer.Context, name: str) -> str:
    """Return the value of an argument; arguments have no names yet while an option waits for its value."""
    places = [parameter.name for parameter in context.command.params if parameter.param_type_name == "argument"]
    return str(context.params.get(name) or context.args[places.index(name)])
