"""A short run of the fuzzer over landing files."""

from __future__ import annotations

from pathlib import Path

from tests.connectors.fuzz_landing import run


def test_mutated_files_stop_no_other_and_are_told(tmp_path: Path) -> None:
    done = run(tmp_path, 80, seed=1)
    assert done.rows > 1000 and done.dead > 100 and done.certain > 500
