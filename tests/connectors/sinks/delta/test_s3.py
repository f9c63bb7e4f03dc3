"""A Delta table that a sink keeps in a bucket holds what its view holds, and each range of changes counts once there."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.maintenance import maintain_tables
from engine.connectors.sinks.delivery import Delivery
from engine.errors import StorageError
from engine.hummock.object_store import open_object_store
from engine.meta.status.sinks import list_sinks
from engine.session import Session
from tests.connectors.s3a import WITH_S3A, as_spark_has_it
from tests.connectors.sinks.delta.logs import rows_by_spark

pytestmark = [pytest.mark.conformance, pytest.mark.s3, WITH_S3A]
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g"


@pytest.fixture
def place(session: Session, s3_url: str) -> str:
    """The address of the table that sink s keeps of view v."""
    open_object_store(s3_url)  # the bucket has to be there
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
    written(session, range(100))
    session.sql(VIEW)
    session.sql(f"CREATE SINK s FROM v WITH (connector = 'delta', url = '{s3_url}/copy')")
    session.sinks.wait(120)
    return f"{s3_url}/copy"


def written(session: Session, ids: range, x: int = 1) -> None:
    session.write("t", pa.table({"id": ids, "g": [n % 7 for n in ids], "x": [x] * len(ids)}))


def brought(session: Session) -> str | None:
    """Deliver all that waits; returns the sink's error."""
    report = session.flush(sink_seconds=120)
    report.raise_for_all()
    return report.sinks[0].error


def content(session: Session) -> Counter[tuple[str, ...]]:
    found = session.sql("SELECT * FROM v")
    assert found is not None
    return Counter(tuple(repr(value) for value in row.values()) for row in found.to_pylist())


def transactions(place: str) -> list[int]:
    """Return the versions of the transactions of sinks in the table's log, in the order of the commits."""
    objects = open_object_store(place)
    names = sorted(one.path for one in objects.list("_delta_log/") if one.path.endswith(".json"))
    texts = [objects.get(name) for name in names]
    actions = [json.loads(line) for text in texts if text is not None for line in text.splitlines()]
    return [action["txn"]["version"] for action in actions if "txn" in action]


def test_a_table_in_a_bucket_is_as_its_view_is(session: Session, spark: SparkSession, place: str) -> None:
    assert rows_by_spark(spark, as_spark_has_it(place)) == content(session)
    written(session, range(50, 300), x=5)
    session.sql("DELETE FROM t WHERE g = 3")
    assert brought(session) is None
    assert rows_by_spark(spark, as_spark_has_it(place)) == content(session)


def test_a_range_that_is_delivered_again_counts_once(
    session: Session, spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has its commit, and the acknowledgement is lost with the process that would have made it."""

    def lost(*_: object) -> None:
        raise StorageError("the process has died")

    written(session, range(100, 200))
    monkeypatch.setattr(Delivery, "_acknowledge", lost)
    assert "the process has died" in (brought(session) or "")
    done = transactions(place)
    assert len(done) == 2
    monkeypatch.undo()
    written(session, range(150, 250), x=2)
    assert brought(session) is None
    found = transactions(place)
    assert found[:2] == done and found == sorted(set(found)) and len(found) == 3
    assert rows_by_spark(spark, as_spark_has_it(place)) == content(session)


def test_a_table_in_a_bucket_is_kept_up(session: Session, spark: SparkSession, place: str) -> None:
    for n in range(3):
        written(session, range(n, n + 50), x=n)
        assert brought(session) is None
    done = list(maintain_tables(list_sinks(session.stored), lambda: spark, optimize=True, retain_hours=0))
    assert [one.error for one in done] == [None] and done[0].files_deleted > 0
    assert rows_by_spark(spark, as_spark_has_it(place)) == content(session)
