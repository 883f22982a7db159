"""salsa explain: variance shares, effects and Shapley values of a model."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salsa.cli.arguments import AsJson, Model, SomeData, option
from salsa.cli.completion import complete_classes, complete_column, complete_features
from salsa.cli.prediction_file import no_such_row, read_features
from salsa.cli.scores import rows_scored, scored_fields
from salsa.cli.show import print_fields, print_table, progress, show, write_html

if TYPE_CHECKING:
    from salsa.cli.scores import Model as FittedModel
    from salsa.explain import Anova

MOST, LEAST_SHARE = 20, 5e-5  # largest number of printed rows, smallest printed share
LEAST_OVER_ROWS = 1e-3  # smaller shares over rows alone do not list a term: chance correlations are larger
GROUP_HELP = (
    "Column of DATA with the group of every row, such as a person: standard errors and tests of the report take groups"
    " as independent units. It is no feature."
)
MOST_POINTS = (11, 5, 3)  # printed points per feature of an effect of one, of two, of more features


def explain(
    model: Model,
    data: SomeData = None,
    target: Annotated[str | None, option("COLUMN", "Column of DATA with the observed target.", complete_column)] = None,
    out: Annotated[Path | None, option("FILE", "Also write a report to this HTML file.")] = None,
    group: Annotated[str | None, option("COLUMN", GROUP_HELP, complete_column)] = None,
    effects: Annotated[
        list[str] | None,
        option(
            "FEATURE",
            "Also show the effect of a feature, or the joint effect of several (a,b); may be repeated.",
            complete_features,
        ),
    ] = None,
    row: Annotated[int | None, option("N", "Explain the prediction of row N of DATA, counted from 1.")] = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Class to explain, of three or more; default: the first one.",
            autocompletion=complete_classes,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what matters in a model: shares of the variance of its predictions.

    A share belongs to a single feature or to several features together. In total: all shares that include a feature.
    These shares treat features as independent. Shares over rows refer to the training rows as they are, or to the rows
    of DATA if the model does not keep its training rows; they sum to 100 %, and a negative one offsets others.

    With DATA, also show what each feature adds to predictions (Shapley values); with --row, to the one of row N only.

    Two classes are explained by the log odds of the second one, more classes by a function for each: see --class.

    Example: [bold]salsa explain houses.salsa new.csv --row 3 --out report.html[/bold]
    """
    from salsa import load
    from salsa.cli.tables.writing import check_output

    _check_data(data, target, row)
    _check_group(group, target, out)
    if out is not None:
        check_output(out, model, *([] if data is None else [data]))
    fitted = load(model)
    output = _output(fitted, of)
    is_all_shown = row is None or bool(effects) or as_json
    alone = None if is_all_shown or out is not None else row  # only this row is looked at
    table = None if data is None else read_features(fitted, data, target, group, alone)
    X, y, groups = (None, None, None) if table is None else table.scored
    summary: dict[str, Any] = {"model": model, "scale": _scale(fitted, output)}
    if is_all_shown:
        summary |= importance(fitted, effects or (), X, output)
    if data is not None and row is None:
        summary["data"] = _of_rows(fitted, X, y, output)
    elif table is not None and data is not None and row is not None:
        if not 1 <= row <= len(table.X) and alone is None:
            raise no_such_row(row, data, len(table.X))
        X_row = table.X if alone else table.X[row - 1 : row]
        summary["row"] = _of_row(fitted, X_row, row, output)
    if out is not None:
        _tell_of_groups(fitted, y, groups)
        write_html(fitted, out, X, y, groups, output)
        summary["report"] = str(out)
    show(summary, _print_explanation, as_json)


def importance(model: "FittedModel", effects: Sequence[str] = (), X: Any = None, output: int = 0) -> dict[str, Any]:
    """Return variance shares by term, feature and order, and the requested effects.

    Shares over rows refer to the training rows, or to the rows X if the model does not keep its training rows.
    """
    from salsa.explain import decompose

    with progress("Decomposing"):
        anova = decompose(model, output=output)
        if anova.rows is None and X is not None:
            anova = decompose(model, rows=X, output=output)
        return {
            "mean": anova.mean,
            "variance": anova.variance,
            "importance": anova.importance().to_dict("records"),
            "sobol": anova.sobol().to_dict("records"),
            "orders": anova.orders().to_dict("records"),
            "effects": [_effect(anova, text) for text in effects],
        }


def print_importance(terms: Sequence[dict[str, Any]]) -> None:
    """Print the terms of largest variance share, and their shares over rows if the rows are known."""
    shares = ("variance_share", *_over_rows(terms))
    worth = [
        term
        for term in terms
        if term["variance_share"] >= LEAST_SHARE or abs(term["share_over_rows"]) >= LEAST_OVER_ROWS
    ]
    rows = [(term["term"], str(term["order"]), *(_percent(term[share]) for share in shares)) for term in worth]
    _print_most(("term", "order", "% of variance", "% over rows")[: len(shares) + 2], rows, of=len(terms))


def _check_data(data: str | None, target: str | None, row: int | None) -> None:
    for name, value in (("--target", target), ("--row", row)):
        if data is None and value is not None:
            raise ValueError(f"{name} {value} needs a table: name its file after the model")


def _check_group(group: str | None, target: str | None, out: Path | None) -> None:
    if group is not None and (target is None or out is None):
        why = "standard errors of the report take groups as independent units"
        raise ValueError(f"--group {group} needs --target and --out: {why}")


def _tell_of_groups(model: "FittedModel", y: Any, groups: Any) -> None:
    """Print a line on standard error if the model was fitted with groups, but the groups of the rows are not named."""
    from salsa.explain.report.held_out_groups import group_count

    if y is not None and groups is None and group_count(model):
        print(
            "salsa: the model was fitted with groups: name their column (--group), or standard errors of the report"
            " treat these rows as independent",
            file=sys.stderr,
        )


def _output(model: "FittedModel", of: str | None) -> int:
    """Return the number of the function to explain: the one of a class, by its label."""
    from salsa.fitted import fitted_of

    classes = fitted_of(model).classes
    if of is None:
        return 0
    if classes is None:
        raise ValueError(f"--class {of}: this model predicts numbers; leave --class out")
    labels = [str(label) for label in classes]
    if of not in labels:
        raise ValueError(f"--class {of}: the classes of this model are {', '.join(labels)}")
    if len(labels) == 2 and of != labels[1]:
        problem = f"--class {of}: two classes have one function, the log odds of {labels[1]}"
        raise ValueError(f"{problem}; the log odds of {of} are its negative: leave --class out")
    return labels.index(of) if len(labels) > 2 else 0


def _scale(model: "FittedModel", output: int) -> str | None:
    """Say what the explained function is; None if it is the prediction itself."""
    from salsa.fitted import fitted_of

    fitted = fitted_of(model)
    if fitted.classes is not None and len(fitted.classes) == 2:
        return f"log odds of class {fitted.classes[1]}"
    if fitted.classes is not None:
        return f"log probability of class {fitted.classes[output]}, up to a constant; --class explains another class"
    if fitted.transform is None:
        return None
    return f"{fitted.transform.name} of the {'target' if model.get_params().get('target_transform') else 'mean'}"


def _effect(anova: "Anova", text: str) -> dict[str, Any]:
    """Return the effect of one feature, or the joint effect of several features separated by commas."""
    from salsa.fitted import fitted_of
    from salsa.uncertainty import Unavailable

    banded = not isinstance(fitted_of(anova.model).uncertainty, Unavailable)
    effect = anova.effect(*_named(text, anova.features), band=banded)
    return {
        "features": list(effect.features),
        "variance_share": effect.variance_share,
        "values": [axis.values if axis.names is None else axis.names for axis in effect.axes],
        "effect": effect.values.tolist(),
        "sd": None if effect.sd is None else effect.sd.tolist(),
    }


def _named(text: str, features: Sequence[str]) -> list[str]:
    """Return the features that are separated by commas, unless a feature has commas in its name."""
    return [text] if text in features else [name if name in features else name.strip() for name in text.split(",")]


def _of_rows(model: "FittedModel", X: Any, y: Any, output: int) -> dict[str, Any]:
    """Return the mean absolute Shapley value of each feature over the rows, largest first, and scores if y is given."""
    import numpy as np

    from salsa.explain import shapley

    with progress(f"Explaining {len(X)} rows"):
        explained = shapley(model, X)
        means = np.abs(explained.all_values[:, :, output]).mean(axis=0).tolist()
    rows = [
        {"feature": name, "mean_size": mean} for name, mean in zip(explained.subject.columns.names, means, strict=True)
    ]
    scores = {} if y is None else rows_scored(model, X, y)
    return {
        "rows": len(X),
        "r2": scores.get("r2"),
        "scores": scores,
        "contributions": sorted(rows, key=lambda entry: -entry["mean_size"]),
    }


def _of_row(model: "FittedModel", X: Any, row: int, output: int) -> dict[str, Any]:
    """Return the Shapley values of the prediction of one row X, largest absolute value first."""
    from salsa.explain import shapley

    explained = shapley(model, X)
    values = explained.all_values[0, :, output].tolist()
    names = explained.subject.columns.names
    shown = [explained.subject.shown(j, x)[0] for j, x in enumerate(explained.rows.T)]
    rows = [
        {"feature": name, "value": value, "contribution": contribution}
        for name, value, contribution in zip(names, shown, values, strict=True)
    ]
    base = float(explained.subject.base_value[output])
    return {
        "row": row,
        "base_value": base,
        "contributions": sorted(rows, key=lambda entry: -abs(entry["contribution"])),
        "prediction": base + sum(values),
        "response": _response(model, X, output),
    }


def _response(model: "FittedModel", X: Any, output: int) -> dict[str, Any] | None:
    """Return what is predicted for one row, if it is not the explained function itself: its name and its value."""
    from salsa.fitted import fitted_of

    fitted = fitted_of(model)
    if fitted.transform is None:
        return None
    if fitted.classes is None:
        return {"name": "predicted mean", "value": float(model.predict(X).flat[output])}
    place = 1 if len(fitted.classes) == 2 else output
    p = model.predict_proba(X)
    return {"name": f"probability of {fitted.classes[place]}", "value": float(p[0, place])}


def _print_explanation(summary: dict[str, Any]) -> None:
    print_fields(_fields(summary))
    if "row" not in summary:
        _print_shares(summary)
    for effect in summary.get("effects", ()):
        _print_effect(effect)
    if "data" in summary:
        means = [(entry["feature"], f"{entry['mean_size']:.4g}") for entry in summary["data"]["contributions"]]
        _print_most(("feature", "mean size of its contribution"), means)
    if "row" in summary:
        _print_row(summary["row"])


def _print_shares(summary: dict[str, Any]) -> None:
    """Print variance shares by term, by feature and by order."""
    print_importance(summary["importance"])
    sobol = sorted(summary["sobol"], key=lambda entry: -entry["total"])
    shares = ("first_order", "total", *_over_rows(sobol))
    cells = [(entry["feature"], *(_percent(entry[share]) for share in shares)) for entry in sobol]
    _print_most(("feature", "% by itself", "% in total", "% over rows")[: len(shares) + 1], cells)
    orders = [(str(row["order"]), _percent(row["variance_share"])) for row in summary["orders"]]
    print_table(("order", "% of variance"), orders)


def _fields(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "model", summary["model"]
    if summary["scale"] is not None:
        yield "scale", summary["scale"]
    if "row" not in summary:
        yield "mean", f"{summary['mean']:.6g}"
        yield "variance", f"{summary['variance']:.6g}"
    if (data := summary.get("data")) is not None:
        yield "rows", data["rows"]
        yield from scored_fields(data["scores"])
    if "report" in summary:
        yield "report", summary["report"]


def _print_effect(effect: dict[str, Any]) -> None:
    """Print an effect at some points of its grid."""
    import numpy as np

    names, effects = effect["features"], np.array(effect["effect"])
    sds = np.full(effects.shape, np.nan) if effect["sd"] is None else np.array(effect["sd"])
    most = MOST_POINTS[min(len(names), len(MOST_POINTS)) - 1]
    rows = []
    for places in product(*(_spread(len(values), most) for values in effect["values"])):
        point = [_text(values[place]) for values, place in zip(effect["values"], places, strict=True)]
        rows.append((*point, f"{effects[places]:.4g}", f"{sds[places]:.2g}"))
    print_table((*names, "effect", "+/-"), rows)
    print(f"{_percent(effect['variance_share'])} % of the variance")


def _print_row(explained: dict[str, Any]) -> None:
    used = [c for c in explained["contributions"] if c["contribution"]]
    largest, others = used[:MOST], used[MOST:]
    rows = [
        ("mean prediction", "", f"{explained['base_value']:.6g}"),
        *((c["feature"], _text(c["value"]), f"{c['contribution']:+.6g}") for c in largest),
        (f"prediction of row {explained['row']}", "", f"{explained['prediction']:.6g}"),
    ]
    if others:
        rows.insert(-1, (f"{len(others)} others", "", f"{sum(c['contribution'] for c in others):+.6g}"))
    if (response := explained["response"]) is not None:
        rows.append((response["name"], "", f"{response['value']:.6g}"))
    print_table(("feature", "value", "contribution"), rows)


def _over_rows(entries: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return the name of the shares over rows, or nothing if they are NaN: the rows are not known."""
    return () if any(isnan(entry["share_over_rows"]) for entry in entries) else ("share_over_rows",)


def _print_most(names: Sequence[str], rows: Sequence[Sequence[str]], of: int = 0) -> None:
    """Print the first MOST rows, and how many of the `of` (or all) rows are left out."""
    shown = rows[:MOST]
    print_table(names, shown)
    if (others := max(of, len(rows)) - len(shown)) > 0:
        print(f"... and {others} smaller ones")


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _text(value: Any) -> str:
    """Format a label or a number; NaN becomes "missing"."""
    if isinstance(value, str):
        return value
    return f"{value:.4g}" if value == value else "missing"


def _spread(count: int, most: int) -> Iterable[int]:
    """Return at most `most` of the numbers 0..count-1, evenly spaced, with both ends."""
    return range(count) if count <= most else (round(i * (count - 1) / (most - 1)) for i in range(most))
