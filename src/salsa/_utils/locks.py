"""Locks of files between processes, on POSIX systems and on Windows; the system releases them when a process ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

LOCKED_BYTE = 2**31 - 2  # Windows forbids others to read a locked byte: this one lies beyond the end of every file


@contextmanager
def locked(file: BinaryIO) -> Iterator[None]:
    """Hold the lock of an open file; raise BlockingIOError at once if someone else holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        with _locked_byte(file):
            yield
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def _locked_byte(file: BinaryIO) -> Iterator[None]:
    """Hold the lock of one byte of the file, as Windows does it; the position in the file stays as it was."""
    import msvcrt

    windows: Any = msvcrt  # its functions are declared on Windows only
    try:
        _at_locked_byte(file, windows.locking, windows.LK_NBLCK)
    except PermissionError as error:
        raise BlockingIOError(*error.args) from error
    try:
        yield
    finally:
        _at_locked_byte(file, windows.locking, windows.LK_UNLCK)


def _at_locked_byte(file: BinaryIO, locking: Any, mode: int) -> None:
    file.flush()
    position = file.tell()
    file.seek(LOCKED_BYTE)
    try:
        locking(file.fileno(), mode, 1)
    finally:
        file.seek(position)
