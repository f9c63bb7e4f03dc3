"""What following a topic of Kafka costs: a first load beside a consumer that only consumes, in messages a second.

python -m benchmarks.kafka --messages 500000
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
import uuid
from pathlib import Path

from engine.connectors.kafka.broker import KafkaBroker
from engine.connectors.sources import poll_all
from engine.session import Session

WAIT_SECONDS = 60.0
COLUMNS = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"


def write_messages(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write objects of about 100 bytes to one partition."""
    kafka, admin = (
        importlib.import_module("confluent_kafka"),
        importlib.import_module("confluent_kafka.admin"),
    )
    client = admin.AdminClient({"bootstrap.servers": broker.address})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(WAIT_SECONDS)
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
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
