"""Records of Avro become columns of the types that their schemas say, from a file or from a registry."""

from __future__ import annotations

import datetime
import decimal
import http.server
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.kafka.avro import AvroReader, NotAvro, SchemaRegistry, parse_schema
from engine.connectors.kafka.decoding import MessageDecoder, Messages
from engine.connectors.kafka.settings import AvroSettings, parse_settings
from engine.errors import SourceError

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed: `make kafka` does it")
PLAIN = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "paid",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "raw", "type": "bytes"},
    ],
}
ROW = {
    "id": 1,
    "paid": decimal.Decimal("12.34"),
    "day": datetime.date(2026, 1, 2),
    "at": datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
    "tags": ["a", "b"],
    "raw": b"\xff",
}


def encode(schema: Any, value: Any, number: int | None = None) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    head = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return head + file.getvalue()


def test_a_record_has_the_types_of_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(PLAIN))
    reader = AvroReader(AvroSettings(schema_file=str(path)))
    good = encode(PLAIN, ROW)
    rows = reader.read_rows(
        [good, b"\1", good + b"x"], [7, 8, 9], FileOptions(columns=frozenset(PLAIN_NAMES))
    )
    kinds = {name: column.type for name, column in rows.columns.items()}
    assert kinds == {
        "id": pa.int64(),
        "paid": pa.decimal128(9, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.string(),
        "raw": pa.binary(),
    }
    found = {name: pa.chunked_array([column]).to_pylist()[0] for name, column in rows.columns.items()}
    assert found == {**ROW, "tags": '["a", "b"]'}
    assert [one.line for one in rows.bad] == [8, 9] and "1 bytes follow it" in rows.bad[1].reason


PLAIN_NAMES = [field["name"] for field in PLAIN["fields"]]  # type: ignore[index]


def test_what_is_no_schema_is_told() -> None:
    with pytest.raises(NotAvro, match="no schema of Avro"):
        parse_schema('{"type": "recor"}')


class Registry(http.server.BaseHTTPRequestHandler):
    """Answers as a registry does."""

    schemas: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        found = self.schemas.get(self.path)
        if isinstance(found, str):
            self.send_response(302)
            self.send_header("Location", found)
            self.end_headers()
            return
        self.send_response(200 if found is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry on loopback: two versions of a record, a key, and a schema that is none of Avro."""
    older = {"type": "record", "name": "o", "fields": [{"name": "v", "type": "string"}]}
    newer = {
        "type": "record",
        "name": "o",
        "fields": [{"name": "v", "type": "int"}, {"name": "n", "type": "base"}],
    }
    base = {"type": "enum", "name": "base", "symbols": ["A", "B"]}
    Registry.schemas = {
        "/schemas/ids/1": {"schema": json.dumps(older)},
        "/schemas/ids/2": {
            "schema": json.dumps(newer),
            "references": [{"name": "base", "subject": "b", "version": 1}],
        },
        "/subjects/b/versions/1": {"schema": json.dumps(base)},
        "/schemas/ids/3": {"schema": '"long"'},
        "/schemas/ids/4": {"schema": "message x {}", "schemaType": "PROTOBUF"},
        "/schemas/ids/6": "/schemas/ids/1",
        "/schemas/ids/7": {"title": "a web page"},
        "/schemas/ids/8": {
            "schema": '"bad"',
            "references": [{"name": "bad", "subject": "bad", "version": 1}],
        },
        "/subjects/bad/versions/1": {"schema": '{"type": "recor"}'},
    }
    server = http.server.HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_each_message_names_its_schema(registry: str) -> None:
    options = {
        "bootstrap_servers": "h:1",
        "topic": "t",
        "format": "avro",
        "envelope": "upsert",
        "schema_registry": registry,
    }
    decoder = MessageDecoder(parse_settings(options), ReadLimits(), frozenset({"v", "n"}), ("id",))
    older = {"type": "record", "name": "o", "fields": [{"name": "v", "type": "string"}]}
    newer = [
        {"name": "v", "type": "int"},
        {"name": "n", "type": {"type": "enum", "name": "base", "symbols": ["A", "B"]}},
    ]
    values = [
        encode(older, {"v": "a"}, 1),
        None,
        encode({"type": "record", "name": "o", "fields": newer}, {"v": 5, "n": "B"}, 2),
        b"\0\0\0\0\4x",
        b"\0\0\0\0\5x",
        b"{}",
    ]
    keys = [encode("long", at, 3) for at in range(len(values))]
    parts = list(decoder.decode(Messages(0, list(range(len(values))), values, keys)))
    found = [{name: pa.chunked_array([c]).to_pylist() for name, c in part.columns.items()} for part in parts]
    assert [(one["id"], one.get("v")) for one in found if one["id"]] == [([0, 1], ["a", None]), ([2], [5])]
    assert found[1]["n"] == ["B"]
    reasons = {bad.line: bad.reason for part in parts for bad in part.bad}
    assert reasons[3] == "schema 4 of the registry is of PROTOBUF, and no Avro"
    assert reasons[4] == "the registry has no schema 5"
    assert reasons[5].startswith("not Avro of a registry")


def test_a_registry_that_does_not_answer_is_told_and_says_nothing_of_messages() -> None:
    with pytest.raises(SourceError, match="does not answer"):
        SchemaRegistry(AvroSettings(registry="http://127.0.0.1:1")).find_schema(1)


def test_a_registry_is_followed_nowhere_else_and_what_is_no_schema_is_told(registry: str) -> None:
    """A redirection would take the password along."""
    asked = SchemaRegistry(AvroSettings(registry=registry))
    with pytest.raises(SourceError, match="answers 302"):
        asked.find_schema(6)
    with pytest.raises(SourceError, match="without a schema"):
        asked.find_schema(7)
    with pytest.raises(NotAvro, match="schema 8 of the registry is no schema of Avro"):
        asked.find_schema(8)


@pytest.mark.parametrize(
    "within", ["{}", '{{"type": "array", "items": {}}}', '{{"type": "map", "values": {}}}']
)
def test_a_type_that_holds_itself_is_read_as_deep_as_can_be(within: str) -> None:
    """What is deeper is set aside: it ends no process."""
    inner = within.format('["null", "x.r"]')
    text = f'{{"type": "record", "name": "r", "namespace": "x", "fields": [{{"name": "next", "type": {inner}}}]}}'
    schema = parse_schema(text)
    assert schema.is_endless and not parse_schema(json.dumps(PLAIN)).is_endless
    if within != "{}":
        return
    value = schema.read_value(b"\2" * 50 + b"\0")
    (told,) = schema.columns["next"].build([value["next"]]).to_pylist()
    assert told == '{"next": ' * 50 + "null" + "}" * 50
    with pytest.raises(NotAvro, match="recursion"):
        schema.read_value(b"\2" * 100_000 + b"\0")
