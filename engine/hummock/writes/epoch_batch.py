"""Writes gathered by table and made one epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

import pyarrow as pa

from engine.hummock.reads.reader import Reader
from engine.hummock.version import SstInfo, Table, TableVersion
from engine.hummock.writes.batch import Delete, Operation, Put, TableBuffer, flush_buffers
from engine.hummock.writes.shared_buffer import SealedEpoch, SharedBuffer


class EpochBatch:
    """Writes gathered in a `with` block, committed on leaving it; `result_epoch` is their epoch then.

    With a shared buffer they are handed over to it instead, and `sealed` is the pending epoch.
    """

    def __init__(
        self,
        reader: Reader,
        known: Callable[[str], TableVersion],
        commit: Callable[[Mapping[str, TableVersion], Mapping[str, tuple[SstInfo, ...]]], int],
        buffer: SharedBuffer | None = None,
    ) -> None:
        self._reader, self._known, self._commit, self._shared = reader, known, commit, buffer
        self._tables: dict[str, TableVersion] = {}
        self._buffers: dict[str, TableBuffer] = {}
        self.result_epoch: int | None = None
        self.sealed: SealedEpoch | None = None

    def __enter__(self) -> EpochBatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        if self._shared is not None:
            self.sealed = self._shared.seal(self._tables, self._buffers)
        else:
            self.result_epoch = self._commit(self._tables, flush_buffers(self._reader, self._buffers))

    def put(self, table: Table | str, rows: pa.Table | pa.RecordBatch) -> None:
        """Insert or replace rows."""
        self._add(table, Put(rows))

    def delete(self, table: Table | str, keys: pa.Table | pa.RecordBatch) -> None:
        """Delete rows by key."""
        self._add(table, Delete(keys))

    def _add(self, table: Table | str, operation: Operation) -> None:
        name = table if isinstance(table, str) else table.name
        if name not in self._buffers:
            self._tables[name] = self._known(name)
            self._buffers[name] = TableBuffer(self._reader, self._tables[name].table)
        self._buffers[name].add(operation)
