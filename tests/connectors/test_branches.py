"""In a branch of a store nothing is followed and nothing is written outside: sources and sinks rest, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.connectors.sinks.delivery import Delivery
from engine.connectors.sources import compute_pending_digest
from engine.errors import SinkError, SqlError
from engine.hummock.object_store import open_object_store
from engine.session import Session


@pytest.fixture
def shop(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A landing table, a view over it, a sink to files and one into a table, all current; and one more file that landed."""
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_text("id,price\n1,10\n2,20\n")
    session.sql(
        "CREATE TABLE bid (id BIGINT PRIMARY KEY, price BIGINT) WITH (connector = 'landing', path = 'in')"
    )
    session.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(price) AS s FROM bid")
    session.sql("CREATE TABLE copy (id BIGINT PRIMARY KEY, price BIGINT)")
    session.sql(f"CREATE SINK f FROM bid WITH (connector = 'file', path = '{tmp_path}/out')")
    session.sql("CREATE SINK c FROM bid INTO copy")
    session.poll()
    session.flush().raise_for_errors()
    (tmp_path / "in" / "two.csv").write_text("id,price\n3,30\n")
    return session


def test_a_branch_takes_writes_and_follows_and_delivers_nothing(
    shop: Session, spark: SparkSession, tmp_path: Path
) -> None:
    out = {path.name for path in (tmp_path / "out").iterdir()}
    branch = shop.store.create_branch("try")
    with Session(f"{shop.url}/branch/try", spark) as tried:
        assert tried.store.url == branch.url
        polled = {report.table: (report.rows, report.warnings) for report in tried.poll()}
        assert polled == {"bid": (0, ("paused: the store is a branch, which follows no source",))}
        assert compute_pending_digest(tried.catalog, tried.store) == (0, "")
        tried.sql("INSERT INTO bid VALUES (9, 900)")
        tried.sql("CREATE MATERIALIZED VIEW dear AS SELECT id FROM bid WHERE price > 15")
        report = tried.flush()
        report.raise_for_errors()
        assert {sink.sink: sink.phase for sink in report.sinks} == {"f": "paused", "c": "log"}
        assert tried.sql("SELECT n, s FROM total").to_pylist() == [{"n": 3, "s": 930}]
        assert tried.sql("SELECT id FROM dear ORDER BY id").column("id").to_pylist() == [2, 9]
        assert tried.sql("SELECT id FROM copy ORDER BY id").column("id").to_pylist() == [1, 2, 9]
        shown = tried.sql("SHOW SINKS").to_pylist()
        assert {row["name"]: row["phase"] for row in shown} == {"f": "paused", "c": "log"}
        notes = {status.name: status.note for status in tried.status()}
        assert notes["bid"] == "paused: the store is a branch, which follows no source"
        assert notes["f"] == "paused: the store is a branch, whose sinks write nothing outside of it"
        assert notes["c"] is None and notes["total"] is None
        with pytest.raises(SqlError, match="the source of bid is paused: the store is a branch"):
            tried.sql("ALTER TABLE bid RESYNC")
        tried.sql("ALTER SINK f RESUME")
        tried.flush().raise_for_errors()
        delivery = Delivery(
            tried.store, tried.catalog.relations["f"], open_object_store, tried.store.clock, lambda: spark
        )
        with pytest.raises(SinkError, match=r"sink f rests: .* is a branch"):
            delivery._get_target(0)
    assert {path.name for path in (tmp_path / "out").iterdir()} == out
    shop.poll()
    shop.flush().raise_for_errors()
    assert shop.sql("SELECT n, s FROM total").to_pylist() == [{"n": 3, "s": 60}]
    assert {path.name for path in (tmp_path / "out").iterdir()} > out
    shop.store.drop_branch("try")
    assert {row["name"]: row["phase"] for row in shop.sql("SHOW SINKS").to_pylist()} == {
        "f": "log",
        "c": "log",
    }
