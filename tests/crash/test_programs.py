"""Random programs with crashes at any object-store call keep every invariant of the control plane and the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Put
from engine.meta.recovery import failures
from tests.crash.program import Program

SEEDS = int(os.environ.get("TIDELINE_SEEDS", "1000"))
LANES = 20


@pytest.mark.parametrize("seed", range(6))
def test_a_program_with_crashes_keeps_every_invariant(seed: int, tmp_path: Path) -> None:
    Program(seed, tmp_path).run()


@pytest.mark.crash
@pytest.mark.parametrize("lane", range(LANES))
def test_many_programs_with_crashes_keep_every_invariant(lane: int, tmp_path: Path) -> None:
    for seed in range(lane, SEEDS, LANES):
        Program(seed, tmp_path / str(seed)).run()


def test_a_failure_is_over_when_the_backfill_of_its_domain_goes_on(tmp_path: Path) -> None:
    program = Program(0, tmp_path)
    program.objects.plan.rate = 0.0
    rows = {name: pa.array(range(200), pa.int64()) for name in ("id", "g", "x")}
    program.store.ingest_batch({"a": [Put(pa.table(rows))]})
    program._commit_view("v", "SELECT id, x * 2 AS x2 FROM a", {"background": "true"})
    program.failing = {"v"}
    program.flusher.run(background_seconds=60.0)
    assert list(failures(program.store.refresh())) == ["v"]
    program.failing = set()
    program.flusher.run(background_seconds=60.0)
    assert not failures(program.store.refresh())
