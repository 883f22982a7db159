"""The description of a saved model, for ``salsa info``: read without SciPy, pandas and scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from salsa._utils.arrays import Floats
from salsa.persistence.archive import entry
from salsa.persistence.function_state import function_from

_NUMBER = {int, float}


def description_of(header: dict[str, Any], arrays: Mapping[str, Floats]) -> Any:
    """Return the parameters and attributes of an estimator that describe it, under the estimator's names.

    The result is None for classifiers, whose scores need their held-out rows, for files of earlier versions, and for
    models with parameters that a file cannot hold, of which the estimator tells.
    """
    if "classes" in header or header.get("lost") != []:
        return None
    function, search = function_from(header, arrays), _search_from(header["search"])
    kernel = function.expansion.kernel
    return SimpleNamespace(
        **entry(header, "parameters", {dict}),
        columns_=function.columns,
        expansion_=function.expansion,
        order_=search.order,
        alpha_=search.alpha,
        relevance_=kernel.relevance,
        bandwidth_=kernel.bandwidth,
        search_=search,
    )


def _search_from(state: Any) -> SimpleNamespace:
    """Return what was chosen, and the errors of the orders that were tried."""
    rows = entry(state, "results", [({int}, [_NUMBER], [_NUMBER], *5 * [_NUMBER])])
    results = [
        SimpleNamespace(order=order, path=SimpleNamespace(alpha=alpha, error=error, standard_error=standard_error))
        for order, _, _, alpha, error, standard_error, *_ in rows
    ]
    return SimpleNamespace(
        order=entry(state, "order", {int}),
        alpha=entry(state, "alpha", _NUMBER),
        notes=tuple(entry(state, "notes", [{str}])),
        rho=entry(state, "rho", _NUMBER),
        results=results,
    )
