"""salsa fit: fit a model to a table and write it to a file."""

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
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
    check_loss,
    check_monotone,
    check_roles,
    monotone_signs,
    option,
)
from salsa.cli.check import print_understanding
from salsa.cli.completion import complete_column, complete_signs, complete_words
from salsa.cli.info import shared_noise
from salsa.cli.roles import Roles, Times
from salsa.cli.scores import CODED, LOSSES, SQUARED, cross_validated, loss_field, score_fields
from salsa.cli.show import Listener, print_fields, print_records, progress, show, write_html
from salsa.cli.training_file import LargeTable, WholeTable, training_table
from salsa.kernels.base import BASE_KERNELS, NUMERIC_BASES

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    from salsa.cli.scores import Model
    from salsa.cli.tables.understanding import Understanding
    from salsa.regressor import SalsaRegressor

ORDERS, ALPHAS, WIDTHS = ("auto", "bisect"), ("auto",), ("auto", "rule_of_thumb")  # words that stand for numbers
TIME_LEFT_OUT = "time is no feature: a trend that no other column explains counts as error on later rows"
TIME_KEPT = "time is a feature, too: seasons come back on later rows, and a trend is not continued"
LIMITS = ("pairwise", "no_interactions")  # words that stand for sets of columns
CURVES = sorted(NUMERIC_BASES, key=lambda name: BASE_KERNELS[name].smoothness, reverse=True)
HELP = {
    "order": "How many columns may interact: auto, bisect, a number such as 3, or candidates such as 1,2,3.",
    "alpha": "Smoothing: auto, a number such as 0.1, or candidates such as 0.1,1.",
    "relevance": "learned: learn which columns matter; equal: all columns alike, as in the paper.",
    "interactions": "up_to: all orders up to ORDER; exact: only ORDER, as in the paper.",
    "interact": "Columns that may interact: pairwise, no_interactions, or sets such as 'area,rooms;age,heating'.",
    "kernel": f"Kind of curves: auto, {', '.join(CURVES[:-1])} or {CURVES[-1]} (roughest).",
    "bandwidth": "Width of the kernels: auto, rule_of_thumb, or a factor of the rule (the paper: 20).",
    "loss": "Loss to minimise: squared_error, huber (gross errors), quantile, poisson (counts) or gamma (amounts).",
    "quantile": "With --loss quantile, the quantile to predict, such as 0.9.",
    "monotone": "Column in which predictions increase (area=+1) or decrease (age=-1); may be repeated.",
    "memory": "Memory limit, such as 4GB; default: 80 % of the available memory.",
}


def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, option("FILE", "Model file to write, for example model.salsa.")],
    order: Annotated[str, option("ORDER", HELP["order"], complete_words(*ORDERS))] = "auto",
    alpha: Annotated[str, option("ALPHA", HELP["alpha"], complete_words(*ALPHAS))] = "auto",
    relevance: Annotated[str, option("KIND", HELP["relevance"], complete_words("learned", "equal"))] = "learned",
    interactions: Annotated[str, option("KIND", HELP["interactions"], complete_words("up_to", "exact"))] = "up_to",
    interact: Annotated[str | None, option("SETS", HELP["interact"], complete_words(*LIMITS))] = None,
    kernel: Annotated[str, option("NAME", HELP["kernel"], complete_words("auto", *CURVES))] = "auto",
    bandwidth: Annotated[str, option("WIDTH", HELP["bandwidth"], complete_words(*WIDTHS))] = "auto",
    cv: Annotated[int, option("FOLDS", "Number of cross-validation folds.")] = 5,
    weights: Annotated[str | None, option("COLUMN", "Column with the weights of the rows.", complete_column)] = None,
    group: Group = None,
    time: Time = None,
    keep_time: KeepTime = False,
    log: Log = False,
    classes: Classes = False,
    loss: Annotated[str, option("LOSS", HELP["loss"], complete_words(*LOSSES))] = SQUARED,
    quantile: Annotated[float | None, option("LEVEL", HELP["quantile"])] = None,
    monotone: Annotated[list[str] | None, option("COLUMN=SIGN", HELP["monotone"], complete_signs)] = None,
    drop: Drop = None,
    category: Category = None,
    report: Annotated[Path | None, option("FILE", "Also write a report of the model to this HTML file.")] = None,
    rank: Annotated[int | None, option("N", "Largest number of anchor rows for a large table; default: 2000.")] = None,
    memory: Annotated[str | None, option("SIZE", HELP["memory"])] = None,
    seed: Annotated[int, option("NUMBER", "Seed of the shuffled folds.")] = 0,
    jobs: Annotated[int | None, option("N", "Number of threads; -1 for all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table and write it to a file.

    All columns are features, except target, weights, group, time and dropped columns. Text is taken as categories.

    A target of text or booleans holds classes, whose probabilities are predicted; --classes takes numbers as classes.

    Empty cells, NA, NaN and null are missing values. Rows without a target are left out, and counted.

    The first table printed says what was understood of every column, as [bold]salsa check[/bold] does without a fit.

    Files that are large relative to memory are read in chunks, several times; the model is bit-identical.

    Example: [bold]salsa fit houses.csv --target price --drop id --out houses.salsa[/bold]
    """
    from salsa import SalsaRegressor
    from salsa.options import parse_options

    check_roles(group, time, keep_time)
    check_loss(loss, quantile, log, classes)
    signs, orders = monotone_signs(monotone or ()), _numbers("order", order, int, ORDERS, "1,2,3")
    check_monotone(signs, loss, classes, _sets(interact), kernel, orders)
    model = SalsaRegressor(
        order=orders,
        alpha=_numbers("alpha", alpha, float, ALPHAS, "0.1,1"),
        relevance=relevance,
        interactions=interactions,
        loss=loss,
        quantile=quantile,
        target_transform="log" if log else None,
        interaction_cst=_sets(interact),
        monotonic_cst=signs or None,
        kernel=kernel,
        bandwidth=_numbers("bandwidth", bandwidth, float, WIDTHS, "20"),
        rank=rank,
        cv=cv,
        memory_limit=_size(memory),
        n_jobs=jobs,
        random_state=seed,
    )
    parse_options(model.get_params(deep=False))
    roles = Roles(target, weights, drop or (), category or (), group, time, keep_time, log, loss, classes, list(signs))
    told = None if as_json else print_understanding
    summary = fit_file(model, data, roles, out, report, told)
    show(summary, print_fit, as_json)


def fit_file(
    settings: "SalsaRegressor",
    data: str,
    roles: Roles,
    out: Path,
    report: Path | None = None,
    told: Callable[["Understanding"], None] | None = None,
) -> dict[str, Any]:
    """Read the table, fit and save the model, write the report, and return the summary to print.

    If the target holds classes, a classifier with the same settings is fitted. `told` gets what was understood of the
    table, before the fit.
    """
    from salsa._utils.memory import memory_limit_bytes
    from salsa.cli.tables.writing import check_output
    from salsa.fitted import assign, fitted_of

    check_output(out, data)
    if report is not None:
        check_output(report, data, str(out))
    table = training_table(data, roles, memory_limit_bytes(settings.memory_limit))
    if told is not None:
        told(table.understood)
    model = _classifier(settings) if table.target.has_classes else settings
    with progress(f"Fitting {table.rows} rows, {len(table.features)} features") as say:
        table.fit(_listening(model, say))
    assign(model, fitted_of(model)._replace(formats=table.formats or None))
    model.save(out.resolve())
    looked_at = [] if report is None else _write_report(model, table, report)
    choices = _choices(model)
    return {
        "rows": table.rows,
        "copies": model.search_.copies,
        "understood": table.understood.summary(),
        "features": list(model.columns_.names),
        "categorical": list(compress(model.columns_.names, model.columns_.categorical)),
        "missing": table.missing,
        "target": roles.target,
        "target_kind": table.target.kind,
        "described": str(table.target),
        "classes": _class_counts(table),
        "target_transform": settings.target_transform,
        "monotonic_cst": settings.monotonic_cst,
        "groups": None if table.groups is None else _grouped(model, roles.group, table.groups),
        "time": None if table.times is None else _timed(model, table.times) | {"kept": roles.keep_time},
        **choices,
        "notes": [*table.notes, *_hints(table, roles), *choices["notes"], *looked_at],
        "model": str(out),
        "report": None if report is None else str(report),
    }


def _classifier(settings: "SalsaRegressor") -> "Model":
    """Return a classifier with the settings of a regressor; settings for numbers are left out."""
    from salsa import SalsaClassifier

    given, known = settings.get_params(deep=False), SalsaClassifier().get_params(deep=False)
    return SalsaClassifier(**{name: value for name, value in given.items() if name in known})


def _class_counts(table: WholeTable | LargeTable) -> list[dict[str, Any]] | None:
    """Return every class with its number of rows; None for numbers."""
    if not table.target.has_classes:
        return None
    return [{"class": label, "rows": count} for label, count in table.target.counts.items()]


def _hints(table: WholeTable | LargeTable, roles: Roles) -> list[str]:
    """Return a hint at options for whole numbers, unless an option says what they are."""
    asked = roles.of_numbers is not None
    return [] if asked or table.target.hint is None else [table.target.hint]


def _listening(model: "Model", say: Callable[[str], None]) -> "Model":
    """Return the model, set to announce its progress; scikit-learn before 1.9 has no callbacks."""
    return model.set_callbacks(Listener(say)) if hasattr(model, "set_callbacks") else model


def _write_report(model: "Model", table: WholeTable | LargeTable, path: Path) -> list[str]:
    """Write the report; return a note if it does not look at all rows."""
    X, y = table.shown(model)
    write_html(model, path, X, y)
    return [f"the report looks at {len(X)} of the {table.rows} rows"] if len(X) < table.rows else []


def _grouped(model: "Model", column: str | None, count: int) -> dict[str, Any]:
    """Describe the groups: rho is the variance of their levels over the noise variance within groups."""
    rho = model.search_.rho
    return {"column": column, "count": count, "rho": rho, "shared": rho / (1 + rho)}


def _timed(model: "Model", times: Times) -> dict[str, Any]:
    """Describe the order in time, and how many rows each split trains on and tests."""
    return {
        "column": times.column,
        "first": times.first,
        "last": times.last,
        "distinct": int(times.stamps[-1]) + 1,
        "splits": [{"train": len(train), "test": len(test)} for train, test in model.cv],
    }


def _choices(model: "Model") -> dict[str, Any]:
    """Return the choices of the model, the candidates, and the scores on held-out rows."""
    table, scores = model.search_.table, cross_validated(model)
    table.insert(2, _share_of(scores["loss"]).lower(), 1 - table.pop("cv_error"))
    return {
        "order": model.order_,
        "alpha": model.alpha_,
        **scores,
        "orders": table.to_dict("records"),
        "relevance": model.relevance_.tolist(),
        "race": model.search_.race.to_dict("records"),
        "after_race": model.search_.after_race(sum(value > 0 for value in model.relevance_)),
        "notes": list(model.search_.notes),
    }


def print_fit(summary: dict[str, Any]) -> None:
    print_fields(_fields(summary))
    if summary["race"]:
        _print_race(summary)
    elif summary["orders"]:
        _print_orders(summary["orders"], _share_of(summary["loss"]))


def _share_of(loss: str) -> str:
    """Return the usual name of the share of a loss that is explained."""
    return "R2" if loss == SQUARED else "D2"


def _fields(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    used, count = sum(value > 0 for value in summary["relevance"]), len(summary["categorical"])
    categories = f"; {count} {'category' if count == 1 else 'categories'}" if count else ""
    copies = f", {summary['copies']} of them {'a copy' if summary['copies'] == 1 else 'copies'}"
    yield "rows", f"{summary['rows']}{copies if summary['copies'] else ''}"
    yield "features", f"{len(summary['features'])}, {used} used{categories}"
    if summary["missing"]:
        yield "missing", f"{100 * summary['missing']:.3g} % of the values"
    yield "target", summary["described"]
    yield from loss_field(summary)
    if summary["monotonic_cst"]:
        yield "monotone", ", ".join(f"{name} {sign:+d}" for name, sign in summary["monotonic_cst"].items())
    yield from _judging_fields(summary)
    yield "order", summary["order"]
    yield "alpha", f"{summary['alpha']:.4g}"
    yield from score_fields(summary)
    yield from (("note", note) for note in summary["notes"])
    yield "model", summary["model"]
    if summary["report"]:
        yield "report", summary["report"]


def _judging_fields(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what groups, order in time and a transform of the target mean for the numbers that follow."""
    if (scale := summary["target_transform"]) is not None:
        shown = f"alpha, R2 and effects are on this scale, predictions and intervals in units of {summary['target']}"
        yield "scale", f"{scale} of {summary['target']}: {shown}"
    if (groups := summary["groups"]) is not None:
        yield "groups", f"{groups['count']} in column {groups['column']!r}, held out whole: errors are for new groups"
        if summary["loss"] == SQUARED:  # other losses have no levels of groups
            yield "", shared_noise(groups["rho"])
    if (time := summary["time"]) is not None:
        count, where = len(time["splits"]), f"column {time['column']!r}, {time['first']} to {time['last']}"
        yield "time", f"{where}: {count} parts, each predicted from all rows before it"
        yield "", TIME_KEPT if time["kept"] else TIME_LEFT_OUT


def _print_orders(orders: list[dict[str, Any]], share: str) -> None:
    columns = {
        "order": "{mark}{order}",
        "alpha": "{alpha:.4g}",
        share: f"{{{share.lower()}:.4f}}",
        "+/-": "{standard_error:.4f}",
        "degrees of freedom": "{degrees_of_freedom:.1f}",
        "seconds": "{seconds:.2f}",
    }
    print_records(columns, [row | {"mark": "* " if row["chosen"] else ""} for row in orders])
    print("* chosen")


def _print_race(summary: dict[str, Any]) -> None:
    """Print the kernels that competed by held-out R2, and what the fit to all rows changed in the kept one."""
    columns = {
        "kernel": "{mark} {kernel}",
        "order": "{order}",
        "held-out R2": "{r2:.4f}",
        "+/-": "{standard_error:.4f}",
    }
    race, loss, changed = summary["race"], summary["loss"], summary["after_race"]
    ranked = sorted(race, key=lambda row: row["error"])
    print_records(columns, [row | {"mark": "*" if row["won"] else " ", "r2": 1 - row["error"]} for row in ranked])
    again = "it was learned again from all rows, with" if loss == SQUARED else "the final model has"
    print(f"* kept; {again} {changed}" if changed else "* kept")
    if loss != SQUARED:
        print(CODED)


def _numbers(name: str, text: str, kind: type[int] | type[float], words: Sequence[str], example: str) -> Any:
    """Parse numbers: "3" -> 3, "0.1,1" -> [0.1, 1.0]; words such as "auto" are returned unchanged."""
    if text in words:
        return text
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} {text}: give {', '.join(words)} or numbers such as {example}") from None
    return values if len(values) > 1 else values[0]


def _sets(text: str | None) -> Any:
    """Parse sets of columns: "a,b;c" -> [["a", "b"], ["c"]]; words such as "pairwise" are returned unchanged."""
    if text is None or text in LIMITS:
        return text
    sets = [[name.strip() for name in part.split(",")] for part in text.split(";")]
    if not all(map(all, sets)):
        raise ValueError(f"--interact {text}: give {' or '.join(LIMITS)}, or sets of columns such as area,rooms;age")
    return sets


def _size(text: str | None) -> str | None:
    """Return the text if it is a size or None; otherwise raise ValueError."""
    from salsa._utils.memory import memory_limit_bytes

    try:
        memory_limit_bytes(text)
    except ValueError:
        raise ValueError(f"--memory {text}: give a size such as 4GB or 500MB") from None
    return text
