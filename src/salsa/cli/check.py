"""salsa check: show what salsa understands of a table, without a fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from salsa.cli.arguments import (
    AsJson,
    Category,
    Classes,
    Data,
    Drop,
    Group,
    KeepTime,
    Target,
    Time,
    check_roles,
    option,
)
from salsa.cli.completion import complete_column
from salsa.cli.roles import Roles
from salsa.cli.show import print_fields, print_records, show
from salsa.cli.training_file import training_table

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    from salsa.cli.tables.understanding import Understanding, Understood

MOST_COLUMNS = 30  # columns that a fit shows; columns with something done come first
COLUMNS = {
    "column": "{column}",
    "kind": "{kind}{count}",
    "missing": "{missing}",
    "example": "{example}",
    "what was done": "{done}",
}


def check(
    data: Data,
    target: Target,
    weights: Annotated[str | None, option("COLUMN", "Column with the weights of the rows.", complete_column)] = None,
    group: Group = None,
    time: Time = None,
    keep_time: KeepTime = False,
    classes: Classes = False,
    drop: Drop = None,
    category: Category = None,
    memory: Annotated[str | None, option("SIZE", "Memory limit, such as 4GB; larger files are read in chunks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what salsa understands of a table, without a fit: kind, missing values and an example of every column.

    Decimal commas, thousands separators, units, words for missing values and columns that are left out are shown.

    [bold]salsa fit[/bold] reads the table in the same way, and the model reads new tables as this one.

    Example: [bold]salsa check houses.csv --target price[/bold]
    """
    from salsa._utils.memory import memory_limit_bytes

    check_roles(group, time, keep_time)
    roles = Roles(target, weights, drop or (), category or (), group, time, keep_time, classes=classes)
    table = training_table(data, roles, memory_limit_bytes(memory))
    summary = table.understood.summary() | {"target": str(table.target), "notes": table.notes}
    show(summary, lambda _: _print_check(table.understood, str(table.target)), as_json)


def _print_check(understood: "Understanding", target: str) -> None:
    print_understanding(understood, most=None)
    print()
    print_fields([("target", target)])


def print_understanding(understood: "Understanding", most: int | None = MOST_COLUMNS) -> None:
    """Print the notes on the file, and the table of columns: all of them, or those with something done first."""
    left_out = f", {understood.dropped} without a target left out" if understood.dropped else ""
    fields = [("data", understood.data), ("rows", f"{understood.rows}{left_out}")]
    print_fields([*fields, *(("file", note) for note in understood.file)])
    shown = _most_telling(understood.columns, most)
    print_records(COLUMNS, [_short(column) for column in shown])
    if len(shown) < len(understood.columns):
        print(f"... and {len(understood.columns) - len(shown)} further columns; salsa check shows all")
    if most is not None:
        print(flush=True)  # the fit that follows may take long


def _most_telling(columns: Sequence["Understood"], most: int | None) -> list["Understood"]:
    """Return the columns in their order; if there are too many, those with something done, and then the first ones."""
    if most is None or len(columns) <= most:
        return list(columns)
    ranked = sorted(range(len(columns)), key=lambda place: (not columns[place].done, place))
    return [columns[place] for place in sorted(ranked[:most])]


def _short(column: "Understood", most: int = 24) -> dict[str, Any]:
    """Return the row of a column with a short example."""
    example = " ".join(column.example.split())
    count = "" if column.levels is None else f", levels: {column.levels}"
    shown = example if len(example) <= most else f"{example[: most - 3]}..."
    return column._asdict() | {"count": count, "example": shown}
