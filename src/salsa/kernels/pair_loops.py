"""Compiled loops over all pairs of rows, for a sum of additive kernels: blocks, products and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa import _core
from salsa._utils.arrays import Floats, Places, for_the_core
from salsa._utils.threads import thread_count

if TYPE_CHECKING:
    from salsa.kernels.additive import AdditiveKernel

Terms = Sequence["AdditiveKernel"]


class KernelGradient(NamedTuple):
    """Sums over pairs of dL/dK times the derivative of K with respect to each parameter."""

    relevance: Floats  # (D,)
    bandwidth: Floats  # (D,)
    order_weights: Floats  # (d+1,)


class CoreCall(NamedTuple):
    """The arguments of a compiled loop over pairs: the columns of the features in use, and the terms' parameters."""

    X: Floats
    Z: Floats | None
    arguments: tuple[NDArray[np.int8], Floats, Floats, Floats]  # bases, bandwidths, relevances, weights of all terms
    layout: dict[str, Any]  # which features have missing values, where the columns of features stand, sizes of terms
    features: tuple[Places, ...]  # features of every term that depends on one
    constant: float = 0.0  # the sum of the terms that depend on no feature


def core_call(terms: Terms, X: Floats, Z: Floats | None, *, of_zeros: bool = False) -> CoreCall | None:
    """Return the arguments of a loop, without features of relevance zero unless `of_zeros`; None if no feature is left.

    A feature has one column, which all terms share. With missing values it has three columns for each term: its values,
    k_j with a missing value, and the derivative of this k_j by log h_j.
    """
    kept = [np.arange(term.n_features) if of_zeros else np.flatnonzero(term.relevance > 0) for term in terms]
    live = [(term, keep) for term, keep in zip(terms, kept, strict=True) if len(keep)]
    if not live:
        return None
    constant = sum(float(term.order_weights[0]) for term, keep in zip(terms, kept, strict=True) if not len(keep))
    tables = [X] if Z is None else [X, Z]
    has_missing = np.any([np.isnan(table).any(axis=0) for table in tables], axis=0)
    shared = np.unique(np.concatenate([keep for _, keep in live]))
    shared = shared[~has_missing[shared]]
    place = np.zeros(len(has_missing), dtype=np.int32)
    place[shared] = np.arange(len(shared))
    parts, columns, width = [[_taken(table, shared)] for table in tables], [], len(shared)
    for term, keep in live:
        where = place[keep]
        for k in np.flatnonzero(has_missing[keep]):
            for part, table in zip(parts, tables, strict=True):
                part.append(term.with_means(int(keep[k]), table[:, keep[k]]))
            where[k], width = width, width + 3
        columns.append(where)
    weights = [(term.order_weights * term.normaliser)[: len(keep) + 1] for term, keep in live]
    arguments = (
        np.concatenate([term.codes[keep] for term, keep in live]),
        np.concatenate([term.bandwidth[keep] for term, keep in live]),
        np.concatenate([term.relevance[keep] for term, keep in live]),
        np.concatenate(weights),
    )
    layout = {
        "missing": np.concatenate([has_missing[keep] for _, keep in live]).astype(np.int8),
        "columns": np.concatenate(columns).astype(np.int32),
        "terms": np.array([(len(keep), len(w)) for (_, keep), w in zip(live, weights, strict=True)], dtype=np.int32),
    }
    X, *others = (part[0] if len(part) == 1 else np.hstack(part) for part in parts)
    features = tuple(keep for _, keep in live)
    return CoreCall(X, others[0] if others else None, arguments, layout, features, constant)


def block(terms: Terms, X: Floats, Z: Floats | None, n_threads: int | None) -> Floats:
    """Return K (n, m) between the rows of X (n, D) and Z (m, D), or of X with itself."""
    m = len(X if Z is None else Z)
    if (call := core_call(terms, X, Z)) is None:
        return np.full((len(X), m), sum(float(term.order_weights[0]) for term in terms))
    K = _core.block(call.X, call.Z, *call.arguments, _threads(call, n_threads, len(X), m), **call.layout)
    if call.constant:
        K += call.constant
    return K


def block32(terms: Terms, X: Floats, Z: Floats | None, n_threads: int | None) -> NDArray[np.float32]:
    """Return K (n, m) in float32: ``block``, with an error below 4e-7 of the diagonal.

    The core computes float64 and rounds it where the kernel or the coordinates are beyond float32.
    """
    m = len(X if Z is None else Z)
    if (call := core_call(terms, X, Z)) is None:
        return np.full((len(X), m), sum(float(term.order_weights[0]) for term in terms), dtype=np.float32)
    K = _core.block32(call.X, call.Z, *call.arguments, _threads(call, n_threads, len(X), m), **call.layout)
    if call.constant:
        K += np.float32(call.constant)
    return K


def product(terms: Terms, X: Floats, Z: Floats, V: Any, n_threads: int | None) -> Floats:
    """Return K(X, Z) V, of the shape of V (m,) or (m, q), without forming K."""
    V = for_the_core(V)
    columns = V[:, None] if V.ndim == 1 else V
    if len(columns) != len(Z):
        raise ValueError(f"V has {len(columns)} rows, Z has {len(Z)}: give one row of V per row of Z")
    if (call := core_call(terms, X, Z)) is None:
        constant = sum(float(term.order_weights[0]) for term in terms)
        out = np.broadcast_to(constant * columns.sum(axis=0), (len(X), columns.shape[1])).copy()
    else:
        assert call.Z is not None
        threads = _threads(call, n_threads, len(X), len(Z))
        out = _core.product(call.X, call.Z, columns, *call.arguments, threads, **call.layout)
        if call.constant:
            out += call.constant * columns.sum(axis=0)
    return out[:, 0] if V.ndim == 1 else out


def gradient(
    terms: Terms, X: Floats, G: Any, Z: Floats | None, of_zeros: bool, n_threads: int | None
) -> tuple[KernelGradient, ...]:
    """Turn G = dL/dK (n, m) into derivatives of L by the parameters of every term."""
    G, call = for_the_core(G), core_call(terms, X, Z, of_zeros=of_zeros)
    found: list[tuple[Floats, ...]] = []
    if call is not None:
        threads = _threads(call, n_threads, len(X), len(X if Z is None else Z))
        parts = _core.gradient(call.X, call.Z, G, *call.arguments, threads, None, of_zeros, **call.layout)
        ends = np.cumsum(call.layout["terms"], axis=0)[:-1]
        found = list(
            zip(*(np.split(part, ends[:, of]) for part, of in zip(parts, (0, 0, 1), strict=True)), strict=True)
        )
    gradients = []
    for term in terms:
        if of_zeros or term.relevance.any():
            gradients.append(_of_term(term, found.pop(0), of_zeros))
        else:
            constant = np.eye(1, term.order + 1)[0] * G.sum()
            gradients.append(KernelGradient(np.zeros(term.n_features), np.zeros(term.n_features), constant))
    return tuple(gradients)


def _of_term(term: AdditiveKernel, found: tuple[Floats, ...], of_zeros: bool) -> KernelGradient:
    """Return the derivatives of a term, zeros for features that it does not use."""
    (relevance, log_bandwidth, e), D = found, term.n_features
    keep = np.arange(D) if of_zeros else np.flatnonzero(term.relevance > 0)
    bandwidth = _scattered(log_bandwidth, keep, D) / term.bandwidth
    return KernelGradient(
        _scattered(relevance, keep, D), bandwidth, _scattered(e, np.arange(len(e)), term.order + 1) * term.normaliser
    )


def _threads(call: CoreCall, requested: int | None, n: int, m: int) -> int:
    return thread_count(requested, n, m, len(call.arguments[0]))


def _taken(table: Floats, features: Places) -> Floats:
    return table if len(features) == table.shape[1] else np.ascontiguousarray(table[:, features])


def _scattered(values: Floats, index: Places, length: int) -> Floats:
    """Return an array of zeros (length,) with `values` at the places `index`."""
    full = np.zeros(length)
    full[index] = values
    return full
