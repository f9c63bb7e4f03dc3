"""One landing file, opened safely and read batch by batch into the types of its table, whatever is in it."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.connectors import csv_files, json_files, parquet_process
from engine.connectors.confinement import allowed_path
from engine.connectors.file_formats import BadLine, FileOptions, FileRows, MalformedFile, format_of
from engine.connectors.landing_rows import LandedRows, Target, land
from engine.connectors.read_limits import ReadLimits
from engine.errors import PathNotAllowed

_LOG = logging.getLogger(__name__)
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ESTALE, errno.ETIMEDOUT}
"""What says something of the machine and its state, and nothing of the file: it is left for the next poll."""


class NotNow(Exception):
    """A file is gone, was changed while it was read, or can't be read at the moment; the next poll looks again.

    `told` says why, where somebody should know.
    """

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told)
        self.told = told


@dataclass(frozen=True)
class ReadBatch:
    """Rows of a file and what was set aside with them; `taken` counts the file's records up to here.

    `last` is the one after which nothing of the file follows.
    """

    landed: LandedRows | None
    bad: tuple[BadLine, ...]
    taken: int
    last: bool = False


def read_landing_file(
    folder: Path, path: str, options: FileOptions, limits: ReadLimits, target: Callable[[], Target], skip: int
) -> Iterator[ReadBatch]:
    """Yield a file's rows from record `skip` on, and a last batch without rows, which tells what is wrong with the file.

    Raises NotNow, and what `target` raises; everything else that goes wrong with the file is told in the last batch.
    """
    taken = skip
    reason: str | None = None
    try:
        with _opened(folder / path, folder) as file:
            batches = _batches(file, path, options, limits, skip)
            while (rows := next(batches, None)) is not None:
                landed = _landed(rows, target(), path)
                taken += rows.records
                yield ReadBatch(landed, landed.bad, taken)
    except (MalformedFile, PathNotAllowed) as error:
        reason = str(error)
    except FileNotFoundError:
        raise NotNow from None
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise NotNow(f"the file can't be read now: {error.strerror}") from None
        reason = f"the file can't be read: {error.strerror or error}"
    yield ReadBatch(None, () if reason is None else (BadLine(0, reason, ""),), taken, last=True)


def _opened(path: Path, folder: Path) -> BinaryIO:
    """Open a file that stands in the folder, links resolved; never waits for a pipe that took its place."""
    found = allowed_path(path, folder.resolve())
    number = os.open(found, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise MalformedFile("it is no file any more")
    return os.fdopen(number, "rb")


def _batches(
    file: BinaryIO, path: str, options: FileOptions, limits: ReadLimits, skip: int
) -> Iterator[FileRows]:
    """Yield what the file's format makes of it; what nobody expected is told as a malformed file."""
    try:
        match format_of(path, options):
            case "csv":
                yield from csv_files.read(file, options, limits, skip)
            case "json":
                yield from json_files.read(file, options, limits, skip)
            case _:
                yield from parquet_process.read(file, options, limits, skip)
    except (MalformedFile, OSError):
        raise
    except Exception as error:
        raise _unexpected(error, path) from error


def _landed(rows: FileRows, target: Target, path: str) -> LandedRows:
    try:
        return land(rows, target)
    except MalformedFile:
        raise
    except Exception as error:
        raise _unexpected(error, path) from error


def _unexpected(error: Exception, path: str) -> MalformedFile:
    _LOG.exception("the landing file %s was set aside", ascii(path))
    return MalformedFile(f"the file can't be read: {type(error).__name__}: {error}")
