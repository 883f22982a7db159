"""salsa compare: a leaderboard of methods on a table."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from salsa.cli.arguments import (
    AsJson,
    Category,
    Classes,
    Data,
    Drop,
    Group,
    KeepTime,
    Log,
    Target,
    Time,
    check_roles,
    check_seconds,
    option,
)
from salsa.cli.completion import complete_list
from salsa.cli.roles import Roles, Times
from salsa.cli.show import print_fields, print_records, progress, show
from salsa.cli.training_file import WholeTable, whole_table

if TYPE_CHECKING:
    from salsa.baselines import Comparison

ALL, PAPER = "all", "paper"  # words that stand for several methods
_SECONDS = {"fit\nseconds": "{fit_seconds:.2f}", "predict\nseconds": "{predict_seconds:.3f}"}
COLUMNS = {"method": "{method}", "mse": "{mse:.4g}", "+/-": "{mse_se:.2g}", "R2": "{r2:.4f}"} | _SECONDS
CLASS_COLUMNS = {
    "method": "{method}",
    "log\nloss": "{log_loss:.4g}",
    "+/-": "{log_loss_se:.2g}",
    "Brier": "{brier:.4f}",
    "accuracy": "{accuracy:.4f}",
} | _SECONDS


def _method_names() -> list[str]:
    from salsa.baselines.registry import CLASSIFIER_RIVALS, RIVALS

    return [*(RIVALS | CLASSIFIER_RIVALS), ALL, PAPER]


def compare(
    data: Data,
    target: Target,
    methods: Annotated[
        str | None,
        option(
            "NAMES",
            "Methods, separated by commas: salsa, ridge, ...; paper: the methods of the paper; all: all methods; "
            "default: a few fast methods.",
            complete_list(_method_names),
        ),
    ] = None,
    cv: Annotated[int, option("FOLDS", "Number of cross-validation folds.", min=2)] = 5,
    limit: Annotated[
        float | None, option("SECONDS", "Time limit of a method for all folds together.", callback=check_seconds)
    ] = None,
    group: Group = None,
    time: Time = None,
    keep_time: KeepTime = False,
    log: Log = False,
    classes: Classes = False,
    drop: Drop = None,
    category: Category = None,
    plot: Annotated[Path | None, option("FILE", "Also draw the errors to this .png, .svg or .pdf file.")] = None,
    seed: Annotated[int, option("NUMBER", "Seed of the shuffled folds.", min=0)] = 0,
    jobs: Annotated[int, option("N", "Methods that run in parallel.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Compare methods on a table by their mean squared error in cross-validation, with equal folds for all methods.

    A target of text or booleans holds classes: classifiers are then compared by their log loss, on stratified folds.

    Every method tunes itself on the training rows of a fold, and runs on one thread. The smallest error comes first.

    Methods that take folds tune themselves as they are judged: by whole groups with --group, by later rows with --time.

    For other methods, text becomes columns of 0 and 1, and missing numbers become medians; salsa needs neither.

    Example: [bold]salsa compare houses.csv --target price --methods salsa,ridge,gbrt --limit 60[/bold]
    """
    from salsa.baselines import compare as compared

    check_roles(group, time, keep_time)
    if classes and log:
        raise ValueError("--classes and --log exclude each other: classes have no logarithm")
    _check_names(methods)
    if plot is not None:
        _check_plot(plot, data)
    table = whole_table(
        data, Roles(target, None, drop or (), category or (), group, time, keep_time, log=log, classes=classes)
    )
    task = "classification" if table.target.has_classes else "regression"
    chosen = None if methods is None else _chosen(methods, task)
    folds: Any = cv if table.times is None else table.times.folds(cv)
    options: dict[str, Any] = {"task": task, "groups": table.labels, "target_transform": "log" if log else None}
    for note in (*_notes(table), *_lacking(chosen or (), task)):
        print(f"salsa: {note}", file=sys.stderr)
    with progress(f"Comparing on {table.rows} rows, {len(table.features)} features"), redirect_stdout(sys.stderr):
        options |= {"time_limit": limit, "n_jobs": jobs, "random_state": seed}
        comparison = compared(table.X, table.y, chosen, folds, **options)
    best = comparison.best  # raises an error with the reason if no method finished
    if plot is not None:
        _draw(comparison, plot)
    fields = {
        "rows": table.rows,
        "features": len(table.features),
        "target": str(table.target) if table.target.has_classes else None,
        "scale": f"log of {target}; errors are in units of {target}" if log else None,
        "groups": None if table.groups is None else f"{table.groups} in column {group!r}, held out whole",
        "time": None if table.times is None else _described(table.times),
        "folds": cv,
        "best": best,
        "plot": plot,
    }
    show(comparison.frame.to_dict("records"), lambda rows: _print_comparison(fields, rows, task), as_json)


def _notes(table: WholeTable) -> list[str]:
    """Return the notes on the table and on its file, and the changes of its values."""
    return [*table.notes, *table.understood.file, *table.understood.changes]


def _described(times: Times) -> str:
    return f"column {times.column!r}, {times.first} to {times.last}: every fold is predicted from all rows before it"


def _check_names(text: str | None) -> None:
    """Raise ValueError before a table is read if a method has an unknown name."""
    from salsa.baselines.registry import check_known

    for name in () if text is None else map(str.strip, text.split(",")):
        if name.lower() not in (ALL, PAPER):
            check_known(name)


def _chosen(text: str, task: str = "regression") -> list[str]:
    """Return the methods in a comma-separated list, in any letter case; "all" and "paper" stand for several."""
    from salsa.baselines.registry import find_rival, rivals_of

    rivals, names = rivals_of(task), [name.strip() for name in text.split(",")]
    many = {ALL: list(rivals), PAPER: [name for name, rival in rivals.items() if rival.in_paper]}
    if not many[PAPER] and PAPER in map(str.lower, names):
        raise ValueError("--methods paper: the methods of the paper predict numbers, and the target has classes")
    return [found for name in names for found in many.get(name.lower()) or [find_rival(name, task).name]]


def _lacking(names: Sequence[str], task: str) -> Iterator[str]:
    """Yield a line for every method whose package is not installed, to be printed before the work starts."""
    from salsa.baselines.registry import lacks_package, rivals_of

    for rival in map(rivals_of(task).__getitem__, names):
        if lacks_package(rival):
            advice = f"pip install {rival.package}"
            yield f"{rival.name} needs the package {rival.package}, which is not installed: {advice}"


def _check_plot(path: Path, data: str) -> None:
    """Raise ValueError before the work starts if the picture cannot be drawn or written."""
    from salsa.cli.tables.writing import check_output

    try:
        import matplotlib as mpl
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install matplotlib") from None
    mpl.use("agg")  # there may be no screen
    from matplotlib.backend_bases import FigureCanvasBase

    if _picture(path) not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(f"cannot draw {path}: name it .png, .svg or .pdf")
    check_output(path, data)


def _picture(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _draw(comparison: "Comparison", path: Path) -> None:
    """Draw the errors to a file, completely or not at all."""
    from matplotlib import pyplot as plt

    from salsa._utils.atomic import replacing

    figure: Any = comparison.plot().figure_
    with replacing(path) as temporary:
        figure.savefig(temporary, format=_picture(path), dpi=150)
    plt.close(figure)


def _print_comparison(fields: dict[str, Any], rows: list[dict[str, Any]], task: str) -> None:
    print_fields((name, value) for name, value in fields.items() if value is not None)
    finished = [row for row in rows if row["status"] == "ok"]  # failed methods come last
    print_records(COLUMNS if task == "regression" else CLASS_COLUMNS, finished)
    if failed := rows[len(finished) :]:
        width = max(len(row["method"]) for row in failed)
        print(*("", *(f"{row['method']:<{width}}  {row['status']}" for row in failed)), sep="\n")
