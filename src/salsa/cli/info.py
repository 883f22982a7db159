"""salsa info: show the contents of a model file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from salsa.cli.arguments import AsJson, Model
from salsa.cli.scores import cross_validated, loss_field, score_fields
from salsa.cli.show import print_fields, print_records, show

if TYPE_CHECKING:
    from salsa.cli.scores import Model as FittedModel
    from salsa.data.date_parts import Part

MOST_LISTED = 3  # terms of a kernel that are named one by one
MOST_CLASSES = 6  # classes that are named one by one


def info(model: Model, as_json: AsJson = False) -> None:
    """Show the contents of a model file: features, choices of the search, and scores on held-out rows.

    A feature of relevance 0 is not used. The bandwidth is the distance over which the model can change by much.

    Example: [bold]salsa info houses.salsa[/bold]
    """
    show(_summary(model), _print_info, as_json)


def _summary(path: str) -> dict[str, Any]:
    from salsa.persistence.archive import naming, read_archive
    from salsa.persistence.description import description_of
    from salsa.persistence.function_state import formats_from

    header, arrays = read_archive(path)
    with naming(path):
        model, formats = description_of(header, arrays), formats_from(header)
    if model is None:
        from salsa import load

        model = load(path)
    anchors, outputs = model.expansion_.coef.shape
    return {
        "model": path,
        "bytes": Path(path).stat().st_size,
        "format_version": header["version"],
        "salsa_version": header.get("salsa_version"),  # since format 3
        "anchors": anchors,
        "outputs": outputs,
        "classes": getattr(model, "classes_", None),
        "features": list(_features(model)),
        "formats": {name: str(written) for name, written in formats.items()},
        "order": model.order_,
        "alpha": model.alpha_,
        "kernel": _kernel_in_words([term.numeric_base for term in model.expansion_.kernel.terms]),
        "interactions": model.interactions,
        "interaction_cst": model.interaction_cst,
        "monotonic_cst": _signs(model),
        **cross_validated(model),
        "rho": model.search_.rho,
        "notes": list(model.search_.notes),
    }


def _kernel_in_words(bases: list[str]) -> str:
    """Return the base kernels of the terms; many terms, one per set of features, are counted."""
    if len(bases) <= MOST_LISTED:
        return " + ".join(bases)
    return " + ".join(f"{count} times {base}" for base, count in Counter(bases).items())


def _signs(model: "FittedModel") -> dict[str, int] | None:
    """Return the signs of monotone features by name; None if all are free."""
    from salsa.data.signs import monotone_signs

    given = getattr(model, "monotonic_cst", None)
    sign = None if given is None else monotone_signs(given, model.columns_)
    return None if sign is None else {name: int(s) for name, s in zip(model.columns_.names, sign, strict=True) if s}


def some_of(names: Iterable[str]) -> str:
    """Return the first names of a list, and dots if there are more."""
    first = list(islice(names, MOST_CLASSES + 1))
    return ", ".join(first[:MOST_CLASSES]) + (", ..." if len(first) > MOST_CLASSES else "")


def _sets_in_words(allowed: str | list[list[str | int]]) -> str:
    """Return the columns that may interact, as ``salsa fit --interact`` takes them."""
    return allowed if isinstance(allowed, str) else "; ".join(", ".join(map(str, S)) for S in allowed)


def shared_noise(rho: float) -> str:
    """Say in words how much of the noise is the level of a group; rho is its variance over the noise within groups."""
    return f"{100 * rho / (1 + rho):.3g} % of the noise variance is shared within a group (rho {rho:.3g})"


def _features(model: "FittedModel") -> Iterator[dict[str, Any]]:
    columns = model.columns_
    kinds = columns.levels, columns.ordered, columns.all_parts
    described = zip(columns.names, *kinds, model.relevance_, model.bandwidth_, strict=True)
    for name, levels, ordered, part, relevance, bandwidth in described:
        is_category = levels is not None and not ordered
        yield {
            "name": name,
            "kind": _kind(levels is not None, ordered, part),
            "levels": None if levels is None else len(levels),
            "relevance": float(relevance),
            "bandwidth": None if is_category else float(bandwidth),  # the kernel of a category has no bandwidth
        }


def _kind(has_levels: bool, ordered: bool, part: "Part | None") -> str:
    if part is not None:
        return "duration" if part.name == "duration" else "date"
    return "number" if not has_levels else "ordered" if ordered else "category"


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
    if summary["classes"] is not None:
        yield "target", f"{len(summary['classes'])} classes: {some_of(map(str, summary['classes']))}"
    elif summary["outputs"] > 1:
        yield "outputs", summary["outputs"]
    used = sum(feature["relevance"] > 0 for feature in summary["features"])
    yield "features", f"{len(summary['features'])}, {used} used"
    if summary["formats"]:
        yield "numbers", some_of(f"{name} like {example}" for name, example in summary["formats"].items())
    yield "order", f"{summary['order']}{' alone' if summary['interactions'] == 'exact' else ''}"
    if summary["interaction_cst"] is not None:
        yield "interact", _sets_in_words(summary["interaction_cst"])
    if summary["monotonic_cst"] is not None:
        yield "monotone", ", ".join(f"{name} {sign:+d}" for name, sign in summary["monotonic_cst"].items())
    yield "alpha", f"{summary['alpha']:.4g}"
    yield "kernel", summary["kernel"]
    yield from loss_field(summary)
    yield from score_fields(summary)
    if summary["rho"] > 0:
        yield "groups", shared_noise(summary["rho"])
    yield from (("note", note) for note in summary["notes"])
