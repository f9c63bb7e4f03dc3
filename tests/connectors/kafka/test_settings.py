"""Options that cannot work are told when the table is made, at their place, before any broker is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.connectors.kafka import client
from engine.connectors.kafka.settings import parse_moment, parse_offsets, parse_settings
from engine.errors import SqlError
from engine.session import Session
from tests.connectors.bad_settings import Bad, nothing_made

PLACE = "bootstrap_servers = 'localhost:9092', topic = 't'"
KEYED = "id BIGINT PRIMARY KEY, v STRING"


def kafka(options: str, columns: str = KEYED, clause: str = "") -> str:
    return f"CREATE TABLE x ({columns}) {clause} WITH (connector = 'kafka', {PLACE}, {options})"


def avro(options: str) -> str:
    return kafka(f"format = 'avro', {options}")


JSON = "format = 'json'"
SECURE = f"{JSON}, security_protocol = 'sasl_ssl'"
USER = "sasl_mechanism = 'PLAIN', username = 'u', password_variable = 'P'"
BAD = [
    Bad(
        f"CREATE TABLE x ({KEYED}) WITH (connector = 'kafka', topic = 't', {JSON})",
        "connector",
        "needs bootstrap_servers",
        "WITH",
    ),
    Bad(
        f"CREATE TABLE x ({KEYED}) WITH (connector = 'kafka', {PLACE})",
        "connector",
        "needs format",
        "format = 'json'",
    ),
    Bad(
        kafka(JSON).replace("'localhost:9092'", "'localhost'"),
        "bootstrap_servers",
        "no host with a port",
        "host:9092",
    ),
    Bad(kafka(JSON).replace("9092", "99999"), "bootstrap_servers", "no host with a port", "host:9092"),
    Bad(
        kafka(JSON).replace("'localhost", "'me:hunter2@localhost"),
        "bootstrap_servers",
        "holds a user or a password",
        "'***@localhost:9092'",
    ),
    Bad(kafka(JSON).replace("'t'", "'a b'"), "topic", "no name of a topic", "letters"),
    Bad(kafka("format = 'xml'"), "format", "'xml' is unknown", "json, debezium, avro"),
    Bad(kafka("format = 'protobuf'"), "format", "Protobuf is not read", "json, debezium, avro"),
    Bad(kafka(f"{JSON}, envelop = 'upsert'"), "envelop", "no option envelop", "did you mean envelope?"),
    Bad(kafka(f"{JSON}, envelope = 'debezium'"), "envelope", "is a format here", "format = 'debezium'"),
    Bad(kafka(f"{JSON}, envelope = 'x'"), "envelope", "'x' is unknown", "upsert"),
    Bad(kafka("format = 'debezium', envelope = 'upsert'"), "envelope", "says itself", "leave envelope out"),
    Bad(
        kafka(f"{JSON}, envelope = 'upsert'", "id BIGINT"),
        "envelope",
        "needs a PRIMARY KEY",
        "PRIMARY KEY (…)",
    ),
    Bad(kafka("format = 'debezium'", "id BIGINT"), "format", "needs a PRIMARY KEY", "PRIMARY KEY (…)"),
    Bad(
        kafka("format = 'debezium'", KEYED, "APPEND ONLY"),
        "format",
        "is APPEND ONLY",
        "leave APPEND ONLY out",
    ),
    Bad(kafka(f"{JSON}, key_format = 'text'"), "key_format", "is of envelope = 'upsert'", "key_column"),
    Bad(
        kafka(f"{JSON}, envelope = 'upsert', key_format = 'text'", "a INT, b INT, PRIMARY KEY (a, b)"),
        "key_format",
        "PRIMARY KEY has 2",
        "key of one column",
    ),
    Bad(kafka(f"{JSON}, schema_file = 'x.avsc'"), "schema_file", "is of Avro", "format = 'avro'"),
    Bad(kafka("format = 'avro'"), "format", "needs schema_registry, or schema_file", "schema_registry ="),
    Bad(avro("schema_file = 'nowhere.avsc'"), "schema_file", "there is no file", "correct schema_file"),
    Bad(avro("schema_file = '../x.avsc'"), "schema_file", "lies outside of", "a file of the project"),
    Bad(avro("schema_registry = 'ftp://h'"), "schema_registry", "is no address", "http://host:8081"),
    Bad(
        avro("schema_registry = 'http://u:p@h'"),
        "schema_registry",
        "holds a user or a password",
        "password_variable",
    ),
    Bad(
        avro("schema_registry = 'http://h', schema_file = 'x'"),
        "schema_file",
        "or from schema_file",
        "leave one",
    ),
    Bad(
        avro("schema_registry = 'http://h', schema_registry_username = 'u'"),
        "schema_registry_username",
        "goes with the other",
        "write all three",
    ),
    Bad(kafka(f"{JSON}, startup_mode = 'first'"), "startup_mode", "'first' is unknown", "earliest, latest"),
    Bad(
        kafka(f"{JSON}, startup_mode = 'timestamp'"),
        "startup_mode",
        "needs startup_timestamp",
        "add startup_timestamp",
    ),
    Bad(
        kafka(f"{JSON}, startup_mode = 'timestamp', startup_timestamp = '2026-01-01'"),
        "startup_timestamp",
        "no time with its offset from UTC",
        "+00:00",
    ),
    Bad(
        kafka(f"{JSON}, startup_offsets = '0:1'"),
        "startup_offsets",
        "is of startup_mode = 'offsets'",
        "leave startup",
    ),
    Bad(
        kafka(f"{JSON}, startup_mode = 'offsets', startup_offsets = '0:1, 0:2'"),
        "startup_offsets",
        "each partition once",
        "0:10, 1:20",
    ),
    Bad(kafka(f"{JSON}, on_lost = 'skip'"), "on_lost", "'skip' is unknown", "fail, earliest"),
    Bad(kafka(f"{JSON}, poll_messages = '0'"), "poll_messages", "no whole number above 0", "1000000"),
    Bad(kafka(f"{JSON}, security_protocol = 'tls'"), "security_protocol", "'tls' is unknown", "ssl"),
    Bad(kafka(f"{JSON}, username = 'u'"), "username", "means nothing", "sasl_ssl"),
    Bad(kafka(SECURE), "security_protocol", "needs sasl_mechanism", "add sasl_mechanism"),
    Bad(
        kafka(f"{SECURE}, {USER.replace('PLAIN', 'GSSAPI')}"),
        "sasl_mechanism",
        "'GSSAPI' is unknown",
        "SCRAM",
    ),
    Bad(
        kafka(f"{SECURE}, {USER}".replace("'P'", "'my password'")),
        "password_variable",
        "and no password",
        "SHOP",
    ),
    Bad(
        kafka(f"{JSON}, ssl_ca_file = 'ca.pem'"), "ssl_ca_file", "means nothing", "security_protocol = 'ssl'"
    ),
    Bad(
        kafka(f"{JSON}, security_protocol = 'ssl', ssl_ca_file = 'none.pem'"),
        "ssl_ca_file",
        "there is no file",
        "correct ssl_ca_file",
    ),
    Bad(
        kafka(f"{JSON}, security_protocol = 'ssl', ssl_key_file = 'none.pem'"),
        "ssl_key_file",
        "goes with its key",
        "both files, or neither",
    ),
    Bad(kafka(f"{JSON}, offset_column = 'o'"), "offset_column", "names no column", "o BIGINT"),
    Bad(kafka(f"{JSON}, offset_column = 'v'"), "offset_column", "column v is", "make it BIGINT"),
    Bad(
        kafka(f"{JSON}, offset_column = 'id', partition_column = 'id'"),
        "offset_column",
        "name one column",
        "a column of its own",
    ),
    Bad(
        kafka(f"{JSON}, envelope = 'upsert', offset_column = 'id'"),
        "offset_column",
        "is of the PRIMARY KEY",
        "another column",
    ),
    Bad(kafka(f"{JSON}, date_format = '%Q'"), "date_format", "can't be used", "strptime"),
    Bad(
        kafka(JSON, "id BIGINT, v BIGINT GENERATED ALWAYS AS (id + 1)"),
        "connector",
        "is generated",
        "in a view",
    ),
    Bad(
        kafka(JSON).replace("TABLE x", "SOURCE x").replace(" PRIMARY KEY", ""),
        "connector",
        "needs the rows that came before",
        "CREATE TABLE",
    ),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.at}: {bad.what}")
def test_an_option_that_cannot_work_is_told_at_its_place(bad: Bad, lake: Session, home: Path) -> None:
    with nothing_made(lake, home), pytest.raises(SqlError) as raised:
        lake.sql(bad.sql)
    message = str(raised.value)
    assert bad.what in message and bad.now in message, message
    assert raised.value.column == bad.sql.index(bad.at) + 1 or bad.at == "connector", message


def test_what_is_not_installed_is_told_with_its_extra(
    lake: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(client.importlib, "import_module", missing)
    with nothing_made(lake, home), pytest.raises(SqlError, match=r"pip install 'tideline\[kafka\]'"):
        lake.sql(kafka(JSON))


def test_offsets_and_moments_are_read() -> None:
    assert parse_offsets("0:10, 1 : 20") == {0: 10, 1: 20}
    assert parse_offsets("0") is None and parse_offsets("") is None
    assert parse_moment("1970-01-01 00:00:01.5+00:00") == 1500
    assert parse_moment("1970-01-01 01:00:00+01:00") == 0
    assert parse_moment("1970-01-01") is None


def test_settings_of_one_text_are_one_connection() -> None:
    options = {"bootstrap_servers": "a:1 , b:2", "topic": "t", "format": "json", "key_column": "k"}
    one, other = parse_settings(options), parse_settings(dict(options))
    assert one == other and hash(one) == hash(other) and one.servers == "a:1,b:2"
    assert one.metadata == {"key_column": "k"}
