"""The command line: parse, call, print. Results go to standard output, everything else to standard error."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

try:
    import typer
    from rich import box
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError:
    print("salsa: the command line needs typer and rich: pip install 'salsa-learn[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:  # the commands import what they need, so that help is quick
    import pandas as pd

    from salsa.paper.runner import Row
    from salsa.regressor import SalsaRegressor

UsageError: Any = typer.BadParameter.__base__  # click's, or that of typer's own copy of click
INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
reproduce = typer.Typer(help="Repeat the experiments of the paper, for example with salsa reproduce table1.")
app.add_typer(reproduce, name="reproduce")

Data = Annotated[str, typer.Argument(metavar="DATA", help="CSV or TSV file (or .gz) with a header; - for a pipe.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def main() -> None:
    """Run the command line. What a user can mend ends in one line on standard error and exit code 2."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit is quiet too
        sys.exit(1)
    except UsageError as error:
        _fail(error.format_message())
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, MemoryError) as error:
        _fail(str(error) or "out of memory")
    if status == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(status)


def _interrupt(*_: object) -> NoReturn:
    """Before Python 3.12 its own handler raises a bare class, which pandas' reader takes for an unreadable file."""
    raise KeyboardInterrupt


def _fail(message: str, status: int = 2) -> NoReturn:
    print("salsa:", " ".join(message.split()), file=sys.stderr)
    sys.exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        from salsa import __version__

        print(f"salsa {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Regression on tables: accurate, smooth and readable.

    Start with [bold]salsa demo[/bold]; [bold]salsa fit --help[/bold] explains how to use a table of your own.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def fit(
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the model, for example model.salsa.")],
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="How many columns may interact: auto, bisect, a number such as 3, or candidates such as 1,2,3.",
        ),
    ] = "auto",
    alpha: Annotated[
        str, typer.Option(metavar="ALPHA", help="Smoothing: auto, a number such as 0.1, or candidates such as 0.1,1.")
    ] = "auto",
    relevance: Annotated[
        str,
        typer.Option(metavar="KIND", help="learned: find out which columns matter; equal: all alike, as in the paper."),
    ] = "learned",
    interactions: Annotated[
        str, typer.Option(metavar="KIND", help="up_to: all orders up to ORDER; exact: only ORDER, as in the paper.")
    ] = "up_to",
    kernel: Annotated[
        str,
        typer.Option(metavar="NAME", help="Kind of curves: auto, gaussian, matern52, matern32 or laplace (roughest)."),
    ] = "auto",
    bandwidth: Annotated[
        str,
        typer.Option(metavar="WIDTH", help="Width of the kernels: auto, rule_of_thumb, or its factor (the paper: 20)."),
    ] = "auto",
    cv: Annotated[int, typer.Option(metavar="FOLDS", help="Number of cross-validation folds.")] = 5,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the weights of the rows.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the shuffled folds.")] = 0,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; -1 for all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table and write it to a file.

    All columns but the target, the weights and the dropped ones are features. They must hold numbers.

    Example: [bold]salsa fit houses.csv --target price --drop id --out houses.salsa[/bold]
    """
    from salsa import SalsaRegressor

    model = SalsaRegressor(
        order=_numbers(order, int),
        alpha=_numbers(alpha, float),
        relevance=relevance,
        interactions=interactions,
        kernel=kernel,
        bandwidth=_numbers(bandwidth, float),
        cv=cv,
        n_jobs=jobs,
        random_state=seed,
    )
    summary = _fit_file(model, data, target, out, weights, drop or [])
    _show(summary, _print_fit, as_json)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file that salsa fit wrote.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV file to write; standard output if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the target for every row of a table.

    Columns are found by their names: their order does not matter, others are ignored. Files may be larger than memory.

    Example: [bold]salsa predict houses.salsa new.csv --out prices.csv[/bold]
    """
    if out is not None:
        _show(_predict_file(model, data, out), _print_written, as_json)
        return
    from salsa import load
    from salsa.tables import write_chunks

    chunks = _predictions(load(model), data)
    if as_json:
        values = [row if len(row) > 1 else row[0] for chunk in chunks for row in chunk.to_numpy().tolist()]
        print(json.dumps({"rows": len(values), "predictions": values}))
    else:
        write_chunks(chunks, sys.stdout)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write into; made if need be.")] = Path(
        "salsa-demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Fit, predict and report on a small table.

    The table is simulated (Friedman's first function): 1000 rows, ten columns, of which five matter and two interact.

    Example: [bold]salsa demo --out my-first-model[/bold]
    """
    from salsa import SalsaRegressor, load
    from salsa.tables import check_output

    out.mkdir(exist_ok=True)
    check_output(out / "report.md")
    train, test, model = out / "train.csv", out / "test.csv", out / "model.salsa"
    _write_demo_data(out, train, test)
    summary = _fit_file(SalsaRegressor(random_state=0), str(train), "target", model)
    _predict_file(str(model), str(test), out / "predictions.csv")
    summary["test_r2"] = _compare(train, test, out / "predictions.csv")
    picture = _draw_search(load(model), out / "order_search.png")
    (out / "report.md").write_text(_report(summary, picture), encoding="utf-8")
    summary["folder"] = str(out)
    _show(summary, _print_demo, as_json)


@reproduce.command()
def table1(
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods, separated by commas: salsa, salsa-5fold.")
    ] = "salsa",
    protocol: Annotated[
        str, typer.Option(metavar="NAME", help="authors: as their program did; described: as the paper says.")
    ] = "authors",
    datasets: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Data sets, separated by commas; all if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Table 1 of the paper: mean squared error on its public data sets.

    All twelve sets take some minutes. The columns named paper hold what the paper published.

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
    with _progress("Table 1") as say:
        for number, (dataset, method) in enumerate(pairs, start=1):
            say(f"{number} of {len(pairs)}: {dataset}, {method}")
            rows.append(run(dataset, method, protocol))
    _show(rows, _print_rows, as_json)


def _numbers(text: str, kind: type[int] | type[float]) -> Any:
    """ "3" -> 3, "0.1,1" -> [0.1, 1.0]; words stay, the estimator knows which of them mean something."""
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        return text
    return values if len(values) > 1 else values[0]


def _chosen(what: str, text: str | None, known: Iterable[str]) -> list[str]:
    """The names in a list separated by commas; all where there is none."""
    names = list(known) if text is None else [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}")
    return names


def _fit_file(
    model: "SalsaRegressor", data: str, target: str, out: Path, weights: str | None = None, drop: Iterable[str] = ()
) -> dict[str, Any]:
    """Read, fit, save; what there is to tell."""
    from salsa.tables import check_output

    check_output(out, data)
    X, y, weight = _training_columns(data, target, weights, list(drop))
    with _progress(f"Fitting {len(X)} rows, {X.shape[1]} features"):
        model.fit(X, y, weight)
    model.save(out.resolve())
    return {"rows": len(X), "features": list(X.columns), "target": target, **_choices(model), "model": str(out)}


def _training_columns(
    data: str, target: str, weights: str | None, drop: list[str]
) -> tuple["pd.DataFrame", "pd.Series[float]", "pd.Series[float] | None"]:
    """Features, target and weights."""
    from salsa.tables import numeric, read_table, require_columns, title

    table = read_table(data)
    special = [target] if weights is None else [target, weights]
    require_columns(table, [*special, *drop], data)
    if clash := [name for name in special if name in drop] or special[1:] * (target == weights):
        raise ValueError(f"column {clash[0]!r} has two roles: target, weights and dropped columns must differ")
    features = [name for name in table.columns if name not in {*special, *drop}]
    if nameless := [name for name in features if re.fullmatch(r"Unnamed: \d+", name)]:
        advice = f"an index that was saved with the table? --drop {nameless[0]!r} leaves it out"
        raise ValueError(f"{title(data)} has a column without a name ({advice})")
    if not features:
        raise ValueError(f"{title(data)} has no column left to predict {target!r} from")
    columns = numeric(table, special, data)
    X = numeric(table, features, data, "; --drop {!r} leaves the column out")
    return X, columns[target], None if weights is None else columns[weights]


def _choices(model: "SalsaRegressor") -> dict[str, Any]:
    """What the model chose, and how well it predicts rows it has not seen; no R2 where nothing was searched."""
    table = model.search_.table
    table.insert(2, "r2", 1 - table.pop("cv_error"))
    best = table[table["chosen"]].to_dict("records")
    return {
        "order": model.order_,
        "alpha": model.alpha_,
        "r2": best[0]["r2"] if best else None,
        "standard_error": best[0]["standard_error"] if best else None,
        "orders": table.to_dict("records"),
        "relevance": model.relevance_.tolist(),
        "race": model.search_.race.to_dict("records"),
        "notes": list(model.search_.notes),
    }


def _predict_file(model: str, data: str, out: Path) -> dict[str, Any]:
    """Predict chunk by chunk into a file; what there is to tell."""
    from salsa import load
    from salsa.tables import check_output, write_table

    check_output(out, data, model)
    chunks = _predictions(load(model), data)
    with _progress("Predicting"):
        rows = write_table(chunks, out)
    return {"rows": rows, "out": str(out)}


def _predictions(model: "SalsaRegressor", data: str) -> Iterator["pd.DataFrame"]:
    """Chunk by chunk: a column `prediction`, or `prediction_0`, ... of several outputs."""
    import pandas as pd

    from salsa.tables import CHUNK_ROWS, read_chunks

    for table in read_chunks(data, CHUNK_ROWS):
        values = model.predict(_features(model, table, data)).reshape(len(table), -1)
        names = ["prediction"] if values.shape[1] == 1 else [f"prediction_{j}" for j in range(values.shape[1])]
        yield pd.DataFrame(values, columns=names)


def _features(model: "SalsaRegressor", table: "pd.DataFrame", data: str) -> Any:
    """The model's columns: by name, or all by position where it was fitted without names."""
    from salsa.tables import numeric, require_columns, title

    if hasattr(model, "feature_names_in_"):
        names = list(model.feature_names_in_)
        require_columns(table, names, data)
        return numeric(table, names, data)
    if table.shape[1] != model.n_features_in_:
        needed = f"the model knows no names and needs its {model.n_features_in_} columns alone and in order"
        raise ValueError(f"{title(data)} has {table.shape[1]} columns; {needed}")
    return numeric(table, list(table.columns), data).to_numpy()


def _write_demo_data(folder: Path, train: Path, test: Path) -> None:
    """Friedman's first function with noise of sd 1: whole, and a seeded split of halves."""
    import pandas as pd
    from sklearn.datasets import make_friedman1
    from sklearn.model_selection import train_test_split

    from salsa.tables import write_table

    X, y = make_friedman1(n_samples=1000, n_features=10, noise=1.0, random_state=0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 11)]).assign(target=y)
    parts = train_test_split(table, test_size=0.5, random_state=0)
    for path, part in zip((folder / "data.csv", train, test), (table, *parts), strict=True):
        write_table(iter([part]), path)


def _compare(train: Path, test: Path, predicted: Path) -> dict[str, float]:
    """R2 on the test rows: our predictions, ridge regression, and the mean of the training rows."""
    import numpy as np
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from salsa.tables import read_table

    seen, unseen = read_table(str(train)), read_table(str(test))
    y = seen.pop("target")
    truth = unseen.pop("target")
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 25))).fit(seen, y)
    guesses = {
        "salsa": read_table(str(predicted))["prediction"],
        "ridge regression": ridge.predict(unseen),
        "mean of the training rows": np.full(len(truth), y.mean()),
    }
    return {name: float(r2_score(truth, guess)) for name, guess in guesses.items()}


def _draw_search(model: "SalsaRegressor", path: Path) -> str | None:
    """Draw the search over orders; the file's name, or None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("salsa: no picture: matplotlib is missing, pip install 'salsa-learn[plots]'", file=sys.stderr)
        return None
    figure = Figure(figsize=(5, 3.2), layout="constrained")  # not through pyplot: needs no screen
    model.search_.plot(figure.subplots())
    figure.savefig(path, dpi=150)
    return path.name


def _report(summary: dict[str, Any], picture: str | None) -> str:
    """The demo's report, in Markdown."""
    scores = [f"| {name} | {score:.3f} |" for name, score in summary["test_r2"].items()]
    race = [
        f"| {row['kernel']} | {row['order']} | {1 - row['error']:.4f} | {row['standard_error']:.4f} |"
        for row in sorted(summary["race"], key=lambda row: row["error"])
    ]
    used = [name for name, value in zip(summary["features"], summary["relevance"], strict=True) if value > 0]
    return "\n".join(
        [
            "# A first model with salsa",
            "",
            "Friedman's first function, 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise (`target`), and five",
            f"columns that do not matter. Fitted to {summary['rows']} rows (`train.csv`), tested on 500 others:",
            "",
            "    salsa fit train.csv --target target --out model.salsa",
            "    salsa predict model.salsa test.csv --out predictions.csv",
            "",
            "## How well it predicts rows it has not seen",
            "",
            "R2 is the share of the variance that is explained: 1 is perfect, 0 is as good as the mean.",
            "",
            "| method | R2 on the test rows |",
            "|---|---|",
            *scores,
            "",
            "## What matters",
            "",
            f"Columns used: {', '.join(used)}. Up to {summary['order']} of them act together.",
            "",
            "## Which kernel",
            "",
            "Kernels were learned on one half of the rows and judged on the other; the best was learned again on all.",
            "",
            "| kernel | order | held-out R2 | standard error |",
            "|---|---|---|---|",
            *race,
            "",
            *([f"![Held-out error of every kernel]({picture})", ""] if picture else []),
        ]
    )


@contextmanager
def _progress(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is going on, only where someone is watching; the function that comes changes the text."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda text: progress.update(task, description=text)


def _show(result: Any, printed: Callable[[Any], None], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    else:
        printed(result)


def _print_fit(summary: dict[str, Any]) -> None:
    print(f"rows      {summary['rows']}")
    used = sum(value > 0 for value in summary["relevance"])
    print(f"features  {len(summary['features'])}, of which {used} are used")
    print(f"order     {summary['order']}")
    print(f"alpha     {summary['alpha']:.4g}")
    if summary["r2"] is not None:
        print(f"R2        {summary['r2']:.4f} +/- {summary['standard_error']:.4f} in cross-validation")
    for note in summary["notes"]:
        print(f"note      {note}")
    print(f"model     {summary['model']}")
    if summary["race"]:
        _print_race(summary["race"])
    elif summary["orders"]:
        _print_orders(summary["orders"])


def _print_orders(orders: list[dict[str, Any]]) -> None:
    rows = [
        (
            f"{'* ' if row['chosen'] else ''}{row['order']}",
            f"{row['alpha']:.4g}",
            f"{row['r2']:.4f}",
            f"{row['standard_error']:.4f}",
            f"{row['degrees_of_freedom']:.1f}",
            f"{row['seconds']:.2f}",
        )
        for row in orders
    ]
    _print_table(("order", "alpha", "R2", "+/-", "degrees of freedom", "seconds"), rows)


def _print_race(race: list[dict[str, Any]]) -> None:
    """The kernels that competed, by R2 on rows that they had not learned from."""
    rows = [
        (row["kernel"], str(row["order"]), f"{1 - row['error']:.4f}", f"{row['standard_error']:.4f}")
        for row in sorted(race, key=lambda row: row["error"])
    ]
    _print_table(("kernel", "order", "held-out R2", "+/-"), rows)


def _print_written(summary: dict[str, Any]) -> None:
    print(f"{summary['rows']} predictions written to {summary['out']}")


def _print_demo(summary: dict[str, Any]) -> None:
    _print_fit(summary)
    scores = [(f"{score:.3f}", name) for name, score in summary["test_r2"].items()]
    _print_table(("R2 on test rows", "method"), scores)
    print(f"\nFiles are in {summary['folder']}; start with report.md.")


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
    _print_table(names, cells)


def _print_table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A blank line and a table: words to the left, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in ("dataset", "method", "kernel") else "right")
    for row in rows:
        table.add_row(*row)
    print()
    Console().print(table)
