"""Branches share the files of their parent, write their own, and nothing is lost or left on either side."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import BranchDropped, BranchExists, Conflict, CorruptObject, StorageError, UnknownStore
from engine.hummock import Commit, Hummock, Put
from engine.hummock.manifests import manifest
from engine.hummock.manifests.manifest import manifest_path
from engine.hummock.object_store import ObjectStore
from engine.hummock.reads.reader import Reader
from tests.hummock.branch_workload import run_seed
from tests.hummock.conftest import SCHEMA, MovableClock, content, log, rows
from tests.hummock.counting import CountingStore
from tests.hummock.dated import DatedObjectStore, TimedObjectStore
from tests.hummock.small import small_sizes
from tests.long_rest import mark_rest_long


@pytest.fixture(params=["directory", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock) -> CountingStore:
    """An object store in a directory, and one in a bucket."""
    if request.param == "directory":
        return CountingStore(DatedObjectStore(tmp_path / "store", clock))
    inner: ObjectStore = TimedObjectStore(request.getfixturevalue("s3_url"), clock)  # type: ignore[assignment]
    return CountingStore(inner)


@pytest.fixture
def open_at(objects: CountingStore, tmp_path: Path, clock: MovableClock) -> Callable[..., Hummock]:
    """Opens the store or, by its address, a branch; each call is a new handle."""

    def opened(url: str = "file:///virtual", **options: object) -> Hummock:
        given = {"cache_dir": tmp_path / "cache", "clock": clock, "object_store": objects}
        return Hummock.open(url, **{**given, **options})  # type: ignore[arg-type]

    return opened


def paths(objects: CountingStore, under: str = "") -> set[str]:
    return {info.path for info in objects.inner.list(under)}


def referenced(store: Hummock) -> set[str]:
    return set().union(*(table.list_objects() for table in store.refresh().tables.values()))


@pytest.mark.s3
def test_both_sides_write_compact_and_collect_and_nothing_is_lost_or_left(
    open_at: Callable[..., Hummock], objects: CountingStore, clock: MovableClock
) -> None:
    store = open_at()
    store.create_table("t", SCHEMA, ["id"], ["id"])
    first = store.ingest_batch({"t": Put(rows({1: "a", 2: "b"}))})
    made = store.ingest_batch({"t": Put(rows({2: "c"}))})
    branch = store.create_branch("try")
    shared = paths(objects, "sst/")
    other = open_at(branch.url)
    assert content(other) == {1: "a", 2: "c"} and content(other, epoch=first) == {1: "a", 2: "b"}
    assert log(other, first) == {2: ("update", "c", "b")}
    there = other.ingest_batch({"t": Put(rows({2: "branch"}))})
    here = store.ingest_batch({"t": Put(rows({2: "store", 3: "d"}))})
    assert log(other, made, there) == {2: ("update", "branch", "c")}
    assert log(store, made, here) == {2: ("update", "store", "c"), 3: ("insert", "d", None)}

    for _ in range(3):  # the history of both goes, and with it all that only the branch began with
        store.compact("t")
        other.compact("t")
        clock.added += 10_000
        store.gc(grace_seconds=600)
        other.gc(grace_seconds=600)
    assert shared <= paths(objects, "sst/")
    assert store.gc(grace_seconds=600).held["branch"].objects == len(shared)
    assert content(other) == {1: "a", 2: "branch"} and content(store) == {1: "a", 2: "store", 3: "d"}
    again = open_at(branch.url)
    assert content(again) == {1: "a", 2: "branch"} and again.version == other.version

    assert store.drop_branch("try") == 1
    assert store.list_branches() == ()
    with pytest.raises(BranchDropped, match="was dropped"):
        other.refresh()
    with pytest.raises(BranchDropped, match="was dropped"):
        again.ingest_batch({"t": Put(rows({2: "late"}))})
    clock.added += 10_000
    store.gc(grace_seconds=600)
    assert paths(objects, "sst/") == referenced(store)
    assert not paths(objects, "branch/")
    assert content(open_at()) == {1: "a", 2: "store", 3: "d"}


@pytest.mark.s3
def test_creating_a_branch_is_one_request_and_opening_it_a_few(
    open_at: Callable[..., Hummock], objects: CountingStore
) -> None:
    store = open_at()
    store.create_table("t", SCHEMA, ["id"], ["id"])
    for step in range(70):
        store.ingest_batch({"t": Put(rows({step: "a"}))})
    objects.reset()
    branch = store.create_branch("try")
    assert objects.counts == {"put": 1}
    objects.reset()
    other = open_at(branch.url)
    assert objects.counts.total() <= 14
    assert len(content(other)) == 70
    objects.reset()
    store.gc()  # the branch keeps nothing yet that the store does not: it is not looked at
    assert set(objects.paths["list"]) == {"sst/", "manifest/"} and objects.counts["get"] <= 2


def test_manifests_of_a_branch_and_of_a_store_with_branches_are_not_for_older_versions(
    store: Hummock, open_store: Callable[..., Hummock], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_form(number: int, place: str = "") -> bytes:
        return (store.objects.get(f"{place}{manifest_path(number)}") or b"")[:4]

    store.commit(Commit())
    branch = store.create_branch("try")
    with Hummock.open(branch.url) as other:
        other.commit(Commit())
    assert [read_form(1), read_form(2)] == [b"TLM1", b"TLM2"]
    assert read_form(1, f"branch/try/{2:020d}/") == b"TLM2"
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "_WITH_BRANCHES", b"TLM1")
        with pytest.raises(CorruptObject, match="was written by a newer version, in form b'TLM2'"):
            open_store()
    store.drop_branch("try")
    assert read_form(store.version.number) == b"TLM1"


def test_a_branch_of_a_branch_reads_what_all_before_it_have_written(
    store: Hummock, clock: MovableClock, open_store: Callable[..., Hummock], tmp_path: Path
) -> None:
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": Put(rows({1: "store"}))})
    outer = open_store().create_branch("outer")

    def open_at(url: str) -> Hummock:
        objects = DatedObjectStore(tmp_path / "store", clock)
        return Hummock.open(url, cache_dir=tmp_path / "cache", clock=clock, object_store=objects)

    one = open_at(outer.url)
    one.ingest_batch({"t": Put(rows({2: "outer"}))})
    inner = one.create_branch("inner")
    two = open_at(inner.url)
    two.ingest_batch({"t": Put(rows({3: "inner"}))})
    for each in (one, store):
        each.ingest_batch({"t": Put(rows({9: "later"}))})
        each.compact("t")
    for _ in range(2):
        clock.added += 10_000
        for each in (two, one, store):
            each.gc(grace_seconds=600)
    assert content(open_at(inner.url)) == {1: "store", 2: "outer", 3: "inner"}
    assert content(open_at(f"{store.url}/branch/outer/branch/inner")) == content(two)
    assert [branch.name for branch in one.list_branches()] == ["inner"]
    with pytest.raises(Conflict, match="branches of its own, inner: drop them first"):
        store.drop_branch("outer")
    one.drop_branch("inner")
    store.drop_branch("outer")
    clock.added += 10_000
    store.gc(grace_seconds=600)
    assert not [path for path in (tmp_path / "store" / "branch").rglob("*") if path.is_file()]


def test_a_name_that_is_used_again_is_another_branch(store: Hummock, tmp_path: Path) -> None:
    store.create_table("t", SCHEMA, ["id"])
    url = store.create_branch("try").url
    old = Hummock.open(url)
    with pytest.raises(BranchExists, match="branch try exists already"):
        store.create_branch("try")
    store.drop_branch("try")
    store.ingest_batch({"t": Put(rows({1: "a"}))})
    new = store.create_branch("try")
    assert new.url != url
    with pytest.raises(UnknownStore, match="no branch try; there is try"):
        Hummock.open(url)
    with pytest.raises(BranchDropped):
        old.ingest_batch({"t": Put(rows({2: "b"}))})
    with Hummock.open(f"{store.url}/branch/try") as opened:
        assert opened.url == new.url and opened.is_branch and not store.is_branch
        assert content(opened) == {1: "a"}


def test_a_drop_that_was_cut_short_is_finished_by_the_next(
    store: Hummock, monkeypatch: pytest.MonkeyPatch, clock: MovableClock, tmp_path: Path
) -> None:
    store.create_table("t", SCHEMA, ["id"])
    branch = store.create_branch("try")
    with Hummock.open(branch.url) as other:
        other.ingest_batch({"t": Put(rows({1: "a"}))})
    with monkeypatch.context() as patch:
        patch.setattr(store._chain, "commit", lambda commit: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.drop_branch("try")
    assert [left.name for left in store.list_branches()] == ["try"]
    with pytest.raises(BranchDropped, match="was dropped"):
        Hummock.open(branch.url)
    assert store.drop_branch("try") == 1
    with pytest.raises(UnknownStore, match="no branch try; there is none"):
        store.drop_branch("try")


def test_who_slept_through_the_drop_and_the_collection_commits_nothing(
    store: Hummock, open_store: Callable[..., Hummock], clock: MovableClock, tmp_path: Path
) -> None:
    store.create_table("t", SCHEMA, ["id"])
    branch = store.create_branch("try")
    objects = DatedObjectStore(tmp_path / "store", clock)
    late = Hummock.open(branch.url, cache_dir=tmp_path / "cache", clock=clock, object_store=objects)
    monotonic = clock.monotonic
    store.drop_branch("try")
    clock.added += 10_000
    clock.monotonic = lambda: monotonic() + 10_000  # type: ignore[method-assign]
    store.gc(grace_seconds=600)
    with pytest.raises(BranchDropped):
        late.ingest_batch({"t": Put(rows({1: "a"}))})
    with pytest.raises(BranchDropped):
        late.refresh()
    left = [path for path in (tmp_path / "store" / "branch").rglob("*") if path.is_file()]
    assert [path.parent.name for path in left] == ["sst"]
    clock.added += 10_000
    store.gc(grace_seconds=600)
    assert not left[0].exists()


def test_a_stalled_writer_is_not_led_astray_by_manifests_that_are_kept_for_a_branch(
    store: Hummock, open_store: Callable[..., Hummock], clock: MovableClock
) -> None:
    with small_sizes():
        store.create_table("t", SCHEMA, ["id"])
        late = open_store()
        monotonic = clock.monotonic
        store.create_branch("try")  # it needs manifests 1 and 2; those up to 23 go
        for step in range(20):
            store.ingest_batch({"t": Put(rows({step: "a"}))})
        clock.added += 10_000
        clock.monotonic = lambda: monotonic() + 10_000  # type: ignore[method-assign]
        store.gc(grace_seconds=600)
        assert store._chain.list_numbers()[:3] == [1, 2, 24]
        late.ingest_batch({"t": Put(rows({99: "late"}))})
        assert content(open_store())[99] == "late" and late.version.number > 24


def test_what_looks_like_the_address_of_a_branch_may_be_a_store(tmp_path: Path) -> None:
    url = (tmp_path / "above").as_uri()
    with Hummock.open((tmp_path / "plain").as_uri()) as plain:
        plain.commit(Commit(catalog={"k": "v"}))
    (tmp_path / "above" / "branch").mkdir(parents=True)
    (tmp_path / "plain").rename(tmp_path / "above" / "branch" / "plain")
    with Hummock.open(f"{url}/branch/plain") as alone:
        assert not alone.is_branch and alone.version.catalog == {"k": "v"}
        branch = alone.create_branch("own")
        for address in (branch.url, f"{alone.url}/branch/own"):  # its branches are found below it
            with Hummock.open(address) as own:
                assert own.is_branch and own.url == branch.url and own.version.catalog == {"k": "v"}
    with Hummock.open(url) as above:
        above.commit(Commit())
        with Hummock.open(f"{url}/branch/plain") as again:
            assert again.version.catalog == {"k": "v"}
        with pytest.raises(UnknownStore, match="no branch other; there is none"):
            Hummock.open(f"{url}/branch/other")
        for name in ("", "a b", "-x", "a/b", "é", "x" * 64):
            with pytest.raises(StorageError, match="cannot name a branch"):
                above.create_branch(name)
        above.create_branch("other")
        above.gc(grace_seconds=0)
        assert (tmp_path / "above" / "branch" / "plain" / "manifest").is_dir()
    assert not (tmp_path / "above" / "branch" / "other").exists()


@pytest.mark.parametrize("above", [None, "empty", "of a project"])
@pytest.mark.parametrize("create", [True, False])
def test_no_store_is_made_at_the_address_of_a_branch(tmp_path: Path, above: str | None, create: bool) -> None:
    """One that was made there by mistake would follow sources and deliver to sinks, as it is no branch."""
    root = tmp_path / "store"
    if above is not None:
        root.mkdir()
    if above == "of a project":
        (root / "README.md").write_text("not a store")
    before = sorted(root.rglob("*"))
    for name in ("try", "outer/branch/inner", f"try/{3:020d}"):
        with pytest.raises(UnknownStore, match=r"there is no store at .* that has a branch"):
            Hummock.open(f"{root.as_uri()}/branch/{name}", create=create)
    assert sorted(root.rglob("*")) == before and root.exists() == (above is not None)


def test_a_task_elsewhere_reads_and_writes_in_a_branch_by_its_address(store: Hummock) -> None:
    table = store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": Put(rows({1: "a"}))})
    with Hummock.open(store.create_branch("try").url) as other:
        reader = Reader.open(other.url, other.options)
        ssts = reader.write_run(table, rows({2: "b"}).append_column("_op", pa.array([0], pa.uint8())))
        assert all(sst.path.startswith(f"branch/try/{other.version.origin:020d}/sst/") for sst in ssts)
        version = other.commit(Commit(writes={"t": ssts})).tables["t"]
        found = pa.Table.from_batches(reader.scan(version, version.committed_epoch))
        assert found.column("id").to_pylist() == [1, 2]


def test_a_manifest_that_a_branch_needs_and_is_missing_is_told(store: Hummock, tmp_path: Path) -> None:
    store.create_table("t", SCHEMA, ["id"])
    branch = store.create_branch("try")
    store.commit(Commit())
    number = branch.point.number
    moved = tmp_path / "moved"
    shutil.move(tmp_path / "store" / manifest_path(number), moved)
    with pytest.raises(CorruptObject):
        Hummock.open(branch.url)
    shutil.move(moved, tmp_path / "store" / manifest_path(number))
    with Hummock.open(branch.url) as opened:
        assert set(opened.version.tables) == {"t"}


@pytest.mark.parametrize(
    "seed", mark_rest_long(range(5))
)  # `python -m tests.hummock.branch_workload range 0 300` runs more
def test_branches_survive_the_faults_of(seed: int) -> None:
    failure = run_seed(seed)
    assert failure is None, failure
