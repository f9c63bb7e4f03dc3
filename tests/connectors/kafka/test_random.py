"""Random producers and a table that follows them, held against a dictionary: transactions, tombstones, bad messages, crashes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from engine.connectors.kafka.broker import KafkaBroker
from engine.connectors.sources import poll_all
from engine.session import Session
from tests.connectors.kafka.server import Message, Topic, start_broker
from tests.connectors.kafka.test_source import create, held

pytestmark = pytest.mark.kafka
STEPS = 40
KEYS = 12


class World:
    """A topic of a broker that is killed now and then, and what a table that follows it is to hold."""

    def __init__(self, broker: KafkaBroker, chance: random.Random) -> None:
        self.topic, self.chance = Topic(broker, f"random-{chance.randrange(1000)}"), chance
        self.topic.make()
        self.rows: dict[int, int] = {}
        self.bad = 0
        self.number = 0

    def write(self) -> None:
        """Write some messages, in a transaction or without, which counts unless it is aborted."""
        kind = self.chance.choice(["plain", "plain", "commit", "abort"])
        messages: list[Message] = []
        rows, bad = dict(self.rows), 0
        for _ in range(self.chance.randint(1, 8)):
            key, self.number = self.chance.randrange(KEYS), self.number + 1
            what = self.chance.choice(["put", "put", "put", "drop", "bad", "keyless"])
            if what == "put":
                messages.append((str(key), json.dumps({"n": self.number})))
                rows[key] = self.number
            elif what == "drop":
                messages.append((str(key), None))
                rows.pop(key, None)
            else:
                bad += 1
                messages.append((str(key), "no JSON") if what == "bad" else (None, '{"n": 1}'))
        if kind == "plain":
            self.topic.write(*messages)
        else:
            self.topic.write_transaction(messages, commit=kind == "commit")
        if kind != "abort":
            self.rows, self.bad = rows, self.bad + bad

    def crash(self) -> None:
        """Kill the broker and start it again."""
        self.topic.broker.kill()
        self.topic.broker.start()


@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_what_a_dictionary_is(lake: Session, tmp_path: Path, seed: int) -> None:
    broker = start_broker(tmp_path / "broker")
    if isinstance(broker, str):
        pytest.skip(broker)
    try:
        chance = random.Random(seed)
        world = World(broker, chance)
        create(lake, world.topic, envelope="upsert", poll_messages=chance.choice(["3", "1000000"]))
        for step in range(STEPS):
            world.write()
            if step == STEPS // 2:
                world.crash()
            if step == STEPS // 3:
                world.topic.add_partitions(
                    2
                )  # keys stay where they are: the new one is read, and holds no key twice
                world.topic.write((str(KEYS), '{"n": 0}', 1))
                world.rows[KEYS] = 0
            if chance.random() < 0.5:
                poll_all(lake.catalog, lake.store)
        for _ in range(200):
            (report,) = poll_all(lake.catalog, lake.store)
            if report.error is None and report.epoch is None:
                break
        assert dict(held(lake)) == world.rows
        found = lake.sql("SELECT count(*) AS n FROM _dead_letter").to_pylist()
        assert found == [{"n": world.bad}]
    finally:
        broker.kill()
