"""Roles of the columns of a training table: target, weights, groups, times, and everything else, which are features."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    import pandas as pd

    from salsa._utils.arrays import Places
    from salsa.data.forward_folds import ForwardFolds


class Roles(NamedTuple):
    """Roles of the columns; columns without a role are features."""

    target: str
    weights: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()
    group: str | None = None
    time: str | None = None
    keep_time: bool = False  # the column of times is a feature, too
    log: bool = False  # the logarithm of the target is learned
    loss: str = "squared_error"
    classes: bool = False  # the target is taken as classes, also if it holds numbers
    monotone: Sequence[str] = ()

    @property
    def special(self) -> list[str]:
        """Columns that are no features, though they are used."""
        time = None if self.keep_time else self.time
        return [name for name in (self.target, self.weights, self.group, time) if name is not None]

    @property
    def described(self) -> dict[str, str]:
        """The roles of columns that are no plain features, by name."""
        roles = {self.target: "target", self.weights: "weights", self.group: "group"}
        roles |= {} if self.keep_time else {self.time: "time"}
        given = dict.fromkeys(self.drop, "as --drop says")
        return given | {name: role for name, role in roles.items() if name is not None}

    @property
    def of_numbers(self) -> str | None:
        """An option, such as --log, that needs a target of numbers; None if there is none."""
        loss = None if self.loss == "squared_error" else f"--loss {self.loss}"
        return "--log" if self.log else loss or ("--monotone" if self.monotone else None)


class Times(NamedTuple):
    """The column that rows were sorted by: its first and last value as text, and a number per row that ascends."""

    column: str
    first: str
    last: str
    stamps: "Places"

    def folds(self, count: int) -> "ForwardFolds":
        """Return splits that judge later rows by earlier ones; rows of one time are never cut."""
        from salsa.data.forward_folds import ForwardFolds

        try:
            return ForwardFolds(self.stamps, count)
        except ValueError as error:
            raise ValueError(f"--time {self.column}: {error}") from None


def feature_names(table: "pd.DataFrame", roles: Roles, data: str) -> list[str]:
    """Return the columns without a role; raise ValueError on two roles of a column."""
    from salsa.cli.tables.checking import require_columns

    require_columns(table, [*roles.special, *roles.drop, *roles.category, *roles.monotone], data)
    counts = Counter([*roles.special, *set(roles.drop), *set(roles.category)])
    if clash := [name for name, count in counts.items() if count > 1]:
        advice = "target, weights, groups, time, dropped columns and categories must differ"
        raise ValueError(f"column {clash[0]!r} has two roles: {advice}")
    names = [name for name in table.columns if name not in {*roles.special, *roles.drop}]
    if odd := [name for name in roles.monotone if name not in names]:
        raise ValueError(f"--monotone {odd[0]}: this column is no feature; leave --monotone out for it")
    return names
