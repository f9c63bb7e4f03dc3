"""A million messages come while the broker is killed, and a partition is added: each counts once, and bad ones are named."""

from __future__ import annotations

import importlib
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.kafka.broker import KafkaBroker
from engine.session import Session
from tests.connectors.kafka.server import Topic, start_broker
from tests.connectors.kafka.test_source import poll

pytestmark = [pytest.mark.kafka, pytest.mark.long]
MESSAGES = 1_000_000
PARTITIONS = 8
KILLED_AT = (300_000, 700_000)
ADDED_AT = 500_000
BAD = 100
"""Of so many messages one is bad."""
GROUPS = 1_000
MOST_SECONDS = 900


class Producer:
    """Writes all messages; its thread goes on over a broker that is away, and remembers where the bad ones stand."""

    def __init__(self, topic: Topic) -> None:
        kafka = importlib.import_module("confluent_kafka")
        settings = {"bootstrap.servers": topic.broker.address, "linger.ms": 20, "log_level": 0}
        settings |= {"enable.idempotence": True, "topic.metadata.refresh.interval.ms": 1_000}
        self.topic, self.client = topic, kafka.Producer(settings)
        self.partitions, self.written = PARTITIONS, 0
        self.bad: set[tuple[str, int]] = set()
        self.errors: list[str] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for number in range(MESSAGES):
                if number == ADDED_AT:
                    self._add_partition()
                self._put(number)
                self.written = number + 1
            assert self.client.flush(MOST_SECONDS) == 0
        except Exception as error:
            self.errors.append(repr(error))

    def _put(self, number: int) -> None:
        text = f'{{"id": {number}, "n": {number % GROUPS}'
        is_bad = number % BAD == BAD - 1
        text += "" if is_bad else "}"
        call = self._note if is_bad else self._check
        while True:
            try:
                self.client.produce(
                    self.topic.name, text, partition=number % self.partitions, on_delivery=call
                )
            except BufferError:
                self.client.poll(0.1)
                continue
            self.client.poll(0)
            return

    def _check(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))

    def _note(self, error: Any, message: Any) -> None:
        self._check(error, message)
        self.bad.add((f"{message.topic()}[{message.partition()}]", message.offset()))

    def _add_partition(self) -> None:
        self.topic.add_partitions(PARTITIONS + 1)
        self.topic.await_partitions(self.client, PARTITIONS + 1)
        self.partitions = PARTITIONS + 1


def follow(session: Session, producer: Producer, broker: KafkaBroker) -> int:
    """Poll and flush until all is taken, and kill the broker on the way; returns how many polls failed."""
    kills, failed, ends = list(KILLED_AT), 0, time.monotonic() + MOST_SECONDS
    while True:
        is_last = not producer.thread.is_alive()
        if kills and producer.written > kills[0]:
            kills.pop(0)
            broker.kill()
            failed += poll(session).error is not None
            broker.start()
        report = poll(session)
        failed += report.error is not None
        session.flush().raise_for_all()
        if is_last and report.error is None and report.epoch is None:
            assert not kills
            return failed
        assert time.monotonic() < ends, report


def test_a_million_messages_count_once(lake: Session, tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "broker")
    if isinstance(broker, str):
        pytest.skip(broker)
    try:
        topic = Topic(broker, "many")
        topic.make(PARTITIONS)
        lake.sql(f"CREATE TABLE t (id BIGINT, n BIGINT) WITH ({topic.options()})")
        lake.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, sum(id) AS ids, max(id) AS most FROM t GROUP BY n"
        )
        producer = Producer(topic)
        producer.thread.start()
        failed = follow(lake, producer, broker)
        producer.thread.join()
    finally:
        broker.kill()
    assert producer.errors == [] and failed >= len(KILLED_AT)
    good = [number for number in range(MESSAGES) if number % BAD != BAD - 1]
    counts = Counter(number % GROUPS for number in good)
    ids = Counter[int]()
    for number in good:
        ids[number % GROUPS] += number
    found = lake.sql("SELECT n, c, ids, most FROM v").to_pylist()
    assert {row["n"]: (row["c"], row["ids"]) for row in found} == {n: (counts[n], ids[n]) for n in counts}
    assert {row["most"] for row in found} == set(good[-len(counts) :])
    letters = lake.sql("SELECT file, line FROM _dead_letter").to_pylist()
    places = [(row["file"], row["line"]) for row in letters]
    assert len(places) == len(producer.bad) == MESSAGES // BAD and set(places) == producer.bad
    assert {name for name, _ in places} >= {f"many[{PARTITIONS}]"}
