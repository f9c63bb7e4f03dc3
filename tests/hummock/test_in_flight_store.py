"""Commits that are on their way: in their order, all behind one that is refused with it, and nothing visible before its manifest."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import platform
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from engine.errors import Conflict, Fenced, InvariantViolation, Unavailable, UnknownTable
from engine.hummock import Commit, Hummock, Version, with_new_keys
from engine.hummock.in_flight_store import SPOOL, InFlightStore
from engine.hummock.manifests.chain import Ticket
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.reads.reader import Reader

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


class HeldStore(LocalObjectStore):
    """A directory that answers to writes only while its gate is open, or not at all."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    def put(self, path: str, data: bytes | memoryview) -> None:
        self.gate.wait(30)
        if self.broken and path.startswith("sst"):
            raise Unavailable("the store is away")
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        self.gate.wait(30)
        return super().put_if_absent(path, data)


@pytest.fixture
def held(tmp_path: Path) -> HeldStore:
    return HeldStore(tmp_path / "store")


@pytest.fixture
def base(held: HeldStore, tmp_path: Path) -> Iterator[Hummock]:
    url = (tmp_path / "store").as_uri()
    with Hummock.open(url, object_store=held, cache_dir=tmp_path / "cache", auto_compact="off") as store:
        yield store


@pytest.fixture(params=[True, False], ids=["spooled", "direct"])
def ahead(base: Hummock, held: HeldStore, request: pytest.FixtureRequest) -> Iterator[InFlightStore]:
    base.create_table("t", SCHEMA, ["id"])
    with InFlightStore(base, spool=request.param) as store:
        yield store
        held.gate.set()


def past(store: Hummock, count: int) -> list[int]:
    """Return epochs that are past, ascending: labels may be no future."""
    return [store.commit(Commit(catalog={"k": str(n)})).epoch for n in range(count)]


def written(store: Hummock, number: int, label: int, **more: object) -> Commit:
    rows = pa.table({"id": [number], "n": [number], "_op": pa.array([0], pa.uint8())})
    ssts = store.reader.write_run(store.version.tables["t"].table, rows)
    return Commit(writes={"t": ssts}, epochs={"t": label}, **more)  # type: ignore[arg-type]


def rows(store: Hummock, version: Version | None = None) -> list[int]:
    table = (version or store.version).tables["t"]
    found = store.reader.scan(table, table.committed_epoch)
    return [row for batch in found for row in batch.column("n").to_pylist()]


def test_what_is_on_its_way_is_seen_by_its_writer_alone(
    base: Hummock, ahead: InFlightStore, held: HeldStore
) -> None:
    table = base.version.tables["t"].table
    made = [written(ahead, n, label) for n, label in enumerate(past(base, 3))]
    held.gate.clear()
    for commit in made:
        commit = dataclasses.replace(commit, writes={"t": with_new_keys(table, commit.writes["t"])})
        version = ahead.hand_over(commit)
    assert sorted(rows(ahead, version)) == sorted(rows(ahead)) == [0, 1, 2]
    assert (version.number, version.epoch) == (base.version.number, base.version.epoch)
    assert rows(base) == []
    known = version.tables["t"].fingerprint
    assert known is not None and known.epoch == version.tables["t"].committed_epoch
    held.gate.set()
    ahead.settle()
    assert base.version.tables["t"].fingerprint == known
    assert sorted(rows(base)) == [0, 1, 2] and ahead.newest is None
    assert ahead.version is base.version
    with Hummock.open(base.url, cache_dir=None, object_store=held) as other:
        assert sorted(rows(other)) == [0, 1, 2]


def test_a_commit_says_the_epoch_of_its_tables(base: Hummock, ahead: InFlightStore) -> None:
    """Two on their way would have the same else, and what reads from that epoch on would miss the second one."""
    commit = written(ahead, 1, past(base, 1)[0])
    with pytest.raises(InvariantViolation, match="has to say the epoch of t"):
        ahead.hand_over(dataclasses.replace(commit, epochs={}))
    ahead.hand_over(commit)
    ahead.settle()
    assert rows(base) == [1]


def test_many_commits_share_manifests(base: Hummock, ahead: InFlightStore, held: HeldStore) -> None:
    made = [written(ahead, n, label) for n, label in enumerate(past(base, 20))]
    before = base.version.number
    held.gate.clear()
    for commit in made:
        ahead.hand_over(commit)
    held.gate.set()
    ahead.settle()
    assert base.version.number < before + 10
    assert [entry.rows for entry in base.version.tables["t"].log] == [1] * 20


def test_a_barrier_waits_for_the_files_that_follow_it(
    base: Hummock, ahead: InFlightStore, held: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.in_flight_store.BARRIER_WAIT_SECONDS", 30.0)
    commit, before = written(ahead, 1, past(base, 1)[0]), base.version.number
    held.gate.clear()
    ahead.hand_over(Commit(catalog={"barrier/a": "1"}))
    ahead.hand_over(Commit(catalog={"barrier/b": "1"}))
    ahead.hand_over(commit)
    held.gate.set()
    newest = ahead.newest
    assert newest is None or newest.outcome.result(20)
    assert base.version.number == before + 1
    assert "barrier/a" in base.version.catalog and rows(base) == [1]


def test_a_barrier_that_nothing_follows_goes_by_itself(
    base: Hummock, ahead: InFlightStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead.hand_over(Commit(catalog={"barrier/a": "1"}))
    newest = ahead.newest
    assert newest is None or newest.outcome.result(20)
    monkeypatch.setattr("engine.hummock.in_flight_store.BARRIER_WAIT_SECONDS", 3_600.0)
    ahead.hand_over(Commit(catalog={"barrier/b": "1"}))
    ahead.settle()  # for somebody waits
    assert {"barrier/a", "barrier/b"} <= set(base.version.catalog)


def test_one_that_is_refused_takes_those_behind_it_along(
    base: Hummock, ahead: InFlightStore, held: HeldStore
) -> None:
    generation = ahead.claim("w")
    labels = past(base, 4)
    made = [written(ahead, n, labels[n], writer="w", generation=generation) for n in range(3)]
    plain = written(ahead, 9, labels[3])
    other = Hummock.open(base.url, object_store=LocalObjectStore(held.root), auto_compact="off")
    held.gate.clear()
    first = ahead.hand_over(made[0])
    assert rows(ahead, first) == [0]
    other.claim("w")  # somebody else takes over: nothing of the old generation may be committed
    ahead.hand_over(made[1])
    ahead.hand_over(plain)  # computed over what is lost
    outcome = ahead.newest
    assert outcome is not None
    held.gate.set()
    with pytest.raises((Conflict, Fenced)):
        outcome.outcome.result(30)
    with pytest.raises(Conflict, match="on its way"):
        ahead.settle()
    ahead.hand_over(Commit(catalog={"k": "later"}))  # which stands, but not all does
    assert ahead.outcome is not None and isinstance(ahead.outcome.exception(30), Conflict | Fenced)
    assert ahead.newest is None or ahead.newest.outcome.result(30)
    ahead.begin_anew()
    assert ahead.outcome is None
    assert rows(ahead) == rows(base) == []
    with pytest.raises(Fenced):
        ahead.hand_over(made[2])
    ahead.hand_over(plain)
    ahead.settle()
    assert rows(base) == [9]
    other.close()


def test_an_upload_that_fails_refuses_its_commit_and_the_writer_goes_on(
    base: Hummock, held: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.object_store.retrying.RETRY_SECONDS", 0.0)
    base.create_table("t", SCHEMA, ["id"])
    base._objects._seconds = 0.0  # type: ignore[attr-defined]
    with InFlightStore(base, spool=True) as ahead:
        commit = written(ahead, 1, base.version.epoch)
        held.broken = True
        ahead.hand_over(commit)
        with pytest.raises(Conflict, match="the store is away"):
            ahead.settle()
        ahead.begin_anew()
        assert rows(ahead) == []
        held.broken = False
        ahead.hand_over(written(ahead, 2, base.version.epoch))
        ahead.settle()
        assert rows(base) == [2]


def test_a_commit_that_waits_comes_after_what_is_on_its_way(base: Hummock, ahead: InFlightStore) -> None:
    for n, label in enumerate(past(base, 5)):
        ahead.hand_over(written(ahead, n, label))
    version = ahead.commit(Commit(catalog={"a": "b"}))
    assert sorted(rows(ahead, version)) == list(range(5)) and version.catalog["a"] == "b"


def test_news_of_others_come_with_the_next_manifest(
    base: Hummock, ahead: InFlightStore, held: HeldStore
) -> None:
    commit = written(ahead, 1, base.version.epoch)
    held.gate.clear()
    ahead.hand_over(commit)
    other = Hummock.open(base.url, object_store=LocalObjectStore(held.root), auto_compact="off")
    other.create_table("u", SCHEMA, ["id"])
    assert "u" not in ahead.refresh().tables
    held.gate.set()
    ahead.settle()
    assert {"t", "u"} <= set(ahead.version.tables) and rows(ahead) == [1]
    other.close()


def test_tasks_leave_small_files_in_the_spool_and_read_them_there(
    base: Hummock, tmp_path: Path, held: HeldStore
) -> None:
    base.create_table("t", SCHEMA, ["id"])
    with InFlightStore(base, spool=True) as ahead:
        folder = Path(ahead.options[SPOOL])
        task = Reader.open(base.url, ahead.options)
        ssts = task.write_run(base.version.tables["t"].table, _rows(range(4)))
        assert [p.name for p in folder.iterdir()] and held.get(ssts[0].path) is None
        task.files.cache.drop(ssts[0].sst_id)
        task.files.forget()
        ahead.hand_over(Commit(writes={"t": ssts}, epochs={"t": base.version.epoch}))
        ahead.settle()
        assert held.get(ssts[0].path) is not None and not list(folder.iterdir())
    assert not folder.exists()


def test_an_object_of_several_commits_is_uploaded_once_and_again_if_that_failed(
    base: Hummock, held: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.object_store.retrying.RETRY_SECONDS", 0.0)
    base._objects._seconds = 0.0  # type: ignore[attr-defined]
    put, sent, all_waiting = type(held).put, list[str](), threading.Event()

    def note(store: HeldStore, path: str, data: bytes | memoryview) -> None:
        sent.append(path)
        all_waiting.wait(10)
        put(store, path, data)

    monkeypatch.setattr(type(held), "put", note)
    tables = [base.create_table(name, SCHEMA, ["id"]) for name in ("t", "u", "v")]
    with InFlightStore(base, spool=True) as ahead:
        task = Reader.open(base.url, ahead.options)
        with task.bundle_writes():
            runs = {table.name: task.write_run(table, _rows(range(4))) for table in tables}
        for is_away in (True, False):
            held.broken = is_away
            sent.clear()
            all_waiting.clear()
            for name, ssts in runs.items():
                ahead.hand_over(Commit(writes={name: ssts}, epochs={name: base.version.epoch}))
            all_waiting.set()
            if is_away:
                with pytest.raises(Conflict, match="the store is away"):
                    ahead.settle()
                ahead.begin_anew()
        ahead.settle()
    (path,) = {sst.path for ssts in runs.values() for sst in ssts}
    assert sent == [path] and held.get(path) is not None
    assert rows(base) == list(range(4))


def test_a_file_that_was_lost_on_its_way_refuses_its_commit(base: Hummock) -> None:
    base.create_table("t", SCHEMA, ["id"])
    with InFlightStore(base, spool=True) as ahead:
        commit = written(ahead, 1, base.version.epoch)
        for left in Path(ahead.options[SPOOL]).iterdir():
            left.unlink()
        ahead.hand_over(commit)
        with pytest.raises(Conflict, match="was lost before it was uploaded"):
            ahead.settle()
        ahead.begin_anew()
        assert rows(base) == rows(ahead) == []


def test_a_table_that_somebody_drops_meanwhile_takes_what_is_on_its_way_along(
    base: Hummock, ahead: InFlightStore, held: HeldStore
) -> None:
    commits = [written(ahead, n, label) for n, label in enumerate(past(base, 2))]
    held.gate.clear()
    ahead.hand_over(commits[0])
    other = Hummock.open(base.url, object_store=LocalObjectStore(held.root), auto_compact="off")
    other.drop_table("t")
    base._chain._version = other.version  # as the next manifest would tell
    threading.Timer(0.2, held.gate.set).start()
    with pytest.raises(UnknownTable):
        ahead.hand_over(commits[1])
    assert "t" not in ahead.version.tables
    other.close()


def test_what_was_committed_is_not_kept_by_what_follows_it(
    base: Hummock, ahead: InFlightStore, held: HeldStore
) -> None:
    tickets: list[weakref.ref[Ticket]] = []
    held.gate.clear()
    for n in range(5):
        ahead.hand_over(Commit(catalog={"k": str(n)}))
        newest = ahead.newest
        assert newest is not None
        tickets.append(weakref.ref(newest.ticket))
    held.gate.set()
    ahead.settle()
    ahead.hand_over(Commit(catalog={"k": "5"}))
    ahead.settle()
    gc.collect()
    assert newest.ticket.is_settled and [n for n, ticket in enumerate(tickets) if ticket() is not None] == [4]


def test_a_store_that_fails_while_others_have_the_turn_refuses_what_is_on_its_way(
    base: Hummock, ahead: InFlightStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def waited(*_: object) -> Iterator[bool]:
        yield True

    def away(*_: object) -> NoReturn:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr("engine.hummock.manifests.chain.acquire_commit_lock", waited)
        patched.setattr(base._chain._manifests, "follow", away)
        ahead.hand_over(Commit(catalog={"k": "1"}))
        newest = ahead.newest
        assert newest is not None
        with pytest.raises(Unavailable):
            newest.outcome.result(30)
    ahead.begin_anew()
    ahead.hand_over(Commit(catalog={"k": "2"}))
    ahead.settle()
    assert base.version.catalog["k"] == "2"


def test_what_failed_epochs_have_left_in_the_spool_goes_with_the_collectors_horizon(base: Hummock) -> None:
    base.create_table("t", SCHEMA, ["id"])
    with InFlightStore(base, spool=True) as ahead:
        folder = Path(ahead.options[SPOOL])
        written(ahead, 1, base.version.epoch)  # and never handed over
        torn = folder / ".torn.tmp"
        torn.write_bytes(b"half")
        os.utime(torn, (time.time() - 60, time.time() - 60))
        past(base, 3)  # commits of milliseconds that come after the names of the files
        base.gc(grace_seconds=3600)
        ahead.begin_anew()
        assert len(list(folder.iterdir())) == 2
        base.gc(grace_seconds=0)
        commit = written(ahead, 2, base.version.epoch)
        ahead.begin_anew()
        assert len(list(folder.iterdir())) == 1
        ahead.hand_over(commit)
        ahead.settle()
        assert rows(base) == [2]


def test_folders_of_dead_processes_go(base: Hummock, tmp_path: Path) -> None:
    with InFlightStore(base, spool=True) as ahead:
        own = Path(ahead.options[SPOOL])
        dead, elsewhere = (own.with_name(f"{node}-999999999-0") for node in (platform.node(), "elsewhere"))
        dead.mkdir()
        elsewhere.mkdir()
        with InFlightStore(base, spool=True):
            assert not dead.exists() and elsewhere.exists() and own.exists()


def _rows(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(ids), "_op": pa.array([0] * len(ids), pa.uint8())})


def test_nobody_waits_for_ever_whatever_befalls_the_thread_that_commits(
    base: Hummock, ahead: InFlightStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [written(ahead, n, label) for n, label in enumerate(past(base, 2))]
    with monkeypatch.context() as broken:
        broken.setattr(base._chain, "commit_all", lambda tickets: 1 // 0)
        ahead.hand_over(commits[0])
        with pytest.raises(Conflict, match="by zero"):
            ahead.settle()
    ahead.begin_anew()
    ahead.hand_over(commits[1])
    ahead.settle()
    assert rows(base) == [1]
