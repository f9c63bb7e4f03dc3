"""Text files that are compressed as a whole, read as they are unpacked: no more is held than of others."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO

import pyarrow as pa

from engine.connectors.formats.file_format import Codec, MalformedFile
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.formats.rewindable_file import RewindableFile

_BUFFER = 1 << 16


def open_decompressed(file: BinaryIO, codec: Codec, stored: int, limits: ReadLimits) -> BinaryIO:
    """Return what a file of `stored` bytes holds, to be read on or again from its start; reading raises MalformedFile for a bomb.

    What is damaged or cut off raises OSError once that place is read.
    """
    return io.BufferedReader(_DecompressedFile(file, codec, stored, limits), _BUFFER)


class _DecompressedFile(RewindableFile):
    """Unpacks as much as it is asked for."""

    def __init__(self, file: BinaryIO, codec: Codec, stored: int, limits: ReadLimits) -> None:
        self._codec, self._stored, self._limits = codec, stored, limits
        super().__init__(file)

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what BufferedReader gives
        try:
            data = self._read(len(buffer))
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from error
        buffer[: len(data)] = data
        self._at += len(data)
        if self._limits.is_bomb(self._at, self._stored):
            raise MalformedFile(self._limits.describe_bomb(self._at, self._stored))
        return len(data)

    def _read(self, size: int) -> bytes:
        """Return some bytes; of what is damaged all that lies before the damage."""
        return (
            self._stream.read1(size) if isinstance(self._stream, gzip.GzipFile) else self._stream.read(size)
        )

    def _rewind(self) -> None:
        self._stream = self._open_stream()

    def _open_stream(self) -> pa.CompressedInputStream | gzip.GzipFile:
        if (
            self._codec == "gzip"
        ):  # Arrow takes zeros behind the end, with which tapes and blocks are filled, for damage
            return gzip.GzipFile(fileobj=_UnclosedFile(self._file), mode="rb")
        return pa.CompressedInputStream(pa.PythonFile(_UnclosedFile(self._file), mode="r"), self._codec)


class _UnclosedFile(io.RawIOBase):
    """A file that Arrow does not close: it may be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        return None
