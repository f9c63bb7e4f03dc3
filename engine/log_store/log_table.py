"""Where a log store keeps what does not fit its buffer: by default in a table with one row a message, in the order of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from engine.errors import TableExists
from engine.hummock import Hummock, Table
from engine.hummock.reads.range_scan import scan_range
from engine.hummock.version import DELETE, OP, PUT, Generation, LogEntry, SstInfo, TableVersion
from engine.log_store.messages import Entry, Offset

_KINDS: dict[str, pa.DataType] = {
    "epoch": pa.int64(),
    "number": pa.int64(),
    "kind": pa.string(),
    "rows": pa.int64(),
    "size": pa.int64(),
    "payload": pa.binary(),
}
SCHEMA = pa.schema(_KINDS)
KEY = ("epoch", "number")
LOG_PREFIX = "_log_"
WRITE_BYTES = 1 << 30
"""A binary column of Arrow holds less than 2 GiB."""


@dataclass(eq=False)
class Stage:
    """Files that were written together; readers find their rows in the table once they are `committed`."""

    ssts: tuple[SstInfo, ...]
    last: Offset
    submitted: bool = False
    committed: bool = False


@dataclass(eq=False)
class EntryReference:
    """Messages that stand in the store and not in memory: those from `first` to `last`."""

    first: Offset
    last: Offset
    rows: int
    size: int
    stages: tuple[Stage, ...] = field(default=())

    def merge(self, later: EntryReference) -> EntryReference:
        """Return the reference to these messages and those of `later`."""
        stages = tuple(dict.fromkeys((*self.stages, *later.stages)))
        return EntryReference(self.first, later.last, self.rows + later.rows, self.size + later.size, stages)


class LogStorage(Protocol):
    """The durable part of a log store."""

    name: str

    def list_history(self, most_rows: int, most_bytes: int) -> list[EntryReference]:
        """Return references to all that is durable, in order, merged up to the given size."""

    def write(self, entries: Sequence[Entry]) -> Stage:
        """Keep messages outside of memory; the commit of a checkpoint makes them durable."""

    def write_tombstones(self, offsets: Sequence[Offset]) -> tuple[SstInfo, ...]:
        """Return the files by which the commit of a checkpoint lets go of messages."""

    def read(self, reference: EntryReference) -> list[Entry]:
        """Return the messages of a reference."""


class LogTable:
    """Reads and writes messages; what it writes becomes visible by the commit of a checkpoint."""

    def __init__(self, store: Hummock, name: str) -> None:
        self.name = LOG_PREFIX + name
        self._store = store
        if self.name not in store.refresh().tables:
            try:
                store.create_table(self.name, SCHEMA, KEY)
            except TableExists:
                store.refresh()  # another process was faster

    @property
    def table(self) -> TableVersion:
        """The table as it is now."""
        return self._store.version.tables[self.name]

    def list_history(self, most_rows: int, most_bytes: int) -> list[EntryReference]:
        """Return references to all that is durable, in order, merged up to the given size; only offsets are read."""
        found: list[EntryReference] = []
        done = Stage((), (0, 0), True, True)
        for batch in self._store.iter(self.name, columns=["epoch", "number", "rows", "size"]):
            columns = (batch.column(name).to_pylist() for name in ("epoch", "number", "rows", "size"))
            for epoch, number, rows, size in zip(*columns, strict=True):
                offset = (epoch, number)
                last = EntryReference(offset, offset, rows, size, (done,))
                found[-1:] = merge_references(found[-1], last, most_rows, most_bytes) if found else [last]
        return found

    def write(self, entries: Sequence[Entry]) -> Stage:
        """Write messages as files, durable but not visible yet."""
        ssts: list[SstInfo] = []
        for part in _split_entries(entries):
            columns: list[list[Any]] = [
                [entry.offset[0] for entry in part],
                [entry.offset[1] for entry in part],
                [entry.kind for entry in part],
                [entry.rows for entry in part],
                [entry.size for entry in part],
                [entry.payload for entry in part],
            ]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            rows = pa.Table.from_arrays(arrays, schema=SCHEMA)
            ssts += self._store.reader.write_run(self.table.table, _append_operation(rows, PUT))
        return Stage(tuple(ssts), entries[-1].offset)

    def write_tombstones(self, offsets: Sequence[Offset]) -> tuple[SstInfo, ...]:
        """Write the deletions of messages as files, durable but not visible yet."""
        if not offsets:
            return ()
        arrays: list[pa.Array[Any]] = [
            pa.array([offset[i] for offset in offsets], pa.int64()) for i in (0, 1)
        ]
        arrays += [pa.nulls(len(offsets), column.type) for column in list(SCHEMA)[2:]]
        rows = pa.Table.from_arrays(arrays, schema=SCHEMA)
        return tuple(self._store.reader.write_run(self.table.table, _append_operation(rows, DELETE)))

    def read(self, reference: EntryReference) -> list[Entry]:
        """Return the messages of a reference, from the table and from files that are not committed yet."""
        versions = []
        uncommitted = tuple(sst for stage in reference.stages if not stage.committed for sst in stage.ssts)
        if any(stage.committed for stage in reference.stages):
            versions.append(self.table)
        if uncommitted:
            versions.append(_build_version(self.table.table, uncommitted))
        found: dict[Offset, Entry] = {}
        for version in versions:
            for entry in self._scan(version, reference):
                found[entry.offset] = entry
        return [found[offset] for offset in sorted(found)]

    def _scan(self, version: TableVersion, reference: EntryReference) -> Iterator[Entry]:
        low, high = reference.first, (reference.last[0], reference.last[1] + 1)
        bounds = tuple(dict(zip(KEY, bound, strict=True)) for bound in (low, high))
        columns = ["epoch", "number", "kind", "rows", "payload"]
        for batch in scan_range(
            self._store.reader, version, version.committed_epoch, (bounds[0], bounds[1]), columns
        ):
            values = (batch.column(name).to_pylist() for name in columns)
            for epoch, number, kind, rows, payload in zip(*values, strict=True):
                yield Entry((epoch, number), kind, rows, payload)


def merge_references(
    first: EntryReference, second: EntryReference, most_rows: int, most_bytes: int
) -> list[EntryReference]:
    """Return two adjacent references, as one if both together hold no more than a chunk."""
    if first.rows + second.rows <= most_rows and first.size + second.size <= most_bytes:
        return [first.merge(second)]
    return [first, second]


def _build_version(table: Table, ssts: tuple[SstInfo, ...]) -> TableVersion:
    return TableVersion(table, 0, 1, (LogEntry(1, ssts),), (Generation(0, ()),))


def _append_operation(rows: pa.Table, operation: int) -> pa.Table:
    return rows.append_column(OP, pa.repeat(pa.scalar(operation, pa.uint8()), rows.num_rows))


def _split_entries(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    part: list[Entry] = []
    size = 0
    for entry in entries:
        if part and size + entry.size > WRITE_BYTES:
            yield part
            part, size = [], 0
        part.append(entry)
        size += entry.size
    if part:
        yield part
