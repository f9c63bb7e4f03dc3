"""The bytes of a text file block by block: no byte order mark, and every line ended by a newline."""

from __future__ import annotations

import codecs
from typing import BinaryIO

import numpy as np

from engine.connectors.formats.file_format import MalformedFile

_WIDE = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the marks that files in them begin with, the longer ones first."""
LF, CRLF, CR = 0, 1, 2
"""What a newline of a block was in the file."""
_NEWLINE, _RETURN = ord("\n"), ord("\r")


class TextBlocks:
    """Reads a file in blocks; of a line longer than `longest` only one byte more is kept, the rest is skipped.

    `breaks` says of each newline of the last block what it was in the file.
    """

    def __init__(self, file: BinaryIO, block: int, longest: int | None = None) -> None:
        self._file, self._block, self._longest = file, max(block, 4), longest
        self._held = b""  # a carriage return whose newline may come with the next block
        self._line = 0  # the length of the line that the last block ended in
        self._begun = self._ended = False
        self.breaks = np.zeros(0, np.uint8)

    def read_block(self) -> bytes:
        """Return the next block, b"" at the end; the last one ends with a newline. Raises MalformedFile for UTF-16 and UTF-32."""
        while not self._ended:
            data = self._held + self._read_raw()
            self._held = b""
            if data.endswith(b"\r") and not self._ended:
                data, self._held = data[:-1], b"\r"
            self.breaks = _find_breaks(data)
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            data = self._trim_long_line(data)
            if self._ended and self._line:
                data, self._line = data + b"\n", 0
                self.breaks = np.append(self.breaks, np.uint8(LF))
            if data:
                return data
        return b""

    def _read_raw(self) -> bytes:
        data = self._file.read(self._block)
        self._ended = not data
        if self._begun:
            return data
        self._begun = True
        if (wide := _wide_encoding(data)) is not None:
            told = f"the file is {wide.upper()[:6]}: give its table the option encoding = '{wide}', or write it as UTF-8"
            raise MalformedFile(told)
        return data.removeprefix(codecs.BOM_UTF8)

    def _trim_long_line(self, data: bytes) -> bytes:
        """Cut the line that goes on from the block before, and keep count of the one that goes on after this one."""
        newline = data.find(b"\n")
        head = len(data) if newline < 0 else newline
        if self._longest is not None and self._line + head > self._longest + 1:
            room = max(self._longest + 1 - self._line, 0)
            data, head = data[:room] + data[head:], room
        self._line = self._line + head if newline < 0 else len(data) - data.rfind(b"\n") - 1
        return data


def _wide_encoding(data: bytes) -> str | None:
    """Return the encoding of a text whose characters have two or four bytes, by its mark or the zeros in its first ones."""
    marked = next((name for mark, name in _WIDE.items() if data.startswith(mark)), None)
    if marked is not None or len(data) < 4:
        return marked
    zeros = [byte == 0 for byte in data[:4]]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False, True, False] else None


def _find_breaks(data: bytes) -> np.ndarray:
    """Return what each line of a text ends with; a carriage return at the end stands alone."""
    if b"\r" not in data:
        return np.zeros(data.count(b"\n"), np.uint8)
    codes = np.frombuffer(data, np.uint8)
    returns, newlines = codes == _RETURN, codes == _NEWLINE
    pairs = returns[:-1] & newlines[1:]
    kinds = np.where(newlines, np.uint8(LF), np.uint8(CR))
    kinds[:-1][pairs] = CRLF
    ends = returns | newlines
    ends[1:][pairs] = False  # the newline of a pair is no end of its own
    found: np.ndarray = kinds[ends]
    return found
