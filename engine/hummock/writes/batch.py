"""What a writer hands in: puts and deletions, gathered by table; a large batch goes to files before it is
committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock.reads.reader import Reader
from engine.hummock.sorted_files.file_fingerprints import with_replaced
from engine.hummock.version import DELETE, OP, PUT, SstInfo, Table, with_new_keys

SPILL_BYTES = 512 << 20


@dataclass(frozen=True)
class Put:
    """Rows to insert or replace: all columns of the table; of several rows with one key the last one counts.

    With `new_keys` the caller knows, under a precondition of the commit, that none of the keys stands in the table.
    """

    rows: pa.Table | pa.RecordBatch
    new_keys: bool = False


@dataclass(frozen=True)
class Delete:
    """Rows to delete: the primary key's columns suffice; a key that is not there is no error."""

    keys: pa.Table | pa.RecordBatch


Operation = Put | Delete
Writes = Operation | Sequence[Operation]
TableRef = Table | str


class TableBuffer:
    """The operations on one table in their order; later ones win."""

    def __init__(self, reader: Reader, table: Table) -> None:
        self.table = table
        self.spilled: list[SstInfo] = []
        self._reader = reader
        self._gathered: list[pa.Table] = []
        self._bytes = 0

    def add(self, operation: Operation) -> None:
        """Take one operation; raises InvalidRow if its columns do not fit."""
        rows = (
            _build_put_rows(self.table, operation.rows)
            if isinstance(operation, Put)
            else _build_delete_rows(self.table, operation.keys)
        )
        step = max(1, rows.num_rows * SPILL_BYTES // max(rows.nbytes, 1))
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            self._gathered.append(part)
            self._bytes += part.nbytes
            if self._bytes > SPILL_BYTES:
                self._spill()

    @property
    def held_bytes(self) -> int:
        """Bytes of the rows that no file holds yet."""
        return self._bytes

    def drain(self) -> pa.Table | None:
        """Return the rows that no file holds yet, in their order; the buffer is empty then."""
        if not self._gathered:
            return None
        rows = pa.concat_tables(self._gathered)
        self._gathered, self._bytes = [], 0
        return rows

    def _spill(self) -> None:
        rows = self.drain()
        if rows is not None:
            self.spilled += self._reader.write_run(self.table, rows, last_wins=True)


def flush_buffers(reader: Reader, buffers: Mapping[str, TableBuffer]) -> dict[str, tuple[SstInfo, ...]]:
    """Write what the buffers still hold, small tables in one object, and return all files by table; a later file wins."""
    left = {name: rows for name, buffer in buffers.items() if (rows := buffer.drain()) is not None}
    runs = reader.write_runs([(buffers[name].table, rows) for name, rows in left.items()], last_wins=True)
    last = dict(zip(left, runs, strict=True))
    return {name: (*buffer.spilled, *last.get(name, ())) for name, buffer in buffers.items()}


def write_operations(
    reader: Reader,
    tables: Mapping[str, Table],
    writes: Mapping[str, Sequence[Operation]],
    replaced: Mapping[str, pa.Table] = MappingProxyType({}),
) -> dict[str, tuple[SstInfo, ...]]:
    """Write the operations of each table as files and return them by table.

    `replaced` are, by table, all rows that stand under the keys that are written, where a precondition keeps them there.
    """
    buffers = {name: TableBuffer(reader, tables[name]) for name in writes}
    for name, operations in writes.items():
        for operation in operations:
            buffers[name].add(operation)
    files = flush_buffers(reader, buffers)
    for name, buffer in buffers.items():
        if buffer.spilled:  # a key may stand in several of the files
            files[name] = tuple(msgspec.structs.replace(sst, fingerprint=None) for sst in files[name])
        elif (old := replaced.get(name)) is not None:
            files[name] = tuple(with_replaced(buffer.table, files[name], old))
    inserts = {name for name, operations in writes.items() if all(_is_insert(each) for each in operations)}
    return {
        name: with_new_keys(tables[name], ssts) if name in inserts else ssts for name, ssts in files.items()
    }


def write_stream(reader: Reader, table: Table, operations: Iterable[Operation]) -> tuple[SstInfo, ...]:
    """Write operations on one table as files while they come, in bounded memory; later ones win."""
    buffer = TableBuffer(reader, table)
    for operation in operations:
        buffer.add(operation)
    files = flush_buffers(reader, {table.name: buffer})[table.name]
    if not buffer.spilled:
        return files
    return tuple(msgspec.structs.replace(sst, fingerprint=None) for sst in files)


def _is_insert(operation: Operation) -> bool:
    return isinstance(operation, Put) and operation.new_keys


def _build_put_rows(table: Table, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    rows = _as_table(table, rows)
    missing = [name for name in table.schema.names if name not in rows.column_names]
    if missing:
        raise InvalidRow(f"table {table.name}: a put needs all columns, {', '.join(missing)} is missing")
    _refuse_unknown(table, rows)
    return _append_operation(table, rows, PUT)


def _build_delete_rows(table: Table, keys: pa.Table | pa.RecordBatch) -> pa.Table:
    keys = _as_table(table, keys)
    missing = [name for name in table.primary_key if name not in keys.column_names]
    if missing:
        raise InvalidRow(
            f"table {table.name}: a deletion needs the primary key, {', '.join(missing)} is missing"
        )
    _refuse_unknown(table, keys)
    return _append_operation(table, keys.select(list(table.primary_key)), DELETE)


def _append_operation(table: Table, rows: pa.Table, operation: int) -> pa.Table:
    arrays = []
    for field in table.schema:
        if field.name not in rows.column_names:
            arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        column = rows.column(field.name)
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRow(
                f"table {table.name}: column {field.name} does not fit {field.type}: {error}"
            ) from error
    arrays.append(pa.chunked_array([pa.repeat(pa.scalar(operation, pa.uint8()), rows.num_rows)]))
    return pa.Table.from_arrays(arrays, names=[*table.schema.names, OP])


def _as_table(table: Table, rows: object) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise InvalidRow(
            f"table {table.name}: rows are a pyarrow Table or RecordBatch, not {type(rows).__name__}"
        )
    return rows


def _refuse_unknown(table: Table, rows: pa.Table) -> None:
    unknown = [name for name in rows.column_names if name not in table.schema.names]
    if unknown:
        raise InvalidRow(
            f"table {table.name} has no column {', '.join(unknown)}; it has {', '.join(table.schema.names)}"
        )


def get_table_name(table: TableRef) -> str:
    """Return a table's name, of its handle as well."""
    return table if isinstance(table, str) else table.name


def list_operations(writes: Writes) -> Sequence[Operation]:
    """Return what is written as a sequence, of one operation as well."""
    return [writes] if isinstance(writes, (Put, Delete)) else writes
