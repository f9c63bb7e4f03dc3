"""Tables as a question reads them: at one epoch, and of large ones only the rows whose columns have certain values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import Column, build_arrow_table, compute_sort_indices, decode_dictionary
from engine.hummock import Hummock, TableVersion, Version
from engine.hummock.rows.key_numbers import deduplicate, find_members
from engine.hummock.rows.ordering import one_chunk
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.content import Content
from engine.operators.context import count_partitions
from engine.operators.lookups.scan import ReadTable, read_table
from engine.operators.lookups.table_parameters import TableAt
from engine.runtime.rows import create_frame
from engine.runtime.source_rows import get_source_reader
from engine.runtime.spark.session import EngineSpark
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Scan

Wanted = Mapping[str, Column]
"""By column the values that are asked for; a row that has another one is not. Nulls are values."""
LOCAL_ROWS = 150_000
"""Of more rows a table is not read here as a whole, but by Spark's tasks."""
MOST_LOOKUPS = 10_000


class TablesRead(Protocol):
    """What gives the rows of scanned tables: the store's, or a few that stand in for them."""

    def read(self, scan: Scan, wanted: Wanted) -> pa.Table | DataFrame:
        """Return the rows of a scan, under its names, whose stored columns have wanted values."""
        ...


@dataclass(frozen=True)
class StoreTables:
    """The tables of a store at their epochs."""

    store: Hummock
    version: Version
    stored: StoredCatalog
    epochs: Mapping[str, int]
    open_spark: Callable[[], SparkSession]

    @property
    def spark(self) -> SparkSession:
        """The Spark session that computes, started when it is first needed."""
        return self.open_spark()

    @property
    def cores(self) -> int:
        """How many tasks that session runs at a time."""
        return EngineSpark.of(self.spark).count_parallel_tasks()

    def read(self, scan: Scan, wanted: Wanted) -> pa.Table | DataFrame:
        """Return the rows of a scan, under its names, whose stored columns have wanted values."""
        names = list(dict.fromkeys([column for _, column in scan.items]))
        table = self.version.tables[scan.table]
        if self.stored.catalog.get(scan.table).is_pass_through:
            return as_scanned(self._read_source(scan.table), scan, wanted)
        by_key = self.look_up(scan.table, names, wanted)
        if by_key is not None:
            return as_scanned(by_key, scan, wanted)
        if not wanted and table.row_count > LOCAL_ROWS:
            source = TableAt(table, None, self.epochs[scan.table])
            parts = count_partitions(table.row_count, self.cores)
            body = ReadTable(self.store.url, dict(self.store.options), source, scan.items, parts=parts)
            return read_table(self.spark, body, table.schema).frame
        read = list(dict.fromkeys([*names, *wanted]))
        rows = [
            keep_wanted(pa.Table.from_batches([batch]), wanted)
            for batch in self.store.reader.scan(table, self.epochs[scan.table], columns=read)
        ]
        empty = pa.schema([table.schema.field(name) for name in read]).empty_table()
        return as_scanned(pa.concat_tables(rows) if rows else empty, scan, {})

    def look_up(self, name: str, columns: Sequence[str], wanted: Wanted) -> pa.Table | None:
        """Return the rows that the wanted values find in a table or one of its indexes, None if none is found by them."""
        if not wanted:
            return None
        read = list(dict.fromkeys([*columns, *wanted]))
        for table in (self.version.tables[name], *self._list_indexes(name)):
            by = table.distribution_key or table.primary_key[:1]
            if not set(by) <= set(wanted):
                continue
            keys = _multiply({column: wanted[column] for column in by}, table)
            if keys is not None:
                found = self.store.reader.lookup(
                    table, keys, self.epochs[name], columns=read, null_safe=True
                )[1]
                return keep_wanted(found, wanted)
        return None

    def _list_indexes(self, name: str) -> list[TableVersion]:
        """Return the copies of a table by other columns that have its content at the epoch."""
        relations, epoch = self.stored.catalog.relations, self.epochs[name]
        if relations[name].hides_rows:
            return []
        content = Content(self.version, self.stored.inputs)
        found = (
            self.version.tables[index]
            for index, relation in relations.items()
            if relation.kind == "index"
            and not relation.sql
            and relation.depends_on == (name,)
            and index in self.version.tables
            and content.has_content(index, epoch)
        )
        return [table for table in found if table.safe_epoch <= epoch]

    def _read_source(self, name: str) -> pa.Table:
        """Return the rows of a source, read where they are."""
        relation = self.stored.catalog.get(name)
        reader = get_source_reader()
        found = reader.rows(self.spark, self.store, relation, self.version, self.epochs[name])
        return found if isinstance(found, pa.Table) else found.toArrow()

    def look_up_rows(self, name: str, keys: pa.Table) -> pa.Table:
        """Return the whole rows of a table that have some primary keys, in the order of the keys."""
        relation, table = self.stored.catalog.get(name), self.version.tables[name]
        if relation.is_pass_through:
            rows = self._read_source(name)
            found = rows.filter(pa.array(find_members(rows.select(keys.column_names), keys)))
        elif keys.num_rows > MOST_LOOKUPS:
            batches = self.store.reader.scan(table, self.epochs[name], columns=table.schema.names)
            rows = pa.Table.from_batches(batches, table.schema)
            found = rows.filter(pa.array(find_members(rows.select(keys.column_names), keys)))
            found = found.take(
                compute_sort_indices(found, [(c, "ascending", "at_start") for c in table.primary_key])
            )
        else:
            found = self.store.reader.lookup(table, keys, self.epochs[name], null_safe=True)[1]
        return found.select([column.storage_name for column in relation.columns])


@dataclass(frozen=True)
class GivenTables:
    """A few rows, whole ones under their stored names, or frames of such, in the place of tables."""

    rows: Mapping[str, pa.Table | DataFrame]

    def read(self, scan: Scan, wanted: Wanted) -> pa.Table | DataFrame:
        """Return the rows of a scan, under its names; all of them, as there are few."""
        found = self.rows[scan.table]
        there = set(found.column_names if isinstance(found, pa.Table) else found.columns)
        missing = {column for _, column in scan.items} - there
        # what a view's definition has not is the key of its only row
        if isinstance(found, pa.Table):
            for column in missing:
                found = found.append_column(column, pa.array(np.zeros(found.num_rows, np.int32)))
            return as_scanned(found, scan, {})
        items = (
            f"{'0' if column in missing else quote(column)} AS {quote(name)}" for name, column in scan.items
        )
        return found.selectExpr(*items)


def as_scanned(rows: pa.Table, scan: Scan, wanted: Wanted) -> pa.Table:
    """Return stored rows that are wanted under the names of a scan."""
    rows = keep_wanted(rows, wanted)
    columns = [rows.column(column) for _, column in scan.items]
    if not columns:
        return rows.select([])
    return pa.Table.from_arrays(columns, names=[name for name, _ in scan.items])


def keep_wanted(rows: pa.Table, wanted: Wanted) -> pa.Table:
    """Return the rows whose columns have wanted values, where these are of the columns' types; of others all rows stay."""
    for name, values in wanted.items():
        column, values = as_plain(rows.column(name)), as_plain(values)
        if column.type != values.type or not rows.num_rows:
            continue
        members = find_members(build_arrow_table({name: column}), build_arrow_table({name: values}))
        rows = rows.filter(pa.array(members))
    return rows


def as_plain(column: Column) -> Column:
    """Return a column without a dictionary."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type.value_type
    return pa.chunked_array([decode_dictionary(chunk) for chunk in chunks], kind)


def make_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow rows as a Spark frame, those without columns as so many."""
    return create_frame(spark, rows) if rows.num_columns else spark.range(rows.num_rows).select()


def _multiply(wanted: Wanted, table: TableVersion) -> pa.Table | None:
    """Return all combinations of wanted values as keys of a table, None if there are too many, or of another type."""
    plain = {name: one_chunk(as_plain(values)) for name, values in wanted.items()}
    if any(values.type != table.schema.field(name).type for name, values in plain.items()):
        return None
    count = 1
    for values in plain.values():
        count *= len(values)
    if count > MOST_LOOKUPS:
        return None
    places = list(itertools.product(*(range(len(values)) for values in plain.values())))
    arrays = [
        values.take([place[at] for place in places] or pa.array([], pa.int64()))
        for at, values in enumerate(plain.values())
    ]
    return deduplicate(pa.Table.from_arrays(arrays, names=list(plain)))
