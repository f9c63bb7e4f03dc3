"""The sampled oracle in Dagster: a job with its numbers, and a check of each view that turns red where rows differ."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pyarrow as pa
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from dagster_tideline.upkeep.sampled_oracle import CHECK, SAMPLED_ORACLE
from dagster_tideline.upkeep.schedules import build_schedules
from engine.hummock import Put
from tests.dagster.conftest import Project


def read_check(project: Project, view: str) -> dg.AssetCheckEvaluation | None:
    """Return how the check of a view came out the last time."""
    key = dg.AssetCheckKey(dg.AssetKey(view), CHECK)
    found = project.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
    event = found[key].event if key in found else None
    if event is None or event.dagster_event is None:
        return None
    assert found[key].status in (
        AssetCheckExecutionRecordStatus.SUCCEEDED,
        AssetCheckExecutionRecordStatus.FAILED,
    )
    return event.dagster_event.asset_check_evaluation_data


def test_rows_that_differ_turn_the_check_of_their_view_red(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.run()
    for number in range(4):
        project.session.sql(f"INSERT INTO orders VALUES ({number}, 'x', 20)")
    project.session.flush().raise_for_errors()
    config: dict[str, object] = {"seconds": 60.0, "share": 1.0}
    assert project.maintain(SAMPLED_ORACLE, config).success
    numbers = project.read_metadata("tideline_sampled_oracle")
    assert (numbers["views"], numbers["views_sampled"], numbers["views_that_differ"]) == (2, 2, 0)
    green = read_check(project, "totals")
    assert green is not None and green.passed and green.metadata["rows_compared"].value >= 1
    store = project.session.store
    table = store.refresh().tables["totals"]
    rows = pa.Table.from_batches(store.reader.scan(table, table.committed_epoch), table.schema)
    rows = rows.set_column(rows.column_names.index("total"), "total", pa.array([77] * len(rows), pa.int64()))
    store.ingest_batch({"totals": Put(rows)})
    assert project.maintain(SAMPLED_ORACLE, config).success  # rows that differ are no error of the job
    red = read_check(project, "totals")
    assert red is not None and not red.passed and red.severity == dg.AssetCheckSeverity.ERROR
    assert "total is 77, not 80" in str(red.description)
    assert "ALTER MATERIALIZED VIEW totals RESYNC" in str(red.description)
    large = read_check(project, "large")
    assert large is not None and large.passed
    checks = {key.name for key in definitions().resolve_asset_graph().asset_check_keys}
    assert checks == {CHECK}


def test_somebody_asks_for_the_check_of_one_view(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.run()
    project.session.sql("INSERT INTO orders VALUES (1, 'x', 20)")
    project.session.flush().raise_for_errors()
    found = definitions()
    key = dg.AssetCheckKey(dg.AssetKey("totals"), CHECK)
    job = found.get_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={key}
    )
    assert job.execute_in_process(instance=project.instance).success
    checked = read_check(project, "totals")
    assert checked is not None and checked.passed
    assert read_check(project, "large") is None


def test_a_share_of_none_leaves_the_schedule_off() -> None:
    status = {one.name: one.default_status for one in build_schedules(1.0, oracle_share=0.0)}
    assert status["oracle_schedule"] == dg.DefaultScheduleStatus.STOPPED
    assert status["compaction_schedule"] == dg.DefaultScheduleStatus.RUNNING
