"""Writing of tables to files and pipes, chunk by chunk; a file gets its name when it is complete."""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from salsa._utils.atomic import replacing
from salsa.cli.tables.formats import Format, check_name, format_of
from salsa.cli.tables.reading import require_pyarrow

GROUP_ROWS = 100_000  # smallest number of rows in a group of Parquet and Feather files, except the last


def check_output(path: Path, *inputs: str) -> None:
    """Raise ValueError if no file can be written there, or if it would replace an input, a folder or a device."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        raise ValueError(f"cannot write {path}: it is there already and is not a file")
    if any(_is_same_file(path, Path(source)) for source in inputs):
        raise ValueError(f"cannot write {path}: it is also an input; choose another name")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"cannot write into {folder}: {error.strerror}") from error


def write_table(chunks: Iterator[pd.DataFrame], path: Path) -> int:
    """Write the chunks to one CSV, TSV (also .gz), Parquet or Feather file by its name; return the number of rows."""
    check_name(str(path))
    format = format_of(str(path))
    if format.is_arrow:
        require_pyarrow(str(path))
        with replacing(path) as temporary, temporary.open("xb") as file:
            return _write_arrow(chunks, file, format)
    with replacing(path) as temporary, _open_text(temporary, format) as file:
        return write_text(chunks, file, format.separator)


def write_text(chunks: Iterator[pd.DataFrame], file: IO[str], separator: str = ",") -> int:
    """Write each chunk as soon as it is known, after one header; return the number of rows."""
    rows = 0
    for chunk in chunks:
        if rows == 0:
            csv.writer(file, delimiter=separator, lineterminator="\n").writerow(chunk.columns)
        file.write(_lines(chunk, separator))
        rows += len(chunk)
    return rows


def _is_same_file(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))


def _open_text(path: Path, format: Format) -> IO[str]:
    if format.is_packed:
        return gzip.open(path, "xt", compresslevel=6, encoding="utf-8", newline="")
    return path.open("x", encoding="utf-8", newline="")


def _lines(chunk: pd.DataFrame, separator: str) -> str:
    """Return the rows as text; every number has the fewest digits that restore it exactly."""
    columns = [_cells(chunk[name], separator) for name in chunk]
    return "\n".join(map(separator.join, zip(*columns, strict=True))) + "\n"


def _cells(column: pd.Series[Any], separator: str) -> list[str]:
    """Return the cells of a column as text: missing values are empty, text is quoted where needed."""
    if column.dtype != np.float64:
        present = zip(column.tolist(), column.notna(), strict=True)
        return [_quoted(str(value), separator) if is_there else "" for value, is_there in present]
    texts = _texts(column.to_numpy())
    for i in np.flatnonzero(column.isna()):
        texts[i] = ""
    return texts


def _quoted(text: str, separator: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in (separator, '"', "\n", "\r")) else text


def _texts(values: NDArray[np.float64]) -> list[str]:
    """Return repr of every number; pyarrow, where its text is equal to repr, takes a third of the time."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return list(map(repr, values.tolist()))
    texts: list[str] = pa.array(values).cast(pa.string()).to_pylist()
    size = np.abs(values)
    for i in np.flatnonzero(~((size >= 1e-4) & (size < 1e10) & (size != np.floor(size)))):
        texts[i] = repr(float(values[i]))
    return texts


def _write_arrow(chunks: Iterator[pd.DataFrame], file: IO[bytes], format: Format) -> int:
    import pyarrow as pa

    rows = 0
    with ExitStack() as stack:
        writer: Any = None
        for chunk in _grouped(chunks):
            table = pa.Table.from_pandas(chunk, preserve_index=False)
            if writer is None:
                schema = table.schema
                writer = stack.enter_context(_arrow_writer(file, schema, format))
            writer.write_table(table.cast(schema))  # a chunk of integers with missing values is float64
            rows += len(chunk)
    return rows


def _arrow_writer(file: IO[bytes], schema: Any, format: Format) -> Any:
    if format.kind == "parquet":
        from pyarrow.parquet import ParquetWriter  # type: ignore[import-untyped,unused-ignore]

        return ParquetWriter(file, schema)
    import pyarrow as pa

    return pa.ipc.new_file(file, schema)


def _grouped(chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield the rows in chunks of at least GROUP_ROWS rows, except the last chunk."""
    waiting: list[pd.DataFrame] = []
    for chunk in chunks:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            yield pd.concat(waiting)
            waiting = []
    if waiting:
        yield pd.concat(waiting)
