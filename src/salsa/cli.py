"""The command line: parse, call, print. Results go to standard output, everything else to standard error."""

import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from salsa.paper.runner import Row
    from salsa.regressor import SalsaRegressor
    from salsa.tables import Unseen

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

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.")
]
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


def _check_probability(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not a probability: a number between 0 and 1, such as 0.9")
    return value


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
    category: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column of categories, even if numbers; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the shuffled folds.")] = 0,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; -1 for all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table and write it to a file.

    All columns but the target, the weights and the dropped ones are features. Text is taken as categories.

    Empty cells, NA, NaN and null are missing values, which features may have, but not the target and the weights.

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
    summary = _fit_file(model, data, target, out, weights, drop or (), category or ())
    _show(summary, _print_fit, as_json)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file that salsa fit wrote.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV file to write; standard output if left out.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="PROBABILITY",
            callback=_check_probability,
            help="Add columns lower and upper, between which a new value is with this probability, such as 0.9.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the target for every row of a table.

    Columns are found by their names: their order does not matter, others are ignored. Files may be larger than memory.

    Values of categories that the model has not seen count as missing.

    Example: [bold]salsa predict houses.salsa new.csv --out prices.csv[/bold]
    """
    if out is not None:
        _show(_predict_file(model, data, out, interval), _print_written, as_json)
        return
    from salsa import load
    from salsa.tables import write_chunks

    chunks = _predictions(load(model), data, interval)
    if as_json:
        print(json.dumps(_as_lists(chunks)))
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
    model: "SalsaRegressor",
    data: str,
    target: str,
    out: Path,
    weights: str | None = None,
    drop: Sequence[str] = (),
    category: Sequence[str] = (),
) -> dict[str, Any]:
    """Read, fit, save; what there is to tell."""
    from salsa.tables import check_output

    check_output(out, data)
    X, y, weight, notes = _training_columns(data, target, weights, drop, category)
    with _progress(f"Fitting {len(X)} rows, {X.shape[1]} features"):
        model.fit(X, y, weight)
    model.save(out.resolve())
    choices = _choices(model)
    return {
        "rows": len(X),
        "features": list(X.columns),
        "categorical": X.columns[model.columns_.categorical].tolist(),
        "missing": float(X.isna().to_numpy().mean()),
        "target": target,
        **choices,
        "notes": [*notes, *choices["notes"]],
        "model": str(out),
    }


def _training_columns(
    data: str, target: str, weights: str | None, drop: Sequence[str], category: Sequence[str]
) -> tuple["pd.DataFrame", "pd.Series[float]", "pd.Series[float] | None", list[str]]:
    """Features, target, weights, and notes on what was left out."""
    from salsa.tables import features, numeric, read_table, require_columns, title

    table = read_table(data)
    special = [target] if weights is None else [target, weights]
    require_columns(table, [*special, *drop, *category], data)
    _check_roles(special, set(drop), set(category))
    names = _feature_names(table, {*special, *drop}, data)
    empty = [name for name in names if table[name].isna().all()]
    if len(empty) == len(names):
        ignored = " (columns without values are ignored)" if empty else ""
        raise ValueError(f"{title(data)} has no column left to predict {target!r} from{ignored}")
    columns = numeric(table, special, data)
    X = features(table, [name for name in names if name not in empty], category, data)
    notes = [f"column {name!r} has no values and is ignored" for name in empty]
    return X, columns[target], None if weights is None else columns[weights], notes


def _check_roles(*roles: Collection[str]) -> None:
    """ValueError unless every column has one role."""
    counts = Counter(name for role in roles for name in role)
    if clash := [name for name, count in counts.items() if count > 1]:
        advice = "target, weights, dropped columns and categories must differ"
        raise ValueError(f"column {clash[0]!r} has two roles: {advice}")


def _feature_names(table: "pd.DataFrame", others: set[str], data: str) -> list[str]:
    """All columns but the others; an index without a name is no feature."""
    from salsa.tables import title

    names = [name for name in table.columns if name not in others]
    if nameless := [name for name in names if re.fullmatch(r"Unnamed: \d+", name)]:
        advice = f"an index that was saved with the table? --drop {nameless[0]!r} leaves it out"
        raise ValueError(f"{title(data)} has a column without a name ({advice})")
    return names


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


def _predict_file(model: str, data: str, out: Path, interval: float | None = None) -> dict[str, Any]:
    """Predict chunk by chunk into a file; what there is to tell."""
    from salsa import load
    from salsa.tables import check_output, write_table

    check_output(out, data, model)
    chunks = _predictions(load(model), data, interval)
    with _progress("Predicting"):
        rows = write_table(chunks, out)
    return {"rows": rows, "out": str(out)}


def _predictions(model: "SalsaRegressor", data: str, interval: float | None) -> Iterator["pd.DataFrame"]:
    """Chunk by chunk: `prediction`, with an interval also `lower` and `upper`; numbered where there are more outputs.

    In the end, one line on standard error tells of the categories that were not seen in training.
    """
    from salsa.tables import CHUNK_ROWS, Unseen, read_chunks, title

    unseen = Unseen()
    for table in read_chunks(data, CHUNK_ROWS, _text_columns(model)):
        X = _features(model, table, data, unseen)
        chunk = _numbered("prediction", model.predict(X))
        if interval is not None:
            ends = model.predict_interval(X, interval)
            chunk = chunk.join([_numbered("lower", ends[..., 0]), _numbered("upper", ends[..., 1])])
        yield chunk
    if report := str(unseen):
        problem = "values not seen in training, which count as missing"
        print(f"salsa: {title(data)} has {problem}: {report}", file=sys.stderr)


def _numbered(name: str, values: "NDArray[np.float64]") -> "pd.DataFrame":
    """One column of this name, or as many as there are outputs."""
    import pandas as pd

    names = [name] if values.ndim == 1 or values.shape[1] == 1 else [f"{name}_{j}" for j in range(values.shape[1])]
    return pd.DataFrame(values.reshape(len(values), -1), columns=names)


def _as_lists(chunks: Iterator["pd.DataFrame"]) -> dict[str, Any]:
    """Predictions for JSON, which has no infinity: ends of intervals that are not finite become null."""
    import numpy as np
    import pandas as pd

    table = pd.concat(chunks)
    result: dict[str, Any] = {"rows": len(table)}
    for key, name in (("predictions", "prediction"), ("lower", "lower"), ("upper", "upper")):
        columns = table.filter(regex=rf"^{name}(_\d+)?$")
        rows = columns.astype(object).where(np.isfinite(columns), None).to_numpy().tolist()
        if columns.shape[1]:
            result[key] = rows if columns.shape[1] > 1 else [row[0] for row in rows]
    return result


def _text_columns(model: "SalsaRegressor") -> list[str] | type[str]:
    """The categories, whose values must not be guessed to be numbers; all columns where they have no names."""
    columns = model.columns_
    categories = [name for name, levels in zip(columns.names, columns.levels, strict=True) if levels is not None]
    return categories if hasattr(model, "feature_names_in_") or not categories else str


def _features(model: "SalsaRegressor", table: "pd.DataFrame", data: str, unseen: "Unseen") -> Any:
    """The features of the model in a table: by name, or by place for a model that was fitted without names."""
    from salsa.tables import known_features, require_columns, title

    levels = model.columns_.levels
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_.tolist()
        require_columns(table, names, data)
        return known_features(table, dict(zip(names, levels, strict=True)), data, unseen)
    if table.shape[1] != model.n_features_in_:
        needed = f"the model knows no names and needs its {model.n_features_in_} columns alone and in order"
        raise ValueError(f"{title(data)} has {table.shape[1]} columns; {needed}")
    return known_features(table, dict(zip(table.columns, levels, strict=True)), data, unseen).to_numpy()


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
    categories = f" and {len(summary['categorical'])} are categories" if summary["categorical"] else ""
    print(f"features  {len(summary['features'])}, of which {used} are used{categories}")
    if summary["missing"]:
        print(f"missing   {100 * summary['missing']:.3g} % of the values")
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
