"""Text files in other encodings, read as UTF-8: what the encoding has not becomes what UTF-8 has not, so its line is reported."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO

from engine.connectors.formats.rewindable_file import RewindableFile

_BUFFER = 1 << 16
_NO_TEXT = "\udcfe"
"""Written as the byte 0xfe, which stands nowhere in UTF-8."""


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _NO_TEXT, error.end


codecs.register_error("tideline.no_text", _mark_undecodable)


def find_encoding(name: str) -> str | None:
    """Return what Python calls an encoding of text, None if it has none of that name."""
    try:
        found = codecs.lookup(name)
        return found.name if found._is_text_encoding else None
    except LookupError:
        return None


def as_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    """Return a file as UTF-8, to be read on or again from its start."""
    return io.BufferedReader(_Utf8File(file, encoding), _BUFFER)


class _Utf8File(RewindableFile):
    """Decodes as much as it is asked for."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._encoding, self._pending, self._ended = encoding, b"", False
        super().__init__(file)

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what BufferedReader gives
        while not self._pending and not self._ended:
            block = self._file.read(_BUFFER)
            self._ended = not block
            text = self._decoder.decode(block, final=self._ended)
            self._pending = text.encode("utf-8", "surrogateescape")
        size = min(len(buffer), len(self._pending))
        buffer[:size] = self._pending[:size]
        self._pending = self._pending[size:]
        self._at += size
        return size

    def _rewind(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)("tideline.no_text")
        self._pending, self._ended = b"", False
