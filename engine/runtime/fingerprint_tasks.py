"""Fingerprints of large tables by Spark's tasks: each reads ranges of hashes from the store, and answers with their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from engine.arrow import as_values
from engine.errors import StorageError
from engine.hummock import Hummock, Reader, TableVersion
from engine.hummock.reads.merge import HashRange
from engine.hummock.rows.fingerprint import add_fingerprints, decode_fingerprint, encode_fingerprint
from engine.hummock.upkeep.fingerprints import open_uncached, sum_range
from engine.operators.arrow.map_in_arrow import map_in_arrow
from engine.runtime.spark.errors import find_task_error
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate, collect, set_schema

LEAST_ROWS = 2_000_000
"""Fewer rows are read by the process itself: it takes a second or two."""
_SUMS = StructType([StructField("value", BinaryType()), StructField("rows", LongType())])


@dataclass(frozen=True)
class SumRanges:
    """A task's body: the fingerprints of the ranges whose numbers it gets."""

    url: str
    options: Mapping[str, Any]
    table: TableVersion
    epoch: int
    ranges: tuple[HashRange, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open_uncached(Reader.open(self.url, self.options)) as reader:
            for batch in batches:
                within = [self.ranges[number] for number in as_values(batch.column(0))]
                sums = [sum_range(reader, self.table, self.epoch, one, lambda rows: None) for one in within]
                values = pa.array([encode_fingerprint(value) for value, _ in sums], pa.binary())
                counts = pa.array([rows for _, rows in sums], pa.int64())
                yield pa.record_batch([values, counts], names=["value", "rows"])


class FingerprintTasks:
    """Computes the fingerprints of large tables by tasks of the Spark that `spark` returns; of None by who asks."""

    def __init__(self, store: Hummock, spark: Callable[[], EngineSpark | None]) -> None:
        self._store, self._spark = store, spark

    def sum_ranges(
        self, table: TableVersion, epoch: int, ranges: Sequence[HashRange], tell: Callable[[int], None]
    ) -> tuple[int, int] | None:
        """Return the sum of the ranges and how many rows they have, None where the table is small, or no Spark is at hand.

        Raises StorageError where a task fails.
        """
        rows = sum(sst.rows for run in table.as_of(epoch) for sst in run)
        spark = self._spark() if rows >= LEAST_ROWS else None
        if spark is None:
            return None
        body = SumRanges(
            self._store.url, dict(self._store.options), table.narrow(epoch, epoch), epoch, tuple(ranges)
        )
        activate(spark.session)
        frame = map_in_arrow(_build_number_frame(spark.session, len(ranges)), body, _SUMS)
        try:
            found = list(collect(frame))
        except PySparkException as error:
            raise StorageError(
                f"Spark's tasks could not read table {table.name}: {find_task_error(error)}. Look at the executors' logs"
            ) from error
        tell(sum(count for _, count in found))
        value = add_fingerprints(decode_fingerprint(bytes(one)) for one, _ in found)
        return value, sum(count for _, count in found)


def _build_number_frame(spark: SparkSession, count: int) -> DataFrame:
    """Return a frame of numbers, each of a task of its own."""
    numbers = spark.range(0, count, 1, count)
    return set_schema(numbers, StructType([StructField("id", LongType(), False)]))
