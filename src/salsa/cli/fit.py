"""salsa fit: fit a model to a table and write it to a file."""

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salsa.cli.arguments import AsJson, Category, Data, Drop
from salsa.cli.completion import complete_column, complete_words
from salsa.cli.info import cross_validated, r2_field
from salsa.cli.show import Listener, print_fields, print_table, progress, show, write_html
from salsa.cli.training_file import LargeTable, Roles, WholeTable, training_table
from salsa.kernels.base import BASE_KERNELS, NUMERIC_BASES

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    from salsa.regressor import SalsaRegressor

ORDERS, ALPHAS, WIDTHS = ("auto", "bisect"), ("auto",), ("auto", "rule_of_thumb")  # words that stand for numbers
CURVES = sorted(NUMERIC_BASES, key=lambda name: BASE_KERNELS[name].smoothness, reverse=True)


def fit(
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column to predict.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Model file to write, for example model.salsa.")],
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            autocompletion=complete_words(*ORDERS),
            help="How many columns may interact: auto, bisect, a number such as 3, or candidates such as 1,2,3.",
        ),
    ] = "auto",
    alpha: Annotated[
        str,
        typer.Option(
            metavar="ALPHA",
            autocompletion=complete_words(*ALPHAS),
            help="Smoothing: auto, a number such as 0.1, or candidates such as 0.1,1.",
        ),
    ] = "auto",
    relevance: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            autocompletion=complete_words("learned", "equal"),
            help="learned: learn which columns matter; equal: all columns alike, as in the paper.",
        ),
    ] = "learned",
    interactions: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            autocompletion=complete_words("up_to", "exact"),
            help="up_to: all orders up to ORDER; exact: only ORDER, as in the paper.",
        ),
    ] = "up_to",
    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_words("auto", *CURVES),
            help=f"Kind of curves: auto, {', '.join(CURVES[:-1])} or {CURVES[-1]} (roughest).",
        ),
    ] = "auto",
    bandwidth: Annotated[
        str,
        typer.Option(
            metavar="WIDTH",
            autocompletion=complete_words(*WIDTHS),
            help="Width of the kernels: auto, rule_of_thumb, or a factor of the rule (the paper: 20).",
        ),
    ] = "auto",
    cv: Annotated[int, typer.Option(metavar="FOLDS", help="Number of cross-validation folds.")] = 5,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column with the weights of the rows."),
    ] = None,
    drop: Drop = None,
    category: Category = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report of the model to this HTML file.")
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(metavar="N", help="Largest number of anchor rows for a large table; default: 2000."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit, such as 4GB; default: 80 % of the available memory."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the shuffled folds.")] = 0,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; -1 for all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table and write it to a file.

    All columns except the target, the weights and dropped columns are features. Text is taken as categories.

    Empty cells, NA, NaN and null are missing values. Features may have missing values; target and weights may not.

    Files that are large relative to memory are read in chunks, several times; the model is bit-identical.

    Example: [bold]salsa fit houses.csv --target price --drop id --out houses.salsa[/bold]
    """
    from salsa import SalsaRegressor

    model = SalsaRegressor(
        order=_numbers("order", order, int, ORDERS, "1,2,3"),
        alpha=_numbers("alpha", alpha, float, ALPHAS, "0.1,1"),
        relevance=relevance,
        interactions=interactions,
        kernel=kernel,
        bandwidth=_numbers("bandwidth", bandwidth, float, WIDTHS, "20"),
        rank=rank,
        cv=cv,
        memory_limit=_size(memory),
        n_jobs=jobs,
        random_state=seed,
    )
    summary = fit_file(model, data, target, out, weights, drop or (), category or (), report)
    show(summary, print_fit, as_json)


def fit_file(
    model: "SalsaRegressor",
    data: str,
    target: str,
    out: Path,
    weights: str | None = None,
    drop: Sequence[str] = (),
    category: Sequence[str] = (),
    report: Path | None = None,
) -> dict[str, Any]:
    """Read the table, fit and save the model, write the report, and return the summary to print."""
    from salsa._utils.memory import memory_limit_bytes
    from salsa.cli.tables.writing import check_output

    check_output(out, data)
    if report is not None:
        check_output(report, data, str(out))
    table = training_table(data, Roles(target, weights, drop, category), memory_limit_bytes(model.memory_limit))
    with progress(f"Fitting {table.rows} rows, {len(table.features)} features") as say:
        table.fit(_listening(model, say), say)
    model.save(out.resolve())
    looked_at = [] if report is None else _write_report(model, table, report)
    choices = _choices(model)
    return {
        "rows": table.rows,
        "features": table.features,
        "categorical": list(compress(table.features, model.columns_.categorical)),
        "missing": table.missing,
        "target": target,
        **choices,
        "notes": [*table.notes, *choices["notes"], *looked_at],
        "model": str(out),
        "report": None if report is None else str(report),
    }


def _listening(model: "SalsaRegressor", say: Callable[[str], None]) -> "SalsaRegressor":
    """Return the model, set to announce what it has tried; scikit-learn before 1.9 has no callbacks."""
    return model.set_callbacks(Listener(say)) if hasattr(model, "set_callbacks") else model


def _write_report(model: "SalsaRegressor", table: WholeTable | LargeTable, path: Path) -> list[str]:
    """Write the report; return a note if it does not look at all rows."""
    X, y = table.shown(model)
    write_html(model, path, X, y)
    return [f"the report looks at {len(X)} of the {table.rows} rows"] if len(X) < table.rows else []


def _choices(model: "SalsaRegressor") -> dict[str, Any]:
    """Return the choices of the model, the candidates, and the cross-validated R2."""
    table = model.search_.table
    table.insert(2, "r2", 1 - table.pop("cv_error"))
    return {
        "order": model.order_,
        "alpha": model.alpha_,
        **cross_validated(model),
        "orders": table.to_dict("records"),
        "relevance": model.relevance_.tolist(),
        "race": model.search_.race.to_dict("records"),
        "notes": list(model.search_.notes),
    }


def print_fit(summary: dict[str, Any]) -> None:
    print_fields(_fields(summary))
    if summary["race"]:
        _print_race(summary["race"], summary["order"])
    elif summary["orders"]:
        _print_orders(summary["orders"])


def _fields(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    used, count = sum(value > 0 for value in summary["relevance"]), len(summary["categorical"])
    categories = f"; {count} {'category' if count == 1 else 'categories'}" if count else ""
    yield "rows", summary["rows"]
    yield "features", f"{len(summary['features'])}, {used} used{categories}"
    if summary["missing"]:
        yield "missing", f"{100 * summary['missing']:.3g} % of the values"
    yield "order", summary["order"]
    yield "alpha", f"{summary['alpha']:.4g}"
    yield from r2_field(summary)
    yield from (("note", note) for note in summary["notes"])
    yield "model", summary["model"]
    if summary["report"]:
        yield "report", summary["report"]


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
    print_table(("order", "alpha", "R2", "+/-", "degrees of freedom", "seconds"), rows)
    print("* chosen")


def _print_race(race: list[dict[str, Any]], order: int) -> None:
    """Print the kernels that competed by held-out R2; `order` is the order of the final model."""
    rows = [
        (
            f"{'*' if row['won'] else ' '} {row['kernel']}",
            str(row["order"]),
            f"{1 - row['error']:.4f}",
            f"{row['standard_error']:.4f}",
        )
        for row in sorted(race, key=lambda row: row["error"])
    ]
    print_table(("kernel", "order", "held-out R2", "+/-"), rows)
    kept = next(row for row in race if row["won"])
    print("* kept" if kept["order"] == order else f"* kept; it was learned again from all rows, with order {order}")


def _numbers(name: str, text: str, kind: type[int] | type[float], words: Sequence[str], example: str) -> Any:
    """Parse numbers: "3" -> 3, "0.1,1" -> [0.1, 1.0]; words such as "auto" are returned unchanged."""
    if text in words:
        return text
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} {text}: give {', '.join(words)} or numbers such as {example}") from None
    return values if len(values) > 1 else values[0]


def _size(text: str | None) -> str | None:
    """Return the text if it is a size or None; otherwise raise ValueError."""
    from salsa._utils.memory import memory_limit_bytes

    try:
        memory_limit_bytes(text)
    except ValueError:
        raise ValueError(f"--memory {text}: give a size such as 4GB or 500MB") from None
    return text
