"""salsa reproduce table1: Table 1 of the paper, with the published numbers beside ours."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from salsa.cli.arguments import AsJson, check_seconds, listed, option
from salsa.cli.completion import complete_list, complete_words
from salsa.cli.show import dash, print_records, print_table, progress, show

if TYPE_CHECKING:
    from salsa.paper.ledger import Job, Ledger, Row
    from salsa.paper.table1_pages import Table1

ALL = "all"  # stands for the 22 methods of the paper and our own method

ERRORS = {
    "dataset": "{dataset}",
    "n": "{n}",
    "D": "{D}",
    "method": "{method}",
    "mse": "{mse:.5f}",
    "order": "{order:d}",
    "paper\nmse": "{published_mse:.5f}",
    "paper\norder": "{published_order:d}",
    "CPU\nseconds": "{seconds:.1f}",
    "ratio": "{ratio:.2f}",
}
RATIOS = {
    "method": "{method}",
    "sets done": "{done} of {sets}",
    "median ratio": "{median_ratio:.2f}",
    "smallest": "{min_ratio:.2f}",
    "largest": "{max_ratio:.2f}",
    "CPU seconds": "{seconds:.1f}",
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
        option(
            "NAMES",
            "Methods, separated by commas: salsa as the authors ran it, salsa-5fold, salsa-learned (this package "
            "as it comes), ridge, ..., svr-eps-untuned; all for the 22 of the paper and salsa-learned.",
            complete_list(_method_names),
        ),
    ] = "salsa",
    protocol: Annotated[
        str,
        option(
            "NAME",
            "authors: as their program did; described: as the paper says.",
            complete_words("authors", "described"),
        ),
    ] = "authors",
    datasets: Annotated[
        str | None,
        option("NAMES", "Data sets, separated by commas; all if left out.", complete_list(_dataset_names)),
    ] = None,
    out: Annotated[
        Path | None,
        option("DIR", "Folder for results.csv, table1.md and table1.json. Fits in results.csv are not run again."),
    ] = None,
    limit: Annotated[
        float | None, option("SECONDS", "CPU time limit of a fit, tuning included.", callback=check_seconds)
    ] = None,
    jobs: Annotated[int | None, option("N", "Parallel fits, one process each; with --out one per core.", min=1)] = None,
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
    from salsa.paper.ledger import TABLE1, open_ledger
    from salsa.paper.table1_pages import Table1, as_entries

    names = EVERY if methods.strip().lower() == ALL else _chosen("method", methods, METHODS)
    planned = plan(_chosen("data set", datasets, DATASETS), names, protocol)
    count, rows = f"{len(planned)} fit{'' if len(planned) == 1 else 's'}", list["Row"]()
    opened = nullcontext() if out is None else open_ledger(out / "results.csv", TABLE1)
    with progress(f"Table 1: {count}") as say, opened as ledger:
        for row in _rows(planned, ledger, limit, jobs):
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
    names = list(known) if text is None else list(dict.fromkeys(listed(text)))
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    return names


def _rows(planned: Sequence["Job"], ledger: "Ledger | None", limit: float | None, jobs: int | None) -> Iterator["Row"]:
    """Yield the rows: from this process, or from parallel processes if a folder, a limit or jobs are given."""
    from joblib import cpu_count

    from salsa.paper.experiments import measure_table1, run_all

    if ledger is None and limit is None and jobs is None:
        return map(measure_table1, planned)
    return run_all(planned, measure_table1, ledger, limit=limit, n_jobs=jobs or (1 if ledger is None else cpu_count()))


def _print_all(table: "Table1") -> None:
    from salsa.paper.experiments import OURS

    has_rivals = not set(table.errors.index) <= set(OURS)
    without = {"n", "D"} if has_rivals else {"ratio"}  # a line has 80 letters
    print_records({name: text for name, text in ERRORS.items() if name not in without}, table.entries)
    if has_rivals:
        print_records(RATIOS, table.methods().to_dict("records"))
        _print_ranks(table)
    for _, dataset, method, status in table.unfinished().itertuples():
        print(f"{dataset}, {method}: {status}")


def _print_ranks(table: "Table1") -> None:
    names = ("dataset", "rank of SALSA in the paper", "here", "learned", "methods here")
    cells = [
        (dataset, *(dash(rank, ".0f") for rank in ranks), str(methods))
        for _, dataset, *ranks, methods in table.ranks().itertuples()
    ]
    average = ("average", *(dash(rank, ".2f") for rank in table.average_ranks().values()), "")
    print_table(names, [*cells, average])
