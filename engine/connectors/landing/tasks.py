"""Many bytes of landing files read by Spark's tasks: their rows become files of the table and never pass through this process.

The first job reads: a task takes a *share*, files or row groups that follow each other, as a poll by itself would, leaves rows in
spill files in the order of the files, and answers with what it set aside. The second sorts the rows and writes them. Shares are
numbered in the order of the files, so that of several rows of a key the last one counts, as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from engine.arrow import as_values, repeat_value
from engine.connectors.formats.file_format import BadLine, FileOptions, detect_format, format_raw
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.file_reader import FileNotReady, read_landing_file
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.place import LandingPlace
from engine.connectors.landing.rows import LandedRows, LandingTarget
from engine.errors import TidelineError
from engine.hummock import Hummock, Reader, SstInfo, TableVersion
from engine.runtime.mebibytes import MebibyteSetting
from engine.runtime.writes.change_tasks import ChangeResult, WriteChanges
from engine.runtime.writes.key_order import sort_by_key
from engine.runtime.writes.spill import (
    ANSWER_SCHEMA,
    PLACE,
    SPILL_BYTES,
    SpilledRows,
    collect_answers,
    encode_answer,
    write_spill,
)
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.column_names import ADDED
from engine.sql.expression.spark_sql import quote

SETTING = "TIDELINE_LANDING_TASKS_MB"
TASK_THRESHOLD = MebibyteSetting(SETTING, 1024.0)
"""From how many bytes of files on tasks read them."""
"""With two cores a poll by itself is faster, with more the tasks are."""
COMMIT_BYTES = 16 << 30
COMMIT_FILES = 10_000
"""One commit takes about so many bytes of files, and so many files, at most."""
SHARE_BYTES = 64 << 20
MOST_BAD_BYTES = 4 << 20
LETTER_BYTES = 256
"""What a task sets aside takes at most so much in its answer, each line so much besides its texts, and all answers together no
more than a poll holds; a file with more is read by the poll itself, which commits it part by part."""
FILE, GONE = f"{ADDED}file", f"{ADDED}gone"


class FilePart(msgspec.Struct, frozen=True):
    """A file by its number, or some row groups of it."""

    file: int
    groups: tuple[int, ...] = ()


class PartResult(msgspec.Struct):
    """What a task has read of a file: how many rows, the lines that were set aside, the columns that the table lacks.

    `late` tells why the file can't be taken now; with `overflows` there is more to set aside than the answer holds.
    """

    file: int
    rows: int = 0
    bad: list[tuple[int, str, str]] = []
    unknown: tuple[str, ...] = ()
    late: str | None = None
    overflows: bool = False


class ShareResult(msgspec.Struct):
    """What a task has read: of which files, and the spill files of the rows."""

    parts: list[PartResult]
    files: tuple[SstInfo, ...] = ()


@dataclass(frozen=True)
class FileReadPlan:
    """How the files of a place are read for a table."""

    place: LandingPlace
    options: FileOptions
    limits: ReadLimits
    target: LandingTarget


@dataclass(frozen=True)
class ReadShares:
    """A task's body: reads the shares whose numbers it gets, and spills their rows."""

    url: str
    options: dict[str, Any]
    reading: FileReadPlan
    files: tuple[PendingFile, ...]
    shares: tuple[tuple[FilePart, ...], ...]

    @property
    def bad_bytes_limit(self) -> int:
        """How many bytes a task's answer may hold of what it sets aside."""
        return min(MOST_BAD_BYTES, self.reading.limits.memory // max(len(self.shares), 1))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in as_values(batch.column(0)):
                yield encode_answer(self._read_share(number))

    def _read_share(self, number: int) -> ShareResult:
        spill, done, left = (
            _SpillWriter(Reader.open(self.url, self.options), number),
            ShareResult([]),
            self.bad_bytes_limit,
        )
        for part in self.shares[number]:
            read = self._read_part(part, spill, left)
            done.parts.append(read)
            if read.overflows:
                break  # the files behind this one come after it
            left -= _count_bytes(read.bad)
        done.files = spill.finish()
        return done

    def _read_part(self, part: FilePart, spill: _SpillWriter, most_bad: int) -> PartResult:
        done = PartResult(part.file)
        file, reading = self.files[part.file], self.reading
        options = replace(reading.options, row_groups=part.groups)
        read = read_landing_file(reading.place, file, options, reading.limits, lambda: reading.target, 0)
        try:
            current = reading.place.look_at(file.place_path)
            if (
                current is None or current.stamp != file.stamp
            ):  # on this machine there is none, or another one
                raise FileNotReady
            for batch in read:
                if batch.refused:  # to this machine
                    raise FileNotReady
                if batch.landed is not None:
                    done.rows += batch.landed.rows.num_rows
                    done.unknown = tuple(dict.fromkeys((*done.unknown, *batch.landed.unknown)))
                    spill.add_rows(part.file, batch.landed)
                bad_lines = [(bad.line, format_raw(bad.reason), format_raw(bad.raw)) for bad in batch.bad]
                most_bad -= _count_bytes(bad_lines)
                if most_bad < 0:
                    done.bad, done.overflows = [], True
                    break
                done.bad += bad_lines
        except FileNotReady as late:
            done.late = "" if late.silent else late.reason or ""
        return done


def _count_bytes(bad: Sequence[tuple[int, str, str]]) -> int:
    return sum(LETTER_BYTES + len(reason) + len(raw) for _, reason, raw in bad)


class _SpillWriter:
    """Rows of one share on their way into spill files."""

    def __init__(self, reader: Reader, share: int) -> None:
        self._reader, self._share = reader, share
        self._buffered: list[pa.Table] = []
        self._size = self._spilled_rows = 0
        self._files: list[SstInfo] = []

    def add_rows(self, file: int, landed: LandedRows) -> None:
        """Take rows of a file."""
        rows = landed.rows
        if not rows.num_rows:
            return
        names = [name for name in rows.column_names if name != ROW_ID]
        numbers = repeat_value(pa.scalar(file, pa.int32()), rows.num_rows)
        whole = rows.select(names).append_column(FILE, numbers)
        self._buffered.append(whole.append_column(GONE, pa.array(landed.deletes)))
        self._size += rows.nbytes
        if self._size > SPILL_BYTES:
            self._write_spill()

    def finish(self) -> tuple[SstInfo, ...]:
        """Write what is left, and return the files."""
        self._write_spill()
        return tuple(self._files)

    def _write_spill(self) -> None:
        if self._buffered:
            rows = pa.concat_tables(self._buffered)
            self._files += write_spill(self._reader, rows, self._share, self._spilled_rows)
            self._spilled_rows += rows.num_rows
        self._buffered, self._size = [], 0


@dataclass
class TaskLoad:
    """Files that tasks have read, by their numbers, and the spill files of their rows.

    Not committed are those that are `late`, each with a reason, those that are `left` to this process, and those that another
    poller has taken. Left are a file with too much to set aside, a torn one, one that only this machine has, and all behind it.
    """

    files: tuple[PendingFile, ...]
    parts: dict[int, list[PartResult]]
    spilled: SpilledRows
    late: dict[int, str] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    @property
    def committable(self) -> list[int]:
        """The files that can be committed."""
        return sorted(self.parts.keys() - self.late.keys() - self.left - self.lost)

    def leave(self, number: int) -> None:
        """Leave a file, and those that come after it, to this process."""
        self.left.update(range(number, len(self.files)))
        for one in self.left:
            self.late.pop(one, None)

    def count_rows(self, number: int) -> int:
        """Return how many rows a file has."""
        return sum(part.rows for part in self.parts[number])

    def list_bad_lines(self, number: int) -> list[BadLine]:
        """Return what was set aside of a file; what each part of it says of the whole is said once."""
        whole = dict.fromkeys(self._list_faults(number))
        return [BadLine(*line) for part in self.parts[number] for line in part.bad if line[0]] + [
            BadLine(*line) for line in whole
        ]

    def is_torn(self, number: int) -> bool:
        """Tell whether a part of a file can't be read and others can: what lies behind the damage is not to be taken."""
        parts, faults = self.parts[number], self._list_faults(number)
        alike = len(faults) == len(parts) and len(set(faults)) == 1 and not self.count_rows(number)
        return len(parts) > 1 and bool(faults) and not alike

    def _list_faults(self, number: int) -> list[tuple[int, str, str]]:
        return [line for part in self.parts[number] for line in part.bad if not line[0]]

    def list_unknown_columns(self, number: int) -> tuple[str, ...]:
        """Return the columns of a file that the table lacks."""
        return tuple(dict.fromkeys(name for part in self.parts[number] for name in part.unknown))


class FileRun(NamedTuple):
    """Pending files that follow each other, and whether tasks are to read them."""

    files: Sequence[PendingFile]
    by_tasks: bool


def plan_runs(pending: Sequence[PendingFile]) -> Iterator[FileRun]:
    """Yield what is pending in its order: by tasks where much of it follows each other, one commit a run.

    Files that were changed, can't be read or are half taken are a poll's own.
    """
    least = TASK_THRESHOLD.read()
    start = size = 0
    for at, file in enumerate(pending):
        own = file.record is not None or file.fault is not None
        full = size + file.size > COMMIT_BYTES or at - start >= COMMIT_FILES
        if at > start and (own or full):
            yield FileRun(pending[start:at], size >= least)
            start, size = at, 0
        if own:
            yield FileRun((file,), by_tasks=False)
            start = at + 1
        else:
            size += file.size
    if start < len(pending):
        yield FileRun(pending[start:], size >= least)


def plan_shares(reading: FileReadPlan, files: Sequence[PendingFile]) -> tuple[tuple[FilePart, ...], ...]:
    """Return what tasks read, in the order of the files: about as many bytes each, of a large Parquet file some row groups."""
    shares, share, size = list[tuple[FilePart, ...]](), list[FilePart](), 0
    for number, file in enumerate(files):
        for part, length in _split_file(reading, number, file):
            if share and size + length > SHARE_BYTES:
                shares.append(tuple(share))
                share, size = [], 0
            share.append(part)
            size += length
    if share:
        shares.append(tuple(share))
    return tuple(shares)


def _split_file(reading: FileReadPlan, number: int, file: PendingFile) -> Iterator[tuple[FilePart, int]]:
    sizes = list[int]()
    if file.size > SHARE_BYTES and detect_format(file.place_path, reading.options) == "parquet":
        try:
            with reading.place.open(file.place_path, file.size, handed_on=False) as opened:
                footer = pq.read_metadata(opened)
            groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
            sizes = [
                sum(one.column(at).total_compressed_size for at in range(one.num_columns)) for one in groups
            ]
        except (OSError, pa.ArrowException, TidelineError):
            sizes = []  # who reads it says what is the matter
    if len(sizes) <= 1:
        yield FilePart(number), file.size
        return
    share, size = list[int](), 0
    for group, length in enumerate(sizes):
        if share and size + length > SHARE_BYTES:
            yield FilePart(number, tuple(share)), size
            share, size = [], 0
        share.append(group)
        size += length
    yield FilePart(number, tuple(share)), size


def read_by_tasks(
    store: Hummock, session: SparkSession, reading: FileReadPlan, files: Sequence[PendingFile]
) -> TaskLoad:
    """Read files by tasks; raises SqlError or PySparkException where a task ends without an answer."""
    shares = plan_shares(reading, files)
    body = ReadShares(store.url, dict(store.options), reading, tuple(files), shares)
    numbers = session.range(0, len(shares), 1, len(shares))
    found = collect_answers(numbers.mapInArrow(body, ANSWER_SCHEMA), ShareResult, "")
    parts: dict[int, list[PartResult]] = {}
    for one in sorted(found, key=lambda share: share.parts[0].file):
        for part in one.parts:
            parts.setdefault(part.file, []).append(part)
    columns = [field for field in reading.target.schema if field.name != ROW_ID]
    schema = pa.schema([*columns, pa.field(FILE, pa.int32()), pa.field(GONE, pa.bool_())])
    load = TaskLoad(
        tuple(files), parts, SpilledRows(schema, tuple(file for one in found for file in one.files))
    )
    for number, some in parts.items():
        late = [part.late for part in some if part.late is not None]
        if late:
            load.late[number] = late[0]
        if any(part.overflows for part in some) or load.is_torn(number):
            load.leave(number)
    return load


def write_load(
    load: TaskLoad, store: Hummock, session: SparkSession, relation: Relation, table: TableVersion
) -> tuple[Sequence[SstInfo], bool]:
    """Write the files of the table for what can be committed; also tells whether they hold for an empty table only.

    Raises PySparkException.
    """
    count = sum(load.count_rows(number) for number in load.committable)
    if not count:
        return (), False
    has_ids = ROW_ID in table.primary_key
    spilled = load.spilled.assign_row_ids(store) if has_ids else load.spilled
    rows = spilled.to_frame(session, store.url, dict(store.options))
    away = [number for number in load.parts if number not in load.committable]
    if away:
        rows = rows.where(~rows[FILE].isin(away))
    items = [
        f"{quote(column.storage_name)} AS {quote(column.name)}"
        for column in relation.columns
        if column.storage_name in rows.columns
    ]
    place = f"{PLACE} * 2 + IF({GONE}, 0, 1) AS {PLACE}"
    new = has_ids or not table.live_ssts
    body = WriteChanges(store.url, dict(store.options), relation, table.table, new=new)
    ordered = sort_by_key(relation, rows.selectExpr(*items, place), count, session)
    done: ChangeResult = body.write_frame(ordered, store.reader)
    return done.ssts, new and not has_ids
