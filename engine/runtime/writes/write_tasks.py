"""Rows of a large statement become files of its table in Spark's tasks: each key's rows one, set against what the table holds.

A task answers with the files that it has written and with what is wrong with its rows; the driver's commit names the files, or
raises and names none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from engine.arrow import as_stream
from engine.errors import DuplicateKey, InvalidRow
from engine.hummock import Reader, SstInfo, Table, TableVersion, with_new_keys
from engine.runtime.rows import (
    build_no_value_error,
    build_too_long_error,
    complete_frame,
    convert_rows,
    to_stored_names,
)
from engine.runtime.writes.conflicts import (
    UPDATE_IF_NOT_NULL,
    build_keys_exist_error,
    fill_nulls,
    find_duplicate_key,
    format_key_at,
    merge_by_key,
    retain_first_by_key,
    retain_last_by_key,
    retain_new,
)
from engine.runtime.writes.key_order import KeyOrderedRows, sort_by_key
from engine.runtime.writes.late_rows import filter_late
from engine.runtime.writes.row_versions import resolve_versions
from engine.runtime.writes.spill import (
    ANSWER_SCHEMA,
    SpilledRows,
    collect_answers,
    concatenate_streams,
    encode_answer,
    write_spill,
)
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import Relation
from engine.sql.typing.text_lengths import fit_texts

WRITE_BYTES = 64 << 20
WRITE_ROWS = 1_000_000
"""A task writes a file when it holds so much."""
TWICE = "insert into {table}: the key {key} occurs twice"
Rule = Literal[
    "once", "new", "delete", "error", "overwrite", "ignore", "update if not null", "versions", "split"
]
"""What becomes of a key's rows: `once` refuses a second one, `new` knows that there is none, `delete` deletes it, `split` writes
new keys and keeps the rows of known ones in spill files; the others are what a table says ON CONFLICT, `versions` for one with
version columns.
"""
LOOKS_UP = ("error", "ignore", UPDATE_IF_NOT_NULL, "versions", "split")
_FOLD: Mapping[str, Callable[[pa.Table, tuple[str, ...]], pa.Table]] = {
    "delete": retain_last_by_key,
    "overwrite": retain_last_by_key,
    "ignore": retain_first_by_key,
    UPDATE_IF_NOT_NULL: merge_by_key,
}


class RowFaults(msgspec.Struct):
    """What is wrong with the rows of a statement: values missing by column, texts that are too long by column and one of each,
    a row that fits no column, a key that comes twice, known keys.
    """

    missing: dict[str, int] = {}
    too_long: dict[str, tuple[int, str]] = {}
    invalid: str = ""
    twice: str = ""
    known: int = 0
    first_known: str = ""

    def __bool__(self) -> bool:
        return self.refuses or self.known > 0

    @property
    def refuses(self) -> bool:
        """Whether more is wrong than known keys."""
        return bool(self.missing or self.too_long or self.invalid or self.twice)


class WriteResult(msgspec.Struct):
    """What one task has written: files, those of which all keys are new, and rows of known keys in spill files.

    Few rows are answered instead, as an Arrow stream in the form that files are written from.
    """

    ssts: tuple[SstInfo, ...] = ()
    new: bool = False
    known: tuple[SstInfo, ...] = ()
    rows: bytes = b""
    wrong: RowFaults = msgspec.field(default_factory=RowFaults)


@dataclass(frozen=True)
class WriteRows:
    """A task's body: whole rows of a relation, a key's together, become files by a rule.

    `version` is the table that keys are looked up in, if the rule asks for that.
    """

    url: str
    options: Mapping[str, Any]
    relation: Relation
    table: Table
    rule: Rule
    version: TableVersion | None = None
    inline_bytes: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _WriteTask(self, Reader.open(self.url, self.options))
        for batch in batches:
            task.take(batch)
        yield encode_answer(task.finish())

    @property
    def columns(self) -> list[str]:
        """The columns that rows come with: all of the relation's, or for a deletion those of the key."""
        columns = self.relation.columns
        key = self.relation.primary_key
        return [c.name for c in columns if self.rule != "delete" or c.storage_name in key]


class _WriteTask:
    """The rows of one task on their way into files."""

    def __init__(self, body: WriteRows, reader: Reader) -> None:
        self.body, self.reader, self.done = body, reader, WriteResult()
        self.done.new = body.rule in ("new", "error", "ignore", "split")
        self._buffered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._carried: pa.Table | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows that come after all others."""
        self._buffered.append(batch)
        self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
        if self._bytes > WRITE_BYTES or self._rows >= WRITE_ROWS:
            rows = self._fold()
            if rows is not None and rows.num_rows:  # a key's rows may go on: its last row so far waits
                self._carried = rows.slice(rows.num_rows - 1)
                self._write(rows.slice(0, rows.num_rows - 1))

    def finish(self) -> WriteResult:
        """Write what is left, and return what there is to say."""
        few = not self.done.ssts and self._bytes <= self.body.inline_bytes
        rows = self._fold()
        if rows is not None:
            self._write(rows, few=few)
        return self.done

    def _fold(self) -> pa.Table | None:
        """Return the rows that are held, under the names of the store, one a key; None if there are none or they are wrong."""
        buffered, self._buffered, self._rows, self._bytes = self._buffered, [], 0, 0
        body, wrong = self.body, self.done.wrong
        parts = [] if self._carried is None else [self._carried]
        self._carried = None
        if any(batch.num_rows for batch in buffered):
            gathered = pa.Table.from_batches(buffered).select(body.columns)
            self._count_faults(gathered)
            if wrong.refuses:
                return None
            try:
                parts.append(
                    to_stored_names(body.relation, convert_rows(body.relation, gathered, body.columns))
                )
            except InvalidRow as error:
                wrong.invalid = str(error)
                return None
        if not parts:
            return None
        rows, key = pa.concat_tables(parts), body.relation.primary_key
        if body.rule == "new":
            return rows
        if body.rule == "versions":
            return resolve_versions(body.relation, rows, *self._find_stored(rows))
        if body.rule in _FOLD:
            return _FOLD[body.rule](rows, key)
        wrong.twice = find_duplicate_key(rows, key) or ""
        return None if wrong.twice else rows

    def _count_faults(self, rows: pa.Table) -> None:
        """Count the values that are missing or too long."""
        wrong = self.done.wrong
        for column in self.body.relation.columns:
            if column.name not in rows.column_names:
                continue
            values, name = rows.column(column.name), column.name
            if values.null_count and self.body.relation.is_never_null(column):
                wrong.missing = {**wrong.missing, name: wrong.missing.get(name, 0) + values.null_count}
            if column.length is not None:
                found = fit_texts(values, column).long
                if len(found):
                    count, least = wrong.too_long.get(name, (0, None))
                    texts = [pc.min(found).as_py(), *([] if least is None else [least])]
                    wrong.too_long = {**wrong.too_long, name: (count + len(found), min(texts))}

    def _write(self, rows: pa.Table, *, few: bool = False) -> None:
        if self.body.rule in LOOKS_UP:
            rows = self._resolve(rows)
        if self.done.wrong or not rows.num_rows:
            return
        whole = append_operation(self.body.table, rows, delete=self.body.rule == "delete")
        if few:
            self.done.rows = as_stream(whole)
        else:
            self.done.ssts += tuple(self.reader.write_run(self.body.table, whole))

    def _resolve(self, rows: pa.Table) -> pa.Table:
        key, rule = self.body.relation.primary_key, self.body.rule
        if rule == "versions":
            return rows  # they were held against the stored ones when they were folded
        index, stored = self._find_stored(rows)
        if rule == UPDATE_IF_NOT_NULL:
            return fill_nulls(rows, index, stored)
        if rule == "error" and len(index):
            wrong = self.done.wrong
            wrong.first_known = wrong.first_known or format_key_at(rows, key, int(index[0]))
            wrong.known += len(index)
        elif rule == "split" and len(index):
            self.done.known += tuple(write_spill(self.reader, rows.take(pa.array(index)), 0, 0))
        return retain_new(rows, index, stored)

    def _find_stored(self, rows: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """Return which of some rows have known keys, and their rows in the table."""
        version = self.body.version
        assert version is not None
        keys = rows.select(list(self.body.relation.primary_key))
        return self.reader.lookup(
            version, keys, version.committed_epoch, columns=rows.column_names, null_safe=True
        )


def append_operation(table: Table, rows: pa.Table, *, delete: bool) -> pa.Table:
    """Return rows of the store with `_op`; a deletion has no values."""
    present = set(rows.column_names)
    arrays = [
        rows.column(field.name) if field.name in present else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    operations = pa.repeat(pa.scalar(int(delete), pa.uint8()), rows.num_rows)
    return pa.table([*arrays, operations], names=[*table.schema.names, "_op"])


def order_spilled(
    body: WriteRows, rows: SpilledRows, spark: SparkSession, arrivals: ArrivingRows | None = None
) -> KeyOrderedRows:
    """Return spilled rows, completed by defaults and generated columns, in the order that `body` takes; those that are late for
    `arrivals` are recorded there.
    """
    relation, frame = body.relation, rows.to_frame(spark, body.url, body.options)
    whole = frame if body.rule == "delete" else complete_frame(relation, frame)
    return sort_by_key(
        relation, whole if arrivals is None else filter_late(arrivals, whole), rows.rows, spark
    )


def write_frame(
    body: WriteRows, rows: KeyOrderedRows, sql: str, twice: str = TWICE
) -> tuple[tuple[SstInfo, ...], tuple[SstInfo, ...]]:
    """Write rows; returns the files, and spill files of known keys.

    Raises InvalidRow, or DuplicateKey for a key that the rule refuses; `twice` is the message for one that comes twice.
    """
    done = collect_answers(rows.apply(body, ANSWER_SCHEMA), WriteResult, sql)
    _raise_faults(body.relation, [one.wrong for one in done], twice)
    ssts: list[SstInfo] = []
    for one in done:
        ssts += with_new_keys(body.table, one.ssts) if one.new else one.ssts
    few = concatenate_streams([one.rows for one in done if one.rows])
    if few is not None:
        ssts += Reader.open(body.url, body.options).write_run(body.table, few)
    return tuple(ssts), tuple(file for one in done for file in one.known)


def _raise_faults(relation: Relation, found: Sequence[RowFaults], twice: str) -> None:
    """Raise the error for what is wrong with rows, as it would be raised for few of them."""
    for column in relation.columns:
        missing = sum(wrong.missing.get(column.name, 0) for wrong in found)
        if missing:
            raise build_no_value_error(relation, column, missing)
        long = [wrong.too_long[column.name] for wrong in found if column.name in wrong.too_long]
        if long:
            raise build_too_long_error(
                relation, column, sum(count for count, _ in long), min(text for _, text in long)
            )
    for wrong in found:
        if wrong.invalid:
            raise InvalidRow(wrong.invalid)
    for wrong in found:
        if wrong.twice:
            raise DuplicateKey(twice.format(table=relation.name, key=wrong.twice))
    known = sum(wrong.known for wrong in found)
    if known:
        first = next(wrong.first_known for wrong in found if wrong.known)
        raise build_keys_exist_error(relation.name, known, first)
