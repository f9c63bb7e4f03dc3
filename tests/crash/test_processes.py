"""Random programs in processes on Spark that are killed and stopped for good measure end with every invariant kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.processes import ProcessProgram

SEEDS = int(os.environ.get("TIDELINE_SPARK_SEEDS", "50"))


@pytest.mark.long
def test_a_program_that_is_killed_on_spark_keeps_every_invariant(tmp_path: Path) -> None:
    ProcessProgram(0, tmp_path, "local[1]", lives=2).run()


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(SEEDS))
def test_many_programs_that_are_killed_on_spark_keep_every_invariant(seed: int, tmp_path: Path) -> None:
    ProcessProgram(seed, tmp_path).run()
