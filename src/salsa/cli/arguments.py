"""Arguments and options that several commands share."""

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from salsa.cli.completion import complete_column


def option(
    metavar: str,
    help: str,
    complete: Callable[..., list[str]] | None = None,
    *,
    callback: Callable[..., Any] | None = None,
    min: float | None = None,
) -> Any:
    """Return an option: the name of its value and its text in the help, and the completion and check of its value."""
    return typer.Option(metavar=metavar, help=help, autocompletion=complete, callback=callback, min=min)


def check_readable(path: str | None) -> str | None:
    """Raise OSError if there is no such file, before slow imports and other files; - is standard input."""
    if path not in (None, "-"):
        os.stat(path)
    return path


def check_seconds(value: float | None) -> float | None:
    """Return a time limit in seconds, or None for no limit; raise BadParameter unless it is positive and finite."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value} is not a positive number of seconds, such as 120")
    return value


def check_roles(group: str | None, time: str | None) -> None:
    """Raise ValueError if rows have both groups and times."""
    if group is not None and time is not None:
        why = "--group judges by new groups, --time by later rows of the same groups"
        raise ValueError(f"--group {group} and --time {time} exclude each other: {why}; choose what you will predict")


def listed(text: str) -> list[str]:
    """Return the words of a comma-separated list in small letters."""
    return [word.strip().lower() for word in text.split(",")]


def _argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, callback=check_readable, help=help)


Data = Annotated[str, _argument("DATA", "CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.")]
SomeData = Annotated[str | None, _argument("DATA", "Table of rows to explain, as for salsa predict.")]
Model = Annotated[str, _argument("MODEL", "Model file that salsa fit wrote.")]
Target = Annotated[str, option("COLUMN", "Column to predict.", complete_column)]
Drop = Annotated[list[str] | None, option("COLUMN", "Column to ignore; may be repeated.", complete_column)]
Category = Annotated[
    list[str] | None,
    option("COLUMN", "Column to take as categories, even if it holds numbers; may be repeated.", complete_column),
]
Group = Annotated[
    str | None,
    option(
        "COLUMN",
        "Column with the group of every row, such as a person: groups are held out whole. It is no feature.",
        complete_column,
    ),
]
Time = Annotated[
    str | None,
    option(
        "COLUMN",
        "Column with the time of every row, numbers or ISO dates: later rows judge. It is no feature: a trend that no "
        "other column explains is not followed, and counts as error.",
        complete_column,
    ),
]
Log = Annotated[
    bool,
    typer.Option("--log", help="Learn the logarithm of the target; predictions and intervals stay in its own units."),
]
Classes = Annotated[
    bool, typer.Option("--classes", help="Take a target of numbers as classes; text and booleans always are.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
