"""salsa info: show the contents of a model file."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from salsa.cli.arguments import AsJson, Model
from salsa.cli.show import print_fields, print_records, show

if TYPE_CHECKING:
    from salsa.regressor import SalsaRegressor

MOST_LISTED = 3  # terms of a kernel that are named one by one


def info(model: Model, as_json: AsJson = False) -> None:
    """Show the contents of a model file: features, choices of the search, and cross-validated R2.

    A feature of relevance 0 is not used. The bandwidth is the distance over which the model can change by much.

    Example: [bold]salsa info houses.salsa[/bold]
    """
    show(_summary(model), _print_info, as_json)


def _summary(path: str) -> dict[str, Any]:
    from salsa import load
    from salsa.persistence.archive import read_archive

    model, (header, _) = load(path), read_archive(path)
    anchors, outputs = model.expansion_.coef.shape
    return {
        "model": path,
        "bytes": Path(path).stat().st_size,
        "format_version": header["version"],
        "salsa_version": header.get("salsa_version"),  # since format 3
        "anchors": anchors,
        "outputs": outputs,
        "loss": getattr(model, "loss", "log_loss"),
        "features": list(_features(model)),
        "order": model.order_,
        "alpha": model.alpha_,
        "kernel": _kernel_in_words([term.numeric_base for term in model.expansion_.kernel.terms]),
        "interactions": model.interactions,
        "interaction_cst": model.interaction_cst,
        **cross_validated(model),
        "rho": model.search_.rho,
        "notes": list(model.search_.notes),
    }


def _kernel_in_words(bases: list[str]) -> str:
    """Return the base kernels of the terms; many terms, one per set of features, are counted."""
    if len(bases) <= MOST_LISTED:
        return " + ".join(bases)
    return " + ".join(f"{count} times {base}" for base, count in Counter(bases).items())


def _sets_in_words(allowed: str | list[list[str | int]]) -> str:
    """Return the columns that may interact, as ``salsa fit --interact`` takes them."""
    return allowed if isinstance(allowed, str) else "; ".join(", ".join(map(str, S)) for S in allowed)


def cross_validated(model: "SalsaRegressor") -> dict[str, float | None]:
    """Return the cross-validated R2 and its standard error; None if nothing was searched."""
    table = model.search_.table
    for best in table[table["chosen"]].to_dict("records"):
        return {"r2": 1 - best["cv_error"], "standard_error": best["standard_error"]}
    return {"r2": None, "standard_error": None}


def r2_field(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["r2"] is not None:
        share = f"{summary['r2']:.4f} +/- {summary['standard_error']:.4f}"
        if (loss := summary.get("loss", "squared_error")) == "squared_error":
            yield "R2", f"{share} in cross-validation"
        else:
            yield "explained", f"{share} of the best constant's {loss} in cross-validation"


def shared_noise(rho: float) -> str:
    """Say in words how much of the noise is the level of a group; rho is its variance over the noise within groups."""
    return f"{100 * rho / (1 + rho):.3g} % of the noise variance is shared within a group (rho {rho:.3g})"


def _features(model: "SalsaRegressor") -> Iterator[dict[str, Any]]:
    columns = model.columns_
    described = zip(columns.names, columns.levels, columns.ordered, model.relevance_, model.bandwidth_, strict=True)
    for name, levels, ordered, relevance, bandwidth in described:
        is_category = levels is not None and not ordered
        yield {
            "name": name,
            "kind": "number" if levels is None else "ordered" if ordered else "category",
            "levels": None if levels is None else len(levels),
            "relevance": float(relevance),
            "bandwidth": None if is_category else float(bandwidth),  # the kernel of a category has no bandwidth
        }


def _print_info(summary: dict[str, Any]) -> None:
    print_fields(_fields(summary))
    columns = {
        "feature": "{name}",
        "kind": "{kind}{count}",
        "relevance": "{relevance:.4g}",
        "bandwidth": "{bandwidth:.4g}",
    }
    features = [f | {"count": "" if f["levels"] is None else f", levels: {f['levels']}"} for f in summary["features"]]
    print_records(columns, features)


def _fields(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    from salsa._utils.memory import format_bytes

    writer = f", by salsa {summary['salsa_version']}" if summary["salsa_version"] else ""
    yield "model", summary["model"]
    yield "file", f"{format_bytes(summary['bytes'])}, format version {summary['format_version']}{writer}"
    yield "anchors", f"{summary['anchors']} rows that predictions are made from"
    if summary["outputs"] > 1:
        yield "outputs", summary["outputs"]
    used = sum(feature["relevance"] > 0 for feature in summary["features"])
    yield "features", f"{len(summary['features'])}, {used} used"
    yield "order", f"{summary['order']}{' alone' if summary['interactions'] == 'exact' else ''}"
    if summary["interaction_cst"] is not None:
        yield "interact", _sets_in_words(summary["interaction_cst"])
    yield "alpha", f"{summary['alpha']:.4g}"
    yield "kernel", summary["kernel"]
    yield from r2_field(summary)
    if summary["rho"] > 0:
        yield "groups", shared_noise(summary["rho"])
    yield from (("note", note) for note in summary["notes"])
