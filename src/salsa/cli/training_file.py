"""Training tables: the roles of their columns, and tables that fit into memory."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    import pandas as pd

    from salsa.regressor import SalsaRegressor


class Roles(NamedTuple):
    """Roles of the columns; columns without a role are features."""

    target: str
    weights: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()

    @property
    def special(self) -> list[str]:
        return [self.target] if self.weights is None else [self.target, self.weights]


class Training(Protocol):
    """A training table whose columns have roles."""

    @property
    def rows(self) -> int: ...

    @property
    def features(self) -> list[str]: ...

    @property
    def missing(self) -> float:
        """Share of missing values among the values of the features."""

    @property
    def notes(self) -> list[str]:
        """Notes on columns that were left out or need attention."""

    def fit(self, model: "SalsaRegressor", say: Callable[[str], None]) -> None: ...

    def shown(self, model: "SalsaRegressor") -> tuple["pd.DataFrame", "pd.Series[float]"]:
        """Return rows and targets for a report to look at."""


class WholeTable(NamedTuple):
    """A training table in memory."""

    X: "pd.DataFrame"
    y: "pd.Series[float]"
    weight: "pd.Series[float] | None"
    notes: list[str]

    @property
    def rows(self) -> int:
        return len(self.X)

    @property
    def features(self) -> list[str]:
        return list(self.X.columns)

    @property
    def missing(self) -> float:
        return float(self.X.isna().to_numpy().mean())

    def fit(self, model: "SalsaRegressor", say: Callable[[str], None]) -> None:
        model.fit(self.X, self.y, self.weight)

    def shown(self, model: "SalsaRegressor") -> tuple["pd.DataFrame", "pd.Series[float]"]:
        return self.X, self.y


def whole_table(data: str, roles: Roles) -> WholeTable:
    """Read and check a table; raise ValueError if it cannot be used."""
    from salsa.cli.tables.checking import features, numeric, target_of
    from salsa.cli.tables.reading import columns_with_leading_zeros, read_table

    codes = columns_with_leading_zeros(data)
    table = read_table(data, [name for name in codes if name in roles.category])
    names = feature_names(table, roles, data)
    names, notes = with_values(names, [name for name in names if table[name].isna().all()], roles, data)
    y = target_of(table, roles.target, data)
    weight = None if roles.weights is None else numeric(table, roles.weights, data)
    X = features(table, names, roles.category, data)
    return WholeTable(X, y, weight, [*notes, *code_notes(codes, set(map(str, X.select_dtypes("number"))))])


def feature_names(table: "pd.DataFrame", roles: Roles, data: str) -> list[str]:
    """Return the columns without a role; raise ValueError on columns without a name."""
    from salsa.cli.tables.checking import require_columns
    from salsa.cli.tables.reading import title

    require_columns(table, [*roles.special, *roles.drop, *roles.category], data)
    _check_roles(roles.special, set(roles.drop), set(roles.category))
    names = [name for name in table.columns if name not in {*roles.special, *roles.drop}]
    if nameless := [name for name in names if re.fullmatch(r"Unnamed: \d+", name)]:
        advice = f"maybe an index saved with the table; --drop {nameless[0]!r} leaves it out"
        raise ValueError(f"{title(data)} has a column without a name ({advice})")
    return names


def with_values(names: list[str], empty: Collection[str], roles: Roles, data: str) -> tuple[list[str], list[str]]:
    """Return the features that have values, and notes on empty features."""
    from salsa.cli.tables.reading import title

    if len(empty) == len(names):
        ignored = " (columns without values are ignored)" if empty else ""
        raise ValueError(f"{title(data)} has no column left to predict {roles.target!r} from{ignored}")
    notes = [f"column {name!r} has no values and is ignored" for name in empty]
    return [name for name in names if name not in empty], notes


def code_notes(codes: Collection[str], numbers: Collection[str]) -> list[str]:
    """Return notes on columns of numbers with leading zeros."""
    advice = "has leading zeros, like a code; if it is a code, take it as categories: --category {0!r}"
    return [f"column {name!r} {advice.format(name)}" for name in codes if name in numbers]


def _check_roles(*roles: Collection[str]) -> None:
    """Raise ValueError if a column has two roles."""
    counts = Counter(name for role in roles for name in role)
    if clash := [name for name, count in counts.items() if count > 1]:
        advice = "target, weights, dropped columns and categories must differ"
        raise ValueError(f"column {clash[0]!r} has two roles: {advice}")
