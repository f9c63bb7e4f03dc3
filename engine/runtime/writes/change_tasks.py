"""Changes from outside, inserts and deletions by key, become files of a table in Spark's tasks, or here if they are few.

Rows come with `_place`, their order: an even place is that of a row that goes, an odd one that of a row that comes. Of a key the
row with the highest place counts; of several at that place the greatest, so that each reading of the same rows gives the same. A
*difference* has the table's own rows, too, at place 0: what comes again is not written, and what does not come is deleted.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from engine.arrow import as_rows, as_stream, as_values, to_mask, to_positions
from engine.hummock import Reader, SstInfo, Table, with_new_keys
from engine.hummock.manifests.pass_through import WAS, old_column
from engine.hummock.monitoring.driver_traffic import track_rows
from engine.hummock.rows.ordering import equal_values, identical_values, one_chunk
from engine.runtime.rows import convert_rows, to_stored_names
from engine.runtime.writes.key_order import KeyOrderedRows
from engine.runtime.writes.spill import ANSWER, ANSWER_SCHEMA, PLACE, concatenate_streams, encode_answer
from engine.runtime.writes.write_tasks import WRITE_BYTES, WRITE_ROWS, append_operation
from engine.sql.catalog import Relation
from engine.sql.column_names import ADDED

COMES = 1
"""The place of rows that come and have no other."""
UNFIT = f"{ADDED}unfit"
"""Tells, in a column of rows that may lack it, why one that comes can't be taken; one that goes, and has it, was not."""
MOST_LETTERS = 1_000
MOST_KNOWN = 100_000
"""Of so many rows that could not be taken before a difference a task remembers that this was said."""
INLINE_BYTES = 1 << 20


class RejectedRow(msgspec.Struct, frozen=True):
    """A row that was set aside: its place, why, and the row itself."""

    place: int
    reason: str
    raw: str


class ChangeResult(msgspec.Struct):
    """What tasks have written: files, or a few rows as an Arrow stream in the form that files are written from.

    `twice` counts rows beside the one of their key that was taken. `letters` are some of the rows that were set aside, `aside`
    tells how many there are.
    """

    ssts: tuple[SstInfo, ...] = ()
    rows: bytes = b""
    puts: int = 0
    deletes: int = 0
    twice: int = 0
    aside: int = 0
    letters: tuple[RejectedRow, ...] = ()

    def add_rejected(self, letters: Sequence[RejectedRow], count: int) -> None:
        """Take note of rows that are set aside."""
        self.aside += count
        self.letters = (*self.letters, *letters)[:MOST_LETTERS]


@dataclass(frozen=True)
class WriteChanges:
    """A task's body: rows of a relation with `_place`, in the order of their keys, become files.

    With `compares` they are a difference, and of several rows of a key the others are set aside. With `new` no key is known, and
    rows without a place come.
    """

    url: str
    options: Mapping[str, Any]
    relation: Relation
    table: Table
    compares: bool = False
    new: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _ChangeTask(self, Reader.open(self.url, self.options))
        for batch in batches:
            task.take(batch)
        yield encode_answer(task.finish())

    def write_frame(self, rows: KeyOrderedRows, reader: Reader) -> ChangeResult:
        """Write rows by tasks; raises PySparkException."""
        found = track_rows(rows.apply(self, ANSWER_SCHEMA).toArrow()).column(ANSWER)
        done = [
            msgspec.msgpack.decode(answer.as_buffer(), type=ChangeResult) for answer in itertools.chain(found)
        ]
        whole = ChangeResult(tuple(sst for one in done for sst in one.ssts))
        for one in done:
            whole.puts, whole.deletes = whole.puts + one.puts, whole.deletes + one.deletes
            whole.twice += one.twice
            whole.add_rejected(one.letters, one.aside)
        few = concatenate_streams([one.rows for one in done if one.rows])
        if few is not None:
            whole.ssts += tuple(reader.write_run(self.table, few))
        return self._mark_new_keys(whole)

    def write_rows(self, rows: pa.Table, reader: Reader) -> ChangeResult:
        """Write few rows, in any order."""
        key = [c.name for c in self.relation.columns if c.storage_name in self.relation.primary_key]
        ordered = rows.sort_by([(name, "ascending") for name in (*key, PLACE)])
        task = _ChangeTask(self, reader, keeps=False)
        for batch in ordered.to_batches():
            task.take(batch)
        return self._mark_new_keys(task.finish())

    def _mark_new_keys(self, done: ChangeResult) -> ChangeResult:
        if self.new and not done.deletes:
            done.ssts = tuple(with_new_keys(self.table, done.ssts))
        return done


class _ChangeTask:
    """The rows of one task on their way into files."""

    def __init__(self, body: WriteChanges, reader: Reader, *, keeps: bool = True) -> None:
        self.body, self.reader, self.done, self._keeps = body, reader, ChangeResult(), keeps
        relation = body.relation
        self.columns = [column.name for column in relation.columns]
        self.key = [column.name for column in relation.columns if column.storage_name in relation.primary_key]
        self.left = [
            *self.key,
            *(
                c.name
                for c in relation.columns
                if c.storage_name == WAS or c.storage_name.startswith(old_column(""))
            ),
        ]
        """What a deletion tells: the key, and of a source the old row."""
        self.printed_columns = [name for name in self.columns if name in self.key or name not in self.left]
        self.needed = [c.name for c in relation.columns if c.name in self.key and relation.is_never_null(c)]
        self._known: Counter[str] = Counter()
        self._buffered: list[pa.Table] = []
        self._rows = self._bytes = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows that come after all others."""
        incoming = pa.Table.from_batches([batch])
        if PLACE not in incoming.column_names:
            incoming = incoming.append_column(
                PLACE, pa.repeat(pa.scalar(COMES, pa.int64()), incoming.num_rows)
            )
        rows = self._filter_keyed(incoming)
        self._buffered.append(rows)
        self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
        if self._bytes > WRITE_BYTES or self._rows >= WRITE_ROWS:
            self._write(last=False)

    def finish(self) -> ChangeResult:
        """Write what is left, and return what there is to say."""
        self._write(last=True)
        return self.done

    def _filter_keyed(self, rows: pa.Table) -> pa.Table:
        """Return the rows that have a key; of the others those that come are set aside."""
        if UNFIT in rows.column_names:
            rows = self._filter_fitting(rows)
        lacking = np.zeros(rows.num_rows, dtype=bool)
        for name in self.needed:
            lacking |= to_mask(rows.column(name).is_null())
        if not lacking.any():
            return rows
        rejected = self._find_rejected(rows, lacking)
        nulls = [name for name in self.needed if rejected.column(name).null_count]
        self._set_aside(rejected, f"the key {', '.join(nulls)} is null")
        return rows.filter(pa.array(~lacking))

    def _filter_fitting(self, rows: pa.Table) -> pa.Table:
        """Return the rows that can be taken; of the others those that come are set aside."""
        unfit = to_mask(rows.column(UNFIT).is_valid())
        rejected = self._find_rejected(rows, unfit)
        self._set_aside(rejected, UNFIT)
        return rows.filter(pa.array(~unfit)).drop_columns([UNFIT])

    def _find_rejected(self, rows: pa.Table, left: np.ndarray) -> pa.Table:
        """Return, of rows that can't be taken, those that come, but not those that a difference says were there."""
        gone = _find_deleted(rows)
        came = rows.filter(pa.array(left & ~gone))
        if not self.body.compares:
            return came
        room = MOST_KNOWN - self._known.total()
        was = rows.filter(pa.array(left & gone)).slice(0, room)
        names = [name for name in (*self.printed_columns, UNFIT) if name in rows.column_names]
        self._known.update(_format_row(row) for row in as_rows(was.select(names)))
        if not self._known:
            return came
        new = np.ones(came.num_rows, dtype=bool)
        for at, row in enumerate(as_rows(came.select(names))):
            text = _format_row(row)
            if self._known[text]:
                new[at], self._known[text] = False, self._known[text] - 1
        return came.filter(pa.array(new))

    def _set_aside(self, rows: pa.Table, reason: str) -> None:
        """Set rows aside, each for a reason; UNFIT means its own."""
        some = rows.slice(0, MOST_LETTERS - min(len(self.done.letters), MOST_LETTERS))
        reasons = (
            as_values(some.column(UNFIT)) if reason == UNFIT else itertools.repeat(reason, some.num_rows)
        )
        rejected = zip(
            as_values(some.column(PLACE)), reasons, as_rows(some.select(self.printed_columns)), strict=True
        )
        letters = [RejectedRow(place, why, _format_row(row)) for place, why, row in rejected]
        self.done.add_rejected(letters, rows.num_rows)

    def _write(self, *, last: bool) -> None:
        buffered, self._buffered, self._rows, self._bytes = self._buffered, [], 0, 0
        rows = pa.concat_tables(buffered).combine_chunks() if buffered else None
        if rows is None or not rows.num_rows:
            return
        starts = self._find_key_starts(rows)
        before, top, stored = self._fold(rows, starts)
        if not last:  # a key's rows may go on: what counts of its rows so far waits
            waiting = sorted({*self._find_stored(rows, starts[-1:]).ravel().tolist(), int(top[-1])} - {-1})
            self._buffered = [before.take(to_positions(np.array(waiting)))]
            top, stored = top[:-1], stored[:-1]
        self._emit(before, top, stored, few=last)

    def _find_key_starts(self, rows: pa.Table) -> np.ndarray:
        """Return where each key's rows begin."""
        same = np.ones(max(rows.num_rows - 1, 0), dtype=bool)
        for name in self.key:
            values = one_chunk(rows.column(name))
            same &= equal_values(values.slice(1), values.slice(0, len(values) - 1))
        return np.flatnonzero(np.concatenate([[True], ~same]))

    def _fold(self, rows: pa.Table, starts: np.ndarray) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """Return, of each key, which row counts, and in a difference which one the table has (-1: none)."""
        ends = np.append(starts[1:], rows.num_rows)
        top = ends - 1
        places = rows.column(PLACE).to_numpy()
        gone = _find_deleted(rows)
        known = self._find_stored(rows, starts)
        stored = np.where(
            known[1] < 0, known[0], -1
        )  # of several rows it is not known which one the table has
        before = np.maximum(top - 1, 0)
        twice = (top > starts) & (places[top] == places[before]) & ~gone[top]
        for at in np.flatnonzero(twice).tolist():
            first = int(top[at])
            while first > starts[at] and places[first - 1] == places[top[at]]:
                first -= 1
            group = rows.slice(first, int(top[at]) - first + 1)
            best = _find_greatest(group.select(self.columns))
            top[at] = first + best
            self.done.twice += group.num_rows - 1
            if self.body.compares:
                others = np.arange(group.num_rows) != best
                self._set_aside(
                    group.filter(pa.array(others)),
                    "its key occurs more than once in the Delta table, another row was stored",
                )
        return rows, top, stored

    def _find_stored(self, rows: pa.Table, starts: np.ndarray) -> np.ndarray:
        """Return, of keys that start somewhere, the first and the second row which a difference begins with; -1 for none."""
        found = np.full((2, len(starts)), -1)
        if self.body.compares:
            places = rows.column(PLACE).to_numpy()
            ends = np.append(starts[1:], rows.num_rows)
            for n, at in enumerate((starts, np.minimum(starts + 1, rows.num_rows - 1))):
                found[n] = np.where((at >= starts + n) & (at < ends) & (places[at] == 0), at, -1)
        return found

    def _emit(self, rows: pa.Table, top: np.ndarray, stored: np.ndarray, *, few: bool) -> None:
        gone = _find_deleted(rows)[top]
        known = np.flatnonzero((stored >= 0) & ~gone)
        same = np.zeros(len(top), dtype=bool)
        if len(known):
            equal = np.ones(len(known), dtype=bool)
            for name in self.columns:
                values = one_chunk(rows.column(name))
                mine, theirs = (values.take(to_positions(at[known])) for at in (top, stored))
                equal &= identical_values(mine, theirs)
            same[known[equal]] = True
        chosen, gone = top[~same], gone[~same]
        if not len(chosen):
            return
        table = self.body.table
        whole = pa.concat_tables(
            [
                append_operation(
                    table,
                    self._select_stored(rows.take(to_positions(chosen[~gone])), self.columns),
                    delete=False,
                ),
                append_operation(
                    table, self._select_stored(rows.take(to_positions(chosen[gone])), self.left), delete=True
                ),
            ]
        )
        self.done.deletes += int(gone.sum())
        self.done.puts += int((~gone).sum())
        if few and self._keeps and not self.done.ssts and whole.nbytes <= INLINE_BYTES:
            self.done.rows = as_stream(whole)
        else:
            self.done.ssts += tuple(self.reader.write_run(table, whole))

    def _select_stored(self, rows: pa.Table, columns: list[str]) -> pa.Table:
        """Return some columns of rows, typed, under the names of the store."""
        relation = self.body.relation
        return to_stored_names(relation, convert_rows(relation, rows.select(columns), columns))


def _find_deleted(rows: pa.Table) -> np.ndarray:
    places = rows.column(PLACE).to_numpy()
    return np.asarray(places % 2 == 0)


def _find_greatest(rows: pa.Table) -> int:
    texts = [_format_row(row) for row in as_rows(rows)]
    return max(range(len(texts)), key=texts.__getitem__)


def _format_row(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)
