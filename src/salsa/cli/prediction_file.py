"""Reading of the features of a fitted model from a table in a file."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from salsa._utils.arrays import Floats
    from salsa.cli.tables.checking import Tally, Unseen
    from salsa.cli.tables.dialect import FileFacts
    from salsa.data.training_range import Beyond
    from salsa.regressor import SalsaRegressor

NO_TARGET = ": {} without a value of {!r} left out of errors and of the report"
WORDS = " has words that count as missing values: {}"
UNSEEN = " has values not seen in training, which count as missing: {}"


def model_features(
    model: "SalsaRegressor", data: str, most: int | None, keep: Sequence[str] = ()
) -> Iterator[tuple["Floats", "pd.DataFrame"]]:
    """Yield the encoded features of the model and the columns to keep, in chunks of at most `most` rows (None: one).

    After the last chunk, lines on standard error count categories not seen in training, words that count as missing
    numbers, rows far outside the training range, and rows that are too short.
    """
    from salsa.cli.tables.checking import Unseen, require_columns
    from salsa.cli.tables.dialect import FileFacts
    from salsa.cli.tables.reading import read_chunks
    from salsa.data.training_range import Beyond

    unseen, beyond, facts, may_be_short = Unseen(), Beyond(model), FileFacts(), False
    names = list(getattr(model, "feature_names_in_", ()))
    wanted = dict.fromkeys([*names, *keep]) if names else ()
    others = [name for name in keep if name not in names]
    for table in read_chunks(data, most, text_columns(model, keep), wanted, exact=others, facts=facts):
        may_be_short = may_be_short or bool(table.iloc[:, -1].isna().any())
        require_columns(table, keep, data)
        table, kept = table if names else table.drop(columns=list(keep)), table[list(keep)]
        rows = model.columns_.encode(features_of(model, table, data, unseen))
        beyond.add(rows)
        yield rows, kept
    tell(unseen, UNSEEN, data)
    tell(unseen.words, WORDS, data)
    tell(beyond, ": {}", data)
    _tell_doubts(data, facts, may_be_short)


def _tell_doubts(data: str, facts: "FileFacts", may_be_short: bool) -> None:
    """Print what may have been read wrongly; a pipe cannot be read again to count short rows."""
    from salsa.cli.tables.reading import STDIN, count_short, title

    if may_be_short and data != STDIN:
        count_short(data, facts)
    for doubt in facts.doubts:
        print(f"salsa: {title(data)}: {doubt}", file=sys.stderr)


def text_columns(model: "SalsaRegressor", keep: Sequence[str] = ()) -> list[str] | type[str]:
    """Return the columns to read as text; str (all columns) if columns have no names.

    These are categories, dates, kept columns, and numbers that the training file did not write plainly.
    """
    from salsa.data.date_parts import TREND
    from salsa.fitted import fitted_of

    columns = model.columns_
    categories = [name for name, levels in zip(columns.names, columns.levels, strict=True) if levels is not None]
    dates = [part.column for part in columns.parts if part is not None and part.name == TREND]
    return (
        [*categories, *dates, *(fitted_of(model).formats or ()), *keep]
        if hasattr(model, "feature_names_in_") or not (categories or dates)
        else str
    )


def features_of(model: "SalsaRegressor", table: "pd.DataFrame", data: str, unseen: "Unseen") -> Any:
    """Return the features of the model in a table: by name, or by position if the model was fitted without names."""
    from salsa.cli.tables.checking import known_features, require_columns
    from salsa.cli.tables.reading import title
    from salsa.fitted import fitted_of

    columns, formats = model.columns_, fitted_of(model).formats or {}
    levels, parts = ([of[j] for j in columns.first] for of in (columns.levels, columns.all_parts))
    held = [any(model.relevance_[columns.source == place]) for place in range(len(levels))]
    names = getattr(model, "feature_names_in_", table.columns).tolist()
    timed = {name: part for name, part in zip(names, parts, strict=False) if part is not None}
    if hasattr(model, "feature_names_in_"):
        unused = [name for name, used in zip(names, held, strict=True) if not used and name not in table]
        require_columns(table, [name for name in names if name not in unused], data)
        table = table.assign(**dict.fromkeys(unused))  # missing
        return known_features(table, dict(zip(names, levels, strict=True)), formats, data, unseen, timed)
    if table.shape[1] != model.n_features_in_:
        needed = f"the model was fitted without names and needs exactly its {model.n_features_in_} columns in order"
        raise ValueError(f"{title(data)} has {table.shape[1]} columns; {needed}")
    return known_features(table, dict(zip(names, levels, strict=True)), formats, data, unseen, timed).to_numpy()


def tell(found: "Tally | Beyond", words: str, data: str) -> None:
    """Print a line on standard error about values found in a table, if there are any."""
    from salsa.cli.tables.reading import title

    if text := str(found):
        print(f"salsa: {title(data)}{words.format(text)}", file=sys.stderr)


class FeatureTable(NamedTuple):
    """The features of a model in all rows of a table, their groups, and the target of the rows that have one."""

    X: Any
    y: Any = None  # None: no target was asked for
    groups: Any = None  # None: no column of groups was named
    observed: Any = None  # (n,) whether a row has a target; None: no target was asked for

    @property
    def scored(self) -> tuple[Any, Any, Any]:
        """Features, target and groups of the rows that have a target; of all rows if no target was asked for."""
        if self.observed is None:
            return self.X, self.y, self.groups
        return self.X[self.observed], self.y, None if self.groups is None else self.groups[self.observed]


def read_features(
    model: "SalsaRegressor", data: str, target: str | None, group: str | None = None, row: int | None = None
) -> FeatureTable:
    """Return the features of the model in a whole table, with the target and the groups that are asked for.

    Rows without a target are counted on standard error. With a row, counted from 1, the features are of this row alone,
    and so is what is told of its values.
    """
    from salsa.cli.tables.checking import Unseen, known_numbers, require_columns, target_of
    from salsa.cli.tables.dialect import FileFacts
    from salsa.cli.tables.labels import group_labels
    from salsa.cli.tables.reading import read_table, title
    from salsa.cli.tables.target_column import known_labels
    from salsa.fitted import fitted_of

    facts, unseen, y, groups, observed = FileFacts(), Unseen(), None, None, None
    _check_group(model, target, group)
    table = read_table(data, text_columns(model, [] if group is None else [group]), facts)
    _tell_doubts(data, facts, bool(table.iloc[:, -1].isna().any()))
    if group is not None:
        require_columns(table, [group], data)
        groups = group_labels(table[group], data)
        table = table.drop(columns=group)
    if target is not None:
        require_columns(table, [target], data)
        classes, formats = fitted_of(model).classes, fitted_of(model).formats or {}
        if classes is None and target in formats:
            table[target] = known_numbers(table[target], formats[target], data, unseen.words)
        observed = table[target].notna().to_numpy()
        if (count := int((~observed).sum())) and observed.any():
            rows = f"{count} row{'' if count == 1 else 's'}"
            print(f"salsa: {title(data)}{NO_TARGET.format(rows, target)}", file=sys.stderr)
        known = table[observed] if observed.any() else table
        y = target_of(known, target, data) if classes is None else known_labels(known[target], data, classes)
        table = table.drop(columns=target)
    if row is not None:
        if not 1 <= row <= len(table):
            raise no_such_row(row, data, len(table))
        table = table[row - 1 : row]
    X = features_of(model, table, data, unseen)
    tell(unseen, UNSEEN, data)
    tell(unseen.words, WORDS, data)
    return FeatureTable(X, y, groups, observed)


def no_such_row(row: int, data: str, rows: int) -> ValueError:
    """Return the error for a row that a table does not have."""
    from salsa.cli.tables.reading import title

    return ValueError(f"--row {row}: {title(data)} has rows 1 to {rows}")


def _check_group(model: "SalsaRegressor", target: str | None, group: str | None) -> None:
    """Raise ValueError if the column of groups is the target, or a feature of the model."""
    if group is None:
        return
    if group == target:
        raise ValueError(f"--group {group}: this column is the target; name the column of groups")
    if group in getattr(model, "feature_names_in_", ()):
        advice = "fit the model with --group, or leave --group out"
        raise ValueError(f"--group {group}: this column is a feature of the model, which groups are not; {advice}")
