"""Small tables that one task writes share an object; each is read, compacted and collected by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Commit, Delete, Hummock, Put
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.sorted_files.arrow_cache import ArrowCache
from tests.hummock.conftest import SCHEMA, content, keys, log, rows
from tests.hummock.counting import CountingStore

NAMES = ("a", "b", "c")


@pytest.fixture
def counted(tmp_path: Path) -> CountingStore:
    return CountingStore(LocalObjectStore(tmp_path / "store"))


@pytest.fixture
def three(counted: CountingStore, tmp_path: Path) -> Hummock:
    """A store with three tables over a counting object store."""
    store = Hummock.open((tmp_path / "store").as_uri(), cache_dir=tmp_path / "cache", object_store=counted)
    for name in NAMES:
        store.create_table(name, SCHEMA, ["id"], ["id"])
    counted.reset()
    return store


def test_an_epoch_over_three_tables_is_two_puts(three: Hummock, counted: CountingStore) -> None:
    three.ingest_batch({name: Put(rows({1: name})) for name in NAMES})
    assert counted.counts == {"put": 2}
    with three.epoch() as batch:
        for name in NAMES:
            batch.put(name, rows({2: name}))
            batch.delete(name, keys(1))
    assert counted.counts == {"put": 4}
    assert [content(three, name) for name in NAMES] == [{2: name} for name in NAMES]


def test_a_task_writes_the_runs_of_several_tables_as_one_object(
    three: Hummock, counted: CountingStore
) -> None:
    given = rows({1: "x", 2: "y"}).append_column("_op", pa.array([0, 0], pa.uint8()))
    tables = [three.table(name) for name in NAMES]
    runs = three.reader.write_runs([(table, given) for table in tables])
    assert counted.counts == {"put": 1}
    assert len({run[0].path for run in runs}) == 1
    assert [run[0].offset for run in runs] == [0, runs[0][0].length, runs[0][0].length + runs[1][0].length]
    three.commit(Commit(writes=dict(zip(NAMES, runs, strict=True))))
    assert content(three, "c") == {1: "x", 2: "y"}


def put_rows(values: dict[int, str | None]) -> pa.Table:
    """Rows as `write_run` takes them."""
    return rows(values).append_column("_op", pa.array([0] * len(values), pa.uint8()))


def test_writes_one_after_the_other_are_one_object_and_read_before_it_is_there(
    three: Hummock, counted: CountingStore, tmp_path: Path
) -> None:
    reader, values = three.reader, {name: {1: name, 2: name * 2} for name in NAMES}
    with reader.bundle_writes():
        runs = {name: reader.write_run(three.table(name), put_rows(values[name])) for name in NAMES}
        assert "put" not in counted.counts
        read = {
            name: reader.files.open_file(run[0]).rows.column("v").to_pylist() for name, run in runs.items()
        }
        assert {name: sorted(found) for name, found in read.items()} == {
            name: sorted(values[name].values()) for name in NAMES
        }
    assert counted.counts["put"] == 1 and len({run[0].path for run in runs.values()}) == 1
    reader.write_run(three.table("a"), put_rows({3: "c"}))
    assert counted.counts["put"] == 2
    three.commit(Commit(writes={name: tuple(run) for name, run in runs.items()}))
    shutil.rmtree(tmp_path / "cache")
    three.close()
    assert {name: content(three, name) for name in NAMES} == values


def test_what_no_bundle_takes_is_an_object_of_its_own_at_its_place(
    three: Hummock, counted: CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.bundle.SHARED_BYTES", 1000)
    reader, given = three.reader, [{1: "a"}, {i: str(i) for i in range(1000)}, {1: "c"}]
    with reader.bundle_writes():
        runs = reader.write_runs(
            [(three.table(name), put_rows(values)) for name, values in zip(NAMES, given, strict=True)]
        )
        assert counted.counts["put"] == 1
    assert counted.counts["put"] == 2
    assert [Path(run[0].path).suffix for run in runs] == [".bundle", ".parquet", ".bundle"]
    three.commit(Commit(writes={name: tuple(run) for name, run in zip(NAMES, runs, strict=True)}))
    assert [content(three, name) for name in NAMES] == given
    small = three.reader.with_cache(ArrowCache(tmp_path / "tiny", 0))
    with small.bundle_writes():
        (run,) = small.write_run(three.table("a"), put_rows({7: "x"}))
    assert Path(run.path).suffix == ".parquet"


def test_a_bundle_is_of_its_thread_and_its_store_and_not_written_after_an_error(
    three: Hummock, counted: CountingStore
) -> None:
    def write() -> str:
        return three.reader.write_run(three.table("a"), put_rows({1: "a"}))[0].path

    with ThreadPoolExecutor(1) as other, three.reader.bundle_writes():
        inside, beside = write(), other.submit(write).result()
    assert (Path(inside).suffix, Path(beside).suffix) == (".bundle", ".parquet")
    counted.reset()
    with pytest.raises(RuntimeError, match="broken"), three.reader.bundle_writes():
        write()
        raise RuntimeError("broken")
    assert not counted.counts


def test_a_bundle_is_read_by_ranges_where_nothing_is_cached(
    three: Hummock, counted: CountingStore, tmp_path: Path
) -> None:
    epoch = three.ingest_batch({name: Put(rows({1: name, 2: name})) for name in NAMES})
    three.ingest_batch({name: Put(rows({1: "new"})) for name in NAMES})
    shutil.rmtree(tmp_path / "cache")
    three.close()
    counted.reset()
    assert content(three, "b") == {1: "new", 2: "b"}
    assert counted.counts == {"get": 2}
    assert log(three, epoch, table="b") == {1: ("update", "new", "b")}


def test_a_large_table_keeps_objects_of_its_own(
    three: Hummock, counted: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.bundle.SHARED_BYTES", 1000)
    many = rows({i: str(i) for i in range(1000)})
    three.ingest_batch(
        {"a": Put(many), "b": Put(rows({1: "b"})), "c": [Put(rows({1: "c"})), Delete(keys(1))]}
    )
    (large,) = three.version.tables["a"].live_ssts
    (small,) = three.version.tables["b"].live_ssts
    assert (large.offset, Path(large.path).suffix, Path(small.path).suffix) == (0, ".parquet", ".bundle")
    assert counted.counts == {"put": 3}
    assert [len(content(three, name)) for name in NAMES] == [1000, 1, 0]


def test_a_bundle_is_collected_when_none_of_its_tables_needs_it(
    open_store: Callable[..., Hummock], clock, tmp_path: Path
) -> None:
    store = open_store(retention_seconds=0.0)
    for name in NAMES:
        store.create_table(name, SCHEMA, ["id"], ["id"])
    for step in range(2):
        store.ingest_batch({name: Put(rows({step: name})) for name in NAMES})
    store.compact("a")
    clock.added += 100_000
    store.gc()
    assert len(list((tmp_path / "store" / "sst").glob("*.bundle"))) == 2
    store.compact("b")
    store.compact("c")
    clock.added += 100_000
    store.gc()
    assert list((tmp_path / "store" / "sst").glob("*.bundle")) == []
    assert [content(store, name) for name in NAMES] == [{0: name, 1: name} for name in NAMES]
