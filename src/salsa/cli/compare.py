"""salsa compare: a leaderboard of methods on a table."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from salsa.cli.arguments import (
    AsJson,
    Category,
    Data,
    Drop,
    Group,
    Log,
    Target,
    Time,
    check_roles,
    check_seconds,
    option,
)
from salsa.cli.completion import complete_list
from salsa.cli.show import print_fields, print_records, progress, show
from salsa.cli.training_file import Roles, Times, whole_table

if TYPE_CHECKING:
    from salsa.baselines import Comparison

ALL, PAPER = "all", "paper"  # words that stand for several methods
COLUMNS = {
    "method": "{method}",
    "mse": "{mse:.4g}",
    "+/-": "{mse_se:.2g}",
    "R2": "{r2:.4f}",
    "fit\nseconds": "{fit_seconds:.2f}",
    "predict\nseconds": "{predict_seconds:.3f}",
}


def _method_names() -> list[str]:
    from salsa.baselines.registry import RIVALS

    return [*RIVALS, ALL, PAPER]


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
    log: Log = False,
    drop: Drop = None,
    category: Category = None,
    plot: Annotated[Path | None, option("FILE", "Also draw the errors to this .png, .svg or .pdf file.")] = None,
    seed: Annotated[int, option("NUMBER", "Seed of the shuffled folds.", min=0)] = 0,
    jobs: Annotated[int, option("N", "Methods that run in parallel.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Compare methods on a table by their mean squared error in cross-validation, with equal folds for all methods.

    Every method tunes itself on the training rows of a fold, and runs on one thread. The smallest error comes first.

    Methods that take folds tune themselves as they are judged: by whole groups with --group, by later rows with --time.

    For other methods, text becomes columns of 0 and 1, and missing numbers become medians; salsa needs neither.

    Example: [bold]salsa compare houses.csv --target price --methods salsa,ridge,gbrt --limit 60[/bold]
    """
    from salsa.baselines import compare as compared

    check_roles(group, time)
    chosen = None if methods is None else _chosen(methods)
    if plot is not None:
        _check_plot(plot, data)
    table = whole_table(data, Roles(target, None, drop or (), category or (), group, time, log))
    folds: Any = cv if table.times is None else table.times.folds(cv)
    options: dict[str, Any] = {"groups": table.labels, "target_transform": "log" if log else None}
    for note in (*table.notes, *_lacking(chosen or ())):
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
        "scale": f"log of {target}; errors are in units of {target}" if log else None,
        "groups": None if table.groups is None else f"{table.groups} in column {group!r}, held out whole",
        "time": None if table.times is None else _described(table.times),
        "folds": cv,
        "best": best,
        "plot": plot,
    }
    show(comparison.frame.to_dict("records"), lambda rows: _print_comparison(fields, rows), as_json)


def _described(times: Times) -> str:
    return f"column {times.column!r}, {times.first} to {times.last}: every fold is predicted from all rows before it"


def _chosen(text: str) -> list[str]:
    """Return the methods in a comma-separated list, in any letter case; "all" and "paper" stand for several."""
    from salsa.baselines.registry import RIVALS, find_rival

    many = {ALL: list(RIVALS), PAPER: [name for name, rival in RIVALS.items() if rival.in_paper]}
    names = [name.strip() for name in text.split(",")]
    return [found for name in names for found in many.get(name.lower()) or [find_rival(name).name]]


def _lacking(names: Sequence[str]) -> Iterator[str]:
    """Yield a line for every method whose package is not installed, to be printed before the work starts."""
    from salsa.baselines.registry import RIVALS, lacks_package

    for rival in map(RIVALS.__getitem__, names):
        if lacks_package(rival):
            advice = f"pip install {rival.package}"
            yield f"{rival.name} needs the package {rival.package}, which is not installed: {advice}"


def _check_plot(path: Path, data: str) -> None:
    """Raise ValueError before the work starts if the picture cannot be drawn or written."""
    from salsa.cli.tables.writing import check_output

    try:
        import matplotlib as mpl
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'salsa-learn[plots]'") from None
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

    figure: Any = comparison.plot().figure
    with replacing(path) as temporary:
        figure.savefig(temporary, format=_picture(path), dpi=150)
    plt.close(figure)


def _print_comparison(fields: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    print_fields((name, value) for name, value in fields.items() if value is not None)
    finished = [row for row in rows if row["status"] == "ok"]  # failed methods come last
    print_records(COLUMNS, finished)
    if failed := rows[len(finished) :]:
        width = max(len(row["method"]) for row in failed)
        print(*("", *(f"{row['method']:<{width}}  {row['status']}" for row in failed)), sep="\n")
