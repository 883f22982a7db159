"""Model files: a zip of one JSON header and plain arrays. Written whole or not at all; reading executes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "salsa-model"
VERSION = 2
MAX_BYTES = 16 * 2**30
_HEADER = "header.json"
_MAX_HEADER_BYTES = 64 * 2**20


def write_archive(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write header and arrays to `path`, through a temporary file beside it that takes its place when complete."""
    blobs = {name: _to_bytes(array) for name, array in arrays.items()}
    checksums = {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()}
    text = json.dumps({"format": FORMAT, "version": VERSION, "checksums": checksums, **header}, allow_nan=False)
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file and would be replaced: choose another name")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_HEADER, text)
            for name, blob in blobs.items():
                archive.writestr(f"{name}.npy", blob)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_archive(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a model file; ValueError where it is damaged, foreign, oversized or from a newer version."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, path, max_bytes)
            header = _check_header(json.loads(archive.read(_HEADER)), path)
            expected = {f"{name}.npy" for name in header["checksums"]} | {_HEADER}
            if set(archive.namelist()) != expected:
                raise ValueError("its contents are not those its header lists")
            arrays = {
                name: _from_bytes(archive.read(f"{name}.npy"), digest) for name, digest in header["checksums"].items()
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        UnicodeDecodeError,
        json.JSONDecodeError,
        EOFError,
        NotImplementedError,
    ) as error:
        raise ValueError(f"{path} is not a complete salsa model file ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return header, arrays


def _check_sizes(archive: zipfile.ZipFile, path: str | os.PathLike[str], max_bytes: int) -> None:
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sum(sizes.values()) > max_bytes or sizes.get(_HEADER, 0) > _MAX_HEADER_BYTES:
        raise ValueError(f"it unpacks to {sum(sizes.values())} bytes, more than the limit of {max_bytes}")


def _check_header(header: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("checksums"), dict):
        raise ValueError("it is not a salsa model file")
    if not isinstance(header.get("version"), int) or header["version"] > VERSION:
        raise ValueError(
            f"it has format version {header.get('version')}, this salsa reads up to {VERSION}: update salsa-learn"
        )
    return header


def _to_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _from_bytes(blob: bytes, digest: str) -> NDArray[Any]:
    if hashlib.sha256(blob).hexdigest() != digest:
        raise ValueError("an array does not match its checksum")
    array: NDArray[Any] = np.load(io.BytesIO(blob), allow_pickle=False)
    return array


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
