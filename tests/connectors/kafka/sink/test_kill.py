"""Processes that bring first rows are killed (SIGKILL) at random moments: the rows come in pieces, and each once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

from engine.session import Session
from tests.connectors.conformance.test_kill import process
from tests.connectors.kafka.server import make_topic
from tests.connectors.kafka.sink.topics import check_epochs, read_committed
from tests.connectors.sinks.deliveries import deliver

KILLS = 10
ROWS = 20_000
pytestmark = [pytest.mark.kafka, pytest.mark.crash]


def test_first_rows_whose_processes_are_killed_come_once(tmp_path: Path) -> None:
    topic, chance = make_topic(3), random.Random(11)
    with Session((tmp_path / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        session.write(
            "t", pa.table({"id": pa.array(range(ROWS), pa.int64()), "v": [f"v{n}" for n in range(ROWS)]})
        )
        options = topic.options(envelope="upsert", transaction_rows="100")
        session.sql(f"CREATE SINK s FROM t WITH ({options})", build=False)
        reached = []
        for _ in range(KILLS):
            with process(session.url, "deliver", False) as child:
                assert child.stdout is not None and child.stdout.readline() == "begins\n"
                time.sleep(chance.uniform(0.05, 1.2))
            reached.append(len(read_committed(topic)))
        assert reached[-1] > 0 and len(set(reached)) > KILLS // 2, reached
        assert all(count % 100 == 0 for count in reached), "a transaction was seen in part"
        deliver(session)
        rows = check_epochs(read_committed(topic))
        assert rows == {n: f"v{n}" for n in range(ROWS)}
        assert len(read_committed(topic)) == ROWS
