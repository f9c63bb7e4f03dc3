"""How often a flush over a bucket waits for an answer: counted in rounds of requests that wait for each other, not in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock.object_store import open_object_store
from engine.runtime.domains.domain_outcome import DomainOutcome
from engine.runtime.domains.flush_run import FlushRun
from engine.session import Session
from tests.hummock.rounds import RoundsStore


@pytest.fixture
def bucket(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> RoundsStore:
    monkeypatch.setenv("TIDELINE_VERIFY", "")  # a check reads more than what it checks
    found = RoundsStore(open_object_store(s3_url), quiet_seconds=0.5)
    for module in ("branches", "reads.reader"):
        monkeypatch.setattr(f"engine.hummock.{module}.open_object_store", lambda *_, **__: found)
    bring = FlushRun.run_domain

    def working(*given: Any) -> DomainOutcome:
        with found.working():  # however long a domain computes, no round ends meanwhile
            return bring(*given)

    monkeypatch.setattr(FlushRun, "run_domain", working)
    return found


@pytest.fixture
def flushing(bucket: RoundsStore, s3_url: str, session: Session) -> Iterator[Session]:
    """A session over a bucket with a sum, and a join that needs an index first."""
    with Session(s3_url, "local[2]") as found:
        found.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
        found.sql("CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING)")
        found.write("customer", pa.table({"id": list(range(9)), "name": [f"c{n}" for n in range(9)]}))
        found.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT customer, sum(amount) AS n FROM orders GROUP BY customer"
        )
        found.sql(
            "CREATE MATERIALIZED VIEW named AS "
            "SELECT o.id, o.amount, c.name FROM orders o JOIN customer c ON o.customer = c.id"
        )
        for first in range(0, 1_000, 100):
            change(found, first)
            if first < 300:
                found.flush().raise_for_errors()
        yield found


def change(session: Session, first: int) -> None:
    ids = list(range(first, first + 100))
    session.write("orders", pa.table({"id": ids, "customer": [n % 9 for n in ids], "amount": ids}))


def test_a_flush_waits_for_three_round_trips(flushing: Session, bucket: RoundsStore) -> None:
    before = flushing.store.metrics()
    with bucket.counted():
        flushing.flush().raise_for_errors()
    requests = flushing.store.metrics().since(before).requests
    written = requests["put"] + requests["put_if_absent"]
    assert written == bucket.counts["put"], "tasks have written to the bucket themselves"
    assert bucket.rounds <= 3, bucket.paths
    assert flushing.sql("SELECT count(*) AS n FROM named") == pa.table({"n": [1_000]})


def test_a_flush_that_computes_quickly_makes_one_manifest(
    flushing: Session, bucket: RoundsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.in_flight_store.BARRIER_WAIT_SECONDS", 30.0)
    with bucket.counted():
        flushing.flush().raise_for_errors()
    made = [path for path in bucket.paths["put"] if path.startswith("manifest/")]
    assert len(made) == 1
