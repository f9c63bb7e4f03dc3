"""Garbage collection deletes what nothing needs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import Conflict
from engine.hummock import Commit, Hummock, Put, Table
from tests.hummock.conftest import MovableClock, content, rows


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "store" / "sst").iterdir()}


def test_an_orphan_goes_after_the_grace_time_and_a_live_file_never(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    live = files(tmp_path)
    store.reader.write_run(table, rows({2: "b"}).append_column("_op", pa.array([0], pa.uint8())))
    assert store.gc(grace_seconds=3600).deleted_objects == 0
    clock.added += 4000
    assert store.gc(dry_run=True, grace_seconds=3600).deleted_objects == 1
    assert len(files(tmp_path)) == 2
    assert store.gc(grace_seconds=3600).deleted_objects == 1
    assert files(tmp_path) == live
    assert content(store) == {1: "a"}


def test_a_file_named_before_the_horizon_can_not_be_committed_any_more(
    store: Hummock, table: Table, clock: MovableClock, open_store: Callable
) -> None:
    slow = open_store()
    ssts = slow.reader.write_run(table, rows({2: "b"}).append_column("_op", pa.array([0], pa.uint8())))
    clock.added += 4000
    store.gc(grace_seconds=3600)
    with pytest.raises(Conflict, match="horizon"):
        slow.commit(Commit(writes={"t": ssts}))
    assert content(store) == {}


def test_compacted_files_go_when_history_and_grace_are_over(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.ingest_batch({table: [Put(rows({1: "b"}))]})
    store.compact(table)
    store.gc(grace_seconds=3600)
    assert len(files(tmp_path)) == 3
    clock.added += 1000  # beyond the retention: history is cut, its files still have their grace time
    store.gc(grace_seconds=3600)
    assert len(files(tmp_path)) == 3
    clock.added += 4000
    store.gc(grace_seconds=3600)
    assert len(files(tmp_path)) == 1
    assert content(store) == {1: "b"}


def test_the_files_of_a_dropped_table_go(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.drop_table(table)
    clock.added += 10
    store.gc(grace_seconds=3600)
    assert len(files(tmp_path)) == 1
    clock.added += 4000
    store.gc(grace_seconds=3600)
    assert files(tmp_path) == set()


def test_old_manifests_go_and_the_store_opens_from_the_checkpoint(
    store: Hummock, table: Table, clock: MovableClock, open_store: Callable
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    for step in range(140):
        store.commit(Commit(catalog={"step": str(step)}))
    clock.added += 4000
    report = store.gc(grace_seconds=3600)
    assert report.deleted_manifests == 127
    opened = open_store()
    assert opened.version == store.version
    assert content(opened) == {1: "a"}


def test_what_a_collector_left_that_died_before_its_deletions_goes_with_the_next(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock
) -> None:
    for step in range(140):
        store.commit(Commit(catalog={"step": str(step)}))
    clock.added += 4000
    (tmp_path / "store/manifest/boundary").write_text("127")
    assert store.gc(grace_seconds=3600).deleted_manifests == 127


def test_a_manifest_that_was_torn_while_it_was_written_goes_after_the_grace_time(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock
) -> None:
    torn = tmp_path / "store/manifest/.tmp-0123"
    torn.write_bytes(b"TLM")
    store.gc(grace_seconds=3600)
    assert torn.exists()
    clock.added += 4000
    store.gc(grace_seconds=3600)
    assert not torn.exists()


def test_a_boundary_that_another_collector_lowered_is_raised_again(
    store: Hummock, table: Table, tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(140):
        store.commit(Commit(catalog={"step": str(step)}))
    clock.added += 4000
    boundary, delete = tmp_path / "store/manifest/boundary", store.objects.inner.delete  # type: ignore[attr-defined]

    def another_is_slower(paths: list[str]) -> None:
        delete(paths)
        boundary.write_text("63")

    monkeypatch.setattr(store.objects.inner, "delete", another_is_slower)  # type: ignore[attr-defined]
    store.gc(grace_seconds=3600)
    assert boundary.read_text() == "127"
