"""Model files: zips of a JSON header and plain arrays, written whole or not at all. Reading executes nothing.

The zip's comment is the digest of the header, which holds the digests of the arrays. Memory is bounded before it is
allocated; docs/serving.md has the limits.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from salsa._utils.atomic import replacing

Arrays = Mapping[str, NDArray[np.float64]]

FORMAT = "salsa-model"
VERSION, OLDEST = 7, 2  # the newest and the oldest format; docs/decisions.md says how they differ
UNPACKED, RATIO = 2**28, 32  # a file unpacks to at most so many bytes, or so many times its size if that is more
MEMBERS, HEADER_BYTES = 64, 2**22  # at most; a header may have more bytes where the whole file has
_HEADER = "header.json"
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(?s:(..))\{'descr': '<f8', 'fortran_order': False, "
    rb"'shape': \(([1-9]\d{0,15}),(?: ([1-9]\d{0,15}))?\), \} *\n"
)
_WRONG = (ValueError, LookupError, TypeError, ArithmeticError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".feather")
NOT_A_TABLE = "it is named like a table; give the file that a fit was saved to (on the command line, before the table)"


class RefusedError(ValueError):
    """A file that may be whole, but is not for this salsa; the message says what to do."""


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Arrays, version: int = VERSION
) -> None:
    """Write header and arrays to `path`, marked as a format of this version: whole, or not at all."""
    blobs = {name: _to_bytes(array) for name, array in arrays.items()}
    checksums = {name: _digest(blob) for name, blob in blobs.items()}
    text = json.dumps({"format": FORMAT, "version": version, "checksums": checksums, **header}, allow_nan=False)
    members = {_HEADER: text.encode(), **{f"{name}.npy": blob for name, blob in blobs.items()}}
    with replacing(path) as temporary, open(temporary, "xb") as file:
        _write_zip(file, members)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a model file; raise ValueError if it is damaged, foreign, oversized or too new."""
    with naming(path), open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        return _contents(archive, file)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error in the contents of a model file into a ValueError that names the file and says what to do."""
    try:
        yield
    except RefusedError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read: {error}") from error
    except MemoryError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read: it needs more memory than there is; free some") from error
    except (OSError, *_WRONG) as error:
        if isinstance(error, OSError) and error.filename:  # there is no such file, it may not be read, ...
            raise
        reason = f"it lacks or misstates {error}" if isinstance(error, LookupError | TypeError) else error
        is_table = os.fspath(path).removesuffix(".gz").endswith(TABLES)
        advice = NOT_A_TABLE if is_table else "copy it again from where it came, or save the model again"
        raise ValueError(f"{os.fspath(path)} is damaged or not a salsa model file ({reason}): {advice}") from error


def entry(state: Any, name: str, kind: Any) -> Any:
    """Return state[name] if it is of this kind: a set of types, [kind] for a list, or a tuple of kinds for a row."""
    value = state.get(name) if isinstance(state, dict) else None
    if not _is_of(kind, value):
        raise ValueError(f"its header lacks or misstates {name!r}")
    return value


def _is_of(kind: Any, value: Any) -> bool:
    if isinstance(kind, set):
        return type(value) in kind  # so that True is no number
    if not isinstance(value, list):
        return False
    kinds = kind * len(value) if isinstance(kind, list) else kind
    return len(value) == len(kinds) and all(map(_is_of, kinds, value))


def _write_zip(file: IO[bytes], members: Mapping[str, bytes]) -> None:
    """Write a zip without dates; all but the header is compressed, unless reading would refuse such compression."""
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        file.seek(0)
        file.truncate()
        with zipfile.ZipFile(file, "w") as archive:
            for name, blob in members.items():
                archive.writestr(zipfile.ZipInfo(name), blob, zipfile.ZIP_STORED if name == _HEADER else method)
            archive.comment = _digest(members[_HEADER]).encode()
        if sum(map(len, members.values())) <= max(UNPACKED, RATIO * file.tell()):
            return


def _contents(archive: zipfile.ZipFile, file: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    _check_members(archive, file.seek(0, os.SEEK_END))
    members = {info.orig_filename: info for info in archive.infolist()}
    text = _unpacked(archive, members[_HEADER])
    header = _header(text)
    file.seek(-64, os.SEEK_END)
    if header["version"] > OLDEST and file.read() != _digest(text).encode():  # the zip's comment, and nothing after it
        raise ValueError("its header does not match its checksum")
    checksums = entry(header, "checksums", {dict})
    if set(members) != {_HEADER, *(f"{name}.npy" for name in checksums)}:
        raise ValueError("its contents are not those its header lists")
    blobs = ((name, _unpacked(archive, members[f"{name}.npy"])) for name in checksums)
    return header, {name: _from_bytes(name, blob, checksums[name]) for name, blob in blobs}


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Check names, kinds, places and unpacked sizes of the members, before anything is unpacked."""
    infos = archive.infolist()
    if not 0 < len(infos) <= MEMBERS or len({info.orig_filename for info in infos}) < len(infos):
        raise ValueError(f"it has no members, more than {MEMBERS}, or two of one name")
    for info in infos:
        name, mode = info.orig_filename[:99], info.external_attr >> 16
        if not re.fullmatch(r"[a-z_]+\.(json|npy)", name) or stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise ValueError(f"its member {name!r} is not one of a model")
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its member {name!r} is encrypted, or compressed by other means than deflate")
    starts = sorted((i.header_offset, i.header_offset + 30 + len(i.orig_filename) + i.compress_size) for i in infos)
    if starts[0][0] or any(end > start for (_, end), (start, _) in pairwise([*starts, (archive.start_dir, 0)])):
        raise ValueError("its members overlap, or something comes before them")
    unpacked = sum(info.file_size for info in infos)
    header = sum(info.file_size for info in infos if info.filename == _HEADER)
    if unpacked > max(UNPACKED, RATIO * size) or header > max(HEADER_BYTES, size):
        problem = f"its {size} bytes would unpack to {unpacked}, more than a model's do"
        raise RefusedError(f"{problem}; if you trust it, unzip it and zip it again without compression (zip -0)")


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a member, at most as many bytes of it as the directory says."""
    with archive.open(info) as member:
        return member.read(info.file_size)


def _header(text: bytes) -> dict[str, Any]:
    header = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_number)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise RefusedError("it is not a salsa model file; SalsaRegressor.save writes those")
    if not OLDEST <= (version := entry(header, "version", {int})) <= VERSION:
        advice = "update salsa-learn" if version > VERSION else "fit the model again"
        raise RefusedError(f"it has format version {version}, this salsa reads {OLDEST} to {VERSION}: {advice}")
    return header


def _number(text: str) -> float:
    """Parse a number; refuse NaN, infinity and integers beyond float64, which Python's JSON accepts."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"its header has the number {text[:20]}")
    return int(text) if text.lstrip("-").isdigit() else number


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def _to_bytes(array: NDArray[np.float64]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array, dtype="<f8"), allow_pickle=False)
    return buffer.getvalue()


def _from_bytes(name: str, blob: bytes, digest: Any) -> NDArray[np.float64]:
    """Return the array of a .npy file, whose header must read as `_to_bytes` writes it: it is not evaluated."""
    if _digest(blob) != digest:
        raise ValueError(f"its array {name!r} does not match its checksum")
    if not (found := _NPY.match(blob)) or found.end() != 10 + int.from_bytes(found[1], "little"):
        raise ValueError(f"its array {name!r} is not one or two dimensions of float64")
    shape = [int(length) for length in found.groups()[1:] if length]
    if len(blob) != found.end() + 8 * math.prod(shape):
        raise ValueError(f"its array {name!r} does not fill its shape {shape}")
    return np.frombuffer(blob, "<f8", offset=found.end()).reshape(shape).astype(np.float64)
