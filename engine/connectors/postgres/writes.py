"""What one commit brings to one table: the folded changes of transactions, or all rows of a snapshot as a difference."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from engine.arrow import choose_values, to_mask, to_positions
from engine.connectors.contract.connector import Spark
from engine.connectors.contract.group_source import GroupMember
from engine.connectors.contract.offset_source import StepResult
from engine.connectors.contract.row_fitting import RowFitter
from engine.connectors.contract.row_source import MOST_LETTERS
from engine.connectors.postgres.changes import FoldedChanges, build_reader
from engine.connectors.postgres.columns import PostgresTable
from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.server import PostgresServer
from engine.hummock import Delete, Hummock, Put, Version
from engine.hummock.manifests.preconditions import require_unchanged
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.hummock.reads.differences import find_other_keys, select_different
from engine.hummock.rows.ordering import one_chunk
from engine.hummock.writes.batch import Operation, write_stream
from engine.meta.status.dead_letters import DeadLetter
from engine.runtime.rows import convert_rows, to_stored_names
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import Relation
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.types import to_arrow

Item = TypeVar("Item")


def write_changes(
    store: Hummock, member: GroupMember, changes: FoldedChanges, version: Version, spark: Spark
) -> StepResult:
    """Return what folded changes write to a table; the offset is yet to be given."""
    table, relation = member.table, member.relation
    signed = changes.build_rows()
    operations: list[Operation] = []
    if changes.is_emptied:
        keys = store.reader.scan(table, table.committed_epoch, columns=list(table.primary_key))
        operations += [Delete(batch) for batch in keys]
    if not signed.rows.num_columns:
        return StepResult("", operations=operations, rows=0, precondition=require_unchanged(table))
    track_bytes(signed.rows.nbytes)
    assert signed.gone is not None
    filling = _UnchangedValues(store, member, changes)
    fitter = RowFitter(relation, store, changes.place, signed.rows, signed.gone, fill=filling.fill)
    arrivals = ArrivingRows(store, version, relation)
    puts = fitter.build_operations(table, arrivals, spark)
    stale = _find_stale_keys(relation, signed.rows, fitter.places)
    if stale.num_rows:
        operations.append(Delete(stale))
    operations += puts
    looks = changes.is_emptied or filling.looks_up
    return StepResult(
        "",
        operations=operations,
        system=arrivals.build_writes(),
        rows=fitter.ingested,
        late=arrivals.late,
        aside=len(fitter.letters),
        letters=fitter.letters[:MOST_LETTERS],
        precondition=require_unchanged(table) if looks else None,
    )


def _find_stale_keys(relation: Relation, rows: pa.Table, kept: np.ndarray) -> pa.Table:
    """Return the keys of rows that were set aside: what stands under them is not what PostgreSQL has any more."""
    aside = np.ones(rows.num_rows, dtype=bool)
    aside[kept] = False
    columns = [column for column in relation.columns if column.storage_name in relation.primary_key]
    fits = np.ones(int(aside.sum()), dtype=bool)
    arrays = []
    for column in columns:
        found = convert_to_type(rows.column(column.name).filter(pa.array(aside)), to_arrow(column.type))
        fits &= to_mask(found.values.is_valid())
        arrays.append(found.values)
    keys = pa.Table.from_arrays(arrays, names=[column.storage_name for column in columns])
    return keys.filter(pa.array(fits))


@dataclass
class _UnchangedValues:
    """Large values that did not change: they are taken from the rows that stand in the store."""

    store: Hummock
    member: GroupMember
    changes: FoldedChanges
    looks_up: bool = False

    def fill(self, rows: pa.Table, places: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """Return the rows with these values, and which rows lack one since the store has no row of their key."""
        lacking = np.zeros(rows.num_rows, dtype=bool)
        at, masks, origins = self.changes.list_unchanged()
        if not len(at):
            return rows, lacking
        self.looks_up = True
        relation, table = self.member.relation, self.member.table
        texts = self.changes.build_keys(origins)
        names = list(texts.column_names)
        keys = to_stored_names(relation, convert_rows(relation, texts, names))
        reader = self.store.reader
        index, found = reader.lookup(table, keys, table.committed_epoch, null_safe=True)
        stored = np.full(len(at), -1, dtype=np.int64)
        stored[index] = np.arange(found.num_rows)
        where = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.int64)
        where[places] = np.arange(rows.num_rows)
        here = np.array([where[place] if place < len(where) else -1 for place in at], dtype=np.int64)
        lacking[here[(here >= 0) & (stored < 0)]] = True
        usable = (here >= 0) & (stored >= 0)
        for number, column in enumerate(relation.visible_columns):
            of = usable & masks[:, number]
            if of.any():
                source = np.full(rows.num_rows, -1, dtype=np.int64)
                source[here[of]] = stored[of]
                taken = one_chunk(found.column(column.storage_name)).take(to_positions(source, source < 0))
                place = rows.column_names.index(column.name)
                before = one_chunk(rows.column(column.name))
                mixed = choose_values(pa.array(source >= 0), taken, before)
                rows = rows.set_column(place, column.name, mixed)
        return rows, lacking


@dataclass
class WholeTable:
    """All rows of a table of PostgreSQL in one snapshot, written as the difference to the rows that stand in the store."""

    store: Hummock
    member: GroupMember
    server: PostgresServer
    there: PostgresTable
    place: str
    left: tuple[str, ...] = ()
    rows: int = 0
    aside: int = 0
    letters: list[DeadLetter] = field(default_factory=list)
    _keys: list[pa.Table] = field(default_factory=list)

    def write(self, version: Version, spark: Spark) -> StepResult:
        """Write the difference in files; the offset is yet to be given."""
        table = self.member.table
        files = write_stream(self.store.reader, table.table, self._build_operations(version, spark))
        return StepResult(
            "",
            files=files,
            rows=self.rows,
            aside=self.aside,
            letters=self.letters,
            precondition=require_unchanged(table),
        )

    def _build_operations(self, version: Version, spark: Spark) -> Iterator[Operation]:
        table, relation = self.member.table, self.member.relation
        is_new = not table.live_ssts
        arrivals = ArrivingRows(self.store, version, relation)
        for place, rows in _read_ahead(self._read_batches()):
            track_bytes(rows.nbytes)
            gone = np.zeros(rows.num_rows, dtype=bool)
            fitter = RowFitter(relation, self.store, place, rows, gone)
            for operation in fitter.build_operations(table, arrivals, spark):
                assert isinstance(operation, Put) and isinstance(operation.rows, pa.Table)
                puts = operation.rows
                if not is_new:
                    self._keys.append(puts.select(list(table.primary_key)))
                    puts = select_different(self.store, table, puts)
                self.rows += puts.num_rows
                yield Put(puts)
            self.aside += len(fitter.letters)
            self.letters += fitter.letters[: MOST_LETTERS - len(self.letters)]
        if not is_new:
            others = find_other_keys(self.store, table, self._keys)
            self.rows += others.num_rows
            if others.num_rows:
                yield Delete(others)

    def _read_batches(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield rows as texts, with how letters name where they stand."""
        there, settings = self.there, self.server.settings
        names = [column.name for column in there.columns]
        types = [column.type for column in there.columns]
        reader = build_reader(self.member.relation, names, types, settings.path)
        self.left = reader.left
        only = "" if there.is_partitioned else "ONLY "
        source = f"{only}{quote_name(settings.schema)}.{quote_name(settings.table)}"
        found = self.server.copy_rows([quote_name(names[at]) for at in reader.places], source)
        start = 0
        for batch in found:
            yield f"{self.place}, rows from {start + 1:,}", reader.build_rows(batch.columns)
            start += batch.num_rows


def _read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items of which the next one is made meanwhile: the server sends rows as those before them are written."""
    with ThreadPoolExecutor(1, "read-ahead") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
