"""Random programs whose driver crashes end right, whether fragments are computed in one task or each by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.shared.program import SharedProgram

SEEDS = int(os.environ.get("TIDELINE_SHARED_SEEDS", "6"))


@pytest.mark.crash
@pytest.mark.parametrize("one_task", [True, False], ids=["one task", "one by one"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_program_whose_driver_crashes_ends_right(
    seed: int, one_task: bool, tmp_path: Path, spark: SparkSession
) -> None:
    program = SharedProgram(seed, tmp_path, spark, one_task=one_task)
    program.run()
    assert program.judge.in_time
    assert bool(program.shared) == one_task
