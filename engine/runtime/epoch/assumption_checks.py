"""The checks of the assumptions by which epochs of views leave work out, before anything of them is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.assumptions import APPEND_ONLY, CLOSED, COMPUTED_AHEAD, KEPT_FRAME, LET_GO, NOT_NULL, OLD_ROWS
from engine.hummock import Reader, SstInfo, Table
from engine.hummock.reads.look_ahead import build_loader
from engine.hummock.reads.merge import list_newest_first, merge_parts
from engine.hummock.rows.expiry import disable_expiry, to_int64
from engine.hummock.sorted_files.assumption_checks import is_same_rows
from engine.hummock.version import HASH, OP
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.operators.lookups.moving_bounds import read_bound
from engine.operators.materialize import NetChange
from engine.runtime.epoch.epoch_run import FragmentEpoch
from engine.runtime.executor import FragmentTask
from engine.sql.incremental.rules import Lookups
from engine.sql.plan import list_scans
from engine.verification import Assumption, build_assumption_error, should_verify


def check_append_only(task: FragmentTask, done: FragmentEpoch) -> None:
    """Check `APPEND_ONLY` of an epoch; costs nothing, so it is done always."""
    changed = done.updated + done.deleted
    if task.old is not None and task.fragment.plan.append_only and changed:
        raise build_assumption_error(
            APPEND_ONLY, f"{task.table.name} in ({task.old}, {task.new}] changed or lost {changed} rows"
        )


def check_change(
    reader: Reader, task: FragmentTask, done: FragmentEpoch, ssts: Sequence[SstInfo], required: Sequence[str]
) -> None:
    """Check `OLD_ROWS`, `CLOSED` and `NOT_NULL` (of the columns `required`) of an epoch's files, where claims are verified."""
    if not should_verify():
        return
    rows = read_new_files(reader, task.table, ssts)
    puts = rows.column(OP).to_numpy() == 0
    for name in required:
        nulls = rows.filter(pa.array(puts)).column(name).null_count
        if nulls:
            raise build_assumption_error(
                NOT_NULL, f"column {name} of {task.table.name} got {nulls} nulls in ({task.old}, {task.new}]"
            )
    _check_closed(reader, task, rows)
    before = task.tables.get(task.table.name)
    if task.old is None or before is None or task.piece is not None:
        return
    existed = np.zeros(rows.num_rows, dtype=bool)
    if rows.num_rows:
        keys = rows.select(list(task.table.primary_key))
        found, _ = reader.lookup(before, keys, task.old, columns=keys.column_names[:1], null_safe=True)
        existed[found] = True
    reported = [done.inserted, done.updated, done.deleted]
    counted = [int((puts & ~existed).sum()), int((puts & existed).sum()), int((~puts & existed).sum())]
    if reported != counted:
        raise build_assumption_error(
            OLD_ROWS,
            f"{task.table.name} in ({task.old}, {task.new}] is said to get {reported[0]} rows, change "
            f"{reported[1]} and lose {reported[2]}; "
            f"by the rows that stand there it is {counted[0]}, {counted[1]} and {counted[2]}, beside "
            f"{int((~puts & ~existed).sum())} deletions of nothing",
        )


def _check_closed(reader: Reader, task: FragmentTask, rows: pa.Table) -> None:
    """Check `CLOSED` of the changed rows of an epoch, as far as it is known where the watermark stood before."""
    expiry = task.fragment.expiry
    if expiry is None or expiry.late or task.old is None or task.whole or task.piece is not None:
        return
    sources = [task.tables.get(bound.scan.table) for bound in expiry.bounds]
    if any(source is None or source.safe_epoch > task.old for source in sources):
        return
    limit = read_bound(reader, task.tables.get, expiry.bounds, task.old)
    least = pc.min(to_int64(rows.column(expiry.column).combine_chunks())).as_py()
    if limit is not None and least is not None and least < limit:
        raise build_assumption_error(
            CLOSED,
            f"{task.table.name} in ({task.old}, {task.new}] changed a row with {expiry.column} = {least}; the watermark stood at "
            f"{limit}",
        )


_ANEW = {
    KEPT_FRAME: "by a new frame",
    COMPUTED_AHEAD: "at the domain's turn",
    LET_GO: "over hidden rows as well",
}
"""How an epoch is computed once more to check a claim."""


def check_recomputed(
    reader: Reader,
    task: FragmentTask,
    claim: Assumption,
    made: Sequence[NetChange],
    anew: Sequence[NetChange],
) -> None:
    """Check a claim of an epoch by the change that was `made`, and the one that was computed `anew` without the claim."""
    one, other = (
        read_new_files(reader, task.table, [sst for change in each for sst in change.ssts])
        for each in (made, anew)
    )
    if is_same_rows(one, other):
        return
    what = f"{task.table.name} in ({task.old}, {task.new}] got {one.num_rows} rows"
    raise build_assumption_error(claim, f"{what}, and {other.num_rows}, or other values, {_ANEW[claim]}")


def include_hidden_rows(task: FragmentTask) -> FragmentTask | None:
    """Return the task over all rows of the states of joins that let go of some, None where there are none."""
    if (
        task.old is None
        or task.whole
        or task.piece is not None
        or not isinstance(task.fragment.rule, Lookups)
    ):
        return None
    hiding = {scan.table for scan in list_scans(task.fragment.plan) if scan.expires}
    found = {name: disable_expiry(task.tables[name]) for name in hiding if name in task.tables}
    return replace(task, tables={**task.tables, **found}) if found else None


def list_required_columns(stored: StoredCatalog, table: str) -> tuple[str, ...]:
    """Return the columns of a table that the catalog says to hold no null, as they are stored."""
    relation = stored.catalog.relations.get(table)
    return (
        ()
        if relation is None
        else tuple(c.storage_name for c in relation.columns if relation.is_never_null(c))
    )


def read_new_files(reader: Reader, table: Table, ssts: Sequence[SstInfo]) -> pa.Table:
    """Return the rows of new files with their operation, deletions among them."""
    columns = [HASH, *table.primary_key, OP, *table.value_columns]
    schema = pa.schema(
        [table.schema.field(n) for n in (*table.primary_key, *table.value_columns)]
        + [pa.field(OP, pa.uint8())]
    )
    parts = merge_parts(
        list_newest_first((tuple(ssts),)),
        build_loader(reader.files, columns, table.schema),
        table.primary_key,
        None,
        keep_tombstones=True,
    )
    gathered = [part.select(schema.names) for part in parts]
    return pa.concat_tables(gathered) if gathered else schema.empty_table()
