"""Arguments and options that several commands share."""

import os
from typing import Annotated

import typer

from salsa.cli.completion import complete_column


def check_readable(path: str | None) -> str | None:
    """Raise OSError if there is no such file, before slow imports and other files; - is standard input."""
    if path not in (None, "-"):
        os.stat(path)
    return path


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        callback=check_readable,
        help="CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.",
    ),
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", callback=check_readable, help="Model file that salsa fit wrote.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column to ignore; may be repeated."),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        autocompletion=complete_column,
        help="Column to take as categories, even if it holds numbers; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def check_seconds(value: float | None) -> float | None:
    """Return a time limit in seconds, or None for no limit; raise BadParameter unless it is positive and finite."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value} is not a positive number of seconds, such as 120")
    return value
