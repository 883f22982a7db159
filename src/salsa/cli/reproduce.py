"""salsa reproduce: the experiments of the paper."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from salsa.cli.completion import complete_list, complete_words
from salsa.cli.options import AsJson
from salsa.cli.plain import PlainCommand, PlainGroup
from salsa.cli.show import print_table, progress, show

if TYPE_CHECKING:
    from salsa.paper.runner import Row

app = typer.Typer(cls=PlainGroup)


def _dataset_names() -> list[str]:
    from salsa.paper import DATASETS

    return list(DATASETS)


@app.callback(invoke_without_command=True)
def reproduce(context: typer.Context) -> None:
    """Repeat the experiments of the paper, for example with salsa reproduce table1."""
    if context.invoked_subcommand is None:
        raise ValueError("reproduce what? There is one experiment: salsa reproduce table1")


@app.command(cls=PlainCommand)
def table1(
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            autocompletion=complete_list(lambda: ["salsa", "salsa-5fold"]),
            help="Methods, separated by commas: salsa, salsa-5fold.",
        ),
    ] = "salsa",
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_words("authors", "described"),
            help="authors: as their program did; described: as the paper says.",
        ),
    ] = "authors",
    datasets: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            autocompletion=complete_list(_dataset_names),
            help="Data sets, separated by commas; all if left out.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Table 1 of the paper: mean squared error on its public data sets.

    All twelve sets take some minutes; they are downloaded unless SALSA_DATA names the folder that holds them.

    The columns named paper hold what the paper published.

    Example: [bold]salsa reproduce table1 --datasets housing,forestfires[/bold]
    """
    from salsa.paper import DATASETS
    from salsa.paper.runner import METHODS, run

    pairs = [
        (dataset, method)
        for dataset in _chosen("data set", datasets, DATASETS)
        for method in _chosen("method", methods, METHODS)
    ]
    rows = []
    with progress("Table 1") as say:
        for number, (dataset, method) in enumerate(pairs, start=1):
            say(f"{number} of {len(pairs)}: {dataset}, {method}")
            rows.append(run(dataset, method, protocol))
    show(rows, _print_rows, as_json)


def _chosen(what: str, text: str | None, known: Iterable[str]) -> list[str]:
    """The names in a list separated by commas; all where there is none."""
    names = list(known) if text is None else [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    return names


def _print_rows(rows: list["Row"]) -> None:
    names = ("dataset", "n", "D", "method", "mse", "order", "paper\nmse", "paper\norder", "CPU\nseconds")
    cells = [
        (
            row["dataset"],
            str(row["n"]),
            str(row["D"]),
            row["method"],
            f"{row['mse']:.5f}",
            str(row["order"]),
            "-" if row["published_mse"] is None else f"{row['published_mse']:.5f}",
            "-" if row["published_order"] is None else str(row["published_order"]),
            f"{row['seconds']:.1f}",
        )
        for row in rows
    ]
    print_table(names, cells)
