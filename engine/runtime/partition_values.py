"""Which partitions a view that is cut by column values holds rows of."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.hummock import Hummock, TableVersion
from engine.sql.partitions import NULL_KEY, Partitioning

_AS_TEXT = ("tinyint", "smallint", "int", "bigint", "string", "date")


def partition_values(
    store: Hummock, spark: Callable[[], SparkSession], table: TableVersion, how: Partitioning
) -> list[str]:
    """Return the names of the partitions that a view has rows of, sorted; dates, texts and whole numbers need no Spark."""
    columns = list(how.columns)
    batches = list(store.reader.scan(table, table.committed_epoch, columns=columns))
    schema = pa.schema([table.schema.field(name) for name in columns])
    rows = pa.Table.from_batches(batches, schema).group_by(columns).aggregate([])
    if not rows.num_rows:
        return []
    if all(kind in _AS_TEXT for kind in how.types):
        texts = [
            [NULL_KEY if value is None else str(value) for value in rows.column(name).to_pylist()]
            for name in columns
        ]
        return sorted({"|".join(parts) for parts in zip(*texts, strict=True)})
    frame = spark().createDataFrame(rows)
    found = frame.selectExpr(f"{how.key(how.tables[how.view])} AS `key`").distinct().collect()
    return sorted(row.key for row in found)
