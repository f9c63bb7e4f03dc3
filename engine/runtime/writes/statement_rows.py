"""The rows that a statement is to write: few in this process, many in spill files."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.hummock import Hummock, Version
from engine.hummock.driver_traffic import held
from engine.operators.context import partitions_for
from engine.runtime.reads.spark_read import collect
from engine.runtime.spark.session import parallelism
from engine.runtime.writes.driver_rows import driver_bytes, surely_few, tasks_of
from engine.runtime.writes.spilled import Spilled, gathered
from engine.sql.batch.ad_hoc import SparkQuery


@dataclass(frozen=True)
class StatementRows:
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
        return self.returned or surely_few(self.version, self.query, driver_bytes(), only=self.only)

    @property
    def inline_bytes(self) -> int:
        """How many bytes of rows one task may hand over, so that all of them keep to the setting."""
        cores, tables = parallelism(self.session), self.version.tables
        rows = [tables[r.table].row_count for r in self.query.readings if r.table in tables]
        return driver_bytes() // tasks_of(self.query, cores, partitions_for(sum(rows), cores))

    def read(self) -> pa.Table | Spilled:
        """Run the query once and return its rows, or where they are."""
        if self.are_few:
            return held(collect(self.frame, self.sql))
        url, options = self.store.url, dict(self.store.options)
        return gathered(self.frame, url, options, self.sql, self.inline_bytes)
