"""What messages of a topic look like that the benchmark of Kafka reads: the same rows in each form, and then changes of them."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"
KEYED = COLUMNS.replace("BIGINT", "BIGINT PRIMARY KEY", 1)
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "customer",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
BEGIN_MICROSECONDS = 1_767_261_600_000_000
Message = tuple[bytes | None, bytes]
"""Key and value."""
Builder = Callable[[dict[str, Any], int, bool], Message]


@dataclass(frozen=True)
class Form:
    """A form of messages: `topic` is theirs, `options` and `columns` those of a table that follows it."""

    name: str
    topic: str
    columns: str
    options: str


def list_forms(folder: Path) -> list[Form]:
    """Return the forms that are measured; a file of Avro's schema is written to a folder."""
    schema = folder / "customer.avsc"
    schema.write_text(json.dumps(SCHEMA))
    return [
        Form("json, no key", "json", COLUMNS, "format = 'json'"),
        Form("json, PRIMARY KEY", "json", KEYED, "format = 'json'"),
        Form("json, upsert", "upsert", KEYED, "format = 'json', envelope = 'upsert'"),
        Form("debezium", "debezium", KEYED, "format = 'debezium'"),
        Form("avro, no key", "avro", COLUMNS, f"format = 'avro', schema_file = '{schema}'"),
    ]


def make_messages(topic: str, count: int, changes: int) -> Iterator[Message]:
    """Yield messages of about 100 bytes: so many rows, and so many changes of the first ones."""
    build = _open_avro() if topic == "avro" else _BUILDERS[topic]
    for number in range(count + changes):
        n, is_new = number % count, number < count
        row = {"id": n, "name": f"customer {n * 7919 % 1_000_003}", "price": number % 10_000 / 4}
        yield build(row, n, is_new)


def _to_object(row: dict[str, Any], n: int) -> dict[str, Any]:
    return {**row, "at": f"2026-01-01T10:{n % 60:02}:00Z"}


def _build_json(row: dict[str, Any], n: int, is_new: bool) -> Message:
    return None, json.dumps(_to_object(row, n)).encode()


def _build_upsert(row: dict[str, Any], n: int, is_new: bool) -> Message:
    return b'{"id":%d}' % n, json.dumps(_to_object(row, n)).encode()


def _build_debezium(row: dict[str, Any], n: int, is_new: bool) -> Message:
    after = _to_object(row, n)
    before = None if is_new else {**after, "price": n % 10_000 / 4}
    change = {"before": before, "after": after, "op": "c" if is_new else "u", "ts_ms": 1}
    return b'{"id":%d}' % n, json.dumps(change).encode()


def _open_avro() -> Builder:
    fastavro = importlib.import_module("fastavro")
    schema = fastavro.parse_schema(SCHEMA)

    def build(row: dict[str, Any], n: int, is_new: bool) -> Message:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {**row, "at": BEGIN_MICROSECONDS + n % 60 * 60_000_000})
        return None, out.getvalue()

    return build


_BUILDERS: Mapping[str, Builder] = {
    "json": _build_json,
    "upsert": _build_upsert,
    "debezium": _build_debezium,
}
