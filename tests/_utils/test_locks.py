"""Locks of files: by flock on POSIX systems, by a byte of the file on Windows."""

import struct
import sys
from types import SimpleNamespace

import pytest

from salsa._utils.locks import LOCKED_BYTE, locked

fcntl = pytest.importorskip("fcntl", reason="Windows has one kind of lock; the others are tried elsewhere")


def locking(descriptor, mode, count):
    """Lock bytes from the file's position on, as msvcrt.locking does: by Linux' locks of an open file."""
    span = struct.pack("hhqqi4x", mode, 1, 0, count, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, span)
    except BlockingIOError as error:
        raise PermissionError(*error.args) from None


@pytest.fixture(params=["flock", "byte"])
def lock(request, monkeypatch):
    if request.param == "byte":
        if not hasattr(fcntl, "F_OFD_SETLK"):
            pytest.skip("this system cannot lock bytes of an open file")
        windows = SimpleNamespace(locking=locking, LK_NBLCK=fcntl.F_WRLCK, LK_UNLCK=fcntl.F_UNLCK)
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", windows)
    return locked


@pytest.fixture
def path(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"a\n")
    return tmp_path / "rows.csv"


def test_a_second_holder_is_refused_until_the_first_is_done(lock, path):
    with path.open("r+b") as one, path.open("r+b") as two:
        with lock(one):
            with pytest.raises(BlockingIOError), lock(two):
                pass
            with pytest.raises(BlockingIOError), lock(two):  # the refusal released nothing
                pass
        with lock(two), pytest.raises(BlockingIOError), lock(one):
            pass


def test_an_error_of_the_holder_releases_the_lock(lock, path):
    with path.open("r+b") as one, path.open("r+b") as two:
        with pytest.raises(KeyError), lock(one):
            raise KeyError
        with lock(two):
            pass


def test_a_closed_file_is_not_locked(lock, path):
    with path.open("r+b") as one:
        lock(one).__enter__()
    with path.open("r+b") as two, lock(two):
        pass


def test_the_locked_file_is_read_and_written_where_it_was(lock, path):
    with path.open("r+b") as file:
        assert file.read(1) == b"a"
        with lock(file):
            assert file.read() == b"\n"
            assert path.read_bytes() == b"a\n"  # others may read
            file.write(b"b\n")
        file.write(b"c\n")
    assert path.read_bytes() == b"a\nb\nc\n"
    assert path.stat().st_size < LOCKED_BYTE
