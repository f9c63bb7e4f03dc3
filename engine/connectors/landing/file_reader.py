"""One landing file, opened safely and read batch by batch into the types of its table, whatever is in it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from engine.connectors.formats import csv_reader, json_reader, parquet_process, parquet_reader
from engine.connectors.formats.compression import open_decompressed
from engine.connectors.formats.encoding import as_utf8
from engine.connectors.formats.file_format import (
    BadLine,
    FileOptions,
    FileRows,
    MalformedFile,
    detect_codec,
    detect_format,
)
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.partition_folders import parse_folder_values
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.place import LandingPlace
from engine.connectors.landing.rows import LandedRows, LandingTarget, land_rows
from engine.errors import PathNotAllowed, StorageError, Unavailable

_LOG = logging.getLogger(__name__)
_OF_THE_MACHINE = ("EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ESTALE", "ETIMEDOUT", "ENOSPC", "EDQUOT")
_SHORTAGES = {getattr(errno, name) for name in _OF_THE_MACHINE}
"""What says something of the machine and its state, and nothing of the file: it is left for the next poll."""


class FileNotReady(Exception):
    """A file is gone, was changed while it was read, or can't be read at the moment; the next poll looks again.

    `told` says why, where somebody should know. A place that does not answer is `silent`: what lies behind the file waits, too.
    """

    def __init__(self, reason: str | None = None, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.silent = reason, silent

    @classmethod
    def from_storage_error(cls, error: StorageError) -> FileNotReady:
        """Return what is reported where a bucket can't be read."""
        return cls(str(error), silent=isinstance(error, Unavailable))


@dataclass(frozen=True)
class FileBatch:
    """Rows of a file and what was set aside with them; `taken` counts the file's records up to here.

    `last` is the one after which nothing of the file follows. It is `refused` if it is not the content that is wrong: the place
    or the machine doesn't let the file be read.
    """

    landed: LandedRows | None
    bad: tuple[BadLine, ...]
    position: int
    last: bool = False
    refused: bool = False


def read_landing_file(
    place: LandingPlace,
    found: PendingFile,
    options: FileOptions,
    limits: ReadLimits,
    target: Callable[[], LandingTarget],
    skip: int,
) -> Iterator[FileBatch]:
    """Yield a file's rows from record `skip` on, and a last batch without rows, which tells what is wrong with the file.

    Raises NotNow, and what `target` raises; everything else that goes wrong with the file is reported in the last batch.
    """
    position, path = skip, found.place_path
    reason: str | None = None
    refused = False
    handed_on = options.row_groups is None and detect_format(path, options) == "parquet"
    try:
        folders = parse_folder_values(path)
        with place.open(path, found.size, handed_on=handed_on) as file:
            codec = detect_codec(path)
            text = file if codec is None else open_decompressed(file, codec, found.size, limits)
            if options.encoding is not None and detect_format(path, options) != "parquet":
                text = as_utf8(text, options.encoding)
            batches = _read_batches(text, path, options.adapt_to_file(path), limits, skip)
            while (rows := next(batches, None)) is not None:
                landed = _land_rows(replace(rows, folders=folders), target(), path)
                position += rows.records
                yield FileBatch(landed, landed.bad, position)
    except MalformedFile as error:
        reason = str(error)
    except PathNotAllowed as error:
        reason, refused = str(error), True
    except FileNotFoundError:
        raise FileNotReady from None
    except StorageError as error:  # of a bucket: says nothing of what is in the file
        raise FileNotReady.from_storage_error(error) from error
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise FileNotReady(f"the file can't be read now: {error.strerror}") from None
        reason, refused = f"the file can't be read: {error.strerror or error}", True
    bad = () if reason is None else (BadLine(0, reason, ""),)
    yield FileBatch(None, bad, position, last=True, refused=refused)


def _read_batches(
    file: BinaryIO, path: str, options: FileOptions, limits: ReadLimits, skip: int
) -> Iterator[FileRows]:
    """Yield what the file's format makes of it; what nobody expected is reported as a malformed file."""
    try:
        match detect_format(path, options):
            case "csv":
                yield from csv_reader.read_csv(file, options, limits, skip)
            case "json":
                yield from json_reader.read_json(file, options, limits, skip)
            case _ if options.row_groups is not None:
                yield from parquet_reader.read_parquet(file, options, limits, skip)
            case _:
                yield from parquet_process.read_in_process(file, options, limits, skip)
    except (MalformedFile, OSError, StorageError):
        raise
    except Exception as error:
        raise _build_malformed(error, path) from error


def _land_rows(rows: FileRows, target: LandingTarget, path: str) -> LandedRows:
    try:
        return land_rows(rows, target)
    except MalformedFile:
        raise
    except Exception as error:
        raise _build_malformed(error, path) from error


def _build_malformed(error: Exception, path: str) -> MalformedFile:
    _LOG.exception("the landing file %s was set aside", ascii(path))
    return MalformedFile(f"the file can't be read: {type(error).__name__}: {error}")
