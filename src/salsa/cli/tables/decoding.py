"""Bytes of a file as text: UTF-8, UTF-16 with a byte-order mark, and Windows-1252 where the bytes are no UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import Any

HEAD_CHARACTERS = 2**16  # of a file, by which separators and the header are found
UTF8, UTF16, WINDOWS = "UTF-8", "UTF-16", "Windows-1252"
_MARKS = {codecs.BOM_UTF8: UTF8, codecs.BOM_UTF16_LE: UTF16, codecs.BOM_UTF16_BE: UTF16}
_BLOCK = 2**18


def _windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are no UTF-8 as Windows-1252; its five undefined bytes as Latin-1."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(_character(byte) for byte in wrong), error.end


def _character(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


codecs.register_error("salsa.windows", _windows)


class DecodedText(io.TextIOBase):
    """The text of a file that is open for bytes, decoded in one pass; `encoding_found` is known at its end."""

    def __init__(self, file: Any, first: bytes) -> None:
        self._file = file
        mark = next((mark for mark in _MARKS if first.startswith(mark)), b"")
        self.encoding_found = _MARKS.get(mark, UTF8)
        self.has_mark = bool(mark)
        name = "utf-16" if self.encoding_found == UTF16 else "utf-8-sig"
        self._decoder = codecs.getincrementaldecoder(name)()
        self._waiting = ""  # text that was looked at, and not read yet
        self._is_at_end = False

    def head(self) -> str:
        """Return the beginning of the text without reading it: three lines or more, or all of a short text."""
        while not self._is_at_end and (len(self._waiting) < HEAD_CHARACTERS or self._waiting.count("\n") < 3):
            self._waiting += self._decoded(HEAD_CHARACTERS)
        return self._waiting

    @property
    def is_whole(self) -> bool:
        """Whether the head is the whole text."""
        return self._is_at_end

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> str:
        if size is None or size < 0:
            parts = [self._waiting]
            self._waiting = ""
            while not self._is_at_end:
                parts.append(self._decoded(_BLOCK))
            return "".join(parts)
        while not self._waiting and not self._is_at_end:
            self._waiting = self._decoded(size)
        text, self._waiting = self._waiting[:size], self._waiting[size:]
        return text

    def lines(self) -> Iterator[str]:
        """Yield the lines, each with its end."""
        begun = ""
        while block := self.read(_BLOCK):
            *whole, begun = (begun + block).split("\n")
            yield from (f"{line}\n" for line in whole)
        if begun:
            yield begun

    def _decoded(self, size: int) -> str:
        """Return the next text; from the first bytes that are no UTF-8 on, such bytes are Windows-1252."""
        block = self._file.read(size)
        self._is_at_end = not block
        try:
            return self._decoder.decode(block, final=self._is_at_end)
        except UnicodeDecodeError:
            if self.encoding_found != UTF8:
                raise
            before, self.encoding_found = self._decoder.getstate()[0], WINDOWS
            self._decoder = codecs.getincrementaldecoder("utf-8")("salsa.windows")
            return self._decoder.decode(before + block, final=self._is_at_end)
