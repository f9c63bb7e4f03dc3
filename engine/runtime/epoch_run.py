"""One epoch of one fragment: its inputs' changes in (committed, e] become its table's change, in files that a commit can name."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import table_of
from engine.operators.aggregate import keyed_recompute, partials_delta
from engine.operators.compile import delta
from engine.operators.context import SMALL_CHANGE_ROWS, EpochContext
from engine.operators.sink import write, write_change
from engine.runtime.analyze import whole_fragment
from engine.runtime.spark import parallelism
from engine.sql.fragments import Fragment
from engine.sql.plan import Aggregate, Project, Scan


@dataclass(frozen=True)
class FragmentEpoch:
    """What one fragment's epoch did."""

    previous: int | None
    epoch: int
    rows_in: int
    inserted: int
    updated: int
    deleted: int
    seconds: dict[str, float]


def run_fragment(
    store: Hummock,
    version: Version,
    spark: SparkSession,
    fragment: Fragment,
    dependencies: tuple[str, ...],
    upto: int,
) -> tuple[FragmentEpoch, Commit]:
    """Bring a fragment's table to epoch `upto`; return what was done, and the commit that makes it visible."""
    own = version.tables.get(fragment.table)
    previous = own.committed_epoch if own is not None else None
    table = own.table if own is not None else table_of(fragment)
    rows = rows_in(version, fragment, previous, upto)
    started = time.perf_counter()
    if fragment.rule == "index" and previous is not None and rows <= SMALL_CHANGE_ROWS:
        assert isinstance(fragment.plan, Scan)
        source = version.tables[fragment.plan.table]
        batches = list(store.reader.changes(source, previous, upto))
        written = [write_change(store.reader, table, pa.Table.from_batches(batches))] if batches else []
        seconds = {"write": time.perf_counter() - started}
    else:
        context = EpochContext(
            spark,
            store.url,
            store.options,
            version.tables,
            previous,
            upto,
            parallelism(spark),
            rows,
        )
        spark.conf.set("spark.sql.adaptive.enabled", "true" if previous is None else "false")
        spark.conf.set("spark.sql.shuffle.partitions", str(context.partitions))
        frame = fragment_change(fragment, context)
        planned = time.perf_counter()
        written = write(frame, table, context) if frame is not None else []
        seconds = {"plan": planned - started, "spark": time.perf_counter() - planned}
    commit = Commit(
        create=() if previous is not None else (table,),
        writes={fragment.table: tuple(sst for change in written for sst in change.ssts)},
        epochs={fragment.table: upto},
        acks={name: {fragment.table: upto} for name in dependencies},
    )
    done = FragmentEpoch(
        previous,
        upto,
        rows,
        sum(change.inserted for change in written),
        sum(change.updated for change in written),
        sum(change.deleted for change in written),
        seconds,
    )
    return done, commit


def fragment_change(fragment: Fragment, context: EpochContext) -> DataFrame | None:
    """Return the signed change of a fragment's table in the context's epoch, or None if there is none."""
    if context.old is None:
        return whole_fragment(fragment, context).selectExpr("*", "1L AS `_w`")
    plan = fragment.plan
    if fragment.rule not in ("aggregate", "keyed recompute"):
        return delta(plan, context)
    assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
    change = delta(plan.input.input, context)
    if change is None:
        return None
    context.terms = 0  # an aggregate's own output has one old and one new row a group
    if fragment.rule == "aggregate":
        return partials_delta(plan, fragment.table, fragment.partials, change, context)
    return keyed_recompute(plan, fragment.table, change, context)


def rows_in(version: Version, fragment: Fragment, previous: int | None, upto: int) -> int:
    """Return an upper bound of the input rows that an epoch of a fragment reads."""
    tables = [version.tables[name] for name in fragment.inputs]
    if previous is None:
        return sum(table.row_count for table in tables)
    return sum(table.changed_rows(previous, upto) for table in tables)
