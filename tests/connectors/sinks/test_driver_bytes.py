"""What sinks pass through the process that delivers is counted: the changes that it reads, not those that tasks read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.delta.sink import changes
from engine.connectors.sinks.driver import SinkDriver
from engine.session import Session, SinkReport

ROWS = 5_000
FILES = "CREATE SINK s FROM t WITH (connector = 'file', url = 's3://sinks/passed', format = 'jsonl')"


def changed(session: Session) -> None:
    ids = pa.array(range(ROWS), pa.int64())
    session.write("t", pa.table({"id": ids, "v": [f"value-{n}" for n in range(ROWS)]}))


def delivered(session: Session) -> tuple[SinkReport, int]:
    """Return the report of the one sink, and what has passed for it meanwhile."""
    before = session.store.metrics()
    (report,) = session.flush(sink_seconds=120).sinks
    assert (report.error, report.lag_rows) == (None, 0)
    return report, session.store.metrics().since(before).driver_bytes.get("sink s", 0)


def test_the_changes_of_files_are_counted(db: Session, driver: SinkDriver) -> None:
    db.sql(FILES, build=False)
    changed(db)
    before = db.store.metrics()
    (report,) = driver.run()
    assert report.rows == ROWS and report.driver_bytes >= ROWS * (8 + 7)
    assert db.store.metrics().since(before).driver_bytes == {"sink s": report.driver_bytes}
    (idle,) = driver.run()
    assert idle.driver_bytes == 0


def test_the_changes_of_a_table_are_counted(db: Session) -> None:
    db.sql("CREATE TABLE into_it (id BIGINT PRIMARY KEY, v STRING)")
    db.sql("CREATE SINK s INTO into_it FROM t")
    changed(db)
    report, passed = delivered(db)
    assert report.rows == ROWS and report.driver_bytes == passed >= ROWS * (8 + 7)


@pytest.mark.long
def test_few_changes_of_a_delta_table_are_counted_and_many_are_read_by_tasks(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql(f"CREATE SINK s FROM t WITH (connector = 'delta', path = '{tmp_path}/delta')")
    session.sinks.wait(120)
    changed(session)
    report, passed = delivered(session)
    assert report.rows == ROWS and report.driver_bytes == passed >= ROWS * (8 + 7)
    monkeypatch.setattr(changes, "SMALL_CHANGE_ROWS", 100)
    session.sql("UPDATE t SET v = 'b'")
    report, passed = delivered(session)
    assert (report.rows, report.driver_bytes, passed) == (ROWS, 0, 0)
