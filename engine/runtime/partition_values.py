"""Which partitions a view holds rows of, and in which of them rows have changed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
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
    return _keys(pa.Table.from_batches(batches, schema), spark, how)


def changed_partitions(
    store: Hummock, spark: Callable[[], SparkSession], table: TableVersion, how: Partitioning, after: int
) -> list[str]:
    """Return the names of the partitions of which a view's rows came, changed or went after epoch `after`, sorted.

    Raises EpochExpired if the view's change log does not reach back there.
    """
    schema = pa.schema([table.schema.field(name) for name in how.columns])
    sides: list[pa.Table] = []
    for batch in store.iter_log(table.name, after, table.committed_epoch):
        rows = pa.Table.from_batches([batch])
        for prefix, absent in (("", "delete"), ("_old_", "insert")):
            there = rows.filter(pc.not_equal(rows.column("_op"), absent))
            arrays = [there.column(prefix + name) for name in how.columns]
            sides.append(pa.Table.from_arrays(arrays, schema=schema))
    return _keys(pa.concat_tables(sides) if sides else schema.empty_table(), spark, how)


def _keys(rows: pa.Table, spark: Callable[[], SparkSession], how: Partitioning) -> list[str]:
    rows = rows.group_by(list(how.columns)).aggregate([])
    if not rows.num_rows:
        return []
    if how.groups is None and all(kind in _AS_TEXT for kind in how.types):
        texts = [
            [NULL_KEY if value is None else str(value) for value in rows.column(name).to_pylist()]
            for name in how.columns
        ]
        return sorted({"|".join(parts) for parts in zip(*texts, strict=True)})
    frame = spark().createDataFrame(rows)
    found = frame.selectExpr(f"{how.key(how.tables[how.view])} AS `key`").distinct().collect()
    return sorted(row.key for row in found)
