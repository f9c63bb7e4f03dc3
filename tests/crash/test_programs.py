"""Random programs with crashes at any object-store call keep every invariant of the control plane and the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Put
from engine.meta.domains.failures import list_failures
from engine.runtime.executor import FragmentTask
from engine.runtime.statements.drop import drop_relation
from engine.sql.statements import reader as st
from engine.testing.faulty import Crashed
from tests.crash.program.steps import Program
from tests.crash.program.view_verbs import OTHERS, SHAPES
from tests.long_rest import mark_rest_long

SEEDS = int(os.environ.get("TIDELINE_SEEDS", "1000"))
LANES = 20


@pytest.mark.parametrize("seed", mark_rest_long(range(6), keep=3))
def test_a_program_with_crashes_keeps_every_invariant(seed: int, tmp_path: Path) -> None:
    Program(seed, tmp_path).run()


@pytest.mark.crash
@pytest.mark.parametrize("lane", range(LANES))
def test_many_programs_with_crashes_keep_every_invariant(lane: int, tmp_path: Path) -> None:
    for seed in range(lane, SEEDS, LANES):
        Program(seed, tmp_path / str(seed)).run()


@pytest.mark.parametrize("way", ["its rows stay", "made anew"])
def test_a_changed_model_that_is_killed_between_any_two_requests_is_there_or_is_not(
    way: str, tmp_path: Path
) -> None:
    other, killed = OTHERS[SHAPES[0]], []
    for at in range(1, 100):
        program = Program(0, tmp_path / str(at))
        program.objects.plan.rate = 0.0
        _views_with_readers(program)
        change = program._change_to if way == "its rows stay" else program._replace_by
        program.objects.plan.crash_at = program.objects.requests + at
        try:
            change("v", other)
        except Crashed:
            program._open()
            program._find_out()
            program._changed()
            killed.append(program.texts["v"] == other)
        program.objects.plan.crash_at = None
        program._settle()
        if len(killed) < at:
            break
    assert program.texts["v"] == other and False in killed and True in killed


def _views_with_readers(program: Program) -> None:
    """Make a view of table `a` that a view, a sink of files and a sink into a table read, and bring all to the present."""
    program.trace.append("made")
    program._put({"a": {n: (n % 6, n) for n in range(30)}})
    for name, text in (("v", SHAPES[0]), ("w", "SELECT id, count(*) AS n FROM v GROUP BY id")):
        program.texts[name] = text
        program._commit_view(name, text, {})
    program._new_sink(program._outside(), "v")
    program._new_into("newest", "v")
    program.flusher.run()
    program._deliver_what_waits()
    program.check()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program without faults, its table `a` filled."""
    program = Program(0, tmp_path)
    program.objects.plan.rate = 0.0
    rows = {name: pa.array(range(200), pa.int64()) for name in ("id", "g", "x")}
    program.store.ingest_batch({"a": [Put(pa.table(rows))]})
    return program


LINEAR = "SELECT id, x * 2 AS x2 FROM a"


def test_a_failure_is_over_when_the_backfill_of_its_domain_goes_on(program: Program) -> None:
    program._commit_view("v", LINEAR, {"background": "true"})
    program.failing = {"v"}
    program.flusher.run(background_seconds=60.0)
    assert list(list_failures(program.store.refresh())) == ["v"]
    program.failing = set()
    program.flusher.run(background_seconds=60.0)
    assert not list_failures(program.store.refresh())


def test_a_failure_is_over_when_the_view_that_failed_leaves_its_domain(program: Program) -> None:
    program._commit_view("v", LINEAR, {"domain": "red"})
    program.flusher.run()
    program._commit_view("w", LINEAR, {"domain": "red"})
    program.failing = {"w"}
    program.flusher.run()
    assert list(list_failures(program.store.refresh())) == ["red"]
    drop_relation(program.store, st.Drop("materialized view", "w", False, False, ""))
    assert not list_failures(program.store.refresh())


@pytest.mark.parametrize("background", ["true", "false"])
def test_a_view_that_is_dropped_while_it_is_computed_leaves_nothing_behind(
    program: Program, background: str
) -> None:
    def drop_now(task: FragmentTask) -> None:
        drop_relation(program.store, st.Drop("materialized view", "v", True, False, ""))

    program._commit_view("v", LINEAR, {"background": background})
    program.flusher.executor._before = drop_now  # type: ignore[attr-defined]
    report = program.flusher.run(background_seconds=60.0)
    version = program.store.refresh()
    assert not report.failed and "v" not in version.tables and not version.tables["a"].acks
    assert not [key for key in version.catalog if key.endswith("/v")]
