"""Two processes that flush the same views: reads of all of them find an epoch that is no older than the last whole flush."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import flusher


@pytest.mark.long
def test_after_a_flush_reads_of_all_views_reach_what_was_there_before_it(tmp_path: Path) -> None:
    url, cache = (tmp_path / "store").as_uri(), str(tmp_path / "cache")
    flusher.create(url, cache)
    command = [sys.executable, "-W", "ignore", "-m", "tests.crash.flusher", url, cache]
    running = [subprocess.Popen([*command, str(n), "15"], stdout=subprocess.PIPE, text=True) for n in (1, 2)]
    reports = [
        json.loads(line) for process in running for line in process.communicate(timeout=300)[0].splitlines()
    ]
    assert [process.returncode for process in running] == [0, 0]
    assert len(reports) == 30 and all(line["same"] for line in reports)
    late = [line for line in reports if line["whole"] and line["read"] < line["written"]]
    assert not late, f"{len(late)} of {len(reports)} flushes were followed by a read of an older state"
