"""What the landing source makes of the fuzzer's files, held against DuckDB and pyarrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.judges import Verdicts, run

TAKEN = ("landed as duckdb and pyarrow read it", "landed as duckdb read it", "landed as pyarrow read it")


def check(found: Verdicts) -> None:
    """Assert that nothing lands without a word that others read as something else."""
    assert not found.against()
    alone = [
        one
        for (form, kind), some in found.examples.items()
        if form == "parquet" and kind.startswith("landed") and kind not in TAKEN
        for one in some
    ]
    assert not alone, "what is in a Parquet file is no matter of taste"
    good = [
        one
        for (_, kind), some in found.examples.items()
        if kind not in TAKEN
        for one in some
        if ": good-" in one
    ]
    assert not good


def test_mutated_files_land_as_others_read_them_or_are_told(tmp_path: Path) -> None:
    found = run(tmp_path, 25, seed=1)
    check(found)
    assert sum(count for (_, kind), count in found.counts.items() if kind in TAKEN) > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_mutated_files_land_as_others_read_them_or_are_told(tmp_path: Path, seed: int) -> None:
    check(run(tmp_path, 400, seed=seed))
