"""What following a topic of Kafka, and writing to one, costs: beside a consumer and a producer that do nothing else.

python -m benchmarks.kafka --messages 500000

The first rows of a sink and the bare producer write the same objects, in transactions of the same size, in turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.postgres_sink import deliver
from engine.connectors.kafka.broker import KafkaBroker
from engine.connectors.sources import poll_all
from engine.session import Session

WAIT_SECONDS = 60.0
ROUNDS = 3
EPOCHS = 200
TRANSACTION_ROWS = 100_000
COLUMNS = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"


def write_messages(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write objects of about 100 bytes to one partition."""
    kafka = importlib.import_module("confluent_kafka")
    make_topic(broker, topic)
    producer = kafka.Producer(
        {"bootstrap.servers": broker.address, "linger.ms": 20, "compression.type": "lz4"}
    )
    for n in range(count):
        row = {"id": n, "name": f"customer {n * 7919 % 1_000_003}", "price": n % 10_000 / 4}
        text = json.dumps({**row, "at": f"2026-01-01T10:{n % 60:02}:00Z"})
        while True:
            try:
                producer.produce(topic, text)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(WAIT_SECONDS) == 0


def make_topic(broker: KafkaBroker, topic: str) -> None:
    """Make a topic of one partition."""
    admin = importlib.import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": broker.address})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(WAIT_SECONDS)


def make_rows(count: int) -> pa.Table:
    """Return rows that are about 100 bytes as an object."""
    ids = np.arange(count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"customer {n * 7919 % 1_000_003}" for n in range(count)]),
            "price": pa.array(ids % 10_000 / 4),
            "at": pa.array(ids * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


def produce_messages(broker: KafkaBroker, topic: str, messages: list[tuple[bytes, bytes]]) -> float:
    """Return the seconds in which a transactional producer writes objects that are ready, under their keys."""
    kafka = importlib.import_module("confluent_kafka")
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.address,
        "transactional.id": topic,
        "linger.ms": 5,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 200_000,
    }
    started = time.perf_counter()
    producer = kafka.Producer(settings)
    producer.init_transactions(WAIT_SECONDS)
    for first in range(0, len(messages), TRANSACTION_ROWS):
        producer.begin_transaction()
        for key, value in messages[first : first + TRANSACTION_ROWS]:
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.commit_transaction(WAIT_SECONDS)
    return time.perf_counter() - started


def measure_sink(broker: KafkaBroker, count: int) -> None:
    """Print what a sink brings beside a bare producer, and how long an epoch takes."""
    rows = make_rows(count)
    texts = [json.dumps({**row, "at": row["at"].isoformat()}).encode() for row in rows.to_pylist()]
    messages = [(b'{"id":%d}' % n, text) for n, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder).as_uri()) as session:
        session.sql(f"CREATE TABLE t ({COLUMNS.replace('BIGINT', 'BIGINT PRIMARY KEY', 1)})")
        session.write("t", rows)
        took: dict[str, list[float]] = {"sink": [], "producer": []}
        for number in range(ROUNDS):
            for topic in (f"s{number}", f"p{number}"):
                make_topic(broker, topic)
            options = f"connector = 'kafka', bootstrap_servers = '{broker.address}', topic = 's{number}', envelope = 'upsert'"
            if number:
                session.sql(f"DROP SINK s{number - 1}")
            session.sql(f"CREATE SINK s{number} FROM t WITH ({options})", build=False)
            took["sink"].append(deliver(session))
            took["producer"].append(produce_messages(broker, f"p{number}", messages))
        sink, bare = (statistics.median(took[kind]) for kind in ("sink", "producer"))
        print(f"a producer alone: {count / bare:,.0f} messages/s")
        print(f"first rows by a sink: {count / sink:,.0f} rows/s, {bare / sink:.2f} of the producer")
        for number in range(EPOCHS):
            session.write(
                "t", rows.slice(number * 10, 10).set_column(2, "price", pa.array([number + 0.5] * 10))
            )
        print(f"an epoch of ten changes: {deliver(session) / EPOCHS * 1000:.1f} ms")


def consume_messages(broker: KafkaBroker, topic: str, count: int) -> float:
    """Return the seconds of a consumer that takes all messages and does nothing with them."""
    kafka = importlib.import_module("confluent_kafka")
    consumer = kafka.Consumer({"bootstrap.servers": broker.address, "group.id": uuid.uuid4().hex})
    started, taken = time.perf_counter(), 0
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    while taken < count:
        taken += len([message.value() for message in consumer.consume(min(10_000, count - taken), 1.0)])
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def load_table(broker: KafkaBroker, topic: str, count: int, columns: str) -> float:
    """Return the seconds in which a new table takes all messages."""
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder).as_uri()) as session:
        options = (
            f"connector = 'kafka', bootstrap_servers = '{broker.address}', topic = '{topic}', format = 'json'"
        )
        session.sql(f"CREATE TABLE t ({columns}) WITH ({options}, poll_messages = '{count}')")
        (report,) = poll_all(session.catalog, session.store)
        assert (report.rows, report.error) == (count, None), report
        return report.seconds


def main() -> None:
    """Print messages a second, and how a table compares with a bare consumer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    count = parser.parse_args().messages
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder))
        broker.start()
        try:
            write_messages(broker, "t", count)
            bare = min(consume_messages(broker, "t", count) for _ in range(3))
            print(f"a consumer alone: {count / bare:,.0f} messages/s")
            keyed = COLUMNS.replace("BIGINT", "BIGINT PRIMARY KEY", 1)
            for what, columns in (("without a key", COLUMNS), ("with a PRIMARY KEY", keyed)):
                seconds = load_table(broker, "t", count, columns)
                print(
                    f"a table {what}: {count / seconds:,.0f} messages/s, {bare / seconds:.2f} of the consumer"
                )
            measure_sink(broker, count)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
