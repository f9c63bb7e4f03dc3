"""The driver: epochs one after the other in one run, a successor that takes over, and a sensor that watches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._utils.interrupts import capture_interrupts

from dagster_tideline.driver import driver_job
from dagster_tideline.driver.driver_job import (
    BEAT_TAG,
    DRIVER_RUN,
    MODELS_TAG,
    READY_TAG,
    SILENT_SECONDS,
    build_driver_job,
    compute_models_digest,
    find_start_reason,
)
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.runs.epoch_events import Event
from dagster_tideline.runs.event_throttle import EPOCHS, EventThrottle
from dagster_tideline.runs.liveness import ACTIVE
from engine.changes import alter_view
from engine.errors import EpochFailed, SqlError, StorageError, StorageFull, Unavailable
from tests.dagster.conftest import LARGE, Project
from tests.long_rest import mark_rest_long

WAIT_SECONDS = 120.0


@pytest.fixture
def served(project: Project, tmp_path: Path) -> Iterator[Project]:
    """The project over an instance that several threads can use."""
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        project.instance = instance
        yield project


class Events:
    """Wakes who waits whenever a driver has something to tell: what it tells of is committed by then."""

    def __init__(self) -> None:
        self._come = threading.Condition()
        self.taken: list[str] = []

    def let_know(self, events: Iterable[Event]) -> None:
        with self._come:
            self.taken += [one.asset_key.to_user_string() for one in events if one.asset_key is not None]
            self._come.notify_all()

    def wait_until(self, holds: Callable[[], bool]) -> None:
        with self._come:
            assert self._come.wait_for(holds, WAIT_SECONDS), "it did not come"


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """The events of the drivers of this test."""
    events = Events()

    class Heard(EventThrottle):
        def submit(self, found: Iterable[Event], now: float) -> Iterator[Event]:
            batch = list(found)
            yield from super().submit(batch, now)
            events.let_know(batch)

    monkeypatch.setattr(driver_job, "EventThrottle", Heard)
    return events


class Drive(threading.Thread):
    """One driver run in a thread of this process."""

    def __init__(self, project: Project, seconds: float, event_seconds: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.project, self.seconds, self.event_seconds = project, seconds, event_seconds
        self.result: dg.ExecuteInProcessResult | None = None

    def run(self) -> None:
        config = {
            "ops": {"drive": {"config": {"seconds": self.seconds, "event_seconds": self.event_seconds}}}
        }
        self.result = build_driver_job(self.project.models).execute_in_process(
            instance=self.project.instance,
            run_config=config,
            resources={
                "hummock": HummockResource(url=self.project.session.url),
                "spark": SparkResource(target="local[2]"),
            },
            raise_on_error=False,
        )


def total(project: Project, shop: str) -> int | None:
    try:
        return {row["shop"]: row["total"] for row in project.contents("totals")}.get(shop)  # type: ignore[return-value]
    except (SqlError, EpochFailed):  # not created yet, or not computed
        return None


def add_driver(project: Project, tags: dict[str, str]) -> dg.DagsterRun:
    job = dg.GraphDefinition(name=DRIVER_RUN).to_job()
    return project.instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, tags=tags)


def ready(project: Project) -> dict[str, str]:
    return {WORKER_TAG: get_worker_name(), READY_TAG: "1", MODELS_TAG: compute_models_digest(project.models)}


def end(drive: Drive) -> None:
    """End a driver as a successor does that is ready; this one is a record without a process of its own."""
    successor = add_driver(drive.project, ready(drive.project))
    drive.join(WAIT_SECONDS)
    drive.project.instance.report_run_canceled(successor)
    assert drive.result is not None and drive.result.success


def test_epochs_follow_each_other_in_one_run_until_a_successor_is_ready(
    served: Project, events: Events
) -> None:
    first = Drive(served, WAIT_SECONDS)
    first.start()
    for n in range(1, 4):
        served.land(f"{n}.csv", f"id,shop,price\n{n},a,10\n")
        events.wait_until(lambda n=n: total(served, "a") == 10 * n)  # type: ignore[misc]
    second = Drive(served, WAIT_SECONDS)
    second.start()
    first.join(WAIT_SECONDS)
    assert first.result is not None and first.result.success
    end(second)
    records = served.instance.fetch_materializations(dg.AssetKey("totals"), limit=10).records
    assert len(records) in (3, 4)  # one a file, and the view as it was made where that came before the first
    assert not served.instance.get_runs(dg.RunsFilter(job_name=DRIVER_RUN, statuses=list(ACTIVE)))


@pytest.mark.long
def test_what_a_driver_before_it_has_taken_back_is_told_again(
    served: Project, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_job, "BEAT_SECONDS", 0.1)
    key = dg.AssetKey("totals")

    def list_tags() -> list[dict[str, str]]:
        found = served.instance.fetch_materializations(key, limit=20).records
        return [dict(one.asset_materialization.tags or {}) for one in found if one.asset_materialization]

    drive = Drive(served, WAIT_SECONDS)
    drive.start()
    for n in (1, 2):
        served.land(f"{n}.csv", f"id,shop,price\n{n},a,10\n")
        events.wait_until(lambda n=n: total(served, "a") == 10 * n)  # type: ignore[misc]
    newest, oldest = list_tags()[0], list_tags()[-1]
    assert newest != oldest
    served.instance.report_runless_asset_event(dg.AssetMaterialization(key, tags=oldest))
    events.wait_until(lambda: list_tags()[0] == newest)
    end(drive)


@pytest.mark.long
def test_what_a_driver_with_newer_models_makes_of_them_is_not_undone(served: Project, events: Events) -> None:
    drive = Drive(served, WAIT_SECONDS)
    drive.start()
    served.land("1.csv", "id,shop,price\n1,a,10\n")
    events.wait_until(lambda: total(served, "a") == 10)
    newer = add_driver(served, {WORKER_TAG: get_worker_name(), MODELS_TAG: "others"})  # it warms up yet
    assert alter_view(served.session, LARGE.replace("> 10", "> 100")).keeps_rows
    served.land("2.csv", "id,shop,price\n2,a,10\n")
    events.wait_until(lambda: total(served, "a") == 20)
    assert "> 100" in served.session.catalog.get("large").sql
    served.instance.report_run_canceled(newer)
    end(drive)


def test_a_failing_view_stops_neither_the_driver_nor_others(served: Project, events: Events) -> None:
    served.model(
        "shop/broken.sql", "CREATE MATERIALIZED VIEW broken AS SELECT id, 1 / (price - 5) AS x FROM orders;"
    )
    drive = Drive(served, WAIT_SECONDS)
    drive.start()
    served.land("1.csv", "id,shop,price\n1,a,5\n")
    events.wait_until(lambda: total(served, "a") == 5)
    served.land("2.csv", "id,shop,price\n2,a,7\n")
    events.wait_until(lambda: total(served, "a") == 12)
    end(drive)
    assert any(wait.kind == "failed" for wait in served.session.waits())


@pytest.mark.parametrize("error", mark_rest_long([Unavailable("no answer"), StorageFull("no room")]))
def test_a_store_that_fails_a_driver_does_not_end_it(
    served: Project, events: Events, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    monkeypatch.setattr(driver_job, "STORE_SECONDS", 0.01)
    look, failing = driver_job.find_pending, iter([error] * 3)

    def failing_first(*given: object, **options: object) -> object:
        if (wrong := next(failing, None)) is not None:
            raise wrong
        return look(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(driver_job, "find_pending", failing_first)
    served.land("1.csv", "id,shop,price\n1,a,5\n")
    drive = Drive(served, WAIT_SECONDS)
    drive.start()
    events.wait_until(lambda: total(served, "a") == 5)
    end(drive)
    assert drive.result is not None
    records = served.instance.get_records_for_run(drive.result.run_id).records
    assert sum(f"{error}; this driver looks again" in r.event_log_entry.user_message for r in records) == 1


@pytest.mark.parametrize("status", mark_rest_long([DagsterRunStatus.SUCCESS, DagsterRunStatus.CANCELED]))
def test_a_driver_that_is_ended_with_its_services_tells_what_waits_and_has_not_failed(
    served: Project, events: Events, monkeypatch: pytest.MonkeyPatch, status: DagsterRunStatus
) -> None:
    look, looks = driver_job.find_pending, threading.Event()

    def looking(*given: object, **options: object) -> object:
        found = look(*given, **options)  # type: ignore[arg-type]
        if not found:
            looks.set()
        return found

    monkeypatch.setattr(driver_job, "find_pending", looking)

    def end() -> None:
        events.wait_until(lambda: total(served, "a") == 12 and events.taken.count("totals") >= 2)
        # An interrupt while Dagster stores an event ends the run as failed, whatever it says: the driver rests where it looks.
        looks.clear()
        assert looks.wait(WAIT_SECONDS)
        if status == DagsterRunStatus.CANCELED:  # as the page does it
            run = served.instance.get_runs(dg.RunsFilter(job_name=DRIVER_RUN))[0]
            served.instance.report_run_canceling(run)
        os.kill(os.getpid(), signal.SIGTERM)

    served.land("1.csv", "id,shop,price\n1,a,5\n")
    drive = Drive(served, WAIT_SECONDS, event_seconds=3600.0)
    ender = threading.Thread(
        target=lambda: (
            events.wait_until(lambda: total(served, "a") == 5),
            served.land("2.csv", "id,shop,price\n2,a,7\n"),
            end(),
        )
    )
    ender.start()
    with capture_interrupts():
        drive.run()  # in the main thread, where signals come
    ender.join()
    run = served.instance.get_runs(dg.RunsFilter(job_name=DRIVER_RUN))[0]
    assert run.status == status
    records = served.instance.fetch_materializations(dg.AssetKey("totals"), limit=10).records
    reported = sum(int(str(one.asset_materialization.metadata[EPOCHS].value)) for one in records)  # type: ignore[union-attr]
    assert (reported == events.taken.count("totals")) == (status == DagsterRunStatus.SUCCESS)


def test_a_driver_is_asked_for_when_there_is_none(project: Project) -> None:
    why, _ = find_start_reason(project.instance, project.models, 3600.0, time.time())
    assert why == "no driver is at work"


def test_a_driver_at_work_is_let_alone(project: Project) -> None:
    add_driver(project, ready(project))
    why, reason = find_start_reason(project.instance, project.models, 3600.0, time.time())
    assert (why, reason.startswith("a driver is at work")) == (None, True)


def test_a_driver_that_starts_is_let_alone(project: Project) -> None:
    add_driver(project, {WORKER_TAG: get_worker_name()})
    assert find_start_reason(project.instance, project.models, 3600.0, time.time())[0] is None


def test_a_successor_is_asked_for_once_before_the_time_is_over(project: Project) -> None:
    add_driver(project, ready(project))
    assert (
        find_start_reason(project.instance, project.models, 30.0, time.time())[0]
        == "the driver's time is nearly over"
    )
    add_driver(project, {WORKER_TAG: get_worker_name()})
    assert find_start_reason(project.instance, project.models, 30.0, time.time())[0] is None


def test_a_changed_model_asks_for_a_driver_that_knows_it(project: Project) -> None:
    add_driver(project, ready(project))
    project.model("shop/more.sql", "CREATE MATERIALIZED VIEW more AS SELECT count(*) AS n FROM orders;")
    assert (
        find_start_reason(project.instance, project.models, 3600.0, time.time())[0]
        == "the models have changed"
    )


@pytest.mark.parametrize("gone", [True, False])
def test_a_driver_that_is_dead_or_silent_is_given_up(project: Project, gone: bool) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = get_worker_name().rpartition(":")[0]
    worker = f"{host}:{ended.pid}" if gone else get_worker_name()
    beat = str(time.time() - (0 if gone else 2 * SILENT_SECONDS))
    run = add_driver(project, {**ready(project), WORKER_TAG: worker, BEAT_TAG: beat})
    assert (
        find_start_reason(project.instance, project.models, 3600.0, time.time())[0] == "no driver is at work"
    )
    found = project.instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == DagsterRunStatus.FAILURE


def test_drivers_that_fail_before_they_are_ready_are_started_at_growing_distances(project: Project) -> None:
    asked = []
    for ready_ones in ({}, {}, ready(project)):
        run = add_driver(project, {WORKER_TAG: get_worker_name(), **ready_ones})
        project.instance.report_run_failed(run, "no store")
        now = time.time()
        asked.append(
            [find_start_reason(project.instance, project.models, 3600.0, now + at)[0] for at in (1, 14, 16)]
        )
    why = "no driver is at work"
    assert asked == [[why] * 3, [None, None, why], [why] * 3]


def test_a_missed_beat_stops_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_job, "BEAT_SECONDS", 0.01)
    beats: list[str] = []
    twice = threading.Event()

    class Instance:
        def add_run_tags(self, run_id: str, tags: dict[str, str]) -> None:
            beats.append(run_id)
            if len(beats) == 1:
                raise OSError("database is locked")
            twice.set()

    def full(text: str) -> None:
        raise OSError("database or disk is full")

    context = SimpleNamespace(instance=Instance(), run_id="r", log=SimpleNamespace(warning=full))
    with driver_job._keep_heartbeat(context):  # type: ignore[arg-type]
        assert twice.wait(WAIT_SECONDS)


@pytest.mark.long
def test_partitions_are_told_of_once_while_a_driver_works(served: Project, events: Events) -> None:
    served.model(
        "shop/by_shop.sql",
        "CREATE MATERIALIZED VIEW by_shop WITH (partition_by = 'shop') AS "
        "SELECT shop, sum(price) AS total FROM orders GROUP BY shop;",
    )
    drive = Drive(served, WAIT_SECONDS)
    drive.start()
    for n, shop in enumerate("abb", 1):
        served.land(f"{n}.csv", f"id,shop,price\n{n},{shop},10\n")
        events.wait_until(lambda shop=shop, n=n: total(served, shop) == (20 if n == 3 else 10))  # type: ignore[misc]
    second = Drive(served, WAIT_SECONDS)
    second.start()
    drive.join(WAIT_SECONDS)
    assert drive.result is not None and drive.result.success
    end(second)
    records = served.instance.fetch_materializations(dg.AssetKey("by_shop"), limit=50).records
    assert sorted(str(record.partition_key) for record in records) == ["a", "b", "b"]
