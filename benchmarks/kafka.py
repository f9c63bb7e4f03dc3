"""What following a topic of Kafka, and writing to one, costs: beside a consumer and a producer that do nothing else.

python -m benchmarks.kafka --messages 500000

Beside each form of messages stands a consumer as the library has it, which waits a second at times before it fetches more, and
one that is refilled at once. Changes are polled behind the first messages. The first rows of a sink and the bare producer write
the same objects, in transactions of the same size, in turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kafka_forms import KEYED, Form, Message, list_forms, make_messages
from benchmarks.postgres_sink import deliver
from engine.connectors.kafka.broker import KafkaBroker
from engine.connectors.sources import poll_all
from engine.session import Session

WAIT_SECONDS = 60.0
ROUNDS = 3
EPOCHS = 200
TRANSACTION_ROWS = 100_000
REFILLED = {"fetch.queue.backoff.ms": 5}


def write_messages(broker: KafkaBroker, topic: str, messages: Iterable[Message]) -> None:
    """Write messages to one partition."""
    kafka = importlib.import_module("confluent_kafka")
    make_topic(broker, topic)
    producer = kafka.Producer(
        {"bootstrap.servers": broker.address, "linger.ms": 20, "compression.type": "lz4"}
    )
    for key, value in messages:
        while True:
            try:
                producer.produce(topic, value, key)
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
        session.sql(f"CREATE TABLE t ({KEYED})")
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


def consume_messages(broker: KafkaBroker, topic: str, count: int, **settings: Any) -> float:
    """Return the seconds of a consumer that takes messages and does nothing with them."""
    kafka = importlib.import_module("confluent_kafka")
    consumer = kafka.Consumer({"bootstrap.servers": broker.address, "group.id": uuid.uuid4().hex, **settings})
    started, taken = time.perf_counter(), 0
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    while taken < count:
        taken += len([message.value() for message in consumer.consume(min(10_000, count - taken), 1.0)])
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def load_table(broker: KafkaBroker, form: Form, count: int, changes: int) -> tuple[float, float]:
    """Return the seconds in which a new table takes its first messages, and then those behind them."""
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder).as_uri()) as session:
        options = f"connector = 'kafka', bootstrap_servers = '{broker.address}', topic = '{form.topic}'"
        session.sql(
            f"CREATE TABLE t ({form.columns}) WITH ({options}, {form.options}, poll_messages = '{count}')"
        )
        seconds = []
        for expected in (count, changes):
            (report,) = poll_all(session.catalog, session.store)
            assert (report.rows, report.dead_rows, report.error) == (expected, 0, None), report
            seconds.append(report.seconds)
        return seconds[0], seconds[1]


def measure_source(broker: KafkaBroker, folder: Path, count: int) -> None:
    """Print how fast tables take messages, and beside it consumers that do nothing with them, in turns; medians."""
    forms, changes = list_forms(folder), max(count // 5, 1)
    for topic in dict.fromkeys(form.topic for form in forms):
        write_messages(broker, topic, make_messages(topic, count, changes))
    title = ("form", "consumer", "refilled", "table", "of consumer", "of refilled", "changes")
    line = "{:18}{:>10}{:>10}{:>10}{:>13}{:>13}{:>10}"
    print(line.format(*title))
    for form in forms:
        took = []
        for _ in range(ROUNDS):
            bare = consume_messages(broker, form.topic, count)
            refilled = consume_messages(broker, form.topic, count, **REFILLED)
            took.append((bare, refilled, *load_table(broker, form, count, changes)))
        bare, refilled, first, then = map(statistics.median, zip(*took, strict=True))
        speeds = [f"{count / seconds:,.0f}" for seconds in (bare, refilled, first)]
        ratios = [f"{seconds / first:.2f}" for seconds in (bare, refilled)]
        print(line.format(form.name, *speeds, *ratios, f"{changes / then:,.0f}"), flush=True)


def main() -> None:
    """Print messages a second of tables and consumers, rows a second of a sink and messages of a producer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    count = parser.parse_args().messages
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder) / "broker")
        broker.start()
        try:
            measure_source(broker, Path(folder), count)
            measure_sink(broker, count)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
