"""salsa reproduce fig1a ... fig1f: the synthetic experiments of Figure 1 of the paper."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from salsa.cli.arguments import AsJson, check_seconds
from salsa.cli.show import PlainCommand, dash, print_table, progress, show

if TYPE_CHECKING:
    from salsa.paper.figures import Point

#: name -> description of the experiment in the help
NAMES = {
    "fig1a": "the order of the truth is known, D = 15",
    "fig1b": "orders 1, 2, 4, 8, 15 against each other, D = 15",
    "fig1c": "the order by cross-validation, D = 20",
    "fig1d": "the order by cross-validation, D = 30",
    "fig1e": "the order by cross-validation, D = 40",
    "fig1f": "the order by cross-validation, D = 50",
}
HELP = (
    "Figure {part} of the paper: {what}.",
    "Writes {name}.csv, a line for every fit as soon as it is done, and {name}.png. Run the same command again to "
    "continue after an interruption: fits in {name}.csv are not run again. Ten trials take half an hour or more.",
    "The column error is the mean squared error on 2000 rows divided by the variance of the truth.",
    "Example: [bold]salsa reproduce {name} --trials 2 --out figures[/bold]",
)


def add_figures(app: typer.Typer) -> None:
    """Add a command for every part of Figure 1."""
    for name, what in NAMES.items():
        text = "\n\n".join(HELP).format(part=name.removeprefix("fig"), name=name, what=what)
        app.command(name, cls=PlainCommand, help=text)(_command(name))


def _command(name: str) -> Callable[..., None]:
    def command(
        out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the CSV file and the picture.")],
        trials: Annotated[int, typer.Option(metavar="N", min=1, help="Draws of the data; the paper has 10.")] = 10,
        methods: Annotated[
            str | None,
            typer.Option(
                metavar="NAMES", help="Methods, separated by commas, such as salsa-d3,salsa,krr; default: all."
            ),
        ] = None,
        rows: Annotated[
            str | None, typer.Option(metavar="NUMBERS", help="Numbers of rows, separated by commas, such as 100,400.")
        ] = None,
        limit: Annotated[
            float,
            typer.Option(metavar="SECONDS", callback=check_seconds, help="CPU time limit of a fit."),
        ] = 120.0,
        jobs: Annotated[
            int | None, typer.Option(metavar="N", min=1, help="Parallel fits; default: one per core.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        show(_reproduce(name, out, trials, methods, rows, limit, jobs), _print_points, as_json)

    return command


def _reproduce(
    name: str, out: Path, trials: int, methods: str | None, rows: str | None, limit: float, jobs: int | None
) -> list["Point"]:
    from joblib import cpu_count

    from salsa.paper.curves import draw_figure, save_figure
    from salsa.paper.figures import FIGURES, points, run_figure

    experiment = FIGURES[name]
    fits = run_figure(
        experiment,
        out,
        trials=trials,
        methods=[word.strip().lower() for word in methods.split(",")] if methods else (),
        sizes=_sizes(rows) if rows else (),
        time_limit=limit,
        n_jobs=jobs or cpu_count(),
    )
    with progress(f"Figure {name.removeprefix('fig')}") as say:
        for row, left in fits:
            say(f"{left} fits to go; the last: {row.method}, {row.n} rows, trial {row.seed + 1}")
    found = points(experiment, out, trials)
    save_figure(draw_figure(found, experiment.title), out / f"{name}.png")
    return found


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--rows: {text!r} is not a list of numbers such as 100,200,400") from None
    if min(sizes) < 10:
        raise ValueError(f"--rows: {min(sizes)} rows are too few for cross-validation; give at least 10")
    return sizes


def _print_points(points: list["Point"]) -> None:
    names = ("method", "n", "error", "standard\nerror", "order", "trials", "CPU\nseconds")
    print_table(names, [_cells(point) for point in points])
    for point in points:
        if point["status"] != "ok":
            print(f"{point['method']}, n = {point['n']}: {point['status']}; not drawn")


def _cells(point: "Point") -> tuple[str, ...]:
    return (
        point["method"],
        str(point["n"]),
        dash(point["share"], ".5f"),
        dash(point["share_se"], ".5f"),
        dash(point["order"], "d"),
        str(point["trials"]),
        dash(point["seconds"], ".1f"),
    )
