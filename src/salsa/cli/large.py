"""Training tables that are large beside the memory: they are read in chunks, some times, and never held whole."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from salsa.cli.show import progress
from salsa.cli.training_file import Roles, code_notes, feature_names, with_values

if TYPE_CHECKING:
    import pandas as pd

    from salsa.cli.tables.census import CsvTypes
    from salsa.regressor import SalsaRegressor

COPIES = 4  # of a table that is read whole: the frame, its checks, the encoded copy, the fit's slices
REPORT_ROWS = 20_000

Say = Callable[[str], None]


def is_large(data: str, limit: int) -> bool:
    """Whether a table had better not be read whole: so many copies of it as numbers exceed the limit in bytes.

    Numbers take 8 bytes, and Parquet and Feather tell how many there are. CSV has about as many bytes of text; packed
    with gzip, a quarter. Standard input is never large: it cannot be read twice.
    """
    from salsa.cli.tables.census import table_bytes

    return COPIES * table_bytes(data) > limit


class LargeTable(NamedTuple):
    """A table on disk that was checked."""

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
        """The first rows, and one for each anchor: by these a report knows that the rows are not new."""
        import pandas as pd

        from salsa.data.rows import row_keys

        anchors = set(row_keys(model.expansion_.anchors))
        first, parts = REPORT_ROWS - len(anchors), list[Any]()
        with progress(f"Reading {self.data}") as say:
            for X, y, *_ in self._blocks(lambda rows: say(f"Reading {self.data}: {rows} rows")):
                wanted = _wanted(X.index, first, row_keys(model.columns_.encode(X)), anchors)
                parts.append((X[wanted].astype(object), y[wanted]))  # a column may have other types in other chunks
        X, y = map(pd.concat, zip(*parts, strict=True))
        return X, y

    def _blocks(self, told: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        """Features, target and weights, as for ``fit_blocks``."""
        from salsa.cli.tables.checking import numeric, plain_features, target_of

        for chunk in _chunks(self.data, [*self.features, *self.roles.special], self.types, told):
            X = plain_features(chunk, self.features, self.roles.category, self.data)
            weights = [] if self.roles.weights is None else [numeric(chunk, self.roles.weights, self.data)]
            yield X, target_of(chunk, self.roles.target, self.data), *weights


def large_table(data: str, roles: Roles) -> LargeTable:
    """Look at all chunks, twice where the file has no types; ValueError where the table will not do."""
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
    """Of a size that does not depend on the table; told hears of the rows so far."""
    from salsa.cli.tables.reading import CHUNK_VALUES, read_chunks

    for chunk in read_chunks(data, CHUNK_VALUES, types.text, names, types.floats):
        yield chunk
        told(int(chunk.index[-1]) + 1)


def _wanted(rows: Iterable[int], first: int, keys: list[bytes], anchors: set[bytes]) -> list[bool]:
    """Whether a row is one of the first, or the first of an anchor, which is then taken out of the set."""
    wanted = []
    for row, key in zip(rows, keys, strict=True):
        wanted.append(row < first or key in anchors)
        anchors.discard(key)
    return wanted
