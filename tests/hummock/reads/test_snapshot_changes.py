"""What changed between two epochs is the same by the change log, by both snapshots, and row by row by each key's history."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import EpochExpired
from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import Full, Tier
from engine.hummock.epoch import epoch_at
from engine.hummock.reads import merge
from engine.hummock.reads.snapshot_changes import is_log_too_long
from engine.log_store.changes import Changes
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import MovableClock, rows
from tests.hummock.dated import TimedObjectStore

SCHEMA = pa.schema(
    [
        ("d", pa.float64()),
        ("k", pa.string()),
        ("v", pa.float64()),
        ("w", pa.list_(pa.int32())),
        ("h", pa.int64()),
    ]
)
SHOWN = ["d", "k", "v", "w"]
VALUES = [None, math.nan, 0.0, -0.0, 1.5]
KEYS = [(d, k) for d in VALUES for k in (None, "a", "b", "c")]


def normalize(value: Any) -> Any:
    """A value as the store tells it apart: NaN is one, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def normalize_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row as the store tells it apart: of values, but for the key's, the sign of a zero counts."""
    d, k, v, w = (row[name] for name in SHOWN)
    return normalize(d), normalize(k), repr(v), normalize(w)


def read(store: Hummock, table: str, epoch: int) -> dict[Any, tuple[Any, ...]]:
    """The rows at an epoch by key, without the hidden column."""
    found = [row for batch in store.iter(table, epoch=epoch) for row in batch.to_pylist()]
    return {normalize_row(row)[:2]: normalize_row(row) for row in found}


def write_random(store: Hummock, draw: random.Random) -> int:
    """Write some puts and deletions in one commit, many of them back to what was there; the epoch."""
    some = draw.sample(KEYS, draw.randint(1, 8))
    puts = [
        {
            "d": d,
            "k": k,
            "v": draw.choice(VALUES),
            "w": draw.choice([None, [], [1, 2]]),
            "h": draw.randint(0, 9),
        }
        for d, k in some
    ]
    gone = draw.sample(KEYS, draw.randint(0, 4))
    deletes = {
        "d": pa.array([d for d, _ in gone], pa.float64()),
        "k": pa.array([k for _, k in gone], pa.string()),
    }
    operations = [
        Put(pa.Table.from_pylist(list({normalize_row(row)[:2]: row for row in puts}.values()), SCHEMA))
    ]
    different = pa.table(deletes).take(
        pa.array(sorted({tuple(map(normalize, key)): at for at, key in enumerate(gone)}.values()), pa.int64())
    )
    return store.ingest_batch({"t": [*operations, Delete(different)]})


@pytest.fixture(scope="module", params=["distributed", "ordered"])
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Hummock, list[int]]]:
    """A table that was written at random, compacted in between, and its epochs."""
    folder = tmp_path_factory.mktemp("history")
    draw = random.Random(request.param)
    with Hummock.open((folder / "s").as_uri(), cache_dir=folder / "c", auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["d", "k"], ["k"] if request.param == "distributed" else None)
        epochs = []
        for step in range(10):
            epochs.append(write_random(store, draw))
            if step in (3, 7):
                store.compact("t", Full() if step == 3 else Tier())
        yield store, epochs


def list_changes(store: Hummock, after: int, upto: int, by: Any) -> list[tuple[Any, ...]]:
    """The operation, the new and the old row of each change in their order."""
    found = []
    for change in store.reader.compare(store.version.tables["t"], after, upto, columns=SHOWN, by=by):
        changes = Changes.of(change, SHOWN)
        words = changes.name_operations().to_pylist()
        for word, new, old in zip(words, changes.rows.to_pylist(), changes.old.to_pylist(), strict=True):
            found.append((word, normalize_row(new), None if word == "insert" else normalize_row(old)))
    return found


def compare_models(before: dict[Any, Any], now: dict[Any, Any]) -> set[tuple[Any, ...]]:
    """The changes between the rows of two epochs."""
    return (
        {("insert", now[key], None) for key in now.keys() - before.keys()}
        | {("delete", before[key], before[key]) for key in before.keys() - now.keys()}
        | {("update", now[key], before[key]) for key in now.keys() & before.keys() if now[key] != before[key]}
    )


@pytest.mark.parametrize("small", [False, True])
def test_the_log_and_the_snapshots_tell_the_same_changes_in_the_same_order(
    history: tuple[Hummock, list[int]], small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, epochs = history
    if small:  # so that the two snapshots are cut at different hashes
        monkeypatch.setattr(merge, "MERGE_ROWS", 3)
    contents = {epoch: read(store, "t", epoch) for epoch in [0, *epochs]}
    pairs = [*itertools.combinations_with_replacement([0, *epochs], 2)]
    for after, upto in random.Random(small).sample(pairs, 6):
        by_log = list_changes(store, after, upto, "log")
        assert (
            by_log == list_changes(store, after, upto, "snapshots") == list_changes(store, after, upto, None)
        )
        assert len(by_log) == len(set(by_log))
        assert set(by_log) == compare_models(contents[after], contents[upto])


def test_rows_are_counted_at_every_epoch(history: tuple[Hummock, list[int]]) -> None:
    store, epochs = history
    table = store.version.tables["t"]
    counts = [store.reader.count_rows(table, epoch) for epoch in [0, *epochs]]
    assert counts == [len(read(store, "t", epoch)) for epoch in [0, *epochs]] and len(set(counts)) > 5


def test_the_history_of_a_key_is_what_it_is_at_each_epoch(history: tuple[Hummock, list[int]]) -> None:
    store, epochs = history
    table = store.version.tables["t"]
    contents = {epoch: read(store, "t", epoch) for epoch in [0, *epochs]}
    for d, k in KEYS[::2]:
        key = pa.table({"d": pa.array([d], pa.float64()), "k": pa.array([k], pa.string())})
        found = store.reader.read_key_history(table, key, (0, epochs[-1]), columns=SHOWN)
        rows = found.rows.to_pylist()
        assert [state.epoch for state in found.states] == sorted({state.epoch for state in found.states})
        for epoch in [0, *epochs]:
            state = [one for one in found.states if one.epoch <= epoch][-1]
            shown = None if state.row is None else normalize_row(rows[state.row])
            assert shown == contents[epoch].get((normalize(d), normalize(k))), (d, k, epoch)


def test_what_is_not_kept_any_more_is_refused(
    open_store: Callable[..., Hummock], clock: MovableClock
) -> None:
    with open_store(auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["d", "k"])
        first, last = (write_random(store, random.Random(n)) for n in (1, 2))
        store.compact("t")
        clock.added += 3600
        store.gc()
        table = store.refresh().tables["t"]
        assert table.safe_epoch == last
        for by in ("log", "snapshots"):
            with pytest.raises(EpochExpired):
                list_changes(store, first, last, by)
        key = pa.table({"d": pa.array([1.5]), "k": pa.array(["a"])})
        found = store.reader.read_key_history(table, key, (0, last), columns=SHOWN)
        assert found.known_from == last and len(found.states) == 1


@pytest.mark.parametrize("kind", ["ttl", "watermark"])
def test_rows_that_hide_by_themselves_are_told_with_the_reason(tmp_path: Path, kind: str) -> None:
    clock, url = ManualClock(), (tmp_path / "s").as_uri()
    objects = TimedObjectStore(url, clock)
    options: Any = {"ttl_seconds": 100} if kind == "ttl" else {"watermark_column": "h"}
    with Hummock.open(
        url, object_store=objects, clock=clock, cache_dir=tmp_path / "c", auto_compact="off"
    ) as store:
        made: Table = store.create_table("t", SCHEMA, ["d", "k"], ["k"], **options)
        rows = pa.table(
            {"d": [1.0, 2.0], "k": ["a", "b"], "v": [1.0, 2.0], "w": [None, [1]], "h": [1, 20]}, SCHEMA
        )
        first = store.ingest_batch({made: Put(rows)})
        clock.sleep(90)
        store.ingest_batch({made: Put(rows.slice(1))})
        clock.sleep(20)
        last = epoch_at(clock()) if kind == "ttl" else store.set_watermark(made, 10)
        table = store.refresh().tables["t"]
        assert [change[:2] for change in list_changes(store, first, last, None)] == [
            ("delete", (1.0, "a", "1.0", None))
        ]
        assert [store.reader.count_rows(table, epoch) for epoch in (first, last)] == [2, 1]
        found = store.reader.read_key_history(
            table, rows.slice(0, 1).select(["d", "k"]), (0, last), columns=SHOWN
        )
        assert [state.row for state in found.states] == [None, 0, None]
        assert found.states[-1].cause == ("time to live" if kind == "ttl" else "watermark")
        gone = found.states[-1].epoch
        assert read(store, "t", gone - 1).keys() - read(store, "t", gone).keys() == {(1.0, "a")}


def test_one_row_is_found_by_the_files_that_may_hold_it(tmp_path: Path) -> None:
    with Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["d", "k"], ["k"])
        numbers = np.arange(3000)
        text = pa.array(numbers).cast(pa.string())
        rows = pa.table(
            {
                "d": numbers / 1.0,
                "k": text,
                "v": numbers / 2.0,
                "w": pa.nulls(3000, pa.list_(pa.int32())),
                "h": numbers,
            }
        )
        store.ingest_batch({"t": Put(rows.cast(SCHEMA))})
        for n in range(5):
            store.ingest_batch({"t": Put(rows.slice(n, 1).cast(SCHEMA))})
        reads = store.reader.files.counters.values
        before = reads().get("cache_hits", 0) + reads().get("cache_misses", 0)
        key = rows.slice(2999, 1).select(["d", "k"])
        found = store.reader.read_key_history(
            store.version.tables["t"], key, (0, store.version.epoch), columns=["v"]
        )
        assert found.rows.to_pylist() == [{"v": 1499.5}]
        assert reads().get("cache_hits", 0) + reads().get("cache_misses", 0) - before <= 2


def test_a_log_that_is_longer_than_both_snapshots_is_not_read(store: Hummock, table: Table) -> None:
    first = store.ingest_batch({table: Put(rows({number: "a" for number in range(50)}))})
    store.ingest_batch({table: Put(rows({1: "b"}))})
    assert not is_log_too_long(store.version.tables["t"], first, store.version.epoch)
    for text in "bcdef":
        last = store.ingest_batch({table: Put(rows({number: text for number in range(50)}))})
    store.compact(table)
    version = store.version.tables["t"]
    assert is_log_too_long(version, first, last)
    before = store.reader.files.counters.values().get("lookups", 0)
    found = [change.rows.num_rows for change in store.reader.compare(version, first, last, columns=["v"])]
    assert found == [50] and store.reader.files.counters.values().get("lookups", 0) == before
