"""The end of every fragment's epoch: signed rows become one net change per key, sorted files, and a report row per task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from engine.arrow import as_rows, compute_sort_indices, to_mask, to_positions
from engine.errors import DuplicateKey
from engine.hummock import Reader, SstInfo, Table, with_new_keys
from engine.hummock.metrics import Counters
from engine.hummock.rows.key_numbers import find_first_of_each, number_keys, number_rows
from engine.hummock.rows.ordering import (
    argsort_stable,
    as_numbers,
    equal_to_previous,
    holds_floats,
    identical_to_previous,
    pack_codes,
)
from engine.operators.change import Change
from engine.operators.context import EpochContext
from engine.operators.flow import Flow
from engine.operators.skew import NO_LOAD, WriteLoad, measure_load
from engine.operators.spread import spread_by_vnode

_COUNTS = ("inserted", "updated", "deleted", "again")
RESULT_SCHEMA = StructType(
    [
        StructField("ssts", BinaryType()),
        StructField("requests", BinaryType()),
        StructField("load", BinaryType()),
        *(StructField(name, LongType()) for name in _COUNTS),
    ]
)
_REPORT = pa.schema(
    dict.fromkeys(("ssts", "requests", "load"), pa.binary()) | dict.fromkeys(_COUNTS, pa.int64())
)
AGAIN = "_again"
OPERATION, WAS = "_op", "_was"
"""The columns of a *settled* change, which has one row a key: 0 to put it or 1 to delete it, and whether the key was there."""


@dataclass(frozen=True)
class NetChange:
    """What one task wrote: files, and how many keys it inserted, updated and deleted.

    `again` of them are of partitions that were recomputed. `driver_bytes` have passed through the driver: what a task answers, or
    rows that are copied there. `load` is what came to the task.
    """

    ssts: tuple[SstInfo, ...]
    inserted: int
    updated: int
    deleted: int
    again: int = 0
    driver_bytes: int = 0
    load: WriteLoad = NO_LOAD


def net_by_key(rows: pa.Table, primary_key: tuple[str, ...], table: str) -> tuple[pa.Table, int, int, int]:
    """Net signed rows to one operation a key: (rows with `_op` 0 put or 1 delete, inserted, updated, deleted).

    Equal rows cancel; what is left of a key may be one retracted and one inserted row. Raises DuplicateKey for more.

    >>> rows = pa.table({"id": [1, 1, 2], "n": [5, 6, 9], "_w": pa.array([-1, 1, -1], pa.int8())})
    >>> net_by_key(rows, ("id",), "t")[0].to_pylist()
    [{'id': 1, 'n': 6, '_op': 0}, {'id': 2, 'n': 9, '_op': 1}]
    """
    found = net_with_old_rows(rows, primary_key, table)
    return found.rows, found.inserted, found.updated, found.deleted


class NetRows(NamedTuple):
    """One operation a key: rows with `_op` 0 put or 1 delete, how many of which kind, and the `old` rows that went."""

    rows: pa.Table
    inserted: int
    updated: int
    deleted: int
    old: pa.Table


def net_with_old_rows(rows: pa.Table, primary_key: tuple[str, ...], table: str) -> NetRows:
    """Net signed rows as `net_by_key` does, and return the rows that went as well."""
    rows, first = _sort_by_key(rows, primary_key)
    weight = rows.column("_w").to_numpy()
    n = len(weight)
    if n == 0:
        none = rows.drop_columns("_w")
        return NetRows(none.append_column(OPERATION, pa.array([], pa.uint8())), 0, 0, 0, none)
    plus, minus = _count_signs(weight, first)
    for number in (
        number_rows,
        number_keys,
    ):  # identical rows first: what comes from a key has lost its zero's sign
        crowded = (plus > 1) | (minus > 1)
        if not crowded.any():
            break  # else terms of a join brought rows that cancel each other
        among = crowded[np.cumsum(first) - 1]
        left = _cancel_rows(rows.filter(pa.array(among)), number)
        rows, first = _sort_by_key(pa.concat_tables([rows.filter(pa.array(~among)), left]), primary_key)
        weight = rows.column("_w").to_numpy()
        n = len(weight)
        if n == 0:
            return net_with_old_rows(rows, primary_key, table)
        plus, minus = _count_signs(weight, first)
    group, last = np.cumsum(first) - 1, np.append(first[1:], True)
    if plus.max() > 1 or minus.max() > 1:
        bad = rows.slice(int(np.flatnonzero(last)[np.argmax(np.maximum(plus, minus))]), 1)
        raise DuplicateKey(
            f"{table}: the query gives more than one row for the key {as_rows(bad.select(list(primary_key)))[0]}"
        )
    values = [column for column in rows.column_names if column not in (*primary_key, "_w")]
    same = np.zeros(n, dtype=bool)
    same[1:] = ~first[1:] & identical_to_previous(rows.select(values))
    keep = last & ~same
    chosen = rows.take(to_positions(np.flatnonzero(keep)))
    deletes = weight[keep] < 0
    updated = int((minus[group[keep]] > 0).sum() - deletes.sum())
    operations = pa.array(deletes.astype(np.uint8))
    net = chosen.drop_columns("_w").append_column(OPERATION, operations)
    changed = np.zeros(len(minus), dtype=bool)
    changed[group[keep]] = True
    old = rows.filter(pa.array((weight < 0) & changed[group])).drop_columns("_w")
    return NetRows(net, int(len(deletes) - deletes.sum() - updated), updated, int(deletes.sum()), old)


def _sort_by_key(rows: pa.Table, primary_key: tuple[str, ...]) -> tuple[pa.Table, np.ndarray]:
    """Return the rows ordered by key, retracted ones first, and which are the first of their key."""
    rows = rows.take(_compute_order((*primary_key, "_w"), rows)).combine_chunks()
    first = np.ones(rows.num_rows, dtype=bool)
    if rows.num_rows:
        first[1:] = ~equal_to_previous(rows.select(list(primary_key)))
    return rows, first


def _compute_order(columns: tuple[str, ...], rows: pa.Table) -> pa.Int64Array | pa.UInt64Array:
    """Return the order of rows by some columns: of whole numbers and times alone by one number a row, which is faster."""
    numbers = [as_numbers(rows.column(name)) for name in columns]
    known = [number for number in numbers if number is not None]
    keys = pack_codes(known) if len(known) == len(columns) else []
    if len(keys) == 1:
        return to_positions(argsort_stable(keys[0]))
    return compute_sort_indices(rows, [(name, "ascending", "at_end") for name in columns])


def _count_signs(weight: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many rows of each key are inserted, and how many retracted."""
    group = np.cumsum(first) - 1
    return np.bincount(group, weights=weight > 0), np.bincount(group, weights=weight < 0)


def _cancel_rows(rows: pa.Table, number: Callable[[pa.Table], np.ndarray]) -> pa.Table:
    """Return each row as often as its weights add up to, with weight +1 or -1; `number` tells rows apart."""
    group = number(rows.drop_columns("_w"))
    total = np.bincount(group, weights=rows.column("_w").to_numpy()).astype(np.int64)
    chosen = rows.take(to_positions(np.repeat(find_first_of_each(group), np.abs(total)))).drop_columns("_w")
    return chosen.append_column("_w", pa.array(np.repeat(np.sign(total), np.abs(total))))


@dataclass(frozen=True)
class WriteTable:
    """A task's body: nets its partition by key and writes it as files of the table; gives one report row."""

    url: str
    options: Mapping[str, Any]
    table: Table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader.open(self.url, self.options)
        gathered = [batch for batch in batches if batch.num_rows]
        if not gathered:
            return
        rows = pa.Table.from_batches(gathered)
        if OPERATION not in rows.column_names:
            change = write_change(reader, self.table, rows)
        elif AGAIN not in rows.column_names:
            change = write_settled(reader, self.table, rows)
        else:  # groups of some partitions are computed again: no key is in both parts
            change = _merge_changes(
                write_settled(reader, self.table, rows.filter(pc.invert(rows.column(AGAIN)))),
                write_change(reader, self.table, rows.filter(rows.column(AGAIN))),
            )
        requests = reader.files.counters.count_unreported()
        reader.files.counters.mark_reported(requests)
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "ssts": msgspec.msgpack.encode(change.ssts),
                    "requests": msgspec.msgpack.encode(requests),
                    "load": msgspec.msgpack.encode(measure_load(rows, self.table)),
                    "inserted": change.inserted,
                    "updated": change.updated,
                    "deleted": change.deleted,
                    "again": change.again,
                }
            ],
            schema=_REPORT,
        )


def _merge_changes(one: NetChange, two: NetChange) -> NetChange:
    return NetChange(
        one.ssts + two.ssts,
        one.inserted + two.inserted,
        one.updated + two.updated,
        one.deleted + two.deleted,
        one.again + two.again,
    )


def write_settled(reader: Reader, table: Table, rows: pa.Table) -> NetChange:
    """Write a settled change as files of the table: there is nothing to net, and which rows it replaces is not told."""
    arrays = [rows.column(field.name).cast(field.type) for field in table.schema]
    deletes, was = rows.column(OPERATION).to_numpy() != 0, rows.column(WAS).to_numpy()
    arrays.append(pa.array(deletes.astype(np.uint8)))
    net = pa.table(arrays, names=[*table.schema.names, OPERATION]).combine_chunks()
    deleted, updated = int(deletes.sum()), int((was & ~deletes).sum())
    inserted = len(deletes) - deleted - updated
    return NetChange(_write_run(reader, table, net, inserted), inserted, updated, deleted)


def write_change(reader: Reader, table: Table, rows: pa.Table) -> NetChange:
    """Net signed `rows` (the table's columns and `_w`) by key and write them as files of the table.

    A column `_again` marks rows of partitions that are recomputed: their net changes are counted apart.
    """
    arrays = [rows.column(field.name).cast(field.type) for field in table.schema]
    typed = pa.table([*arrays, rows.column("_w")], names=[*table.schema.names, "_w"])
    if _is_insert_only(typed) and AGAIN not in rows.column_names:
        return _write_new(reader, table, typed)
    net, inserted, updated, deleted, old = net_with_old_rows(typed, tuple(table.primary_key), table.name)
    ssts = _write_run(reader, table, net, inserted, None if may_lack_signs(table, old) else old)
    again = 0
    if AGAIN in rows.column_names:
        marked = typed.filter(rows.column(AGAIN))
        again = net_by_key(marked, tuple(table.primary_key), table.name)[0].num_rows
    return NetChange(ssts, inserted, updated, deleted, again)


def may_lack_signs(table: Table, old: pa.Table) -> bool:
    """Tell whether a retracted row has a zero whose sign may be another than that of the stored one: it may come from a key."""
    if not old.num_rows:
        return False
    for name in table.value_columns:
        column = old.column(name)
        if pa.types.is_nested(column.type) and holds_floats(column.type):
            return True
        if pa.types.is_floating(column.type) and bool(
            to_mask(pc.equal(column, pa.scalar(0, column.type))).any()
        ):
            return True
    return False


def _is_insert_only(rows: pa.Table) -> bool:
    """Tell whether rows only come in: with keys that differ there is nothing to net."""
    return bool(rows.num_rows) and bool(to_mask(pc.equal(rows.column("_w"), pa.scalar(1, pa.int64()))).all())


def _write_new(reader: Reader, table: Table, rows: pa.Table) -> NetChange:
    """Write rows that only come in: sorted once, as files are; raises DuplicateKey for two of one key."""
    operations = pa.nulls(rows.num_rows, pa.uint8()).fill_null(0)
    net = rows.drop_columns("_w").append_column(OPERATION, operations)
    try:
        return NetChange(_write_run(reader, table, net, len(net)), len(net), 0, 0)
    except DuplicateKey as error:
        twice = error
    net_by_key(rows, tuple(table.primary_key), table.name)  # says by an error of its own what gives them
    raise twice


def _write_run(
    reader: Reader, table: Table, net: pa.Table, inserted: int, old: pa.Table | None = None
) -> tuple[SstInfo, ...]:
    """Write a net change; it says so if it only inserts, or else which `old` rows it replaces, if they are known."""
    ssts = reader.write_run(table, net, old=old) if net.num_rows else []
    return with_new_keys(table, ssts) if inserted == net.num_rows else tuple(ssts)


def write_rows(change: Change, table: Table, context: EpochContext) -> Flow:
    """Return a fragment's one Spark action: the table's change goes into files."""
    rows = change.rows
    if context.is_small and change.terms > 1:  # rows that cancel each other meet in one task
        rows = rows.coalesce(1)
    if not context.is_small and not change.placed:
        rows = spread_by_vnode(rows, table.distribution_key or table.primary_key, context)
    flow = (
        rows if isinstance(rows, Flow) else Flow(rows, (), RESULT_SCHEMA)
    )  # of rows that end here nobody asks more
    return flow.then(WriteTable(context.url, dict(context.options), table), RESULT_SCHEMA)


def collect_changes(rows: Iterable[tuple[Any, ...]], counters: Counters) -> list[NetChange]:
    """Return what each task of a fragment's action has written, by the rows that they gave; their requests are counted."""
    decode = msgspec.msgpack.Decoder(tuple[SstInfo, ...]).decode
    changes = []
    for ssts, requests, encoded_load, inserted, updated, deleted, again in rows:
        counters.add_requests(msgspec.msgpack.decode(bytes(requests), type=dict[str, int]))
        answered = len(ssts) + len(requests) + len(encoded_load)
        load = msgspec.msgpack.decode(bytes(encoded_load), type=WriteLoad)
        changes.append(NetChange(decode(bytes(ssts)), inserted, updated, deleted, again, answered, load))
    return changes
