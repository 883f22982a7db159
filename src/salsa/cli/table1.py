"""salsa reproduce table1: Table 1 of the paper, with the published numbers beside ours."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salsa.cli.arguments import AsJson, check_seconds
from salsa.cli.completion import complete_list, complete_words
from salsa.cli.show import dash, print_table, progress, show

if TYPE_CHECKING:
    from salsa.paper.ledger import Job, Row
    from salsa.paper.table1_pages import Entry, Table1

ALL = "all"  # stands for the 22 methods of the paper and our own method


COLUMNS: dict[str, Callable[[Any], str]] = {
    "dataset": lambda row: row["dataset"],
    "n": lambda row: str(row["n"]),
    "D": lambda row: str(row["D"]),
    "method": lambda row: row["method"],
    "mse": lambda row: dash(row["mse"], ".5f"),
    "order": lambda row: dash(row["order"], "d"),
    "paper\nmse": lambda row: dash(row["published_mse"], ".5f"),
    "paper\norder": lambda row: dash(row["published_order"], "d"),
    "CPU\nseconds": lambda row: dash(row["seconds"], ".1f"),
    "ratio": lambda row: dash(row["ratio"], ".2f"),
}


def _dataset_names() -> list[str]:
    from salsa.paper import DATASETS

    return list(DATASETS)


def _method_names() -> list[str]:
    from salsa.paper.experiments import METHODS

    return [*METHODS, ALL]


def table1(
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            autocompletion=complete_list(_method_names),
            help="Methods, separated by commas: salsa as the authors ran it, salsa-5fold, salsa-learned (this package "
            "as it comes), ridge, ..., svr-eps-untuned; all for the 22 of the paper and salsa-learned.",
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
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results.csv, table1.md and table1.json. Fits in results.csv are not run again.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", callback=check_seconds, help="CPU time limit of a fit, tuning included."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Parallel fits, one process each; with --out one per core."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Table 1 of the paper: mean squared error on its public data sets.

    All twelve sets take some minutes; they are downloaded unless SALSA_DATA names the folder that holds them.

    All methods take an hour or two. With --out each result is written as soon as it is known: run the same command
    again to continue after an interruption. Fits that failed, or that a lower --limit had stopped, are then repeated.

    The columns named paper hold the published numbers; ratio is our error divided by the published error.

    Example: [bold]salsa reproduce table1 --datasets housing,forestfires[/bold]

    Example: [bold]salsa reproduce table1 --methods all --out table1 --limit 600[/bold]
    """
    from salsa._utils.atomic import replacing
    from salsa.paper import DATASETS
    from salsa.paper.experiments import EVERY, METHODS, plan
    from salsa.paper.table1_pages import Table1, as_entries

    names = EVERY if methods.strip().lower() == ALL else _chosen("method", methods, METHODS)
    planned = plan(_chosen("data set", datasets, DATASETS), names, protocol)
    count, rows = f"{len(planned)} fit{'' if len(planned) == 1 else 's'}", list["Row"]()
    with progress(f"Table 1: {count}") as say, ExitStack() as stack:
        for row in _rows(planned, out, limit, jobs, stack):
            rows.append(row)
            say(f"Table 1: {len(rows)} of {count}, the last {row.dataset}, {row.method}")
    table = Table1(as_entries(rows))
    if out is not None:
        for name, text in (("table1.md", table.to_markdown()), ("table1.json", table.to_json())):
            with replacing(out / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
    show(list(table.entries), lambda _: _print_all(table), as_json)


def _chosen(what: str, text: str | None, known: Iterable[str]) -> list[str]:
    """Return the names in a comma-separated list, each once; all known names if the text is None."""
    names = list(known) if text is None else list(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    return names


def _rows(
    planned: Sequence["Job"], out: Path | None, limit: float | None, jobs: int | None, stack: ExitStack
) -> Iterator["Row"]:
    """Yield the rows: from this process, or from parallel processes if a folder, a limit or jobs are given."""
    from joblib import cpu_count

    from salsa.paper.experiments import measure_table1, run_all
    from salsa.paper.ledger import TABLE1, open_ledger

    if out is None and limit is None and jobs is None:
        return map(measure_table1, planned)
    ledger = None if out is None else stack.enter_context(open_ledger(out / "results.csv", TABLE1))
    return run_all(planned, measure_table1, ledger, limit=limit, n_jobs=jobs or (1 if out is None else cpu_count()))


def _print_all(table: "Table1") -> None:
    from salsa.paper.experiments import OURS

    has_rivals = not set(table.errors.index) <= set(OURS)
    _print_entries(table.entries, without={"n", "D"} if has_rivals else {"ratio"})  # a line has 80 letters
    if has_rivals:
        _print_methods(table)
        _print_ranks(table)
    for _, dataset, method, status in table.unfinished().itertuples():
        print(f"{dataset}, {method}: {status}")


def _print_entries(entries: Sequence["Entry"], without: set[str]) -> None:
    columns = {name: cell for name, cell in COLUMNS.items() if name not in without}
    print_table(columns, [[cell(entry) for cell in columns.values()] for entry in entries])


def _print_methods(table: "Table1") -> None:
    names = ("method", "sets done", "median ratio", "smallest", "largest", "CPU seconds")
    cells = [
        (
            method,
            f"{done} of {sets}",
            *(dash(ratio, ".2f") for ratio in ratios),
            dash(seconds, ".1f"),
        )
        for _, method, *ratios, done, sets, seconds in table.methods().itertuples()
    ]
    print_table(names, cells)


def _print_ranks(table: "Table1") -> None:
    names = ("dataset", "rank of SALSA in the paper", "here", "learned", "methods here")
    cells = [
        (dataset, *(dash(rank, ".0f") for rank in ranks), str(methods))
        for _, dataset, *ranks, methods in table.ranks().itertuples()
    ]
    average = ("average", *(dash(rank, ".2f") for rank in table.average_ranks().values()), "")
    print_table(names, [*cells, average])
