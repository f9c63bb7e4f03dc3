"""What the files have in common that are read as something else than they are stored: in one go, or again from the start."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import BinaryIO


class RewindableFile(io.RawIOBase):
    """A file that gives other bytes than `_file`; `_at` counts them, and `_restart` begins anew with the first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at = file, 0
        self._rewind()

    @abstractmethod
    def _rewind(self) -> None:
        """Begin with the first byte of the file, which is where it stands."""

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, to its start."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go back to the start; raises UnsupportedOperation for any other place."""
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("this file is read from its start on")
        self._file.seek(0)
        self._at = 0
        self._rewind()
        return 0
