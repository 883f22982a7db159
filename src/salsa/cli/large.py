"""Training tables that are large beside the memory: they are read in chunks, some times, and never held whole."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from salsa.cli.show import progress
from salsa.cli.training import Roles, feature_names, with_values

if TYPE_CHECKING:
    import pandas as pd

    from salsa.kernels import Floats
    from salsa.regressor import SalsaRegressor
    from salsa.tables.large import CsvTypes

COPIES = 4  # of a table that is read whole: the frame, its checks, the encoded copy, the fit's slices
REPORT_ROWS = 20_000

Say = Callable[[str], None]


def is_large(data: str, limit: int) -> bool:
    """Whether a table had better not be read whole: so many copies of it as numbers exceed the limit in bytes.

    Numbers take 8 bytes, and Parquet and Feather tell how many there are. CSV has about as many bytes of text; packed
    with gzip, a quarter. Standard input is never large: it cannot be read twice.
    """
    from salsa.tables.large import table_bytes

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

        anchors = set(_keys(model.expansion_.anchors))
        first, parts = REPORT_ROWS - len(anchors), list[Any]()
        with progress(f"Reading {self.data}") as say:
            for X, y, *_ in self._blocks(lambda rows: say(f"Reading {self.data}: {rows} rows")):
                wanted = [
                    row < first or key in anchors
                    for row, key in zip(X.index, _keys(model.columns_.encode(X)), strict=True)
                ]
                parts.append((X[wanted], y[wanted]))
        X, y = map(pd.concat, zip(*parts, strict=True))
        return X, y

    def _blocks(self, told: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        """Features, target and weights, as for ``fit_blocks``."""
        from salsa.tables.checking import numeric, plain_features, target_of

        for chunk in _chunks(self.data, [*self.features, *self.roles.special], self.types, told):
            X = plain_features(chunk, self.features, self.roles.category, self.data)
            weights = [] if self.roles.weights is None else [numeric(chunk, self.roles.weights, self.data)]
            yield X, target_of(chunk, self.roles.target, self.data), *weights
