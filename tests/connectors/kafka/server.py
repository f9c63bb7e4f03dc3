"""A broker of the tests' own, started when a test first asks for it, and what tests write to it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.kafka.broker import KafkaBroker
from engine.errors import EnvironmentNotReady

PASSWORD_VARIABLE = "TIDELINE_TESTS_KAFKA_PASSWORD"
PASSWORD = "no-secret-of-anybody"
USER = "reader"
SECONDS = 30
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
)
Message = tuple[Any, ...]
"""What is written: key, value, and where told the partition, the headers, and the time in milliseconds."""


@dataclass(frozen=True)
class Topic:
    """A topic of a broker, and the options of a table that follows it."""

    broker: KafkaBroker
    name: str

    def options(self, **more: str) -> str:
        """Return the WITH clause of a table; the format is JSON if nothing else is said."""
        texts = {
            "connector": "kafka",
            "bootstrap_servers": self.broker.address,
            "topic": self.name,
            "format": "json",
            **more,
        }
        return ", ".join(f"{name} = '{value}'" for name, value in texts.items())

    def write(self, *messages: Message, partition: int = 0, **settings: str) -> None:
        """Write messages, each a key and a value, to one partition, and wait until they stand."""
        producer = open_producer(self.broker, **settings)
        for message in messages:
            put(producer, self.name, message, partition)
        flush(producer)

    def write_json(self, *rows: Mapping[str, Any], partition: int = 0) -> None:
        """Write rows as objects of JSON, without keys."""
        self.write(*((None, json.dumps(row)) for row in rows), partition=partition)

    def write_transaction(
        self, messages: Iterable[Message], *, commit: bool = True, partition: int = 0
    ) -> None:
        """Write messages in one transaction, which is committed or aborted."""
        producer = open_producer(self.broker, **{"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for message in messages:
            put(producer, self.name, message, partition)
        flush(producer)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)

    def add_partitions(self, count: int) -> None:
        """Give the topic so many partitions."""
        admin = importlib.import_module("confluent_kafka.admin")
        client = open_admin(self.broker)  # which ends what is asked when it goes
        asked = client.create_partitions([admin.NewPartitions(self.name, count)])
        asked[self.name].result(SECONDS)

    def remove_before(self, offset: int, partition: int = 0) -> None:
        """Remove what stands before an offset, as retention does."""
        kafka = importlib.import_module("confluent_kafka")
        client = open_admin(self.broker)
        asked = client.delete_records([kafka.TopicPartition(self.name, partition, offset)])
        for future in asked.values():
            future.result(SECONDS)

    def remove(self) -> None:
        """Delete the topic, and wait until it is gone."""
        admin = open_admin(self.broker)
        admin.delete_topics([self.name])[self.name].result(SECONDS)
        ends = time.monotonic() + SECONDS
        while self.name in admin.list_topics(timeout=SECONDS).topics:
            assert time.monotonic() < ends, "the topic does not go"
            time.sleep(0.1)

    def make(self, partitions: int = 1, **settings: str) -> None:
        """Make the topic, and wait until it has leaders."""
        admin = importlib.import_module("confluent_kafka.admin")
        client = open_admin(self.broker)
        asked = client.create_topics([admin.NewTopic(self.name, partitions, 1, config=settings)])
        asked[self.name].result(SECONDS)
        self.await_partitions(client, partitions)

    def await_partitions(self, client: Any, count: int) -> None:
        """Wait until a client knows the topic with so many partitions, each with a leader."""
        ends = time.monotonic() + SECONDS
        while True:
            found = client.list_topics(timeout=SECONDS).topics.get(self.name)
            parts = [] if found is None else list(found.partitions.values())
            if len(parts) == count and all(one.leader >= 0 for one in parts):
                return
            assert time.monotonic() < ends, "the topic gets no leaders"
            time.sleep(0.1)


def open_producer(broker: KafkaBroker, **settings: str) -> Any:
    """Return a producer."""
    kafka = importlib.import_module("confluent_kafka")
    return kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 5, "log_level": 0, **settings})


def open_admin(broker: KafkaBroker) -> Any:
    """Return what makes and removes topics."""
    admin = importlib.import_module("confluent_kafka.admin")
    return admin.AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def put(producer: Any, topic: str, message: Message, partition: int) -> None:
    """Hand one message to a producer."""
    key, value, *more = message
    where = more[0] if more else partition
    headers = more[1] if len(more) > 1 else None
    time_ms = more[2] if len(more) > 2 else 0
    while True:
        try:
            producer.produce(topic, value, key, where, headers=headers, timestamp=time_ms)
        except BufferError:
            producer.poll(0.1)
            continue
        producer.poll(0)
        return


def flush(producer: Any) -> None:
    """Wait until the broker has all that was handed over."""
    assert producer.flush(SECONDS) == 0, "the broker does not take messages"


def start_broker(folder: Path) -> KafkaBroker | str:
    """Start a broker in a folder; returns why there can be none where that is so."""
    if importlib.util.find_spec("confluent_kafka") is None:
        return "confluent-kafka is not installed: `make kafka` does it"
    plain = {
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": _JAAS,
    }
    broker = KafkaBroker(folder, listeners={"SASL": "SASL_PLAINTEXT"}, settings=plain)
    try:
        broker.start()
    except EnvironmentNotReady as error:
        return str(error)
    os.environ[PASSWORD_VARIABLE] = PASSWORD
    return broker


@functools.cache
def _start() -> KafkaBroker | str:
    """Return the broker of this process, or why there is none."""
    return start_broker(Path(tempfile.mkdtemp(prefix="tideline-kafka-")))


def stop_broker() -> None:
    """Stop the broker of this process, if one was started."""
    found = _start() if _start.cache_info().currsize else ""
    if isinstance(found, KafkaBroker):
        found.kill()
        shutil.rmtree(found.folder, ignore_errors=True)


def get_broker() -> KafkaBroker:
    """Return the broker of this process; skips the test that asks where there can be none."""
    found = _start()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def make_topic(partitions: int = 1, **settings: str) -> Topic:
    """Return a topic of the broker of this process, which is empty."""
    topic = Topic(get_broker(), f"t_{uuid.uuid4().hex[:12]}")
    topic.make(partitions, **settings)
    return topic
