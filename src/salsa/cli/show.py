"""Output of the commands: tables, JSON, and progress on a terminal."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from salsa._utils.jsonable import jsonable

WORDS = {"dataset", "feature", "kernel", "kind", "method", "term", "value"}  # columns of text


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

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    print()
    Console(markup=False, emoji=False).print(table)


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
    """Callback of scikit-learn that announces what a fit has just tried."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing: there is nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing: there is nothing to clean up."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: a task is announced at its end, when its error is known."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: dict[str, float] | None = None) -> None:
        if metadata is not None:
            self.say(f"Tried {context.task_name}: R2 {1 - metadata['error']:.4f}")
