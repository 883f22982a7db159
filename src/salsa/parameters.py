"""Constructor parameters in the words of users, turned into what the method needs; errors say what would be right."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa import _core
from salsa.guard import race_structures
from salsa.kernels import Floats, largest_order, rule_of_thumb_bandwidth
from salsa.learning import Structure
from salsa.selection import OrderRule, bisecting, given, increasing

PATIENCE = 3  # orders without improvement before the search stops, as in the authors' program
ALPHA_LIMIT = 1e100  # far beyond where nothing but the mean is left
WORTHWHILE = 0.1  # standard errors that count as an improvement: small steps within the noise should end the search


def order_rule(order: Any, D: int) -> OrderRule:
    """How the orders 1..D are tried."""
    if is_text(order, "auto"):
        return increasing(range(1, largest_order(D) + 1), PATIENCE, WORTHWHILE)
    return bisecting(largest_order(D)) if is_text(order, "bisect") else given(_orders(order, D))


def single_order(order: Any, D: int) -> int | None:
    """The order where exactly one was given."""
    orders = [] if isinstance(order, str) else _orders(order, D)
    return orders[0] if len(orders) == 1 else None


def alpha_candidates(alpha: Any) -> list[float] | None:
    """Candidates for alpha; None: to be searched."""
    if is_text(alpha, "auto"):
        return None
    candidates = _sequence("alpha", alpha, '"auto", a number or a sequence of numbers')
    for value in candidates:
        if not _is_real(value) or not 0 <= value <= ALPHA_LIMIT:
            raise ValueError(f"alpha={value!r}: a penalty is finite, not negative and at most {ALPHA_LIMIT:.0e}")
    return [float(value) for value in candidates]


def bandwidths(bandwidth: Any, X: Floats, weight: Floats | None, total: float | None = None) -> Floats:
    """h_j (D,); total: the weight of all rows where X is a sample."""
    if is_text(bandwidth, "auto") or is_text(bandwidth, "rule_of_thumb"):
        return rule_of_thumb_bandwidth(X, sample_weight=weight, total=total)
    if not _is_real(bandwidth):
        return per_feature("bandwidth", bandwidth, X.shape[1], '"auto", "rule_of_thumb", a positive number c')
    if not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth={bandwidth!r}: c must be positive and finite")
    return rule_of_thumb_bandwidth(X, float(bandwidth), sample_weight=weight, total=total)


def relevances(relevance: Any, D: int) -> Floats:
    """a_j (D,); equal where they are to be learned."""
    if is_text(relevance, "equal") or is_text(relevance, "learned"):
        return np.ones(D)
    return per_feature("relevance", relevance, D, '"learned", "equal"')


def structures(order: Any, interactions: str, D: int, varying: int) -> list[Structure]:
    """Which orders the learned kernels have: those given, or those of the race; at most as many as features vary."""
    if isinstance(order, str):
        return [s for s in race_structures(varying, interactions) if s.highest <= largest_order(D)]
    orders = [min(d, varying) for d in _orders(order, D)]
    return [Structure(1 if interactions == "up_to" else d, d) for d in dict.fromkeys(orders)]


def probability(name: str, value: Any) -> None:
    if not _is_real(value) or not 0 < value < 1:
        raise ValueError(f"{name}={value!r}: a probability is a number between 0 and 1")


def threads(n_jobs: Any) -> int | None:
    """n_jobs as scikit-learn counts: -1 all, -2 all but one; None leaves it to the size of the problem."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} must be None or an integer other than 0; -1 means all threads")
    count = int(n_jobs)
    return count if count > 0 else max(1, _core.max_threads() + 1 + count)


def rank(rank: Any, solver: str) -> None:
    if rank is None:
        return
    if isinstance(rank, bool) or not isinstance(rank, numbers.Integral) or rank < 1:
        raise ValueError(f"rank={rank!r} must be None or a positive integer, the most anchors of a low-rank fit")
    if solver == "exact":
        raise ValueError(f"rank={rank!r}: the exact solver has no rank to choose; leave it at None")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def per_feature(name: str, values: Any, D: int, choices: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.shape != (D,):
        raise ValueError(f"{name}={values!r} must be {choices} or an array of {D} numbers, one per feature")
    return array


def is_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def _orders(order: Any, D: int) -> list[int]:
    candidates = _sequence("order", order, '"auto", "bisect", an int or a sequence of ints')
    for d in candidates:
        if isinstance(d, bool) or not isinstance(d, numbers.Integral) or not 1 <= int(d) <= D:
            raise ValueError(f"order={d!r}: an order is an integer from 1 to {D}, the number of features")
    return [int(d) for d in candidates]


def _sequence(name: str, value: Any, choices: str) -> list[Any]:
    if isinstance(value, numbers.Number):
        return [value]
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) == 0:
        raise ValueError(f"{name}={value!r} must be {choices}")
    return list(value)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
