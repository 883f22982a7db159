"""Tables that are read in blocks of rows, several times: Parquet files, iterables of blocks, parts of a cluster."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from hashlib import blake2b
from typing import IO, Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _get_feature_names

from salsa._utils.arrays import Floats
from salsa.data.columns import Columns, Level, Settled, adopted_parts, merged_columns
from salsa.data.copies import Prints, prints_of
from salsa.data.rows import Observations, mean_weight
from salsa.data.table_columns import learn_table
from salsa.data.targets import (
    Groups,
    TargetValues,
    checked_groups,
    checked_rows,
    checked_weights,
    target_values,
    telling_groups,
)
from salsa.data.text_columns import Counts, count_values
from salsa.data.transforms import transformed

BATCH_VALUES = 2**20  # values that are read from a file at a time

Source = Callable[[], Iterable["RawBlock"]]


class RawBlock(NamedTuple):
    """A block of rows as the user gave it."""

    X: Any
    y: Any
    weight: Any = None
    groups: Any = None


class Survey(NamedTuple):
    """The result of a first pass over a table, or over some of its rows: columns, ranges and counts."""

    columns: Columns
    feature_names: NDArray[np.object_] | None  # as scikit-learn has them
    low: Floats  # (D,), NaN where all values are missing
    high: Floats
    outputs: int
    flat: bool  # y had one dimension
    rows: int  # number of rows with positive weight
    used: NDArray[np.bool_]  # of all rows, whether the weight is positive: given splits count all rows
    counts: Counts
    targets: TargetValues
    groups: Groups | None
    prints: Prints
    notes: tuple[str, ...] = ()  # why parts of dates were left out

    def settled(self) -> tuple[Survey, Settled]:
        """Return the survey without the parts of dates that the ranges of all rows do not allow."""
        settled = self.columns.settled(self.low, self.high)
        counts = self.counts.some(settled.keep)
        low, high = settled.of(self.low), settled.of(self.high)
        seen = self._replace(columns=settled.columns, low=low, high=high, counts=counts, notes=settled.notes)
        return seen, settled

    def _adopting(self, other: Survey) -> Survey:
        """Return the survey in which columns without values have the parts of dates that they have in another one."""
        if self.columns.names == other.columns.names or self.columns.table != other.columns.table:
            return self
        columns, places = adopted_parts(self.columns, other.columns, np.isnan(self.low))
        low, high, counts = self.low[places], self.high[places], self.counts.some(places)
        is_text = counts.is_text & np.array([part is None for part in columns.all_parts])
        return self._replace(columns=columns, low=low, high=high, counts=counts._replace(is_text=is_text))

    def __add__(self, other: Survey) -> Survey:  # type: ignore[override]
        """Return the survey of the rows of both."""
        one, other = self._adopting(other), other._adopting(self)
        _check_alike(one, other)
        empty = np.isnan(one.low), np.isnan(other.low)
        return one._replace(
            columns=merged_columns(one.columns, other.columns, *empty),
            low=np.fmin(one.low, other.low),
            high=np.fmax(one.high, other.high),
            rows=self.rows + other.rows,
            used=np.concatenate([self.used, other.used]),
            counts=one.counts + other.counts,
            targets=self.targets + other.targets,
            groups=None if self.groups is None or other.groups is None else self.groups + other.groups,
            prints=self.prints + other.prints,
        )


def survey(blocks: Iterable[RawBlock], categorical_features: Any, transform: str | None = None) -> Survey:
    """Return the merged survey of all blocks; raise ValueError if their columns or outputs differ."""
    return together(survey_block(block, categorical_features, transform) for block in blocks)


def together(surveys: Iterable[Survey | None]) -> Survey:
    """Merge the surveys of all blocks; empty blocks (None) are skipped."""
    some = [seen for seen in surveys if seen is not None]
    if not some:
        raise ValueError("there are no rows: a fit needs at least one block with rows")
    seen, _ = reduce(Survey.__add__, some).settled()
    return seen._replace(groups=telling_groups(seen.groups))


class Table(NamedTuple):
    """A whole table as numbers, including rows of weight zero."""

    survey: Survey
    rows: Observations

    def settled(self) -> Table:
        """Return the table without the parts of dates that its ranges do not allow."""
        seen, settled = self.survey.settled()
        return Table(seen, self.rows._replace(X=settled.of(self.rows.X)))


def read_table(
    block: RawBlock, categorical_features: Any, transform: str | None = None, *, keep_prints: bool = False
) -> Table:
    """Learn what the columns of a table hold, check its targets, weights and groups, and transform the targets."""
    columns, X, is_text = learn_table(block.X, categorical_features)
    names = _get_feature_names(block.X)
    X, y = checked_rows(X, block.y)
    weight = checked_weights(block.weight, X)
    used, Y = weight > 0, transformed(transform, y.reshape(len(y), -1))
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    counts, targets = count_values(columns, X[used], is_text), target_values(Y[used])
    rows, groups = int(used.sum()), checked_groups(block.groups, len(X))
    code = None if groups is None else groups.code
    table = Observations(X, Y, weight, code)
    groups = None if groups is None else groups._replace(code=groups.code[used])
    prints = Prints.none()
    if keep_prints:
        prints = prints_of(table._replace(X=_told_apart(columns, X), group=None).some(used))
    seen = Survey(columns, names, low, high, Y.shape[1], y.ndim == 1, rows, used, counts, targets, groups, prints)
    return Table(seen, table)


def _told_apart(columns: Columns, X: Floats) -> Floats:
    """Return rows (n, columns of the table) whose numbers are equal in all blocks for equal values.

    Codes of categories differ between blocks: levels have numbers of their own. A block without any date does not know
    the parts of dates: a date has its trend, from which its other parts follow.
    """
    X = X[:, columns.first]
    for x, place in zip(X.T, columns.first, strict=True):
        if levels := columns.levels[place]:
            known = ~np.isnan(x)
            x[known] = np.array([_level_number(level) for level in levels])[x[known].astype(np.intp)]
    return X


def _level_number(level: Level) -> float:
    """Return a number that differs for all but 2^-48 of other levels; 1, 1.0 and True are one level."""
    text = repr(level if isinstance(level, str) else float(level))
    return float(int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=6).digest(), "big"))


def survey_block(block: RawBlock, categorical_features: Any, transform: str | None = None) -> Survey | None:
    """Return the survey of a block; None if the block has no rows."""
    return read_table(block, categorical_features, transform, keep_prints=True).survey if len(block.X) else None


def read_parts(source: Source, reading: Reading, expected: int) -> Iterator[Observations]:
    """Yield the rows of positive weight as numbers; raise ValueError if the first pass found another number of rows."""
    rows = 0
    for block in (block for block in source() if len(block.X)):
        part = part_of(block, reading)
        rows += len(part.X)
        yield part
    if rows != expected:
        advice = "give a list, a function that returns a new iterator each time, or a file"
        raise ValueError(f"the blocks held {expected} rows when first read and {rows} when read again: {advice}")


class Reading(NamedTuple):
    """The way from blocks to numbers, once all were seen: columns, groups, transform of targets, unit of weights."""

    columns: Columns
    groups: Groups | None = None
    transform: str | None = None
    mean_weight: float = 1.0

    @classmethod
    def after(cls, seen: Survey, transform: str | None) -> Reading:
        """Return how to read the blocks of a survey; weights become one on average."""
        return cls(seen.columns, seen.groups, transform, mean_weight(seen.prints.weight))


def part_of(block: RawBlock, reading: Reading) -> Observations:
    """Return the rows of positive weight as numbers."""
    X, y = checked_rows(reading.columns.encode(block.X), block.y)
    weight = checked_weights(block.weight, X) / reading.mean_weight
    code = None if reading.groups is None else reading.groups.encode(block.groups, len(X))
    return Observations(X, transformed(reading.transform, y.reshape(len(y), -1)), weight, code).some(weight > 0)


def slices_of(X: Any, y: Any, weight: Any, groups: Any) -> Source:
    """Return a source of slices of these arrays; X may be a memmap on disk."""
    check_consistent_length(X, y, weight, groups)
    step, others = _batch_rows(X.shape[1]), (y, weight, None if groups is None else np.asarray(groups))
    slices = [slice(start, start + step) for start in range(0, len(X), step)]
    return lambda: (
        RawBlock(np.asarray(X[rows]), *(None if values is None else values[rows] for values in others))
        for rows in slices
    )


def _batch_rows(columns: int) -> int:
    return max(1, BATCH_VALUES // max(1, columns))


@contextmanager
def reread(blocks: Any, target: Any, sample_weight: str | None, groups: str | None) -> Iterator[Source]:
    """Yield a source of blocks that can be read several times; an iterator is first copied to a temporary file."""
    if isinstance(blocks, (str, os.PathLike)) or hasattr(blocks, "scanner"):
        blocks = partial(_parquet_frames, blocks)
    if callable(blocks):
        yield lambda: map(partial(_raw, target, sample_weight, groups), blocks())
    elif hasattr(blocks, "__next__"):
        with tempfile.TemporaryFile() as file:
            for block in blocks:
                pickle.dump(_raw(target, sample_weight, groups, block), file, protocol=pickle.HIGHEST_PROTOCOL)
            yield partial(_unpickled, file)
    elif hasattr(blocks, "__iter__"):
        yield lambda: map(partial(_raw, target, sample_weight, groups), blocks)
    else:
        raise TypeError(f"blocks is a {type(blocks).__name__}: {_ADVICE}")


_ADVICE = (
    "give the path of a Parquet file, or an iterable of data frames or of tuples (X, y), (X, y, weights) or"
    " (X, y, weights, groups)"
)


def _raw(target: Any, sample_weight: str | None, groups: str | None, block: Any) -> RawBlock:
    if isinstance(block, tuple):
        if len(block) not in (2, 3, 4) or (target, sample_weight, groups) != (None, None, None):
            columns = "target, sample_weight and groups name columns"
            raise ValueError(f"a block is a tuple of {len(block)}: {_ADVICE}; {columns}")
        return RawBlock(*block)
    frame = nw.from_native(block, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"a block is a {type(block).__name__}: {_ADVICE}")
    if target is None:
        raise ValueError("blocks are data frames: target must name the column to predict")
    names = [target] if isinstance(target, str) else list(target)
    special = [*names, *filter(None, (sample_weight, groups))]
    if absent := [name for name in special if name not in frame.columns]:
        raise ValueError(f"a block has no column {absent[0]!r}; its columns are {', '.join(frame.columns[:8])}")
    y = frame[target].to_numpy() if isinstance(target, str) else frame.select(names).to_numpy()
    weight, labels = (None if name is None else frame[name].to_numpy() for name in (sample_weight, groups))
    return RawBlock(frame.drop(special).to_native(), y, weight, labels)


def _unpickled(file: IO[bytes]) -> Iterator[RawBlock]:
    """Yield the blocks that this process has pickled into the file."""
    file.seek(0)
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def _parquet_frames(source: Any) -> Iterator[Any]:
    """Yield data frames of some rows each, without reading ahead: memory does not depend on the size of the file."""
    try:
        from pyarrow import dataset  # type: ignore[import-untyped,unused-ignore]
        from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install pyarrow") from None
    table = source if hasattr(source, "scanner") else dataset.dataset(source, format="parquet", partitioning="hive")
    rows = _batch_rows(len(table.schema))
    for part in table.get_fragments():
        keys = dataset.get_partition_keys(part.partition_expression)  # columns that stand only in the names of folders
        with part.open() as opened, ParquetFile(opened, pre_buffer=False, buffer_size=2**20) as file:
            for batch in file.iter_batches(rows, use_threads=False):
                yield batch.to_pandas().assign(**keys)


def _check_alike(one: Survey, other: Survey) -> None:
    """Raise ValueError unless two blocks have the same columns and outputs."""
    if one.columns.names != other.columns.names:
        raise ValueError(f"blocks differ in their columns: {_some(one)} and {_some(other)}")
    if (one.groups is None) != (other.groups is None):
        raise ValueError("some blocks have groups and others do not: give groups with every block, or with none")
    if (one.outputs, one.flat) != (other.outputs, other.flat):
        raise ValueError(f"blocks differ in their number of outputs: {one.outputs} and {other.outputs}")


def _some(seen: Survey, most: int = 6) -> str:
    names = seen.columns.names
    return f"{', '.join(names[:most])}{', ...' if len(names) > most else ''} ({len(names)})"
