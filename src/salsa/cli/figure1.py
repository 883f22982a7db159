"""salsa reproduce fig1a ... fig1f: the synthetic experiments of Figure 1; salsa reproduce figures: their pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from salsa.cli.arguments import AsJson, check_seconds, listed, option
from salsa.cli.show import PlainCommand, print_records, progress, show

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
COLUMNS = {
    "method": "{method}",
    "n": "{n}",
    "error": "{share:.5f}",
    "standard\nerror": "{share_se:.5f}",
    "order": "{order:d}",
    "trials": "{trials}",
    "CPU\nseconds": "{seconds:.1f}",
}
HELP = (
    "Figure {part} of the paper: {what}.",
    "Writes {name}.csv, a line for every fit as soon as it is done, and {name}.png. Run the same command again to "
    "continue after an interruption: fits in {name}.csv are not run again. Ten trials take half an hour or more.",
    "The column error is the mean squared error on 2000 rows divided by the variance of the truth.",
    "Example: [bold]salsa reproduce {name} --trials 2 --out figures[/bold]",
)


def add_figures(app: typer.Typer) -> None:
    """Add a command for every part of Figure 1, and the command that draws all parts."""
    for name, what in NAMES.items():
        text = "\n\n".join(HELP).format(part=name.removeprefix("fig"), name=name, what=what)
        app.command(name, cls=PlainCommand, help=text)(_command(name))
    app.command(cls=PlainCommand)(figures)


def figures(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder with fig1a.csv ... fig1f.csv, or some.")],
    out: Annotated[Path, option("DIR", "Folder for the pictures.")],
    trials: Annotated[int, option("N", "Draws of the data to average.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Draw Figure 1 from the rows that salsa reproduce fig1a ... fig1f have written, without a fit.

    Writes fig1a.png, fig1b.png and fig1c_to_f.png, which has the last four parts side by side.

    Example: [bold]salsa reproduce figures docs/results --out figures[/bold]
    """
    from salsa.paper.curves import draw_parts_of, save_figure

    drawn = draw_parts_of(results, trials)
    out.mkdir(parents=True, exist_ok=True)
    paths = [str(out / f"{name}.png") for name in drawn]
    for path, figure in zip(paths, drawn.values(), strict=True):
        save_figure(figure, Path(path))
    show(paths, lambda written: print("\n".join(written)), as_json)


def _command(name: str) -> Callable[..., None]:
    def command(
        out: Annotated[Path, option("DIR", "Folder for the CSV file and the picture.")],
        trials: Annotated[int, option("N", "Draws of the data; the paper has 10.", min=1)] = 10,
        methods: Annotated[
            str | None, option("NAMES", "Methods, separated by commas, such as salsa-d3,salsa,krr; default: all.")
        ] = None,
        rows: Annotated[str | None, option("NUMBERS", "Numbers of rows, separated by commas, such as 100,400.")] = None,
        limit: Annotated[float, option("SECONDS", "CPU time limit of a fit.", callback=check_seconds)] = 120.0,
        jobs: Annotated[int | None, option("N", "Parallel fits; default: one per core.", min=1)] = None,
        as_json: AsJson = False,
    ) -> None:
        from joblib import cpu_count

        from salsa.paper.curves import draw_figure, save_figure
        from salsa.paper.figures import FIGURES, points, run_figure

        fits = run_figure(
            FIGURES[name],
            out,
            trials=trials,
            methods=listed(methods) if methods else (),
            sizes=_sizes(rows) if rows else (),
            time_limit=limit,
            n_jobs=jobs or cpu_count(),
        )
        with progress(f"Figure {name.removeprefix('fig')}") as say:
            for row, left in fits:
                say(f"{left} fits to go; the last: {row.method}, {row.n} rows, trial {row.seed + 1}")
        found = points(FIGURES[name], out, trials)
        save_figure(draw_figure(found, FIGURES[name].title), out / f"{name}.png")
        show(found, _print_points, as_json)

    return command


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--rows: {text!r} is not a list of numbers such as 100,200,400") from None
    if min(sizes) < 10:
        raise ValueError(f"--rows: {min(sizes)} rows are too few for cross-validation; give at least 10")
    return sizes


def _print_points(points: list["Point"]) -> None:
    print_records(COLUMNS, points)
    for point in points:
        if point["status"] != "ok":
            print(f"{point['method']}, n = {point['n']}: {point['status']}; not drawn")
