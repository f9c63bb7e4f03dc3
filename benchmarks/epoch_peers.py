"""What `benchmarks.epochs` compares with: Spark's full recompute, a hand-written MERGE into Delta, Structured Streaming, DuckDB.

Each peer finds the base tables as Parquet and the changes of an epoch as Parquet; writing those is not measured.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.epoch_cases import BenchmarkCase, TableChange

PARTITIONS = "2"


def open_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same Spark with the settings that are best for batch jobs on two cores."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", str(10 << 20))
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return session


class Tables:
    """The base tables as plain Parquet, written anew whenever they have changed."""

    def __init__(self, case: BenchmarkCase, folder: Path) -> None:
        self.case, self.folder = case, folder

    def get_path(self, table: str) -> Path:
        """Return the folder of a table."""
        return self.folder / table

    def write(self) -> None:
        """Write every table as it is now."""
        for table in self.case.ddl:
            self.write_one(table)

    def write_one(self, table: str) -> None:
        """Write a table as it is now."""
        shutil.rmtree(self.get_path(table), ignore_errors=True)
        self.get_path(table).mkdir(parents=True)
        for n, chunk in enumerate(self.case.generate_content(table)):
            pq.write_table(chunk, self.get_path(table) / f"part-{n:05d}.parquet")


class SparkRecompute:
    """The whole query again, by Spark, from Parquet to Parquet."""

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path) -> None:
        self.spark, self.tables, self.into = open_session(spark), tables, folder / "recomputed"

    def measure_seconds(self) -> float:
        """Run the query once."""
        for table in self.tables.case.ddl:
            self.spark.read.parquet(str(self.tables.get_path(table))).createOrReplaceTempView(table)
        started = time.perf_counter()
        self.spark.sql(self.tables.case.query).write.mode("overwrite").parquet(str(self.into))
        return time.perf_counter() - started

    def read_rows(self) -> pa.Table:
        """Return what the last run wrote."""
        return pq.read_table(self.into)


class DuckDB:
    """The whole query again, by DuckDB, from Parquet to Parquet."""

    def __init__(self, tables: Tables, folder: Path) -> None:
        self.tables, self.into = tables, folder / "duckdb.parquet"

    def measure_seconds(self) -> float:
        """Run the query once, on two threads."""
        with duckdb.connect(config={"threads": 2}) as connection:
            for table in self.tables.case.ddl:
                connection.execute(
                    f"CREATE VIEW {table} AS FROM read_parquet('{self.tables.get_path(table)}/*.parquet')"
                )
            started = time.perf_counter()
            connection.execute(f"COPY ({self.tables.case.query}) TO '{self.into}' (FORMAT parquet)")
            return time.perf_counter() - started


class DeltaMerge:
    """The job that one writes by hand: the change of the result computed from the changed rows, merged into a Delta table.

    With deletion vectors a merge marks rows in files and writes just the new ones; without, it writes the files anew.
    """

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path, deletion_vectors: bool) -> None:
        self.spark, self.tables, self.folder = open_session(spark), tables, folder
        self.deletion_vectors = str(deletion_vectors).lower()
        self.table = folder / f"merged-{self.deletion_vectors}"
        self.spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self.spark.conf.set("spark.databricks.delta.merge.repartitionBeforeWrite.enabled", "true")
        persistent = "spark.databricks.delta.merge.deletionVectors.persistent"
        self.spark.conf.set(persistent, self.deletion_vectors)

    def build(self, recomputed: Path) -> None:
        """Write the table from the result of a recompute."""
        rows = self.spark.read.parquet(str(recomputed))
        writer = rows.write.format("delta").mode("overwrite")
        writer.option("delta.enableDeletionVectors", self.deletion_vectors).save(str(self.table))

    def measure_seconds(self, changes: Sequence[TableChange]) -> float:
        """Bring one epoch's changes in."""
        frames: dict[tuple[str, str], DataFrame] = {}
        for n, change in enumerate(changes):
            path = self.folder / f"changes-{n}.parquet"
            pq.write_table(change.rows, path)
            frames[change.table, change.mode] = self.spark.read.parquet(str(path))
        started = time.perf_counter()
        if self.tables.case.name == "wide":
            self._merge_wide(frames)
        else:
            self._aggregate(frames["bid", "insert"])
        return time.perf_counter() - started

    def read_rows(self) -> pa.Table:
        """Return the table's content."""
        return self.spark.read.format("delta").load(str(self.table)).toArrow()

    def _aggregate(self, bids: DataFrame) -> None:
        case = self.tables.case
        for table in case.ddl:
            self.spark.read.parquet(str(self.tables.get_path(table))).createOrReplaceTempView(table)
        bids.createOrReplaceTempView("bid")
        added = {"bids": "t.bids + s.bids", "total": "t.total + s.total"}
        if case.name == "groups":
            added["high"] = "greatest(t.high, s.high)"
        on = " AND ".join(f"t.{column} = s.{column}" for column in case.key)
        sets = ", ".join(f"t.{column} = {value}" for column, value in added.items())
        self.spark.sql(
            f"MERGE INTO delta.`{self.table}` t USING ({case.query}) s ON {on} "
            f"WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def _merge_wide(self, frames: dict[tuple[str, str], DataFrame]) -> None:
        """First the changed customers in the rows that are there, then the orders, joined with all customers."""
        self.spark.read.parquet(str(self.tables.get_path("customer"))).createOrReplaceTempView("customer")
        frames["customer", "upsert"].createOrReplaceTempView("changed_customer")
        frames["orders", "upsert"].createOrReplaceTempView("changed_order")
        frames["orders", "delete"].createOrReplaceTempView("deleted_order")
        self.spark.sql(
            f"MERGE INTO delta.`{self.table}` t USING changed_customer s ON t.customer = s.id "
            "WHEN MATCHED THEN UPDATE SET t.name = s.name, t.nation = s.nation, t.segment = s.segment"
        ).collect()
        columns = "id, customer, ordered, status, amount, name, nation, segment"
        wide = (
            "SELECT o.*, c.name, c.nation, c.segment, false AS gone "
            "FROM changed_order o LEFT JOIN customer c ON o.customer = c.id"
        )
        gone = f"SELECT d.id, {', '.join(f'NULL AS {c}' for c in columns.split(', ')[1:])}, true AS gone FROM deleted_order d"
        self.spark.sql(
            f"MERGE INTO delta.`{self.table}` t USING ({wide} UNION ALL {gone}) s ON t.id = s.id "
            "WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns.split(', '))} "
            f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({', '.join(f's.{c}' for c in columns.split(', '))})"
        ).collect()


class Streaming:
    """Structured Streaming with its state in RocksDB; it leaves the changed groups as files, no table."""

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path) -> None:
        self.source, self.sink = folder / "stream", folder / "stream-out"
        self.staging, self.checkpoint = folder / "stream-staging", folder / "stream-checkpoint"
        for path in (self.source, self.staging):
            path.mkdir()
        session = open_session(spark)
        session.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        session.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        session.conf.set("spark.sql.streaming.stateStore.rocksdb.compression", "zstd")  # as our files are
        session.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        self.number = 0
        for chunk in tables.case.generate_content("bid"):
            self._stage(chunk)
        first = next(tables.case.generate_content("bid"))
        schema = session.createDataFrame(first.slice(0, 1)).schema
        stream = session.readStream.schema(schema).parquet(str(self.source))
        stream.createOrReplaceTempView("bid")
        grouped = session.sql(tables.case.query)
        writer = grouped.writeStream.outputMode("update").option("checkpointLocation", str(self.checkpoint))
        self.query = writer.foreachBatch(self._write).start()
        self.query.processAllAvailable()

    def measure_seconds(self, changes: Sequence[TableChange]) -> float:
        """Bring one epoch's changes in: from the file that appears to the batch that is done."""
        started = self._stage(changes[0].rows)
        self.query.processAllAvailable()
        return time.perf_counter() - started

    def stop(self) -> None:
        """End the stream."""
        self.query.stop()

    def _stage(self, rows: pa.Table) -> float:
        name = f"{self.number:06d}.parquet"
        self.number += 1
        pq.write_table(rows, self.staging / name)
        started = time.perf_counter()
        (self.staging / name).rename(self.source / name)
        return started

    def _write(self, batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(self.sink / str(number)))
