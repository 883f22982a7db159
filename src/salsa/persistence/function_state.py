"""The fitted function as the header and the arrays of a model file, and back: everything that predictions need.

Neither SciPy nor scikit-learn is imported, unless the function has a loss that needs them: a service starts quickly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa.data.columns import Columns
from salsa.data.date_parts import Part
from salsa.data.number_format import STYLES, NumberFormat, Style
from salsa.data.transforms import TRANSFORMS, TargetTransform
from salsa.expansion import KernelExpansion
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.marginals import Distribution
from salsa.kernels.sum import SumKernel
from salsa.persistence.archive import entry

if TYPE_CHECKING:
    from salsa.losses import Likelihood, Link

MOST_ORDERS = 1030  # with more, C(D, d) is beyond float64 for some of them
_PARAMETERS = ("bandwidth", "relevance", "order_weights")  # arrays of an additive kernel
FORMAT_PARTS = ("decimal", "thousands", "before", "after")  # parts of a number in a file
OF_CLASSES = ("Logistic", "Softmax")  # losses of classes


class SavedFunction(NamedTuple):
    """The part of a model file that predictions need."""

    columns: Columns
    feature_names: list[str]  # empty if the training table had no names
    flat: bool  # y had one dimension
    expansion: KernelExpansion
    loss: Likelihood | None
    transform: TargetTransform | Link | None
    classes: NDArray[Any] | None


def function_from(header: dict[str, Any], arrays: Mapping[str, Floats]) -> SavedFunction:
    """Read the fitted function; ValueError if its parts do not match."""
    names, columns = entry(header, "feature_names", [{str}]), columns_from(header["columns"])
    if arrays["bandwidth"].shape[-1] != len(columns.names) or len(names) not in (0, len(columns.table)):
        raise ValueError("its kernel, its columns and its feature names are not of one number")
    expansion = expansion_from(header["kernel"], arrays)
    columns.check_spans(expansion.anchors)
    columns.check_codes(expansion.anchors)
    flat, classes = entry(header, "flat", {bool}), classes_from(header, expansion)
    if flat and len(expansion.offset) > 1:
        raise ValueError("it has more outputs than it says")
    loss, transform = None, transform_from(header, arrays, expansion)
    if "loss" in header:
        loss, transform = _loss_and_link(header["loss"], len(expansion.offset))
    if (classes is not None) != (header.get("loss", {}).get("name") in OF_CLASSES):
        raise ValueError("its classes and its loss contradict each other")
    return SavedFunction(columns, names, flat, expansion, loss, transform, classes)


def _loss_and_link(state: Any, outputs: int) -> tuple[Likelihood, Any]:
    from salsa.losses import link_of  # here, because it imports SciPy

    loss = loss_from(state, outputs)
    return loss, link_of(loss)


def columns_state(columns: Columns) -> dict[str, Any]:
    """Return the features; the key "parts" is only there if some are parts of dates, or durations."""
    state = asdict(columns)
    return state if state.pop("parts") == () else {**state, "parts": [list(part or ()) for part in columns.parts]}


def columns_from(state: Any) -> Columns:
    names, ordered = tuple(entry(state, "names", [{str}])), tuple(entry(state, "ordered", [{bool}]))
    levels = tuple(None if v is None else tuple(v) for v in entry(state, "levels", [{list, type(None)}]))
    if not all(type(level) in (str, int, float, bool) for values in levels for level in values or ()):
        raise ValueError("its levels of categories are not all texts or numbers")
    if not len(names) == len(levels) == len(ordered):
        raise ValueError(f"it has {len(names)} names, {len(levels)} levels and {len(ordered)} orders of columns")
    return Columns(names, levels, ordered, _parts(state, names, levels))


def _parts(state: Any, names: tuple[str, ...], levels: tuple[Any, ...]) -> tuple[Part | None, ...]:
    """Return the parts of dates, and durations; files without them have no such key."""
    if "parts" not in state:
        return ()
    given = entry(state, "parts", [[{str, type(None)}]])
    parts = [Part(*values) if len(values) == 3 else None for values in given]
    if len(parts) != len(names) or any(values and part is None for values, part in zip(given, parts, strict=True)):
        raise ValueError("its parts of dates do not fit its features")
    for part, name, known in zip(parts, names, levels, strict=True):
        if part is not None and (known is not None or not part.is_known or part.feature != name):
            raise ValueError(f"its feature {name!r} is no part of a date")
    heads = [part for before, part in pairwise([None, *parts]) if part and (not before or before.column != part.column)]
    if any(part.is_cyclic for part in heads):
        raise ValueError("its parts of dates do not begin with a trend")
    return tuple(parts)


def expansion_state(expansion: KernelExpansion) -> tuple[dict[str, Any], dict[str, Floats]]:
    header, parameters = kernel_state(expansion.kernel)
    parameters |= _flattened("marginal", expansion.marginals)
    return header, {**parameters, "anchors": expansion.anchors, "coef": expansion.coef, "offset": expansion.offset}


def expansion_from(header: Any, arrays: Mapping[str, Floats]) -> KernelExpansion:
    anchors, coef, offset = (arrays[name] for name in ("anchors", "coef", "offset"))
    if anchors.shape[1:] != arrays["bandwidth"].shape[-1:] or coef.shape != (len(anchors), *offset.shape):
        raise ValueError("its arrays do not fit each other")
    kernel = kernel_from(header, arrays)
    observed = anchors if kernel.distributions is None else anchors[~np.isnan(anchors)]
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(offset) + kernel.diagonal(anchors[:1]) * np.abs(coef).sum(axis=0)  # bounds |f(x)|
    if not np.isfinite(observed).all() or not np.isfinite(largest).all():
        raise ValueError("its arrays are not all finite, or give predictions that are not")
    marginals = _distributions("marginal", arrays, may_miss=True)
    if marginals is not None and len(marginals) != kernel.n_features:
        raise ValueError("its marginals do not fit its features")
    return KernelExpansion(kernel, anchors, coef, offset, marginals)


def kernel_state(kernel: Kernel) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the header and the arrays of a kernel.

    A sum of T terms has bandwidth and relevance (T, D), and the order weights of all terms one after the other.
    """
    terms, distributions = kernel.terms, _flattened("distribution", kernel.distributions)
    bases = [term.base if isinstance(term.base, str) else list(term.base) for term in terms]
    if isinstance(kernel, AdditiveKernel):
        return {"base": bases[0]}, {name: getattr(kernel, name) for name in _PARAMETERS} | distributions
    arrays = {
        "bandwidth": np.array([term.bandwidth for term in terms]),
        "relevance": np.array([term.relevance for term in terms]),
        "order_weights": np.concatenate([term.order_weights for term in terms]),
    }
    headers = [{"base": base, "order": term.order} for base, term in zip(bases, terms, strict=True)]
    return {"terms": headers}, arrays | distributions


def kernel_from(header: Any, arrays: Mapping[str, Floats]) -> Kernel:
    bandwidth, relevance, weights = (arrays[name] for name in _PARAMETERS)
    distributions = _distributions("distribution", arrays)
    if not isinstance(header, dict) or "terms" not in header:
        return _term(header, bandwidth, relevance, weights, distributions)
    terms = entry(header, "terms", [{dict}])
    ends = np.cumsum([1 + entry(term, "order", {int}) for term in terms])
    fit = bandwidth.ndim == 2 and len(bandwidth) == len(relevance) == len(terms) and weights.shape == (ends[-1],)
    if not fit or min(np.diff(ends, prepend=0)) < 1:
        raise ValueError(f"the parameters of its kernel do not fit its {len(terms)} terms")
    each = zip(terms, bandwidth, relevance, np.split(weights, ends[:-1]), strict=True)
    return SumKernel(_term(*parts, distributions) for parts in each)


def _term(
    header: Any,
    bandwidth: Floats,
    relevance: Floats,
    weights: Floats,
    distributions: tuple[Distribution, ...] | None,
) -> AdditiveKernel:
    if len(weights) > MOST_ORDERS:  # before the kernel counts its products, which would take long
        raise ValueError(f"its kernel has {len(weights)} order weights, more than {MOST_ORDERS}")
    return AdditiveKernel(bandwidth, relevance, weights, entry(header, "base", {str, list}), distributions)


def _flattened(kind: str, distributions: tuple[Distribution, ...] | None) -> dict[str, Floats]:
    if distributions is None:
        return {}
    points, weights = zip(*distributions, strict=True)
    sizes = np.array([len(p) for p in points], dtype=np.float64)
    return {
        f"{kind}_sizes": sizes,
        f"{kind}_points": np.concatenate(points),
        f"{kind}_weights": np.concatenate(weights),
    }


def _distributions(
    kind: str, arrays: Mapping[str, Floats], *, may_miss: bool = False
) -> tuple[Distribution, ...] | None:
    if f"{kind}_sizes" not in arrays:
        return None
    sizes, points, weights = (arrays[f"{kind}_{part}"] for part in ("sizes", "points", "weights"))
    n = len(points)
    if not ((sizes >= 1) & (sizes <= n)).all() or sizes.sum() != n or weights.shape != (n,):
        raise ValueError(f"its {kind}s do not fit each other")
    ends = np.cumsum(sizes).astype(np.intp)
    finite = np.isfinite(points) | (np.isnan(points) & may_miss)
    shares = ((weights >= 0) & (weights < 2)).all() and (np.add.reduceat(weights, [0, *ends[:-1]]) < 1 + 1e-6).all()
    if not finite.all() or not shares:
        raise ValueError(f"its {kind}s are not finite points of positive weights that sum to one")
    parts = zip(np.split(points, ends[:-1]), np.split(weights, ends[:-1]), strict=True)
    return tuple(Distribution(*part) for part in parts)


def loss_state(loss: Likelihood) -> dict[str, Any]:
    """Return the name of a loss and its numbers."""
    return {"name": type(loss).__name__, "parameters": asdict(loss) if is_dataclass(loss) else {}}


def loss_from(state: Any, outputs: int) -> Likelihood:
    from salsa.losses import LIKELIHOODS  # here, because it imports SciPy

    name, parameters = entry(state, "name", {str}), entry(state, "parameters", {dict})
    if name not in LIKELIHOODS or (name == "Softmax") != (outputs > 1):
        raise ValueError(f"its loss {name!r} is unknown, or not for {outputs} outputs")
    if not all(type(value) in (bool, int, float) and 0 <= value < np.inf for value in parameters.values()):
        raise ValueError(f"the numbers of its loss {name!r} are not positive")
    loss: Likelihood = LIKELIHOODS[name](**parameters)
    return loss


def classes_state(classes: NDArray[Any]) -> dict[str, Any]:
    """Return the labels of classes as JSON holds them; ValueError for labels that it does not hold."""
    labels = classes.tolist()
    if not all(type(label) in (str, int, float, bool) for label in labels):
        raise ValueError(f"a model file holds classes that are texts or numbers, not {type(labels[0]).__name__}")
    return {"labels": labels, "type": "object" if classes.dtype == object else classes.dtype.str}


def classes_from(header: dict[str, Any], expansion: KernelExpansion) -> NDArray[Any] | None:
    if "classes" not in header:
        return None
    state, q = entry(header, "classes", {dict}), len(expansion.offset)
    labels, kind = entry(state, "labels", [{str, int, float, bool}]), entry(state, "type", {str})
    if not re.fullmatch(r"object|[<|](U\d{1,6}|[iufb][1248])", kind) or len(labels) != (2 if q == 1 else q):
        raise ValueError(f"its {len(labels)} classes of the type {kind!r} do not fit its {q} outputs")
    classes = np.array(labels, dtype=kind)
    if classes.tolist() != labels or not (classes[:-1] < classes[1:]).all():
        raise ValueError("its classes are not of their type, or not in ascending order")
    return classes


def transform_from(
    header: dict[str, Any], arrays: Mapping[str, Floats], expansion: KernelExpansion
) -> TargetTransform | None:
    if "transform" not in header:
        return None
    name, residual = entry(header, "transform", {str}), arrays.get("smear", np.empty(0))
    if name not in TRANSFORMS or residual.shape[1:] != expansion.offset.shape or not len(residual):
        raise ValueError(f"its target transform {name!r} is unknown, or its residuals are not of its outputs")
    if not np.isfinite(residual).all():
        raise ValueError("its held-out residuals are not finite")
    return TargetTransform(name, residual)


def formats_from(header: dict[str, Any]) -> dict[str, NumberFormat]:
    """Return how the training file wrote the numbers of its columns; files of earlier versions have plain numbers."""
    formats = {}
    for name, parts in entry({"formats": {}} | header, "formats", {dict}).items():
        decimal, thousands, before, after = (entry(parts, part, {str}) for part in FORMAT_PARTS)
        if Style(decimal, thousands) not in STYLES:
            raise ValueError(f"numbers of column {name!r} have unknown marks {decimal!r} and {thousands!r}")
        formats[name] = NumberFormat(decimal, thousands, before, after)
    return formats
