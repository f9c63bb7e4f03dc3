"""Messages of pgoutput from bytes."""

from __future__ import annotations

import struct

import pytest

from engine.connectors.postgres.pgoutput import (
    UNCHANGED,
    BeginMessage,
    CommitMessage,
    DeleteMessage,
    InsertMessage,
    LogicalMessage,
    Message,
    OriginMessage,
    PublishedColumn,
    PublishedRelation,
    TruncateMessage,
    TypeName,
    UpdateMessage,
    decode_message,
    read_whole_row_key,
)
from engine.errors import SourceError


def row(*values: str | None) -> bytes:
    """Return a tuple's bytes; "?" is a value that did not change."""
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value == "?":
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack("!I", len(value.encode())) + value.encode())
    return b"".join(parts)


OID = struct.pack("!I", 16_384)
RELATION = (
    b"R" + OID + b"public\0orders\0" + b"d" + struct.pack("!H", 2)
    + b"\x01id\0" + struct.pack("!Ii", 20, -1)
    + b"\x00name\0" + struct.pack("!Ii", 25, -1)
)  # fmt: skip
CASES: list[tuple[bytes, Message]] = [
    (b"B" + struct.pack("!QqI", 0x16B3748, 700_000_000, 731), BeginMessage(0x16B3748, 731)),
    (b"C\0" + struct.pack("!QQq", 0x16B3748, 0x16B3780, 700_000_000), CommitMessage(0x16B3748, 0x16B3780)),
    (
        RELATION,
        PublishedRelation(
            16_384,
            "public",
            "orders",
            "d",
            (PublishedColumn("id", 20, True), PublishedColumn("name", 25, False)),
        ),
    ),
    (b"R" + OID + b"\0pg_x\0f\0\0", PublishedRelation(16_384, "pg_catalog", "pg_x", "f", ())),
    (b"Y" + OID + b"public\0mood\0", TypeName(16_384, "public", "mood")),
    (b"I" + OID + b"N" + row("1", "ä\nb"), InsertMessage(16_384, (b"1", "ä\nb".encode()))),
    (b"I" + OID + b"N" + row("1", None), InsertMessage(16_384, (b"1", None))),
    (b"I" + OID + b"N" + row("", "x"), InsertMessage(16_384, (b"", b"x"))),
    (b"U" + OID + b"N" + row("1", "?"), UpdateMessage(16_384, (b"1", UNCHANGED))),
    (
        b"U" + OID + b"K" + row("1", None) + b"N" + row("2", "?"),
        UpdateMessage(16_384, (b"2", UNCHANGED), (b"1", None)),
    ),
    (
        b"U" + OID + b"O" + row("1", "old") + b"N" + row("1", "new"),
        UpdateMessage(16_384, (b"1", b"new"), (b"1", b"old"), old_is_whole=True),
    ),
    (b"D" + OID + b"K" + row("1", None), DeleteMessage(16_384, (b"1", None))),
    (b"D" + OID + b"O" + row("1", "a"), DeleteMessage(16_384, (b"1", b"a"), old_is_whole=True)),
    (b"T" + struct.pack("!IBII", 2, 3, 16_384, 16_390), TruncateMessage((16_384, 16_390))),
    (b"O" + struct.pack("!Q", 5) + b"elsewhere\0", OriginMessage(5, "elsewhere")),
    (
        b"M\1" + struct.pack("!Q", 5) + b"mine\0" + struct.pack("!I", 3) + b"a\0b",
        LogicalMessage("mine", b"a\0b"),
    ),
]


@pytest.mark.parametrize(("data", "message"), CASES, ids=lambda one: type(one).__name__)
def test_a_message_says_what_its_bytes_say(data: bytes, message: Message) -> None:
    assert decode_message(data) == message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too early"),
        (b"Z", "there is no message 'Z'"),
        (b"S\0\0\0\1\0", "there is no message 'S'"),
        (b"I" + OID + b"K" + row("1"), "no"),
        (b"D" + OID + b"N" + row("1"), "a deletion has no 'N'"),
        (b"I" + OID + b"N\0\1b\0\0\0\1x", "no form 'b'"),
        (CASES[0][0] + b"\0", "1 bytes more"),
        (b"Y" + OID + b"public", "broken"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        decode_message(data)


@pytest.mark.parametrize(("data", "message"), CASES, ids=lambda one: type(one).__name__)
def test_a_message_that_is_cut_anywhere_is_refused(data: bytes, message: Message) -> None:
    for end in range(len(data)):
        with pytest.raises(SourceError):
            decode_message(data[:end])


@pytest.mark.parametrize(
    ("data", "places", "key"),
    [
        (b"I" + OID + b"N" + row("1", "a"), (0,), (b"1",)),
        (b"U" + OID + b"N" + row("1", None), (0,), (b"1",)),
        (b"I" + OID + b"N" + row("", "b", "c"), (2, 0), (b"c", b"")),
        (b"I" + OID + b"N" + row("u", "Autumn", None), (1,), (b"Autumn",)),
        (b"I" + OID + b"N" + row("x" * 117, "a"), (1,), (b"a",)),
        (b"U" + OID + b"N" + row("1", "?"), (0,), None),
        (b"U" + OID + b"N" + row("u", None, "?"), (0,), None),
        (b"I" + OID + b"N" + row(None, "a"), (0,), None),
        (b"U" + OID + b"K" + row("1", None) + b"N" + row("2", "a"), (0,), None),
        (b"U" + OID + b"O" + row("1", "a") + b"N" + row("2", "a"), (0,), None),
        (b"D" + OID + b"K" + row("1", None), (0,), None),
    ],
)
def test_the_key_of_a_row_that_is_told_whole_is_read_alone(
    data: bytes, places: tuple[int, ...], key: tuple[bytes, ...] | None
) -> None:
    assert read_whole_row_key(data, places) == key
    if key is not None:
        message = decode_message(data)
        assert isinstance(message, InsertMessage | UpdateMessage)
        assert tuple(message.new[place] for place in places) == key


@pytest.mark.parametrize(
    "data", [b"", b"I" + OID + b"N", b"I" + OID + b"N\0\1t\0", b"I" + OID + b"N\0\1b\0\0\0\1u"]
)
def test_a_row_that_is_cut_is_left_to_who_takes_it_apart(data: bytes) -> None:
    assert read_whole_row_key(data, (0,)) is None
    with pytest.raises(SourceError):
        decode_message(data)
