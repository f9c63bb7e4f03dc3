"""Random programs with crashes at any object-store call keep every invariant of the control plane and the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
