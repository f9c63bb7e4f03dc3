"""Messages of a sink are read back by Kafka as a source: every type, in each form, and what changes of rows become."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.kafka.decoding import MessageDecoder, Messages
from engine.connectors.kafka.settings import parse_settings
from engine.connectors.kafka.sink.encoding import (
    EncodedMessage,
    MessageEncoder,
    MessageShape,
    NullKey,
    explain_key_column,
    to_json_column,
)
from engine.connectors.landing.rows import LandingTarget, RowOptions, land_rows
from engine.log_store.changes import DELETE, INSERT, UPDATE, Changes
from engine.sql.catalog import RelationColumn
from engine.sql.typing.types import to_arrow
from tests.connectors.sinks.test_round_trip import SHAPES, VALUES, same, shaped

EPOCH = 11705424126869504
FORMS = ({"format": "json"}, {"format": "json", "envelope": "upsert"}, {"format": "debezium"})


def build(key: tuple[str, ...] = ("id",), kind: str = "string", **more: Any) -> MessageEncoder:
    """Return an encoder of rows (id, v)."""
    columns = (RelationColumn("id", "bigint"), RelationColumn("v", kind, sql_type=more.pop("sql_type", None)))
    given = {"format": "json", "key_format": "json", "upsert": True, "tombstones": True, **more}
    return MessageEncoder(MessageShape("s", "view", columns, key, **given))


def change(*rows: tuple[int, Any, Any], kind: str = "string") -> Changes:
    """Return changes (id, before, after), of which None is none."""
    operations, new, old = [], [], []
    for key, before, after in rows:
        operations.append(INSERT if before is None else DELETE if after is None else UPDATE)
        new.append({"id": key, "v": before if after is None else after})
        old.append({"id": None if before is None else key, "v": before})
    schema = pa.schema([("id", pa.int64()), ("v", to_arrow(kind))])
    return Changes(
        np.array(operations, np.int8),
        pa.Table.from_pylist(new, schema),
        pa.Table.from_pylist(old, schema),
    )


def read(
    messages: list[EncodedMessage], column: RelationColumn, form: dict[str, str]
) -> tuple[pa.Table, list[str]]:
    """Return the rows that a table gets from messages, and why some are set aside."""
    schema = pa.schema([("id", pa.int64()), ("v", to_arrow(column.type))])
    limited = {"v": column} if column.sql_type else {}
    rows_options = RowOptions(operation=CHANGE)
    target = LandingTarget("t", schema, ("id",), frozenset({"id"}), limited=limited, options=rows_options)
    settings = parse_settings({"bootstrap_servers": "h:1", "topic": "t", **form})
    names = {"id", "v"} | ({CHANGE} if settings.format == "debezium" else set())
    kinds = {} if limited else {field.name: field.type for field in schema}
    decoder = MessageDecoder(
        settings,
        ReadLimits(),
        frozenset(names),
        ("id",),
        frozenset(limited),
        kinds=kinds,
    )
    keys, values = [one.key for one in messages], [one.value for one in messages]
    found = list(
        decoder.decode(Messages(0, range(len(messages)), values, keys))  # type: ignore[arg-type]
    )
    landed = [land_rows(rows, target) for rows in found]
    return pa.concat_tables([one.rows for one in landed]), [bad.reason for one in landed for bad in one.bad]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.get("envelope", form["format"]))
def test_every_value_is_read_back_as_it_was_written(form: dict[str, str]) -> None:
    for kind, values in VALUES.items():
        for shape in SHAPES:
            text = shape.format(*[kind] * shape.count("{}"))
            cells = [cell for value in values for cell in shaped(shape, value)]
            rows = pa.table(
                {"id": pa.array(range(len(cells)), pa.int64()), "v": pa.array(cells, to_arrow(text))}
            )
            encoder = build(kind=text, format=form["format"])
            messages = list(encoder.encode(Changes.from_inserts(rows), EPOCH))
            found, bad = read(messages, RelationColumn("v", text), form)
            assert not bad, f"{text}: {bad[:3]}"
            assert same(found, rows), text


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.get("envelope", form["format"]))
def test_times_of_years_that_no_source_takes_are_written_whole_and_set_aside_there(
    form: dict[str, str],
) -> None:
    most = 2**63 - 1
    for kind, number, text in (
        ("date", 2_932_897, "+10000-01-01"),
        ("date", -719_529, "-0001-12-31"),
        ("timestamp", most, "+294247-01-10 04:00:54.775807+00:00"),
        ("timestamp_ntz", 253_402_300_800_000_000, "+10000-01-01 00:00:00"),
    ):
        width = pa.int32() if kind == "date" else pa.int64()
        rows = pa.table(
            {"id": pa.array([1, 2], pa.int64()), "v": pa.array([number, 0], width).cast(to_arrow(kind))}
        )
        messages = list(build(kind=kind, format=form["format"]).encode(Changes.from_inserts(rows), EPOCH))
        assert f'"v":"{text}"'.encode() in (messages[0].value or b"")
        found, bad = read(messages, RelationColumn("v", kind), form)
        assert found.column("id").to_pylist() == [2]
        assert [text in reason for reason in bad] == [True], bad


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.get("envelope", form["format"]))
@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_documents_are_read_back(form: dict[str, str], kind: str) -> None:
    texts = ['"asd"', '"5"', "5", "true", '{"a": 1.10, "bb": [null, "x"]}', "[]", '"\\r\\n"', "1" * 40]
    for column, cells in (
        (RelationColumn("v", "string", sql_type=kind), [*texts, None]),
        (RelationColumn("v", "array<string>", sql_type=f"array<{kind}>"), [texts, [], None]),
    ):
        rows = pa.table(
            {"id": pa.array(range(len(cells)), pa.int64()), "v": pa.array(cells, to_arrow(column.type))}
        )
        encoder = build(kind=column.type, sql_type=column.sql_type, format=form["format"])
        found, bad = read(list(encoder.encode(Changes.from_inserts(rows), EPOCH)), column, form)
        assert not bad, bad
        assert same(found, rows), found.to_pylist()


def test_upserts_are_values_by_key_and_deletions_tombstones() -> None:
    messages = list(build().encode(change((1, None, "a"), (2, "b", "c"), (3, "d", None)), EPOCH))
    assert messages == [
        (b'{"id":1}', b'{"id":1,"v":"a"}'),
        (b'{"id":2}', b'{"id":2,"v":"c"}'),
        (b'{"id":3}', None),
    ]


def test_changes_of_debezium_have_both_rows_and_a_tombstone_behind_a_deletion() -> None:
    encoder = build(format="debezium")
    messages = list(encoder.encode(change((1, None, "a"), (2, "b", "c"), (3, "d", None)), EPOCH))
    told = [(one.key, None if one.value is None else json.loads(one.value)) for one in messages]
    assert [(key, value and (value["op"], value["before"], value["after"])) for key, value in told] == [
        (b'{"id":1}', ("c", None, {"id": 1, "v": "a"})),
        (b'{"id":2}', ("u", {"id": 2, "v": "b"}, {"id": 2, "v": "c"})),
        (b'{"id":3}', ("d", {"id": 3, "v": "d"}, None)),
        (b'{"id":3}', None),
    ]
    value = told[0][1]
    assert value is not None and value["ts_ms"] == value["source"]["ts_ms"] > 1_600_000_000_000
    its = value["source"]
    assert (its["name"], its["table"], its["epoch"], its["snapshot"]) == ("s", "view", EPOCH, "false")
    (first,) = encoder.encode(change((1, None, "a")), EPOCH, snapshot=True)
    assert json.loads(first.value or b"")["op"] == "r"


@pytest.mark.parametrize("form", ["json", "debezium"])
def test_a_row_whose_key_changes_goes_and_comes(form: str) -> None:
    encoder = build(("id", "v"), format=form)
    messages = list(encoder.encode(change((2, "b", "c")), EPOCH))
    before, after = b'{"id":2,"v":"b"}', b'{"id":2,"v":"c"}'
    if form == "json":
        assert messages == [(before, None), (after, after)]
        return
    assert [one.key for one in messages] == [before, before, after]
    assert [one.value and json.loads(one.value)["op"] for one in messages] == ["d", None, "c"]


def test_an_append_only_sink_leaves_deletions_out_and_needs_no_key() -> None:
    changes = change((1, None, "a"), (2, "b", "c"), (3, "d", None))
    messages = list(build((), upsert=False).encode(changes, EPOCH))
    assert messages == [(None, b'{"id":1,"v":"a"}'), (None, b'{"id":2,"v":"c"}')]


def test_one_key_has_one_text() -> None:
    zeros = change((1, None, 0.0), (2, None, -0.0), (3, None, float("nan")), kind="double")
    keys = [one.key for one in build(("v",), "double").encode(zeros, EPOCH)]
    assert keys == [b'{"v":0.0}', b'{"v":0.0}', b'{"v":"NaN"}']
    assert [one.value for one in build(("v",), "double").encode(zeros, EPOCH)][1] == b'{"id":2,"v":-0.0}'


@pytest.mark.parametrize("kind", VALUES)
def test_a_key_is_the_same_bytes_whatever_rows_are_beside_it(kind: str) -> None:
    far = {
        "date": pa.scalar(5_000_000, pa.int32()).cast(pa.date32()),
        "timestamp": pa.scalar(400_000_000_000_000_000).cast(to_arrow("timestamp")),
        "timestamp_ntz": pa.scalar(400_000_000_000_000_000).cast(to_arrow("timestamp_ntz")),
    }
    values = pa.chunked_array([pa.array(VALUES[kind], to_arrow(kind))])
    beside = [pa.array([far[kind]], to_arrow(kind))] if kind in far else []
    together = to_json_column(pa.chunked_array([*values.chunks, *beside], values.type))
    alone = [to_json_column(values.slice(n, 1))[0] for n in range(len(values))]
    assert [repr(one) for one in together[: len(alone)]] == [repr(one) for one in alone]


def test_keys_may_be_texts() -> None:
    given = change((7, None, "a b"), (8, "x", None))
    assert [one.key for one in build(("v",), key_format="text").encode(given, EPOCH)] == [b"a b", b"x"]
    assert [one.key for one in build(("id",), key_format="text").encode(given, EPOCH)] == [b"7", b"8"]
    with pytest.raises(NullKey, match="v"):
        list(build(("v",), key_format="text").encode(change((1, None, None)), EPOCH))


def test_columns_that_may_be_written_in_several_ways_are_no_keys() -> None:
    for column in (
        RelationColumn("c", "string", sql_type="jsonb"),
        RelationColumn("c", "array<int>"),
        RelationColumn("c", "struct<a:int>"),
    ):
        assert "several ways" in (explain_key_column(column) or "")
    assert explain_key_column(RelationColumn("c", "decimal(10,2)")) is None


def test_many_rows_come_in_their_order() -> None:
    count = 45_001
    rows = pa.table({"id": pa.array(range(count), pa.int64()), "v": pa.array(["x"] * count)})
    messages = list(build().encode(Changes.from_inserts(rows), EPOCH))
    assert [json.loads(one.key or b"")["id"] for one in messages] == list(range(count))
