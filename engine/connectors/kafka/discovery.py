"""Topics that could be followed: their columns by the newest messages of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from engine.connectors.contract.discovery import (
    FoundTable,
    guess_key,
    keep_columns,
    to_found_columns,
    to_table_name,
)
from engine.connectors.formats.inference import infer_json_schema
from engine.connectors.kafka.client import KafkaClient
from engine.connectors.kafka.settings import CONNECTOR, OPTIONS, parse_settings, validate_options
from engine.errors import SourceError

SAMPLE_MESSAGES = 200
"""So many of the newest messages of a partition are looked at."""
_LIKE = "kafka://host:9092, and what security needs as --with security_protocol=…"


def discover_tables(place: str, given: Mapping[str, str]) -> Iterator[FoundTable]:
    """Yield the topics that brokers have, by an address as `kafka://host:9092,other:9092`; a topic may stand behind a slash."""
    address = place.partition("://")[2]
    if "@" in address or "?" in address:  # it is not shown, as it may hold a password
        raise SourceError(
            "who connects, and how, has no place in an address, where others see it: add --with username=…, --with "
            "password_variable=NAME and so on"
        )
    servers, _, only = address.partition("/")
    for name in given:
        if name not in OPTIONS or name in ("connector", "topic", "bootstrap_servers"):
            raise SourceError(f"option {name} is unknown: the address names brokers and topic; {_LIKE}")
    options = {
        "connector": CONNECTOR,
        "bootstrap_servers": servers,
        "topic": only or "found",
        "format": "json",
        **given,
    }
    wrong = validate_options(options)
    if wrong is not None:
        raise SourceError(f"{wrong.message}: {wrong.hint if wrong.option in given else f'write {_LIKE}'}")
    topics = [only] if only else KafkaClient(parse_settings(options)).list_topics()
    for topic in topics:
        own = options | {"topic": topic}
        try:
            yield _describe(topic, own, given)
        except SourceError as error:
            if only:
                raise
            yield FoundTable(to_table_name(topic), topic, (), (), own, (str(error),))


def _describe(topic: str, options: dict[str, str], given: Mapping[str, str]) -> FoundTable:
    settings = parse_settings(options)
    client = KafkaClient(settings)
    state = client.look_at_topic()
    held = sum(span.end - span.begin for span in state.partitions.values())
    table = FoundTable(to_table_name(topic), topic, (), (), options)
    table = replace(table, notes=(f"{len(state.partitions)} partitions hold about {held:,} messages",))
    messages = list[Any]()
    with client.open_reader() as reader:
        for partition, span in state.partitions.items():
            begin = max(span.begin, span.end - SAMPLE_MESSAGES)
            if begin < span.end:
                messages += reader.read(partition, begin, span.end, SAMPLE_MESSAGES).messages
    values = [value for one in messages if (value := one.value()) is not None]
    if not values:
        return replace(table, needs=("it holds no message by which its columns could be known: list them",))
    if "format" in given:
        return replace(table, needs=("list its columns: what they are is read of messages in JSON alone",))
    try:
        schema, is_debezium = infer_json_schema(values)
    except (ValueError, pa.ArrowException) as error:
        kind = "Avro of a schema registry" if all(value[:1] == b"\0" for value in values) else "no JSON"
        why = f"its messages are {kind} ({error}): add --with format=avro --with schema_registry=… if they are Avro"
        return replace(table, needs=(why,))
    kept, notes = keep_columns(to_found_columns(schema))
    table = replace(table, columns=kept, notes=(*table.notes, *notes))
    names = [column.name for column in kept]
    keys = _find_key([one.key() for one in messages], names)
    if is_debezium:
        table = replace(table, options=options | {"format": "debezium"})
        return replace(table, key=keys) if keys else guess_key(table)
    if len(values) < len(messages) and keys:
        return replace(table, key=keys, options=options | {"envelope": "upsert"})
    return replace(table, key_note="every message is a row; with a PRIMARY KEY the last one of a key counts")


def _find_key(keys: Sequence[bytes | None], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that all keys of messages name, as objects of JSON, nothing if they are none."""
    found = set[tuple[str, ...]]()
    for key in keys:
        try:
            value = json.loads(key or b"null")
        except (ValueError, RecursionError):
            return ()
        inner = value.get("payload", value) if isinstance(value, dict) else value
        found.add(tuple(inner) if isinstance(inner, dict) else ())
    named = tuple(name.lower() for name in next(iter(found))) if len(found) == 1 else ()
    return named if set(named) <= set(columns) else ()
