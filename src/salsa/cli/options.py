"""Arguments and options that several commands have."""

from typing import Annotated

import typer

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that salsa fit wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
