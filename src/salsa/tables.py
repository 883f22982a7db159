"""Tables on disk: read whole or in chunks, checked column by column, written whole or not at all."""

from __future__ import annotations

import gzip
import os
import secrets
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CHUNK_ROWS = 50_000
STDIN = "-"


def read_table(source: str) -> pd.DataFrame:
    """The whole table; rows are numbered from 0."""
    return pd.concat(read_chunks(source, CHUNK_ROWS))


def read_chunks(source: str, rows: int) -> Iterator[pd.DataFrame]:
    """The table in pieces of so many rows, numbered throughout from 0."""
    with _named_errors(source), _opened(source) as file:
        options: dict[str, Any] = {"sep": _separator(source), "skipinitialspace": True, "low_memory": False}
        for chunk in pd.read_csv(file, chunksize=rows, **options):
            if not isinstance(chunk.index, pd.RangeIndex):
                raise ValueError(f"{title(source)} has rows with more values than its header has names")
            if chunk.empty:
                raise ValueError(f"{title(source)} has a header but no rows")
            yield chunk


def require_columns(table: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """ValueError that lists the names the table does not have, each with the nearest that it has."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        listed = ", ".join(repr(name) + _nearest(name, list(table.columns)) for name in missing)
        raise ValueError(f"{title(source)} has no column {listed}; {_describe(list(table.columns))}")


def numeric(table: pd.DataFrame, names: Sequence[str], source: str, advice: str = "") -> pd.DataFrame:
    """These columns as float64; ValueError at the first value that is not a finite number.

    The advice ends the message; a {} in it becomes the name of the column.
    """
    return pd.DataFrame({name: _floats(table[name], source, advice) for name in names}, index=table.index)


def check_output(path: Path, *inputs: str) -> None:
    """ValueError unless a file can be written there, without taking the place of an input or of a device."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        raise ValueError(f"cannot write {path}: it is there already and is not a file")
    if path.exists() and any(os.path.exists(source) and path.samefile(source) for source in inputs):
        raise ValueError(f"cannot write {path}: it is also an input; choose another name")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"cannot write into {folder}: {error.strerror}") from error


def write_table(chunks: Iterator[pd.DataFrame], path: Path) -> int:
    """Write the chunks as one CSV or TSV file (by its name, also .gz); the number of rows."""
    with replacing(path) as file:
        return write_chunks(chunks, file, _separator(path.name))


def write_chunks(chunks: Iterator[pd.DataFrame], file: IO[str], separator: str = ",") -> int:
    """Write the chunks with one header, as they come; the number of rows."""
    rows = 0
    for chunk in chunks:
        chunk.to_csv(file, sep=separator, index=False, header=rows == 0)
        rows += len(chunk)
    return rows


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A text file that takes its name when complete; after an exception nothing of it remains."""
    path = path.resolve()
    temporary = path.with_name(f".salsa-{secrets.token_hex(6)}")
    open_text: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(temporary, "xt", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def title(source: str) -> str:
    """The source as messages call it."""
    return "standard input" if source == STDIN else source


@contextmanager
def _named_errors(source: str) -> Iterator[None]:
    """What is wrong with the contents of a file, as a ValueError that names the file."""
    try:
        yield
    except pd.errors.EmptyDataError:
        raise ValueError(f"{title(source)} is empty") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{title(source)} is not a text file in UTF-8 ({error})") from error
    except (pd.errors.ParserError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{title(source)} cannot be read: {error}") from error


def _opened(source: str) -> Any:
    """The bytes of the source, unpacked."""
    if source == STDIN:
        return nullcontext(sys.stdin.buffer)
    return gzip.open(source) if source.endswith(".gz") else open(source, "rb")


def _separator(name: str) -> str:
    return "\t" if name.removesuffix(".gz").endswith(".tsv") else ","


def _floats(column: pd.Series[Any], source: str, advice: str) -> pd.Series[float]:
    values = pd.to_numeric(column, errors="coerce").astype(np.float64)
    missing = column.isna().to_numpy()
    wrong = ~np.isfinite(values.to_numpy()) & ~missing
    if wrong.any():
        problem = f"{str(column[wrong].iloc[0])!r} in row {_first(column, wrong)}, which is not a finite number"
    elif missing.any():
        problem = f"no value in row {_first(column, missing)} ({missing.sum()} missing in all)"
    else:
        return values
    raise ValueError(f"{title(source)}: column {column.name!r} has {problem}{advice.format(column.name)}")


def _first(column: pd.Series[Any], where: NDArray[np.bool_]) -> int:
    """The number of the first of these rows as people count: from 1, after the header."""
    return int(column.index[where][0]) + 1


def _nearest(name: str, names: list[str]) -> str:
    """A hint at the most similar name, in any case; nothing where none is similar."""
    folded = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), folded, n=1)
    return f" (did you mean {folded[matches[0]]!r}?)" if matches else ""


def _describe(names: list[str], most: int = 8) -> str:
    if len(names) == 1:
        return f"its only column is {names[0]!r}: commas separate columns, tabs in files named .tsv"
    return f"its columns are {', '.join(names[:most])}{', ...' if len(names) > most else ''}"
