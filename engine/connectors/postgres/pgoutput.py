"""Messages of PostgreSQL's output plugin pgoutput, version 1 of its protocol, taken apart from bytes.

Values stay bytes, in the text form of PostgreSQL; a tuple has None for a null, and UNCHANGED for a large value that was not
sent again as it did not change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from engine.errors import SourceError


class Unchanged:
    """Stands for a large value that did not change, which PostgreSQL does not send again."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
_UINT8, _UINT16, _UINT32, _UINT64, _INT32 = (struct.Struct(f"!{code}") for code in "BHIQi")
_BEGIN, _COMMIT = struct.Struct("!BQqI"), struct.Struct("!BBQQq")
TEXT, NULL, _UNCHANGED = b"tnu"
_INSERT, _UPDATE, _NEW = b"IUN"
_BEGINS, _COMMITS = b"BC"
_FIRST = (0,)
COUNT_PLACE, _VALUES = 6, 8
"""Where a new row's values are counted, behind the letter of the message, the table's number and a mark, and where they begin."""
TupleValue: TypeAlias = "bytes | None | Unchanged"
TupleData: TypeAlias = "tuple[TupleValue, ...]"


class BeginMessage(NamedTuple):
    """A transaction begins that is committed by the record at `final_lsn`."""

    final_lsn: int
    xid: int


class CommitMessage(NamedTuple):
    """The transaction ends; its record ends at `end_lsn`."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True)
class PublishedColumn:
    """A column of a published table: the number of its type, and whether it is part of the replica identity."""

    name: str
    type_oid: int
    in_identity: bool


@dataclass(frozen=True)
class PublishedRelation:
    """A table as the messages behind this one have it; its identity is d, i, f or n, as `pg_class.relreplident`."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[PublishedColumn, ...]


@dataclass(frozen=True)
class TypeName:
    """The name of a type that is none of PostgreSQL's own."""

    oid: int
    schema: str
    name: str


class InsertMessage(NamedTuple):
    """A row that comes."""

    oid: int
    new: TupleData


class UpdateMessage(NamedTuple):
    """A row that changes; `old` is its key where that changed, or the whole row where `old_is_whole`."""

    oid: int
    new: TupleData
    old: TupleData | None = None
    old_is_whole: bool = False


class DeleteMessage(NamedTuple):
    """A row that goes; `old` is its key, or the whole row where `old_is_whole`."""

    oid: int
    old: TupleData
    old_is_whole: bool = False


@dataclass(frozen=True)
class TruncateMessage:
    """All rows of some tables go."""

    oids: tuple[int, ...]


@dataclass(frozen=True)
class OriginMessage:
    """The transaction came from another server."""

    lsn: int
    name: str


@dataclass(frozen=True)
class LogicalMessage:
    """A message that somebody wrote into the log."""

    prefix: str
    content: bytes


RowChange: TypeAlias = "InsertMessage | UpdateMessage | DeleteMessage"
TransactionMessage: TypeAlias = "BeginMessage | CommitMessage | OriginMessage"
Message: TypeAlias = (
    "TransactionMessage | PublishedRelation | TypeName | RowChange | TruncateMessage | LogicalMessage"
)


def decode_message(data: bytes) -> Message:
    """Return what a message says; raises SourceError for one that this version of the protocol has not."""
    if len(data) == _BEGIN.size and data[0] == _BEGINS:  # two of them are in each transaction
        _, final, _, xid = _BEGIN.unpack(data)
        return BeginMessage(final, xid)
    if len(data) == _COMMIT.size and data[0] == _COMMITS:
        _, _, commit, end, _ = _COMMIT.unpack(data)
        return CommitMessage(commit, end)
    reader = _ByteReader(data)
    try:
        message = _decode_new_row(reader) or _decode(reader)
    except (struct.error, IndexError, ValueError) as error:
        why = "it ends too early" if isinstance(error, IndexError) else error
        raise SourceError(f"a message of pgoutput is broken: {_describe(data)}: {why}") from error
    if reader.at != len(data):
        raise SourceError(
            f"a message of pgoutput has {len(data) - reader.at} bytes more than it should: {_describe(data)}"
        )
    return message


def read_whole_row_key(data: bytes, places: Sequence[int]) -> tuple[bytes, ...] | None:
    """Return the values at some places, in their order, of a message that brings a new row, without taking the rest apart.

    None where the message says more than that, has not all values of the row, or a null among these.
    """
    try:
        if data[5] != _NEW or (data.find(_UNCHANGED, _VALUES) >= 0 and _lacks_values(data)):
            return None
        if places == _FIRST:
            if data[_VALUES] != TEXT:
                return None
            (size,) = _UINT32.unpack_from(data, _VALUES + 1)
            start = _VALUES + 1 + _UINT32.size
            return (data[start : start + size],)
        found, at = [b""] * len(places), _VALUES
        for place in range(max(places) + 1):
            is_text = data[at] == TEXT
            at += 1
            size = 0
            if is_text:
                (size,) = _UINT32.unpack_from(data, at)
                at += _UINT32.size
            if place in places:
                if not is_text:
                    return None
                found[places.index(place)] = data[at : at + size]
            at += size
    except (IndexError, struct.error):  # it ends too early, as who takes it apart is told
        return None
    return tuple(found)


def _lacks_values(data: bytes) -> bool:
    """Tell whether a value of a new row is not told; one that is told may have the same letter."""
    at, end = _VALUES, len(data)
    while at < end:
        kind = data[at]
        if kind == _UNCHANGED:
            return True
        at += 1
        if kind == TEXT:
            at += _UINT32.size + int.from_bytes(data[at : at + _UINT32.size], "big")
    return False


def _decode_new_row(reader: _ByteReader) -> InsertMessage | UpdateMessage | None:
    """Return a message of a new row whose old key is not told, in few steps: most are of this kind; None for another."""
    kind = reader.data[0]
    if (kind != _INSERT and kind != _UPDATE) or reader.data[5] != _NEW:
        return None
    (oid,) = _UINT32.unpack_from(reader.data, 1)
    reader.at = 6
    new = reader.read_tuple()
    return InsertMessage(oid, new) if kind == _INSERT else UpdateMessage(oid, new)


def _decode(reader: _ByteReader) -> Message:
    kind = reader.read_letter()
    match kind:
        case "I":
            return InsertMessage(reader.read_number(_UINT32), reader.read_new())
        case "U":
            return _decode_update(reader)
        case "D":
            oid, mark = reader.read_number(_UINT32), reader.read_letter()
            if mark not in "KO":
                raise ValueError(f"a deletion has no {mark!r}")
            return DeleteMessage(oid, reader.read_tuple(), mark == "O")
        case "B" | "C":  # that has another length than it should
            reader.read_bytes((_BEGIN if kind == "B" else _COMMIT).size - 1)
            raise ValueError(f"it has {len(reader.data) - reader.at} bytes more than it should")
        case "R":
            return _decode_relation(reader)
        case "Y":
            return TypeName(reader.read_number(_UINT32), reader.read_text(), reader.read_text())
        case "T":
            count = reader.read_number(_UINT32)
            reader.read_number(_UINT8)
            return TruncateMessage(tuple(reader.read_number(_UINT32) for _ in range(count)))
        case "O":
            return OriginMessage(reader.read_number(_UINT64), reader.read_text())
        case "M":
            reader.read_number(_UINT8)
            reader.read_number(_UINT64)
            return LogicalMessage(reader.read_text(), reader.read_bytes(reader.read_number(_UINT32)))
        case _:
            raise ValueError(f"there is no message {kind!r}")


def _decode_update(reader: _ByteReader) -> UpdateMessage:
    oid, mark = reader.read_number(_UINT32), reader.peek_letter()
    if mark not in "KO":
        return UpdateMessage(oid, reader.read_new())
    reader.read_letter()
    old = reader.read_tuple()
    return UpdateMessage(oid, reader.read_new(), old, mark == "O")


def _decode_relation(reader: _ByteReader) -> PublishedRelation:
    oid, schema, name = reader.read_number(_UINT32), reader.read_text(), reader.read_text()
    identity = reader.read_letter()
    columns = []
    for _ in range(reader.read_number(_UINT16)):
        flags, column = reader.read_number(_UINT8), reader.read_text()
        kind, _ = reader.read_number(_UINT32), reader.read_number(_INT32)
        columns.append(PublishedColumn(column, kind, bool(flags & 1)))
    # the schema pg_catalog is sent as an empty text
    return PublishedRelation(oid, schema or "pg_catalog", name, identity, tuple(columns))


class _ByteReader:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read_number(self, form: struct.Struct) -> int:
        (found,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(found)

    def peek_letter(self) -> str:
        return self.data[self.at : self.at + 1].decode("latin-1")

    def read_letter(self) -> str:
        letter = self.peek_letter()
        if not letter:
            raise ValueError("it ends too early")
        self.at += 1
        return letter

    def read_text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def read_bytes(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise ValueError("it ends too early")
        self.at += size
        return found

    def read_new(self) -> TupleData:
        mark = self.read_letter()
        if mark != "N":
            raise ValueError(f"{mark!r} is not the mark of a new row")
        return self.read_tuple()

    def read_tuple(self) -> TupleData:
        """Read a row; most of the log's bytes are in rows, so no value costs a call."""
        data, values = self.data, list[TupleValue]()
        count, at = self.read_number(_UINT16), self.at
        for _ in range(count):
            kind = data[at]
            at += 1
            if kind == TEXT:
                (size,) = _UINT32.unpack_from(data, at)
                start = at + _UINT32.size
                at = start + size
                values.append(data[start:at])
            elif kind == NULL:
                values.append(None)
            elif kind == _UNCHANGED:
                values.append(UNCHANGED)
            else:
                raise ValueError(f"a value has no form {chr(kind)!r}")
        if at > len(data):
            raise ValueError("it ends too early")
        self.at = at
        return tuple(values)


def _describe(data: bytes) -> str:
    shown: Sequence[int] = data[:16]
    return bytes(shown).hex(" ") + (" …" if len(data) > 16 else "")
