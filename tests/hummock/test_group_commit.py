"""Commits of threads share manifests; each has its own epoch, outcome and error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import Conflict, StorageError, UnknownTable
from engine.hummock import Commit, Hummock, Put, Table, Version
from engine.hummock.object_store.local import LocalObjectStore
from tests.hummock.conftest import SCHEMA, content, rows


class GatedStore(LocalObjectStore):
    """Holds the next manifest back until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.arrived, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.fails = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.arrived.set()
        assert self.go.wait(30)
        if self.fails:
            raise StorageError("the bucket is gone")
        return super().put_if_absent(path, data)


@pytest.fixture
def gate(tmp_path: Path) -> GatedStore:
    return GatedStore(tmp_path / "store")


@pytest.fixture
def gated(gate: GatedStore, tmp_path: Path) -> Hummock:
    store = Hummock.open((tmp_path / "store").as_uri(), cache_dir=tmp_path / "cache", object_store=gate)
    for n in range(8):
        store.create_table(f"t{n}", SCHEMA, ["id"], ["id"])
    return store


def together(store: Hummock, gate: GatedStore, works: list[Callable[[], object]]) -> list[object]:
    """Run one commit that is held back, meanwhile start `works`, then let all go; results or errors in order."""
    results: list[object] = [None] * len(works)

    def run(n: int, work: Callable[[], object]) -> None:
        try:
            results[n] = work()
        except Exception as error:
            results[n] = error

    gate.go.clear()
    gate.arrived.clear()
    first = threading.Thread(target=lambda: store.commit(Commit(catalog={"first": "1"})))
    first.start()
    assert gate.arrived.wait(30)
    threads = [threading.Thread(target=run, args=(n, work)) for n, work in enumerate(works)]
    waiting = store._chain._waiting
    for n, thread in enumerate(threads, start=1):
        thread.start()
        while len(waiting) < n:
            thread.join(0.001)
    gate.go.set()
    for thread in (first, *threads):
        thread.join()
    return results


def test_commits_that_wait_share_one_manifest_and_keep_their_own_epochs(
    gated: Hummock, gate: GatedStore, tmp_path: Path
) -> None:
    before = gated.version.number
    epochs = together(
        gated, gate, [lambda n=n: gated.ingest_batch({f"t{n}": Put(rows({n: "x"}))}) for n in range(8)]
    )
    assert gated.version.number == before + 2
    assert len(set(epochs)) == 8
    for n, epoch in enumerate(epochs):
        assert content(gated, f"t{n}") == content(gated, f"t{n}", epoch) == {n: "x"}
        assert content(gated, f"t{n}", epoch - 1) == {}
    reopened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=tmp_path / "cache")
    assert reopened.version == gated.version


def test_a_refused_commit_does_not_disturb_those_beside_it(gated: Hummock, gate: GatedStore) -> None:
    def unchanged(version: Version) -> None:
        raise Conflict("changed")

    results = together(
        gated,
        gate,
        [
            lambda: gated.ingest_batch({"t0": Put(rows({1: "a"}))}),
            lambda: gated.commit(Commit(precondition=unchanged)),
            lambda: gated.commit(Commit(drop=("nowhere",))),
            lambda: gated.drop_table("t1"),
            lambda: gated.ingest_batch({"t1": Put(rows({1: "a"}))}),
            lambda: gated.claim("job"),
            lambda: gated.claim("job"),
        ],
    )
    assert isinstance(results[1], Conflict)
    assert isinstance(results[2], UnknownTable)
    assert sorted(results[5:]) == [1, 2]  # type: ignore[type-var]
    assert content(gated, "t0") == {1: "a"}
    assert "t1" not in gated.version.tables


def test_all_that_share_a_manifest_learn_that_it_failed(gated: Hummock, gate: GatedStore) -> None:
    gate.fails = True
    with pytest.raises(StorageError, match="bucket is gone"):
        gated.commit(Commit(catalog={"x": "1"}))
    gate.fails = False
    assert gated.ingest_batch({"t0": Put(rows({1: "a"}))})


def test_commits_that_share_a_manifest_are_rebased_on_the_winner_together(
    gated: Hummock, gate: GatedStore, open_store: Callable[..., Hummock]
) -> None:
    other = open_store()
    others = [other.ingest_batch({"t7": Put(rows({step: "theirs"}))}) for step in range(5)]
    epochs = together(
        gated, gate, [lambda n=n: gated.ingest_batch({f"t{n}": Put(rows({n: "x"}))}) for n in range(3)]
    )
    assert min(epochs) > max(others)  # type: ignore[type-var]
    assert content(gated, "t7") == {step: "theirs" for step in range(5)}
    assert [content(gated, f"t{n}") for n in range(3)] == [{n: "x"} for n in range(3)]


def test_threads_that_write_one_table_at_once_lose_nothing(store: Hummock, table: Table) -> None:
    def write(part: int) -> None:
        for step in range(10):
            store.ingest_batch({table: [Put(rows({part * 100 + step: str(part)}))]})

    threads = [threading.Thread(target=write, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(content(store)) == 80
    assert store._chain.list_numbers() == list(range(1, store.version.number + 1))


class LateStore(LocalObjectStore):
    """Loses the first manifest after `late` is set, and lets it appear when the number is tried again."""

    late = False
    held: tuple[str, bytes] | None = None

    def put_if_absent(self, path: str, data: bytes) -> bool | None:  # type: ignore[override]
        if self.late:
            self.late, self.held = False, (path, data)
            return None
        if self.held is not None:
            held, self.held = self.held, None
            super().put_if_absent(*held)
        return super().put_if_absent(path, data)


def test_a_manifest_that_arrives_after_it_was_looked_for_is_not_committed_twice(tmp_path: Path) -> None:
    objects = LateStore(tmp_path / "s")
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", object_store=objects)
    table = store.create_table("t", SCHEMA, ["id"])
    before = store.version.number
    objects.late = True
    epoch = store.ingest_batch({table: Put(rows({1: "a"}))})
    assert store.version.number == before + 1
    assert store.version.tables["t"].committed_epoch == epoch
    assert len(store.version.tables["t"].log) == 1
