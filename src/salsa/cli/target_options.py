"""Options of salsa fit about the target and the shape of curves; contradictions are found before a table is read."""

from collections.abc import Sequence
from typing import Any

from salsa.cli.scores import LOSSES, SQUARED

SIGNS = {"+1": 1, "1": 1, "-1": -1}
SMOOTH = ("auto", "matern52", "gaussian")  # kernels whose slopes can be constrained
MONOTONE_ORDER = 2  # the highest order of terms with a monotone column


def check_loss(loss: str, quantile: float | None, log: bool, classes: bool) -> None:
    """Raise ValueError if the options about the target are invalid or contradict each other."""
    if loss not in LOSSES:
        raise ValueError(f"--loss {loss}: give one of {', '.join(LOSSES)}")
    if loss == "quantile" and quantile is None:
        raise ValueError("--loss quantile needs the quantile to predict: give --quantile 0.9, for example")
    if quantile is not None and loss != "quantile":
        raise ValueError(f"--quantile {quantile:g} needs --loss quantile: give both, or leave --quantile out")
    if quantile is not None and not 0 < quantile < 1:
        raise ValueError(f"--quantile {quantile:g}: give a number between 0 and 1, such as 0.9")
    if log and loss != SQUARED:
        raise ValueError(f"--log and --loss {loss} exclude each other: leave one of them out")
    if classes and (log or loss != SQUARED):
        given = "--log" if log else f"--loss {loss}"
        raise ValueError(f"--classes and {given} exclude each other: {given} is for numbers; leave one of them out")


def monotone_signs(given: Sequence[str]) -> dict[str, int]:
    """Parse the signs of monotone columns: ["area=+1", "age=-1"] -> {"area": 1, "age": -1}."""
    signs: dict[str, int] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise ValueError(f"--monotone {text}: give a column and a sign, such as --monotone area=+1")
        if value.strip() not in SIGNS:
            problem = f"--monotone {text}: {value.strip() or 'nothing'} is no sign"
            raise ValueError(f"{problem}; give +1 (predictions increase) or -1 (they decrease)")
        sign = SIGNS[value.strip()]
        if signs.setdefault(name, sign) != sign:
            raise ValueError(f"--monotone {text}: column {name!r} was given the other sign, too; give one of them")
    return signs


def check_monotone(signs: dict[str, int], loss: str, classes: bool, interact: Any, kernel: str, order: Any) -> None:
    """Raise ValueError if there are monotone columns and an option that has no monotone fit."""
    if not signs:
        return
    if classes or loss != SQUARED:
        given = "--classes" if classes else f"--loss {loss}"
        raise ValueError(f"--monotone and {given} exclude each other: leave one of them out")
    if isinstance(interact, list):
        advice = "give --interact pairwise or no_interactions, or leave one of them out"
        raise ValueError(f"--monotone has no fit within sets of columns (--interact): {advice}")
    if kernel not in SMOOTH:
        raise ValueError(f"--kernel {kernel} has no slope to constrain: with --monotone, give {', '.join(SMOOTH)}")
    orders = order if isinstance(order, list) else [order]
    if too_high := [d for d in orders if not isinstance(d, str) and d > MONOTONE_ORDER]:
        problem = f"--order {too_high[0]}: terms with a monotone column have at most order {MONOTONE_ORDER}"
        raise ValueError(f"{problem}; give 1, 2 or auto, which adds products of the other columns")
    from importlib.util import find_spec

    if find_spec("clarabel") is None:
        raise ValueError("--monotone needs the package clarabel: pip install 'salsa-learn[constraints]'")
