"""The benchmark of landing runs: it writes the records of files as the source does."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.landing import measure_ingested


@pytest.mark.long
def test_a_look_at_a_folder_of_taken_files_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure_ingested(20, tmp_path)
    assert capsys.readouterr().out.startswith("20 taken: tick cold ")
