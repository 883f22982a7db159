"""Atomic writing of files: a file gets its name only when it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".salsa-"  # prefix of the names of incomplete files


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path if a file can be written or replaced there; otherwise raise an error that names the obstacle."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file: give the name of a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file and would be replaced: choose another name")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.resolve().parent}; make it first")
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder; the file written there replaces `path`, or is removed after an error.

    The file is synchronised to disk before it is renamed: kill -9 or a power cut leaves the old file or the new one.
    """
    path = Path(os.path.realpath(checked_path(path)))
    temporary = path.with_name(TEMPORARY + secrets.token_hex(8))
    try:
        yield temporary
        _sync(temporary, os.O_RDWR)  # Windows cannot sync a file that is open for reading only
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some systems cannot open folders
        _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, mode: int) -> None:
    """Write a file, or the entries of a folder, through to the disk."""
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
