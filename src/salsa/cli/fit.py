"""salsa fit: a table into a model file."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salsa.cli.completion import complete_column, complete_words
from salsa.cli.info import cross_validated, r2_field
from salsa.cli.options import AsJson, Data
from salsa.cli.report import write_html
from salsa.cli.show import Listener, print_fields, print_table, progress, show

if TYPE_CHECKING:  # the command imports what it needs, so that help is quick
    import pandas as pd

    from salsa.regressor import SalsaRegressor

ORDERS, ALPHAS, WIDTHS = ("auto", "bisect"), ("auto",), ("auto", "rule_of_thumb")  # words that stand for numbers


def fit(
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column to predict.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the model, for example model.salsa.")],
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
            help="learned: find out which columns matter; equal: all alike, as in the paper.",
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
            autocompletion=complete_words("auto", "gaussian", "matern52", "matern32", "laplace"),
            help="Kind of curves: auto, gaussian, matern52, matern32 or laplace (roughest).",
        ),
    ] = "auto",
    bandwidth: Annotated[
        str,
        typer.Option(
            metavar="WIDTH",
            autocompletion=complete_words(*WIDTHS),
            help="Width of the kernels: auto, rule_of_thumb, or its factor (the paper: 20).",
        ),
    ] = "auto",
    cv: Annotated[int, typer.Option(metavar="FOLDS", help="Number of cross-validation folds.")] = 5,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column with the weights of the rows."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", autocompletion=complete_column, help="Column to leave out; may be repeated."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            autocompletion=complete_column,
            help="Column of categories, even if numbers; may be repeated.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write what matters in the model to this HTML file.")
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
        order=_numbers("order", order, int, ORDERS, "1,2,3"),
        alpha=_numbers("alpha", alpha, float, ALPHAS, "0.1,1"),
        relevance=relevance,
        interactions=interactions,
        kernel=kernel,
        bandwidth=_numbers("bandwidth", bandwidth, float, WIDTHS, "20"),
        cv=cv,
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
    """Read, fit, save, report; what there is to tell."""
    from salsa.tables.writing import check_output

    check_output(out, data)
    if report is not None:
        check_output(report, data, str(out))
    X, y, weight, notes = _training_columns(data, target, weights, drop, category)
    with progress(f"Fitting {len(X)} rows, {X.shape[1]} features") as say:
        _listening(model, say).fit(X, y, weight)
    model.save(out.resolve())
    if report is not None:
        write_html(model, report, X, y)
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
        "report": None if report is None else str(report),
    }


def _listening(model: "SalsaRegressor", say: Callable[[str], None]) -> "SalsaRegressor":
    """The model, which will say what it tries; scikit-learn before 1.9 has no callbacks."""
    return model.set_callbacks(Listener(say)) if hasattr(model, "set_callbacks") else model


def _training_columns(
    data: str, target: str, weights: str | None, drop: Sequence[str], category: Sequence[str]
) -> tuple["pd.DataFrame", "pd.Series[float]", "pd.Series[float] | None", list[str]]:
    """Features, target, weights, and notes on what was left out."""
    from salsa.tables.checking import features, numeric, require_columns, target_of
    from salsa.tables.reading import read_table, title

    table = read_table(data)
    special = [target] if weights is None else [target, weights]
    require_columns(table, [*special, *drop, *category], data)
    _check_roles(special, set(drop), set(category))
    names = _feature_names(table, {*special, *drop}, data)
    empty = [name for name in names if table[name].isna().all()]
    if len(empty) == len(names):
        ignored = " (columns without values are ignored)" if empty else ""
        raise ValueError(f"{title(data)} has no column left to predict {target!r} from{ignored}")
    y, weight = target_of(table, target, data), None if weights is None else numeric(table, weights, data)
    X = features(table, [name for name in names if name not in empty], category, data)
    notes = [f"column {name!r} has no values and is ignored" for name in empty]
    return X, y, weight, notes


def _check_roles(*roles: Collection[str]) -> None:
    """ValueError unless every column has one role."""
    counts = Counter(name for role in roles for name in role)
    if clash := [name for name, count in counts.items() if count > 1]:
        advice = "target, weights, dropped columns and categories must differ"
        raise ValueError(f"column {clash[0]!r} has two roles: {advice}")


def _feature_names(table: "pd.DataFrame", others: set[str], data: str) -> list[str]:
    """All columns but the others; an index without a name is no feature."""
    from salsa.tables.reading import title

    names = [name for name in table.columns if name not in others]
    if nameless := [name for name in names if re.fullmatch(r"Unnamed: \d+", name)]:
        advice = f"an index that was saved with the table? --drop {nameless[0]!r} leaves it out"
        raise ValueError(f"{title(data)} has a column without a name ({advice})")
    return names


def _choices(model: "SalsaRegressor") -> dict[str, Any]:
    """What the model chose, from what, and how well it predicts rows it has not seen."""
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
        _print_race(summary["race"])
    elif summary["orders"]:
        _print_orders(summary["orders"])


def _fields(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    used = sum(value > 0 for value in summary["relevance"])
    categories = f" and {len(summary['categorical'])} are categories" if summary["categorical"] else ""
    yield "rows", summary["rows"]
    yield "features", f"{len(summary['features'])}, of which {used} are used{categories}"
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


def _print_race(race: list[dict[str, Any]]) -> None:
    """The kernels that competed, by R2 on rows that they had not learned from; a star where one won."""
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


def _numbers(name: str, text: str, kind: type[int] | type[float], words: Sequence[str], example: str) -> Any:
    """ "3" -> 3, "0.1,1" -> [0.1, 1.0]; the words stay."""
    if text in words:
        return text
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} {text}: give {', '.join(words)} or numbers such as {example}") from None
    return values if len(values) > 1 else values[0]
