"""Messages become rows by their format, and each that is none is set aside with its offset and the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.file_format import FileRows
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.kafka import decoding
from engine.connectors.kafka.decoding import MessageDecoder, Messages, format_headers
from engine.connectors.kafka.settings import parse_settings

OPTIONS = {"bootstrap_servers": "h:1", "topic": "t", "format": "json"}


class Told:
    """What a message tells besides key and value."""

    def __init__(self, time: int | None, headers: list[tuple[str, bytes | None]] | None = None) -> None:
        self._time, self._headers = time, headers

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self._time is None else (1, self._time)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers


def decode(
    values: list[bytes | None],
    keys: list[bytes | None] | None = None,
    more: Mapping[str, str] | None = None,
    told: list[Told] | None = None,
    **shape: Any,
) -> FileRows:
    """Return the rows of messages at the offsets 10, 20, …"""
    settings = parse_settings({**OPTIONS, **(more or {})})
    columns = {"id", "v"} | ({CHANGE} if settings.format == "debezium" else set())
    decoder = MessageDecoder(settings, ReadLimits(), frozenset(columns), ("id",), **shape)
    offsets = [10 * (at + 1) for at in range(len(values))]
    messages = Messages(3, offsets, values, keys or [None] * len(values), told or [Told(None)] * len(values))
    (rows,) = decoder.decode(messages)
    return rows


def columns(rows: FileRows) -> dict[str, list[Any]]:
    return {name: pa.chunked_array([column]).to_pylist() for name, column in rows.columns.items()}


def bad(rows: FileRows) -> list[tuple[int, str]]:
    return [(one.line, one.reason) for one in rows.bad]


def test_objects_of_json_come_as_they_stand() -> None:
    rows = decode([b'{"ID": 1.50, "v": "a"}', b'{\n"v": [1, 2]}', b"[]", b"\xff", None, b'{"more": 1}'])
    assert columns(rows) == {"id": ["1.50", None, None], "v": ["a", "[1, 2]", None]}
    assert [line for line, _ in bad(rows)] == [30, 40, 50]
    assert "has no value" in bad(rows)[-1][1]
    assert rows.lines is not None and rows.lines.tolist() == [10, 20, 60]
    assert rows.locate_row(1) == (20, '{\n"v": [1, 2]}')
    assert "more" in rows.names


def test_changes_of_debezium_come_with_their_words_and_tombstones_pass() -> None:
    schema = {
        "schema": {"type": "struct"},
        "payload": {"op": "u", "before": None, "after": {"id": 2, "v": "b"}},
    }
    rows = decode(
        [
            b'{"op": "c", "after": {"id": 1, "v": "a"}}',
            json.dumps(schema).encode(),
            b'{"op": "d", "before": {"id": 1}}',
            None,
            b'{"op": "t"}',
        ],
        more={"format": "debezium"},
    )
    assert columns(rows) == {
        "id": ["1", "2", "1"],
        "v": ["a", "b", None],
        CHANGE: ["upsert", "upsert", "delete"],
    }
    assert [line for line, _ in bad(rows)] == [50]


def test_keys_find_rows_and_tombstones_delete() -> None:
    rows = decode(
        [b'{"id": 9, "v": "a"}', None, b'{"v": "b"}', b"{", b'{"v": "c"}', None],
        [b"1", b'{"id": 2}', b"3", b"4", b"{", None],
        {"envelope": "upsert"},
    )
    assert columns(rows) == {
        "id": ["1", "2", "3"],
        "v": ["a", None, "b"],
        CHANGE: ["upsert", "delete", "upsert"],
    }
    assert [line for line, _ in bad(rows)] == [40, 50, 60]
    assert bad(rows)[1][1].startswith("the key: not JSON") and rows.bad[1].raw == "{"
    assert "has no key" in bad(rows)[2][1]
    assert rows.locate_row(1) == (20, '{"id": 2}')


def test_a_key_that_is_more_than_one_value_is_none() -> None:
    keys: list[bytes | None] = [b'1, "v": "x"', b'1, "id": 2', b"1 2", b"1}", b"", b" 7\n", b"[1]", b"NaN"]
    rows = decode([b'{"v": "a"}'] * len(keys), keys, {"envelope": "upsert"})
    assert columns(rows)["id"] == ["7", "[1]"]
    assert [line for line, _ in bad(rows)] == [10, 20, 30, 40, 50, 80]


def test_keys_may_be_texts() -> None:
    rows = decode(
        [b'{"v": "a"}', b"{}", None], [b'x "y"', b"\xff", b"7"], {"envelope": "upsert", "key_format": "text"}
    )
    assert columns(rows)["id"] == ['x "y"', "7"]
    assert [line for line, _ in bad(rows)] == [20]


def test_columns_tell_of_their_messages() -> None:
    more = {
        "key_column": "k",
        "partition_column": "p",
        "offset_column": "o",
        "timestamp_column": "at",
        "headers_column": "h",
    }
    rows = decode(
        [b'{"id": 1}', b"bad", b'{"id": 2}', b'{"id": 3}'],
        [b"one", b"two", None, b"\xff"],
        more,
        [Told(1500, [("a", b"1"), ("a", None)]), Told(1), Told(None), Told(2)],
    )
    found = columns(rows)
    assert (found["k"], found["p"], found["o"]) == (["one", None], [3, 3], [10, 30])
    assert [None if one is None else one.timestamp() for one in found["at"]] == [1.5, None]
    assert found["h"] == ['[{"key": "a", "value": "1"}, {"key": "a", "value": null}]', None]
    assert found["id"] == ["1", "2"]
    assert [line for line, _ in bad(rows)] == [20, 40]
    assert "the key is no UTF-8" in bad(rows)[1][1]
    assert rows.locate_row(1) == (30, '{"id": 2}')


def test_a_key_may_be_kept_as_bytes() -> None:
    rows = decode([b'{"id": 1}'], [b"\xff"], {"key_column": "k"}, binary=frozenset({"k"}))
    assert columns(rows)["k"] == [b"\xff"] and not rows.bad


def test_headers_that_are_no_text_are_escaped() -> None:
    assert format_headers([("a", b"\xff")]) == '[{"key": "a", "value": "\\\\xff"}]'
    assert format_headers([]) is None


@pytest.mark.parametrize("form", ["json", "debezium", "upsert"])
def test_a_bad_message_among_many_is_set_aside_and_the_others_are_read_at_once(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PIECE_MESSAGES", 4)
    wrap = '{"op": "u", "after": %s}' if form == "debezium" else "%s"
    values = [(wrap % f'{{"id": {n}, "v": "{n}"}}').encode() for n in range(30)]
    values[13], values[22] = b'{"op": "c", "after": {"id": 1', b"[]"
    keys = [b'{"id": %d}' % n for n in range(30)]
    keys[7] = b"{"
    options = {**OPTIONS, **({"envelope": "upsert"} if form == "upsert" else {"format": form})}
    columns = frozenset({"id", "v"} | ({CHANGE} if form == "debezium" else set()))
    found = []
    for kinds in ({"id": pa.int64(), "v": pa.string()}, {}):
        decoder = MessageDecoder(parse_settings(options), ReadLimits(), columns, ("id",), kinds=kinds)
        parts = list(decoder.decode(Messages(0, range(0, 60, 2), values, keys)))
        ids = [
            (str(one), line)
            for part in parts
            for one, line in zip(part.columns["id"], part.lines, strict=True)
        ]
        raws = [part.locate_row(row) for part in parts for row in range(part.rows)]
        found.append((ids, raws, [one for part in parts for one in part.bad]))
        typed = [part.columns["id"].type == pa.int64() for part in parts]
        exact = {1} if form == "upsert" else {3, 5}  # pieces; keys give the ids of upserts
        assert typed == ([n not in exact for n in range(8)] if kinds else [False])
    assert found[0] == found[1]
    assert [one.line for one in found[0][2]] == ([14, 26, 44] if form == "upsert" else [26, 44])
