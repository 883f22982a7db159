"""Training tables that are large relative to memory: they are read in chunks, several times, and never held whole."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from salsa.cli.show import progress
from salsa.cli.training_file import Roles, code_notes, feature_names, with_values

if TYPE_CHECKING:
    import pandas as pd

    from salsa.cli.tables.census import CsvTypes
    from salsa.regressor import SalsaRegressor

COPIES = 4  # copies of a table that is read whole: the frame, its checks, the encoded rows, slices of the fit
REPORT_ROWS = 20_000

Say = Callable[[str], None]


def is_large(data: str, limit: int) -> bool:
    """Return whether a table must be read in chunks: COPIES copies of it as numbers exceed the limit in bytes.

    A number takes 8 bytes; Parquet and Feather files state their number of values. A CSV file takes about its own
    size, and four times its size if packed with gzip. Standard input is never large: it cannot be read twice.
    """
    from salsa.cli.tables.census import table_bytes

    return COPIES * table_bytes(data) > limit


class LargeTable(NamedTuple):
    """A checked training table on disk."""

    data: str
    roles: Roles
    types: "CsvTypes"
    rows: int
    features: list[str]
    missing: float
    notes: list[str]

    def fit(self, model: "SalsaRegressor", say: Say) -> None:
        task = f"Fitting {self.rows} rows, {len(self.features)} features"
        model.fit_blocks(lambda: self._blocks(lambda rows: say(f"{task}: read {rows}")))

    def shown(self, model: "SalsaRegressor") -> tuple["pd.DataFrame", "pd.Series[float]"]:
        """Return the first rows and one row for each anchor, by which a report recognises the training table."""
        import pandas as pd

        from salsa.data.rows import row_keys

        anchors = set(row_keys(model.expansion_.anchors))
        first, parts = REPORT_ROWS - len(anchors), list[Any]()
        with progress(f"Reading {self.data}") as say:
            for X, y, *_ in self._blocks(lambda rows: say(f"Reading {self.data}: {rows} rows")):
                wanted = _wanted(X.index, first, row_keys(model.columns_.encode(X)), anchors)
                parts.append((X[wanted].astype(object), y[wanted]))  # the type of a column may differ between chunks
        X, y = map(pd.concat, zip(*parts, strict=True))
        return X, y

    def _blocks(self, told: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        """Yield features, target and weights of each chunk, as ``fit_blocks`` takes them."""
        from salsa.cli.tables.checking import numeric, plain_features, target_of

        for chunk in _chunks(self.data, [*self.features, *self.roles.special], self.types, told):
            X = plain_features(chunk, self.features, self.roles.category, self.data)
            weights = [] if self.roles.weights is None else [numeric(chunk, self.roles.weights, self.data)]
            yield X, target_of(chunk, self.roles.target, self.data), *weights


def large_table(data: str, roles: Roles) -> LargeTable:
    """Check all chunks, after a first pass for types of CSV columns; raise ValueError if the table cannot be used."""
    from salsa.cli.tables.census import Census, CsvTypes, csv_types
    from salsa.cli.tables.formats import format_of
    from salsa.cli.tables.reading import columns_with_leading_zeros

    names = feature_names(_first_row(data), roles, data)
    used = [*names, *roles.special]
    with progress(f"Reading {data}") as say:
        types, codes = CsvTypes([], []), columns_with_leading_zeros(data)
        if not format_of(data).is_arrow:
            types = csv_types(_chunks(data, used, types, lambda rows: say(f"Reading {data}: {rows} rows")))
            types = types._replace(text=[*types.text, *(name for name in codes if name in roles.category)])
        census = Census(data, names, roles.category, roles.target, roles.weights)
        for chunk in _chunks(data, used, types, lambda rows: say(f"Checking {data}: {rows} rows")):
            census.add(chunk)
    features, notes = with_values(names, census.empty, roles, data)
    census.check()
    notes += code_notes(codes, set(features) - {*types.text, *roles.category})
    return LargeTable(data, roles, types, census.rows, features, census.missing(features), notes)


def _first_row(data: str) -> "pd.DataFrame":
    from salsa.cli.tables.reading import read_chunks

    return next(read_chunks(data, 1))


def _chunks(data: str, names: list[str], types: "CsvTypes", told: Callable[[int], None]) -> Iterator["pd.DataFrame"]:
    """Yield these columns of the table in chunks; `told` gets the number of rows read so far."""
    from salsa.cli.tables.reading import CHUNK_VALUES, read_chunks

    for chunk in read_chunks(data, CHUNK_VALUES, types.text, names, types.floats):
        yield chunk
        told(int(chunk.index[-1]) + 1)


def _wanted(rows: Iterable[int], first: int, keys: list[bytes], anchors: set[bytes]) -> list[bool]:
    """Return which rows are among the first, or are the first row of an anchor; found anchors leave the set."""
    wanted = []
    for row, key in zip(rows, keys, strict=True):
        wanted.append(row < first or key in anchors)
        anchors.discard(key)
    return wanted
