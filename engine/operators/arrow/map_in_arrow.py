"""Bodies of tasks over the rows of a frame, whatever its columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from engine.spark_internals import set_schema

Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_ONLY_TASK = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
"""What starts a body of one task: its number among those that share the work of a fragment."""


@dataclass(frozen=True)
class RenameColumns:
    """A body whose rows come under other names than the body knows them by."""

    names: tuple[str, ...]
    body: Body

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.body(batch.rename_columns(list(self.names)) for batch in batches)


def map_in_arrow(frame: DataFrame, body: Body, schema: StructType) -> DataFrame:
    """Return what a task's body makes of the rows of a frame.

    PySpark looks the columns up by what it takes for an expression: a dot in a name would mean a field.
    """
    names = frame.columns
    if not any(mark in name for name in names for mark in ".`"):
        return set_schema(frame.mapInArrow(body, schema), schema)
    plain = frame.toDF(*(f"_{n}" for n in range(len(names))))
    return set_schema(plain.mapInArrow(RenameColumns(tuple(names), body), schema), schema)


def make_task_frame(spark: SparkSession, tasks: int) -> DataFrame:
    """Return a frame that starts so many tasks, each with a row that holds its number."""
    numbers = StructType([StructField("id", LongType(), False)])
    return set_schema(spark.range(0, tasks, 1, tasks), numbers)


def run_alone(body: Body) -> list[pa.RecordBatch]:
    """Return what the only task of a frame would make by a body that starts with rows of its own; this process runs it."""
    return list(body(iter([_ONLY_TASK])))
