"""Compiled loops over all pairs of rows, for a sum of additive kernels: blocks, products and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa import _core
from salsa._utils.arrays import Floats, Places, for_the_core
from salsa._utils.threads import thread_count

if TYPE_CHECKING:
    from salsa.kernels.additive import AdditiveKernel

Terms = Sequence["AdditiveKernel"]
MOST_PREPARED = 8  # patterns of missing values whose columns of anchors are kept


class KernelGradient(NamedTuple):
    """Sums over pairs of dL/dK times the derivative of K with respect to each parameter."""

    relevance: Floats  # (D,)
    bandwidth: Floats  # (D,)
    order_weights: Floats  # (d+1,)


class Plan(NamedTuple):
    """The arguments of a compiled loop over pairs that do not depend on the rows, but on where values are missing."""

    live: tuple[tuple[AdditiveKernel, Places], ...]  # terms that depend on a feature, and the features that they use
    shared: Places  # features without missing values: all terms share their columns
    has_missing: NDArray[np.bool_]  # (D,)
    arguments: tuple[NDArray[np.int8], Floats, Floats, Floats]  # bases, bandwidths, relevances, weights of all terms
    layout: dict[str, Any]  # which features have missing values, where the columns of features stand, sizes of terms
    constant: float = 0.0  # the sum of the terms that depend on no feature

    @property
    def features(self) -> tuple[Places, ...]:
        """The features of every term that depends on one."""
        return tuple(keep for _, keep in self.live)

    def columns_of(self, table: Floats) -> Floats:
        """Return the columns of rows (n, D) as the loop takes them."""
        parts = [_taken(table, self.shared)]
        for term, keep in self.live:
            parts += [term.with_means(j, table[:, j]) for j in keep[self.has_missing[keep]].tolist()]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def threads(self, requested: int | None, n: int, m: int) -> int:
        return thread_count(requested, n, m, len(self.arguments[0]))


class CoreCall(NamedTuple):
    """The arguments of a compiled loop over pairs: the columns of the features in use, and the plan."""

    X: Floats
    Z: Floats | None
    plan: Plan


def core_call(terms: Terms, X: Floats, Z: Floats | None, *, of_zeros: bool = False) -> CoreCall | None:
    """Return the arguments of a loop, without features of relevance zero unless `of_zeros`; None if no feature is left.

    A feature has one column, which all terms share. With missing values it has three columns for each term: its values,
    k_j with a missing value, and the derivative of this k_j by log h_j.
    """
    tables = [X] if Z is None else [X, Z]
    has_missing = np.any([np.isnan(table).any(axis=0) for table in tables], axis=0)
    if (plan := make_plan(terms, has_missing, of_zeros=of_zeros)) is None:
        return None
    return CoreCall(plan.columns_of(X), None if Z is None else plan.columns_of(Z), plan)


def make_plan(terms: Terms, has_missing: NDArray[np.bool_], *, of_zeros: bool = False) -> Plan | None:
    """Return the plan of a loop over rows that have missing values in these features (D,); None without features."""
    kept = [np.arange(term.n_features) if of_zeros else np.flatnonzero(term.relevance > 0) for term in terms]
    live = tuple((term, keep) for term, keep in zip(terms, kept, strict=True) if len(keep))
    if not live:
        return None
    constant = sum(float(term.order_weights[0]) for term, keep in zip(terms, kept, strict=True) if not len(keep))
    shared = np.unique(np.concatenate([keep for _, keep in live]))
    shared = shared[~has_missing[shared]]
    place = np.zeros(len(has_missing), dtype=np.int32)
    place[shared] = np.arange(len(shared))
    columns, width = [], len(shared)
    for _, keep in live:
        where = place[keep]
        count = int(has_missing[keep].sum())
        where[has_missing[keep]] = width + 3 * np.arange(count)
        width += 3 * count
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
    return Plan(live, shared, has_missing, arguments, layout, constant)


class Anchored:
    """Loops over the pairs of any rows with the same anchors Z (m, D), which are prepared once.

    The bits of a row do not depend on the rows beside it. A term that multiplies all its features has a loop of its own
    for rows and anchors without missing values, so rows whose values are missing in other terms are computed apart.
    Threads may share an object: what they add to it is never changed.
    """

    def __init__(self, terms: Terms, Z: Floats) -> None:
        self._terms, self._Z = terms, Z
        self._missing = np.isnan(Z).any(axis=0)
        self._used = [term.relevance > 0 for term in terms]
        self._prepared: dict[bytes, tuple[Plan, Floats] | None] = {}

    def block(self, X: Floats, n_threads: int | None) -> Floats:
        """Return K (n, m) between the rows of X (n, D) and the anchors."""

        def loop(X: Floats, plan: Plan, Z: Floats) -> Floats:
            return _block(plan, plan.columns_of(X), Z, n_threads)

        return self._by_missing(X, loop, lambda n: _constant_block(self._terms, n, len(self._Z)))

    def product(self, X: Floats, V: Floats, n_threads: int | None) -> Floats:
        """Return K(X, Z) V (n, q) for V (m, q), without forming K."""

        def loop(X: Floats, plan: Plan, Z: Floats) -> Floats:
            return _product(plan, plan.columns_of(X), Z, V, n_threads)

        return self._by_missing(X, loop, lambda n: _constant_product(self._terms, n, V))

    def _by_missing(
        self, X: Floats, loop: Callable[[Floats, Plan, Floats], Floats], constant: Callable[[int], Floats]
    ) -> Floats:
        """Return the results (n, ...) of a loop over rows, or the constant of a kernel without features."""
        missing = np.isnan(X)
        parts = self._parts(missing) if len(X) > 1 and missing.any() else [slice(None)]
        found = []
        for rows in parts:
            prepared = self._plan(np.logical_or(self._missing, missing[rows].any(axis=0)))
            some = X if len(parts) == 1 else X[rows]
            found.append(constant(len(some)) if prepared is None else loop(some, *prepared))
        if len(parts) == 1:
            return found[0]
        together = np.empty((len(X), found[0].shape[1]))
        for rows, values in zip(parts, found, strict=True):
            together[rows] = values
        return together

    def _parts(self, missing: NDArray[np.bool_]) -> list[Any]:
        """Return the places of rows whose values, or those of anchors, are missing in the same terms."""
        missing = missing | self._missing
        concerned = np.column_stack([missing[:, used].any(axis=1) for used in self._used])
        _, part = np.unique(concerned, axis=0, return_inverse=True)
        return [np.flatnonzero(part == number) for number in range(int(part.max()) + 1)]

    def _plan(self, has_missing: NDArray[np.bool_]) -> tuple[Plan, Floats] | None:
        """Return the plan and the columns of the anchors for rows with missing values in these features (D,)."""
        key = has_missing.tobytes()
        if key in self._prepared:
            return self._prepared[key]
        plan = make_plan(self._terms, has_missing)
        prepared = None if plan is None else (plan, plan.columns_of(self._Z))
        if len(self._prepared) < MOST_PREPARED:
            self._prepared[key] = prepared
        return prepared


def block(terms: Terms, X: Floats, Z: Floats | None, n_threads: int | None) -> Floats:
    """Return K (n, m) between the rows of X (n, D) and Z (m, D), or of X with itself."""
    if (call := core_call(terms, X, Z)) is None:
        return _constant_block(terms, len(X), len(X if Z is None else Z))
    return _block(call.plan, call.X, call.Z, n_threads)


def _block(plan: Plan, X: Floats, Z: Floats | None, n_threads: int | None) -> Floats:
    threads = plan.threads(n_threads, len(X), len(X if Z is None else Z))
    K = _core.block(X, Z, *plan.arguments, threads, **plan.layout)
    if plan.constant:
        K += plan.constant
    return K


def _constant_block(terms: Terms, n: int, m: int) -> Floats:
    return np.full((n, m), sum(float(term.order_weights[0]) for term in terms))


def block32(terms: Terms, X: Floats, Z: Floats | None, n_threads: int | None) -> NDArray[np.float32]:
    """Return K (n, m) in float32: ``block``, with an error below 4e-7 of the diagonal.

    The core computes float64 and rounds it where the kernel or the coordinates are beyond float32.
    """
    m = len(X if Z is None else Z)
    if (call := core_call(terms, X, Z)) is None:
        return _constant_block(terms, len(X), m).astype(np.float32)
    plan = call.plan
    K = _core.block32(call.X, call.Z, *plan.arguments, plan.threads(n_threads, len(X), m), **plan.layout)
    if plan.constant:
        K += np.float32(plan.constant)
    return K


def product(terms: Terms, X: Floats, Z: Floats, V: Any, n_threads: int | None) -> Floats:
    """Return K(X, Z) V, of the shape of V (m,) or (m, q), without forming K."""
    V = for_the_core(V)
    columns = V[:, None] if V.ndim == 1 else V
    if len(columns) != len(Z):
        raise ValueError(f"V has {len(columns)} rows, Z has {len(Z)}: give one row of V per row of Z")
    if (call := core_call(terms, X, Z)) is None:
        out = _constant_product(terms, len(X), columns)
    else:
        assert call.Z is not None
        out = _product(call.plan, call.X, call.Z, columns, n_threads)
    return out[:, 0] if V.ndim == 1 else out


def _product(plan: Plan, X: Floats, Z: Floats, V: Floats, n_threads: int | None) -> Floats:
    out = _core.product(X, Z, V, *plan.arguments, plan.threads(n_threads, len(X), len(Z)), **plan.layout)
    if plan.constant:
        out += plan.constant * V.sum(axis=0)
    return out


def _constant_product(terms: Terms, n: int, V: Floats) -> Floats:
    constant = sum(float(term.order_weights[0]) for term in terms)
    return np.broadcast_to(constant * V.sum(axis=0), (n, V.shape[1])).copy()


def gradient(
    terms: Terms, X: Floats, G: Any, Z: Floats | None, of_zeros: bool, n_threads: int | None
) -> tuple[KernelGradient, ...]:
    """Turn G = dL/dK (n, m) into derivatives of L by the parameters of every term."""
    G, call = for_the_core(G), core_call(terms, X, Z, of_zeros=of_zeros)
    found: list[tuple[Floats, ...]] = []
    if call is not None:
        plan = call.plan
        threads = plan.threads(n_threads, len(X), len(X if Z is None else Z))
        parts = _core.gradient(call.X, call.Z, G, *plan.arguments, threads, None, of_zeros, **plan.layout)
        ends = np.cumsum(plan.layout["terms"], axis=0)[:-1]
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


def _taken(table: Floats, features: Places) -> Floats:
    return table if len(features) == table.shape[1] else np.ascontiguousarray(table[:, features])


def _scattered(values: Floats, index: Places, length: int) -> Floats:
    """Return an array of zeros (length,) with `values` at the places `index`."""
    full = np.zeros(length)
    full[index] = values
    return full
