"""Compactors of their own: several share the work, a killed one holds up nobody, writers wait where none keeps up."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import WriteStopped
from engine.hummock import Commit, Hummock, Put
from engine.hummock.compaction import Merge
from engine.hummock.compaction.lease import LEASE_SECONDS, find_lease, grant_lease, is_free
from engine.hummock.compaction.task import list_live_runs
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run
from engine.hummock.writes import write_stop
from engine.testing.manual_clock import ManualClock
from tests.hummock.apart import Apart
from tests.hummock.conftest import SCHEMA, content, rows


def filled(folder: Path, tables: int = 2) -> Hummock:
    """Return a store whose tables have many runs that nobody has merged."""
    store = Hummock.open((folder / "s").as_uri(), cache_dir=folder / "c", auto_compact="off")
    for n in range(tables):
        table = store.create_table(f"t{n}", SCHEMA, ["id"], ["id"])
        for step in range(20):
            store.ingest_batch({table: [Put(rows({step: str(step), 100 + step: "x"}))]})
    return store


def start(store: Hummock, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "engine.hummock.compaction", "--store", store.url, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_of_its_own_compacts_what_needs_it_and_ends(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = {name: content(store, name) for name in ("t0", "t1")}
    with start(store, "--once") as worker:
        assert worker.stdout is not None
        output = worker.stdout.read()
    assert worker.returncode == 0 and "t0: 20 runs -> 1" in output and "t1: 20 runs -> 1" in output
    version = store.refresh()
    assert not any(key.startswith("compaction/") for key in version.catalog)
    assert {name: content(store, name) for name in ("t0", "t1")} == before


def test_a_claimed_table_is_left_to_its_worker_until_the_claim_is_over(tmp_path: Path) -> None:
    store = filled(tmp_path)
    now = time.time()
    store.commit(Commit(catalog=grant_lease("t0", "another", now)))
    assert not is_free(store.version, "t0", "me", now + 1)
    assert is_free(store.version, "t0", "another", now + 1)
    assert is_free(store.version, "t0", "me", now + LEASE_SECONDS + 1)
    done = CompactionWorker(store, "me").run_once()
    assert [report.table for report in done] == ["t1"]
    store.commit(Commit(catalog=grant_lease("t0", "another", now - 2 * LEASE_SECONDS)))  # it has died
    assert [report.table for report in CompactionWorker(store, "me").run_once()] == ["t0"]
    assert find_lease(store.version, "t0") is None


def test_a_collection_takes_away_the_claims_of_dead_workers(tmp_path: Path) -> None:
    store = filled(tmp_path)
    now = time.time()
    store.commit(
        Commit(catalog=grant_lease("t0", "dead", now - 2 * LEASE_SECONDS) | grant_lease("t1", "alive", now))
    )
    store.drop_table("t0")
    store.gc()
    assert [key for key in store.version.catalog if key.startswith("compaction/")] == ["compaction/t1"]


def test_a_claim_is_renewed_while_the_executor_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges end when the claim has been renewed twice: a claim that nobody renews lets the test run into its time limit."""
    monkeypatch.setattr("engine.hummock.compaction.worker.HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 1)
    store = filled(tmp_path, tables=1)
    before, ends = content(store, "t0"), list[float]()

    class Slow(Apart):
        def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
            while len(set(ends)) < 3:
                claim = find_lease(store.refresh(), "t0")
                assert claim is not None and claim.worker == "me"
                ends.append(claim.expires)
            return super().merge(merge, ranges)

    executor = Slow(store)
    (report,) = CompactionWorker(store, "me", executor).run_once()
    assert report.runs_after == 1 and executor.merged and ends[-1] > ends[0]
    assert find_lease(store.version, "t0") is None and content(store, "t0") == before


def test_a_killed_compactor_leaves_the_store_as_it_was_to_readers(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = {name: content(store, name) for name in ("t0", "t1")}
    with start(store) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()  # it has done one table and is about to do more
        worker.kill()
    store.refresh()
    assert {name: content(store, name) for name in ("t0", "t1")} == before
    store.ingest_batch({"t0": [Put(rows({7: "after"}))]})
    assert content(store, "t0") == {**before["t0"], 7: "after"}


def test_a_writer_that_runs_flat_out_never_passes_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_stop, "WRITE_STOP_RUNS", 6)
    monkeypatch.setattr("engine.hummock.compaction.schedule.TIER_EVERY", 1000)  # nobody compacts by himself
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c")
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    most = 0
    for step in range(40):
        store.ingest_batch({table: [Put(rows({step: str(step)}))]})
        most = max(most, len(list_live_runs(store.version.tables["t"])))
    assert most == 6 and store.metrics().stalls > 0
    assert content(store) == {step: str(step) for step in range(40)}


def test_a_writer_nobody_relieves_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_stop, "WRITE_STOP_RUNS", 3)
    store = Hummock.open(
        (tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", auto_compact="off", clock=ManualClock()
    )
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    for step in range(3):
        store.ingest_batch({table: [Put(rows({step: "x"}))]})
    with pytest.raises(WriteStopped, match=r"table t has 3 runs .* Start a compactor"):
        store.ingest_batch({table: [Put(rows({9: "x"}))]})
    assert content(store) == {step: "x" for step in range(3)}
    store.compact(table)
    store.ingest_batch({table: [Put(rows({9: "x"}))]})
