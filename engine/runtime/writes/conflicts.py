"""What an INSERT does with keys that exist: refuse, ignore, overwrite, or update what is not null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_rows, to_mask, to_positions
from engine.errors import DuplicateKey
from engine.hummock import Delete, Hummock, Put, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_unchanged
from engine.hummock.reads.old_rows import read_replaced_rows
from engine.hummock.rows.key_numbers import find_first_of_each, find_last_of_each, number_keys
from engine.hummock.transact import WRITE, commit_with_retry
from engine.hummock.writes.batch import Operation
from engine.runtime.rows import assign_row_ids, needs_row_ids
from engine.runtime.writes.replaced_rows import build_deletes, require_unwritten
from engine.runtime.writes.watermarks import ArrivingRows, WatermarkMoved
from engine.sql.catalog import ConflictPolicy, Relation

MOVED = replace(WRITE, among=WatermarkMoved)
UPDATE_IF_NOT_NULL = "update if not null"
Resolve = Callable[[pa.Table, np.ndarray, pa.Table], pa.Table]


class Inserted(NamedTuple):
    """The epoch of a commit, the rows as they were written, and how many were not, being below the table's watermark."""

    epoch: int
    rows: pa.Table
    late: int = 0


def ingest_rows(
    store: Hummock,
    relation: Relation,
    incoming: pa.Table,
    precondition: Precondition | None = None,
    *,
    new_keys: bool = False,
    seen: TableVersion | None = None,
) -> Inserted:
    """Write rows to a table, as far as they are not late. Raises Conflict where the precondition does not hold.

    `seen` is the table as the precondition keeps it. Where the time stands in the key, a row that is there under the
    same unique key leaves its place, also for one that is late.
    """

    def attempt() -> Inserted:
        version = store.version
        arrivals, check = ArrivingRows(store, version, relation), precondition
        rows = arrivals.filter_late(incoming)
        steps: list[Operation] = [Put(rows, new_keys)] if rows.num_rows or not arrivals.late else []
        if relation.unique_key != relation.primary_key and not new_keys:
            steps = [*build_deletes(store, version, relation, incoming), *steps]
            check = require_unwritten(version, relation, precondition)
        writes = {relation.name: steps} if steps else {}
        replaced = {} if new_keys or seen is None else _read_replaced(store, seen, steps)
        epoch = store.ingest_batch(
            {**writes, **arrivals.build_writes()},
            precondition=arrivals.require_unmoved(check),
            watermarks=arrivals.get_ttl_watermarks(),
            replaced=replaced,
        )
        return Inserted(epoch, rows, arrivals.late)

    return commit_with_retry(store, attempt, MOVED)


def ingest_steps(store: Hummock, relation: Relation, version: Version, steps: Sequence[Operation]) -> int:
    """Commit what an UPDATE or DELETE writes to a table as it was read; returns how many new rows were late."""
    arrivals, table = ArrivingRows(store, version, relation), version.tables[relation.name]
    in_time: list[Operation] = [
        Put(arrivals.filter_late(_to_table(step.rows))) if isinstance(step, Put) else step for step in steps
    ]
    store.ingest_batch(
        {relation.name: in_time, **arrivals.build_writes()},
        precondition=arrivals.require_unmoved(require_unchanged(table)),
        watermarks=arrivals.get_ttl_watermarks(),
        replaced=_read_replaced(store, table, in_time),
    )
    return arrivals.late


def _read_replaced(store: Hummock, table: TableVersion, steps: Sequence[Operation]) -> dict[str, pa.Table]:
    """Return the rows that operations on a table replace, as far as they are to be known, by its name."""
    rows = [step.rows if isinstance(step, Put) else step.keys for step in steps]
    found = read_replaced_rows(store.reader, table, rows)
    return {} if found is None else {table.name: found}


def _to_table(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])


def delete_by_key(store: Hummock, relation: Relation, keys: pa.Table) -> int:
    """Delete the rows that are there under some unique keys, and return the epoch of the commit."""

    def attempt() -> int:
        if relation.unique_key != relation.primary_key:
            version = store.refresh()
            steps = build_deletes(store, version, relation, keys)
            return store.ingest_batch(
                {relation.name: steps}, precondition=require_unwritten(version, relation)
            )
        arrivals = ArrivingRows(store, store.version, relation)
        there = arrivals.filter_there(keys)
        return store.ingest_batch({relation.name: [Delete(there)]}, precondition=arrivals.require_unmoved())

    return commit_with_retry(store, attempt, MOVED)


def insert_rows(store: Hummock, relation: Relation, rows: pa.Table, policy: ConflictPolicy) -> Inserted:
    """Insert rows under the names of the store by a policy.

    Raises DuplicateKey under the policy `error` for a key that exists or occurs twice.
    """
    if needs_row_ids(rows):  # no other row has its key, whoever writes meanwhile
        rows = assign_row_ids(store, rows)
        return ingest_rows(store, relation, rows, new_keys=True)
    if policy == "overwrite":
        rows = retain_last_by_key(rows, relation.unique_key)
        return ingest_rows(store, relation, rows)
    if policy == "ignore" and relation.watermark is None:
        first = retain_first_by_key(rows, relation.unique_key)
        return write_resolved(store, relation, first, retain_new, new_keys=True)
    if policy == "ignore":

        def retain_first(found: pa.Table, known: np.ndarray, stored: pa.Table) -> pa.Table:
            new = retain_new(found, known, stored)
            late = ArrivingRows(store, store.version, relation).mark_late(new)
            in_time = retain_first_by_key(new.filter(pa.array(~late)), relation.unique_key)
            return pa.concat_tables([new.filter(pa.array(late)), in_time])  # late ones take nobody's place

        return write_resolved(store, relation, rows, retain_first, new_keys=True)
    if policy == UPDATE_IF_NOT_NULL:
        folded = merge_by_key(rows, relation.unique_key)
        return write_resolved(store, relation, folded, fill_nulls)
    refuse_duplicates(relation, rows)

    def refuse_known(found: pa.Table, known: np.ndarray, _: pa.Table) -> pa.Table:
        if len(known):
            raise _build_exists_error(relation, found, known)
        return found

    return write_resolved(store, relation, rows, refuse_known, new_keys=True)


def write_resolved(
    store: Hummock, relation: Relation, rows: pa.Table, resolve: Resolve, *, new_keys: bool = False
) -> Inserted:
    """Write what `resolve` makes of (rows, indexes of those with known keys, their stored rows), as if no one wrote meanwhile.

    With `new_keys` it leaves no row whose key is known.
    """
    keys = rows.select(list(relation.unique_key))

    def attempt() -> Inserted:
        table = store.refresh().tables[relation.name]
        index, stored = store.reader.lookup(
            table, keys, table.committed_epoch, columns=rows.column_names, null_safe=True
        )
        written = resolve(rows, index, stored)
        if written.num_rows == 0:
            return Inserted(store.version.epoch, written)
        return ingest_rows(store, relation, written, require_unchanged(table), new_keys=new_keys, seen=table)

    return commit_with_retry(store, attempt, WRITE)


def refuse_duplicates(relation: Relation, rows: pa.Table) -> None:
    """Raise DuplicateKey if a key occurs twice among the rows."""
    key = find_duplicate_key(rows, relation.unique_key)
    if key is not None:
        raise DuplicateKey(f"insert into {relation.name}: the key {key} occurs twice")


def find_duplicate_key(rows: pa.Table, primary_key: tuple[str, ...]) -> str | None:
    """Return a key that more than one of the rows has, None if there is none."""
    numbers = number_keys(rows.select(list(primary_key)))
    twice = np.flatnonzero(np.bincount(numbers) > 1)
    return (
        format_key_at(rows, primary_key, int(find_first_of_each(numbers)[twice[0]])) if len(twice) else None
    )


def _build_exists_error(relation: Relation, rows: pa.Table, known: np.ndarray) -> DuplicateKey:
    return build_keys_exist_error(
        relation.name, len(known), format_key_at(rows, relation.unique_key, int(known[0]))
    )


def format_key_at(rows: pa.Table, primary_key: tuple[str, ...], at: int) -> str:
    """Return the key of one of the rows, in words."""
    return str(as_rows(rows.select(list(primary_key)).slice(at, 1))[0])


def build_keys_exist_error(table: str, rows: int, first: str) -> DuplicateKey:
    """Return the error for rows whose keys a table has already."""
    return DuplicateKey(
        f"insert into {table}: {rows} rows have keys that exist, the first is {first}; "
        'use UPDATE, INSERT … ON CONFLICT, or write(..., mode="upsert")'
    )


def retain_new(rows: pa.Table, known: np.ndarray, _: pa.Table) -> pa.Table:
    """Return the rows whose keys are not known."""
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[known] = False
    return rows.filter(pa.array(keep))


def fill_nulls(rows: pa.Table, known: np.ndarray, stored: pa.Table) -> pa.Table:
    """Return the rows, those with known keys with the stored values where they have none."""
    before = np.full(rows.num_rows, -1, dtype=np.int64)
    before[known] = np.arange(len(known))
    index = to_positions(before, absent=before < 0)
    arrays = []
    for name in rows.column_names:
        new = rows.column(name)
        old = stored.column(name).combine_chunks().take(index).cast(new.type)
        arrays.append(_coalesce(new, old))
    return pa.Table.from_arrays(arrays, names=rows.column_names)


def _coalesce(new: pa.ChunkedArray[Any], old: pa.Array[Any]) -> pa.ChunkedArray[Any]:
    if not pa.types.is_nested(new.type):
        return pc.coalesce(new, pa.chunked_array([old]))
    rows = np.arange(len(new))
    places = np.where(to_mask(new.is_null()), rows + len(new), rows)
    return pa.chunked_array([*new.chunks, old]).take(to_positions(places))


def retain_last_by_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the last row of each key, in the rows' order; the rows themselves if each has a key of its own."""
    return _take_rows(rows, np.sort(find_last_of_each(_number_keys(rows, key))))


def retain_first_by_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the first row of each key, in the rows' order; the rows themselves if each has a key of its own."""
    return _take_rows(rows, find_first_of_each(_number_keys(rows, key)))


def merge_by_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return one row a key: of each column the last value that is not null."""
    numbers, places = _number_keys(rows, key), np.arange(rows.num_rows)
    last_of = find_last_of_each(numbers)[numbers]
    last = np.flatnonzero(last_of == places)
    arrays = []
    for column in rows.columns if len(last) < len(places) else ():
        chosen, known = places.copy(), np.flatnonzero(to_mask(column.is_valid()))
        chosen[last_of[known]] = known  # of several the last one stays
        arrays.append(column.take(to_positions(chosen[last])))
    return pa.Table.from_arrays(arrays, schema=rows.schema) if arrays else rows


def _number_keys(rows: pa.Table, key: tuple[str, ...]) -> np.ndarray:
    return number_keys(rows.select(list(key)))


def _take_rows(rows: pa.Table, places: np.ndarray) -> pa.Table:
    return rows if len(places) == rows.num_rows else rows.take(to_positions(places))
