"""Files that this machine has not seen are fetched at the same time, as few as a read needs, and give what one by one gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import CorruptObject
from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.rows.row_hash import xxhash64
from tests.hummock.rounds import RoundsStore
from tests.long_rest import mark_rest_long

SCHEMA = pa.schema([("g", pa.int64()), ("n", pa.int64()), ("v", pa.string())])
FILES = 12
Made = Callable[..., tuple[Hummock, RoundsStore]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Opens the test's store, each time with an empty cache."""
    monkeypatch.setenv("TIDELINE_VERIFY", "")  # a check reads more than what it checks
    caches = iter(range(100))

    def opened(fetches: int = 16) -> tuple[Hummock, RoundsStore]:
        counted = RoundsStore(LocalObjectStore(tmp_path / "store"))
        cache = tmp_path / f"cache {next(caches)}"
        url = (tmp_path / "store").as_uri()
        options = {"cache_dir": cache, "auto_compact": "off", "fetches": fetches}
        return Hummock.open(url, object_store=counted, **options), counted  # type: ignore[arg-type]

    return opened


@pytest.fixture(params=[["g"], None], ids=["distributed", "ordered"])
def table(make: Made, request: pytest.FixtureRequest) -> Table:
    """A table of twelve files, each with a row of its own in each of ten groups, and a row that all of them write."""
    store, _ = make()
    made = store.create_table("t", SCHEMA, ["g", "n"], request.param)
    for step in range(FILES):
        store.ingest_batch({made: Put(rows([(g, n, str(step)) for g in range(10) for n in (step, 99)]))})
    return made


def rows(values: list[tuple[int, int, str]]) -> pa.Table:
    return pa.table([pa.array(column) for column in zip(*values, strict=True)], schema=SCHEMA)


def keys(*values: tuple[int, int]) -> pa.Table:
    return pa.table([pa.array(column, pa.int64()) for column in zip(*values, strict=True)], names=["g", "n"])


READS: dict[str, Callable[[Hummock], object]] = {
    "keys that no file has": lambda s: s.multi_get("t", keys((3, 55), (4, 56))),
    "keys of the oldest file": lambda s: s.multi_get("t", keys((3, 0), (4, 0))),
    "a key's rows": lambda s: list(s.iter("t", prefix={"g": 3})),
    "a key's first row": lambda s: s.reader.find_first_rows(
        s.version.tables["t"], pa.table({"g": [3]}), s.version.tables["t"].committed_epoch, columns=["v"]
    ),
    "a range": lambda s: list(s.iter("t", range=({"g": 3, "n": 2}, {"g": 3, "n": 8}))),
    "all rows": lambda s: list(s.iter("t")),
    "the changes": lambda s: list(s.iter_log("t", s.version.tables["t"].log[0].epoch)),
}


@pytest.mark.parametrize("read", mark_rest_long(READS, keep=3))
def test_twelve_cold_files_take_three_rounds_at_most(make: Made, table: Table, read: str) -> None:
    store, counted = make()
    with counted.counted():
        READS[read](store)
    assert counted.counts["get"] >= FILES - 1
    assert counted.rounds <= 3


@pytest.mark.parametrize("read", READS)
def test_files_that_are_here_are_not_asked_for(make: Made, table: Table, read: str) -> None:
    store, counted = make()
    before = READS[read](store)
    counted.reset()
    assert READS[read](store) == before
    assert not counted.counts["get"]


def test_a_key_that_the_newest_file_has_asks_for_few_others(make: Made, table: Table) -> None:
    store, counted = make()
    with counted.counted():
        assert store.get("t", {"g": 3, "n": 99}) == {"g": 3, "n": 99, "v": str(FILES - 1)}
    assert counted.rounds == 1
    assert counted.counts["get"] <= 4


def test_of_files_that_do_not_fit_into_memory_together_few_are_fetched_at_a_time(
    make: Made, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, counted = make()
    largest = max(sst.size for sst in store.version.tables["t"].live_ssts)
    monkeypatch.setattr("engine.hummock.reads.look_ahead.FETCHED_BYTES", 3 * largest)
    with counted.counted():
        list(store.iter("t"))
    assert counted.rounds == FILES / 3


def test_a_scan_fetches_what_its_first_rows_need_and_then_the_rest(
    make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = make()
    made = store.create_table("t", SCHEMA, ["g", "n"], ["g"])
    by_hash = np.argsort(xxhash64([pa.array(range(1_200), pa.int64())]))
    for some in np.array_split(by_hash, FILES):
        store.ingest_batch({made: Put(rows([(int(g), 0, "") for g in some]))})
    monkeypatch.setattr("engine.hummock.reads.merge.MERGE_ROWS", 100)
    store, counted = make()
    with counted.counted():
        scan = store.iter("t")
        next(scan)
        assert counted.counts["get"] <= 2
        assert sum(batch.num_rows for batch in scan) > 1_000
    assert counted.rounds <= 3


@pytest.fixture
def row_groups_of_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sst", "file_set"):
        monkeypatch.setattr(f"engine.hummock.sorted_files.{module}.ROW_GROUP_ROWS", 100)
    monkeypatch.setattr("engine.hummock.sorted_files.file_set.SMALL_BYTES", 0)


def test_row_groups_of_cold_files_are_fetched_at_the_same_time(
    make: Made, row_groups_of_a_hundred: None
) -> None:
    store, _ = make()
    made = store.create_table("t", SCHEMA, ["g", "n"])
    values = [random.Random(g).randbytes(100).hex() for g in range(2_400)]  # so much that reads leave gaps
    for step in range(3):
        store.ingest_batch({made: Put(rows([(g, step, value) for g, value in enumerate(values)]))})
    store, counted = make()
    wanted = keys(*((g, 0) for g in (50, 850, 1_650, 2_350)))
    with counted.counted():
        found = store.multi_get("t", wanted).column("v").to_pylist()
    assert found == [values[g] for g in (50, 850, 1_650, 2_350)]
    assert counted.counts["get"] == 3 * (1 + 4)
    assert counted.rounds == 2


def test_a_missing_file_is_told_by_the_read_that_needs_it_alone(make: Made, table: Table) -> None:
    store, counted = make()
    oldest, next_to_newest = (store.version.tables["t"].log[at].ssts[0].path for at in (0, -2))
    counted.inner.delete([oldest, next_to_newest])
    assert store.get("t", {"g": 3, "n": 99}) is not None
    for at, read in ((next_to_newest, {"g": 3, "n": 10}), (next_to_newest, {"g": 3, "n": 55})):
        with pytest.raises(CorruptObject, match=f"{at} is missing"):
            store.get("t", read)


def test_reads_at_a_time_are_those_one_after_another(make: Made) -> None:
    chance = random.Random(7)
    store, _ = make()
    tables = [
        store.create_table(f"t{n}", SCHEMA, ["g", "n"], key) for n, key in enumerate((["g"], None, ["n"]))
    ]
    for _ in range(30):
        some = [(chance.randrange(20), chance.randrange(9), str(chance.random())) for _ in range(40)]
        gone = pa.table({"g": [chance.randrange(20)], "n": [chance.randrange(9)]})
        made = chance.choice(tables)
        store.ingest_batch({made: [Put(rows(list({row[:2]: row for row in some}.values()))), Delete(gone)]})
        if chance.random() < 0.1:
            store.compact_l0(made)
    for made in tables:
        for read in range(8):
            wanted = keys(*((chance.randrange(25), chance.randrange(12)) for _ in range(1 + 5 * read)))
            one, many = (_all_reads(make(fetches)[0], made, wanted) for fetches in (1, 16))
            assert one == many


def _all_reads(store: Hummock, table: Table, wanted: pa.Table) -> list[object]:
    version = store.version.tables[table.name]
    at, start = version.committed_epoch, version.log[0].epoch if version.log else version.committed_epoch
    found: list[object] = [store.multi_get(table, wanted)]
    for fresh in (wanted.select(["g"]), wanted.select(["n"]), wanted):
        if set(table.distribution_key or ["g"]) <= set(fresh.column_names):
            index, rows = store.reader.lookup(version, fresh, at)
            found += [index.tolist(), rows]
    if table.distribution_key != ("n",):
        index, rows = store.reader.find_first_rows(version, wanted.select(["g"]), at, columns=["n", "v"])
        found += [index.tolist(), rows]
    found += [pa.Table.from_batches(store.iter(table), SCHEMA), list(store.iter_log(table, start))]
    return found
