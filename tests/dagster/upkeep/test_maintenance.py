"""The jobs of maintenance: what each does to the store, and the numbers that it tells."""

from __future__ import annotations

import dagster as dg
import pytest

from dagster_tideline.naming import Naming
from dagster_tideline.upkeep.maintenance import COMPACTION, build_one_op_job, compact, render_table
from dagster_tideline.upkeep.schedules import JOBS
from engine.errors import Conflict, StorageError
from engine.hummock import Commit, Hummock
from tests.dagster.conftest import Project, failure

DAY = 86_400.0


@pytest.fixture
def written(project: Project) -> Project:
    """A project whose source was written four times, and read by its views."""
    project.run()
    for number in range(4):
        project.session.sql(f"INSERT INTO orders VALUES ({number}, 'x', 20)")
        project.session.flush()
    return project


def build_compaction(retries: int) -> dg.JobDefinition:
    return build_one_op_job(COMPACTION, compact, "", Naming(), dg.RetryPolicy(max_retries=retries))


@pytest.mark.long
def test_compaction_merges_tables_and_keeps_their_rows(written: Project) -> None:
    before = {name: written.contents(name) for name in ("orders", "totals", "large")}
    assert written.maintain(COMPACTION, {"sublevels": 2, "full": True}).success
    assert written.session.store.refresh().tables["orders"].file_count == 1
    assert {name: written.contents(name) for name in before} == before
    report = written.read_metadata("tideline_compaction")
    assert report["tables_compacted"] >= 2 and report["runs_merged"] >= 6 and report["tables_failed"] == 0
    assert report["files"] == sum(t.file_count for t in written.session.store.version.tables.values())
    written.maintain(COMPACTION, {"sublevels": 2, "full": True})
    assert written.read_metadata("tideline_compaction")["tables_compacted"] == 0


@pytest.mark.parametrize("config", [{"sublevels": 0}, {"sublevels": "many"}, {"levels": 3}])
def test_a_configuration_that_cannot_be_meant_is_refused(project: Project, config: dict[str, object]) -> None:
    try:
        result = project.maintain(COMPACTION, config)
    except dg.DagsterInvalidConfigError:
        return
    assert not result.success


def test_a_table_that_cannot_be_compacted_is_named_and_keeps_no_other_from_it(
    written: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = Hummock.compact

    def fail(store: Hummock, name: str, **options: object) -> object:
        if name == "orders":
            raise StorageError("no room")
        return merge(store, name)

    monkeypatch.setattr(Hummock, "compact", fail)
    once = build_compaction(retries=0)
    result = written.maintain(COMPACTION, {"sublevels": 2, "full": True}, once)
    assert not result.success and failure(result) == "orders: no room"
    report = written.read_metadata("tideline_compaction")
    assert report["tables_failed"] == 1 and report["tables_compacted"] >= 1
    assert written.session.store.refresh().tables["totals"].file_count == 1


def test_a_run_that_fails_is_tried_again_by_itself(written: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    merge = Hummock.compact

    def fail_once(store: Hummock, name: str, **options: object) -> object:
        tries.append(name)
        if len(tries) == 1:
            raise StorageError("no answer")
        return merge(store, name)

    monkeypatch.setattr(Hummock, "compact", fail_once)
    again = build_compaction(retries=1)
    assert written.maintain(COMPACTION, {"sublevels": 2, "full": True}, again).success
    assert tries.count(tries[0]) == 2
    (op,) = JOBS[COMPACTION].all_node_defs
    assert isinstance(op, dg.OpDefinition) and op.retry_policy is not None
    assert op.retry_policy.max_retries == 2


def test_a_table_that_another_compactor_has_taken_is_no_failure(
    written: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(store: Hummock, name: str, **options: object) -> object:
        raise Conflict(f"{name} was compacted meanwhile")

    monkeypatch.setattr(Hummock, "compact", lose)
    assert written.maintain(COMPACTION, {"sublevels": 2, "full": True}).success
    assert written.read_metadata("tideline_compaction")["tables_lost_to_others"] >= 2


@pytest.fixture
def large(written: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The same project, where tables of two rows are as large as Spark's tasks merge them."""
    monkeypatch.setenv("TIDELINE_COMPACTION_TASKS_MB", "0")
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 1)
    monkeypatch.setattr("engine.runtime.compaction_tasks.LEAST_ON_A_MACHINE", 2)
    return written


def test_large_tables_are_merged_by_tasks_of_a_spark_that_runs_elsewhere(
    large: Project, merged_by_tasks: list[str]
) -> None:
    rows = large.contents("orders")
    config: dict[str, object] = {"sublevels": 2, "full": True}
    # where a process has a Spark, whatever address is named is that one
    assert large.maintain(COMPACTION, config, spark="spark://127.0.0.1:7077").success
    assert merged_by_tasks == ["orders"]
    assert large.read_metadata("tideline_compaction")["tables_compacted"] >= 2
    assert large.contents("orders") == rows


def test_a_spark_that_cannot_be_used_fails_large_tables_by_name_and_no_others(large: Project) -> None:
    once = build_compaction(retries=0)
    result = large.maintain(COMPACTION, {"sublevels": 2, "full": True}, once, "sc://localhost:1")
    assert not result.success and "orders: this process runs a Spark of its own" in failure(result)
    assert large.read_metadata("tideline_compaction")["tables_compacted"] >= 1
    assert large.session.store.refresh().tables["totals"].file_count == 1


def test_logs_are_let_go_up_to_what_consumers_have_and_the_longest_holder_is_named(written: Project) -> None:
    store = written.session.store
    for name in ("orders", "totals", "large"):
        store.alter_table(name, retention_seconds=0.001)
    first = store.version.tables["orders"].log[0].epoch
    store.commit(Commit(acks={"orders": {"a slow consumer": first}}))
    store.compact("orders")
    assert written.maintain("log_truncation").success
    report = written.read_metadata("tideline_log_truncation")
    assert report["epochs_released"] == 0
    assert report["oldest_holder"].startswith("consumer a slow consumer holds back orders since 20")
    assert report["oldest_holder_seconds"] > 0 and report["holders"] == 1
    assert "| a slow consumer | consumer | orders |" in report["held_back"]
    log = store.refresh().tables["orders"].log
    store.commit(Commit(acks={"orders": {"a slow consumer": None}}))
    assert written.maintain("log_truncation").success
    report = written.read_metadata("tideline_log_truncation")
    assert (report["tables_truncated"], report["epochs_released"]) == (1, len(log))
    assert report["rows_released"] == sum(entry.rows for entry in log) > 0
    assert report["bytes_released"] > 0 and report["oldest_holder_seconds"] == 0 and report["holders"] == 0
    assert "| orders |" in report["released"]
    assert len(written.contents("orders")) == 4


def test_subscriptions_that_fell_behind_their_retention_are_counted(written: Project) -> None:
    session = written.session
    session.sql("CREATE SUBSCRIPTION news FROM orders WITH (retention = 0.001)")
    session.sql("CREATE SUBSCRIPTION patient FROM orders WITH (retention = '1 day')")
    first = session.store.version.tables["orders"].safe_epoch
    session.sql("DELETE FROM orders")
    for name in ("orders", "totals", "large"):
        session.store.alter_table(name, retention_seconds=0.001)
    session.store.compact("orders")
    assert written.maintain("log_truncation").success
    assert written.read_metadata("tideline_log_truncation")["subscriptions_lapsed"] == 1
    found = {one["name"]: one["phase"] for one in session.sql("SHOW SUBSCRIPTIONS").to_pylist()}
    assert found == {"news": "lapsed", "patient": "log"}
    assert len(list(session.subscribe("patient"))) == 1
    assert session.store.version.tables["orders"].safe_epoch >= first


def test_garbage_is_counted_or_deleted_and_what_is_kept_is_told_by_what_keeps_it(written: Project) -> None:
    written.maintain(COMPACTION, {"sublevels": 2, "full": True})
    for name in ("orders", "totals", "large"):
        written.session.store.alter_table(name, retention_seconds=0.001)
    written.maintain("log_truncation")
    written.maintain("garbage_collection", {"dry_run": True, "grace_seconds": 0.0})
    counted = written.read_metadata("tideline_garbage_collection")
    assert counted["objects_garbage"] > 0 and "objects_deleted" not in counted
    assert written.maintain("garbage_collection").success
    kept = written.read_metadata("tideline_garbage_collection")
    assert kept["objects_deleted"] == 0 and kept["objects_held_by_grace"] >= counted["objects_garbage"]
    assert written.maintain("garbage_collection", {"grace_seconds": 0.0}).success
    report = written.read_metadata("tideline_garbage_collection")
    assert report["objects_deleted"] >= counted["objects_garbage"] and report["bytes_deleted"] > 0
    assert report["objects_held_by_grace"] == 0
    assert report["objects_kept"] == report["objects_held_by_live"] + report["objects_held_by_history"]
    assert len(written.contents("orders")) == 4


def test_pins_that_are_over_go_and_others_are_told_with_owner_and_age(written: Project) -> None:
    store = written.session.store
    store.pin("orders", seconds=-1.0, owner="a dead report")
    long = store.pin("orders", seconds=DAY, owner="the night's report")
    assert written.maintain("expired_pins").success
    assert set(store.refresh().tables["orders"].pins) == {long.name}
    report = written.read_metadata("tideline_expired_pins")
    assert (report["pins_ended"], report["pins_alive"], report["claims_ended"]) == (1, 1, 0)
    assert report["oldest_pin_seconds"] > 0
    assert (
        "| orders | the night's report |" in report["pins"]
        and "| the night's report | 1 |" in report["owners"]
    )


def test_a_table_to_look_at_keeps_its_shape_and_ends() -> None:
    shown = render_table(("a", "b"), [("x|y\nz", n) for n in range(150)]).value
    assert shown.splitlines()[2] == "| x\\|y z | 0 |"
    assert shown.endswith("and 50 more")
