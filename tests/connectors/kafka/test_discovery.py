"""What a real broker holds is discovered: the statements bring the messages."""

from __future__ import annotations

import json

import pytest

from engine.connectors.contract.discovery import FoundTable
from engine.connectors.discovery import discover_tables
from engine.session import Session
from tests.connectors.kafka.server import Topic, make_topic

pytestmark = pytest.mark.kafka


def find(topic: Topic, **options: str) -> FoundTable:
    """Return what a topic could be followed as."""
    place = f"kafka://{topic.broker.address}/{topic.name}"
    (found,) = discover_tables(place, options)
    return found


def test_objects_become_rows(lake: Session) -> None:
    topic = make_topic(2)
    topic.write_json({"id": 1, "who": {"name": "a"}, "at": None})
    topic.write_json({"id": 2, "who": {"name": "b"}}, partition=1)
    found = find(topic)
    assert {one.name: one.type for one in found.columns} == {
        "id": "bigint", "who": "struct<name:string>", "at": "string",
    }  # fmt: skip
    assert not found.key and "2 partitions hold about 2 messages" in found.notes[0]
    lake.sql(found.format_statement())
    assert not [one.error for one in lake.poll() if one.error]
    assert lake.sql(f"SELECT count(*) AS n FROM {found.name}").to_pylist() == [{"n": 2}]


def test_changes_and_deletions_get_the_key_of_the_messages() -> None:
    topic = make_topic()
    topic.write((b'{"id": 1}', b'{"id": 1, "v": "a"}'), (b'{"id": 1}', None))
    found = find(topic)
    assert found.options["envelope"] == "upsert" and found.key == ("id",)
    debezium = make_topic()
    change = {"payload": {"op": "c", "before": None, "after": {"id": 1, "v": "a"}}}
    debezium.write((b'{"payload": {"id": 1}}', json.dumps(change).encode()))
    found = find(debezium)
    assert found.options["format"] == "debezium" and found.key == ("id",)
    assert [one.name for one in found.columns] == ["id", "v"]


def test_what_says_nothing_of_its_columns_is_told() -> None:
    empty, odd = make_topic(), make_topic()
    odd.write((None, b"\0\0\0\0\1x"))
    assert "holds no message" in find(empty).needs[0]
    assert "Avro of a schema registry" in find(odd).needs[0]


def test_all_topics_are_listed_but_the_brokers_own(topic: Topic) -> None:
    topic.write_json({"id": 1})
    found = {one.path for one in discover_tables(f"kafka://{topic.broker.address}", {})}
    assert topic.name in found and not [name for name in found if name.startswith("__")]
