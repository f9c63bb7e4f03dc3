"""What is said of a domain that failed, before and after its time to be tried again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Put
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.waits import DomainWait, list_waits
from tests.crash.program.steps import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program without faults: the view v over a fails, w reads v, and free over a does not."""
    program = Program(0, tmp_path)
    program.objects.plan.rate = 0.0
    program._commit_view("v", "SELECT id, x * 2 AS x2 FROM a", {})
    program._commit_view("free", "SELECT id, x AS y FROM a", {})
    program._commit_view("w", "SELECT count(*) AS n FROM v", {})
    program.flusher.run()
    program.failing = {"v"}
    write(program)
    return program


def write(program: Program) -> None:
    program.clock.sleep(1.0)
    rows = {name: pa.array(range(5), pa.int64()) for name in ("id", "g", "x")}
    program.store.ingest_batch({"a": [Put(pa.table(rows))]})


def map_waits(program: Program) -> dict[str, DomainWait]:
    version = program.store.refresh()
    return {wait.domain: wait for wait in list_waits(version, load_catalog(version), program.clock())}


def test_a_failing_view_says_that_it_failed_why_and_when_it_is_tried_again(program: Program) -> None:
    program.flusher.run()
    wait = map_waits(program)["v"]
    assert wait.kind == "failed" and not wait.goes_on
    assert "v is made to fail" in wait.reason and "tried again after" in wait.reason
    program.clock.sleep(60.0)  # its time has come, and no run has
    wait = map_waits(program)["v"]
    assert wait.kind == "failed" and "v is made to fail" in wait.reason and "failed once" in wait.reason
    assert "tried again by the next run" in wait.reason and wait.goes_on
    assert wait.until is not None and wait.until < program.clock()


def test_when_its_time_has_come_the_next_run_takes_a_failed_view_and_what_reads_it(program: Program) -> None:
    program.flusher.run()
    program.flusher.run(eager=False)
    assert "failed once" in map_waits(program)["v"].reason  # it was left alone
    program.clock.sleep(60.0)
    assert map_waits(program)["w"].goes_on
    program.failing = set()
    report = program.flusher.run(eager=False)
    assert not report.failed and not map_waits(program)
