"""Training tables: tables in memory, and large tables that are read in chunks."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from salsa.cli.roles import Roles, Times, feature_names
from salsa.cli.show import progress

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    import pandas as pd

    from salsa.cli.scores import Model
    from salsa.cli.tables.census import CsvTypes
    from salsa.cli.tables.dialect import FileFacts
    from salsa.cli.tables.target_column import TargetColumn
    from salsa.cli.tables.understanding import Interpreter, Understanding
    from salsa.data.number_format import NumberFormat

COPIES = 4  # copies of a table that is read whole: the frame, its checks, the encoded rows, slices of the fit
REPORT_ROWS = 20_000


class WholeTable(NamedTuple):
    """A training table in memory."""

    X: "pd.DataFrame"
    y: "pd.Series[Any]"  # numbers as float64, or labels of classes
    target: "TargetColumn"
    weight: "pd.Series[float] | None"
    notes: list[str]  # on columns that were left out or need attention
    understood: "Understanding"
    formats: dict[str, "NumberFormat"]  # how numbers are written in the file
    labels: "pd.Series[Any] | None" = None  # the group of every row
    times: Times | None = None

    @property
    def rows(self) -> int:
        return len(self.X)

    @property
    def features(self) -> list[str]:
        return list(self.X.columns)

    @property
    def missing(self) -> float:
        """Share of missing values among the values of the features."""
        return float(self.X.isna().to_numpy().mean())

    @property
    def groups(self) -> int | None:
        """Number of groups; None without a column of groups."""
        return None if self.labels is None else int(self.labels.nunique())

    def fit(self, model: "Model") -> None:
        if self.times is not None:
            model.set_params(cv=list(self.times.folds(model.cv).split()))
        model.fit(self.X, self.y, self.weight, self.labels)

    def shown(self, model: "Model") -> tuple["pd.DataFrame", "pd.Series[Any]"]:
        """Return rows and targets for a report to look at."""
        return self.X, self.y


class LargeTable(NamedTuple):
    """A checked training table on disk, which is read in chunks, several times, and never held whole."""

    data: str
    roles: Roles
    target: "TargetColumn"
    types: "CsvTypes"
    interpreter: "Interpreter"
    understood: "Understanding"
    rows: int
    features: list[str]
    missing: float
    notes: list[str]
    labels: dict[Any, int]  # groups by number, in the order of their first rows
    times: Times | None = None

    @property
    def formats(self) -> dict[str, "NumberFormat"]:
        """The formats of numbers in the file, by column."""
        return self.interpreter.formats

    @property
    def groups(self) -> int | None:
        """Number of groups; None without a column of groups."""
        return None if self.roles.group is None else len(self.labels)

    def fit(self, model: "Model") -> None:
        model.fit_blocks(lambda: self._blocks(lambda rows: None))  # the fit tells of its passes

    def shown(self, model: "Model") -> tuple["pd.DataFrame", "pd.Series[Any]"]:
        """Return the first rows and one row for each anchor, by which a report recognises the training table."""
        import pandas as pd

        from salsa.data.copies import row_hashes

        anchors = set(row_hashes(model.expansion_.anchors).tolist())
        first, parts = REPORT_ROWS - len(anchors), list[Any]()
        with progress(f"Reading {self.data}") as say:
            for X, y, *_ in self._blocks(lambda rows: say(f"Reading {self.data}: {rows} rows")):
                wanted = _wanted(X.index, first, row_hashes(model.columns_.encode(X)).tolist(), anchors)
                parts.append((X[wanted].astype(object), y[wanted]))  # the type of a column may differ between chunks
        X, y = map(pd.concat, zip(*parts, strict=True))
        return X, y

    def _blocks(self, told: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        """Yield features, target, weights and groups of each chunk, as ``fit_blocks`` takes them."""
        from salsa.cli.tables.checking import numeric, plain_features
        from salsa.cli.tables.labels import group_labels

        used = [*self.features, *self.roles.special]
        for piece in _chunks(self.data, used, self.types, told):
            chunk = self.interpreter.taken(piece[used])
            if chunk.empty:
                continue
            X = plain_features(chunk, self.features, self.roles.category, self.data)
            weights = None if self.roles.weights is None else numeric(chunk[self.roles.weights], self.data)
            groups = None
            if self.roles.group is not None:
                groups = group_labels(chunk[self.roles.group], self.data).map(self.labels)
            yield X, self.target.taken(chunk[self.roles.target]), weights, groups


def training_table(data: str, roles: Roles, limit: int) -> WholeTable | LargeTable:
    """Read a table whole, or in chunks if it is large for a memory limit in bytes."""
    if not is_large(data, limit):
        return whole_table(data, roles)
    if roles.time is not None:
        problem = f"--time {roles.time}: {data} is large relative to memory, and only a table in memory can be sorted"
        raise ValueError(f"{problem}: give a larger --memory, or fit fewer rows")
    return large_table(data, roles)


def is_large(data: str, limit: int) -> bool:
    """Return whether a table must be read in chunks: COPIES copies of it as numbers exceed the limit in bytes.

    A number takes 8 bytes; Parquet and Feather files state their number of values. A CSV file takes about its own
    size, and four times its size if packed with gzip. Standard input is never large: it cannot be read twice.
    """
    from salsa.cli.tables.census import table_bytes

    return COPIES * table_bytes(data) > limit


def whole_table(data: str, roles: Roles) -> WholeTable:
    """Read and check a table; raise ValueError if it cannot be used."""
    from salsa.cli.tables.checking import check_ordered, numeric, plain_features
    from salsa.cli.tables.labels import check_group_count, group_labels
    from salsa.cli.tables.reading import columns_with_leading_zeros, held

    data, codes = held(data), columns_with_leading_zeros(data)
    table, interpreter, every = _interpreted(data, roles, codes)
    names, notes = _kept(interpreter, roles, data)
    target = _target(data, roles)
    target.add(table[roles.target])
    _check_target(target, roles)
    y = target.taken(table[roles.target])
    weight = None if roles.weights is None else numeric(table[roles.weights], data)
    labels = None if roles.group is None else group_labels(table[roles.group], data)
    if labels is not None:
        check_group_count(str(labels.name), labels.nunique(), data)
    for name in roles.monotone:
        check_ordered(table[name], roles.category, data)
    X = plain_features(table, names, roles.category, data)
    notes += _code_notes(codes, set(map(str, X.select_dtypes("number"))))
    understood = interpreter.understanding(every, roles.described)
    whole = WholeTable(X, y, target, weight, notes, understood, interpreter.formats, labels)
    return whole if roles.time is None else _in_order(whole, table[roles.time], data)


def _interpreted(data: str, roles: Roles, codes: Collection[str]) -> tuple["pd.DataFrame", "Interpreter", list[str]]:
    """Return the used columns of a whole table as numbers and texts, what decided that, and the names of all columns.

    The file is read once; again only if points of plain numbers may mark thousands, or if rows may be too short.
    """
    from salsa.cli.tables.dialect import FileFacts
    from salsa.cli.tables.reading import count_short, read_table

    text, facts = [name for name in codes if name in (*roles.category, roles.group)], FileFacts()
    table = read_table(data, text, facts)
    interpreter = _interpreter(data, facts, roles, feature_names(table, roles, data))
    interpreter.codes = [name for name in codes if name not in text]
    interpreter.add_texts(table)
    if suspects := interpreter.suspects(list(map(str, table.select_dtypes("float")))):
        table = table.assign(**read_table(data, suspects)[suspects])
        interpreter.add_texts(table, suspects)
    interpreter.decide()
    if table.iloc[:, -1].isna().any():
        count_short(data, facts)
    return interpreter.observe(table[interpreter.used(roles.special)]), interpreter, list(map(str, table.columns))


def _interpreter(data: str, facts: "FileFacts", roles: Roles, names: Collection[str]) -> "Interpreter":
    from salsa.cli.tables.understanding import Interpreter

    weights = [] if roles.weights is None else [roles.weights]
    return Interpreter(data, facts, roles.target, weights, names, roles.category, roles.classes)


def _target(data: str, roles: Roles) -> "TargetColumn":
    from salsa.cli.tables.target_column import TargetColumn

    return TargetColumn(roles.target, data, roles.classes, roles.log, roles.loss)


def _check_target(target: "TargetColumn", roles: Roles) -> None:
    """Raise ValueError if the target cannot be used, or holds classes where an option needs numbers."""
    if roles.of_numbers is not None:
        target.check_numbers(roles.of_numbers)
    target.check()


def _in_order(table: WholeTable, times: "pd.Series[Any]", data: str) -> WholeTable:
    """Return the rows in the order of their times; rows of one time keep their order."""
    import numpy as np

    from salsa.cli.tables.labels import time_places

    places = time_places(times, data)
    order = np.argsort(places, kind="stable")
    first, last = (str(times.iloc[row]) for row in order[[0, -1]])
    return table._replace(
        X=table.X.iloc[order].reset_index(drop=True),
        y=table.y.iloc[order].reset_index(drop=True),
        weight=None if table.weight is None else table.weight.iloc[order].reset_index(drop=True),
        times=Times(str(times.name), first, last, places[order]),
    )


def large_table(data: str, roles: Roles) -> LargeTable:
    """Check all chunks, after passes for types of CSV columns and for texts; ValueError if the table cannot be used."""
    from salsa.cli.tables.census import Census
    from salsa.cli.tables.dialect import FileFacts
    from salsa.cli.tables.reading import columns_with_leading_zeros, count_short, read_chunks

    facts, codes = FileFacts(), columns_with_leading_zeros(data)
    head = next(read_chunks(data, 1, facts=facts))
    interpreter = _interpreter(data, facts, roles, feature_names(head, roles, data))
    interpreter.codes = [name for name in codes if name not in (*roles.category, roles.group)]
    used, may_be_short = interpreter.used(roles.special), False
    with progress(f"Reading {data}") as say:
        types = _types(data, roles, interpreter, codes, say)
        target = _target(data, roles)
        census = Census(
            data, interpreter.features, roles.category, target, roles.weights, roles.group, monotone=roles.monotone
        )
        for piece in _chunks(data, used, types, lambda rows: say(f"Checking {data}: {rows} rows"), facts):
            may_be_short = may_be_short or bool(piece.iloc[:, -1].isna().any())
            if not (chunk := interpreter.observe(piece[used])).empty:
                census.add(chunk)
        if may_be_short:
            count_short(data, facts)
    features, notes = _kept(interpreter, roles, data)
    census.check()
    notes += _code_notes(codes, set(features) - {*types.text, *roles.category})
    _check_target(target, roles)
    understood = interpreter.understanding(map(str, head.columns), roles.described)
    counted = census.rows, features, census.missing(features), notes, census.labels
    return LargeTable(data, roles, target, types, interpreter, understood, *counted)


def _types(
    data: str, roles: Roles, interpreter: "Interpreter", codes: Collection[str], say: Callable[[str], None]
) -> "CsvTypes":
    """Return the types of CSV columns, and decide about all columns of text, in one pass for each."""
    from salsa.cli.tables.census import CsvTypes, csv_types
    from salsa.cli.tables.formats import format_of

    types, used, is_arrow = CsvTypes([], []), interpreter.used(roles.special), format_of(data).is_arrow
    if not is_arrow:
        types = csv_types(_chunks(data, used, types, lambda rows: say(f"Reading {data}: {rows} rows")))
        coded = [name for name in codes if name in (*roles.category, roles.group)]
        types = types._replace(text=[*types.text, *coded])
    if is_arrow or types.text:
        for chunk in _chunks(data, used, types, lambda rows: say(f"Looking at texts of {data}: {rows} rows")):
            interpreter.add_texts(chunk)
    if suspects := interpreter.suspects(types.floats):
        types = types._replace(text=[*types.text, *suspects])
        for chunk in _chunks(data, used, types, lambda rows: say(f"Looking at numbers of {data}: {rows} rows")):
            interpreter.add_texts(chunk, suspects)
    interpreter.decide()
    return types


def _chunks(
    data: str,
    names: list[str],
    types: "CsvTypes",
    told: Callable[[int], None],
    facts: "FileFacts | None" = None,
) -> Iterator["pd.DataFrame"]:
    """Yield these columns of the table in chunks; `told` gets the number of rows read so far."""
    from salsa.cli.tables.reading import CHUNK_VALUES, read_chunks

    floats = [name for name in types.floats if name not in types.text]
    for chunk in read_chunks(data, CHUNK_VALUES, types.text, names, floats, facts=facts):
        yield chunk
        told(int(chunk.index[-1]) + 1)


def _wanted(rows: Iterable[int], first: int, keys: list[int], anchors: set[int]) -> list[bool]:
    """Return which rows are among the first, or are the first row of an anchor; found anchors leave the set."""
    wanted = []
    for row, key in zip(rows, keys, strict=True):
        wanted.append(row < first or key in anchors)
        anchors.discard(key)
    return wanted


def _kept(interpreter: "Interpreter", roles: Roles, data: str) -> tuple[list[str], list[str]]:
    """Return the features that have values and are no identifiers, and notes on other features."""
    from salsa.cli.tables.reading import title

    interpreter.check_target()
    gone = {*interpreter.empty, *interpreter.left_out}
    names = [name for name in interpreter.features if name not in gone]
    if not names:
        ignored = " (columns without values are ignored)" if gone else ""
        raise ValueError(f"{title(data)} has no column left to predict {roles.target!r} from{ignored}")
    return names, interpreter.notes


def _code_notes(codes: Collection[str], numbers: Collection[str]) -> list[str]:
    """Return notes on columns of numbers with leading zeros."""
    advice = "has leading zeros, like a code; if it is a code, take it as categories: --category {0!r}"
    return [f"column {name!r} {advice.format(name)}" for name in codes if name in numbers]
