"""A table of the store as the target of a sink: rows and progress are one manifest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.arrow import as_values, to_positions
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch, SinkConnector, TargetContext
from engine.connectors.sinks.options import SinkOptions
from engine.errors import SinkError
from engine.hummock import Commit, Delete, Hummock, Put, TableVersion
from engine.hummock.manifests.preconditions import require_same_table, require_unchanged
from engine.hummock.rows.ordering import equal_values, one_chunk
from engine.hummock.writes.batch import TableBuffer, flush_buffers, write_operations
from engine.log_store.changes import DELETE, INSERT, Changes
from engine.meta.catalog.stored_catalog import load_catalog
from engine.runtime.rows import assign_row_ids, convert_rows, to_stored_names
from engine.runtime.writes.conflicts import (
    UPDATE_IF_NOT_NULL,
    fill_nulls,
    format_key_at,
    retain_new,
)
from engine.runtime.writes.row_versions import retain_newer
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.text_lengths import format_column_type
from engine.sql.typing.types import to_arrow

LOOKED_UP = ("ignore", UPDATE_IF_NOT_NULL)
"""What tables say ON CONFLICT that decides what becomes of a row whose key they have."""


class TableSink:
    """Writes net changes into a table; the view's key is a part of the table's key, so no two view rows meet in one row."""

    each_epoch = False
    promises = False

    def __init__(self, store: Hummock, relation: Relation, start: int) -> None:
        self.start = start
        self.options = SinkOptions.of(relation.options)
        self._store = store
        self._relation = relation
        self._columns = [column.name for column in relation.columns]

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Write the changes as files of the table that its commit makes visible. Raises InvalidRow for rows that do not fit."""
        into = self.options.into
        assert into is not None
        version = self._store.version
        target = load_catalog(version).catalog.get(into)
        table = version.tables[target.name]
        buffer = TableBuffer(self._store.reader, table.table)
        parts = [column for column in target.columns if column.storage_name in target.primary_key]
        key = [column.name for column in parts]
        kinds = [(column.name, to_arrow(column.type)) for column in parts]
        looks_up = _needs_lookup(target)
        arrivals = ArrivingRows(self._store, version, target)
        rows = 0
        for change in portion.changes:
            renamed = _rename_columns(change, self._columns)
            if self.options.upsert:
                gone = renamed.old.filter(pa.array(_mark_departures(renamed, kinds)))
                keys = to_stored_names(target, convert_rows(target, gone.select(key), key))
                buffer.add(Delete(arrivals.filter_there(keys)))
            new = renamed.rows.filter(pa.array(np.asarray(renamed.operations != DELETE)))
            whole = convert_rows(target, new, [column.name for column in target.columns])
            self._refuse_cut_keys(target, new, whole)
            put = assign_row_ids(self._store, to_stored_names(target, whole))
            buffer.add(
                Put(arrivals.filter_late(self._resolve_conflicts(target, table, put) if looks_up else put))
            )
            rows += len(change) if self.options.upsert else new.num_rows
        writes = flush_buffers(self._store.reader, {target.name: buffer}) if rows else {}
        more = arrivals.build_writes()
        writes |= write_operations(
            self._store.reader, {name: version.tables[name].table for name in more}, more
        )

        there = require_same_table(table, f"table {target.name} was dropped while rows were written into it")
        check = arrivals.require_unmoved(require_unchanged(table) if looks_up else there)
        return DeliveryResult(
            rows, commit=Commit(writes=writes, watermarks=arrivals.get_ttl_watermarks(), precondition=check)
        )

    def _refuse_cut_keys(self, target: Relation, rows: pa.Table, kept: pa.Table) -> None:
        """Raise SinkError for a key whose blanks the table does not keep: two rows of the view would be one there."""
        own = {column.name for column in self._relation.columns if column.name in self._relation.primary_key}
        for column in target.columns:
            if column.length is None or column.name not in own:
                continue
            before, now = (one_chunk(one.column(column.name)) for one in (rows, kept))
            cut = np.flatnonzero(~equal_values(before.cast(now.type), now))
            if len(cut):
                (text,) = as_values(before.slice(int(cut[0]), 1))
                raise SinkError(
                    f"sink {self._relation.name}: the key {column.name} = {text!r} ends in blanks, which "
                    f"{format_column_type(column)} of {target.name} does not keep, so that two rows could become one: take "
                    "rtrim of it in the view, or a table whose key is a VARCHAR"
                )

    def _resolve_conflicts(self, target: Relation, table: TableVersion, rows: pa.Table) -> pa.Table:
        """Return what the table takes of rows: what it says ON CONFLICT decides where it has their keys already."""
        keys = rows.select(list(target.primary_key))
        index, stored = self._store.reader.lookup(
            table, keys, table.committed_epoch, columns=rows.column_names, null_safe=True
        )
        if target.version_columns:
            return retain_newer(target, rows, index, stored)
        if target.on_conflict == UPDATE_IF_NOT_NULL:
            return fill_nulls(rows, index, stored)
        if target.on_conflict == "error":
            _refuse_other_rows(target, rows.take(to_positions(index)), stored)
        return retain_new(rows, index, stored)


def _needs_lookup(target: Relation) -> bool:
    """Tell whether what a table takes follows from what it holds: else a row takes the place of the one of its key."""
    if ROW_ID in target.primary_key:
        return False
    return target.append_only or bool(target.version_columns) or target.on_conflict in LOOKED_UP


def _refuse_other_rows(target: Relation, rows: pa.Table, stored: pa.Table) -> None:
    """Raise SinkError if rows of an APPEND ONLY table would be others than those that it has under their keys."""
    same = np.ones(rows.num_rows, dtype=bool)
    for name in rows.column_names:
        same &= equal_values(one_chunk(rows.column(name)), one_chunk(stored.column(name)))
    if not same.all():
        key = format_key_at(rows, target.unique_key, int(np.flatnonzero(~same)[0]))
        raise SinkError(
            f"table {target.name} is APPEND ONLY and has another row of the key {key}, which does not change: make the table "
            "with ON CONFLICT DO NOTHING, which leaves the row that comes out"
        )


class TableSinkConnector(SinkConnector):
    """Tables of the store, of sinks INTO one."""

    name = "table"
    options: Mapping[str, str] = {}
    title = "Of tables"

    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return the table."""
        assert statement.into is not None
        return {"into": statement.into}

    def open_target(self, opening: TargetContext) -> TableSink:
        """Open the table."""
        return TableSink(opening.store, opening.relation, opening.start)


def _mark_departures(change: Changes, key: list[tuple[str, pa.DataType]]) -> np.ndarray:
    """Tell which changes take a row from its place in the table, whose key has these columns.

    An update that leaves the row there does not: if it is older than what stands there by now, it changes nothing.
    """
    stays = np.ones(len(change), dtype=bool)
    for name, kind in key:  # texts tell zeros of both signs apart
        old, new = (convert_to_type(rows.column(name), kind).values for rows in (change.old, change.rows))
        stays &= equal_values(old, new)
    leaves: np.ndarray = (change.operations == DELETE) | ((change.operations != INSERT) & ~stays)
    return leaves


def _rename_columns(change: Changes, names: list[str]) -> Changes:
    return Changes(change.operations, change.rows.rename_columns(names), change.old.rename_columns(names))
