"""The checks of claims by which epochs of views leave work out (`engine/claims.py`), before anything of them is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_rows
from engine.claims import APPEND_ONLY, CLOSED, KEPT_FRAME, LET_GO, NOT_NULL, OLD_ROWS
from engine.hummock import Reader, SstInfo, Table
from engine.hummock.expiry import ageless, as_numbers
from engine.hummock.look_ahead import loading
from engine.hummock.merge import merged_parts, sources_of
from engine.hummock.version import HASH, OP
from engine.meta.catalog_store import StoredCatalog
from engine.operators.bounds import number_at
from engine.operators.materialize import NetChange
from engine.runtime.epoch.epoch_run import FragmentEpoch
from engine.runtime.executor import FragmentTask
from engine.sql.incremental.rules import Lookups
from engine.sql.plan import scans
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
    told = _difference(reader, task, kept, anew)
    if told is not None:
        raise broken(KEPT_FRAME, f"{told} by a new frame")


def check_let_go(
    reader: Reader, task: FragmentTask, made: Sequence[NetChange], over_all: Sequence[NetChange]
) -> None:
    """Check `LET_GO` of an epoch that was computed `over_all` rows of the states that it looks up, the hidden ones too."""
    told = _difference(reader, task, made, over_all)
    if told is not None:
        raise broken(LET_GO, f"{told} over hidden rows as well")


def over_hidden_rows(task: FragmentTask) -> FragmentTask | None:
    """Return the task over all rows of the states of joins that let go of some, None where there are none."""
    if (
        task.old is None
        or task.whole
        or task.piece is not None
        or not isinstance(task.fragment.rule, Lookups)
    ):
        return None
    hiding = {scan.table for scan in scans(task.fragment.plan) if scan.expires}
    found = {name: ageless(task.tables[name]) for name in hiding if name in task.tables}
    return replace(task, tables={**task.tables, **found}) if found else None


def _difference(
    reader: Reader, task: FragmentTask, made: Sequence[NetChange], again: Sequence[NetChange]
) -> str | None:
    one, other = (_bag(reader, task.table, each) for each in (made, again))
    if one == other:
        return None
    what = f"{task.table.name} in ({task.old}, {task.new}] got {sum(one.values())} rows"
    return f"{what}, and {sum(other.values())}, or other values,"


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
        loading(reader.files, columns, table.schema),
        table.primary_key,
        None,
        keep_tombstones=True,
    )
    gathered = [part.select(schema.names) for part in parts]
    return pa.concat_tables(gathered) if gathered else schema.empty_table()


def _bag(reader: Reader, table: Table, made: Sequence[NetChange]) -> Counter[str]:
    rows = written_rows(reader, table, [sst for one in made for sst in one.ssts])
    return Counter(repr(row) for row in as_rows(rows))
