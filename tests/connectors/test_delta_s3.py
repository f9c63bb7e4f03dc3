"""A Delta table in a bucket is followed by a Spark that has the file system s3a: its rows, each version once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta import source
from engine.connectors.source_trial import try_source
from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.connectors.delta_tables import SparkDeltaTable, held, poll
from tests.connectors.s3a import WITH_S3A, as_spark_has_it

pytestmark = [pytest.mark.conformance, pytest.mark.s3, WITH_S3A]


@pytest.fixture(autouse=True)
def looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a table in a bucket is looked at once a second; tests change it faster."""
    monkeypatch.setattr(source, "LOOK_SECONDS", 0.0)


@pytest.fixture
def there(spark: SparkSession, s3_url: str) -> SparkDeltaTable:
    """A Delta table in a bucket."""
    open_object_store(s3_url)  # the bucket has to be there
    return SparkDeltaTable(spark, as_spark_has_it(f"{s3_url}/lake")).make()


@pytest.fixture
def following(session: Session, there: SparkDeltaTable, s3_url: str) -> Iterator[Session]:
    """A session with a table t that follows it."""
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{s3_url}/lake')")
    yield session


def test_a_table_follows_a_delta_table_in_a_bucket(following: Session, there: SparkDeltaTable) -> None:
    there.insert("SELECT id, 'a' FROM range(1000)")
    assert (poll(following).rows, held(following)) == (1_000, there.rows())
    there.sql("UPDATE {} SET v = 'b' WHERE id < 10", "DELETE FROM {} WHERE id >= 990")
    assert (poll(following).rows, held(following)) == (20, there.rows())
    there.insert("SELECT 5000 + id, 'c' FROM range(50000)")  # more than one process takes by itself
    assert (poll(following).rows, held(following)) == (50_000, there.rows())


def test_what_was_taken_is_not_taken_again_by_another_process(
    following: Session, there: SparkDeltaTable, spark: SparkSession
) -> None:
    there.insert("SELECT id, 'a' FROM range(100)")
    assert poll(following).rows == 100
    with Session(following.store.url, spark) as other:
        assert poll(other).epoch is None
        there.sql("UPDATE {} SET v = 'b' WHERE id < 10")
        assert poll(other).rows == 10
    assert poll(following).epoch is None
    following.sql("ALTER TABLE t RESYNC")
    assert following.notices == ("0 rows were written",)
    assert held(following) == there.rows()


def test_a_source_in_a_bucket_can_be_tried(following: Session, there: SparkDeltaTable) -> None:
    there.insert("SELECT id, 'a' FROM range(10)")
    tried = try_source(following.store, following.catalog.get("t"), lambda: following.computing)
    assert [finding.works for finding in tried] == [True] * 3
