"""Metrics of views and the frequency of checkpoints, over the reference executor: no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from engine.hummock import Commit, Put
from engine.hummock.monitoring.prometheus import render_metrics
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.catalog.successions import SUCCESSIONS, Succession
from engine.meta.domains.quarantine import QuarantinedPartition, encode_quarantine
from engine.meta.status.waits import Kind, list_waits
from engine.runtime.domains.view_metrics import ViewCollector
from tests.crash.program.steps import Program

COUNTER = "snapshot_backfill_consume_row_count_total"
BY_G = "SELECT g, count(*) AS n FROM a GROUP BY g"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Tables and one seeded process without faults."""
    made = Program(1, tmp_path, steps=0)
    made.objects.plan.rate = 0.0
    return made


def put_row(program: Program, number: int) -> None:
    rows = pa.table({"id": [number], "g": [number % 3], "x": [number]})
    program.store.ingest_batch({"a": [Put(rows)]})


def read_metrics(program: Program) -> dict[str, float]:
    views = ViewCollector(lambda: program.store.refresh(), program.clock)
    lines = render_metrics(program.store.metrics, views).splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def test_rows_are_counted_by_phase_and_lag_by_view(program: Program) -> None:
    pytest.importorskip("prometheus_client")
    while len(program.rows["a"]) < 10:
        program._write()
    program._commit_view("v", BY_G, {"background": "true"})
    assert read_metrics(program)['tideline_waiting_domains{kind="due"}'] == 1
    held = Succession("_next_v", {}, held="rows_changed is 3")
    program.store.commit(Commit(catalog=SUCCESSIONS.record("v", held)))
    assert read_metrics(program)['tideline_waiting_domains{kind="gate"}'] == 1
    program.store.commit(Commit(catalog=SUCCESSIONS.remove("v")))
    program.flusher.run(background_seconds=5.0)
    rows = len(program.rows["a"])
    found = read_metrics(program)
    snapshot = found[f'{COUNTER}{{phase="consuming_snapshot",view="v"}}']
    assert abs(snapshot - rows) <= 2 and found['tideline_view_lag_seconds{view="v"}'] == 0
    while not read_metrics(program)['tideline_waiting_domains{kind="due"}']:
        program._write()
    program.clock.sleep(5.0)
    assert read_metrics(program)['tideline_view_lag_seconds{view="v"}'] >= 5
    reports = [program.flusher.run()["v"]]
    while reports[-1].backfill_phase != "consume_upstream" and len(reports) < 3:
        reports.append(program.flusher.run()["v"])
    found = read_metrics(program)
    log = found[f'{COUNTER}{{phase="consuming_log_store",view="v"}}']
    assert log == sum(report.consumed.get("consuming_log_store", 0) for report in reports) > 0
    assert reports[-1].backfill_phase == "consume_upstream"


def test_partitions_in_quarantine_are_counted_beside_the_domains_that_wait(program: Program) -> None:
    pytest.importorskip("prometheus_client")
    program._commit_view("v", BY_G, {})
    behind = {key: QuarantinedPartition(None, "no", 1, 1, 0.0, 0.0) for key in ("1", "2")}
    program.store.commit(Commit(catalog=encode_quarantine("v", behind)))
    found = read_metrics(program)
    assert {kind: found[f'tideline_waiting_domains{{kind="{kind}"}}'] for kind in get_args(Kind)} == {
        **dict.fromkeys(get_args(Kind), 0),
        "due": 1,
        "quarantined": 2,
    }
    assert found['tideline_waiting_seconds{domain="v",kind="quarantined"}'] >= 0
    assert found["tideline_rows_set_aside"] == 0


def test_sinks_tell_how_far_they_are_behind(program: Program) -> None:
    pytest.importorskip("prometheus_client")
    program._commit_view("v", BY_G, {})
    put_row(program, 1)
    program.flusher.run().raise_for_errors()
    program.trace.append("a sink")
    program._create_sink()
    sinks = {line for line in read_metrics(program) if line.startswith("tideline_sink_")}
    names = {line.partition("{")[0] for line in sinks}
    assert names == {"tideline_sink_lag_seconds", "tideline_sink_lag_rows", "tideline_sink_phase"}
    assert sum('phase="' in line for line in sinks) == sum("lag_rows" in line for line in sinks) >= 1


def test_epochs_are_sealed_until_a_checkpoint_is_due_by_number_or_by_time(program: Program) -> None:
    program._commit_view("v", BY_G, {"checkpoint_frequency": "5"})
    put_row(program, 1)
    assert program.flusher.run()["v"].epoch is not None

    def kinds() -> list[str]:
        version = program.store.refresh()
        return [wait.kind for wait in list_waits(version, load_catalog(version), program.clock())]

    for n in range(4):
        put_row(program, n)
        report = program.flusher.run(eager=False)
        assert kinds() == ["barrier"] and f"{n + 1} of 5 barriers" in str(report["v"].waits_for)
    put_row(program, 9)
    assert program.flusher.run(eager=False)["v"].rows_in == 5 and kinds() == []
    put_row(program, 10)
    assert kinds() == ["barrier"]
    program.clock.sleep(5.0)
    assert kinds() == ["due"] and not program.flusher.run(eager=False)["v"].skipped
    put_row(program, 11)
    assert not program.flusher.run()["v"].skipped  # FLUSH does not wait
