"""The upkeep of Delta tables: files of sinks' tables become few, and what nobody reads is deleted; those of others are left."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.naming import Naming
from dagster_tideline.upkeep.delta_tables import DELTA_UPKEEP, keep_delta_tables
from dagster_tideline.upkeep.maintenance import build_one_op_job
from tests.connectors.delta_tables import DeltaTable
from tests.connectors.sinks.delta.logs import operations, rows
from tests.dagster.conftest import Project

TOLD = "tideline_delta_upkeep"


def data_files(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


@pytest.mark.long
def test_tables_of_sinks_are_optimized_and_vacuumed_and_keep_their_rows(project: Project, spark) -> None:
    session, home = project.session, project.home
    DeltaTable(spark, home / "theirs").make(properties="")
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    for name in ("ours", "theirs"):
        session.sql(f"CREATE SINK {name} FROM t WITH (connector = 'delta', path = '{name}')")
    for number in range(2):
        session.sql(f"INSERT INTO t VALUES ({number}, 'a'), ({10 + number}, 'b')")
        session.flush(sink_seconds=120)
    before, files = rows(home / "ours"), data_files(home / "ours")
    assert len(before) == 4 and files >= 2
    assert project.maintain(DELTA_UPKEEP, {"retain_hours": 0}).success
    report = project.read_metadata(TOLD)
    assert report["tables"] == 1 and report["tables_failed"] == report["tables_lost_to_others"] == 0
    assert report["files_added"] == 1 and report["files_removed"] >= 2 and report["files_deleted"] >= 2
    assert data_files(home / "ours") == 1 and rows(home / "ours") == before
    assert "OPTIMIZE" not in operations(home / "theirs")
    session.sql("UPDATE t SET v = 'c' WHERE id = 1")
    (ours, theirs) = session.flush(sink_seconds=120).sinks
    assert ours.error is None and theirs.error is None
    assert rows(home / "ours") == rows(home / "theirs")


@pytest.mark.long
def test_a_table_that_cannot_be_kept_up_is_named_and_the_run_fails(project: Project) -> None:
    session, home = project.session, project.home
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    for name in ("broken", "sound"):
        session.sql(f"CREATE SINK {name} FROM t WITH (connector = 'delta', path = '{name}')")
        session.sinks.wait(120)
    outside = home.parent / f"{home.name}-outside"
    (home / "broken").rename(outside)
    (home / "broken").symlink_to(outside)
    once = build_one_op_job(DELTA_UPKEEP, keep_delta_tables, "", Naming(), dg.RetryPolicy(max_retries=0))
    assert not project.maintain(DELTA_UPKEEP, of=once).success
    assert project.read_metadata(TOLD)["tables_failed"] == 1 and project.read_metadata(TOLD)["tables"] == 2


def test_without_such_sinks_nothing_starts(project: Project) -> None:
    assert project.maintain(DELTA_UPKEEP).success and project.read_metadata(TOLD)["tables"] == 0
