"""Whether Spark's tasks see a folder of this machine, and may write there: on other machines a path may lead to nothing.

Tasks that find no file would say that it is gone, and tasks that write would each leave files on a disk of their own, of which
the table's log then tells what nobody finds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa

from engine.runtime.spark.masters import is_local
from engine.runtime.spark.probe import collect_task_answers, encode_findings
from engine.runtime.spark.session import EngineSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD_BYTES = 1 << 16
"""So much of a file tells it from another one of its name."""
_SHARE = "take a bucket (s3://bucket/prefix), or a folder that all machines have at the same path"
_ALLOW = "give the user of the executors the right to, or name another folder"


class FolderFault(NamedTuple):
    """What keeps tasks from a folder, and what to do."""

    what: str
    now: str

    def __str__(self) -> str:
        return f"{self.what}: {self.now}"


class FolderFindings(msgspec.Struct, frozen=True):
    """What one task found on its machine: whether the file is there as it is here, and whether the folder takes others."""

    host: str
    sees: bool
    writes: bool


@dataclass(frozen=True)
class FolderProbe:
    """The body of the job: each task looks for a file by its path and what it begins with."""

    path: str
    digest: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tell what this machine has there."""
        for _ in batches:
            pass
        path = Path(self.path)
        try:
            sees = compute_file_digest(path) == self.digest
        except OSError:
            sees = False
        yield encode_findings(FolderFindings(socket.gethostname(), sees, can_write(path.parent)))


def is_in_this_process(session: SparkSession) -> bool:
    """Tell whether the tasks of a session run in this process, and so see what it sees."""
    spark = EngineSpark.of(session)
    return spark.is_in_process and is_local(spark.master)


def find_visibility_fault(session: SparkSession, folder: Path, file: str) -> FolderFault | None:
    """Return why tasks don't see a folder by a file that is in it, None if they do; raises OSError if it is not in it here.

    Where tasks run in this process nothing is asked.
    """
    return None if is_in_this_process(session) else _find_fault(session, folder, file, writes=False)


def find_sharing_fault(session: SparkSession, folder: Path) -> FolderFault | None:
    """Return why tasks can't write to a folder, None if they can; of one that is not there the nearest above it is asked.

    Where they do not run in this process a small file is in it for as long as they look.
    """
    if is_in_this_process(session):
        return None
    folder = find_nearest_folder(folder)
    mark = folder / f".tideline-probe-{uuid.uuid4()}"
    try:
        mark.write_text(mark.name)
    except OSError as error:
        return FolderFault(f"{folder} can't be written: {error.strerror}", "name a folder that can")
    try:
        return _find_fault(session, folder, mark.name, writes=True)
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def find_nearest_folder(folder: Path) -> Path:
    """Return the folder itself, or the first one above it that is there: in which it would be made."""
    return next((one for one in (folder, *folder.parents) if one.exists()), folder)


def can_write(folder: Path) -> bool:
    """Tell whether this process may make files and folders in a folder."""
    effective = os.access in os.supports_effective_ids
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=effective)


def compute_file_digest(path: Path) -> str:
    """Return a text that is another one where a file's size is, or what it begins with."""
    with open(path, "rb") as file:
        return f"{os.fstat(file.fileno()).st_size} {hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()}"


def _find_fault(session: SparkSession, folder: Path, file: str, *, writes: bool) -> FolderFault | None:
    spark, path = EngineSpark.of(session), folder / file
    body = FolderProbe(str(path), compute_file_digest(path))
    for found in collect_task_answers(spark, spark.master, body):
        sight = msgspec.json.decode(found, type=FolderFindings)
        where = f"the executor on {sight.host} of {spark.master}"
        if not sight.sees:
            return FolderFault(f"{where} does not see {folder}, a folder of this machine", _SHARE)
        if writes and not sight.writes:
            return FolderFault(f"{where} may not write to {folder}", _ALLOW)
    return None
