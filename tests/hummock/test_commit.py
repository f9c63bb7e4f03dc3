"""The chain of manifests: races, fencing, labels, ambiguous answers, damage."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import (
    CommitTimeout,
    Conflict,
    CorruptObject,
    Fenced,
    InvariantViolation,
    StorageFull,
    UnknownTable,
)
from engine.hummock import Commit, Delete, Hummock, Put, Table, Version
from engine.hummock.object_store.local import LocalObjectStore
from tests.hummock.conftest import SCHEMA, MovableClock, content, rows


def run_of(store: Hummock, table: Table, values: dict[int, str]) -> list:
    given = rows(values).append_column("_op", pa.array([0] * len(values), pa.uint8()))
    return store.reader.write_run(table, given)


def test_epochs_rise_and_manifests_are_numbered_without_gaps(
    store: Hummock, table: Table, clock: MovableClock
) -> None:
    epochs = []
    for step in range(5):
        clock.added -= 10 * step  # a clock that goes back must not matter
        epochs.append(store.ingest_batch({table: [Put(rows({step: "x"}))]}))
    assert epochs == sorted(set(epochs))
    assert store._chain.list_numbers() == list(range(1, store.version.number + 1))


def test_a_store_is_the_same_when_opened_from_a_checkpoint(
    store: Hummock, table: Table, open_store: Callable
) -> None:
    for step in range(150):
        store.commit(Commit(catalog={f"k{step % 7}": str(step)}))
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    store.compact(table)
    store.claim("w")
    opened = open_store().version
    assert opened == store.version
    assert opened.number > 128


def test_two_handles_that_race_both_commit(store: Hummock, table: Table, open_store: Callable) -> None:
    other = open_store()
    store.ingest_batch({table: [Put(rows({1: "mine"}))]})
    other.ingest_batch({"t": [Put(rows({2: "theirs"}))]})
    assert content(other) == {1: "mine", 2: "theirs"}
    store.refresh()
    assert content(store) == {1: "mine", 2: "theirs"}


def test_a_handle_far_behind_catches_up(store: Hummock, table: Table, open_store: Callable) -> None:
    behind = open_store()
    for step in range(80):
        store.commit(Commit(catalog={"step": str(step)}))
    assert behind.refresh() == store.version


def test_threads_share_one_handle(store: Hummock, table: Table) -> None:
    def write(part: int) -> None:
        for step in range(5):
            store.ingest_batch({table: [Put(rows({part * 100 + step: str(part)}))]})

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(content(store)) == 20


def test_an_older_writer_generation_is_fenced(store: Hummock, table: Table, open_store: Callable) -> None:
    zombie = store.claim("job")
    successor = open_store().claim("job")
    assert successor == zombie + 1
    with pytest.raises(Fenced, match="taken over"):
        store.commit(Commit(writer="job", generation=zombie))
    store.commit(Commit(writer="job", generation=successor))


def test_a_label_is_the_epoch_of_the_inputs_and_must_rise(store: Hummock, table: Table) -> None:
    base = store.version.epoch
    store.commit(Commit(writes={"t": run_of(store, table, {1: "a"})}, epochs={"t": base - 5}))
    version = store.version.tables["t"]
    assert (version.committed_epoch, version.find_first_change(0)) == (base - 5, base - 5)
    store.commit(Commit(epochs={"t": base}))
    assert store.version.tables["t"].committed_epoch == base
    assert store.version.tables["t"].find_first_change(base - 5) is None
    with pytest.raises(InvariantViolation, match="cannot be written any more"):
        store.commit(Commit(writes={"t": run_of(store, table, {2: "b"})}, epochs={"t": base}))
    with pytest.raises(Fenced, match="job"):
        store.commit(Commit(epochs={"t": base - 1}, writer="job"))
    with pytest.raises(InvariantViolation, match="above"):
        store.commit(Commit(epochs={"t": 1 << 62}))
    assert content(store) == {1: "a"}


def test_a_table_is_created_with_its_first_content_and_acks(store: Hummock) -> None:
    store.create_table("source", SCHEMA, ["id"])
    view = Table("view", SCHEMA, ("id",), ("id",))
    upto = store.version.epoch
    store.commit(
        Commit(
            create=(view,),
            writes={"view": run_of(store, view, {1: "a"})},
            epochs={"view": upto},
            acks={"source": {"view": upto}},
            catalog={"plan": "text"},
        )
    )
    assert store.version.tables["view"].committed_epoch == upto
    assert store.version.tables["source"].acks == {"view": upto}
    assert store.version.catalog == {"plan": "text"}
    store.commit(Commit(drop=("view",), acks={"source": {"view": None}}, catalog={"plan": None}))
    assert (dict(store.version.tables["source"].acks), dict(store.version.catalog)) == ({}, {})


def test_a_commit_that_names_a_dropped_table_fails_clearly(store: Hummock, table: Table) -> None:
    ssts = run_of(store, table, {1: "a"})
    store.drop_table("t")
    with pytest.raises(UnknownTable, match="no table t"):
        store.commit(Commit(writes={"t": ssts}))


def test_a_write_to_a_table_created_again_meanwhile_is_refused(
    store: Hummock, table: Table, open_store
) -> None:
    other = open_store()
    store.drop_table("t")
    store.create_table("t", SCHEMA, ["id"])
    with pytest.raises(Conflict, match="created again"):
        other.ingest_batch({"t": [Put(rows({1: "a"}))]})


def test_the_precondition_sees_each_version_the_attempt_is_based_on(
    store: Hummock, table: Table, open_store
) -> None:
    other = open_store()
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    seen: list[int] = []

    def unchanged(version: Version) -> None:
        seen.append(version.number)
        if version.tables["t"].committed_epoch:
            raise Conflict("changed")

    with pytest.raises(Conflict, match="changed"):
        other.ingest_batch({"t": [Put(rows({1: "b"}))]}, precondition=unchanged)
    assert seen == [store.version.number - 1, store.version.number]
    assert content(store) == {1: "a"}


class LossyStore(LocalObjectStore):
    """Creates the object, and loses the answer."""

    def put_if_absent(self, path: str, data: bytes) -> bool | None:  # type: ignore[override]
        super().put_if_absent(path, data)
        return None


def test_a_lost_answer_is_resolved_by_reading_back(tmp_path: Path) -> None:
    url = (tmp_path / "s").as_uri()
    store = Hummock.open(url, cache_dir=tmp_path / "c", object_store=LossyStore(tmp_path / "s"))
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": [Put(rows({1: "a"}))]})
    assert store.version.number == 2
    assert content(Hummock.open(url, cache_dir=tmp_path / "c")) == {1: "a"}


class FullStore(LocalObjectStore):
    """Others are always faster."""

    def put_if_absent(self, path: str, data: bytes) -> bool | None:  # type: ignore[override]
        return False


def test_a_commit_that_never_wins_ends_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.manifests.chain.COMMIT_SECONDS", 0.05)
    store = Hummock.open((tmp_path / "s").as_uri(), object_store=FullStore(tmp_path / "s"))
    with pytest.raises(CommitTimeout, match="lost"):
        store.claim("w")


def test_a_damaged_manifest_is_told_by_its_name(
    store: Hummock, table: Table, tmp_path: Path, open_store
) -> None:
    newest = max((tmp_path / "store" / "manifest").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptObject, match=newest.name):
        open_store()


def test_a_stalled_writer_cannot_win_a_number_that_was_collected(
    store: Hummock, table: Table, open_store: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = open_store()
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    for step in range(130):
        store.commit(Commit(catalog={"step": str(step)}))
    assert store._chain.collect(127) == 127
    monkeypatch.setattr("engine.hummock.manifests.chain.TRUSTED_SECONDS", -1.0)
    stalled.ingest_batch({"t": [Delete(pa.table({"id": [1]}))]})
    assert stalled.version.number == store.version.number + 1
    assert content(open_store()) == {}


def test_a_commit_for_which_there_is_no_room_is_certainly_not_there(
    store: Hummock, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.link", full)
    with pytest.raises(StorageFull, match="No space left"):
        store.ingest_batch({table: [Put(rows({1: "a"}))]})
    monkeypatch.setattr("os.link", link)
    assert content(store) == {}
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    assert content(store) == {2: "b"}
