"""What a reader of committed transactions finds in a topic, and the check that it saw each epoch whole and once."""

from __future__ import annotations

import importlib
import json
import time
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.connectors.kafka.server import SECONDS, Topic


class Seen(NamedTuple):
    """A message as a consumer has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]

    @property
    def epoch(self) -> int:
        """The epoch in its header."""
        return int(self.headers["tideline.epoch"])


def read_committed(topic: Topic) -> list[Seen]:
    """Return all messages of committed transactions, partition by partition."""
    kafka = importlib.import_module("confluent_kafka")
    settings = {
        "bootstrap.servers": topic.broker.address,
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = kafka.Consumer(settings)
    try:
        numbers = consumer.list_topics(topic.name, timeout=SECONDS).topics[topic.name].partitions
        consumer.assign(
            [kafka.TopicPartition(topic.name, number, kafka.OFFSET_BEGINNING) for number in numbers]
        )
        found: list[Seen] = []
        ended, ends = set[int](), time.monotonic() + SECONDS
        while len(ended) < len(numbers):
            assert time.monotonic() < ends, "the topic has no end"
            for message in consumer.consume(10_000, 0.2):
                if message.error() is not None:
                    assert message.error().code() == kafka.KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                else:
                    found.append(_see(message))
    finally:
        consumer.close()
    return sorted(found, key=lambda one: (one.partition, one.offset))


def _see(message: Any) -> Seen:
    headers = dict(message.headers() or ())
    return Seen(message.partition(), message.offset(), message.key(), message.value(), headers)


def check_epochs(messages: Iterable[Seen]) -> dict[int, str]:
    """Return the rows (id, v) that upserts leave; fails where a change came twice, or an epoch came behind a later one."""
    rows: dict[int, str] = {}
    seen = set[tuple[int, int]]()
    last: dict[int, int] = {}
    where: dict[int, int] = {}
    for one in messages:
        key = json.loads(one.key or b"")["id"]
        assert (key, one.epoch) not in seen, f"{key} came twice in epoch {one.epoch}"
        seen.add((key, one.epoch))
        assert one.epoch >= last.get(one.partition, 0), "an epoch comes behind a later one"
        last[one.partition] = one.epoch
        assert where.setdefault(key, one.partition) == one.partition, f"{key} is in two partitions"
        if one.value is None:
            assert key in rows, f"{key} was deleted twice"
            del rows[key]
        else:
            row = json.loads(one.value)
            assert rows.get(key) != row["v"], f"{key} was written twice"
            rows[key] = row["v"]
    return rows
