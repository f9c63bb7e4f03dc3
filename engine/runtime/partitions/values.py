"""Where the partitions of a view stand, and in which of them rows have changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.hummock import Hummock, TableVersion
from engine.hummock.rows.key_numbers import deduplicate
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.quarantine import PartitionStatus, find_partitioning, read_quarantine
from engine.runtime.partitions.checks import require_partitioning
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.incremental.partitions import NULL_KEY, Partitioning
from engine.sql.typing.whole_numbers import INTEGRAL

NAMED_AT_ONCE = 100_000
_AS_TEXT = (*INTEGRAL, "string", "date")


def list_partition_statuses(
    store: Hummock, spark: Callable[[], SparkSession], view: str
) -> tuple[PartitionStatus, ...]:
    """Return where the partitions of a view stand, those in quarantine first; raises SqlError if it has none.

    Groups of vnodes are all listed; of a view that is cut by values those that it holds rows of.
    """
    how, own = _find_partitioning(store, view)
    behind = read_quarantine(store.version, how.view)
    epoch = own.committed_epoch if own is not None else None
    found = [
        PartitionStatus(key, q.epoch, q.error, q.attempts, q.tries.retry_at) for key, q in behind.items()
    ]
    keys: Collection[str] = ()
    if how.groups is not None:
        keys = [str(group) for group in range(how.groups)]
    elif own is not None:
        keys = _list_held_partitions(store, spark, own, how)
    return (*found, *(PartitionStatus(key, epoch) for key in keys if key not in behind))


def list_changed_partitions(
    store: Hummock, spark: Callable[[], SparkSession], view: str, after: int | None
) -> tuple[str, ...]:
    """Return the partitions of which a view's rows came, changed or went after an epoch, sorted.

    All that it has rows of, if its change log does not reach back there. Raises SqlError if the view has no partitions.
    """
    how, own = _find_partitioning(store, view)
    if own is None:
        return ()
    if after is None or own.safe_epoch > after:
        return _list_held_partitions(store, spark, own, how)
    # read with all columns: a change that the columns asked for do not show would be left out
    changes = store.reader.read_changes(own, after, own.committed_epoch)
    return _collect_names(changes, own, spark, how)


def _find_partitioning(store: Hummock, view: str) -> tuple[Partitioning, TableVersion | None]:
    version = store.refresh()
    stored = load_catalog(version)
    relation = stored.catalog.get(view)
    how = require_partitioning(relation, find_partitioning(stored, relation.name))
    return how, find_computed_table(version, relation.name)


def _list_held_partitions(
    store: Hummock, spark: Callable[[], SparkSession], table: TableVersion, how: Partitioning
) -> tuple[str, ...]:
    """Return the names of the partitions that a view has rows of, sorted."""
    batches = store.reader.scan(table, table.committed_epoch, columns=list(how.columns))
    return _collect_names(batches, table, spark, how)


def _collect_names(
    batches: Iterable[pa.RecordBatch],
    table: TableVersion,
    spark: Callable[[], SparkSession],
    how: Partitioning,
) -> tuple[str, ...]:
    """Return the names of the partitions of rows, sorted; of the rows no more than NAMED_AT_ONCE and a batch are held."""
    columns, found = list(how.columns), set[str]()
    empty = pa.schema([table.schema.field(name).with_nullable(True) for name in columns]).empty_table()
    rows = empty
    for batch in batches:
        part = pa.Table.from_batches([batch]).select(columns).cast(empty.schema)
        rows = deduplicate(pa.concat_tables([rows, part]))
        if rows.num_rows >= NAMED_AT_ONCE:  # groups of vnodes: their columns have many more values than names
            found |= _compute_names(rows, spark, how)
            rows = empty
            if how.groups is not None and len(found) == how.groups:
                break
    return tuple(sorted(found | _compute_names(rows, spark, how)))


def _compute_names(rows: pa.Table, spark: Callable[[], SparkSession], how: Partitioning) -> set[str]:
    """Return the names of the partitions of a few rows of the columns by which a view is cut."""
    if not rows.num_rows:
        return set()
    if how.groups is None and all(kind in _AS_TEXT for kind in how.types):
        with suppress(OverflowError):  # of dates of years that Python has not Spark knows the text
            texts = [
                [NULL_KEY if value is None else str(value) for value in rows.column(name).to_pylist()]
                for name in how.columns
            ]
            return {"|".join(parts) for parts in zip(*texts, strict=True)}
    frame = spark().createDataFrame(rows)
    found = (
        frame.selectExpr(f"{render_spark_sql(how.build_key(how.tables[how.view]))} AS `key`")
        .distinct()
        .collect()
    )
    return {row.key for row in found}
