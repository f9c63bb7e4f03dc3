"""A short run of the fuzzer over landing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.fuzz_landing import run


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files_stop_no_other_and_are_told(tmp_path: Path, seed: int) -> None:
    done = run(tmp_path, 40, seed)
    assert done.rows > 1000 and done.dead > 100 and done.certain > 500
