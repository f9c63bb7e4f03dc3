"""Without a broker: options that are refused, with their place and what to write, before anything is created."""

from __future__ import annotations

import importlib.util

import pytest
import xxhash

from engine.connectors.kafka.sink.connector import _build_app
from engine.connectors.kafka.sink.positions import (
    DeliveredPosition,
    TopicNote,
    decode_delivered,
    decode_note,
    encode_delivered,
    encode_note,
)
from engine.connectors.kafka.sink.settings import parse_key, parse_sink_settings
from engine.connectors.kafka.sink.target import _skip, _split
from engine.errors import SqlError
from engine.session import Session
from tests.connectors.kafka.sink.test_encoding import change

GIVEN = {"connector": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "t"}


def write(source: str = "t", **options: str) -> str:
    """Return a CREATE SINK; an option that is empty is left out."""
    texts = {name: value for name, value in {**GIVEN, **options}.items() if value}
    return f"CREATE SINK s FROM {source} WITH ({', '.join(f'{n} = {v!r}' for n, v in texts.items())})"


@pytest.fixture
def source(lake: Session) -> Session:
    """A session with tables that a sink could read."""
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, l ARRAY<INT>)")
    lake.sql("CREATE TABLE pair (a BIGINT, b BIGINT, v STRING, PRIMARY KEY (a, b))")
    lake.sql("CREATE TABLE log (v STRING, n INT) APPEND ONLY")
    lake.sql("CREATE TABLE bag (v STRING)")
    return lake


UPSERT = {"envelope": "upsert"}


def test_the_name_at_the_brokers_has_the_topic_and_plain_characters_alone() -> None:
    assert (
        _build_app("file:///a", "sales.eu-1_x", "t")
        == f"tideline/{xxhash.xxh64_hexdigest('file:///a')}/sales.eu-1_x/t"
    )
    odd = _build_app("file:///a", 'сток "x/y"', "t")
    assert odd.isascii() and odd.count("/") == 3 and " " not in odd
    assert (
        len({_build_app("file:///a", name, topic) for name in ("a", "b", "a/b") for topic in ("t", "u")}) == 6
    )


@pytest.mark.parametrize("words", ["", "moved by hand", '{"start": "x"}', "[]", "3"])
def test_metadata_that_another_tool_has_written_is_no_position(words: str) -> None:
    assert decode_delivered(words) == DeliveredPosition()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (write(bootstrap_servers=""), ("needs bootstrap_servers", "topic = 'orders'")),
        (write(topic=" "), ("needs topic",)),
        (write(topic="a b"), ("is no name of a topic",)),
        (write(bootstrap_servers="host"), ("is no host with a port",)),
        (write(format="avro"), ("Avro is read from Kafka, and not written", "json, debezium")),
        (write(format="protobuf"), ("Protobuf is not written",)),
        (write(format="xml"), ("format = 'xml' is unknown",)),
        (write(envelope="debezium"), ("is a format here", "format = 'debezium'")),
        (write(envelope="none"), ("envelope = 'none' is unknown",)),
        (write(format="debezium", envelope="upsert"), ("has no envelope",)),
        (write(key_format="avro"), ("key_format = 'avro' is not written",)),
        (write(key=" , "), ("key names no column",)),
        (write(compression="brotli"), ("compression = 'brotli' is unknown",)),
        (write(create_topic="maybe"), ("create_topic is true or false",)),
        (write(topic_partitions="3"), ("is of create_topic", "create_topic = 'true'")),
        (write(max_message_bytes="big"), ("is no number from 1000",)),
        (write(transaction_seconds="0"), ("is no number from 1 to 900",)),
        (write(security_protocol="sasl_ssl"), ("needs sasl_mechanism",)),
        (write(password_variable="x"), ("means nothing with security_protocol = 'plaintext'",)),
        (write(ssl_ca_file="none.pem", security_protocol="ssl"), ("there is no file",)),
        (write(vnode_groups="4", **UPSERT), ("parts of an epoch", "leave vnode_groups out")),
        (write(topci="x"), ("has no option topci", "did you mean topic?")),
        (write(startup_mode="latest"), ("has no option startup_mode",)),
        (write(), ("rows of the view change and go", "envelope = 'upsert'")),
        (write(key="w", **UPSERT), ("key names w, which is no column", "id, v, l")),
        (write(key="id, id", **UPSERT), ("key names id twice",)),
        (write(key="v", **UPSERT), ("key lacks id", "so two rows could have one")),
        (write(key="id, l", **UPSERT), ("may be written in several ways", "CAST l to STRING")),
        (write("pair", key_format="text", **UPSERT), ("is one column, and the key has 2",)),
        (write("log", key_format="text"), ("is one column, and the key has 0",)),
        (write("log", **UPSERT), ("the view has no key", "write key = 'v'")),
        (write("bag", **UPSERT), ("is not among its columns",)),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_created(
    source: Session, statement: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(SqlError) as raised:
        source.sql(statement, build=False)
    assert all(word in str(raised.value) for word in words), raised.value
    assert "s" not in source.catalog.relations


@pytest.mark.parametrize(
    "servers", ["me:hunter2@host:9092", "a:1,me:hun,ter2@host:9092", "kafka://me:hunter2@host"]
)
def test_a_password_in_the_address_is_refused_and_not_shown(source: Session, servers: str) -> None:
    with pytest.raises(SqlError, match="holds a user or a password") as raised:
        source.sql(write(bootstrap_servers=servers, **UPSERT), build=False)
    message = str(raised.value)
    assert "password_variable = 'KAFKA_PASSWORD'" in message
    assert not any(word in message for word in ("hun", "ter2")), message
    with pytest.raises(SqlError) as raised:
        source.sql(write(bootstrap_servers="host:1", password="hunter2", **UPSERT), build=False)
    assert "has no option password" in str(raised.value) and "hunter2" not in str(raised.value)


def test_what_is_right_is_tried_at_the_brokers(source: Session) -> None:
    client = importlib.util.find_spec("confluent_kafka")
    words = "pip install 'tideline" if client is None else "topic t of Kafka at 127.0.0.1:1"
    for statement in (write(format="debezium", key="ID"),):
        with pytest.raises(SqlError) as raised:
            source.sql(statement, build=False)
        assert words in str(raised.value)


def test_the_columns_of_a_key_may_stand_in_parentheses() -> None:
    assert parse_key("(a, `b, c`)") == ("a", "b, c") == parse_key("a, `b, c`")
    assert parse_sink_settings({**GIVEN, "key": "(a)"}).key == ("a",)


def test_positions_and_notes_are_texts() -> None:
    for position in (DeliveredPosition(), DeliveredPosition(1 << 60, 5, 3, "id", 2)):
        assert decode_delivered(encode_delivered(position)) == position
    assert decode_delivered(None) == decode_delivered("") == DeliveredPosition()
    note = TopicNote("id", {0: 5, 1: 1 << 60})
    assert decode_note(encode_note(note)) == note and decode_note("") is None


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (3,), (7, 2, 4), (3, 3), (1, 1, 1, 1)])
@pytest.mark.parametrize("done", [0, 1, 3, 6, 13])
def test_first_rows_are_split_in_pieces_wherever_they_go_on(sizes: tuple[int, ...], done: int) -> None:
    first = 0
    changes = []
    for size in sizes:
        changes.append(change(*((first + n, None, "x") for n in range(size))))
        first += size
    pieces = list(_split(_skip(iter(changes), done), 3))
    counts = [sum(map(len, piece)) for _, piece in pieces]
    ids = [key for _, piece in pieces for one in piece for key in one.rows.column("id").to_pylist()]
    assert ids == list(range(first))[done:]
    assert [is_last for is_last, _ in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(count == 3 for count in counts[:-1]) and counts[-1] <= 3
