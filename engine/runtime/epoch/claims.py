"""The checks of claims by which epochs of views leave work out (`engine/claims.py`), before anything of them is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.claims import APPEND_ONLY, CLOSED, KEPT_FRAME, NOT_NULL, OLD_ROWS
from engine.hummock import Reader, SstInfo, Table
from engine.hummock.expiry import as_numbers
from engine.hummock.merge import merged_parts, sources_of
from engine.hummock.version import HASH, OP
from engine.meta.catalog_store import StoredCatalog
from engine.operators.bounds import number_at
from engine.operators.materialize import NetChange
from engine.runtime.epoch.epoch_run import FragmentEpoch
from engine.runtime.executor import FragmentTask
from engine.verification import broken, verifying


def check_append_only(task: FragmentTask, done: FragmentEpoch) -> None:
    """Check `APPEND_ONLY` of an epoch; costs nothing, so it is done always."""
    changed = done.updated + done.deleted
    if task.old is not None and task.fragment.plan.append_only and changed:
        raise broken(
            APPEND_ONLY, f"{task.table.name} in ({task.old}, {task.new}] changed or lost {changed} rows"
        )


def check_change(
    reader: Reader, task: FragmentTask, done: FragmentEpoch, ssts: Sequence[SstInfo], required: Sequence[str]
) -> None:
    """Check `OLD_ROWS`, `CLOSED` and `NOT_NULL` (of the columns `required`) of an epoch's files, where claims are verified."""
    if not verifying():
        return
    rows = written_rows(reader, task.table, ssts)
    puts = rows.column(OP).to_numpy() == 0
    for name in required:
        nulls = rows.filter(pa.array(puts)).column(name).null_count
        if nulls:
            raise broken(
                NOT_NULL, f"column {name} of {task.table.name} got {nulls} nulls in ({task.old}, {task.new}]"
            )
    _check_closed(reader, task, rows)
    before = task.tables.get(task.table.name)
    if task.old is None or before is None or task.piece is not None:
        return
    stands = np.zeros(rows.num_rows, dtype=bool)
    if rows.num_rows:
        keys = rows.select(list(task.table.primary_key))
        found, _ = reader.lookup(before, keys, task.old, columns=keys.column_names[:1], null_safe=True)
        stands[found] = True
    told = [done.inserted, done.updated, done.deleted]
    seen = [int((puts & ~stands).sum()), int((puts & stands).sum()), int((~puts & stands).sum())]
    if told != seen:
        raise broken(
            OLD_ROWS,
            f"{task.table.name} in ({task.old}, {task.new}] is said to get {told[0]} rows, change {told[1]} and lose {told[2]}; "
            f"by the rows that stand there it is {seen[0]}, {seen[1]} and {seen[2]}, beside "
            f"{int((~puts & ~stands).sum())} deletions of nothing",
        )


def _check_closed(reader: Reader, task: FragmentTask, rows: pa.Table) -> None:
    """Check `CLOSED` of the changed rows of an epoch, as far as it is known where the watermark stood before."""
    expiry = task.fragment.expiry
    if expiry is None or expiry.late or task.old is None or task.whole or task.piece is not None:
        return
    sources = [task.tables.get(bound.scan.table) for bound in expiry.bounds]
    if any(source is None or source.safe_epoch > task.old for source in sources):
        return
    limit = number_at(reader, task.tables.get, expiry.bounds, task.old)
    least = pc.min(as_numbers(rows.column(expiry.column).combine_chunks())).as_py()
    if limit is not None and least is not None and least < limit:
        raise broken(
            CLOSED,
            f"{task.table.name} in ({task.old}, {task.new}] changed a row with {expiry.column} = {least}; the watermark stood at "
            f"{limit}",
        )


def check_kept_frame(
    reader: Reader, task: FragmentTask, kept: Sequence[NetChange], anew: Sequence[NetChange]
) -> None:
    """Check `KEPT_FRAME` of an epoch that was computed by a kept frame and `anew`."""
    one, other = (_bag(reader, task.table, made) for made in (kept, anew))
    if one != other:
        raise broken(
            KEPT_FRAME,
            f"{task.table.name} in ({task.old}, {task.new}]: the kept frame wrote {sum(one.values())} rows, a new one "
            f"{sum(other.values())}, or other values",
        )


def required_of(stored: StoredCatalog, table: str) -> tuple[str, ...]:
    """Return the columns of a table that the catalog says to hold no null, as they are stored."""
    relation = stored.catalog.relations.get(table)
    return () if relation is None else tuple(c.source for c in relation.columns if relation.is_never_null(c))


def written_rows(reader: Reader, table: Table, ssts: Sequence[SstInfo]) -> pa.Table:
    """Return the rows of new files with their operation, deletions among them."""
    columns = [HASH, *table.primary_key, OP, *table.value_columns]
    schema = pa.schema(
        [table.schema.field(n) for n in (*table.primary_key, *table.value_columns)]
        + [pa.field(OP, pa.uint8())]
    )
    parts = merged_parts(
        sources_of((tuple(ssts),)),
        lambda sst: reader.files.columns(sst, columns, table.schema),
        table.primary_key,
        None,
        keep_tombstones=True,
    )
    gathered = [part.select(schema.names) for part in parts]
    return pa.concat_tables(gathered) if gathered else schema.empty_table()


def _bag(reader: Reader, table: Table, made: Sequence[NetChange]) -> Counter[str]:
    rows = written_rows(reader, table, [sst for one in made for sst in one.ssts])
    return Counter(repr(row) for row in rows.to_pylist())
