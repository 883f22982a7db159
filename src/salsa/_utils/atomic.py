"""Files that take their name when they are complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".salsa-"  # begins the names of files that are not complete


def checked_path(path: str | os.PathLike[str]) -> Path:
    """A path where a file can be written, or replaced; an error that says what is in the way."""
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
    """A new name beside the path; the file of this name takes the path's when complete, or is removed.

    It is on the disk before it takes the place, so that kill -9 or a power cut leave the old file or the new one.
    """
    path = Path(os.path.realpath(checked_path(path)))
    temporary = path.with_name(TEMPORARY + secrets.token_hex(8))
    try:
        yield temporary
        _sync(temporary, os.O_RDWR)  # Windows refuses for what is open for reading alone
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not everywhere can folders be opened for that
        _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, mode: int) -> None:
    """Put a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
