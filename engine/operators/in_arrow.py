"""Bodies of tasks over the rows of a frame, whatever its columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Named:
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
        return frame.mapInArrow(body, schema)
    plain = frame.toDF(*(f"_{n}" for n in range(len(names))))
    return plain.mapInArrow(Named(tuple(names), body), schema)
