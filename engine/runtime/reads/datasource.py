"""Tideline tables as a Spark source: `spark.read.format("tideline").option("store", url).load("table")`, with time travel."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from engine.errors import SqlError, TidelineError
from engine.hummock import Hummock, Reader, TableVersion
from engine.hummock.reads.merge import HIGHEST, LOWEST
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.epochs.query_policy import choose_epochs, find_epochs_at
from engine.meta.epochs.ttl_reads import hide_expired_rows
from engine.operators.context import count_partitions
from engine.operators.lookups.scan import split_hash_space
from engine.runtime.reads.local_read import build_point_keys, filter_rows
from engine.spark_internals import derive_spark_schema
from engine.sql.batch.point_read import Predicate, point_read
from engine.sql.batch.time_travel import Moment, parse_moment_text
from engine.sql.catalog import Relation
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.reader import Select, parse_statement

SOURCE_OPTIONS: Mapping[str, str] = {
    "store": "the store's address; always needed",
    "columns": "only these, as 'a, b'; a schema given to Spark does the same",
    "filter": "comparisons of columns with literals, joined by AND: evaluated in the store, a key that is given is looked up",
    "epoch": "read the table as it was at an epoch",
    "timestamp": "read it as it was at a time: ISO, in UTC unless it names a zone",
    "partitions": "how many tasks read; without it as many as the table's size asks for",
}
"""The options of the format and what they mean; `docs/reference.md` is made of this table."""
_FORM = 'format "tideline" needs .option("store", url) and .load("table")'


@dataclass(frozen=True)
class _HashRange(InputPartition):
    low: int
    high: int


@dataclass(frozen=True)
class TidelineReader(DataSourceReader):
    """Reads one table at one epoch, a hash range a task; `items` are (name in Spark, stored column)."""

    url: str
    options: dict[str, Any]
    table: TableVersion
    items: tuple[tuple[str, str], ...]
    epoch: int
    parts: int | None
    predicates: tuple[Predicate, ...]

    def partitions(self) -> list[InputPartition]:
        """Return the hash ranges that are read apart: one where the key is given, else by the table's size."""
        if build_point_keys(self.table, self.predicates) is not None:
            return [_HashRange(*split_hash_space(1)[0])]
        parts = self.parts or count_partitions(self.table.row_count, 2)
        return [_HashRange(low, high) for low, high in split_hash_space(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one hash range that satisfy the filters."""
        assert isinstance(partition, _HashRange)
        reader = Reader.open(self.url, self.options)
        names = [name for name, _ in self.items]
        for rows in self._read_rows(reader, partition):
            found = filter_rows(rows, self.predicates)
            renamed = pa.Table.from_arrays([found.column(column) for _, column in self.items], names=names)
            yield from renamed.combine_chunks().to_batches()

    def _read_rows(self, reader: Reader, partition: _HashRange) -> Iterator[pa.Table]:
        columns = list(
            dict.fromkeys([*(column for _, column in self.items), *(p.column for p in self.predicates)])
        )
        keys = build_point_keys(self.table, self.predicates)
        if keys is not None:
            yield reader.lookup(self.table, keys, self.epoch, columns=columns)[1]
            return
        whole = (partition.low, partition.high) == (LOWEST, HIGHEST)
        bounds = None if whole else (partition.low, partition.high)
        for batch in reader.scan(self.table, self.epoch, columns=columns, hash_range=bounds):
            yield pa.Table.from_batches([batch])


class TidelineDataSource(DataSource):
    """Tables and materialized views of a store; SOURCE_OPTIONS says what they can be read with."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "tideline"

    def _open(self) -> tuple[Hummock, StoredCatalog, Relation]:
        url, table = self.options.get("store"), self.options.get("path")
        if not url or not table:
            raise TidelineError(_FORM)
        store = Hummock.open(url, create=False)
        stored = load_catalog(store.refresh())
        relation = stored.catalog.get(table)
        if relation.kind not in ("table", "materialized view"):
            raise TidelineError(f"{table} is a {relation.kind}: read it by Session.sql, or name a table")
        if relation.name not in store.version.tables:
            raise TidelineError(f"view {table} has not been computed yet: run FLUSH")
        return store, stored, relation

    def _list_items(self, relation: Relation, columns: list[str] | None) -> tuple[tuple[str, str], ...]:
        known = {column.name: column.storage_name for column in relation.visible_columns}
        for name in columns or ():
            if name not in known:
                raise TidelineError(
                    f"{relation.name} has no column {name}; its columns are {', '.join(known)}"
                )
        return tuple((name, known[name]) for name in (known if columns is None else columns))

    def schema(self) -> StructType:
        """Return the schema of the columns asked for, by default all that are visible."""
        store, _, relation = self._open()
        text = self.options.get("columns")
        requested = None if text is None else [part.strip() for part in text.split(",")]
        schema = store.version.tables[relation.name].schema
        return derive_spark_schema(
            pa.schema(
                pa.field(name, schema.field(column).type)
                for name, column in self._list_items(relation, requested)
            )
        )

    def reader(self, schema: StructType) -> TidelineReader:
        """Return the reader of the table at the epoch or timestamp asked for, or at the newest at which it has content."""
        store, stored, relation = self._open()
        moment = self._parse_moment()
        if moment is None:
            version = hide_expired_rows(store.version, (relation.name,), store.clock())
            epoch = choose_epochs(version, stored, (relation.name,))[relation.name]
        else:
            epoch = find_epochs_at({relation.name: moment}, store.version, stored, time.time())[relation.name]
        parts = self.options.get("partitions")
        return TidelineReader(
            store.url,
            dict(store.options),
            store.version.tables[relation.name],
            self._list_items(relation, list(schema.names)),
            epoch,
            int(parts) if parts else None,
            self._parse_predicates(stored, relation),
        )

    def _parse_predicates(self, stored: StoredCatalog, relation: Relation) -> tuple[Predicate, ...]:
        text = self.options.get("filter")
        if text is None:
            return ()
        sql = f"SELECT * FROM {quote(relation.name)} WHERE {text}"
        statement = parse_statement(sql, "spark")
        point = (
            point_read(statement.query, stored.catalog, "spark") if isinstance(statement, Select) else None
        )
        if point is None or point.order or point.limit is not None:
            hint = (
                "write comparisons of columns with literals, joined by AND; leave the rest to Spark's where()"
            )
            raise SqlError(f'the filter "{text}" cannot be evaluated in the store', hint=hint)
        return point.predicates

    def _parse_moment(self) -> Moment | None:
        epoch, text = self.options.get("epoch"), self.options.get("timestamp")
        if epoch is not None and text is not None:
            raise TidelineError('give one of the options "epoch" and "timestamp"')
        if epoch is not None:
            return Moment(epoch=int(epoch))
        if text is None:
            return None
        found = parse_moment_text(text)
        if found is None:
            raise SqlError(
                f"{text} is no timestamp", hint="write 2026-01-31 10:00:00, in UTC unless it names a zone"
            )
        return found
