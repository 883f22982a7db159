"""Arguments and options that several commands share, and contradictions between options."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from salsa.cli.completion import complete_column
from salsa.cli.scores import LOSSES, SQUARED

SIGNS = {"+1": 1, "1": 1, "-1": -1}
SMOOTH = ("auto", "matern52", "gaussian")  # kernels whose slopes can be constrained
MONOTONE_ORDER = 2  # the highest order of terms with a monotone column


def option(
    metavar: str,
    help: str,
    complete: Callable[..., list[str]] | None = None,
    *,
    callback: Callable[..., Any] | None = None,
    min: float | None = None,
) -> Any:
    """Return an option: the name of its value and its text in the help, and the completion and check of its value."""
    return typer.Option(metavar=metavar, help=help, autocompletion=complete, callback=callback, min=min)


def check_readable(path: str | None) -> str | None:
    """Raise OSError if there is no such file, before slow imports and other files; - is standard input."""
    if path not in (None, "-"):
        os.stat(path)
    return path


def check_seconds(value: float | None) -> float | None:
    """Return a time limit in seconds, or None for no limit; raise BadParameter unless it is positive and finite."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"{value} is not a positive number of seconds, such as 120")
    return value


def check_roles(group: str | None, time: str | None, keep_time: bool) -> None:
    """Raise ValueError if rows have both groups and times, or if there is no column of times to keep."""
    if keep_time and time is None:
        raise ValueError("--keep-time needs --time COLUMN; without --time, columns of dates are features anyway")
    if group is not None and time is not None:
        why = "--group judges by new groups, --time by later rows of the same groups"
        raise ValueError(f"--group {group} and --time {time} exclude each other: {why}; choose what you will predict")


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
    if find_spec("clarabel") is None:
        raise ValueError("--monotone needs the package clarabel: pip install clarabel")


def listed(text: str) -> list[str]:
    """Return the words of a comma-separated list in small letters."""
    return [word.strip().lower() for word in text.split(",")]


def _argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, callback=check_readable, help=help)


Data = Annotated[str, _argument("DATA", "CSV or TSV file (or .gz), .parquet or .feather; - for CSV from a pipe.")]
SomeData = Annotated[str | None, _argument("DATA", "Table of rows to explain, as for salsa predict.")]
Model = Annotated[str, _argument("MODEL", "Model file that salsa fit wrote.")]
Target = Annotated[str, option("COLUMN", "Column to predict.", complete_column)]
Drop = Annotated[list[str] | None, option("COLUMN", "Column to ignore; may be repeated.", complete_column)]
Category = Annotated[
    list[str] | None,
    option("COLUMN", "Column to take as categories, even if it holds numbers; may be repeated.", complete_column),
]
Group = Annotated[
    str | None,
    option(
        "COLUMN",
        "Column with the group of every row, such as a person: groups are held out whole. It is no feature.",
        complete_column,
    ),
]
Time = Annotated[
    str | None,
    option(
        "COLUMN",
        "Column with the time of every row, numbers or ISO dates: later rows judge. It is no feature: a trend that no "
        "other column explains is not followed, and counts as error. See --keep-time.",
        complete_column,
    ),
]
KeepTime = Annotated[
    bool,
    typer.Option(
        "--keep-time",
        help="Keep the column of --time as a feature: dates have seasons, days of the week and hours, which come back.",
    ),
]
Log = Annotated[
    bool,
    typer.Option("--log", help="Learn the logarithm of the target; predictions and intervals stay in its own units."),
]
Classes = Annotated[
    bool, typer.Option("--classes", help="Take a target of numbers as classes; text and booleans always are.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
