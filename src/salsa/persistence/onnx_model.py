"""A fitted model as ONNX: f(x) = offset + K(x, anchors) coef and the way to the response, by standard operators.

Everything is computed in float64: coefficients of smooth fits are large and of both signs, so that float32 would lose
the digits of their sum.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.atomic import checked_path, replacing
from salsa.data.columns import Columns, Level
from salsa.data.date_parts import DURATION
from salsa.data.transforms import TargetTransform
from salsa.fitted import Fitted
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.base import is_cyclic, straight
from salsa.losses import Link, Logistic, Softmax

if TYPE_CHECKING:
    from salsa.persistence.onnx_graph import Graph

MOST_BYTES = 2**31 - 1  # of a protocol buffer
X_NAME = "X"  # the input of models that were fitted without names


def write_onnx(fitted: Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as an ONNX file, or nothing."""
    checked_path(path)
    _check_columns(fitted.columns)
    anchors, coef = fitted.expansion.anchors, fitted.expansion.coef
    if (size := anchors.nbytes + coef.nbytes) > MOST_BYTES:
        raise ValueError(
            f"the model has {size / 1e9:.1f} GB of anchors, and ONNX files at most 2.1 GB: fit it with solver='lowrank'"
        )
    try:
        from salsa.persistence.onnx_graph import Graph
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install onnx") from error
    g = Graph()
    columns = _inputs(g, fitted)
    f = g("Add", g("MatMul", _kernel(g, fitted, columns), coef), fitted.expansion.offset)
    _outputs(g, fitted, f)
    content = g.model({"features": "\n".join(fitted.columns.names)}).SerializeToString()
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _check_columns(columns: Columns) -> None:
    """Raise ValueError if a column holds dates or durations, whose parts the operators of ONNX do not compute."""
    timed = [part for part in columns.parts if part is not None]
    if timed:
        problem = f"column {timed[0].column!r} holds {'durations' if timed[0].name == DURATION else 'dates'}"
        advice = "give the parts as columns of numbers, such as the days since some date, and fit the model again"
        raise ValueError(f"{problem}, which ONNX files cannot take: {advice}")


def _inputs(g: Graph, fitted: Fitted) -> list[str]:
    """Return the encoded columns (n, 1) of the table; missing values and unknown levels are NaN."""
    columns = fitted.columns
    if fitted.feature_names is not None:
        return [
            g.input(name, np.float64, 1)
            if levels is None
            else _code(g, g.input(name, _type_of(name, levels), 1), levels)
            for name, levels in zip(columns.names, columns.levels, strict=True)
        ]
    table = g.input(X_NAME, np.float64, len(columns.names))
    each = [g("Gather", table, np.array([j]), axis=1) for j in range(len(columns.names))]
    for name, levels in zip(columns.names, columns.levels, strict=True):
        if levels is not None and _type_of(name, levels) is not np.float64:
            raise ValueError(
                f"column {name!r} has levels that are not numbers: fit a data frame, whose columns have names"
            )
    pairs = zip(each, columns.levels, strict=True)
    return [column if levels is None else _code(g, column, levels) for column, levels in pairs]


def _type_of(name: str, levels: Iterable[Level]) -> type:
    """Return the type of a category's input: object for texts, float64 for numbers, and bool."""
    kinds = {bool if isinstance(level, bool) else object if isinstance(level, str) else np.float64 for level in levels}
    if len(kinds) > 1:
        raise ValueError(
            f"column {name!r} has levels of several types, which an ONNX input cannot have: make them texts"
        )
    return kinds.pop()


def _code(g: Graph, column: str, levels: tuple[Level, ...]) -> str:
    """Return the codes (n, 1) of a category's levels; NaN for other values."""
    kind = _type_of("", levels)
    is_level = g("Cast", g("Equal", column, np.array([levels], dtype=kind)), to=11)  # 11: float64
    code = g("MatMul", is_level, np.arange(len(levels), dtype=np.float64)[:, None])
    known = g("ReduceMax", is_level, np.array([1]), keepdims=1)
    return g("Where", g("Cast", known, to=9), code, np.array(np.nan))  # 9: bool


def _kernel(g: Graph, fitted: Fitted, columns: list[str]) -> str:
    """Return K (n, m) between the rows and the anchors."""
    anchors = fitted.expansion.anchors
    parts = [_term(g, term, columns, anchors) for term in fitted.expansion.kernel.terms]
    return reduce(lambda a, b: g("Add", a, b), parts)


def _term(g: Graph, term: AdditiveKernel, columns: list[str], anchors: Floats) -> str:
    """Return sum_m w_m e_m(a_1 k_1, ..., a_D k_D) / C(D, m), (n, m), over the features in use."""
    weights = term.order_weights * term.normaliser
    used = np.flatnonzero(term.relevance).tolist()
    constant = g.constant(np.full((1, len(anchors)), weights[0]))
    top = min(term.order, len(used))
    if top == 0 or not weights[1 : top + 1].any():
        return constant
    factors = [g("Mul", _base(g, term, j, columns[j], anchors[:, j]), np.array(term.relevance[j])) for j in used]
    if top == len(used) and not weights[1:top].any():  # the product alone
        product = reduce(lambda a, b: g("Mul", a, b), factors)
        return g("Add", g("Mul", product, np.array(weights[top])), constant)
    e = _symmetric(g, factors, top)
    parts = [g("Mul", part, np.array(weight)) for part, weight in zip(e, weights[1:], strict=False) if weight]
    return reduce(lambda a, b: g("Add", a, b), [*parts, constant])


def _symmetric(g: Graph, factors: list[str], top: int) -> list[str]:
    """Return e_1, ..., e_top of the factors (n, m), by e_m <- e_m + s e_{m-1}."""
    e: list[str] = []
    for s in factors:
        below = [g("Mul", s, part) for part in e[: top - 1]]
        added = [g("Add", part, more) for part, more in zip(e, [s, *below], strict=False)]
        e = [*added, *[s, *below][len(e) : top]]
    return e


def _base(g: Graph, term: AdditiveKernel, j: int, x: str, z: Floats) -> str:
    """Return k_j (n, m) between the values x (n, 1) and those of the anchors z (m,)."""
    value = _function(g, term, j)
    if term.distributions is None:
        return value(x, z)
    points, weights = term.distributions[j]
    at_anchors = term.with_means(j, z)[:, 1]  # where x is missing: one if both are
    missing = np.isnan(z)
    found = value(x, np.where(missing, points[0], z))
    if missing.any():
        mean = g("MatMul", value(x, points), weights[:, None])
        found = g("Where", missing[None], mean, found)
    return g("Where", g("IsNaN", x), at_anchors[None], found)


def _function(g: Graph, term: AdditiveKernel, j: int) -> Callable[[str, Floats], str]:
    """Return the base kernel of a feature, as a function of values (n, 1) and constants (m,)."""
    base, h = term.bases[j], float(term.bandwidth[j])

    def value(x: str, z: Floats) -> str:
        if base == "equality":
            return g("Cast", g("Equal", x, z[None]), to=11)
        t = g("Sub", x, z[None])
        return BASES[straight(base)](g, g("Div", _chord(g, t) if is_cyclic(base) else t, np.array(h)))

    return value


def _chord(g: Graph, t: str) -> str:
    """Return sin(pi t) / pi, the difference of two places on a circle of circumference 1."""
    return g("Div", g("Sin", g("Mul", t, np.array(np.pi))), np.array(np.pi))


def _gaussian(g: Graph, t: str) -> str:
    return g("Exp", g("Mul", g("Mul", t, t), np.array(-0.5)))


def _laplace(g: Graph, t: str) -> str:
    return g("Exp", g("Neg", g("Abs", t)))


def _matern32(g: Graph, t: str) -> str:
    r = g("Mul", g("Abs", t), np.array(np.sqrt(3.0)))
    return g("Mul", g("Add", r, np.array(1.0)), g("Exp", g("Neg", r)))


def _matern52(g: Graph, t: str) -> str:
    r = g("Mul", g("Abs", t), np.array(np.sqrt(5.0)))
    polynomial = g("Add", g("Add", r, np.array(1.0)), g("Div", g("Mul", r, r), np.array(3.0)))
    return g("Mul", polynomial, g("Exp", g("Neg", r)))


#: Base kernels of numbers as functions of (x - z) / h; tests compare the names with ``BASE_KERNELS``
BASES = {"gaussian": _gaussian, "laplace": _laplace, "matern32": _matern32, "matern52": _matern52}


def _outputs(g: Graph, fitted: Fitted, f: str) -> None:
    """Declare the response of f (n, q): a prediction, or the label and the probabilities of the classes."""
    response, q = _response(g, fitted.transform, f), fitted.expansion.coef.shape[1]
    if fitted.classes is None:
        shaped = g("Squeeze", response, np.array([1])) if fitted.flat else response
        g.output(shaped, "prediction", np.float64, None if fitted.flat else q)
        return
    p = g("Concat", g("Sub", np.array(1.0), response), response, axis=1) if q == 1 else response
    classes = fitted.classes.astype(object) if fitted.classes.dtype.kind in "OU" else fitted.classes
    if classes.dtype == object and not all(isinstance(label, str) for label in classes):
        raise ValueError("the classes are neither all texts nor all numbers, which an ONNX output cannot have")
    g.output(g("Gather", classes, g("ArgMax", p, axis=1, keepdims=0)), "label", classes.dtype, None)
    g.output(p, "probabilities", np.float64, len(classes))


def _response(g: Graph, transform: TargetTransform | Link | None, f: str) -> str:
    """Return the response (n, q) where the fitted function is f (n, q)."""
    if transform is None:
        return f
    if isinstance(transform, TargetTransform):
        residual = transform.residual.T[None]  # (1, q, k)
        z = g("Add", g("Unsqueeze", f, np.array([2])), residual)
        return g("ReduceMean", _inverse(g, transform.name, z), np.array([2]), keepdims=0)
    if isinstance(transform.loss, Softmax):
        return g("Softmax", f, axis=1)
    return g("Sigmoid" if isinstance(transform.loss, Logistic) else "Exp", f)


def _inverse(g: Graph, name: str, z: str) -> str:
    if name == "sqrt":
        root = g("Max", z, np.array(0.0))
        return g("Mul", root, root)
    y = g("Exp", z)
    return y if name == "log" else g("Sub", y, np.array(1.0))
