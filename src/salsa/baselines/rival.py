"""A row of the tables of rivals."""

from __future__ import annotations

from dataclasses import dataclass

from salsa.baselines.makers import Maker
from salsa.baselines.tuning import Grid


@dataclass(frozen=True)
class Rival:
    """A row of a table of rivals."""

    name: str
    title: str
    make: Maker  # returns an estimator that is not tuned, or tunes itself
    grid: Grid | None = None  # candidates for cross-validation; None: the method tunes itself
    package: str = ""  # additional package that the method needs
    in_paper: str = ""  # its name in Table 1 of the paper, if it is listed there
    note: str = ""
    ours: bool = False
