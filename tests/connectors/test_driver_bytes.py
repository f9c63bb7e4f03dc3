"""What the polls of sources pass through the process that polls is counted: all rows of one that it reads, answers of tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.connectors.contract.connector import SourceReport
from engine.connectors.landing import tasks
from engine.connectors.landing.source import LandingSource
from engine.connectors.sources import poll_all
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, follow

ROWS = 20_000
MANY = 300_000
"""So many rows, that no task answers with its own: a task does with less than 1 MiB."""
ANSWERS = 50_000


def polled(session: Session) -> tuple[SourceReport, dict[str, int]]:
    """Return the report of the one source, and what has passed meanwhile."""
    before = session.store.metrics()
    (report,) = poll_all(session.catalog, session.store, None, lambda: session.computing)
    assert report.error is None
    return report, dict(session.store.metrics().since(before).driver_bytes)


def land(folder: Path, count: int) -> None:
    lines = "".join(f"{n},name-{n},1.5\n" for n in range(count))
    (folder / "a.csv").write_text(f"id,name,price\n{lines}")


def test_rows_of_files_that_the_poll_reads_are_counted(
    lake: Session, orders: Callable[..., LandingSource], folder: Path
) -> None:
    orders()
    land(folder, ROWS)
    report, passed = polled(lake)
    assert report.rows == ROWS and report.driver_bytes >= ROWS * (4 + 6 + 8)
    assert passed == {"source orders": report.driver_bytes}
    again, passed = polled(lake)
    assert (again.driver_bytes, passed) == (0, {})


def test_lines_that_are_set_aside_are_counted(
    lake: Session, orders: Callable[..., LandingSource], folder: Path
) -> None:
    orders()
    (folder / "a.csv").write_text("id,name,price\n" + "x" * 5_000 + ",a,1\n")
    report, _ = polled(lake)
    assert (report.rows, report.dead_rows) == (0, 1) and report.driver_bytes >= 5_000


@pytest.mark.long
def test_of_files_that_tasks_read_their_answers_are_counted(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tasks.SETTING, "0")
    session.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, name STRING, price DOUBLE) WITH (connector = 'landing', path = '{folder}')"
    )
    land(folder, MANY)
    report, _ = polled(session)
    assert report.rows == MANY and 0 < report.driver_bytes < ANSWERS


def test_events_of_the_generator_are_counted_and_again_where_a_view_loads_them(session: Session) -> None:
    session.sql(
        "CREATE SOURCE bid (auction BIGINT, bidder BIGINT, price BIGINT) WITH (connector = 'nexmark', max_events = '5000')"
    )
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    report, passed = polled(session)
    assert report.driver_bytes == passed["source bid"] >= report.rows * 3 * 8 > 0
    before = session.store.metrics()
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT bidder, count(*) AS n FROM bid GROUP BY bidder")
    assert session.store.metrics().since(before).driver_bytes["load bid"] >= report.rows * 3 * 8


@pytest.mark.long
def test_of_a_delta_table_few_changes_pass_and_a_first_load_does_not(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    there = DeltaTable(spark, tmp_path / "delta").make()
    there.insert(f"SELECT id, concat('name-', id) FROM range({MANY})")
    follow(session, there)
    report, _ = polled(session)
    assert report.rows == MANY and 0 < report.driver_bytes < ANSWERS
    there.insert("SELECT 1000000 + id, 'b' FROM range(1000)")
    report, passed = polled(session)
    assert report.rows == 1_000 and report.driver_bytes == passed["source t"] >= 1_000 * (8 + 1)
