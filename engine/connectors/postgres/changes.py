"""What transactions do to one table, folded: of each key the last row, or that it goes, and whether all rows went before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from engine.connectors.contract.signed_rows import SignedRows
from engine.connectors.postgres.columns import PostgresType, explain_misfit
from engine.connectors.postgres.pgoutput import (
    UNCHANGED,
    DeleteMessage,
    InsertMessage,
    Message,
    PublishedRelation,
    TupleData,
    TupleValue,
    Unchanged,
    UpdateMessage,
    decode_message,
    read_whole_row_key,
)
from engine.connectors.postgres.texts import build_text_column
from engine.connectors.postgres.whole_rows import read_columns
from engine.errors import SourceError
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.column_names import match_columns

Key: TypeAlias = "tuple[bytes | None, ...]"


@dataclass(frozen=True)
class ColumnReader:
    """Where the values of a table's columns stand in the tuples of PostgreSQL's table, and which columns are left out."""

    columns: tuple[RelationColumn, ...]
    types: tuple[PostgresType, ...]
    places: tuple[int, ...]
    key: tuple[int, ...]
    """The places of the key's columns among `columns`."""
    left: tuple[str, ...]

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Where the key's values stand in a tuple."""
        return tuple(self.places[at] for at in self.key)

    def pick(self, values: TupleData) -> list[TupleValue]:
        """Return the columns' values of a tuple."""
        return [values[at] for at in self.places]

    def build_rows(self, values: Sequence[pa.Array[Any]]) -> pa.Table:
        """Return columns of texts as rows under the names of the table."""
        arrays = [
            build_text_column(texts, kind, column)
            for texts, kind, column in zip(values, self.types, self.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])


def build_reader(
    relation: Relation, names: Sequence[str], types: Sequence[PostgresType], path: str
) -> ColumnReader:
    """Return how a table's columns are read of PostgreSQL's; raises SourceError for one that it has not, or of another type."""
    columns = relation.visible_columns
    found = match_columns([column.name for column in columns], names).found
    places, kinds = [], []
    for column in columns:
        if column.name not in found:
            is_key = column.storage_name in relation.primary_key
            without = (
                "make the table anew" if is_key else f"ALTER TABLE {relation.name} DROP COLUMN {column.name}"
            )
            raise SourceError(
                f"table {relation.name}: {path} has no column {column.name}, or its publication does not tell it; "
                f"what is told is {', '.join(names)}: give it the column again and run ALTER TABLE {relation.name} "
                f"RESYNC, or {without}"
            )
        its = types[found[column.name]]
        hint = explain_misfit(its, column)
        if hint is not None:
            raise SourceError(
                f"table {relation.name}: column {column.name} of {path} is {its.shown} by now, which "
                f"{column.visible_type} does not "
                f"take: give it its type again and run ALTER TABLE {relation.name} RESYNC, or make "
                f"{relation.name} anew: {hint}"
            )
        places.append(found[column.name])
        kinds.append(its)
    key = tuple(at for at, column in enumerate(columns) if column.storage_name in relation.primary_key)
    left = tuple(name for at, name in enumerate(names) if at not in places)
    return ColumnReader(columns, tuple(kinds), tuple(places), key, left)


class TypeFinder(Protocol):
    """Tells types by their numbers."""

    def find_types(self, oids: Sequence[int]) -> Mapping[int, PostgresType]:
        """Return what is known of types."""

    def is_partitioned(self, oid: int) -> bool:
        """Tell whether a table has partitions, each of which has a replica identity of its own."""


@dataclass(slots=True)
class _FoldedRow:
    """The last row of a key, None where it goes; what is UNCHANGED in it stands in the store under the key `origin`."""

    values: list[TupleValue] | None
    origin: Key


@dataclass
class FoldedChanges:
    """The changes of one table, in the order of its log; of keys that changed last later."""

    relation: Relation
    path: str
    reader: ColumnReader | None = None
    is_emptied: bool = False
    messages: int = 0
    oid: int = 0
    place: str = ""
    _rows: dict[Key, _FoldedRow | bytes] = field(default_factory=dict)
    """Of a key its row, or the message that brought the whole row: many of them are replaced before anybody asks."""

    @property
    def has_changes(self) -> bool:
        """Whether anything is to be done to the table."""
        return self.is_emptied or bool(self._rows)

    def describe(self, published: PublishedRelation, types: TypeFinder) -> None:
        """Take up how the tuples that follow are made."""
        known = types.find_types([column.type_oid for column in published.columns])
        names = [column.name for column in published.columns]
        unknown = PostgresType("", "", "of a type that was dropped")
        kinds = [known.get(column.type_oid, unknown) for column in published.columns]
        reader = build_reader(self.relation, names, kinds, self.path)
        self._rows.update(self._unpack_rows())  # of those that came before
        self.reader, self.oid = reader, published.oid
        told = [published.columns[reader.places[at]].in_identity for at in reader.key]
        if not all(told) and not types.is_partitioned(published.oid):
            raise self._build_identity_error()

    def add(self, data: bytes) -> None:
        """Fold the message of one change."""
        self.messages += 1
        key = None if self.reader is None else read_whole_row_key(data, self.reader.key_places)
        if key is None:
            self._fold(decode_message(data))
            return
        self._rows.pop(key, None)
        self._rows[key] = data

    def _fold(self, message: Message) -> None:
        assert isinstance(message, InsertMessage | UpdateMessage | DeleteMessage)
        if isinstance(message, DeleteMessage):
            self._put(self._find_old_key(message.old, message.old_is_whole), None)
            return
        assert self.reader is not None
        new = self.reader.pick(message.new)
        if isinstance(message, InsertMessage):
            self._put(self._find_key(message.new), new)
            return
        if message.old is None:
            before = self._find_key(message.new)
        else:
            before = self._find_old_key(message.old, message.old_is_whole, message.new)
        if message.old is not None and message.old_is_whole:
            new = _fill_unchanged(new, self.reader.pick(message.old))
        known, origin = self._find_row(before), before
        if known is not None and known.values is not None:
            origin = known.origin
            new = _fill_unchanged(new, known.values)
        key = self._find_key_of_row(new, before)
        if key != before:
            self._put(before, None)
        self._put(key, new, origin)

    def empty(self) -> None:
        """Let all rows go."""
        self.messages += 1
        self.is_emptied = True
        self._rows.clear()

    def _find_row(self, key: Key) -> _FoldedRow | None:
        row = self._rows.get(key)
        return self._unpack(key, row) if isinstance(row, bytes) else row

    def _unpack_rows(self) -> Iterator[tuple[Key, _FoldedRow]]:
        """Yield the last rows under their keys, those that came as whole messages taken apart."""
        for key, row in self._rows.items():
            yield key, self._unpack(key, row) if isinstance(row, bytes) else row

    def _unpack(self, key: Key, data: bytes) -> _FoldedRow:
        message = decode_message(data)
        assert self.reader is not None and isinstance(message, InsertMessage | UpdateMessage)
        return _FoldedRow(self.reader.pick(message.new), key)

    def _put(self, key: Key, values: list[TupleValue] | None, origin: Key | None = None) -> None:
        before = self._rows.pop(key, None)
        if before is not None and values is None and self.is_emptied:
            return  # it came after all rows went
        self._rows[key] = _FoldedRow(values, key if origin is None else origin)

    def _find_key(self, values: TupleData, other: TupleData | None = None) -> Key:
        """Return the key of a tuple; a large value of it that did not change stands in the `other`."""
        if self.reader is None:
            raise SourceError(f"table {self.relation.name}: a change of {self.path} came before its columns")
        key: list[bytes | None] = []
        for place in self.reader.key_places:
            value = values[place]
            if value is UNCHANGED and other is not None:
                value = other[place]
            if isinstance(value, Unchanged):
                raise self._build_key_error()
            key.append(value)
        return tuple(key)

    def _find_old_key(self, old: TupleData, is_whole: bool, new: TupleData | None = None) -> Key:
        """Return the key in what is told of an old row: its replica identity has all of it."""
        key = self._find_key(old, new)
        if None in key and not is_whole:
            raise self._build_identity_error()
        return key

    def _find_key_of_row(self, values: Sequence[TupleValue], before: Key) -> Key:
        assert self.reader is not None
        key: list[bytes | None] = []
        for number, at in enumerate(self.reader.key):
            value = values[at]
            key.append(before[number] if isinstance(value, Unchanged) else value)
        return tuple(key)

    def _build_identity_error(self) -> SourceError:
        name = self.relation.name
        return SourceError(
            f"table {name}: the replica identity of {self.path} does not tell the key of {name} any more, so that rows "
            f"which go or change their key are not found: ALTER TABLE there … REPLICA IDENTITY FULL (or DEFAULT, if "
            f"the key is the primary key there), and ALTER TABLE {name} RESYNC here"
        )

    def _build_key_error(self) -> SourceError:
        return SourceError(
            f"table {self.relation.name}: PostgreSQL did not tell the key of a row of {self.path}, a large value: "
            f"ALTER TABLE there … REPLICA IDENTITY FULL, and ALTER TABLE {self.relation.name} RESYNC here"
        )

    def build_rows(self) -> SignedRows:
        """Return the last rows as texts, in their order; what is UNCHANGED is null yet."""
        reader = self.reader
        if reader is None or not self._rows:
            return SignedRows(pa.table({}))
        whole = [row for row in self._rows.values() if isinstance(row, bytes)]
        others, gone, order = list[Sequence[TupleValue]](), list[bool](), list[int]()
        for key, row in self._rows.items():
            is_gone = False
            if isinstance(row, bytes):
                order.append(len(order) - len(others))
            else:
                is_gone = row.values is None
                order.append(len(whole) + len(others))
                others.append(self._build_blank(key) if row.values is None else row.values)
            gone.append(is_gone)
        columns: list[Any] = read_columns(whole, reader.places) if whole else []
        if others:
            later = [_build_texts(values) for values in zip(*others, strict=True)]
            columns = _append_columns(columns, later, order) if whole else later
        return SignedRows(reader.build_rows(columns), np.array(gone, dtype=bool))

    def _build_blank(self, key: Key) -> list[TupleValue]:
        """Return a row that has its key alone."""
        assert self.reader is not None
        blank: list[TupleValue] = [None] * len(self.reader.columns)
        for at, part in zip(self.reader.key, key, strict=True):
            blank[at] = part
        return blank

    def list_unchanged(self) -> tuple[np.ndarray, np.ndarray, list[Key]]:
        """Return which rows (by place) have values UNCHANGED, in which columns, and under which keys the store has these."""
        places, masks, origins = list[int](), list[list[bool]](), list[Key]()
        for place, row in enumerate(self._rows.values()):
            if isinstance(row, bytes):
                continue
            if row.values is not None and UNCHANGED in row.values:
                places.append(place)
                masks.append([isinstance(value, Unchanged) for value in row.values])
                origins.append(row.origin)
        width = 0 if self.reader is None else len(self.reader.columns)
        mask = np.array(masks, dtype=bool).reshape(len(places), width)
        return np.array(places, dtype=np.int64), mask, origins

    def build_keys(self, keys: Sequence[Key]) -> pa.Table:
        """Return keys as rows of texts under the names of the table's columns."""
        reader = self.reader
        assert reader is not None
        arrays: list[pa.Array[Any]] = []
        for number, at in enumerate(reader.key):
            texts = _build_texts([key[number] for key in keys])
            arrays.append(build_text_column(texts, reader.types[at], reader.columns[at]))
        return pa.Table.from_arrays(arrays, names=[reader.columns[at].name for at in reader.key])


def _fill_unchanged(new: list[TupleValue], old: Sequence[TupleValue]) -> list[TupleValue]:
    """Return a row whose values UNCHANGED are those of the row before."""
    if UNCHANGED not in new:
        return new
    return [o if n is UNCHANGED else n for n, o in zip(new, old, strict=True)]


def _append_columns(columns: Sequence[Any], later: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """Return columns with later rows behind their own, all of them put in an order."""
    stacks = [
        pa.chunked_array([*_list_chunks(one), *_list_chunks(other)])
        for one, other in zip(columns, later, strict=True)
    ]
    return [stack.take(pa.array(order)) for stack in stacks]


def _list_chunks(column: Any) -> Sequence[pa.Array[Any]]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _build_texts(values: Sequence[TupleValue]) -> pa.Array[Any]:
    """Return values as texts; what is UNCHANGED is null."""
    known = [None if value is UNCHANGED else value for value in values]
    return pa.array(known, pa.binary()).cast(pa.string())
