"""Who committed an epoch is told as far as manifests are stored, and no more of them are read than that takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock, Put
from engine.hummock.manifests.delta import Delta
from engine.meta.epochs.barrier import Barrier, OpenBarrier, close_barrier, record_barrier
from engine.meta.epochs.commit_history import CommitRecord, find_commits

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", auto_compact="off") as opened:
        opened.create_table("t", SCHEMA, ["id"])
        yield opened


def write(store: Hummock, number: int, table: str = "t") -> int:
    return store.ingest_batch({table: Put(pa.table({"id": [number]}, SCHEMA))})


def test_a_domains_commit_is_told_with_its_barrier(store: Hummock) -> None:
    generation = store.claim("domain/d")
    label = store.version.epoch
    barrier = Barrier(label - 1, label)
    store.commit(Commit(catalog=record_barrier("d", OpenBarrier(barrier, ("t",), 0.0, 0.0))))
    written = write(store, 1)
    ssts = store.version.tables["t"].log[-1].ssts
    label = written + 1
    barrier = Barrier(written, label)
    store.commit(Commit(catalog=record_barrier("d", OpenBarrier(barrier, ("t",), 0.0, 0.0))))
    write_other = store.create_table("other", SCHEMA, ["id"])
    assert write_other.name == "other"
    closing = close_barrier(store.version, "d")
    made = store.commit(
        Commit(
            writes={"t": ssts}, epochs={"t": label}, catalog=closing, writer="domain/d", generation=generation
        )
    )
    found = find_commits(store.iterate_deltas(), "t", [label, written])
    assert found[label] == CommitRecord(made.number, made.epoch, "domain/d", barrier)
    assert found[label].domain == "d"
    assert found[written].writer is None and found[written].domain is None and found[written].barrier is None


def test_commits_are_found_across_many_manifests_and_other_names(store: Hummock) -> None:
    first = write(store, 1)
    for number in range(70):
        last = write(store, number)
    store.alter_table("t", add=[pa.field("v", pa.int64())])
    found = find_commits(store.iterate_deltas(), "t", [first, last])
    assert [found[epoch].epoch for epoch in (first, last)] == [first, last]
    assert found[last].manifest - found[first].manifest == 70
    assert find_commits(store.iterate_deltas(), "t", [last + (1 << 20)]) == {}


def test_a_table_of_the_same_name_before_is_another_one(store: Hummock) -> None:
    before = write(store, 1)
    store.drop_table("t")
    store.create_table("t", SCHEMA, ["id"])
    after = write(store, 1)
    assert find_commits(store.iterate_deltas(), "t", [before, after]).keys() == {after}


def test_no_manifest_is_read_that_is_older_than_what_is_asked(store: Hummock) -> None:
    for number in range(5):
        last = write(store, number)
    read: list[Delta] = []

    def watch() -> Iterator[Delta]:
        for delta in store.iterate_deltas():
            read.append(delta)
            yield delta

    assert find_commits(watch(), "t", [last])[last].epoch == last
    assert len(read) <= 2 and find_commits(watch(), "t", []) == {} and len(read) <= 3
