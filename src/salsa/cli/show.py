"""Output of the commands: tables, JSON, reports, progress on a terminal, and help without Python types."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from salsa._utils.jsonable import jsonable

if TYPE_CHECKING:
    from salsa.regressor import SalsaRegressor

UNCUT = 24  # letters of the first column of a table that are never folded
WORDS = {
    "column",
    "dataset",
    "example",
    "feature",
    "kernel",
    "kind",
    "method",
    "term",
    "value",
    "what was done",
}  # columns of text


def show(result: Any, printed: Callable[[Any], None], as_json: bool) -> None:
    """Print a result as JSON, or by the function `printed` of its command."""
    if as_json:
        print(json.dumps(jsonable(result), allow_nan=False))
    else:
        printed(result)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print one line per field: its name and its value."""
    for name, value in fields:
        print(f"{name:<8}  {value}")


def print_table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a blank line and a table: text left-aligned, numbers right-aligned, long cells folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table, cells = (
        Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False),
        list(map(tuple, rows)),
    )
    for name in names:
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    table.columns[0].min_width = min(UNCUT, max((len(row[0]) for row in cells), default=0))
    for row in cells:
        table.add_row(*row)
    print()
    Console(markup=False, emoji=False).print(table)


def print_records(columns: Mapping[str, str], records: Iterable[Mapping[Any, Any]]) -> None:
    """Print a table of records: name of a column -> text with fields, such as "{alpha:.4g}"; None and NaN become -."""
    print_table(columns, [[_Dashing().vformat(text, (), record) for text in columns.values()] for record in records])


def dash(value: Any, form: str) -> str:
    """Format a value; None and NaN become "-"."""
    return "-" if value is None or value != value else format(value, form)


class _Dashing(Formatter):
    format_field = staticmethod(dash)  # type: ignore[assignment]


def write_html(
    model: "SalsaRegressor", path: Path, X: Any = None, y: Any = None, groups: Any = None, output: int = 0
) -> None:
    """Write the report of a model completely or not at all; X, y and groups are of rows to look at."""
    from salsa.explain import write_report

    with progress(f"Writing {path}"):
        write_report(model, path.resolve(), X, y, groups=groups, output=output)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show progress if standard error is a terminal; give a function that changes the text."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(text, total=None)
        yield lambda text: shown.update(task, description=text)


class Listener:
    """Callback of scikit-learn that announces what a fit has just tried, and how far its phases are."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.tried = say, ""

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing: a task is announced at its end, when its error is known."""

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: dict[str, Any] | None = None) -> None:
        if metadata is not None:
            from salsa._utils.progress import VARIANCE  # imports scikit-learn, which help does not need

            share = "R2" if metadata["unit"] == VARIANCE else "D2"
            self.tried = f"Tried {context.task_name}: {share} {1 - metadata['error']:.4f}"
            self.say(self.tried)

    def on_step(self, text: str) -> None:
        self.say(f"{self.tried}; {text}" if self.tried else text[:1].upper() + text[1:])


class _Plain:
    """Help that hides the types of flags and arguments, and the braces around required arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if parameter.param_type_name == "argument" or parameter.is_flag:
                parameter.display_type_rich = lambda ctx: None
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class PlainCommand(_Plain, TyperCommand):
    """A command with plain help."""


class PlainGroup(_Plain, TyperGroup):
    """A group of commands with plain help."""
