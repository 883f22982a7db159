"""Reading of tables from files and pipes, whole or in chunks."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pandas as pd

from salsa.cli.tables.decoding import DecodedText
from salsa.cli.tables.dialect import Dialect, FileFacts, count_short_rows, find_dialect
from salsa.cli.tables.formats import HEAD_BYTES, Format, check_head, check_name, format_of

STDIN = "-"
CHUNK_VALUES = 2**20  # values of a chunk, 8 MiB as numbers; a prediction makes several copies of a chunk
FIRST_ROWS = 1000  # rows of the first chunk of a CSV, which show its number of columns and give a pipe early results
# Read the numbers of a CSV exactly: pandas before 3.1 needs this option, or some numbers are wrong in the last bit.
EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


class Pipe(str):
    """The name of standard input, with all of its bytes: they can be read again."""

    content: bytes


def held(source: str) -> str:
    """Return a source that can be read again: standard input is read whole, a file keeps its name."""
    if source != STDIN or isinstance(source, Pipe):
        return source
    pipe = Pipe(source)
    pipe.content = sys.stdin.buffer.read()
    return pipe


def read_table(source: str, text: Collection[str] | type[str] = (), facts: FileFacts | None = None) -> pd.DataFrame:
    """Read a whole table; rows are numbered from 0. For ``text`` and ``facts`` see ``read_chunks``."""
    (table,) = read_chunks(source, None, text, facts=facts)
    return table


def read_chunks(
    source: str,
    most: int | None,
    text: Collection[str] | type[str] = (),
    names: Collection[str] = (),
    floats: Collection[str] = (),
    exact: Collection[str] = (),
    facts: FileFacts | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the table in chunks of at most `most` rows (None: one chunk), fewer in wide tables; rows count from 0.

    CSV has no types, so the type of a column may differ between chunks: ``text`` names the columns to read as text
    (str: all columns), ``floats`` the columns to read as float64. Parquet and Feather files are read in the columns
    ``names`` only, if given. Integer columns among ``exact`` stay integers if values are missing. ``facts`` gets what
    is found about the file: separator, encoding and names.
    """
    with _named_errors(source), _opened(source) as (file, format):
        if format.is_arrow:
            pieces = _arrow_pieces(source, format, file, most, names, exact)
        else:
            dtype = text if isinstance(text, type) else _dtypes(text, floats)
            pieces = _csv_pieces(source, format, file, most, dtype, FileFacts() if facts is None else facts)
        for piece in pieces:
            if piece.empty:
                raise ValueError(f"{title(source)} has a header but no rows")
            yield piece


def count_short(source: str, facts: FileFacts) -> None:
    """Count the rows of a CSV that are shorter than its header, in another pass over the file."""
    if facts.separator is None:
        return
    with _named_errors(source), _opened(source) as (file, format), suppress(csv.Error):
        text, dialect = _decoded(source, format, file)
        facts.short_rows, facts.first_short = count_short_rows(text.lines(), dialect)


def columns_with_leading_zeros(source: str) -> list[str]:
    """Return the CSV columns of digits with leading zeros (01234) in the first rows; none for other sources."""
    if not os.path.isfile(source) or format_of(source).is_arrow:
        return []
    head = next(read_chunks(source, FIRST_ROWS, str))
    whole = (str(name) for name in head if head[name].dropna().str.fullmatch(r"\d+").all())
    return [name for name in whole if head[name].str.fullmatch(r"0\d+").any()]


def title(source: str) -> str:
    """Return the name of the source in messages."""
    return "standard input" if source == STDIN else source


def require_pyarrow(path: str) -> Any:
    """Return the module pyarrow; raise ValueError with advice if it is not installed."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        advice = "pip install pyarrow, or use CSV"
        raise ValueError(f"{path}: Parquet and Feather files need pyarrow: {advice}") from None
    return pyarrow


@contextmanager
def _named_errors(source: str) -> Iterator[None]:
    """Turn errors in the contents of a file into a ValueError that names the file."""
    try:
        yield
    except pd.errors.EmptyDataError:
        raise ValueError(f"{title(source)} is empty") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{title(source)} is not text: save it as CSV in UTF-8") from error
    except (pd.errors.ParserError, OSError, zlib.error, EOFError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        reason = _too_long(str(error).removeprefix("Error tokenizing data. C error: "))
        raise ValueError(f"{title(source)} cannot be read: {reason}") from error


def _names(count: int) -> str:
    return f"{count} name{'' if count == 1 else 's'}"


def _too_long(reason: str) -> str:
    """Return the reason why a text cannot be read; pandas speaks of fields where a line is longer than the header."""
    if found := re.match(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
        names, line, values = found.groups()
        advice = 'correct the line; a value that contains a separator needs quotes, such as "1,5"'
        return f"line {line} has {values} values, but the header has {names} names: {advice}"
    return reason


@contextmanager
def _opened(source: str) -> Iterator[tuple[Any, Format]]:
    """Open the source as unpacked bytes; raise ValueError if its name or first bytes do not belong to a table."""
    format = format_of(source)
    with _bytes(source, format.is_packed) as file:
        check_head(title(source), file.peek(HEAD_BYTES)[:HEAD_BYTES], format)
        check_name(source)
        yield file, format


def _bytes(source: str, is_packed: bool) -> Any:
    if isinstance(source, Pipe):
        return io.BufferedReader(io.BytesIO(source.content))
    if source == STDIN:
        return nullcontext(sys.stdin.buffer)
    return gzip.open(source) if is_packed else open(source, "rb")


def _fitting_rows(columns: int, most: int) -> int:
    return min(most, max(1, CHUNK_VALUES // max(1, columns)))


def _dtypes(text: Collection[str], floats: Collection[str]) -> dict[str, type]:
    return {**dict.fromkeys(text, str), **dict.fromkeys(floats, float)}


def _decoded(source: str, format: Format, file: Any) -> tuple[DecodedText, Dialect]:
    """Return the text of a CSV and its dialect; raise ValueError if there is no text."""
    text = DecodedText(file, file.peek(4)[:4])
    if not text.head().strip():
        raise ValueError(f"{title(source)} is empty")
    dialect = find_dialect(text.head(), text.is_whole, format.separator)
    if dialect.first_row > len(dialect.names):
        problem = f"has {dialect.first_row} values in row 1, but its header has {_names(len(dialect.names))}"
        raise ValueError(f"{title(source)} {problem}: name every column, and leave out lines above the header")
    return text, dialect


def _csv_pieces(
    source: str, format: Format, file: Any, most: int | None, dtype: type[str] | dict[str, type], facts: FileFacts
) -> Iterator[pd.DataFrame]:
    text, dialect = _decoded(source, format, file)
    facts.separator, facts.renamed, facts.has_mark = dialect.separator, dialect.renamed, text.has_mark
    options: Any = {"sep": dialect.separator, "names": list(dialect.names), "header": 0, "skiprows": dialect.skipped}
    options |= {"skipinitialspace": True, "low_memory": False, "dtype": dtype, **EXACT}
    reader = pd.read_csv(text, iterator=True, **options)
    rows = None if most is None else min(FIRST_ROWS, most)
    with suppress(StopIteration):
        while True:
            piece = reader.read() if rows is None else reader.get_chunk(rows)
            facts.encoding = text.encoding_found
            yield piece
            if most is None:
                return
            rows = _fitting_rows(piece.shape[1], most)


def _arrow_pieces(
    source: str, format: Format, file: Any, most: int | None, names: Collection[str], exact: Collection[str]
) -> Iterator[pd.DataFrame]:
    pa = require_pyarrow(source)
    batches = _parquet_batches if format.kind == "parquet" else _feather_batches
    start = 0
    try:
        for batch in batches(file, most, names):
            piece = batch.to_pandas()
            if not piece.columns.is_unique:
                twice = piece.columns[piece.columns.duplicated()][0]
                raise ValueError(f"{source} has two columns named {twice!r}: rename one of them")
            for name in (name for name in exact if name in piece):
                piece[name] = batch.column(name).to_pandas(integer_object_nulls=True).to_numpy()
            yield piece.set_axis(pd.RangeIndex(start, start + len(piece)), axis=0)
            start += len(piece)
    except pa.ArrowException as error:
        raise ValueError(f"{source} cannot be read: {error}") from error
    if start == 0:
        raise ValueError(f"{source} has no rows")


def _parquet_batches(file: Any, most: int | None, names: Collection[str]) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped,unused-ignore]

    reader = ParquetFile(file, pre_buffer=False, buffer_size=2**20)  # by default it reads the whole file, or groups
    if most is None:
        yield reader.read()
        return
    columns = _needed(reader.schema_arrow.names, names)
    yield from reader.iter_batches(_fitting_rows(len(columns), most), columns=columns)


def _feather_batches(file: Any, most: int | None, names: Collection[str]) -> Iterator[Any]:
    import pyarrow as pa

    reader = pa.ipc.open_file(file)
    if most is None:
        yield reader.read_all()
        return
    columns = _needed(reader.schema.names, names)
    rows = _fitting_rows(len(columns), most)
    for batch in map(reader.get_batch, range(reader.num_record_batches)):
        for first in range(0, len(batch), rows):
            yield batch.select(columns).slice(first, rows)


def _needed(present: list[str], names: Collection[str]) -> list[str]:
    """Return the names if all are present; otherwise all columns, so that a later check names the missing ones."""
    return list(names) if names and set(names) <= set(present) else present
