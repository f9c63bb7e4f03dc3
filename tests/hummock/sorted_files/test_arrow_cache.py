"""The cache of decoded files may lose or spoil anything at any time; reads stay right."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import CorruptObject
from engine.hummock import Hummock, Put, Reader, Table
from engine.hummock.sorted_files.arrow_cache import LEFT_SECONDS, SWEEP_SECONDS, SWEPT, ArrowCache
from tests.hummock.conftest import SCHEMA, content, keys, rows


def cached(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("*/*.arrow"))


def test_fresh_files_are_written_through(store: Hummock, table: Table, tmp_path: Path) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    assert len(cached(tmp_path)) == 1


def test_a_deleted_cache_is_filled_again(store: Hummock, table: Table, tmp_path: Path) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    assert content(store) == {1: "a"}
    assert store.get(table, {"id": 1}) == {"id": 1, "v": "a"}
    assert len(cached(tmp_path)) == 1


@pytest.mark.parametrize("spoilt", [b"", b"ARROW1 but not really", None])
def test_a_spoilt_cache_file_is_read_from_parquet(
    store: Hummock, table: Table, tmp_path: Path, spoilt
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    (path,) = cached(tmp_path)
    path.write_bytes(path.read_bytes()[:-20] if spoilt is None else spoilt)
    store.close()
    assert store.get(table, {"id": 1}) == {"id": 1, "v": "a"}


def test_a_missing_or_damaged_file_of_the_store_is_told(store: Hummock, table: Table, tmp_path: Path) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    (path,) = (tmp_path / "store" / "sst").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptObject, match="damaged"):
        store.get(table, {"id": 1})
    path.unlink()
    with pytest.raises(CorruptObject, match="missing"):
        store.get(table, {"id": 1})


def test_the_least_recently_used_files_leave_a_full_cache(tmp_path: Path) -> None:
    cache = ArrowCache(tmp_path / "cache", capacity=100_000)
    rows = pa.table({"_hash": np.arange(5000)})
    for name in ("a", "b", "c", "d"):
        cache.store(name, rows)
    assert cache.load("a", 5000) is None
    assert cache.load("d", 5000) is not None


def test_the_caches_of_many_stores_together_keep_within_a_bound(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.arrow_cache.CACHE_BYTES", 100_000)
    monkeypatch.setattr("engine.hummock.sorted_files.arrow_cache.SWEEP_SECONDS", -1)
    rows = pa.table({"_hash": np.arange(5000)})
    stores = [ArrowCache(tmp_path / "cache" / (letter * 16), capacity=90_000) for letter in "abcd"]
    (stores[0].folder / "letter.txt").write_text("mine")
    for cache in stores:
        cache.store("1", rows)
    assert (stores[0].folder / "letter.txt").exists()
    assert [cache.load("1", 5000) is not None for cache in stores] == [False, False, True, True]
    with_more = ArrowCache(tmp_path / "cache" / ("e" * 16), capacity=1 << 20)
    with_more.store("1", rows)
    assert all(cache.load("1", 5000) is not None for cache in (*stores[2:], with_more))


def test_a_process_that_begins_looks_at_other_stores_once_in_a_while(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.arrow_cache.CACHE_BYTES", 100_000)
    rows = pa.table({"_hash": np.arange(5000)})
    stores = [ArrowCache(tmp_path / "cache" / (letter * 16), capacity=1_000_000) for letter in "abcdef"]
    for cache in stores[1:4]:
        monkeypatch.setattr(
            cache, "_list_sibling_stores", lambda: pytest.fail("each process lists all stores")
        )
    for cache in stores[:4]:
        cache.store("1", rows)
    long_ago = time.time() - SWEEP_SECONDS - 60
    os.utime(tmp_path / "cache" / SWEPT, (long_ago, long_ago))
    stores[4].capacity = 90_000
    stores[4].store("1", rows)
    assert [cache.load("1", 5000) is not None for cache in stores[:5]] == [False] * 4 + [True]
    stores[5].capacity = 90_000
    for name in "1234":  # who caches much looks, too
        stores[5].store(name, rows)
    assert all(cache.load("1", 5000) is None for cache in stores[:5])


def test_a_cold_lookup_reads_only_the_row_groups_it_needs(
    open_store: Callable, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.file_set.SMALL_BYTES", 0)
    monkeypatch.setattr("engine.hummock.sorted_files.sst.ROW_GROUP_ROWS", 1000)
    store = open_store()
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    store.ingest_batch({table: [Put(rows({i: str(i) for i in range(20_000)}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    read: list[int] = []
    plain = type(store._objects).get_range

    def counted(self, path: str, offset: int, length: int) -> bytes:
        read.append(length)
        return plain(self, path, offset, length)

    monkeypatch.setattr(type(store._objects), "get_range", counted)
    assert store.get(table, {"id": 77}) == {"id": 77, "v": "77"}
    assert sum(read) < store.version.tables["t"].size_bytes / 2
    assert cached(tmp_path) == []
    for i in (1, 2, 3):
        assert store.get(table, {"id": i}) == {"id": i, "v": str(i)}
    assert len(cached(tmp_path)) == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_cold_lookup_in_a_table_ordered_by_key_reads_only_the_row_groups_it_needs(
    open_store: Callable, tmp_path: Path, monkeypatch, kind: pa.DataType
) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.file_set.SMALL_BYTES", 0)
    monkeypatch.setattr("engine.hummock.sorted_files.sst.ROW_GROUP_ROWS", 1000)
    store = open_store()
    table = store.create_table("t", pa.schema([("id", kind), ("v", pa.string())]), ["id"])
    ids = pa.array(range(10_000, 30_000)).cast(kind)
    values = [np.random.default_rng(i).bytes(60).hex() for i in range(20_000)]
    store.ingest_batch({table: [Put(pa.table({"id": ids, "v": values}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    wanted = pa.table({"id": pa.array([29_999, 10_003, 5]).cast(kind)})
    assert store.multi_get(table, wanted).column("v").to_pylist() == [values[19_999], values[3], None]
    assert store.metrics().bytes_in < store.version.tables["t"].size_bytes / 4
    assert cached(tmp_path) == []


def test_a_damaged_row_group_is_told(open_store: Callable, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("engine.hummock.sorted_files.file_set.SMALL_BYTES", 0)
    monkeypatch.setattr("engine.hummock.sorted_files.sst.ROW_GROUP_ROWS", 1000)
    store = open_store()
    table = store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({table: [Put(rows({i: str(i) * 9 for i in range(20_000)}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    (path,) = (tmp_path / "store" / "sst").iterdir()
    data = bytearray(path.read_bytes())
    for at in range(500, len(data) // 3, 50):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptObject, match="damaged"):
        store.get(table, {"id": 7})


def test_a_cached_file_under_the_name_of_another_is_not_taken_for_it(
    store: Hummock, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_VERIFY")
    for value in ("old", "new"):
        store.ingest_batch({table: [Put(rows({1: value}))]})
    one, other = cached(tmp_path)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    store.close()
    assert content(store) == {1: "new"}


@pytest.mark.parametrize("size", [10, 200_000])
def test_one_changed_bit_of_a_cached_file_is_noticed(
    store: Hummock, table: Table, tmp_path: Path, size: int
) -> None:
    store.ingest_batch({table: [Put(rows({i: str(i) for i in range(size)}))]})
    (path,) = cached(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    store.close()
    assert content(store) == {i: str(i) for i in range(size)}
    assert store.get(table, {"id": 3}) == {"id": 3, "v": "3"}
    store.close()
    assert store.get(table, {"id": size - 1}) == {"id": size - 1, "v": str(size - 1)}


def test_a_reader_keeps_what_it_has_mapped_when_the_cache_vanishes(
    store: Hummock, table: Table, tmp_path: Path
) -> None:
    store.ingest_batch({table: [Put(rows({i: str(i) for i in range(100_000)}))]})
    batches = store.iter(table)
    first = next(batches)
    shutil.rmtree(tmp_path / "cache")
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 100_000
    assert store.get(table, {"id": 99_999}) == {"id": 99_999, "v": "99999"}


def test_a_cached_file_serves_another_process(store: Hummock, table: Table, tmp_path: Path) -> None:
    import multiprocessing

    epoch = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    (path,) = (tmp_path / "store" / "sst").iterdir()
    path.write_bytes(b"not needed while the cache has it")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(read_elsewhere, (store.url, store.options, store.version.tables["t"], epoch))
    assert found == [{"id": 2, "v": "b"}]


def test_a_file_that_is_being_written_is_not_seen(tmp_path: Path, monkeypatch) -> None:
    cache = ArrowCache(tmp_path / "cache", capacity=1 << 20)
    given = pa.table({"_hash": np.arange(10)})
    seen: list[object] = []
    monkeypatch.setattr(
        "engine.hummock.sorted_files.arrow_cache._seal",
        lambda path, _: seen.append((path.exists(), cache.load("a", 10))),
    )
    cache.store("a", given)
    assert seen == [(True, None)]


def test_a_reader_in_another_process_needs_the_table_version_only(store: Hummock, table: Table) -> None:
    import multiprocessing

    epoch = store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(read_elsewhere, (store.url, store.options, store.version.tables["t"], epoch))
    assert found == [{"id": 2, "v": "b"}]


def read_elsewhere(url: str, options: dict, version, epoch: int) -> list[dict]:
    index, found = Reader.open(url, options).lookup(version, keys(2, 3), epoch)
    assert index.tolist() == [0]
    return found.to_pylist()


def test_what_is_left_of_stores_that_are_gone_goes(store: Hummock, table: Table, tmp_path: Path) -> None:
    home = tmp_path / "cache"
    left, fresh, foreign, filled = (home / name for name in ("a" * 16, "b" * 16, "pictures", "c" * 16))
    for folder in (left, fresh, foreign, filled):
        folder.mkdir(parents=True)
        (folder / "1-x.arrow").write_bytes(b"rows")
    (filled / "letter.txt").write_text("mine")
    long_ago = time.time() - LEFT_SECONDS - 60
    for folder in (left, foreign, filled):
        os.utime(folder, (long_ago, long_ago))
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    assert not left.exists()
    assert (fresh / "1-x.arrow").exists() and (foreign / "1-x.arrow").exists()
    assert [file.name for file in filled.iterdir()] == ["letter.txt"]
    assert content(store) == {1: "a"}
