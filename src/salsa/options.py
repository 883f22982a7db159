"""Parsing of constructor parameters, once per fit; no other module reads the users' strings."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.memory import memory_limit_bytes
from salsa._utils.threads import parse_threads
from salsa.data.interaction_sets import Allowed, parse_allowed
from salsa.data.splits import parse_cv
from salsa.data.transforms import TRANSFORMS
from salsa.kernels.base import NUMERIC_BASES
from salsa.solvers import SOLVERS
from salsa.solvers.need import DIRECT_RANK
from salsa.solvers.slopes import SMOOTH_BASES
from salsa.solvers.tiles import TileHolder

ALPHA_LIMIT = 1e100  # far beyond the alphas that predict only the mean
LOSSES = ("squared_error", "huber", "quantile", "poisson", "gamma")
RULE_OF_THUMB = 20.0  # the paper's c in h_j = c sd_j n^(-1/5)
MONOTONE_ORDER = 2  # the highest order of terms with a monotone feature
MONOTONE_SOLVERS = ("auto", "exact", "lowrank")


class OrderChoice(NamedTuple):
    """Candidates of the interaction order; without candidates the order is searched, by halving if `bisect`."""

    candidates: tuple[int, ...] = ()
    bisect: bool = False


class KernelChoice(NamedTuple):
    """The kernels that may be tried."""

    learned: bool  # relevances are learned, and kept unless equal ones are clearly better
    relevance: Floats | None  # (D,) if given
    up_to: bool  # all orders 1..d, or only d
    base: str | None  # None: smooth and rough terms
    factor: float  # c in h_j = c sd_j n^(-1/5), where bandwidths are neither learned nor given
    bandwidth: Floats | None  # (D,) if given
    learned_bandwidth: bool
    allowed: Allowed = Allowed()  # the interactions that the function may have


class Resources(NamedTuple):
    """The threads (None: by the size of the problem) and the memory, as given by the user, that a fit may use."""

    threads: int | None
    memory_limit: float | str | None
    cluster: TileHolder | None = None  # holds kernel matrices in the place of this process


class LossChoice(NamedTuple):
    """The loss that is minimised, by name, and the level of its quantile."""

    name: str
    quantile: float | None
    squared: bool  # the squared error, for which there are closed forms


@dataclass(frozen=True, eq=False)
class Options:
    """All choices of a fit."""

    order: OrderChoice
    alphas: tuple[float, ...] | None  # None: alpha is searched
    kernel: KernelChoice
    solver: str | None  # None: by the number of rows
    rank: int | None
    cv: Any  # a number of folds, or what scikit-learn's check_cv takes
    categorical_features: Any
    random_state: Any
    resources: Resources
    transform: str | None  # the scale of the target on which the model is learned
    loss: LossChoice
    monotonic_cst: Any  # as given: by column name or position
    sign: Places | None = None  # (D,) 1, -1 or 0 per feature, once the columns are known; None: no constraint


def parse_options(params: Mapping[str, Any]) -> Options:
    """Parse the parameters of an estimator; raise ValueError with the wrong value and the valid choices."""
    one_of("interactions", params["interactions"], ("up_to", "exact"))
    one_of("kernel", params["kernel"], ("auto", *NUMERIC_BASES))
    one_of("solver", params["solver"], ("auto", *SOLVERS))
    if params.get("target_transform") is not None:
        one_of("target_transform", params["target_transform"], tuple(TRANSFORMS))
    relevance = _relevance(params["relevance"])
    factor, bandwidth = _bandwidth(params["bandwidth"])
    if params.get("monotonic_cst") is not None:
        _check_monotone(params)
    kernel = KernelChoice(
        learned=is_text(params["relevance"], "learned"),
        relevance=relevance,
        up_to=params["interactions"] == "up_to",
        base=None if params["kernel"] == "auto" else params["kernel"],
        factor=factor,
        bandwidth=bandwidth,
        learned_bandwidth=is_text(params["bandwidth"], "auto"),
        allowed=Allowed() if params["interaction_cst"] is None else parse_allowed(params["interaction_cst"]),
    )
    order = _order(params["order"])
    _check_highest(order, kernel.allowed.highest, params["interaction_cst"])
    return Options(
        order,
        _alphas(params["alpha"]),
        kernel,
        None if params["solver"] == "auto" else params["solver"],
        _rank(params["rank"], params["solver"]),
        parse_cv(params["cv"]),
        params["categorical_features"],
        params["random_state"],
        parse_resources(params["n_jobs"], params["memory_limit"]),
        params.get("target_transform"),
        _loss(params),
        params.get("monotonic_cst"),
    )


def _loss(params: Mapping[str, Any]) -> LossChoice:
    """Parse loss, quantile and what goes with them; a classifier has the loss "log_loss" and no such parameters."""
    name, level = params.get("loss", "log_loss"), params.get("quantile")
    if "loss" in params:
        one_of("loss", name, LOSSES)
    if name == "quantile":
        if level is None:
            raise ValueError("loss='quantile' needs the quantile to predict: give quantile=0.9, for example")
        check_probability("quantile", level)
    elif level is not None:
        raise ValueError(f"quantile={level!r} has no meaning with loss={name!r}: give loss='quantile', or leave it out")
    if name != "squared_error" and params.get("target_transform") is not None:
        transform = f"target_transform={params['target_transform']!r}"
        raise ValueError(f"{transform} goes with loss='squared_error' only, not with loss={name!r}: choose one of both")
    if name != "squared_error" and params["solver"] in ("features", "divide"):
        solver = f"solver={params['solver']!r} fits squared errors only, not loss={name!r}"
        raise ValueError(f"{solver}: give 'auto', 'exact', 'pcg' or 'lowrank'")
    return LossChoice(name, None if level is None else float(level), name == "squared_error")


def parse_resources(n_jobs: Any, memory_limit: Any) -> Resources:
    """Parse n_jobs and memory_limit, which predictions use, too."""
    memory_limit_bytes(memory_limit)
    return Resources(parse_threads(n_jobs), memory_limit)


def check_probability(name: str, value: Any) -> None:
    if not _is_real(value) or not 0 < value < 1:
        raise ValueError(f"{name}={value!r}: a probability is a number between 0 and 1")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


def _order(order: Any) -> OrderChoice:
    if is_text(order, "auto") or is_text(order, "bisect"):
        return OrderChoice(bisect=order == "bisect")
    candidates = _sequence("order", order, '"auto", "bisect", an int or a sequence of ints')
    for d in candidates:
        if isinstance(d, bool) or not isinstance(d, numbers.Integral) or d < 1:
            raise ValueError(f"order={d!r}: an order is an integer from 1 to the number of features")
    return OrderChoice(tuple(int(d) for d in candidates))


def _check_highest(order: OrderChoice, highest: int | None, word: Any) -> None:
    """Refuse given orders above the largest order that a word such as "pairwise" allows."""
    if highest is not None and (above := [d for d in order.candidates if d > highest]):
        advice = f"give an order of at most {highest}, or interaction_cst=None"
        raise ValueError(f"order={above[0]} contradicts interaction_cst={word!r}: {advice}")


def _alphas(alpha: Any) -> tuple[float, ...] | None:
    if is_text(alpha, "auto"):
        return None
    candidates = _sequence("alpha", alpha, '"auto", a number or a sequence of numbers')
    for value in candidates:
        if not _is_real(value) or not 0 <= value <= ALPHA_LIMIT:
            raise ValueError(f"alpha={value!r}: a penalty is finite, not negative and at most {ALPHA_LIMIT:.0e}")
    return tuple(float(value) for value in candidates)


def _relevance(relevance: Any) -> Floats | None:
    if is_text(relevance, "equal") or is_text(relevance, "learned"):
        return None
    return per_feature("relevance", relevance, '"learned", "equal"')


def _bandwidth(bandwidth: Any) -> tuple[float, Floats | None]:
    """Return the factor c of the rule of thumb, and the bandwidths if they are given."""
    if is_text(bandwidth, "auto") or is_text(bandwidth, "rule_of_thumb"):
        return RULE_OF_THUMB, None
    if not _is_real(bandwidth):
        return RULE_OF_THUMB, per_feature("bandwidth", bandwidth, '"auto", "rule_of_thumb", a positive number c')
    if not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth={bandwidth!r}: c must be positive and finite")
    return float(bandwidth), None


def per_feature(name: str, values: Any, choices: str, D: int | None = None) -> Floats:
    """Return an array of one number per feature; raise ValueError with all valid choices."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != 1 or (D is not None and len(array) != D):
        numbers_ = "numbers" if D is None else f"{D} numbers"
        raise ValueError(f"{name}={values!r} must be {choices} or an array of {numbers_}, one per feature")
    return array


def _check_monotone(params: Mapping[str, Any]) -> None:
    """Refuse parameters that contradict monotone features."""
    if params["kernel"] not in ("auto", *SMOOTH_BASES):
        smooth = " or ".join(map(repr, SMOOTH_BASES))
        raise ValueError(f"kernel={params['kernel']!r} has no slope to constrain: with monotonic_cst give {smooth}")
    if params["solver"] not in MONOTONE_SOLVERS:
        solvers = ", ".join(map(repr, MONOTONE_SOLVERS))
        raise ValueError(f"solver={params['solver']!r} has no monotone fit: with monotonic_cst give {solvers}")
    for d in _order(params["order"]).candidates:
        if d > MONOTONE_ORDER:
            reason = f"with monotonic_cst, terms have at most order {MONOTONE_ORDER}"
            raise ValueError(f"order={d!r}: {reason}; give 1, 2 or 'auto', which adds products of the other features")
    rank = _rank(params["rank"], params["solver"])
    if rank is not None and rank > DIRECT_RANK:
        raise ValueError(f"rank={rank}: with monotonic_cst, a fit has at most {DIRECT_RANK} anchors")


def _rank(rank: Any, solver: str) -> int | None:
    if rank is None:
        return None
    if isinstance(rank, bool) or not isinstance(rank, numbers.Integral) or rank < 1:
        raise ValueError(f"rank={rank!r} must be None or a positive integer, the most anchors of a low-rank fit")
    if solver == "exact":
        raise ValueError(f"rank={rank!r}: the exact solver has no rank to choose; leave it at None")
    return int(rank)


def _sequence(name: str, value: Any, choices: str) -> list[Any]:
    if isinstance(value, numbers.Number):
        return [value]
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) == 0:
        raise ValueError(f"{name}={value!r} must be {choices}")
    return list(value)


def is_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
