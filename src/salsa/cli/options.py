"""Arguments and options that several commands have."""

from typing import Annotated

import typer

from salsa.cli.completion import complete_column

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that salsa fit wrote.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column to leave out; may be repeated."),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        autocompletion=complete_column,
        help="Column of categories, even if numbers; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def check_seconds(value: float | None) -> float | None:
    """Of a time limit; None: there is none."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value} is not a positive number of seconds, such as 120")
    return value
