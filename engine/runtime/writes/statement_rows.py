"""The rows that a statement is to write: few in this process, many in spill files."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.hummock import Hummock, Version
from engine.hummock.monitoring.driver_traffic import track_rows
from engine.operators.context import count_partitions
from engine.runtime.reads.spark_read import collect_rows
from engine.runtime.spark.session import EngineSpark
from engine.runtime.writes.driver_rows import DRIVER_LIMIT, estimate_tasks, is_surely_small
from engine.runtime.writes.spill import SpilledRows, gather_rows
from engine.sql.batch.ad_hoc import SparkQuery


@dataclass(frozen=True)
class StatementQuery:
    """A query of a statement: its `frame`, whose temporary views stand, and what it reads of `version`.

    `only` is a table of which each row gives one row at most, if there is one. `returned` rows are all held here, whatever
    their number: they are what the user asked for.
    """

    store: Hummock
    session: SparkSession
    version: Version
    query: SparkQuery
    frame: DataFrame
    sql: str
    only: str | None = None
    returned: bool = False

    @property
    def are_few(self) -> bool:
        """Whether the rows are collected as they are: a task of Python costs more than so few rows."""
        return self.returned or is_surely_small(self.version, self.query, DRIVER_LIMIT.read(), only=self.only)

    @property
    def inline_bytes(self) -> int:
        """How many bytes of rows one task may hand over, so that all of them keep to the setting."""
        cores, tables = EngineSpark.of(self.session).count_parallel_tasks(), self.version.tables
        rows = [tables[r.table].row_count for r in self.query.readings if r.table in tables]
        return DRIVER_LIMIT.read() // estimate_tasks(self.query, cores, count_partitions(sum(rows), cores))

    def read(self) -> pa.Table | SpilledRows:
        """Run the query once and return its rows, or where they are."""
        if self.are_few:
            return track_rows(collect_rows(self.frame, self.sql))
        url, options = self.store.url, dict(self.store.options)
        return gather_rows(self.frame, url, options, self.sql, self.inline_bytes)
