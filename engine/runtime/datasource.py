"""Tideline tables as a Spark source: `spark.read.format("tideline").option("store", url).load("table")`, with time travel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from engine.errors import TidelineError
from engine.hummock import Hummock, Reader, TableVersion
from engine.meta.catalog_store import StoredCatalog, load
from engine.meta.policy import epochs_of
from engine.operators.context import partitions_for
from engine.operators.scan import hash_ranges, spark_schema
from engine.runtime.query import visible_columns


@dataclass(frozen=True)
class _HashRange(InputPartition):
    low: int
    high: int


class TidelineReader(DataSourceReader):
    """Reads one table at one epoch, a hash range a task."""

    def __init__(
        self, url: str, options: dict[str, Any], table: TableVersion, columns: tuple[str, ...], epoch: int
    ) -> None:
        self.url, self.options, self.table, self.columns, self.epoch = url, options, table, columns, epoch

    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        """Return the hash ranges that are read apart."""
        return [_HashRange(low, high) for low, high in hash_ranges(partitions_for(self.table.row_count, 2))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield the rows of one hash range."""
        assert isinstance(partition, _HashRange)
        reader = Reader.open(self.url, self.options)
        whole = partition.low == -(1 << 63) and partition.high == (1 << 63) - 1
        bounds = None if whole else (partition.low, partition.high)
        for batch in reader.scan(self.table, self.epoch, columns=list(self.columns), hash_range=bounds):
            yield batch.select(list(self.columns))


class TidelineDataSource(DataSource):
    """Options: `store` (the store's address), the table as the path, and `epoch` for time travel."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "tideline"

    def _open(self) -> tuple[Hummock, StoredCatalog, str]:
        url, table = self.options.get("store"), self.options.get("path")
        if not url or not table:
            raise TidelineError('format "tideline" needs .option("store", url) and .load("table")')
        store = Hummock.open(url, create=False)
        stored = load(store.refresh())
        return store, stored, stored.catalog.get(table).name

    def schema(self) -> StructType:
        """Return the schema of the table's visible columns."""
        store, stored, name = self._open()
        table = store.version.tables[name]
        fields = [table.schema.field(column) for column in visible_columns(stored.catalog.get(name))]
        return spark_schema(pa.schema([field.with_nullable(True) for field in fields]))

    def reader(self, schema: StructType) -> TidelineReader:
        """Return the reader of the table at the epoch asked for, or at its frontier."""
        store, stored, name = self._open()
        epoch = (
            int(self.options["epoch"])
            if "epoch" in self.options
            else epochs_of(store.version, stored, (name,))[name]
        )
        columns = visible_columns(stored.catalog.get(name))
        return TidelineReader(store.url, dict(store.options), store.version.tables[name], columns, epoch)
